/*
 * random-model - writes a model directory with random weights in an exact
 * shape, for measurements and tests where the real weights are not at hand.
 *
 * Matrices are normal with standard deviation 0.02, norms 1 plus a tenth of a
 * normal, so that activations stay about as large as a trained model's and the
 * order of RoPE and QK-norm shows.  bf16.  A weight is a function of seed,
 * tensor and place alone: the files are the same whatever threads and shards
 * wrote them.
 *
 * The tokenizer is another model's, with made-up words for the ids that it
 * lacks: no text is encoded to them, but each that comes out is some text.
 */

#include "random_model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>


static int rm_arguments(rm_t *rm, int argc, char **argv);
static int rm_number(const char *text, uint32_t *n);
static hymt_status_t rm_write(rm_t *rm, hymt_error_t *err);


static const rm_shape_t  rm_shapes[] = {
    { "1.8B", 32, 2048, 6144, 16, 4, 120818, 1000, 262144 },
    { "7B", 32, 4096, 14336, 32, 8, 128256, 100000, 32768 },
    { "tiny", 2, 256, 640, 4, 1, 12288, 1000, 32768 },
};


static const char  rm_help[] =
    "Usage: random-model SHAPE DIR [OPTION VALUE ...]\n"
    "\n"
    "Writes the directory DIR (config.json, safetensors, tokenizer) of a\n"
    "model with random bf16 weights: SHAPE is 1.8B, 7B or tiny.\n"
    "\n"
    "  --layers N --hidden N --ffn N --heads N --kv-heads N --vocab N\n"
    "                   other figures than SHAPE's; heads are of 128\n"
    "  --tokenizer DIR  model whose tokenizer and prompts are taken:\n"
    "                   models/demo; ids it lacks get made-up words\n"
    "  --seed N         1\n"
    "  --threads N      one a core\n";


int
main(int argc, char **argv)
{
    int            rc;
    rm_t           rm;
    uint64_t       start;
    hymt_error_t   err;

    memset(&rm, 0, sizeof(rm));

    rc = rm_arguments(&rm, argc, argv);
    if (rc != 0) {
        fputs(rm_help, rc == 1 ? stdout : stderr);
        return rc == 1 ? 0 : 2;
    }

    start = hymt_now_ns();

    if (rm_write(&rm, &err) != HYMT_OK) {
        fprintf(stderr, "random-model: %s\n", err.text);
        return 1;
    }

    printf("%s: %s, %" PRIu32 " layers, vocabulary %" PRIu32 ", seed %"
           PRIu64 ": %.3f GB in %.2f s\n", rm.dir, rm.shape.name,
           rm.shape.layers, rm.shape.vocab, rm.seed, (double) rm.bytes / 1e9,
           (double) (hymt_now_ns() - start) / 1e9);

    return 0;
}


/* 0, 1 where help is asked for, 2 where they are wrong. */
static int
rm_arguments(rm_t *rm, int argc, char **argv)
{
    int       i;
    size_t    k;
    uint32_t  seed;

    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        return 1;
    }

    if (argc < 3 || argc % 2 == 0) {
        return 2;
    }

    for (k = 0; k < hymt_nelts(rm_shapes); k++) {
        if (strcmp(argv[1], rm_shapes[k].name) == 0) {
            rm->shape = rm_shapes[k];
        }
    }

    if (rm->shape.name == NULL
        || snprintf(rm->dir, sizeof(rm->dir), "%s", argv[2])
           >= (int) sizeof(rm->dir))
    {
        return 2;
    }

    rm->tokenizer = "models/demo";
    rm->threads = (uint32_t) sysconf(_SC_NPROCESSORS_ONLN);
    seed = 1;

    const struct {
        const char  *name;
        uint32_t    *value;
    }  numbers[] = {
        { "--layers", &rm->shape.layers }, { "--hidden", &rm->shape.hidden },
        { "--ffn", &rm->shape.ffn }, { "--heads", &rm->shape.heads },
        { "--kv-heads", &rm->shape.kv_heads },
        { "--vocab", &rm->shape.vocab }, { "--seed", &seed },
        { "--threads", &rm->threads },
    };

    for (i = 3; i < argc; i += 2) {

        if (strcmp(argv[i], "--tokenizer") == 0) {
            rm->tokenizer = argv[i + 1];
            continue;
        }

        for (k = 0; k < hymt_nelts(numbers); k++) {
            if (strcmp(argv[i], numbers[k].name) == 0) {
                break;
            }
        }

        if (k == hymt_nelts(numbers)
            || rm_number(argv[i + 1], numbers[k].value) != 0)
        {
            return 2;
        }
    }

    rm->seed = seed;
    rm->threads = hymt_min(rm->threads, RM_MAX_THREADS);

    return 0;
}


static int
rm_number(const char *text, uint32_t *n)
{
    char           *end;
    unsigned long   value;

    value = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || value == 0
        || value > UINT32_MAX)
    {
        return 1;
    }

    *n = (uint32_t) value;

    return 0;
}


static hymt_status_t
rm_write(rm_t *rm, hymt_error_t *err)
{
    if (mkdir(rm->dir, 0755) != 0 && errno != EEXIST) {
        return hymt_fail(err, "%s: %s", rm->dir, strerror(errno));
    }

    if (rm_plan(rm, err) != HYMT_OK || rm_texts(rm, err) != HYMT_OK) {
        return HYMT_ERROR;
    }

    return rm_weights(rm, err);
}


FILE *
rm_create(const rm_t *rm, const char *name, hymt_error_t *err)
{
    char   path[RM_PATH + 64];
    FILE  *f;

    snprintf(path, sizeof(path), "%s/%s", rm->dir, name);

    f = fopen(path, "wb");
    if (f == NULL) {
        (void) hymt_fail(err, "%s: %s", path, strerror(errno));
    }

    return f;
}


hymt_status_t
rm_close(FILE *f, const char *name, hymt_error_t *err)
{
    int  bad;

    bad = ferror(f);

    if (fclose(f) != 0 || bad) {
        return hymt_fail(err, "%s: can't be written: %s", name,
                         strerror(errno));
    }

    return HYMT_OK;
}
