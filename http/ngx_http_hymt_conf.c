
/*
 * Copyright (C) the hymt authors
 */


/*
 * What a location is for, and values of directives that NGINX has no slot for.
 */


#include "ngx_http_hymt_runtime.h"


static ngx_http_hymt_api_t *ngx_http_hymt_conf_api(ngx_str_t *arg);
static void ngx_http_hymt_conf_unknown_api(ngx_conf_t *cf, ngx_str_t *arg);
static ngx_int_t ngx_http_hymt_conf_zone_name(ngx_conf_t *cf,
    ngx_str_t *value, ngx_str_t *name, ssize_t *size);
static ngx_uint_t ngx_http_hymt_conf_is_origin(ngx_str_t *value);
static ngx_int_t ngx_http_hymt_conf_sampling_value(ngx_str_t *arg,
    ngx_http_hymt_loc_conf_t *hlcf);


static ngx_conf_enum_t  ngx_http_hymt_statuses[] = {
    { ngx_string("json"), NGX_HTTP_HYMT_STATUS_JSON },
    { ngx_string("prometheus"), NGX_HTTP_HYMT_STATUS_PROMETHEUS },
    { ngx_string("ready"), NGX_HTTP_HYMT_STATUS_READY },
    { ngx_string("live"), NGX_HTTP_HYMT_STATUS_LIVE },
    { ngx_null_string, 0 }
};


/* hymt_translate NAME [api=NAME]; */
char *
ngx_http_hymt_conf_translate(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_hymt_loc_conf_t *hlcf = conf;

    ngx_str_t                  *value;
    ngx_http_core_loc_conf_t   *clcf;
    ngx_http_hymt_main_conf_t  *hmcf;

    if (hlcf->model != NULL) {
        return "is duplicate";
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->handler != NULL) {
        return "comes after another directive that answers this location";
    }

    value = cf->args->elts;

    hmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_hymt_module);

    hlcf->model = ngx_http_hymt_model_get(cf, hmcf, &value[1]);
    if (hlcf->model == NULL) {
        return NGX_CONF_ERROR;
    }

    hlcf->model->used = 1;
    hmcf->used = 1;

    hlcf->api = ngx_http_hymt_apis[0];

    if (cf->args->nelts == 3) {
        hlcf->api = ngx_http_hymt_conf_api(&value[2]);

        if (hlcf->api == NULL) {
            ngx_http_hymt_conf_unknown_api(cf, &value[2]);
            return NGX_CONF_ERROR;
        }
    }

    clcf->handler = ngx_http_hymt_handler;

    return NGX_CONF_OK;
}


static ngx_http_hymt_api_t *
ngx_http_hymt_conf_api(ngx_str_t *arg)
{
    ngx_uint_t  i;
    ngx_str_t  *name;

    if (ngx_strncmp(arg->data, "api=", 4) != 0) {
        return NULL;
    }

    for (i = 0; ngx_http_hymt_apis[i] != NULL; i++) {
        name = &ngx_http_hymt_apis[i]->name;

        if (name->len == arg->len - 4
            && ngx_strncmp(name->data, arg->data + 4, name->len) == 0)
        {
            return ngx_http_hymt_apis[i];
        }
    }

    return NULL;
}


static void
ngx_http_hymt_conf_unknown_api(ngx_conf_t *cf, ngx_str_t *arg)
{
    u_char      *p, *last;
    u_char       list[256];
    ngx_uint_t   i;

    p = list;
    last = list + sizeof(list);

    for (i = 0; ngx_http_hymt_apis[i] != NULL; i++) {
        p = ngx_slprintf(p, last, "%s api=%V", i ? "," : "",
                         &ngx_http_hymt_apis[i]->name);
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\" of \"hymt_translate\": it"
                       " knows%*s", arg, (size_t) (p - list), list);
}


