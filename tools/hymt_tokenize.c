/*
 * hymt_tokenize.c - hymt tokenize: lines of text to token ids and back.
 */

#include "hymt.h"
#include "prompt.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


/* A normaliser may make eleven bytes of one, and each byte is one token. */
#define HYMT_TOKENS_A_BYTE  11

/* An instruction and a chat template around the text. */
#define HYMT_PROMPT_TOKENS  4096


typedef struct {
    bool                decode;
    bool                prompt;
    const char         *from;
    const char         *to;
    const char         *dir;

    int                 src;        /* languages, for prompts */
    int                 tgt;

    hymt_tokenizer_t   *tok;
    hymt_encoder_t     *enc;
    hymt_prompter_t    *prompter;

    uint32_t           *ids;        /* [cap] */
    size_t              cap;
} hymt_tokenize_t;


static int hymt_tokenize(int argc, char **argv);
static int hymt_tokenize_options(hymt_tokenize_t *t, int argc, char **argv);
static int hymt_tokenize_open(hymt_tokenize_t *t);
static int hymt_tokenize_prompter(hymt_tokenize_t *t);
static int hymt_tokenize_language(const char *name, hymt_lang_set_t set,
    int *lang);
static int hymt_tokenize_lines(hymt_tokenize_t *t);
static hymt_status_t hymt_tokenize_line(hymt_tokenize_t *t, const char *text,
    size_t len, hymt_error_t *err);
static hymt_status_t hymt_detokenize_line(hymt_tokenize_t *t, char *line,
    size_t len, hymt_error_t *err);
static hymt_status_t hymt_detokenize_id(hymt_tokenize_t *t, hymt_detok_t *d,
    uint32_t id, hymt_error_t *err);


const hymt_command_t  hymt_command_tokenize = {
    "tokenize",
    "lines of text to token ids, and back",
    "tokenize MODEL [--prompt --to LANG [--from LANG]]\n"
    "       hymt tokenize MODEL --decode\n"
    "\n"
    "Reads lines from stdin and writes a line for each: the token ids of its\n"
    "text, without the newline.  Added tokens never match in the text:\n"
    "\"<|eos|>\" in it is text.\n"
    "\n"
    "  --prompt      the ids of the whole prompt that translates the text\n"
    "  --to LANG     into this language: a code (zh, pt-BR) or a name\n"
    "  --from LANG   from this language; it may be left out\n"
    "  --decode      the other way: lines of ids to text.  Special tokens\n"
    "                give nothing; a newline in the text is a newline in the\n"
    "                output\n"
    "\n"
    "A line that can't be done is named on stderr and makes the exit status\n"
    "1; it gives an empty line, or what came before the fault in --decode.\n",
    hymt_tokenize
};


static int
hymt_tokenize(int argc, char **argv)
{
    int              status;
    hymt_tokenize_t  t;

    memset(&t, 0, sizeof(t));

    status = hymt_tokenize_options(&t, argc, argv);

    if (status == HYMT_EXIT_OK) {
        status = hymt_tokenize_open(&t);
    }

    if (status == HYMT_EXIT_OK) {
        status = hymt_tokenize_lines(&t);
    }

    free(t.ids);
    hymt_prompter_free(t.prompter);
    hymt_encoder_free(t.enc);
    hymt_tokenizer_free(t.tok);

    return status;
}


static int
hymt_tokenize_options(hymt_tokenize_t *t, int argc, char **argv)
{
    int  c;

    static const struct option  options[] = {
        { "decode", no_argument, NULL, 'd' },
        { "from", required_argument, NULL, 'f' },
        { "prompt", no_argument, NULL, 'p' },
        { "to", required_argument, NULL, 't' },
        { NULL, 0, NULL, 0 },
    };

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {

        case 'd':
            t->decode = true;
            break;

        case 'f':
            t->from = optarg;
            break;

        case 'p':
            t->prompt = true;
            break;

        case 't':
            t->to = optarg;
            break;

        default:
            return HYMT_EXIT_USAGE;
        }
    }

    if (argc - optind != 1) {
        return hymt_usage(&hymt_command_tokenize, "one MODEL is needed");
    }

    if (t->decode && t->prompt) {
        return hymt_usage(&hymt_command_tokenize,
                          "--decode and --prompt exclude each other");
    }

    if (t->prompt != (t->to != NULL) || (t->from != NULL && !t->prompt)) {
        return hymt_usage(&hymt_command_tokenize,
                          "--prompt needs --to, and --to and --from need"
                          " --prompt");
    }

    t->dir = argv[optind];

    return HYMT_EXIT_OK;
}


static int
hymt_tokenize_open(hymt_tokenize_t *t)
{
    hymt_error_t  err;

    if (hymt_tokenizer_load(t->dir, &t->tok, &err) != HYMT_OK
        || hymt_encoder_create(t->tok, &t->enc, &err) != HYMT_OK)
    {
        return hymt_failed(&hymt_command_tokenize, "%s", err.text);
    }

    return t->prompt ? hymt_tokenize_prompter(t) : HYMT_EXIT_OK;
}


