
/*
 * Copyright (C) the hymt authors
 */


/*
 * Sessions: the last texts of a conversation, which serve as context for the
 * next one.  A table of fixed size in shared memory, since the requests of one
 * conversation reach any worker: sets of a few places, the oldest of which is
 * given up for a new one.  Keys are owner and session together and are compared
 * in full; a place that a dying worker left half written fails its checks and
 * is empty.
 *
 * All on the event loop, under the zone's mutex, a few hundred bytes each time.
 */


#include "ngx_http_hymt.h"


#define NGX_HTTP_HYMT_WAYS         8
#define NGX_HTTP_HYMT_SESSION_KEY  192


typedef struct {
    time_t      used;
    uint32_t    key_len;    /* 0: free */
    uint32_t    len;
    u_char      key[NGX_HTTP_HYMT_SESSION_KEY];
    u_char      text[1];    /* [bytes]; texts, a line feed after each */
} ngx_http_hymt_session_t;


static ngx_int_t ngx_http_hymt_sessions_init(ngx_shm_zone_t *zone, void *data);
static ngx_int_t ngx_http_hymt_session_key(ngx_http_hymt_call_t *call,
    ngx_str_t *key, u_char *buf);
static ngx_http_hymt_session_t *ngx_http_hymt_session_find(
    ngx_http_hymt_sessions_t *sessions, ngx_str_t *key, ngx_uint_t create);


