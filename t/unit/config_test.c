/*
 * config_test.c - what config.json and generation_config.json may say.
 *
 * A case is the base configuration below with some keys replaced: the last
 * line of a key is the one that is written.
 */

#include "config.h"
#include "fixture.h"
#include "tap.h"


#define MAX_KEYS  40


typedef struct {
    const char  *what;
    const char  *change;       /* "key": value lines, "key": - removes it */
    const char  *message;      /* what the error must hold */
} refused_t;


static const char  base_keys[] =
    "\"model_type\": \"hunyuan_v1_dense\"\n"
    "\"num_hidden_layers\": 2\n"
    "\"hidden_size\": 64\n"
    "\"intermediate_size\": 96\n"
    "\"num_attention_heads\": 4\n"
    "\"num_key_value_heads\": 2\n"
    "\"head_dim\": 128\n"
    "\"vocab_size\": 1000\n"
    "\"max_position_embeddings\": 4096\n"
    "\"rms_norm_eps\": 1e-05\n"
    "\"rope_theta\": 10000.0\n"
    "\"rope_scaling\": {\"type\": \"dynamic\", \"alpha\": 1000.0}\n"
    "\"tie_word_embeddings\": true\n"
    "\"eos_token_id\": 20\n";


static char          dir[FIXTURE_PATH];
static hymt_error_t  err;


/* Collects "key": value lines, a later one replacing an earlier. */
static size_t
collect(char *text, char *lines[], size_t n)
{
    char    *line, *save;
    size_t   i, len;

    for (line = strtok_r(text, "\n", &save);
         line != NULL;
         line = strtok_r(NULL, "\n", &save))
    {
        len = (size_t) (strchr(line, ':') - line) + 1;

        for (i = 0; i < n && strncmp(lines[i], line, len) != 0; i++) {
            /* void */
        }

        lines[i] = line;
        n += i == n;
    }

    return n;
}


static void
write_config(const char *change)
{
    char    *lines[MAX_KEYS], base[1024], more[2048], out[4096];
    size_t   i, n, len;

    snprintf(base, sizeof(base), "%s", base_keys);
    snprintf(more, sizeof(more), "%s", change);

    n = collect(base, lines, 0);
    n = collect(more, lines, n);

    len = (size_t) snprintf(out, sizeof(out), "{\"x\": 0");

    for (i = 0; i < n; i++) {
        if (strcmp(strchr(lines[i], ':'), ": -") != 0) {
            len += (size_t) snprintf(out + len, sizeof(out) - len, ",\n%s",
                                     lines[i]);
        }
    }

    snprintf(out + len, sizeof(out) - len, "}");
    fixture_write(dir, "config.json", out);
}


static bool
reads(const char *change, const char *generation, hymt_config_t *c,
    const char *what)
{
    bool  pass;
    char  path[FIXTURE_PATH + 64];

    write_config(change);

    if (generation != NULL) {
        fixture_write(dir, "generation_config.json", generation);
    }

    err.text[0] = '\0';
    pass = ok(hymt_config_read(dir, c, &err) == HYMT_OK, "%s: read", what);

    if (!pass) {
        printf("# %s\n", err.text);
    }

    snprintf(path, sizeof(path), "%s/generation_config.json", dir);
    unlink(path);

    return pass;
}


static void
test_plain(void)
{
    hymt_config_t  c;

    reads("\"_name_or_path\": \"tencent/HY-MT1.5-1.8B\"", NULL, &c, "plain");

    is_int(c.n_layers, 2, "layers");
    is_int(c.hidden, 64, "hidden");
    is_int(c.ffn, 96, "ffn");
    is_int(c.n_heads, 4, "heads");
    is_int(c.n_kv_heads, 2, "kv heads");
    is_int(c.head_dim, 128, "head_dim");
    is_int(c.vocab, 1000, "vocab");
    is_int(c.max_position, 4096, "max_position");
    is_near(c.rms_eps, 1e-5, 1e-12, "eps");
    ok(c.tied, "tied");
    ok(c.qk_norm, "qk_norm is the default");
    is_int(c.n_stop, 1, "one end token");
    is_int(c.stop[0], 20, "which is eos");
    is_str(c.name_or_path, "tencent/HY-MT1.5-1.8B", "name");
    is_near(c.temperature, 0, 0, "greedy without generation_config.json");
    is_near(c.top_p, 1, 0, "top_p off");
    is_int(c.top_k, 0, "top_k off");
    is_near(c.repetition_penalty, 1, 0, "penalty off");
}


