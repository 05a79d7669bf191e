
/*
 * Copyright (C) the hymt authors
 */


/*
 * hymt_model NAME { ... }: parsing, defaults, and the checks of the directory
 * behind it.  They run when the configuration is tested or loaded, so a reload
 * with a broken model is refused while the old configuration goes on.
 */


#include "ngx_http_hymt.h"
#include "model.h"
#include "sizing.h"


typedef struct {
    ngx_str_t    name;
    char      *(*set)(ngx_conf_t *cf, ngx_http_hymt_model_t *model,
                      void *field, void *post);
    size_t       offset;
    void        *post;
} ngx_http_hymt_param_t;


typedef struct {
    ngx_int_t    low;
    ngx_int_t    high;
} ngx_http_hymt_range_t;


static char *ngx_http_hymt_model_param(ngx_conf_t *cf, ngx_command_t *dummy,
    void *conf);
static char *ngx_http_hymt_set_string(ngx_conf_t *cf,
    ngx_http_hymt_model_t *model, void *field, void *post);
static char *ngx_http_hymt_set_path(ngx_conf_t *cf,
    ngx_http_hymt_model_t *model, void *field, void *post);
static char *ngx_http_hymt_set_backend(ngx_conf_t *cf,
    ngx_http_hymt_model_t *model, void *field, void *post);
static char *ngx_http_hymt_set_family(ngx_conf_t *cf,
    ngx_http_hymt_model_t *model, void *field, void *post);
static char *ngx_http_hymt_set_number(ngx_conf_t *cf,
    ngx_http_hymt_model_t *model, void *field, void *post);
static char *ngx_http_hymt_set_flag(ngx_conf_t *cf,
    ngx_http_hymt_model_t *model, void *field, void *post);
static ngx_int_t ngx_http_hymt_check_size(ngx_http_hymt_model_t *model,
    ngx_log_t *log, hymt_model_t *m);
static ngx_int_t ngx_http_hymt_check_prompt(ngx_http_hymt_model_t *model,
    ngx_log_t *log);
static hymt_status_t ngx_http_hymt_frame(ngx_http_hymt_model_t *model,
    const hymt_tokenizer_t *tok, const hymt_prompter_t *prompter,
    hymt_error_t *err);
static ngx_int_t ngx_http_hymt_check_access(ngx_http_hymt_model_t *model,
    ngx_cycle_t *cycle, hymt_model_t *m);
static ngx_int_t ngx_http_hymt_check_file(ngx_http_hymt_model_t *model,
    ngx_log_t *log, ngx_http_hymt_user_t *user, const char *path);
static ngx_int_t ngx_http_hymt_model_error(ngx_http_hymt_model_t *model,
    ngx_log_t *log, const char *text);


static ngx_http_hymt_range_t  ngx_http_hymt_device = { 0, 127 };
static ngx_http_hymt_range_t  ngx_http_hymt_threads = { 0, 256 };
static ngx_http_hymt_range_t  ngx_http_hymt_max_batch = { 1, 1024 };
static ngx_http_hymt_range_t  ngx_http_hymt_context = { 64, 262144 };
static ngx_http_hymt_range_t  ngx_http_hymt_kv_tokens = { 64, 1 << 30 };
static ngx_http_hymt_range_t  ngx_http_hymt_queue = { 1, 65536 };
static ngx_http_hymt_range_t  ngx_http_hymt_queue_tokens = { 0, 1 << 30 };