/* hymt_status [json | prometheus [vllm] | ready | live]; */
char *
ngx_http_hymt_conf_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_hymt_loc_conf_t *hlcf = conf;

    ngx_str_t                 *value;
    ngx_conf_enum_t           *e;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->handler != NULL) {
        return "comes after another directive that answers this location";
    }

    clcf->handler = ngx_http_hymt_status_handler;

    value = cf->args->elts;
    e = ngx_http_hymt_statuses;

    hlcf->status = e->value;
    hlcf->vllm = 0;

    if (cf->args->nelts == 1) {
        return NGX_CONF_OK;
    }

    while (e->name.len && ngx_strcmp(e->name.data, value[1].data) != 0) {
        e++;
    }

    if (e->name.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" of \"hymt_status\": it"
                           " knows json, prometheus, ready and live",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    hlcf->status = e->value;

    if (cf->args->nelts == 2) {
        return NGX_CONF_OK;
    }

    if (hlcf->status != NGX_HTTP_HYMT_STATUS_PROMETHEUS
        || ngx_strcmp(value[2].data, "vllm") != 0)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\" of \"hymt_status\":"
                           " \"prometheus\" alone knows one, \"vllm\"",
                           &value[2]);
        return NGX_CONF_ERROR;
    }

    hlcf->vllm = 1;

    return NGX_CONF_OK;
}


/* hymt_cache and hymt_sessions: zone=NAME:SIZE [ttl=TIME], a size more */
char *
ngx_http_hymt_conf_zone(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_http_hymt_zone_conf_t *z)
{
    size_t       len;
    ssize_t      size;
    ngx_int_t    rc;
    ngx_str_t   *value, name, s;
    ngx_uint_t   i, ttl, bytes;

    value = cf->args->elts;
    len = ngx_strlen(z->param);

    ngx_str_null(&name);
    size = 0;
    ttl = 0;
    bytes = 0;

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_strncmp(value[i].data, "zone=", 5) == 0) {

            if (name.len) {
                goto duplicate;
            }

            rc = ngx_http_hymt_conf_zone_name(cf, &value[i], &name, &size);

            if (rc == NGX_ERROR) {
                return NGX_CONF_ERROR;
            }

            if (rc == NGX_DECLINED) {
                goto invalid;
            }

            continue;
        }

        if (ngx_strncmp(value[i].data, "ttl=", 4) == 0) {

            if (ttl++) {
                goto duplicate;
            }

            s.data = value[i].data + 4;
            s.len = value[i].len - 4;
            z->ttl = ngx_parse_time(&s, 1);

            if (z->ttl == (time_t) NGX_ERROR || z->ttl == 0
                || z->ttl > NGX_MAX_INT32_VALUE)
            {
                goto invalid;
            }

            continue;
        }

        if (ngx_strncmp(value[i].data, z->param, len) == 0) {

            if (bytes++) {
                goto duplicate;
            }

            s.data = value[i].data + len;
            s.len = value[i].len - len;
            z->bytes = ngx_parse_size(&s);

            if (z->bytes < z->least || z->bytes > z->most) {
                ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                                   "invalid parameter \"%V\" of \"%V\": it"
                                   " must be from %z to %z bytes", &value[i],
                                   &cmd->name, z->least, z->most);
                return NGX_CONF_ERROR;
            }

            continue;
        }

        goto invalid;
    }

    if (name.len == 0) {
        return "needs zone=NAME:SIZE";
    }

    z->zone = ngx_shared_memory_add(cf, &name, size, &ngx_http_hymt_module);
    if (z->zone == NULL) {
        return NGX_CONF_ERROR;
    }

    if (z->zone->data != NULL) {
        return "names a zone that is in use";
    }

    return NGX_CONF_OK;

duplicate:

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "duplicate parameter \"%V\" of \"%V\"", &value[i],
                       &cmd->name);

    return NGX_CONF_ERROR;

invalid:

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\" of \"%V\"", &value[i],
                       &cmd->name);

    return NGX_CONF_ERROR;
}