/* Head sizes, ties, nulls: what stands where a key is absent. */
static void
test_defaults(void)
{
    hymt_config_t  c;

    reads("\"head_dim\": -\n\"attention_head_dim\": 32", NULL, &c,
          "attention_head_dim");
    is_int(c.head_dim, 32, "attention_head_dim counts");

    reads("\"attention_head_dim\": 32", NULL, &c, "both head sizes");
    is_int(c.head_dim, 128, "head_dim goes first");

    reads("\"head_dim\": null", NULL, &c, "head_dim null");
    is_int(c.head_dim, 16, "hidden over heads");

    reads("\"num_key_value_heads\": null", NULL, &c, "kv heads null");
    is_int(c.n_kv_heads, 4, "as many as heads");

    reads("\"tie_word_embeddings\": -", NULL, &c, "no tie_word_embeddings");
    ok(!c.tied, "not tied, as transformers' class");

    reads("\"use_qk_norm\": false", NULL, &c, "no qk norm");
    ok(!c.qk_norm, "no qk norm");

    reads("\"rms_norm_eps\": -", NULL, &c, "no rms_norm_eps");
    is_near(c.rms_eps, 1e-5, 1e-12, "1e-5");

    reads("\"max_position_embeddings\": -", NULL, &c, "no max_position");
    is_int(c.max_position, 2048, "2048");

    reads("\"quantization_config\": null\n\"attention_bias\": null\n"
          "\"hidden_act\": null\n\"_name_or_path\": null", NULL, &c, "nulls");
    is_str(c.name_or_path, "", "no name");

    reads("\"dense_list\": [4096, 0]\n\"im_start_id\": 4\n"
          "\"mask_init_id\": 12\n\"use_cla\": false\n\"cla_share_factor\": 2\n"
          "\"norm_type\": \"rms\"\n\"org_vocab_size\": 1000\n"
          "\"torch_dtype\": \"bfloat16\"\n\"dtype\": \"bfloat16\"",
          NULL, &c, "keys of the published files that don't matter");
}


/*
 * Values from the published GGUF files, which hold the base: 10000 x 1000^
 * (128/126) and 10000 x 100000^(128/126).
 */
static void
test_rope(void)
{
    size_t         i;
    hymt_config_t  c;

    static const struct {
        const char  *what;
        const char  *change;
        double       base;
    } cases[] = {
        { "alpha 1000", "\"rope_scaling\": {\"type\": \"dynamic\","
          " \"alpha\": 1000.0, \"factor\": 1.0, \"beta_fast\": 32,"
          " \"mscale\": 1.0}", 11158839.92507748 },
        { "alpha 100000", "\"rope_scaling\": {\"type\": \"dynamic\","
          " \"alpha\": 100000}", 1200508057.7484066 },
        { "rope_type", "\"rope_scaling\": {\"rope_type\": \"dynamic\","
          " \"alpha\": 1000.0}", 11158839.92507748 },
        { "transformers 5", "\"rope_scaling\": -\n\"rope_theta\": -\n"
          "\"rope_parameters\": {\"alpha\": 1000.0, \"beta_fast\": 32,"
          " \"factor\": 1.0, \"rope_theta\": 10000.0,"
          " \"rope_type\": \"dynamic\", \"type\": \"dynamic\"}",
          11158839.92507748 },
        { "theta inside goes first", "\"rope_scaling\": -\n"
          "\"rope_theta\": 5\n\"rope_parameters\": {\"alpha\": 1000.0,"
          " \"rope_theta\": 20000.0, \"rope_type\": \"dynamic\"}",
          2 * 11158839.92507748 },
        { "theta outside", "\"rope_scaling\": -\n\"rope_theta\": 20000\n"
          "\"rope_parameters\": {\"alpha\": 1000.0,"
          " \"rope_type\": \"dynamic\"}", 2 * 11158839.92507748 },
        { "both, equal", "\"rope_parameters\": {\"alpha\": 1000.0,"
          " \"rope_theta\": 10000.0, \"rope_type\": \"dynamic\"}",
          11158839.92507748 },
        { "none", "\"rope_scaling\": null", 10000 },
        { "none, no theta", "\"rope_scaling\": -\n\"rope_theta\": -", 10000 },
        { "default", "\"rope_scaling\": -\n\"rope_theta\": -\n"
          "\"rope_parameters\": {\"rope_theta\": 5e5,"
          " \"rope_type\": \"default\"}", 5e5 },
        { "default without a type", "\"rope_scaling\": -\n"
          "\"rope_parameters\": {\"rope_theta\": 5e5}", 5e5 },
        { "head_dim 64", "\"head_dim\": 64", 12496091.412919868 },
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        reads(cases[i].change, NULL, &c, cases[i].what);
        is_near(c.rope_base / cases[i].base, 1, 1e-12, "rope, %s",
                cases[i].what);
    }

    /* what inv_freq is made from, as float32 in transformers */

    reads("\"rope_theta\": 10000.0", NULL, &c, "float32");
    is_near((float) c.rope_base, 11158840.0, 0, "float32 of alpha 1000");
}


