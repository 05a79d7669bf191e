/*
 * glossary_file.c - a glossary as a file:
 *
 *     hymt-glossary<tab>1
 *     name<tab>...
 *     source<tab>en
 *     target<tab>de
 *     created<tab>2021-08-03T14:16:18.329Z
 *     entries<tab>2
 *     <empty line>
 *     source term<tab>target term
 *     ...
 *
 * What is read may have been written by anybody.
 */

#include "glossary_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>


/* the fields, with the longest name */
#define HYMT_GLOSSARY_HEAD  (HYMT_GLOSSARY_NAME + 256)


static hymt_status_t hymt_glossary_file_head(int fd, const char *id,
    char *head, size_t *len, uint64_t *size,
    const hymt_glossary_limits_t *limits, hymt_error_t *err);
static bool hymt_glossary_file_fields(char *head, hymt_glossary_info_t *info,
    size_t *end);
static char *hymt_glossary_file_field(char **at, const char *name);
static bool hymt_glossary_file_created(const char *created);
static bool hymt_glossary_file_pread(int fd, char *to, size_t n,
    uint64_t offset);


hymt_status_t
hymt_glossary_file_text(const hymt_glossary_t *g, char **text, size_t *len,
    hymt_error_t *err)
{
    int             n;
    char           *tsv;
    char            head[HYMT_GLOSSARY_HEAD];
    size_t          tsv_len;
    hymt_status_t   rc;

    rc = hymt_glossary_tsv(g, &tsv, &tsv_len, err);
    if (rc != HYMT_OK) {
        return rc;
    }

    n = snprintf(head, sizeof(head), "hymt-glossary\t1\nname\t%s\n"
                 "source\t%s\ntarget\t%s\ncreated\t%s\nentries\t%" PRIu32
                 "\n\n", g->info.name, hymt_langs[g->info.src].code,
                 hymt_langs[g->info.tgt].code, g->info.created, g->info.n);

    *len = (size_t) n + tsv_len;
    *text = malloc(*len);

    if (*text == NULL) {
        free(tsv);
        return hymt_fail(err, "glossary: no memory for %zu bytes", *len);
    }

    memcpy(*text, head, (size_t) n);
    memcpy(*text + n, tsv, tsv_len);

    free(tsv);

    return HYMT_OK;
}


hymt_status_t
hymt_glossary_file_read(int fd, const char *id,
    const hymt_glossary_limits_t *limits, hymt_glossary_info_t *info,
    hymt_glossary_t **g, hymt_error_t *err)
{
    char                    *text;
    char                     head[HYMT_GLOSSARY_HEAD + 1];
    size_t                   len, end;
    uint64_t                 size;
    hymt_error_t             why;
    hymt_status_t            rc;
    hymt_glossary_limits_t   room;

    len = 0;
    size = 0;

    memset(info, 0, sizeof(*info));
    memcpy(info->id, id, HYMT_GLOSSARY_ID);

    rc = hymt_glossary_file_head(fd, id, head, &len, &size, limits, err);
    if (rc != HYMT_OK) {
        return rc;
    }

    if (memchr(head, '\0', len) != NULL
        || !hymt_glossary_file_fields(head, info, &end))
    {
        return hymt_fail(err, "glossary %s: the file is not a glossary: delete"
                         " or restore it", id);
    }

    if (g == NULL) {
        return HYMT_OK;
    }

    len = (size_t) (size - end);
    text = malloc(len + 1);

    if (text == NULL) {
        return hymt_fail(err, "glossary %s: no memory for %zu bytes", id, len);
    }

    if (!hymt_glossary_file_pread(fd, text, len, end)) {
        free(text);
        return hymt_fail(err, "glossary %s: reading the file: %s", id,
                         errno != 0 ? strerror(errno) : "it was cut");
    }

    room = *limits;
    room.bytes++;           /* the last line's end may not have been there */

    rc = hymt_glossary_parse(text, len, HYMT_GLOSSARY_TSV, info->src,
                             info->tgt, &room, g, &why);
    free(text);

    if (rc != HYMT_OK) {
        return hymt_fail(err, "glossary %s: %s", id, why.text);
    }

    if ((*g)->info.n != info->n) {
        (void) hymt_fail(err, "glossary %s: the file says %" PRIu32 " entries"
                         " and has %" PRIu32 ": was it cut?", id, info->n,
                         (*g)->info.n);
        hymt_glossary_unref(*g);
        return HYMT_ERROR;
    }

    (*g)->info = *info;

    return HYMT_OK;
}


