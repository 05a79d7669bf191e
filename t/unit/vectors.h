/*
 * vectors.h - reads the files that tools/tokenizer-vectors.py writes: a line
 * that names the tokenizer.json they are for, then one of fields and tabs for
 * each case.
 */

#ifndef HYMT_VECTORS_H
#define HYMT_VECTORS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>


typedef struct {
    const char  *path;
    FILE        *file;
    char        *line;
    size_t       size;
    unsigned     number;
} vectors_t;


static inline void
vectors_die(const char *path, const char *what)
{
    printf("Bail out! %s: %s\n", path, what);
    exit(1);
}


/* Ends the program where the file is missing or for another tokenizer. */
static inline void
vectors_open(vectors_t *v, const char *path)
{
    char         name[256];
    long         bytes;
    struct stat  st;

    memset(v, 0, sizeof(*v));
    v->path = path;
    v->file = fopen(path, "r");

    if (v->file == NULL || getline(&v->line, &v->size, v->file) <= 0
        || sscanf(v->line, "# %255s %ld", name, &bytes) != 2)
    {
        vectors_die(path, "can't be read");
    }

    if (stat(name, &st) != 0 || st.st_size != (off_t) bytes) {
        vectors_die(path, "made for another tokenizer.json: run"
                    " tools/tokenizer-vectors.py --write and --prompts");
    }

    v->number = 1;
}


/* The next line, cut into n fields; false at the end. */
static inline bool
vectors_next(vectors_t *v, char **fields, int n)
{
    int      i;
    char    *p;
    ssize_t  len;

    len = getline(&v->line, &v->size, v->file);

    if (len <= 0) {
        free(v->line);
        fclose(v->file);
        return false;
    }

    v->number++;
    v->line[len - 1] = '\0';

    for (i = 0, p = v->line; i < n; i++) {
        fields[i] = p;
        p += strcspn(p, "\t");

        if ((*p == '\0') != (i == n - 1)) {
            vectors_die(v->path, "a line with another number of fields");
        }

        *p++ = '\0';
    }

    return true;
}


/* hexadecimal to bytes, in place; returns how many */
static inline size_t
vectors_bytes(char *hex)
{
    unsigned   byte;
    size_t     n;

    for (n = 0; sscanf(hex + 2 * n, "%2x", &byte) == 1; n++) {
        hex[n] = (char) byte;
    }

    return n;
}


/* true where text is the ids, with one space between */
static inline bool
vectors_equal(const char *text, const uint32_t *ids, size_t n)
{
    char    *end;
    size_t   i;

    for (i = 0; i < n && *text != '\0'; i++) {
        if (strtoul(text, &end, 10) != ids[i]) {
            return false;
        }

        text = *end == ' ' ? end + 1 : end;
    }

    return i == n && *text == '\0';
}


#endif /* HYMT_VECTORS_H */