static void
test_stops(void)
{
    char           what[64];
    size_t         i, j;
    hymt_config_t  c;

    static const struct {
        const char  *change;
        const char  *generation;
        const char  *stops;
    } cases[] = {
        { "\"eos_token_id\": 20", NULL, "20" },
        { "\"eos_token_id\": [20, 21, 20]", NULL, "20 21" },
        { "\"eos_token_id\": null", NULL, "" },
        { "\"eos_token_id\": -", NULL, "" },
        { "\"eod_token_id\": 26", NULL, "20 26" },
        { "\"eod_token_id\": 26", "{\"eos_token_id\": [30, 31]}",
          "30 31 20 26" },
        { "\"eod_token_id\": 26", "{\"eos_token_id\": 26}", "26 20" },
        { "\"eod_token_id\": 26", "{\"eos_token_id\": null}", "20 26" },

        /* Hunyuan-MT-7B: bos 1 and pad 0 of config.json are wrong */
        { "\"bos_token_id\": 1\n\"pad_token_id\": 0\n\"eos_token_id\": 960\n"
          "\"eod_token_id\": 967", "{\"eos_token_id\": [960, 967]}",
          "960 967" },

        /* the defaults of transformers' class, written when it saves */
        { "\"eos_token_id\": 2\n\"eod_token_id\": 3",
          "{\"eos_token_id\": [960, 967]}", "960 967" },
        { "\"eos_token_id\": 3\n\"eod_token_id\": 2", NULL, "3 2" },
        { "\"eos_token_id\": 20", "{\"eos_token_id\": [2, 3]}", "2 3 20" },

        /* ids that can't come out */
        { "\"eos_token_id\": -1", NULL, "" },
        { "\"eos_token_id\": [999, 1000, 9223372036854775807]", NULL,
          "999" },
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (!reads(cases[i].change, cases[i].generation, &c,
                   cases[i].change))
        {
            continue;
        }

        what[0] = '\0';

        for (j = 0; j < c.n_stop; j++) {
            sprintf(what + strlen(what), "%s%u", j ? " " : "", c.stop[j]);
        }

        is_str(what, cases[i].stops, "end tokens, case %zu", i);
    }
}