static ngx_http_hymt_param_t  ngx_http_hymt_model_params[] = {

    { ngx_string("path"),
      ngx_http_hymt_set_path,
      offsetof(ngx_http_hymt_model_t, path),
      NULL },

    { ngx_string("family"),
      ngx_http_hymt_set_family,
      offsetof(ngx_http_hymt_model_t, family),
      NULL },

    { ngx_string("backend"),
      ngx_http_hymt_set_backend,
      offsetof(ngx_http_hymt_model_t, backend),
      NULL },

    { ngx_string("prompt"),
      ngx_http_hymt_set_string,
      offsetof(ngx_http_hymt_model_t, prompt),
      NULL },

    { ngx_string("device"),
      ngx_http_hymt_set_number,
      offsetof(ngx_http_hymt_model_t, device),
      &ngx_http_hymt_device },

    { ngx_string("threads"),
      ngx_http_hymt_set_number,
      offsetof(ngx_http_hymt_model_t, threads),
      &ngx_http_hymt_threads },

    { ngx_string("max_batch"),
      ngx_http_hymt_set_number,
      offsetof(ngx_http_hymt_model_t, max_batch),
      &ngx_http_hymt_max_batch },

    { ngx_string("context"),
      ngx_http_hymt_set_number,
      offsetof(ngx_http_hymt_model_t, context),
      &ngx_http_hymt_context },

    { ngx_string("kv_tokens"),
      ngx_http_hymt_set_number,
      offsetof(ngx_http_hymt_model_t, kv_tokens),
      &ngx_http_hymt_kv_tokens },

    { ngx_string("queue"),
      ngx_http_hymt_set_number,
      offsetof(ngx_http_hymt_model_t, queue),
      &ngx_http_hymt_queue },

    { ngx_string("queue_tokens"),
      ngx_http_hymt_set_number,
      offsetof(ngx_http_hymt_model_t, queue_tokens),
      &ngx_http_hymt_queue_tokens },

    { ngx_string("prefix_cache"),
      ngx_http_hymt_set_flag,
      offsetof(ngx_http_hymt_model_t, prefix_cache),
      NULL },

    { ngx_string("coalesce"),
      ngx_http_hymt_set_flag,
      offsetof(ngx_http_hymt_model_t, coalesce),
      NULL },

    { ngx_string("ignore_eos"),
      ngx_http_hymt_set_flag,
      offsetof(ngx_http_hymt_model_t, ignore_eos),
      NULL },

    { ngx_null_string, NULL, 0, NULL }
};


ngx_http_hymt_model_t *
ngx_http_hymt_model_get(ngx_conf_t *cf, ngx_http_hymt_main_conf_t *hmcf,
    ngx_str_t *name)
{
    ngx_uint_t               i;
    ngx_http_hymt_model_t  **models, **slot, *model;

    models = hmcf->models.elts;

    for (i = 0; i < hmcf->models.nelts; i++) {
        if (models[i]->name.len == name->len
            && ngx_strncmp(models[i]->name.data, name->data, name->len) == 0)
        {
            return models[i];
        }
    }

    if (hmcf->models.nelts == NGX_HTTP_HYMT_MAX_MODELS) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "there may be at most %d hymt_model blocks",
                           NGX_HTTP_HYMT_MAX_MODELS);
        return NULL;
    }

    model = ngx_pcalloc(cf->pool, sizeof(ngx_http_hymt_model_t));
    if (model == NULL) {
        return NULL;
    }

    slot = ngx_array_push(&hmcf->models);
    if (slot == NULL) {
        return NULL;
    }

    *slot = model;

    /*
     * set by ngx_pcalloc():
     *
     *     model->path = { 0, NULL };
     *     model->backend = { 0, NULL };
     *     model->prompt = { 0, NULL };
     *     model->used = 0;
     *     model->exchange = { NULL, { 0 } };
     */

    model->name = *name;
    model->file = cf->conf_file->file.name.data;
    model->line = cf->conf_file->line;
    model->index = hmcf->models.nelts - 1;
    model->family = NGX_CONF_UNSET_UINT;
    model->device = NGX_CONF_UNSET;
    model->threads = NGX_CONF_UNSET;
    model->max_batch = NGX_CONF_UNSET;
    model->context = NGX_CONF_UNSET;
    model->kv_tokens = NGX_CONF_UNSET;
    model->queue = NGX_CONF_UNSET;
    model->queue_tokens = NGX_CONF_UNSET;
    model->prefix_cache = NGX_CONF_UNSET;
    model->coalesce = NGX_CONF_UNSET;
    model->ignore_eos = NGX_CONF_UNSET;
    model->host_fd = -1;

    return model;
}


