/*
 * hymt_inspect.c - hymt inspect: what a model directory holds.
 */

#include "hymt.h"
#include "model.h"
#include "prompt.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>


#define HYMT_LAYER_TENSORS  11


/* Called for each tensor in use. */
typedef void (*hymt_tensor_visit_pt)(const hymt_tensor_t *t, void *data);

/* What the tensors add up to. */
typedef struct {
    uint64_t     n;
    uint64_t     bytes[3];      /* by dtype */
    const char  *files[16];     /* the first that differ */
    uint32_t     n_files;
} hymt_inspect_sums_t;


static int hymt_inspect(int argc, char **argv);
static void hymt_inspect_config(const hymt_model_t *model);
static void hymt_inspect_sampling(const hymt_config_t *c);
static void hymt_inspect_weights(const hymt_model_t *model);
static int hymt_inspect_text(const hymt_model_t *model);
static void hymt_inspect_prompts(const hymt_prompt_params_t *params,
    bool guessed);
static void hymt_inspect_stops(const hymt_tokenizer_t *tok,
    const uint32_t *stops, uint32_t n);
static void hymt_inspect_each(const hymt_model_t *model,
    hymt_tensor_visit_pt visit, void *data);
static void hymt_inspect_sum(const hymt_tensor_t *t, void *data);
static void hymt_inspect_print(const hymt_tensor_t *t, void *data);
static const char *hymt_inspect_count(uint64_t n, char buf[32]);


const hymt_command_t  hymt_command_inspect = {
    "inspect",
    "what a model directory holds, checked",
    "inspect MODEL [--tensors]\n"
    "\n"
    "Opens a model directory as the engine does: config.json,\n"
    "generation_config.json, hymt.json, the headers of all weights,\n"
    "tokenizer.json.  Every tensor's name, shape, type and place is checked;\n"
    "no weights are read.  Prints what was found; a fault is named on stderr\n"
    "and makes the exit status 1.\n"
    "\n"
    "  --tensors   also a line for each tensor: name, dtype, shape, offset in\n"
    "              its file, bytes, file\n",
    hymt_inspect
};


static int
hymt_inspect(int argc, char **argv)
{
    int            c, status;
    bool           tensors;
    hymt_error_t   err;
    hymt_model_t  *model;

    static const struct option  options[] = {
        { "tensors", no_argument, NULL, 't' },
        { NULL, 0, NULL, 0 },
    };

    tensors = false;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c != 't') {
            return HYMT_EXIT_USAGE;
        }

        tensors = true;
    }

    if (argc - optind != 1) {
        return hymt_usage(&hymt_command_inspect, "one MODEL is needed");
    }

    if (hymt_model_open(argv[optind], &model, &err) != HYMT_OK) {
        return hymt_failed(&hymt_command_inspect, "%s", err.text);
    }

    hymt_inspect_config(model);
    hymt_inspect_weights(model);
    status = hymt_inspect_text(model);

    if (tensors) {
        printf("\n%-48s %-5s %-16s %14s %12s  %s\n", "tensor", "dtype",
               "shape", "offset", "bytes", "file");
        hymt_inspect_each(model, hymt_inspect_print, NULL);
    }

    hymt_model_close(model);

    return hymt_flush(&hymt_command_inspect) == HYMT_EXIT_OK
           ? status : HYMT_EXIT_FAILED;
}


static void
hymt_inspect_config(const hymt_model_t *model)
{
    const hymt_config_t  *c = &model->config;

    printf("model        %s\n", model->dir);

    if (c->name_or_path[0] != '\0') {
        printf("name         %s\n", c->name_or_path);
    }

    printf("type         hunyuan_v1_dense\n");
    printf("layers       %" PRIu32 "\n", c->n_layers);
    printf("hidden       %" PRIu32 ", ffn %" PRIu32 "\n", c->hidden, c->ffn);
    printf("heads        %" PRIu32 " of %" PRIu32 ", %" PRIu32
           " for keys and values%s\n", c->n_heads, c->head_dim, c->n_kv_heads,
           c->qk_norm ? ", normalised" : "");
    printf("vocabulary   %" PRIu32 ", logits through %s\n", c->vocab,
           c->tied ? "the embedding" : "lm_head");
    printf("positions    %" PRIu32 ", rope base %.10g\n", c->max_position,
           c->rope_base);
    printf("KV           %.1f KiB a token in f32\n",
           (double) c->n_layers * c->n_kv_heads * c->head_dim * 2
           * sizeof(float) / 1024);

    hymt_inspect_sampling(c);
}


static void
hymt_inspect_sampling(const hymt_config_t *c)
{
    printf("sampling     ");

    if (c->temperature > 0) {
        printf("temperature %g, top_p %g, top_k %" PRIu32, c->temperature,
               c->top_p, c->top_k);

    } else {
        printf("greedy");
    }

    printf(", repetition_penalty %g\n", c->repetition_penalty);
}


static void
hymt_inspect_weights(const hymt_model_t *model)
{
    int                  i;
    char                 buf[32];
    uint32_t             n;
    hymt_inspect_sums_t  sums;

    memset(&sums, 0, sizeof(sums));
    hymt_inspect_each(model, hymt_inspect_sum, &sums);

    printf("parameters   %s in %" PRIu64 " tensors\n",
           hymt_inspect_count(model->n_params, buf), sums.n);
    printf("bytes        %s, in", hymt_inspect_count(model->bytes, buf));

    for (i = 0; i < 3; i++) {
        if (sums.bytes[i] == model->bytes) {
            printf(" %s", hymt_dtype_name((hymt_dtype_t) i));

        } else if (sums.bytes[i] != 0) {
            printf(" %s %s", hymt_dtype_name((hymt_dtype_t) i),
                   hymt_inspect_count(sums.bytes[i], buf));
        }
    }

    printf("\n");

    for (n = 0; n < sums.n_files; n++) {
        printf("file         %s\n", sums.files[n]);
    }
}


