/*
 * golden.h - what the tests of models/demo/golden share.
 *
 * With sanitizers, or where all of it takes too long, a test checks a part and
 * says how much; HYMT_LONG=1 without sanitizers asks for all.
 */

#ifndef HYMT_GOLDEN_H
#define HYMT_GOLDEN_H

#include "base.h"
#include "tap.h"


#define GOLDEN_MODEL    "models/demo"
#define GOLDEN_CONTEXT  512


static hymt_error_t  err;


__attribute__((noreturn))
static void
golden_die(const char *what)
{
    printf("Bail out! %s: %s\n", what, err.text);
    exit(1);
}


/* Every n-th of what there is: with sanitizers, or else `plain`. */
static uint32_t
golden_stride(uint32_t plain, uint32_t sanitized)
{
    if (TAP_SANITIZED) {
        return sanitized;
    }

    return getenv("HYMT_LONG") != NULL ? 1 : plain;
}


/* A whole file, terminated; the caller frees it. */
static char *
golden_read(const char *path, size_t *len)
{
    long   size;
    FILE  *f;
    char  *data;

    f = fopen(path, "rb");

    if (f == NULL || fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) < 0) {
        hymt_fail(&err, "cannot be read");
        golden_die(path);
    }

    rewind(f);
    data = malloc((size_t) size + 1);

    if (data == NULL || fread(data, 1, (size_t) size, f) != (size_t) size) {
        hymt_fail(&err, "cannot be read");
        golden_die(path);
    }

    fclose(f);
    data[size] = '\0';
    *len = (size_t) size;

    return data;
}


#endif /* HYMT_GOLDEN_H */
