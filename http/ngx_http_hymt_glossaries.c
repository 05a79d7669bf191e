
/*
 * Copyright (C) the hymt authors
 */


/*
 * hymt_glossaries DIRECTORY: parsed, checked with the configuration, opened by
 * each worker; and the terms of a glossary that a unit's prompt gets.
 */


#include "ngx_http_hymt.h"
#include "utf8.h"

#include <utf8proc.h>


/* most terms of a unit, of HYMT_MAX_TERMS */
#define NGX_HTTP_HYMT_UNIT_TERMS  128


static ngx_int_t ngx_http_hymt_glossaries_param(ngx_str_t *arg,
    hymt_glossary_limits_t *limits);
static ngx_int_t ngx_http_hymt_glossaries_check_one(
    ngx_http_hymt_glossaries_t *g, ngx_http_hymt_user_t *user,
    ngx_log_t *log);
static void ngx_http_hymt_glossaries_close(void *data);
static ngx_uint_t ngx_http_hymt_capitals(const char *text, size_t len);


/* hymt_glossaries DIRECTORY [max=N] [entries=N] [bytes=SIZE] | off; */
char *
ngx_http_hymt_glossaries(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_hymt_loc_conf_t *hlcf = conf;

    ngx_str_t                    *value;
    ngx_uint_t                    i;
    ngx_http_hymt_main_conf_t    *hmcf;
    ngx_http_hymt_glossaries_t   *g, **slot;

    if (hlcf->glossaries != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {
        hlcf->glossaries = NULL;
        return NGX_CONF_OK;
    }

    if (value[1].len == 0) {
        return "names no directory";
    }

    g = ngx_pcalloc(cf->pool, sizeof(ngx_http_hymt_glossaries_t));
    if (g == NULL) {
        return NGX_CONF_ERROR;
    }

    g->path = value[1];
    g->file = cf->conf_file->file.name.data;
    g->line = cf->conf_file->line;

    if (ngx_conf_full_name(cf->cycle, &g->path, 0) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    for (i = 2; i < cf->args->nelts; i++) {

        if (ngx_http_hymt_glossaries_param(&value[i], &g->limits) != NGX_OK) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\" of"
                               " \"hymt_glossaries\": it knows max=, entries="
                               " and bytes=", &value[i]);
            return NGX_CONF_ERROR;
        }
    }

    hmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_hymt_module);

    slot = ngx_array_push(&hmcf->glossaries);
    if (slot == NULL) {
        return NGX_CONF_ERROR;
    }

    *slot = g;
    hlcf->glossaries = g;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_hymt_glossaries_param(ngx_str_t *arg, hymt_glossary_limits_t *limits)
{
    off_t       bytes;
    uint32_t   *number;
    ngx_int_t   n;
    ngx_str_t   s;

    if (ngx_strncmp(arg->data, "bytes=", 6) == 0) {
        s.data = arg->data + 6;
        s.len = arg->len - 6;
        bytes = ngx_parse_offset(&s);

        if (bytes <= 0) {
            return NGX_ERROR;
        }

        limits->bytes = (uint64_t) bytes;

        return NGX_OK;
    }

    if (ngx_strncmp(arg->data, "max=", 4) == 0) {
        number = &limits->count;
        n = ngx_atoi(arg->data + 4, arg->len - 4);

    } else if (ngx_strncmp(arg->data, "entries=", 8) == 0) {
        number = &limits->entries;
        n = ngx_atoi(arg->data + 8, arg->len - 8);

    } else {
        return NGX_ERROR;
    }

    if (n <= 0 || n > 1000000) {
        return NGX_ERROR;
    }

    *number = (uint32_t) n;

    return NGX_OK;
}