static void
test_sampling(void)
{
    hymt_config_t  c;

    reads("\"eod_token_id\": 26", "{\"do_sample\": true, \"top_k\": 20,"
          " \"top_p\": 0.6, \"repetition_penalty\": 1.05,"
          " \"temperature\": 0.7, \"transformers_version\": \"4.56.0\"}",
          &c, "the dense models' sampling");
    is_near(c.temperature, 0.7, 1e-6, "temperature");
    is_near(c.top_p, 0.6, 1e-6, "top_p");
    is_int(c.top_k, 20, "top_k");
    is_near(c.repetition_penalty, 1.05, 1e-6, "penalty");

    reads("\"eod_token_id\": 26", "{\"do_sample\": true, \"top_p\": 1.0,"
          " \"top_k\": -1, \"temperature\": 0.7}", &c, "the 30B's");
    is_int(c.top_k, 0, "top_k -1 is off");

    reads("\"eod_token_id\": 26", "{\"do_sample\": true}", &c, "empty");
    is_near(c.temperature, 1, 0, "temperature 1");
    is_int(c.top_k, 50, "top_k 50, transformers' default");

    reads("\"eod_token_id\": 26", "{\"temperature\": 0.7, \"top_k\": null,"
          " \"repetition_penalty\": 1.1}", &c, "no do_sample");
    is_near(c.temperature, 0, 0, "greedy");
    is_int(c.top_k, 0, "no top_k");
    is_near(c.repetition_penalty, 1.1, 1e-6, "penalty kept");
}


static void
test_name(void)
{
    char           change[600], path[400];
    size_t         i;
    hymt_config_t  c;

    for (i = 0; i + 3 < 390; i += 3) {
        memcpy(path + i, "译", 3);
    }

    strcpy(path + i, "HY");
    snprintf(change, sizeof(change), "\"_name_or_path\": \"%s\"", path);

    reads(change, NULL, &c, "a long name");
    is_int(strlen(c.name_or_path), 254, "cut at a whole character");
    is_str(c.name_or_path + 249, "译HY", "the end is kept");

    reads("\"_name_or_path\": \"HY\\u001b[2J\"", NULL, &c, "an escape");
    is_str(c.name_or_path, "", "is no name");
}


