/*
 * prompt_detect.c - what a model directory says about how to prompt it.
 */

#include "file.h"
#include "prompt_private.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>


#define HYMT_JSON_FILE   "hymt.json"
#define HYMT_JSON_LIMIT  ((size_t) 64 * 1024)


static hymt_status_t hymt_declaration_read(const char *path,
    const json_t *root, hymt_prompt_params_t *p, hymt_error_t *err);
static hymt_status_t hymt_declared_family(const char *path,
    const json_t *value, hymt_prompt_params_t *p, hymt_error_t *err);
static hymt_status_t hymt_declared_languages(const char *path,
    const json_t *value, hymt_prompt_params_t *p, hymt_error_t *err);
static hymt_status_t hymt_declared_features(const char *path,
    const json_t *value, hymt_prompt_params_t *p, hymt_error_t *err);
static hymt_family_t hymt_family_of_dir(const char *dir);
static hymt_family_t hymt_family_of_name(const char *name);
static const char *hymt_last_component(char *path);


hymt_status_t
hymt_prompt_detect(const char *dir, const hymt_config_t *config,
    hymt_prompt_params_t *p, bool *guessed, hymt_error_t *err)
{
    char           *path;
    json_t         *root;
    hymt_status_t   rc;

    *guessed = false;
    p->languages = HYMT_LANGS_ALL;
    p->greedy = false;
    p->features = (1u << HYMT_N_FEATURES) - 1;

    path = hymt_file_path(dir, HYMT_JSON_FILE, err);
    if (path == NULL) {
        return HYMT_ERROR;
    }

    rc = hymt_json_read(path, HYMT_JSON_LIMIT, &root, err);

    if (rc == HYMT_OK) {
        rc = hymt_declaration_read(path, root, p, err);
        json_decref(root);
    }

    free(path);

    if (rc == HYMT_ERROR) {
        return rc;
    }

    if (p->family == HYMT_FAMILY_AUTO) {
        p->family = hymt_family_of_dir(dir);
    }

    if (p->family == HYMT_FAMILY_AUTO) {
        p->family = hymt_family_of_name(config->name_or_path);
    }

    if (p->family == HYMT_FAMILY_AUTO) {
        p->family = HYMT_FAMILY_MT15;
        *guessed = true;
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_declaration_read(const char *path, const json_t *root,
    hymt_prompt_params_t *p, hymt_error_t *err)
{
    char           show[HYMT_JSON_SHOW];
    json_t        *value, *name;
    const char    *key;
    hymt_status_t  rc;

    json_object_foreach((json_t *) root, key, value) {

        rc = HYMT_OK;

        if (strcmp(key, "family") == 0) {
            rc = hymt_declared_family(path, value, p, err);

        } else if (strcmp(key, "languages") == 0) {
            rc = hymt_declared_languages(path, value, p, err);

        } else if (strcmp(key, "features") == 0) {
            rc = hymt_declared_features(path, value, p, err);

        } else if (strcmp(key, "greedy") == 0) {

            if (!json_is_boolean(value)) {
                return hymt_fail(err, "%s: greedy %s is not true or false",
                                 path, hymt_json_show(value, show));
            }

            p->greedy = json_is_true(value);

        } else {
            name = json_string(key);
            hymt_json_show(name, show);
            json_decref(name);

            return hymt_fail(err, "%s: unknown key %s: \"family\","
                             " \"languages\", \"greedy\" and \"features\" are"
                             " known", path, show);
        }

        if (rc != HYMT_OK) {
            return rc;
        }
    }

    return HYMT_OK;
}


/* a family that is set already stays, but what is written must be right */
static hymt_status_t
hymt_declared_family(const char *path, const json_t *value,
    hymt_prompt_params_t *p, hymt_error_t *err)
{
    char            show[HYMT_JSON_SHOW];
    const char     *name;
    hymt_family_t   family;

    name = json_string_value(value);

    if (name == NULL
        || hymt_family_parse(name, strlen(name), &family) != HYMT_OK)
    {
        return hymt_fail(err, "%s: family %s is not \"mt1\", \"mt1.5\","
                         " \"mt2\" or \"auto\"", path,
                         hymt_json_show(value, show));
    }

    if (p->family == HYMT_FAMILY_AUTO) {
        p->family = family;
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_declared_languages(const char *path, const json_t *value,
    hymt_prompt_params_t *p, hymt_error_t *err)
{
    int          lang;
    char         show[HYMT_JSON_SHOW];
    size_t       i;
    json_t      *item;
    const char  *name;

    if (!json_is_array(value) || json_array_size(value) == 0) {
        return hymt_fail(err, "%s: languages %s is not an array of codes like"
                         " [\"en\", \"zh\"]", path,
                         hymt_json_show(value, show));
    }

    p->languages = 0;

    json_array_foreach((json_t *) value, i, item) {

        name = json_string_value(item);
        lang = name == NULL ? HYMT_LANG_NONE
                            : hymt_lang_find(name, strlen(name));

        if (lang == HYMT_LANG_NONE) {
            return hymt_fail(err, "%s: languages: %s is not a code of a"
                             " language that Hunyuan models know, like \"en\""
                             " or \"zh-Hant\"", path,
                             hymt_json_show(item, show));
        }

        p->languages |= (hymt_lang_set_t) 1 << lang;
    }

    return HYMT_OK;
}


static hymt_status_t
hymt_declared_features(const char *path, const json_t *value,
    hymt_prompt_params_t *p, hymt_error_t *err)
{
    char         show[HYMT_JSON_SHOW];
    size_t       i, j;
    json_t      *item;

    static const char  *names[HYMT_N_FEATURES] = {
        "terms", "context", "style", "formatted"
    };

    if (!json_is_array(value)) {
        return hymt_fail(err, "%s: features %s is not an array like [\"terms\","
                         " \"context\"]", path, hymt_json_show(value, show));
    }

    p->features = 0;

    json_array_foreach((json_t *) value, i, item) {

        for (j = 0; j < HYMT_N_FEATURES; j++) {
            if (json_is_string(item)
                && strcmp(json_string_value(item), names[j]) == 0)
            {
                break;
            }
        }

        if (j == HYMT_N_FEATURES) {
            return hymt_fail(err, "%s: features: %s is none of terms, context,"
                             " style and formatted", path,
                             hymt_json_show(item, show));
        }

        p->features |= 1u << j;
    }

    return HYMT_OK;
}


/*
 * By the directory's own name; through a link by the name behind it; in a
 * Hugging Face cache by models--tencent--NAME above snapshots/HASH.
 */
static hymt_family_t
hymt_family_of_dir(const char *dir)
{
    char           given[PATH_MAX], real[PATH_MAX], *cached;
    hymt_family_t  family;

    if (strlen(dir) >= sizeof(given)) {
        return HYMT_FAMILY_AUTO;
    }

    strcpy(given, dir);
    family = hymt_family_of_name(hymt_last_component(given));

    if (family != HYMT_FAMILY_AUTO || realpath(dir, real) == NULL) {
        return family;
    }

    cached = strstr(real, "/models--");

    if (cached != NULL) {
        cached[strcspn(cached + 1, "/") + 1] = '\0';
        return hymt_family_of_name(cached);
    }

    return hymt_family_of_name(hymt_last_component(real));
}


static const char *
hymt_last_component(char *path)
{
    char    *slash;
    size_t   len;

    for (len = strlen(path); len > 1 && path[len - 1] == '/'; len--) {
        path[len - 1] = '\0';
    }

    slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}


static hymt_family_t
hymt_family_of_name(const char *name)
{
    size_t  i;

    /* in this order: "mt1" begins "mt1.5" */

    static const struct {
        const char     *part;
        hymt_family_t   family;
    } names[] = {
        { "mt1.5", HYMT_FAMILY_MT15 },
        { "mt-1.5", HYMT_FAMILY_MT15 },
        { "mt1_5", HYMT_FAMILY_MT15 },
        { "mt15", HYMT_FAMILY_MT15 },
        { "mt2", HYMT_FAMILY_MT2 },
        { "mt1", HYMT_FAMILY_MT1 },
        { "hunyuan-mt", HYMT_FAMILY_MT1 },
        { "hunyuan_mt", HYMT_FAMILY_MT1 },
    };

    for (i = 0; i < hymt_nelts(names); i++) {
        if (strcasestr(name, names[i].part) != NULL) {
            return names[i].family;
        }
    }

    return HYMT_FAMILY_AUTO;
}


hymt_status_t
hymt_family_parse(const char *name, size_t len, hymt_family_t *family)
{
    size_t  i;

    for (i = 0; i < hymt_nelts(hymt_instructions); i++) {
        if (strlen(hymt_instructions[i].name) == len
            && memcmp(hymt_instructions[i].name, name, len) == 0)
        {
            *family = (hymt_family_t) i;
            return HYMT_OK;
        }
    }

    return HYMT_DECLINED;
}


const char *
hymt_family_name(hymt_family_t family)
{
    return hymt_instructions[family].name;
}