/* the file's beginning, terminated, where file and size may be a glossary's */
static hymt_status_t
hymt_glossary_file_head(int fd, const char *id, char *head, size_t *len,
    uint64_t *size, const hymt_glossary_limits_t *limits, hymt_error_t *err)
{
    struct stat  st;

    if (fstat(fd, &st) == -1) {
        return hymt_fail(err, "glossary %s: fstat: %s", id, strerror(errno));
    }

    if (!S_ISREG(st.st_mode)) {
        return hymt_fail(err, "glossary %s: not a regular file: delete it", id);
    }

    *size = (uint64_t) st.st_size;

    if (*size > limits->bytes + HYMT_GLOSSARY_HEAD + 1) {
        return hymt_fail(err, "glossary %s: the file has %" PRIu64 " bytes, %"
                         PRIu64 " of entries are allowed", id, *size,
                         limits->bytes);
    }

    *len = (size_t) hymt_min(*size, (uint64_t) HYMT_GLOSSARY_HEAD);

    if (!hymt_glossary_file_pread(fd, head, *len, 0)) {
        return hymt_fail(err, "glossary %s: reading the file: %s", id,
                         errno != 0 ? strerror(errno) : "it was cut");
    }

    head[*len] = '\0';

    return HYMT_OK;
}


/* *end: where the entries begin */
static bool
hymt_glossary_file_fields(char *head, hymt_glossary_info_t *info, size_t *end)
{
    char           *at, *field, *stop;
    unsigned long   n;

    at = head;

    field = hymt_glossary_file_field(&at, "hymt-glossary");
    if (field == NULL || strcmp(field, "1") != 0) {
        return false;
    }

    field = hymt_glossary_file_field(&at, "name");
    if (field == NULL || strlen(field) > HYMT_GLOSSARY_NAME
        || !hymt_utf8_check(field, strlen(field), NULL)
        || !hymt_glossary_printable(field, strlen(field)))
    {
        return false;
    }

    strcpy(info->name, field);

    field = hymt_glossary_file_field(&at, "source");
    info->src = field == NULL ? HYMT_LANG_NONE
                              : hymt_lang_find(field, strlen(field));

    field = hymt_glossary_file_field(&at, "target");
    info->tgt = field == NULL ? HYMT_LANG_NONE
                              : hymt_lang_find(field, strlen(field));

    field = hymt_glossary_file_field(&at, "created");
    if (field == NULL || !hymt_glossary_file_created(field)) {
        return false;
    }

    strcpy(info->created, field);

    field = hymt_glossary_file_field(&at, "entries");
    if (field == NULL || field[0] < '1' || field[0] > '9') {
        return false;
    }

    errno = 0;
    n = strtoul(field, &stop, 10);

    if (errno != 0 || *stop != '\0' || n > UINT32_MAX || *at != '\n') {
        return false;
    }

    info->n = (uint32_t) n;
    *end = (size_t) (at + 1 - head);

    return info->src != HYMT_LANG_NONE && info->tgt != HYMT_LANG_NONE;
}


/* the value of the line at *at, if it is of that name; ends it with a zero */
static char *
hymt_glossary_file_field(char **at, const char *name)
{
    char    *value, *end;
    size_t   len;

    len = strlen(name);

    if (strncmp(*at, name, len) != 0 || (*at)[len] != '\t') {
        return NULL;
    }

    value = *at + len + 1;
    end = strchr(value, '\n');

    if (end == NULL) {
        return NULL;
    }

    *end = '\0';
    *at = end + 1;

    return value;
}


static bool
hymt_glossary_file_created(const char *created)
{
    size_t       i;
    const char  *form = "0000-00-00T00:00:00.000Z";

    for (i = 0; form[i] != '\0'; i++) {
        if (form[i] == '0' ? created[i] < '0' || created[i] > '9'
                           : created[i] != form[i])
        {
            return false;
        }
    }

    return created[i] == '\0';
}


/* false with errno, which is 0 where the file is short */
static bool
hymt_glossary_file_pread(int fd, char *to, size_t n, uint64_t offset)
{
    ssize_t  got;

    while (n > 0) {
        got = pread(fd, to, n, (off_t) offset);

        if (got > 0) {
            to += got;
            offset += (uint64_t) got;
            n -= (size_t) got;

        } else if (got == 0) {
            errno = 0;
            return false;

        } else if (errno != EINTR) {
            return false;
        }
    }

    return true;
}


hymt_status_t
hymt_glossary_file_write(int dir, const char *name, const char *text,
    size_t len, hymt_error_t *err)
{
    int      fd;
    size_t   at;
    ssize_t  n;

    fd = openat(dir, name, O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC|O_NOFOLLOW, 0600);

    if (fd == -1) {
        return hymt_fail(err, "glossary directory: can't make %s: %s", name,
                         strerror(errno));
    }

    for (at = 0; at < len; at += (size_t) n) {
        n = write(fd, text + at, len - at);

        if (n == -1 && errno == EINTR) {
            n = 0;

        } else if (n <= 0) {
            break;
        }
    }

    if (at < len || fsync(fd) == -1) {
        (void) hymt_fail(err, "glossary directory: writing %s: %s", name,
                         strerror(errno));
        close(fd);
        (void) unlinkat(dir, name, 0);
        return HYMT_ERROR;
    }

    close(fd);

    return HYMT_OK;
}