static const refused_t  refused[] = {
    { "another type", "\"model_type\": \"llama\"",
      "model_type must be \"hunyuan_v1_dense\", got \"llama\"" },
    { "no type", "\"model_type\": -", "got nothing" },
    { "a type that is no string", "\"model_type\": 1", "got 1" },
    { "hy_v3", "\"model_type\": \"hy_v3\"", "Hy-MT2-30B-A3B" },
    { "fp8", "\"quantization_config\": {\"quant_method\":"
      " \"compressed-tensors\"}", "quant_method \"compressed-tensors\"" },
    { "quantised, unnamed", "\"quantization_config\": {}",
      "quantization_config (quant_method nothing)" },
    { "attention bias", "\"attention_bias\": true",
      "\"attention_bias\" is true: biases" },
    { "mlp bias", "\"mlp_bias\": true", "\"mlp_bias\" is true" },
    { "bias of a wrong type", "\"mlp_bias\": 0", "must be true or false" },
    { "cla", "\"use_cla\": true", "cross-layer attention" },
    { "mla", "\"use_mla\": true", "latent attention" },
    { "no rope", "\"use_rotary_pos_emb\": false", "without rope" },
    { "gelu", "\"hidden_act\": \"gelu\"",
      "\"hidden_act\" must be \"silu\", got \"gelu\"" },
    { "a long object, cut inside a key", "\"hidden_act\": {\"type\":"
      " \"dynamic\", \"alpha\": 1000.0, \"factor\": 1.0,"
      " \"beta_very_fast\": 32}",
      "got {\"type\":\"dynamic\",\"alpha\":1000.0,\"factor\":1.0,"
      "\"beta_very_fas..." },
    { "layer norm", "\"norm_type\": \"fused\"", "\"norm_type\" must be" },

    { "no layers", "\"num_hidden_layers\": -",
      "\"num_hidden_layers\" is missing" },
    { "0 layers", "\"num_hidden_layers\": 0", "from 1 to 1024, got 0" },
    { "1025 layers", "\"num_hidden_layers\": 1025", "got 1025" },
    { "half a layer", "\"num_hidden_layers\": 2.5", "got 2.5" },
    { "layers as text", "\"num_hidden_layers\": \"2\"", "got \"2\"" },
    { "hidden 0", "\"hidden_size\": 0", "from 16 to 65536" },
    { "hidden 72", "\"hidden_size\": 72", "a multiple of 16, got 72" },
    { "hidden 65552", "\"hidden_size\": 65552", "got 65552" },
    { "hidden negative", "\"hidden_size\": -64", "got -64" },
    { "hidden 2^32 + 64", "\"hidden_size\": 4294967360", "got 4294967360" },
    { "hidden beyond 64 bits", "\"hidden_size\": 99999999999999999999",
      "too big" },
    { "ffn 8", "\"intermediate_size\": 8", "\"intermediate_size\"" },
    { "ffn list", "\"intermediate_size\": [96, 96]", "got [96,96]" },
    { "0 heads", "\"num_attention_heads\": 0", "\"num_attention_heads\"" },
    { "0 kv heads", "\"num_key_value_heads\": 0", "\"num_key_value_heads\"" },
    { "3 kv heads", "\"num_key_value_heads\": 3",
      "3 does not divide \"num_attention_heads\" 4" },
    { "8 kv heads", "\"num_key_value_heads\": 8", "8 does not divide" },
    { "head_dim 2", "\"head_dim\": 2", "from 4 to 1024" },
    { "head_dim odd", "\"head_dim\": 65", "a multiple of 2, got 65" },
    { "hidden over heads is no integer",
      "\"head_dim\": -\n\"num_attention_heads\": 6", "no \"head_dim\"" },
    { "hidden over heads is odd",
      "\"head_dim\": -\n\"hidden_size\": 48\n\"num_attention_heads\": 16",
      "no \"head_dim\"" },
    { "vocab 0", "\"vocab_size\": 0", "\"vocab_size\"" },
    { "vocab beyond 2^20", "\"vocab_size\": 1048577", "from 1 to 1048576" },
    { "positions 0", "\"max_position_embeddings\": 0", "got 0" },
    { "eps 0", "\"rms_norm_eps\": 0", "\"rms_norm_eps\" must be a number" },
    { "eps as text", "\"rms_norm_eps\": \"1e-5\"", "got \"1e-5\"" },
    { "tied 1", "\"tie_word_embeddings\": 1", "must be true or false" },

    { "yarn", "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0}",
      "\"rope_scaling.rope_type\" must be \"dynamic\"" },
    { "dynamic by factor", "\"rope_scaling\": {\"type\": \"dynamic\","
      " \"factor\": 2.0}", "has no \"alpha\"" },
    { "dynamic, alpha null", "\"rope_scaling\": {\"type\": \"dynamic\","
      " \"alpha\": null}", "has no \"alpha\"" },
    { "alpha without a type", "\"rope_scaling\": {\"alpha\": 1000.0}",
      "got nothing" },
    { "factor without a type", "\"rope_scaling\": {\"factor\": 4.0}",
      "got nothing" },
    { "types differ", "\"rope_scaling\": {\"type\": \"dynamic\","
      " \"rope_type\": \"default\", \"alpha\": 1000.0}",
      "\"rope_scaling.type\" and \"rope_scaling.rope_type\" differ" },
    { "alpha 0", "\"rope_scaling\": {\"type\": \"dynamic\", \"alpha\": 0}",
      "\"rope_scaling.alpha\" must be a number from 1" },
    { "alpha negative", "\"rope_scaling\": {\"type\": \"dynamic\","
      " \"alpha\": -1.0}", "got -1.0" },
    { "base beyond floats", "\"rope_theta\": 1e15\n\"head_dim\": 4\n"
      "\"rope_scaling\": {\"type\": \"dynamic\", \"alpha\": 1e15}",
      "beyond single precision" },
    { "rope as a list", "\"rope_scaling\": []", "must be an object, got []" },
    { "the two differ", "\"rope_parameters\": {\"alpha\": 1000.0,"
      " \"rope_theta\": 20000.0, \"rope_type\": \"dynamic\"}",
      "are both there and differ" },
    { "theta 0", "\"rope_theta\": 0", "\"rope_theta\" must be a number" },

    { "eos as text", "\"eos_token_id\": \"20\"",
      "\"eos_token_id\" must be an integer or a list" },
    { "eos as a fraction", "\"eos_token_id\": 20.5", "got 20.5" },
    { "eos as a list of lists", "\"eos_token_id\": [[20]]", "got [20]" },
    { "17 end tokens", "\"eos_token_id\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,"
      "15,16,17,18]", "more than 16 end tokens" },

    { "a key twice", "\"x\": 1", "duplicate" },
    { "broken JSON", "\"y\": {", "line " },
    { "text after a value", "\"y\": 1 2", "line " },
    { "invalid UTF-8", "\"y\": \"\xff\"", "byte 0xff" },
    { "a newline in a value", "\"hidden_act\": \"a\\nb\"", "got \"a\\nb\"" },
};


