/*
 * fingerprint.c - see fingerprint.h.
 */

#include "fingerprint.h"
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


#define HYMT_FINGERPRINT_CHUNK  65536


static int hymt_fingerprint_wanted(const struct dirent *entry);
static int hymt_fingerprint_order(const struct dirent **a,
    const struct dirent **b);
static bool hymt_fingerprint_ends(const char *name, const char *end);
static hymt_status_t hymt_fingerprint_file(hymt_sha256_t *sha,
    const char *dir, const char *name, hymt_error_t *err);
static uint64_t hymt_fingerprint_header(hymt_file_t *file, const char *path);


hymt_status_t
hymt_fingerprint(const char *dir, unsigned char digest[HYMT_SHA256_SIZE],
    hymt_error_t *err)
{
    int              i, n;
    hymt_sha256_t    sha;
    hymt_status_t    rc;
    struct dirent  **list;

    n = scandir(dir, &list, hymt_fingerprint_wanted, hymt_fingerprint_order);

    if (n == -1) {
        return hymt_fail(err, "%s: can't read the directory: %s", dir,
                         strerror(errno));
    }

    hymt_sha256_init(&sha);
    rc = HYMT_OK;

    for (i = 0; i < n; i++) {
        if (rc == HYMT_OK) {
            rc = hymt_fingerprint_file(&sha, dir, list[i]->d_name, err);
        }

        free(list[i]);
    }

    free(list);

    if (rc == HYMT_OK) {
        hymt_sha256_final(&sha, digest);
    }

    return rc;
}


static int
hymt_fingerprint_wanted(const struct dirent *entry)
{
    return hymt_fingerprint_ends(entry->d_name, ".json")
           || hymt_fingerprint_ends(entry->d_name, ".safetensors");
}


/* not by the locale, as alphasort() */
static int
hymt_fingerprint_order(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}


static bool
hymt_fingerprint_ends(const char *name, const char *end)
{
    size_t  len;

    len = strlen(name);

    return len > strlen(end) && strcmp(name + len - strlen(end), end) == 0;
}


static hymt_status_t
hymt_fingerprint_file(hymt_sha256_t *sha, const char *dir, const char *name,
    hymt_error_t *err)
{
    char           *path, *chunk;
    size_t          part;
    uint64_t        at, n;
    hymt_file_t     file;
    hymt_status_t   rc;

    path = hymt_file_path(dir, name, err);

    if (path == NULL) {
        return HYMT_ERROR;
    }

    rc = hymt_file_open(path, &file, err);

    if (rc != HYMT_OK) {
        free(path);
        return HYMT_ERROR;
    }

    /* what follows is as long as the size says, so nothing runs together */

    hymt_sha256_update(sha, name, strlen(name) + 1);
    hymt_sha256_update(sha, &file.size, sizeof(file.size));

    n = file.size;

    if (hymt_fingerprint_ends(name, ".safetensors")) {
        hymt_sha256_update(sha, &file.mtime_ns, sizeof(file.mtime_ns));
        n = hymt_fingerprint_header(&file, path);
    }

    chunk = malloc(HYMT_FINGERPRINT_CHUNK);

    if (chunk == NULL) {
        rc = hymt_fail(err, "%s: no memory to read it", path);
    }

    for (at = 0; rc == HYMT_OK && at < n; at += part) {
        part = (size_t) hymt_min(n - at, (uint64_t) HYMT_FINGERPRINT_CHUNK);

        rc = hymt_file_pread(file.fd, path, "fingerprint", at, chunk, part,
                             err);

        if (rc == HYMT_OK) {
            hymt_sha256_update(sha, chunk, part);
        }
    }

    free(chunk);
    close(file.fd);
    free(path);

    return rc;
}


/* Its bytes, with the eight that say how many; no more than the file has. */
static uint64_t
hymt_fingerprint_header(hymt_file_t *file, const char *path)
{
    int            i;
    uint64_t       len;
    unsigned char  head[8];

    if (file->size < sizeof(head)
        || hymt_file_pread(file->fd, path, "header's length", 0, head,
                           sizeof(head), NULL)
           != HYMT_OK)
    {
        return 0;
    }

    for (len = 0, i = sizeof(head) - 1; i >= 0; i--) {
        len = len << 8 | head[i];
    }

    return hymt_min(len, file->size - sizeof(head)) + sizeof(head);
}