/* The tokenizer and the prompts: a fault here does not hide what is above. */
static int
hymt_inspect_text(const hymt_model_t *model)
{
    bool                   guessed;
    uint32_t               n;
    hymt_error_t           err;
    hymt_status_t          rc;
    const uint32_t        *stops;
    hymt_prompter_t       *prompter;
    hymt_tokenizer_t      *tok;
    hymt_prompt_params_t   params;

    memset(&params, 0, sizeof(params));
    tok = NULL;
    prompter = NULL;

    rc = hymt_prompt_detect(model->dir, &model->config, &params, &guessed,
                            &err);
    if (rc == HYMT_OK) {
        hymt_inspect_prompts(&params, guessed);
        rc = hymt_tokenizer_load(model->dir, &tok, &err);
    }

    if (rc == HYMT_OK) {
        printf("tokenizer    %" PRIu32 " tokens\n", hymt_tokenizer_size(tok));
        rc = hymt_prompter_create(tok, &model->config, &params, &prompter,
                                  &err);
    }

    if (rc == HYMT_OK) {
        stops = hymt_prompter_stops(prompter, &n);
        hymt_inspect_stops(tok, stops, n);
    }

    hymt_prompter_free(prompter);
    hymt_tokenizer_free(tok);

    return rc == HYMT_OK ? HYMT_EXIT_OK
                         : hymt_failed(&hymt_command_inspect, "%s", err.text);
}


static void
hymt_inspect_prompts(const hymt_prompt_params_t *params, bool guessed)
{
    char  list[2048];

    (void) hymt_lang_list(params->languages, list, sizeof(list));

    printf("family       %s%s\n", hymt_family_name(params->family),
           guessed ? " (a guess: nothing here tells)" : "");
    printf("languages    %s\n", list);
}


static void
hymt_inspect_stops(const hymt_tokenizer_t *tok, const uint32_t *stops,
    uint32_t n)
{
    uint32_t     i, j, len;
    const char  *bytes;

    printf("end tokens  ");

    for (i = 0; i < n; i++) {
        printf(" %" PRIu32 " ", stops[i]);

        if (!hymt_tokenizer_bytes(tok, stops[i], &bytes, &len)) {
            len = 0;
        }

        /* a terminal does what control characters say */

        for (j = 0; j < len; j++) {
            putchar((unsigned char) bytes[j] < 0x20 || bytes[j] == 0x7f
                    ? '?' : bytes[j]);
        }
    }

    printf("\n");
}


static void
hymt_inspect_each(const hymt_model_t *model, hymt_tensor_visit_pt visit,
    void *data)
{
    size_t               i;
    uint32_t             n;
    const hymt_layer_t  *l;

    visit(model->embed, data);

    for (n = 0; n < model->config.n_layers; n++) {
        l = &model->layers[n];

        const hymt_tensor_t  *all[HYMT_LAYER_TENSORS] = {
            l->input_norm, l->q, l->k, l->v, l->o, l->q_norm, l->k_norm,
            l->post_norm, l->gate, l->up, l->down,
        };

        for (i = 0; i < HYMT_LAYER_TENSORS; i++) {
            if (all[i] != NULL) {
                visit(all[i], data);
            }
        }
    }

    visit(model->norm, data);

    if (!model->config.tied) {
        visit(model->lm_head, data);
    }
}


static void
hymt_inspect_sum(const hymt_tensor_t *t, void *data)
{
    uint32_t              i;
    hymt_inspect_sums_t  *sums;

    sums = data;

    sums->n++;
    sums->bytes[t->dtype] += t->bytes;

    for (i = 0; i < sums->n_files; i++) {
        if (strcmp(sums->files[i], t->file) == 0) {
            return;
        }
    }

    if (sums->n_files < hymt_nelts(sums->files)) {
        sums->files[sums->n_files++] = t->file;
    }
}


static void
hymt_inspect_print(const hymt_tensor_t *t, void *data)
{
    char         shape[48];
    const char  *slash;

    (void) data;

    if (t->n_dims == 1) {
        snprintf(shape, sizeof(shape), "[%" PRIu64 "]", t->shape[0]);

    } else {
        snprintf(shape, sizeof(shape), "[%" PRIu64 ", %" PRIu64 "]",
                 t->shape[0], t->shape[1]);
    }

    slash = strrchr(t->file, '/');

    printf("%-48s %-5s %-16s %14" PRIu64 " %12" PRIu64 "  %s\n", t->name,
           hymt_dtype_name(t->dtype), shape, t->offset, t->bytes,
           slash != NULL ? slash + 1 : t->file);
}


/* 1791080448 as "1,791,080,448" */
static const char *
hymt_inspect_count(uint64_t n, char buf[32])
{
    int    digits;
    char  *p;

    p = buf + 31;
    *p = '\0';
    digits = 0;

    do {
        if (digits > 0 && digits % 3 == 0) {
            *--p = ',';
        }

        *--p = (char) ('0' + n % 10);
        n /= 10;
        digits++;
    } while (n > 0);

    return p;
}
