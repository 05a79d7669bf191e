/*
 * file.c - see file.h.
 */

#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>


typedef struct {
    char    *text;
    size_t   len;
} hymt_show_t;


static void hymt_file_printable(char *text);
static int hymt_json_show_part(const char *part, size_t size, void *data);


char *
hymt_file_path(const char *dir, const char *name, hymt_error_t *err)
{
    char    *path;
    size_t   len;

    len = strlen(dir) + 1 + strlen(name) + 1;

    path = malloc(len);
    if (path == NULL) {
        (void) hymt_fail(err, "%s/%s: no memory for the path", dir, name);
        return NULL;
    }

    snprintf(path, len, "%s/%s", dir, name);

    return path;
}


hymt_status_t
hymt_file_open(const char *path, hymt_file_t *file, hymt_error_t *err)
{
    struct stat  st;

    /* O_NONBLOCK: open() of a FIFO must not wait for its other end */

    file->fd = open(path, O_RDONLY|O_CLOEXEC|O_NONBLOCK|O_NOCTTY);

    if (file->fd == -1) {
        (void) hymt_fail(err, "%s: can't open: %s", path, strerror(errno));
        return errno == ENOENT ? HYMT_DECLINED : HYMT_ERROR;
    }

    if (fstat(file->fd, &st) == -1) {
        (void) hymt_fail(err, "%s: fstat: %s", path, strerror(errno));
        close(file->fd);
        return HYMT_ERROR;
    }

    if (!S_ISREG(st.st_mode)) {
        close(file->fd);
        return hymt_fail(err, "%s: not a regular file", path);
    }

    file->size = (uint64_t) st.st_size;
    file->mtime_ns = (uint64_t) st.st_mtim.tv_sec * 1000000000
                     + (uint64_t) st.st_mtim.tv_nsec;

    return HYMT_OK;
}


hymt_status_t
hymt_file_pread(int fd, const char *path, const char *what, uint64_t offset,
    void *dst, size_t n, hymt_error_t *err)
{
    char     *p;
    ssize_t   got;

    for (p = dst; n > 0; p += got, n -= (size_t) got) {
        got = pread(fd, p, n, (off_t) offset);

        if (got > 0) {
            offset += (uint64_t) got;
            continue;
        }

        if (got == 0) {
            return hymt_fail(err, "%s: %s: the file ends at byte %" PRIu64
                             ", %zu bytes short: was it cut or replaced while"
                             " it was read?", path, what, offset, n);
        }

        if (errno != EINTR) {
            return hymt_fail(err, "%s: %s: reading at byte %" PRIu64 ": %s",
                             path, what, offset, strerror(errno));
        }

        got = 0;
    }

    return HYMT_OK;
}


hymt_status_t
hymt_json_read(const char *path, size_t limit, json_t **root,
    hymt_error_t *err)
{
    char           *text;
    hymt_file_t     file;
    hymt_status_t   rc;

    rc = hymt_file_open(path, &file, err);
    if (rc != HYMT_OK) {
        return rc;
    }

    if (file.size == 0 || file.size > limit) {
        close(file.fd);
        return hymt_fail(err, "%s: the file has %" PRIu64 " bytes; 1 to %zu"
                         " are accepted", path, file.size, limit);
    }

    text = malloc((size_t) file.size);
    if (text == NULL) {
        close(file.fd);
        return hymt_fail(err, "%s: no memory for its %" PRIu64 " bytes", path,
                         file.size);
    }

    rc = hymt_file_pread(file.fd, path, "JSON", 0, text, (size_t) file.size,
                         err);
    close(file.fd);

    if (rc == HYMT_OK) {
        rc = hymt_json_parse(path, text, (size_t) file.size, root, err);
    }

    free(text);

    return rc;
}


hymt_status_t
hymt_json_parse(const char *path, const char *text, size_t len, json_t **root,
    hymt_error_t *err)
{
    json_error_t  error;

    *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);

    if (*root == NULL) {
        hymt_file_printable(error.text);    /* it quotes the file */

        return hymt_fail(err, "%s: line %d, column %d: %s", path, error.line,
                         error.column, error.text);
    }

    if (!json_is_object(*root)) {
        json_decref(*root);
        *root = NULL;
        return hymt_fail(err, "%s: must hold a JSON object", path);
    }

    return HYMT_OK;
}


const char *
hymt_json_show(const json_t *value, char buf[HYMT_JSON_SHOW])
{
    hymt_show_t  show;

    if (value == NULL) {
        return strcpy(buf, "nothing");
    }

    show.text = buf;
    show.len = 0;

    (void) json_dump_callback(value, hymt_json_show_part, &show,
                              JSON_ENCODE_ANY|JSON_ENSURE_ASCII|JSON_COMPACT);
    buf[show.len] = '\0';

    hymt_file_printable(buf);               /* DEL counts as ASCII */

    return buf;
}


static void
hymt_file_printable(char *text)
{
    for ( /* void */ ; *text != '\0'; text++) {
        if ((unsigned char) *text < 0x20 || *text == 0x7f) {
            *text = '?';
        }
    }
}


/*
 * Stops the dump, by its -1, as soon as the line is full.  jansson does not
 * look at every -1, so the call may come again.
 */
static int
hymt_json_show_part(const char *part, size_t size, void *data)
{
    size_t        room;
    hymt_show_t  *show;

    show = data;

    if (show->len > HYMT_JSON_SHOW - 4) {
        return -1;
    }

    room = HYMT_JSON_SHOW - 4 - show->len;

    memcpy(show->text + show->len, part, hymt_min(size, room));
    show->len += hymt_min(size, room);

    if (size <= room) {
        return 0;
    }

    memcpy(show->text + show->len, "...", 3);
    show->len += 3;

    return -1;
}
