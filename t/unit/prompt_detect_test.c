/*
 * prompt_detect_test.c - family, languages and greediness of a model
 * directory.
 */

#include "fixture.h"
#include "prompt.h"
#include "tap.h"

#include <sys/stat.h>


static void
test_declaration(void)
{
    bool                  guessed;
    char                  dir[FIXTURE_PATH];
    size_t                i;
    hymt_error_t          err;
    hymt_config_t         config;
    hymt_prompt_params_t  p;

    static const struct {
        const char     *json;
        const char     *want;       /* part of the error; NULL: accepted */
        hymt_family_t   family;
        int             n_languages;
        bool            greedy;
        uint32_t        features;
    } cases[] = {
        { "{\"family\": \"mt2\", \"languages\": [\"en\", \"zh\"],"
          " \"greedy\": true}", NULL, HYMT_FAMILY_MT2, 2, true, 0xf },
        { "{}", NULL, HYMT_FAMILY_MT15, 38, false, 0xf },
        { "{\"family\": \"auto\"}", NULL, HYMT_FAMILY_MT15, 38, false, 0xf },
        { "{\"languages\": [\"zh-TW\", \"zh-Hant\"]}", NULL, HYMT_FAMILY_MT15,
          1, false, 0xf },
        { "{\"features\": []}", NULL, HYMT_FAMILY_MT15, 38, false, 0 },
        { "{\"features\": [\"style\", \"terms\"]}", NULL, HYMT_FAMILY_MT15, 38,
          false, HYMT_FEATURE_TERMS | HYMT_FEATURE_STYLE },
        { "{\"family\": \"mt3\"}", "family \"mt3\"", 0, 0, 0, 0 },
        { "{\"family\": \"MT2\"}", "family \"MT2\"", 0, 0, 0, 0 },
        { "{\"family\": 2}", "family 2", 0, 0, 0, 0 },
        { "{\"greedy\": \"yes\"}", "greedy \"yes\"", 0, 0, 0, 0 },
        { "{\"languages\": \"en\"}", "languages \"en\"", 0, 0, 0, 0 },
        { "{\"languages\": []}", "languages []", 0, 0, 0, 0 },
        { "{\"languages\": [\"en\", \"xx\"]}", "\"xx\" is not a code", 0, 0,
          0, 0 },
        { "{\"languages\": [\"en\", 7]}", "7 is not a code", 0, 0, 0, 0 },
        { "{\"famly\": \"mt2\"}", "unknown key \"famly\"", 0, 0, 0, 0 },
        { "{\"features\": \"terms\"}", "features \"terms\"", 0, 0, 0, 0 },
        { "{\"features\": [\"wit\"]}", "none of terms, context", 0, 0, 0, 0 },
        { "{\"features\": [\"terms\", 1]}", "features: 1", 0, 0, 0, 0 },
        { "{\"greedy\": true, \"greedy\": true}", "line 1", 0, 0, 0, 0 },
        { "[]", "JSON object", 0, 0, 0, 0 },
        { "{", "line 1", 0, 0, 0, 0 },
    };

    fixture_dir(dir);
    memset(&config, 0, sizeof(config));

    for (i = 0; i < hymt_nelts(cases); i++) {
        fixture_write(dir, "hymt.json", cases[i].json);
        memset(&p, 0, sizeof(p));

        if (cases[i].want != NULL) {
            is_int(hymt_prompt_detect(dir, &config, &p, &guessed, &err),
                   HYMT_ERROR, "%s", cases[i].json);
            has_str(err.text, "/hymt.json: ", "the error names the file");
            has_str(err.text, cases[i].want, "and the fault");
            continue;
        }

        is_int(hymt_prompt_detect(dir, &config, &p, &guessed, &err), HYMT_OK,
               "%s", cases[i].json);
        is_str(hymt_family_name(p.family), hymt_family_name(cases[i].family),
               "its family");
        is_int(__builtin_popcountll(p.languages), cases[i].n_languages,
               "how many languages");
        is_int(p.greedy, cases[i].greedy, "greedy");
        is_int(p.features, cases[i].features, "what it was trained for");
    }

    fixture_write(dir, "hymt.json", "{\"family\": \"mt1\"}");
    memset(&p, 0, sizeof(p));
    p.family = HYMT_FAMILY_MT2;
    is_int(hymt_prompt_detect(dir, &config, &p, &guessed, &err), HYMT_OK,
           "a family set before");
    is_str(hymt_family_name(p.family), "mt2", "stays");

    fixture_remove(dir);
}