/* In the master, for every new configuration. */
ngx_int_t
ngx_http_hymt_glossaries_check(ngx_http_hymt_main_conf_t *hmcf)
{
    ngx_uint_t                    i;
    ngx_http_hymt_user_t          user;
    ngx_http_hymt_glossaries_t  **g;

    if (hmcf->glossaries.nelts == 0) {
        return NGX_OK;
    }

    if (ngx_http_hymt_user(hmcf->cycle, &user) != NGX_OK) {
        return NGX_ERROR;
    }

    g = hmcf->glossaries.elts;

    for (i = 0; i < hmcf->glossaries.nelts; i++) {
        if (ngx_http_hymt_glossaries_check_one(g[i], &user, hmcf->cycle->log)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_glossaries_check_one(ngx_http_hymt_glossaries_t *g,
    ngx_http_hymt_user_t *user, ngx_log_t *log)
{
    char         text[NGX_MAX_PATH + 512];
    const char  *path;
    struct stat  st;

    path = (const char *) g->path.data;

    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
        (void) snprintf(text, sizeof(text), "%s: not a directory", path);

    } else if (ngx_http_hymt_check_path(user, path, 7, text, sizeof(text))
               == NGX_OK)
    {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_EMERG, log, 0, "\"hymt_glossaries\" in %s:%ui: %s",
                  g->file, g->line, text);

    return NGX_ERROR;
}


/* In a worker, which goes on without where a directory has gone. */
void
ngx_http_hymt_glossaries_open(ngx_http_hymt_main_conf_t *hmcf,
    ngx_cycle_t *cycle)
{
    ngx_uint_t                    i;
    hymt_error_t                  err;
    ngx_pool_cleanup_t           *cln;
    ngx_http_hymt_glossaries_t  **g;

    g = hmcf->glossaries.elts;

    for (i = 0; i < hmcf->glossaries.nelts; i++) {

        cln = ngx_pool_cleanup_add(cycle->pool, 0);
        if (cln == NULL) {
            return;
        }

        if (hymt_glossary_store_open((char *) g[i]->path.data, &g[i]->limits,
                                     &g[i]->store, &err)
            != HYMT_OK)
        {
            ngx_log_error(NGX_LOG_ALERT, cycle->log, 0,
                          "\"hymt_glossaries\" in %s:%ui: %s",
                          g[i]->file, g[i]->line, err.text);
            continue;
        }

        cln->handler = ngx_http_hymt_glossaries_close;
        cln->data = g[i];
    }
}


static void
ngx_http_hymt_glossaries_close(void *data)
{
    ngx_http_hymt_glossaries_t *g = data;

    hymt_glossary_store_close(g->store);
    g->store = NULL;
}


/*
 * A term is found whatever its case, at the beginning of a sentence too; but
 * not one that is all capitals: "IT" is not "it".  Terms may take a byte for
 * every four tokens of the context, a small part of it; the longest come first.
 */
void
ngx_http_hymt_glossary_terms(ngx_http_hymt_call_t *call, const char *text,
    size_t len, ngx_http_hymt_text_t *out)
{
    size_t                        room;
    uint32_t                      i, n;
    const hymt_glossary_entry_t  *e, *found[NGX_HTTP_HYMT_UNIT_TERMS];

    if (hymt_glossary_match(call->glossary, text, len, true, found,
                            NGX_HTTP_HYMT_UNIT_TERMS, &n, NULL)
        != HYMT_OK)
    {
        return;
    }

    room = (size_t) call->model->context / 4;

    for (i = 0; i < n; i++) {
        e = found[i];

        if ((size_t) e->src_len + e->tgt_len + 2 > room
            || (ngx_http_hymt_capitals(e->src, e->src_len)
                && memmem(text, len, e->src, e->src_len) == NULL))
        {
            continue;
        }

        room -= (size_t) e->src_len + e->tgt_len + 2;

        ngx_http_hymt_append(out, e->src, e->src_len);
        ngx_http_hymt_append(out, "\t", 1);
        ngx_http_hymt_append(out, e->tgt, e->tgt_len);
        ngx_http_hymt_append(out, "\n", 1);
    }
}


static ngx_uint_t
ngx_http_hymt_capitals(const char *text, size_t len)
{
    size_t      at;
    ngx_uint_t  any;

    at = 0;
    any = 0;

    while (at < len) {
        switch (utf8proc_category(hymt_utf8_next_char(text, &at, len))) {

        case UTF8PROC_CATEGORY_LU:
            any = 1;
            break;

        case UTF8PROC_CATEGORY_LL:
        case UTF8PROC_CATEGORY_LT:
        case UTF8PROC_CATEGORY_LM:
        case UTF8PROC_CATEGORY_LO:
            return 0;

        default:
            break;
        }
    }

    return any;
}
