
/*
 * Copyright (C) the hymt authors
 */


/*
 * What the workers' user may read, judged in the master, which may read
 * everything.
 */


#include "ngx_http_hymt.h"

#include <grp.h>
#include <sys/xattr.h>


static ngx_uint_t ngx_http_hymt_may(ngx_http_hymt_user_t *user,
    const char *path, struct stat *st, mode_t want);


ngx_int_t
ngx_http_hymt_user(ngx_cycle_t *cycle, ngx_http_hymt_user_t *user)
{
    ngx_core_conf_t  *ccf;

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    if (geteuid() != 0 || ccf->username == NULL) {
        user->name = NULL;
        return NGX_OK;
    }

    user->name = ccf->username;
    user->uid = ccf->user;
    user->n_groups = NGX_HTTP_HYMT_MAX_GROUPS;

    if (getgrouplist(ccf->username, ccf->group, user->groups, &user->n_groups)
        == -1)
    {
        /* more groups than we care for: the first ones are filled in */
        user->n_groups = NGX_HTTP_HYMT_MAX_GROUPS;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_hymt_check_path(ngx_http_hymt_user_t *user, const char *path,
    mode_t want, char *text, size_t size)
{
    char        *slash, part[NGX_MAX_PATH];
    struct stat  st;

    if (stat(path, &st) == -1
        || (user->name == NULL
            && access(path, want == 4 ? R_OK : R_OK|W_OK|X_OK) == -1))
    {
        (void) snprintf(text, size, "%s: %s", path, strerror(errno));
        return NGX_ERROR;
    }

    if (user->name == NULL) {
        return NGX_OK;
    }

    if (!ngx_http_hymt_may(user, path, &st, want)) {
        (void) snprintf(text, size, "the workers' user \"%s\" may not %s %s:"
                        " %s it, or name another \"user\"", user->name,
                        want == 4 ? "read" : "write to", path,
                        want == 4 ? "chmod o+r" : "chown");
        return NGX_ERROR;
    }

    (void) ngx_cpystrn((u_char *) part, (u_char *) path, sizeof(part));

    for ( ;; ) {
        slash = strrchr(part, '/');

        if (slash == NULL || slash == part) {
            return NGX_OK;
        }

        *slash = '\0';

        if (stat(part, &st) == -1) {
            (void) snprintf(text, size, "%s: %s", part, strerror(errno));
            return NGX_ERROR;
        }

        if (!ngx_http_hymt_may(user, part, &st, 1)) {
            (void) snprintf(text, size, "the workers' user \"%s\" may not"
                            " enter %s: chmod o+x it, or put %s elsewhere",
                            user->name, part, want == 4 ? "the model"
                                                        : "glossaries");
            return NGX_ERROR;
        }
    }
}


/*
 * want: of 4 to read, 2 to write, 1 to enter.  Where an access control list
 * decides, only the worker itself can tell: it is taken for a yes.
 */
static ngx_uint_t
ngx_http_hymt_may(ngx_http_hymt_user_t *user, const char *path,
    struct stat *st, mode_t want)
{
    int  i;

    if (user->uid == 0) {
        return 1;
    }

    if (getxattr(path, "system.posix_acl_access", NULL, 0) > 0) {
        return 1;
    }

    if (st->st_uid == user->uid) {
        return (st->st_mode >> 6 & want) == want;
    }

    for (i = 0; i < user->n_groups; i++) {
        if (st->st_gid == user->groups[i]) {
            return (st->st_mode >> 3 & want) == want;
        }
    }

    return (st->st_mode & want) == want;
}