/* NGX_DECLINED: it is no "zone=NAME:SIZE"; NGX_ERROR: too small, and said. */
static ngx_int_t
ngx_http_hymt_conf_zone_name(ngx_conf_t *cf, ngx_str_t *value,
    ngx_str_t *name, ssize_t *size)
{
    u_char     *p;
    ngx_str_t   s;

    name->data = value->data + 5;
    p = (u_char *) ngx_strchr(name->data, ':');

    if (p == NULL || p == name->data) {
        return NGX_DECLINED;
    }

    name->len = p - name->data;
    s.data = p + 1;
    s.len = value->data + value->len - s.data;
    *size = ngx_parse_size(&s);

    if (*size < (ssize_t) (8 * ngx_pagesize)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "zone \"%V\" is too small",
                           value);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* For NGINX's slots: of numbers, times and sizes, all as wide as this. */
char *
ngx_http_hymt_conf_bounds(ngx_conf_t *cf, void *post, void *data)
{
    ngx_conf_num_bounds_t *bounds = post;
    ngx_int_t *n = data;

    ngx_str_t  *value;

    if (*n >= bounds->low && *n <= bounds->high) {
        return NGX_CONF_OK;
    }

    value = cf->args->elts;

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"%V\" must be from %i to %i, not \"%V\"", &value[0],
                       bounds->low, bounds->high, &value[1]);

    return NGX_CONF_ERROR;
}


/* Worker 0 looks at its engines no more often. */
char *
ngx_http_hymt_conf_watchdog(ngx_conf_t *cf, void *post, void *data)
{
    ngx_msec_t *watchdog = data;

    return *watchdog == 0 || *watchdog >= NGX_HTTP_HYMT_WATCH
           ? NGX_CONF_OK : "must be 0 (off), or 500ms at least";
}


/* "4" or "2.5": tokens of output for each of the text, in percent here */
char *
ngx_http_hymt_conf_ratio(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_hymt_loc_conf_t *hlcf = conf;

    ngx_int_t   ratio;
    ngx_str_t  *value;

    if (hlcf->ratio != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;
    ratio = ngx_atofp(value[1].data, value[1].len, 2);

    if (ratio == NGX_ERROR || ratio < 100 || ratio > 100 * HYMT_MAX_RATIO) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"hymt_max_ratio\" must be a number from 1 to %d,"
                           " not \"%V\"", HYMT_MAX_RATIO, &value[1]);
        return NGX_CONF_ERROR;
    }

    hlcf->ratio = ratio;

    return NGX_CONF_OK;
}


char *
ngx_http_hymt_conf_cors(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_hymt_loc_conf_t *hlcf = conf;

    ngx_str_t   *value, *origin;
    ngx_uint_t   i;

    if (hlcf->cors != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {
        hlcf->cors = NULL;
        return NGX_CONF_OK;
    }

    hlcf->cors = ngx_array_create(cf->pool, cf->args->nelts,
                                  sizeof(ngx_str_t));
    if (hlcf->cors == NULL) {
        return NGX_CONF_ERROR;
    }

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_strcmp(value[i].data, "*") == 0) {
            if (cf->args->nelts != 2) {
                return "takes \"*\" alone, or origins";
            }

        } else if (!ngx_http_hymt_conf_is_origin(&value[i])) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%V\" in \"hymt_cors\" is no origin, as"
                               " https://example.com is", &value[i]);
            return NGX_CONF_ERROR;
        }

        origin = ngx_array_push(hlcf->cors);
        if (origin == NULL) {
            return NGX_CONF_ERROR;
        }

        *origin = value[i];
    }

    return NGX_CONF_OK;
}


/* Browsers send scheme, host and port, and compare bytes: no path, no "/". */
static ngx_uint_t
ngx_http_hymt_conf_is_origin(ngx_str_t *value)
{
    u_char  *p, *last;

    last = value->data + value->len;

    p = (u_char *) ngx_strstr(value->data, "://");

    if (p == NULL || p == value->data || p + 3 == last) {
        return 0;
    }

    for (p += 3; p < last; p++) {
        if (*p <= ' ' || *p == '/' || *p == ',') {
            return 0;
        }
    }

    return 1;
}