static int
hymt_tokenize_prompter(hymt_tokenize_t *t)
{
    int                    status;
    bool                   guessed;
    hymt_error_t           err;
    hymt_config_t          config;
    hymt_prompt_params_t   params;

    memset(&params, 0, sizeof(params));

    if (hymt_config_read(t->dir, &config, &err) != HYMT_OK
        || hymt_prompt_detect(t->dir, &config, &params, &guessed, &err)
           != HYMT_OK
        || hymt_prompter_create(t->tok, &config, &params, &t->prompter, &err)
           != HYMT_OK)
    {
        return hymt_failed(&hymt_command_tokenize, "%s", err.text);
    }

    t->src = HYMT_LANG_NONE;

    status = hymt_tokenize_language(t->to, params.languages, &t->tgt);

    if (status == HYMT_EXIT_OK && t->from != NULL) {
        status = hymt_tokenize_language(t->from, params.languages, &t->src);
    }

    return status;
}


static int
hymt_tokenize_language(const char *name, hymt_lang_set_t set, int *lang)
{
    char  list[2048];

    *lang = hymt_lang_find(name, strlen(name));

    if (*lang != HYMT_LANG_NONE && (set >> *lang & 1) != 0) {
        return HYMT_EXIT_OK;
    }

    (void) hymt_lang_list(set, list, sizeof(list));

    return hymt_usage(&hymt_command_tokenize, "this model has no language"
                      " \"%s\"; it has %s", name, list);
}


static int
hymt_tokenize_lines(hymt_tokenize_t *t)
{
    int             status;
    char           *line;
    size_t          size, number;
    ssize_t         len;
    hymt_error_t    err;
    hymt_status_t   rc;

    line = NULL;
    size = 0;
    status = HYMT_EXIT_OK;

    for (number = 1; (len = getline(&line, &size, stdin)) > 0; number++) {

        if (line[len - 1] == '\n') {
            line[--len] = '\0';
        }

        rc = t->decode ? hymt_detokenize_line(t, line, (size_t) len, &err)
                       : hymt_tokenize_line(t, line, (size_t) len, &err);
        putchar('\n');

        if (rc != HYMT_OK) {
            status = hymt_failed(&hymt_command_tokenize, "line %zu: %s",
                                 number, err.text);
        }
    }

    free(line);

    if (ferror(stdin)) {
        return hymt_failed(&hymt_command_tokenize, "can't read stdin: %s",
                           strerror(errno));
    }

    return hymt_flush(&hymt_command_tokenize) == HYMT_EXIT_OK
           ? status : HYMT_EXIT_FAILED;
}


static hymt_status_t
hymt_tokenize_line(hymt_tokenize_t *t, const char *text, size_t len,
    hymt_error_t *err)
{
    size_t                  i, n, n_text, cap;
    uint32_t               *ids;
    hymt_status_t           rc;
    hymt_prompt_request_t   request;

    cap = len * HYMT_TOKENS_A_BYTE + HYMT_PROMPT_TOKENS;

    if (cap > t->cap) {
        ids = realloc(t->ids, cap * sizeof(uint32_t));
        if (ids == NULL) {
            return hymt_fail(err, "no memory for %zu tokens", cap);
        }

        t->ids = ids;
        t->cap = cap;
    }

    memset(&request, 0, sizeof(request));
    request.src = t->src;
    request.tgt = t->tgt;
    request.text = text;
    request.len = len;

    rc = t->prompt
         ? hymt_prompt_build(t->prompter, t->enc, &request, t->ids, t->cap, &n,
                             &n_text, err)
         : hymt_encode(t->enc, text, len, t->ids, t->cap, &n, err);

    for (i = 0; rc == HYMT_OK && i < n; i++) {
        printf("%s%" PRIu32, i ? " " : "", t->ids[i]);
    }

    return rc;
}


static hymt_status_t
hymt_detokenize_line(hymt_tokenize_t *t, char *line, size_t len,
    hymt_error_t *err)
{
    char           *p, *end, tail[16];
    size_t          n;
    hymt_detok_t    d;
    unsigned long   id;

    hymt_detok_init(&d);

    for (p = line; /* void */ ; p = end) {
        p += strspn(p, " \t\r");

        if (p == line + len) {
            break;
        }

        errno = 0;
        id = *p >= '0' && *p <= '9' ? strtoul(p, &end, 10) : ULONG_MAX;

        if (id >= hymt_tokenizer_size(t->tok)) {
            return hymt_fail(err, "\"%.*s\" is not an id below %" PRIu32,
                             (int) hymt_min(strcspn(p, " \t\r"), 20), p,
                             hymt_tokenizer_size(t->tok));
        }

        if (hymt_detokenize_id(t, &d, (uint32_t) id, err) != HYMT_OK) {
            return HYMT_ERROR;
        }
    }

    if (hymt_detok_end(&d, tail, sizeof(tail), &n) == HYMT_OK) {
        fwrite(tail, 1, n, stdout);
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_detokenize_id(hymt_tokenize_t *t, hymt_detok_t *d, uint32_t id,
    hymt_error_t *err)
{
    char        *out;
    size_t       n, cap;
    uint32_t     len;
    const char  *bytes;

    if (!hymt_tokenizer_bytes(t->tok, id, &bytes, &len)) {
        return HYMT_OK;
    }

    cap = 3 * ((size_t) len + 4);

    out = malloc(cap);
    if (out == NULL) {
        return hymt_fail(err, "no memory for %zu bytes", cap);
    }

    if (hymt_detok_push(t->tok, d, id, out, cap, &n) == HYMT_OK) {
        fwrite(out, 1, n, stdout);
    }

    free(out);

    return HYMT_OK;
}
