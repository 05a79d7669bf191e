/*
 * file.h - opening and reading the files of a model directory.  Private to the
 * loader (config.c, safetensors.c, model.c).
 *
 * What lies in a model directory comes from outside: only regular files are
 * opened, sizes are known before memory is asked for, and text from a file
 * reaches a message only in a form that can't break a line of a log.
 *
 * Thread: any.
 */

#ifndef HYMT_FILE_H
#define HYMT_FILE_H

#include "base.h"

#include <jansson.h>


#define HYMT_JSON_SHOW  64


typedef struct {
    int       fd;
    uint64_t  size;
    uint64_t  mtime_ns;     /* of the last change, CLOCK_REALTIME */
} hymt_file_t;


/*
 * dir + "/" + name into a new string that the caller frees; NULL with an error
 * where there is no memory.
 */
char *hymt_file_path(const char *dir, const char *name, hymt_error_t *err);


/*
 * Opens a regular file for reading, close-on-exec.  A FIFO or a device is
 * refused without waiting for it.
 *
 * Returns HYMT_DECLINED, with an error, where there is no such file.
 */
hymt_status_t hymt_file_open(const char *path, hymt_file_t *file,
    hymt_error_t *err);


/*
 * Reads exactly n bytes at offset.  "what" names the part in messages ("tensor
 * \"x\"", "header").
 */
hymt_status_t hymt_file_pread(int fd, const char *path, const char *what,
    uint64_t offset, void *dst, size_t n, hymt_error_t *err);


/*
 * Reads a JSON object (RFC 8259, no duplicate keys) of at most limit bytes.
 * The caller owns *root.  HYMT_DECLINED as hymt_file_open().
 */
hymt_status_t hymt_json_read(const char *path, size_t limit, json_t **root,
    hymt_error_t *err);


/* The same from memory; path is for messages. */
hymt_status_t hymt_json_parse(const char *path, const char *text, size_t len,
    json_t **root, hymt_error_t *err);


/*
 * The value as one line of ASCII JSON, cut with "..." where it does not fit;
 * "nothing" for NULL.  For messages.  Returns buf.
 */
const char *hymt_json_show(const json_t *value, char buf[HYMT_JSON_SHOW]);


#endif /* HYMT_FILE_H */