static void
test_refused(void)
{
    size_t         i;
    hymt_config_t  c;

    for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        write_config(refused[i].change);
        err.text[0] = '\0';

        is_int(hymt_config_read(dir, &c, &err), HYMT_ERROR, "%s: refused",
               refused[i].what);
        has_str(err.text, refused[i].message, "%s: message",
                refused[i].what);
        has_str(err.text, "/config.json", "%s: names the file",
                refused[i].what);
        ok(strchr(err.text, '\n') == NULL, "%s: one line", refused[i].what);
    }
}


static void
test_refused_generation(void)
{
    size_t         i;
    hymt_config_t  c;

    static const char *const  cases[][2] = {
        { "{\"do_sample\": \"yes\"}", "\"do_sample\" must be true or false" },
        { "{\"temperature\": -1}", "\"temperature\" must be a number from 0" },
        { "{\"temperature\": 11}", "got 11" },
        { "{\"top_p\": 0}", "\"top_p\" must be a number" },
        { "{\"top_p\": 1.01}", "\"top_p\" must be a number" },
        { "{\"top_k\": -2}", "\"top_k\" must be a number" },
        { "{\"repetition_penalty\": 0}", "\"repetition_penalty\" must be" },
        { "{\"eos_token_id\": \"</s>\"}", "\"eos_token_id\" must be" },
        { "[]", "must hold a JSON object" },
        { "", "0 bytes" },
    };

    write_config("\"eod_token_id\": 26");

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fixture_write(dir, "generation_config.json", cases[i][0]);
        err.text[0] = '\0';

        is_int(hymt_config_read(dir, &c, &err), HYMT_ERROR, "refused: %s",
               cases[i][0]);
        has_str(err.text, cases[i][1], "message");
        has_str(err.text, "/generation_config.json", "names the file");
    }
}


/* A file over the limit, one of deep nesting, and a directory in its place. */
static void
test_refused_files(void)
{
    int            i;
    char           path[FIXTURE_PATH + 64];
    FILE          *f;
    hymt_config_t  c;

    fixture_write(dir, "generation_config.json", "{}");

    f = fixture_create(dir, "config.json");
    fprintf(f, "{}%1048575s", "");
    fclose(f);
    is_int(hymt_config_read(dir, &c, &err), HYMT_ERROR, "1 MiB and a byte");
    has_str(err.text, "1048577 bytes; 1 to 1048576 are accepted", "says so");

    f = fixture_create(dir, "config.json");
    fprintf(f, "{\"x\":");

    for (i = 0; i < 500000; i++) {
        fputc('[', f);
    }

    fclose(f);
    is_int(hymt_config_read(dir, &c, &err), HYMT_ERROR, "deep nesting");
    has_str(err.text, "maximum parsing depth", "says so");

    snprintf(path, sizeof(path), "%s/config.json", dir);
    unlink(path);
    fixture_remove(dir);
    is_int(hymt_config_read(dir, &c, &err), HYMT_ERROR, "no directory");
    has_str(err.text, "directory of a Hugging Face model?", "says so");
}


static void
test_demo(void)
{
    hymt_config_t  c;

    is_int(hymt_config_read("models/demo", &c, &err), HYMT_OK,
           "the built-in model's configuration");
    is_int(c.head_dim, 128, "head size of the real models");
    is_int(c.n_heads / c.n_kv_heads, 4, "group of the real models");
    ok(c.tied && c.qk_norm, "tied, with qk norm");
    ok(c.n_stop > 0, "has end tokens");
}


int
main(void)
{
    fixture_dir(dir);

    test_plain();
    test_defaults();
    test_rope();
    test_stops();
    test_sampling();
    test_name();
    test_refused();
    test_refused_generation();
    test_demo();
    test_refused_files();

    return tap_done();
}