/* hymt_sessions zone=NAME:SIZE [ttl=30m] [bytes=2k] | off; */
char *
ngx_http_hymt_sessions_zone(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_hymt_loc_conf_t *hlcf = conf;

    char                       *rv;
    ngx_str_t                  *value;
    ngx_http_hymt_sessions_t   *sessions;
    ngx_http_hymt_zone_conf_t   z;

    if (hlcf->sessions != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {
        hlcf->sessions = NULL;
        return NGX_CONF_OK;
    }

    z.param = "bytes=";
    z.least = 64;
    z.most = 65536;
    z.bytes = 2048;
    z.ttl = 1800;

    rv = ngx_http_hymt_conf_zone(cf, cmd, &z);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    sessions = ngx_pcalloc(cf->pool, sizeof(ngx_http_hymt_sessions_t));
    if (sessions == NULL) {
        return NGX_CONF_ERROR;
    }

    sessions->bytes = z.bytes;
    sessions->ttl = z.ttl;

    z.zone->init = ngx_http_hymt_sessions_init;
    z.zone->data = sessions;

    hlcf->sessions = sessions;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_hymt_sessions_init(ngx_shm_zone_t *zone, void *data)
{
    ngx_http_hymt_sessions_t *old = data;

    size_t                     room;
    ngx_slab_pool_t           *shpool;
    ngx_http_hymt_sessions_t  *sessions;

    sessions = zone->data;
    shpool = (ngx_slab_pool_t *) zone->shm.addr;

    sessions->shpool = shpool;

    /* places are looked at by size, so they must have kept theirs */

    if (old != NULL && old->bytes != sessions->bytes) {
        ngx_log_error(NGX_LOG_EMERG, zone->shm.log, 0,
                      "\"bytes\" of the hymt_sessions zone \"%V\" can't change"
                      " with a reload: use another name", &zone->shm.name);
        return NGX_ERROR;
    }

    sessions->place = ngx_align(offsetof(ngx_http_hymt_session_t, text)
                                + sessions->bytes, 8);

    if (old != NULL) {
        sessions->table = old->table;
        sessions->n_sets = old->n_sets;
        return NGX_OK;
    }

    /* what the slab allocator can give in one piece, less a page for itself */

    room = shpool->end - shpool->start;
    room -= ngx_min(room, 4 * ngx_pagesize);

    sessions->n_sets = room / (sessions->place * NGX_HTTP_HYMT_WAYS);

    if (sessions->n_sets > 0) {
        sessions->table = ngx_slab_calloc(shpool, sessions->n_sets
                                                  * NGX_HTTP_HYMT_WAYS
                                                  * sessions->place);
    }

    if (sessions->n_sets == 0 || sessions->table == NULL) {
        ngx_log_error(NGX_LOG_EMERG, zone->shm.log, 0,
                      "hymt_sessions zone \"%V\" is too small for %d sessions"
                      " of %uz bytes", &zone->shm.name, NGX_HTTP_HYMT_WAYS,
                      sessions->bytes);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * Puts what the session holds before the call's own context; NGX_ERROR: failure
 * is set.
 */
ngx_int_t
ngx_http_hymt_session_context(ngx_http_hymt_call_t *call)
{
    char                      *text;
    size_t                     len, own;
    u_char                     buf[NGX_HTTP_HYMT_SESSION_KEY];
    ngx_str_t                  key;
    ngx_http_hymt_session_t   *s;
    ngx_http_hymt_sessions_t  *sessions;

    if (ngx_http_hymt_session_key(call, &key, buf) != NGX_OK) {
        return NGX_ERROR;
    }

    sessions = call->conf->sessions;
    own = call->job.part_len[HYMT_PART_CONTEXT];

    text = malloc(sessions->bytes + own + 1);

    if (text == NULL) {
        ngx_http_hymt_fail(call, NGX_HTTP_INTERNAL_SERVER_ERROR, "internal",
                           "out of memory");
        return NGX_ERROR;
    }

    len = 0;

    ngx_shmtx_lock(&sessions->shpool->mutex);

    s = ngx_http_hymt_session_find(sessions, &key, 0);

    if (s != NULL && s->len <= sessions->bytes) {
        len = s->len;
        ngx_memcpy(text, s->text, len);
    }

    ngx_shmtx_unlock(&sessions->shpool->mutex);

    if (!hymt_utf8_check(text, len, NULL)) {
        len = 0;
    }

    /* the last line feed goes, or parts it from the request's context */

    if (own) {
        ngx_memcpy(text + len, call->job.part[HYMT_PART_CONTEXT], own);
        len += own;

    } else if (len) {
        len--;
    }

    call->session_text = text;

    if (len) {
        call->tokens += call->n_units * ((len - own) / 3);
        call->job.part[HYMT_PART_CONTEXT] = text;
        call->job.part_len[HYMT_PART_CONTEXT] = len;
    }

    return NGX_OK;
}


/* The call's texts are the newest turns; the oldest make room. */
void
ngx_http_hymt_session_add(ngx_http_hymt_call_t *call)
{
    size_t                     n;
    u_char                    *p, *end, buf[NGX_HTTP_HYMT_SESSION_KEY];
    ngx_str_t                  key;
    ngx_uint_t                 i;
    ngx_http_hymt_item_t      *item;
    ngx_http_hymt_session_t   *s;
    ngx_http_hymt_sessions_t  *sessions;

    if (ngx_http_hymt_session_key(call, &key, buf) != NGX_OK) {
        return;
    }

    sessions = call->conf->sessions;

    ngx_shmtx_lock(&sessions->shpool->mutex);

    s = ngx_http_hymt_session_find(sessions, &key, 1);

    for (i = 0; i < call->n_items; i++) {
        item = &call->items[i];
        n = item->len + 1;

        if (item->failure != NULL || n > sessions->bytes) {
            continue;
        }

        /* whole turns go, from the oldest on */

        end = s->text + ngx_min(s->len, sessions->bytes);
        p = s->text;

        while ((size_t) (end - p) + n > sessions->bytes) {
            p = ngx_strlchr(p, end, '\n');
            p = p ? p + 1 : end;
        }

        ngx_memmove(s->text, p, end - p);
        p = s->text + (end - p);

        p = ngx_cpymem(p, item->text, item->len);
        *p++ = '\n';

        s->len = p - s->text;
    }

    s->used = ngx_time();

    ngx_shmtx_unlock(&sessions->shpool->mutex);
}


static ngx_int_t
ngx_http_hymt_session_key(ngx_http_hymt_call_t *call, ngx_str_t *key,
    u_char *buf)
{
    u_char  *p;
    size_t   owner;

    owner = strlen(call->owner);

    if (owner + call->session.len + 2 > NGX_HTTP_HYMT_SESSION_KEY) {
        ngx_http_hymt_fail(call, NGX_HTTP_BAD_REQUEST, "invalid_value",
                           "session_id and its owner have %lu bytes together;"
                           " at most %d are taken",
                           (unsigned long) (owner + call->session.len),
                           NGX_HTTP_HYMT_SESSION_KEY - 2);
        return NGX_ERROR;
    }

    /* the model is part of it: contexts don't cross languages of models */

    p = ngx_cpymem(buf, call->owner, owner + 1);
    p = ngx_cpymem(p, call->session.data, call->session.len);
    *p++ = (u_char) call->model->index;

    key->data = buf;
    key->len = p - buf;

    return NGX_OK;
}


static ngx_http_hymt_session_t *
ngx_http_hymt_session_find(ngx_http_hymt_sessions_t *sessions, ngx_str_t *key,
    ngx_uint_t create)
{
    time_t                    now;
    u_char                   *set;
    ngx_uint_t                i;
    ngx_http_hymt_session_t  *s, *oldest;

    now = ngx_time();
    oldest = NULL;

    set = sessions->table
          + (ngx_murmur_hash2(key->data, key->len) % sessions->n_sets)
            * NGX_HTTP_HYMT_WAYS * sessions->place;

    for (i = 0; i < NGX_HTTP_HYMT_WAYS; i++) {
        s = (ngx_http_hymt_session_t *) (set + i * sessions->place);

        if (s->key_len == key->len
            && ngx_memcmp(s->key, key->data, key->len) == 0
            && now - s->used <= sessions->ttl)
        {
            return s;
        }

        if (oldest == NULL || s->used < oldest->used) {
            oldest = s;
        }
    }

    if (!create) {
        return NULL;
    }

    oldest->key_len = 0;
    oldest->len = 0;
    ngx_memcpy(oldest->key, key->data, key->len);
    oldest->used = now;
    oldest->key_len = key->len;

    return oldest;
}