char *
ngx_http_hymt_model_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_hymt_main_conf_t *hmcf = conf;

    char                   *rv;
    ngx_str_t              *value;
    ngx_conf_t              save;
    ngx_http_hymt_model_t  *model;

    value = cf->args->elts;

    if (value[1].len == 0
        || !hymt_utf8_check((char *) value[1].data, value[1].len, NULL))
    {
        return "has a name that is empty or not UTF-8";
    }

    model = ngx_http_hymt_model_get(cf, hmcf, &value[1]);
    if (model == NULL) {
        return NGX_CONF_ERROR;
    }

    if (model->path.data != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate hymt_model \"%V\", first in %s:%ui",
                           &value[1], model->file, model->line);
        return NGX_CONF_ERROR;
    }

    model->file = cf->conf_file->file.name.data;
    model->line = cf->conf_file->line;

    save = *cf;
    cf->handler = ngx_http_hymt_model_param;
    cf->handler_conf = (void *) model;

    rv = ngx_conf_parse(cf, NULL);

    *cf = save;

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (model->path.data == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "hymt_model \"%V\" has no \"path\"", &model->name);
        return NGX_CONF_ERROR;
    }

    if (model->backend.data == NULL) {
        ngx_str_set(&model->backend, "auto");
    }

    ngx_conf_init_uint_value(model->family, HYMT_FAMILY_AUTO);
    ngx_conf_init_value(model->device, 0);
    ngx_conf_init_value(model->threads, 0);
    ngx_conf_init_value(model->max_batch, 64);
    ngx_conf_init_value(model->context, 8192);
    ngx_conf_init_value(model->kv_tokens, 0);
    ngx_conf_init_value(model->queue, 1024);
    ngx_conf_init_value(model->queue_tokens, 0);
    ngx_conf_init_value(model->prefix_cache, 1);
    ngx_conf_init_value(model->coalesce, 1);
    ngx_conf_init_value(model->ignore_eos, 0);

    if (model->ignore_eos) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "hymt_model \"%V\": with \"ignore_eos\" outputs"
                           " end by their length alone: for measurements",
                           &model->name);
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_hymt_model_param(ngx_conf_t *cf, ngx_command_t *dummy, void *conf)
{
    ngx_http_hymt_model_t *model = conf;

    char                   *rv;
    ngx_str_t              *value;
    ngx_http_hymt_param_t  *p;

    value = cf->args->elts;

    for (p = ngx_http_hymt_model_params; p->name.len; p++) {

        if (p->name.len != value[0].len
            || ngx_strncmp(p->name.data, value[0].data, value[0].len) != 0)
        {
            continue;
        }

        if (cf->args->nelts != 2) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%V\" in hymt_model takes one value",
                               &value[0]);
            return NGX_CONF_ERROR;
        }

        rv = p->set(cf, model, (u_char *) model + p->offset, p->post);

        if (rv != NGX_CONF_OK && rv != NGX_CONF_ERROR) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%V\" in hymt_model %s", &value[0], rv);
            return NGX_CONF_ERROR;
        }

        return rv;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "unknown parameter \"%V\" in hymt_model; it knows path,"
                       " family, backend, prompt, device, threads, max_batch,"
                       " context, kv_tokens, queue, queue_tokens, prefix_cache,"
                       " coalesce, ignore_eos",
                       &value[0]);

    return NGX_CONF_ERROR;
}


static char *
ngx_http_hymt_set_string(ngx_conf_t *cf, ngx_http_hymt_model_t *model,
    void *field, void *post)
{
    ngx_str_t *str = field;

    ngx_str_t  *value;

    value = cf->args->elts;

    if (str->data != NULL) {
        return "is duplicate";
    }

    if (value[1].len == 0) {
        return "is empty";
    }

    *str = value[1];

    return NGX_CONF_OK;
}


