/*
 * config_fuzz.c - libFuzzer on config.json and generation_config.json.
 *
 *     clang -std=c11 -D_GNU_SOURCE -O1 -g -Iengine \
 *         -fsanitize=fuzzer,address,undefined t/fuzz/config_fuzz.c \
 *         engine/base.c engine/file.c engine/config.c -ljansson -lm \
 *         -o config_fuzz
 *     ./config_fuzz -max_total_time=300 -dict=t/fuzz/config.dict CORPUS
 *
 * Input: config.json, a NUL, generation_config.json (or no NUL and none); a
 * corpus may begin with models/demo/config.json.  An accepted configuration
 * must keep what config.h promises of it.
 */

#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


static char  dir[64];


static void
remove_dir(void)
{
    char  path[128];

    snprintf(path, sizeof(path), "%s/config.json", dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/generation_config.json", dir);
    unlink(path);
    rmdir(dir);
}


static void
put(const char *name, const uint8_t *data, size_t size)
{
    char   path[128];
    FILE  *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "wb");

    if (f == NULL || fwrite(data, 1, size, f) != size || fclose(f) != 0) {
        abort();
    }
}


static void
check(const hymt_config_t *c)
{
    uint32_t  i;

    if (c->n_layers < 1 || c->n_layers > 1024
        || c->hidden < 16 || c->hidden > 65536 || c->hidden % 16
        || c->ffn < 16 || c->ffn > 1 << 20 || c->ffn % 16
        || c->n_heads < 1 || c->n_heads > 1024
        || c->n_kv_heads < 1 || c->n_heads % c->n_kv_heads
        || c->head_dim < 4 || c->head_dim > 1024 || c->head_dim % 2
        || c->vocab < 1 || c->vocab > 1 << 20
        || c->max_position < 1 || c->max_position > 1 << 24
        || !(c->rms_eps > 0 && c->rms_eps <= 1)
        || !(c->rope_base >= 1 && isfinite((float) c->rope_base))
        || c->n_stop > HYMT_MAX_STOP
        || !(c->temperature >= 0 && c->temperature <= 10)
        || !(c->top_p > 0 && c->top_p <= 1)
        || !(c->repetition_penalty >= 0.1f && c->repetition_penalty <= 10)
        || memchr(c->name_or_path, '\0', sizeof(c->name_or_path)) == NULL)
    {
        abort();
    }

    for (i = 0; i < c->n_stop; i++) {
        if (c->stop[i] >= c->vocab) {
            abort();
        }
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char            generation[128];
    size_t          len;
    hymt_error_t    err;
    const uint8_t  *nul;
    hymt_config_t   config;

    if (dir[0] == '\0') {
        strcpy(dir, "/dev/shm/hymt-fuzz-XXXXXX");

        if (mkdtemp(dir) == NULL) {
            abort();
        }

        atexit(remove_dir);
    }

    nul = memchr(data, '\0', size);
    len = nul != NULL ? (size_t) (nul - data) : size;

    put("config.json", data, len);

    if (nul != NULL) {
        put("generation_config.json", nul + 1, size - len - 1);

    } else {
        snprintf(generation, sizeof(generation), "%s/generation_config.json",
                 dir);
        unlink(generation);
    }

    err.text[0] = '\0';

    if (hymt_config_read(dir, &config, &err) == HYMT_OK) {
        check(&config);

    } else if (err.text[0] == '\0' || strpbrk(err.text, "\n\r\x1b") != NULL) {
        abort();
    }

    return 0;
}