char *
ngx_http_hymt_conf_language(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char  *p = conf;

    int         lang;
    char        list[2048];
    ngx_int_t  *field;
    ngx_str_t  *value;

    field = (ngx_int_t *) (p + cmd->offset);
    value = cf->args->elts;

    if (*field != NGX_CONF_UNSET) {
        return "is duplicate";
    }

    if (value[1].len == 3 && ngx_strncmp(value[1].data, "off", 3) == 0) {
        *field = NGX_HTTP_HYMT_NO_LANG;
        return NGX_CONF_OK;
    }

    lang = hymt_lang_find((char *) value[1].data, value[1].len);

    if (lang == HYMT_LANG_NONE) {
        (void) hymt_lang_list(HYMT_LANGS_ALL, list, sizeof(list));

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\": unknown language \"%V\"; known are %s",
                           &cmd->name, &value[1], list);
        return NGX_CONF_ERROR;
    }

    *field = lang;

    return NGX_CONF_OK;
}


char *
ngx_http_hymt_conf_sampling(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_hymt_loc_conf_t *hlcf = conf;

    ngx_str_t        *value;
    ngx_uint_t        i;
    hymt_error_t      err;
    hymt_sampling_t   sampling;

    if (hlcf->sampling != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "greedy") == 0) {
        hlcf->sampling = NGX_HTTP_HYMT_SAMPLING_GREEDY;

    } else if (ngx_strcmp(value[1].data, "recommended") == 0) {
        hlcf->sampling = NGX_HTTP_HYMT_SAMPLING_RECOMMENDED;

    } else if (ngx_strcmp(value[1].data, "model") == 0) {
        hlcf->sampling = NGX_HTTP_HYMT_SAMPLING_MODEL;

    } else {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" of \"hymt_sampling\": it must"
                           " be greedy, recommended or model", &value[1]);
        return NGX_CONF_ERROR;
    }

    ngx_http_hymt_sampling_none(&hlcf->values);

    for (i = 2; i < cf->args->nelts; i++) {

        if (ngx_http_hymt_conf_sampling_value(&value[i], hlcf) != NGX_OK) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\" of \"hymt_sampling\":"
                               " it knows temperature=, top_p=, top_k=,"
                               " repetition_penalty= and seed=", &value[i]);
            return NGX_CONF_ERROR;
        }
    }

    ngx_memzero(&sampling, sizeof(hymt_sampling_t));

    sampling.top_p = 1;
    sampling.repetition_penalty = 1;

    ngx_http_hymt_sampling_over(&sampling, &hlcf->values);

    if (hymt_sampling_check(&sampling, &err) != HYMT_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"hymt_sampling\": %s",
                           err.text);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_hymt_conf_sampling_value(ngx_str_t *arg,
    ngx_http_hymt_loc_conf_t *hlcf)
{
    char       *end;
    u_char     *eq;
    float      *real;
    double      number;
    ngx_str_t   name;

    eq = ngx_strlchr(arg->data, arg->data + arg->len, '=');

    if (eq == NULL || eq[1] == '\0') {
        return NGX_ERROR;
    }

    name.data = arg->data;
    name.len = eq - arg->data;
    eq++;

    real = NULL;

    if (name.len == 11 && ngx_strncmp(name.data, "temperature", 11) == 0) {
        real = &hlcf->values.temperature;

    } else if (name.len == 5 && ngx_strncmp(name.data, "top_p", 5) == 0) {
        real = &hlcf->values.top_p;

    } else if (name.len == 18
               && ngx_strncmp(name.data, "repetition_penalty", 18) == 0)
    {
        real = &hlcf->values.repetition_penalty;
    }

    if (*eq < '0' || *eq > '9') {
        return NGX_ERROR;
    }

    errno = 0;

    if (real != NULL) {
        if (ngx_http_hymt_decimal((char *) eq, &number) != NGX_OK) {
            return NGX_ERROR;
        }

        *real = (float) number;

        return NGX_OK;
    }

    if (name.len == 5 && ngx_strncmp(name.data, "top_k", 5) == 0) {
        unsigned long long  n;

        n = strtoull((char *) eq, &end, 10);

        if (n >= UINT32_MAX) {
            return NGX_ERROR;
        }

        hlcf->values.top_k = (uint32_t) n;

    } else if (name.len == 4 && ngx_strncmp(name.data, "seed", 4) == 0) {
        hlcf->values.seed = strtoull((char *) eq, &end, 10);
        hlcf->seeded = 1;

    } else {
        return NGX_ERROR;
    }

    return (errno == 0 && *end == '\0') ? NGX_OK : NGX_ERROR;
}
