
/*
 * Copyright (C) the hymt authors
 */


/*
 * hymt_buffers: what the requests of this worker have in memory, bodies, texts
 * and answers, counted in the call that has it.
 */


#include "ngx_http_hymt_runtime.h"

#include <malloc.h>


/* what glibc's malloc() keeps apart for threads */
#define NGX_HTTP_HYMT_ARENAS  2


/*
 * Before any thread of the pool parses: each would keep an arena of its own, as
 * large as the largest body it has seen made it, hundreds of megabytes together
 * that hymt_buffers knows nothing of.
 */
void
ngx_http_hymt_bound_malloc(void)
{
#ifdef M_ARENA_MAX
    (void) mallopt(M_ARENA_MAX, NGX_HTTP_HYMT_ARENAS);
#endif
}


ngx_http_hymt_call_t *
ngx_http_hymt_call_get(ngx_log_t *log)
{
    ngx_http_hymt_runtime_t  *rt;

    rt = ngx_http_hymt_runtime;

    return rt->n_spare ? rt->spare[--rt->n_spare]
                       : ngx_alloc(sizeof(ngx_http_hymt_call_t), log);
}


void
ngx_http_hymt_call_put(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_runtime_t  *rt;

    rt = ngx_http_hymt_runtime;

    if (rt->n_spare < NGX_HTTP_HYMT_SPARE) {
        rt->spare[rt->n_spare++] = call;
        return;
    }

    ngx_free(call);
}


ngx_int_t
ngx_http_hymt_charge(ngx_http_hymt_call_t *call, size_t more)
{
    ngx_http_hymt_runtime_t  *rt;

    rt = ngx_http_hymt_runtime;

    if (more > rt->conf->buffers || rt->charged > rt->conf->buffers - more) {
        return NGX_DECLINED;
    }

    call->charged += more;
    rt->charged += more;
    rt->conf->counters->buffers[rt->lane] = rt->charged;

    return NGX_OK;
}


ngx_int_t
ngx_http_hymt_body_waits(ngx_http_hymt_call_t *call)
{
    size_t                    coming, all;
    ngx_http_hymt_runtime_t  *rt;

    rt = ngx_http_hymt_runtime;

    coming = call->body_cap - ngx_min(call->body_cap, NGX_HTTP_HYMT_INLINE);
    all = rt->coming - call->coming + coming;

    if (all > rt->conf->buffers / 2) {
        return NGX_DECLINED;
    }

    call->coming = coming;
    rt->coming = all;

    return NGX_OK;
}


void
ngx_http_hymt_body_came(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_runtime->coming -= call->coming;
    call->coming = 0;
}


void
ngx_http_hymt_discharge(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_runtime_t  *rt;

    rt = ngx_http_hymt_runtime;

    ngx_http_hymt_body_came(call);

    rt->charged -= call->charged;
    call->charged = 0;
    rt->conf->counters->buffers[rt->lane] = rt->charged;
}


ngx_uint_t
ngx_http_hymt_buffers_full(void)
{
    ngx_http_hymt_runtime_t  *rt;

    rt = ngx_http_hymt_runtime;

    return rt->charged >= rt->conf->buffers;
}


void
ngx_http_hymt_fail_buffers(ngx_http_hymt_call_t *call)
{
    ngx_http_hymt_fail(call, NGX_HTTP_SERVICE_UNAVAILABLE, "buffers_full",
                       "the buffers of this worker are full");
}