static void
test_names(void)
{
    bool                  guessed;
    char                  dir[FIXTURE_PATH], path[FIXTURE_PATH + 128];
    size_t                i;
    hymt_error_t          err;
    hymt_config_t         config;
    hymt_prompt_params_t  p;

    static const struct {
        const char  *dir;
        const char  *name;
        const char  *want;
        bool         guessed;
    } cases[] = {
        { "Hunyuan-MT-7B", "", "mt1", false },
        { "Hunyuan-MT-Chimera-7B", "", "mt1", false },
        { "HY-MT1.5-1.8B", "", "mt1.5", false },
        { "HY-MT1.5-7B/", "", "mt1.5", false },
        { "hy-mt2-1.8b//", "", "mt2", false },
        { "model", "tencent/Hy-MT2-7B", "mt2", false },
        { "model", "tencent/HY-MT1.5-7B", "mt1.5", false },
        { "Hy-MT2-7B", "tencent/HY-MT1.5-7B", "mt2", false },
        { "model", "", "mt1.5", true },
    };

    fixture_dir(dir);
    memset(&config, 0, sizeof(config));

    for (i = 0; i < hymt_nelts(cases); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, cases[i].dir);
        strcpy(config.name_or_path, cases[i].name);
        memset(&p, 0, sizeof(p));

        (void) mkdir(path, 0700);
        is_int(hymt_prompt_detect(path, &config, &p, &guessed, &err), HYMT_OK,
               "directory %s, name \"%s\"", cases[i].dir, cases[i].name);
        is_str(hymt_family_name(p.family), cases[i].want, "family");
        is_int(guessed, cases[i].guessed, "guessed");
        rmdir(path);
    }

    /* a link, and the cache of huggingface_hub */

    config.name_or_path[0] = '\0';
    snprintf(path, sizeof(path), "%s/models--tencent--Hy-MT2-1.8B", dir);
    (void) mkdir(path, 0700);
    strcat(path, "/0123abcd");
    (void) mkdir(path, 0700);

    memset(&p, 0, sizeof(p));
    (void) hymt_prompt_detect(path, &config, &p, &guessed, &err);
    is_str(hymt_family_name(p.family), "mt2", "a cache's directory");
    rmdir(path);
    *strrchr(path, '/') = '\0';

    strcat(dir, "/current");
    (void) symlink(path, dir);
    memset(&p, 0, sizeof(p));
    (void) hymt_prompt_detect(dir, &config, &p, &guessed, &err);
    is_str(hymt_family_name(p.family), "mt2", "a link to a model");
    unlink(dir);
    rmdir(path);
    *strrchr(dir, '/') = '\0';

    fixture_remove(dir);
}


static void
test_family_names(void)
{
    size_t         i;
    hymt_family_t  family;

    static const char *const  names[] = { "auto", "mt1", "mt1.5", "mt2" };

    for (i = 0; i < hymt_nelts(names); i++) {
        is_int(hymt_family_parse(names[i], strlen(names[i]), &family),
               HYMT_OK, "%s", names[i]);
        is_str(hymt_family_name(family), names[i], "and back");
    }

    is_int(hymt_family_parse("mt1.", 4, &family), HYMT_DECLINED, "mt1.");
    is_int(hymt_family_parse("", 0, &family), HYMT_DECLINED, "no name");
}


int
main(void)
{
    test_declaration();
    test_names();
    test_family_names();

    return tap_done();
}
