/*
 * prompt_vectors_test.c - prompts as the models' cards write them, and chats,
 * with the ids that Hugging Face gives.
 */

#include "prompt_fixture.h"
#include "vectors.h"


#define MODEL  "models/demo"


/* every family, pair and awkward beginning, by transformers */
static void
test_vectors(void)
{
    char                  *field[9], shown[2048];
    size_t                 n, n_text;
    unsigned               wrong, seen;
    hymt_term_t            terms[HYMT_MAX_TERMS];
    vectors_t              v;
    hymt_error_t           err;
    hymt_config_t          config;
    hymt_encoder_t        *enc;
    hymt_prompter_t       *p;
    hymt_tokenizer_t      *tok;
    hymt_prompt_params_t   params;
    hymt_prompt_request_t  r;

    if (hymt_tokenizer_load(MODEL, &tok, &err) != HYMT_OK
        || hymt_encoder_create(tok, &enc, &err) != HYMT_OK)
    {
        fixture_die("can't load", err.text);
    }

    memset(&config, 0, sizeof(config));
    memset(&params, 0, sizeof(params));
    config.vocab = hymt_tokenizer_size(tok);

    wrong = 0;
    seen = 0;
    vectors_open(&v, "t/data/prompts.txt");

    while (vectors_next(&v, field, 9)) {
        seen++;
        n = 0;
        err.text[0] = '\0';

        (void) hymt_family_parse(field[0], strlen(field[0]), &params.family);

        if (hymt_prompter_create(tok, &config, &params, &p, &err) != HYMT_OK) {
            fixture_die("no prompter", err.text);
        }

        r = request(field[1], field[2], field[7], vectors_bytes(field[7]));
        r.terms = terms;
        r.context = field[4];
        r.context_len = vectors_bytes(field[4]);
        r.style = field[5];
        r.style_len = vectors_bytes(field[5]);
        r.formatted = field[6][0] == '1';

        if (hymt_terms_read(field[3], vectors_bytes(field[3]), terms,
                            &r.n_terms, &err)
            != HYMT_OK)
        {
            fixture_die("bad terms", err.text);
        }

        if (hymt_prompt_build(p, enc, &r, ids, MAX_IDS, &n, &n_text, &err)
            != HYMT_OK
            || !vectors_equal(field[8], ids, n))
        {
            if (wrong++ == 0) {
                printf("# line %u: got  %s%s\n# line %u: want %s\n", v.number,
                       ids_show(ids, n, shown, sizeof(shown)), err.text,
                       v.number, field[8]);
            }
        }

        hymt_prompter_free(p);
    }

    is_int(wrong, 0, "prompts with ids unlike Hugging Face's");
    ok(seen > 900, "%u prompts were compared", seen);

    hymt_encoder_free(enc);
    hymt_tokenizer_free(tok);
}


/* The prompt as the text of its tokens. */
static size_t
prompt_bytes(const hymt_tokenizer_t *tok, size_t n, char *out, size_t cap)
{
    size_t       i, at;
    uint32_t     len;
    const char  *bytes;

    for (i = 0, at = 0; i < n; i++) {
        if (hymt_tokenizer_bytes(tok, ids[i], &bytes, &len)
            && at + len < cap)
        {
            memcpy(out + at, bytes, len);
            at += len;
        }
    }

    return at;
}


/* chats, by both families' templates in transformers */
static void
test_chats(void)
{
    char                   *field[4], text[2048];
    size_t                  n, n_text, len, want;
    maker_t                 big, small;
    unsigned                wrong, seen;
    vectors_t               v;
    hymt_turn_t             turns[HYMT_MAX_TURNS];
    hymt_error_t            err;
    const maker_t          *m;
    hymt_tokenizer_t       *tok;
    hymt_prompt_request_t   r;

    make(&big, HYMT_FAMILY_MT15, NULL);
    memset(&small, 0, sizeof(small));

    if (hymt_tokenizer_load(MODEL, &tok, &err) != HYMT_OK
        || hymt_encoder_create(tok, &small.enc, &err) != HYMT_OK)
    {
        fixture_die("can't load", err.text);
    }

    small.config.vocab = hymt_tokenizer_size(tok);

    if (hymt_prompter_create(tok, &small.config, &small.params,
                             &small.prompter, &err)
        != HYMT_OK)
    {
        fixture_die("no prompter", err.text);
    }

    memset(&r, 0, sizeof(r));
    r.turns = turns;
    wrong = 0;
    seen = 0;
    vectors_open(&v, "t/data/chats.txt");

    while (vectors_next(&v, field, 4)) {
        seen++;
        m = field[0][0] == 's' ? &small : &big;
        n = 0;

        if (hymt_turns_read(field[1], vectors_bytes(field[1]), turns,
                            &r.n_turns, &err)
            != HYMT_OK)
        {
            fixture_die("bad chat", err.text);
        }

        (void) hymt_prompt_build(m->prompter, m->enc, &r, ids, MAX_IDS, &n,
                                 &n_text, &err);

        len = prompt_bytes(m->enc->tok, n, text, sizeof(text));
        want = vectors_bytes(field[2]);

        if (len != want || memcmp(text, field[2], len) != 0
            || (field[3][0] != '-' && !vectors_equal(field[3], ids, n)))
        {
            if (wrong++ == 0) {
                printf("# line %u: got  %.*s\n# line %u: want %.*s\n",
                       v.number, (int) len, text, v.number, (int) want,
                       field[2]);
            }
        }
    }

    is_int(wrong, 0, "chats unlike Hugging Face's");
    ok(seen >= 32, "%u chats were compared", seen);

    hymt_prompter_free(small.prompter);
    hymt_encoder_free(small.enc);
    hymt_tokenizer_free(tok);
    unmake(&big);
}


int
main(void)
{
    test_vectors();
    test_chats();

    return tap_done();
}