static char *
ngx_http_hymt_set_path(ngx_conf_t *cf, ngx_http_hymt_model_t *model,
    void *field, void *post)
{
    ngx_str_t *path = field;

    char  *rv;

    rv = ngx_http_hymt_set_string(cf, model, field, post);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (!hymt_utf8_check((char *) path->data, path->len, NULL)) {
        return "is not UTF-8";
    }

    /* relative to the prefix, as root and access_log are */

    if (ngx_conf_full_name(cf->cycle, path, 0) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_hymt_set_backend(ngx_conf_t *cf, ngx_http_hymt_model_t *model,
    void *field, void *post)
{
    ngx_str_t *backend = field;

    char          *rv;
    hymt_error_t   err;

    rv = ngx_http_hymt_set_string(cf, model, field, post);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (hymt_backend_check((char *) backend->data, &err) != HYMT_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"backend\" in hymt_model: %s", err.text);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_http_hymt_set_family(ngx_conf_t *cf, ngx_http_hymt_model_t *model,
    void *field, void *post)
{
    ngx_uint_t *family = field;

    ngx_str_t      *value;
    hymt_family_t   f;

    value = cf->args->elts;

    if (*family != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    if (hymt_family_parse((char *) value[1].data, value[1].len, &f)
        != HYMT_OK)
    {
        return "must be mt1, mt1.5, mt2 or auto";
    }

    *family = f;

    return NGX_CONF_OK;
}


static char *
ngx_http_hymt_set_number(ngx_conf_t *cf, ngx_http_hymt_model_t *model,
    void *field, void *post)
{
    ngx_int_t *number = field;
    ngx_http_hymt_range_t *range = post;

    ngx_int_t   n;
    ngx_str_t  *value;

    value = cf->args->elts;

    if (*number != NGX_CONF_UNSET) {
        return "is duplicate";
    }

    n = ngx_atoi(value[1].data, value[1].len);

    if (n == NGX_ERROR || n < range->low || n > range->high) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" in hymt_model must be a number from %i to"
                           " %i, not \"%V\"", &value[0], range->low,
                           range->high, &value[1]);
        return NGX_CONF_ERROR;
    }

    *number = n;

    return NGX_CONF_OK;
}


static char *
ngx_http_hymt_set_flag(ngx_conf_t *cf, ngx_http_hymt_model_t *model,
    void *field, void *post)
{
    ngx_flag_t *flag = field;

    ngx_str_t  *value;

    value = cf->args->elts;

    if (*flag != NGX_CONF_UNSET) {
        return "is duplicate";
    }

    if (ngx_strcasecmp(value[1].data, (u_char *) "on") == 0) {
        *flag = 1;

    } else if (ngx_strcasecmp(value[1].data, (u_char *) "off") == 0) {
        *flag = 0;

    } else {
        return "must be on or off";
    }

    return NGX_CONF_OK;
}


ngx_int_t
ngx_http_hymt_model_check(ngx_http_hymt_model_t *model, ngx_cycle_t *cycle)
{
    bool           guessed;
    ngx_int_t      rc;
    const char    *path;
    struct stat    st;
    hymt_error_t   err;
    hymt_model_t  *m;

    path = (const char *) model->path.data;

    /* headers only: no weight is read */

    if (hymt_model_open(path, &m, &err) != HYMT_OK) {
        return ngx_http_hymt_model_error(model, cycle->log, err.text);
    }

    model->created = stat(path, &st) == 0 ? st.st_mtime : 0;

    model->config = m->config;

    rc = ngx_http_hymt_check_access(model, cycle, m);

    if (rc == NGX_OK) {
        rc = ngx_http_hymt_check_size(model, cycle->log, m);
    }

    hymt_model_close(m);

    if (rc != NGX_OK) {
        return rc;
    }

    model->params.family = model->family;
    model->params.languages = HYMT_LANGS_ALL;

    if (hymt_prompt_detect(path, &model->config, &model->params, &guessed,
                           &err)
        != HYMT_OK)
    {
        return ngx_http_hymt_model_error(model, cycle->log, err.text);
    }

    if (guessed) {
        ngx_log_error(NGX_LOG_WARN, cycle->log, 0,
                      "hymt_model \"%V\" in %s:%ui: the name of %s does not"
                      " tell whose prompts it takes: those of %s; set"
                      " \"family\"", &model->name, model->file, model->line,
                      path, hymt_family_name(model->params.family));
    }

    return ngx_http_hymt_check_prompt(model, cycle->log);
}


/* What the engine would find later, when the old one has gone. */
static ngx_int_t
ngx_http_hymt_check_size(ngx_http_hymt_model_t *model, ngx_log_t *log,
    hymt_model_t *m)
{
    uint64_t               memory;
    hymt_error_t           err;
    hymt_sizing_t          sizing;
    hymt_engine_params_t   params;

    ngx_memzero(&params, sizeof(hymt_engine_params_t));

    if ((ngx_uint_t) model->context > model->config.max_position) {
        model->context = model->config.max_position;
    }

    params.max_batch = model->max_batch;
    params.context = model->context;
    params.kv_tokens = model->kv_tokens;

    /* a device's memory is for the worker to ask: nothing opens it before */

    memory = hymt_backend_on_device((char *) model->backend.data)
             ? UINT64_MAX : hymt_sizing_memory();

    if (hymt_sizing(&params, 1, 4, &model->config, m->bytes, memory, &sizing,
                    &err)
        != HYMT_OK)
    {
        return ngx_http_hymt_model_error(model, log, err.text);
    }

    return NGX_OK;
}


/*
 * The tokenizer and the prompts on it: a fraction of a second for the largest
 * vocabularies, and everything but the weights themselves has been tried.
 */
static ngx_int_t
ngx_http_hymt_check_prompt(ngx_http_hymt_model_t *model, ngx_log_t *log)
{
    hymt_error_t           err;
    hymt_status_t          rc;
    hymt_prompter_t       *prompter;
    hymt_tokenizer_t      *tok;
    hymt_prompt_params_t   params;

    if (hymt_tokenizer_load((char *) model->path.data, &tok, &err)
        != HYMT_OK)
    {
        return ngx_http_hymt_model_error(model, log, err.text);
    }

    params = model->params;
    params.override = model->prompt.len ? (char *) model->prompt.data : NULL;

    rc = hymt_prompter_create(tok, &model->config, &params, &prompter, &err);

    if (rc == HYMT_OK) {
        rc = ngx_http_hymt_frame(model, tok, prompter, &err);
        hymt_prompter_free(prompter);
    }

    hymt_tokenizer_free(tok);

    return rc == HYMT_OK ? NGX_OK
                         : ngx_http_hymt_model_error(model, log, err.text);
}


/* What a prompt has beside what a request puts into it. */
static hymt_status_t
ngx_http_hymt_frame(ngx_http_hymt_model_t *model, const hymt_tokenizer_t *tok,
    const hymt_prompter_t *prompter, hymt_error_t *err)
{
    int                     i;
    size_t                  n, n_text;
    uint32_t                ids[4096];
    hymt_status_t           rc;
    hymt_encoder_t         *enc;
    hymt_prompt_request_t   request;

    ngx_memzero(&request, sizeof(hymt_prompt_request_t));

    for (i = 0; i < HYMT_N_LANGS - 1; i++) {
        if (model->params.languages >> i & 1) {
            break;
        }
    }

    request.src = i;
    request.tgt = i;
    request.text = "a";
    request.len = 1;

    rc = hymt_encoder_create(tok, &enc, err);

    if (rc != HYMT_OK) {
        return rc;
    }

    rc = hymt_prompt_build(prompter, enc, &request, ids, hymt_nelts(ids), &n,
                           &n_text, err);

    hymt_encoder_free(enc);

    /* longer than that: it is the engine that refuses texts then */

    if (rc == HYMT_TOO_LONG) {
        model->frame = hymt_nelts(ids);
        return HYMT_OK;
    }

    if (rc == HYMT_OK) {
        model->frame = n - ngx_min(n, n_text);
    }

    return rc;
}


/*
 * The master may read everything; the workers, which run as another user, may
 * not.  Found now, it is a refused configuration; found later, an engine that
 * never gets ready.
 */
static ngx_int_t
ngx_http_hymt_check_access(ngx_http_hymt_model_t *model, ngx_cycle_t *cycle,
    hymt_model_t *m)
{
    u_char                *p;
    uint32_t               i;
    const char            *last;
    ngx_http_hymt_user_t   user;
    u_char                 path[NGX_MAX_PATH];

    if (ngx_http_hymt_user(cycle, &user) != NGX_OK) {
        return NGX_ERROR;
    }

    p = ngx_snprintf(path, sizeof(path), "%V/tokenizer.json%Z", &model->path);

    if (p == path + sizeof(path)) {
        return ngx_http_hymt_model_error(model, cycle->log,
                                         "the path is too long");
    }

    if (ngx_http_hymt_check_file(model, cycle->log, &user, (char *) path)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    (void) ngx_snprintf(path, sizeof(path), "%V/config.json%Z", &model->path);

    if (ngx_http_hymt_check_file(model, cycle->log, &user, (char *) path)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    last = m->embed->file;

    if (ngx_http_hymt_check_file(model, cycle->log, &user, last) != NGX_OK) {
        return NGX_ERROR;
    }

    for (i = 0; i < m->config.n_layers; i++) {

        /* a layer's tensors lie together; shards change between layers */

        if (m->layers[i].down->file != last) {
            last = m->layers[i].down->file;

            if (ngx_http_hymt_check_file(model, cycle->log, &user, last)
                != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_check_file(ngx_http_hymt_model_t *model, ngx_log_t *log,
    ngx_http_hymt_user_t *user, const char *path)
{
    char  text[NGX_MAX_PATH + 512];

    if (ngx_http_hymt_check_path(user, path, 4, text, sizeof(text))
        != NGX_OK)
    {
        return ngx_http_hymt_model_error(model, log, text);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_hymt_model_error(ngx_http_hymt_model_t *model, ngx_log_t *log,
    const char *text)
{
    ngx_log_error(NGX_LOG_EMERG, log, 0,
                  "hymt_model \"%V\" in %s:%ui: %s",
                  &model->name, model->file, model->line, text);

    return NGX_ERROR;
}
