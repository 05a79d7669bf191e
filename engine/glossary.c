/*
 * glossary.c - glossary.h: the directory, and glossaries in memory.
 *
 * Makers of one owner's glossaries take turns by a lock on the owner's
 * directory, so that the count holds between processes too.  A temporary file
 * met under the lock is one whose maker has died.
 */

#include "glossary_private.h"

#include "sha256.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>


#define HYMT_GLOSSARY_CACHED  64
#define HYMT_GLOSSARY_TEMP    "new."
#define HYMT_GLOSSARY_FILES   100000    /* of an owner, looked at */


/* A file as it was read: another one, or a changed one, differs. */
typedef struct {
    dev_t            dev;
    ino_t            ino;
    off_t            size;
    struct timespec  mtime;
} hymt_glossary_stamp_t;


typedef struct {
    char                    owner[HYMT_SHA256_HEX + 1];
    hymt_glossary_stamp_t   stamp;
    hymt_glossary_t        *g;         /* a reference, or NULL: free */
    uint64_t                used;      /* the store's clock at the last use */
} hymt_glossary_cached_t;


struct hymt_glossary_store_s {
    int                      fd;       /* of the directory */
    hymt_glossary_limits_t   limits;

    pthread_mutex_t          lock;     /* of all below */
    hymt_glossary_cached_t   cached[HYMT_GLOSSARY_CACHED];
    uint64_t                 bytes;    /* of what is cached */
    uint64_t                 clock;
};


/* One owner's directory, open. */
typedef struct {
    int   fd;
    char  owner[HYMT_SHA256_HEX + 1];
} hymt_glossary_owner_t;


static hymt_status_t hymt_glossary_owner_open(hymt_glossary_store_t *store,
    const char *owner, size_t len, bool make, hymt_glossary_owner_t *o,
    hymt_error_t *err);
static hymt_status_t hymt_glossary_check(const hymt_glossary_request_t *r,
    hymt_error_t *err);
static hymt_status_t hymt_glossary_save(hymt_glossary_store_t *store,
    const hymt_glossary_owner_t *o, hymt_glossary_t *g, hymt_error_t *err);
static hymt_status_t hymt_glossary_stamp_new(hymt_glossary_info_t *info,
    hymt_error_t *err);
static hymt_status_t hymt_glossary_names(int dir, bool sweep,
    char (**names)[HYMT_GLOSSARY_ID + 1], uint32_t *n, hymt_error_t *err);
static hymt_status_t hymt_glossary_rename(int dir, const char *temp,
    const char *name, hymt_error_t *err);
static int hymt_glossary_order(const void *one, const void *two);
static hymt_status_t hymt_glossary_open(int dir, const char *id, int *fd,
    hymt_error_t *err);
static bool hymt_glossary_id(const char *id, size_t len,
    char copy[HYMT_GLOSSARY_ID + 1]);
static hymt_status_t hymt_glossary_none(const char *id, hymt_error_t *err);
static hymt_glossary_stamp_t hymt_glossary_stamp(const struct stat *st);
static hymt_glossary_t *hymt_glossary_cache_find(hymt_glossary_store_t *store,
    const char *owner, const char *id, const hymt_glossary_stamp_t *stamp);
static void hymt_glossary_cache_add(hymt_glossary_store_t *store,
    const char *owner, const hymt_glossary_stamp_t *stamp, hymt_glossary_t *g);
static void hymt_glossary_cache_drop(hymt_glossary_store_t *store,
    hymt_glossary_cached_t *c);


hymt_status_t
hymt_glossary_store_open(const char *dir,
    const hymt_glossary_limits_t *limits, hymt_glossary_store_t **store,
    hymt_error_t *err)
{
    hymt_glossary_store_t  *s;

    s = calloc(1, sizeof(hymt_glossary_store_t));
    if (s == NULL) {
        return hymt_fail(err, "%s: no memory for the glossaries", dir);
    }

    s->limits = hymt_glossary_limits(limits);
    s->fd = open(dir, O_RDONLY|O_DIRECTORY|O_CLOEXEC);

    if (s->fd == -1) {
        (void) hymt_fail(err, "%s: can't open the directory of glossaries: %s",
                         dir, strerror(errno));
        free(s);
        return HYMT_ERROR;
    }

    pthread_mutex_init(&s->lock, NULL);
    *store = s;

    return HYMT_OK;
}


void
hymt_glossary_store_close(hymt_glossary_store_t *store)
{
    size_t  i;

    if (store == NULL) {
        return;
    }

    for (i = 0; i < HYMT_GLOSSARY_CACHED; i++) {
        hymt_glossary_unref(store->cached[i].g);
    }

    pthread_mutex_destroy(&store->lock);
    close(store->fd);
    free(store);
}


/* HYMT_DECLINED: the owner has no directory, or is no owner */
static hymt_status_t
hymt_glossary_owner_open(hymt_glossary_store_t *store, const char *owner,
    size_t len, bool make, hymt_glossary_owner_t *o, hymt_error_t *err)
{
    if (len == 0 || len > HYMT_GLOSSARY_OWNER) {
        (void) hymt_fail(err, "owner: %zu bytes; 1 to %d are accepted", len,
                         HYMT_GLOSSARY_OWNER);
        return HYMT_DECLINED;
    }

    hymt_sha256_hex(owner, len, o->owner);

    if (make) {
        if (mkdirat(store->fd, o->owner, 0700) == 0) {
            (void) fsync(store->fd);

        } else if (errno != EEXIST) {
            return hymt_fail(err, "glossary directory: can't make %s: %s",
                             o->owner, strerror(errno));
        }
    }

    o->fd = openat(store->fd, o->owner,
                   O_RDONLY|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    if (o->fd != -1) {
        return HYMT_OK;
    }

    (void) hymt_fail(err, "glossary directory: can't open %s: %s", o->owner,
                     strerror(errno));

    return errno == ENOENT ? HYMT_DECLINED : HYMT_ERROR;
}


hymt_status_t
hymt_glossary_create(hymt_glossary_store_t *store, const char *owner,
    size_t owner_len, const hymt_glossary_request_t *request,
    hymt_glossary_info_t *info, hymt_error_t *err)
{
    hymt_status_t           rc;
    hymt_glossary_t        *g;
    hymt_glossary_owner_t   o;

    rc = hymt_glossary_check(request, err);
    if (rc != HYMT_OK) {
        return rc;
    }

    rc = hymt_glossary_parse(request->entries, request->entries_len,
                             request->format, request->src, request->tgt,
                             &store->limits, &g, err);
    if (rc != HYMT_OK) {
        return rc;
    }

    memcpy(g->info.name, request->name, request->name_len);

    rc = hymt_glossary_owner_open(store, owner, owner_len, true, &o, err);

    if (rc == HYMT_OK) {
        rc = hymt_glossary_save(store, &o, g, err);
        close(o.fd);
    }

    if (rc == HYMT_OK) {
        *info = g->info;
    }

    hymt_glossary_unref(g);

    return rc;
}


static hymt_status_t
hymt_glossary_check(const hymt_glossary_request_t *r, hymt_error_t *err)
{
    if (r->src < 0 || r->src >= HYMT_N_LANGS || r->tgt < 0
        || r->tgt >= HYMT_N_LANGS || r->src == r->tgt)
    {
        (void) hymt_fail(err, "glossary: source and target must be two"
                         " languages");
        return HYMT_DECLINED;
    }

    if (r->name_len == 0 || r->name_len > HYMT_GLOSSARY_NAME) {
        (void) hymt_fail(err, "name: %zu bytes; 1 to %d are accepted",
                         r->name_len, HYMT_GLOSSARY_NAME);
        return HYMT_DECLINED;
    }

    if (!hymt_utf8_check(r->name, r->name_len, NULL)
        || !hymt_glossary_printable(r->name, r->name_len))
    {
        (void) hymt_fail(err, "name: must be UTF-8 without control"
                         " characters");
        return HYMT_DECLINED;
    }

    return HYMT_OK;
}


/* under the owner's lock, which closing o->fd gives back */
static hymt_status_t
hymt_glossary_save(hymt_glossary_store_t *store, const hymt_glossary_owner_t *o,
    hymt_glossary_t *g, hymt_error_t *err)
{
    char           *text;
    char            temp[sizeof(HYMT_GLOSSARY_TEMP) + HYMT_GLOSSARY_ID];
    size_t          len;
    uint32_t        n;
    hymt_status_t   rc;

    while (flock(o->fd, LOCK_EX) == -1) {
        if (errno != EINTR) {
            return hymt_fail(err, "glossary directory: can't lock %s: %s",
                             o->owner, strerror(errno));
        }
    }

    rc = hymt_glossary_names(o->fd, true, NULL, &n, err);
    if (rc != HYMT_OK) {
        return rc;
    }

    if (n >= store->limits.count) {
        (void) hymt_fail(err, "glossaries: there are %" PRIu32 ", %" PRIu32
                         " are allowed: delete one", n, store->limits.count);
        return HYMT_TOO_LONG;
    }

    rc = hymt_glossary_stamp_new(&g->info, err);
    if (rc != HYMT_OK) {
        return rc;
    }

    rc = hymt_glossary_file_text(g, &text, &len, err);
    if (rc != HYMT_OK) {
        return rc;
    }

    snprintf(temp, sizeof(temp), HYMT_GLOSSARY_TEMP "%s", g->info.id);

    rc = hymt_glossary_file_write(o->fd, temp, text, len, err);
    free(text);

    if (rc != HYMT_OK) {
        return rc;
    }

    return hymt_glossary_rename(o->fd, temp, g->info.id, err);
}


/* a new id, and the time now */
static hymt_status_t
hymt_glossary_stamp_new(hymt_glossary_info_t *info, hymt_error_t *err)
{
    size_t           i, at;
    struct tm        tm;
    unsigned char    r[16];
    struct timespec  now;

    if (getrandom(r, sizeof(r), 0) != (ssize_t) sizeof(r)) {
        return hymt_fail(err, "glossary: no random bytes for an id: %s",
                         strerror(errno));
    }

    r[6] = (r[6] & 0x0f) | 0x40;    /* version 4 */
    r[8] = (r[8] & 0x3f) | 0x80;    /* variant of RFC 9562 */

    for (i = 0, at = 0; i < sizeof(r); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            info->id[at++] = '-';
        }

        info->id[at++] = "0123456789abcdef"[r[i] >> 4];
        info->id[at++] = "0123456789abcdef"[r[i] & 0xf];
    }

    info->id[at] = '\0';

    clock_gettime(CLOCK_REALTIME, &now);

    if (gmtime_r(&now.tv_sec, &tm) == NULL
        || strftime(info->created, sizeof(info->created), "%Y-%m-%dT%H:%M:%S",
                    &tm) != HYMT_GLOSSARY_CREATED - 5)
    {
        return hymt_fail(err, "glossary: the clock is wrong");
    }

    snprintf(info->created + HYMT_GLOSSARY_CREATED - 5, 6, ".%03uZ",
             (unsigned) (now.tv_nsec / 1000000 % 1000));

    return HYMT_OK;
}


/*
 * The ids that have files; names NULL: counts only.  sweep: removes temporary
 * files.  The caller frees *names.
 */
static hymt_status_t
hymt_glossary_names(int dir, bool sweep,
    char (**names)[HYMT_GLOSSARY_ID + 1], uint32_t *n, hymt_error_t *err)
{
    int              fd;
    DIR             *d;
    char             id[HYMT_GLOSSARY_ID + 1];
    void            *p;
    size_t           room;
    struct dirent   *e;

    *n = 0;
    room = 0;

    fd = openat(dir, ".", O_RDONLY|O_DIRECTORY|O_CLOEXEC);
    d = fd == -1 ? NULL : fdopendir(fd);

    if (d == NULL) {
        (void) hymt_fail(err, "glossary directory: can't read: %s",
                         strerror(errno));
        if (fd != -1) {
            close(fd);
        }

        return HYMT_ERROR;
    }

    while ((e = readdir(d)) != NULL && *n < HYMT_GLOSSARY_FILES) {

        if (sweep && strncmp(e->d_name, HYMT_GLOSSARY_TEMP,
                             sizeof(HYMT_GLOSSARY_TEMP) - 1) == 0)
        {
            (void) unlinkat(dir, e->d_name, 0);
            continue;
        }

        if (!hymt_glossary_id(e->d_name, strlen(e->d_name), id)) {
            continue;
        }

        if (names != NULL && *n == room) {
            room = room == 0 ? 32 : 2 * room;
            p = realloc(*names, room * sizeof(**names));

            if (p == NULL) {
                closedir(d);
                return hymt_fail(err, "glossaries: no memory for %zu names",
                                 room);
            }

            *names = p;
        }

        if (names != NULL) {
            memcpy((*names)[*n], id, sizeof(id));
        }

        (*n)++;
    }

    closedir(d);

    return HYMT_OK;
}


static hymt_status_t
hymt_glossary_rename(int dir, const char *temp, const char *name,
    hymt_error_t *err)
{
    if (renameat(dir, temp, dir, name) == -1) {
        (void) hymt_fail(err, "glossary directory: can't rename %s: %s", temp,
                         strerror(errno));
        (void) unlinkat(dir, temp, 0);
        return HYMT_ERROR;
    }

    if (fsync(dir) == -1) {
        return hymt_fail(err, "glossary directory: fsync: %s",
                         strerror(errno));
    }

    return HYMT_OK;
}


hymt_status_t
hymt_glossary_list(hymt_glossary_store_t *store, const char *owner,
    size_t owner_len, hymt_glossary_info_t **list, uint32_t *n, uint32_t *bad,
    hymt_error_t *err)
{
    int                      fd;
    char                   (*names)[HYMT_GLOSSARY_ID + 1];
    uint32_t                 i, total;
    hymt_error_t             why;
    hymt_status_t            rc;
    hymt_glossary_owner_t    o;

    *list = NULL;
    *n = 0;
    *bad = 0;

    rc = hymt_glossary_owner_open(store, owner, owner_len, false, &o, err);

    if (rc != HYMT_OK) {
        return rc == HYMT_DECLINED && owner_len != 0
               && owner_len <= HYMT_GLOSSARY_OWNER ? HYMT_OK : rc;
    }

    names = NULL;
    rc = hymt_glossary_names(o.fd, false, &names, &total, err);

    if (rc == HYMT_OK && total > 0) {
        *list = malloc(total * sizeof(hymt_glossary_info_t));

        if (*list == NULL) {
            rc = hymt_fail(err, "glossaries: no memory for %" PRIu32, total);
        }
    }

    for (i = 0; rc == HYMT_OK && i < total; i++) {
        rc = hymt_glossary_open(o.fd, names[i], &fd, &why);

        if (rc == HYMT_OK) {
            rc = hymt_glossary_file_read(fd, names[i], &store->limits,
                                         &(*list)[*n], NULL, &why);
            close(fd);
        }

        if (rc == HYMT_OK) {
            (*n)++;

        } else if (rc == HYMT_ERROR && (*bad)++ == 0 && err != NULL) {
            *err = why;
        }

        rc = HYMT_OK;           /* deleted meanwhile, or counted */
    }

    if (*n == 0) {
        free(*list);
        *list = NULL;

    } else {
        qsort(*list, *n, sizeof(hymt_glossary_info_t), hymt_glossary_order);
    }

    free(names);
    close(o.fd);

    return rc;
}


static int
hymt_glossary_order(const void *one, const void *two)
{
    int                          order;
    const hymt_glossary_info_t  *a, *b;

    a = one;
    b = two;

    order = strcmp(a->created, b->created);

    return order != 0 ? order : strcmp(a->id, b->id);
}


/* HYMT_DECLINED: no such file */
static hymt_status_t
hymt_glossary_open(int dir, const char *id, int *fd, hymt_error_t *err)
{
    /* O_NONBLOCK: open() of a FIFO must not wait for its other end */

    *fd = openat(dir, id, O_RDONLY|O_NOFOLLOW|O_NONBLOCK|O_NOCTTY|O_CLOEXEC);

    if (*fd != -1) {
        return HYMT_OK;
    }

    if (errno == ENOENT) {
        return hymt_glossary_none(id, err);
    }

    return hymt_fail(err, "glossary %s: can't open the file: %s", id,
                     errno == ELOOP ? "it is a link" : strerror(errno));
}


hymt_status_t
hymt_glossary_get(hymt_glossary_store_t *store, const char *owner,
    size_t owner_len, const char *id, size_t id_len, hymt_glossary_t **g,
    hymt_error_t *err)
{
    int                     fd;
    char                    name[HYMT_GLOSSARY_ID + 1];
    struct stat             st;
    hymt_status_t           rc;
    hymt_glossary_info_t    info;
    hymt_glossary_owner_t   o;
    hymt_glossary_stamp_t   stamp;

    if (!hymt_glossary_id(id, id_len, name)) {
        return hymt_glossary_none("of this id", err);
    }

    rc = hymt_glossary_owner_open(store, owner, owner_len, false, &o, err);
    if (rc != HYMT_OK) {
        return rc == HYMT_DECLINED ? hymt_glossary_none(name, err) : rc;
    }

    rc = hymt_glossary_open(o.fd, name, &fd, err);
    close(o.fd);

    if (rc != HYMT_OK) {
        return rc;
    }

    if (fstat(fd, &st) == -1) {
        close(fd);
        return hymt_fail(err, "glossary %s: fstat: %s", name, strerror(errno));
    }

    stamp = hymt_glossary_stamp(&st);
    *g = hymt_glossary_cache_find(store, o.owner, name, &stamp);

    if (*g == NULL) {
        rc = hymt_glossary_file_read(fd, name, &store->limits, &info, g, err);

        if (rc == HYMT_OK) {
            hymt_glossary_cache_add(store, o.owner, &stamp, *g);
        }
    }

    close(fd);

    return rc;
}


hymt_status_t
hymt_glossary_delete(hymt_glossary_store_t *store, const char *owner,
    size_t owner_len, const char *id, size_t id_len, hymt_error_t *err)
{
    char                    name[HYMT_GLOSSARY_ID + 1];
    size_t                  i;
    hymt_status_t           rc;
    hymt_glossary_owner_t   o;

    if (!hymt_glossary_id(id, id_len, name)) {
        return hymt_glossary_none("of this id", err);
    }

    rc = hymt_glossary_owner_open(store, owner, owner_len, false, &o, err);
    if (rc != HYMT_OK) {
        return rc == HYMT_DECLINED ? hymt_glossary_none(name, err) : rc;
    }

    if (unlinkat(o.fd, name, 0) == 0) {
        rc = fsync(o.fd) == 0 ? HYMT_OK
             : hymt_fail(err, "glossary %s: fsync: %s", name, strerror(errno));

    } else if (errno == ENOENT) {
        rc = hymt_glossary_none(name, err);

    } else {
        rc = hymt_fail(err, "glossary %s: can't delete the file: %s", name,
                       strerror(errno));
    }

    close(o.fd);

    pthread_mutex_lock(&store->lock);

    for (i = 0; i < HYMT_GLOSSARY_CACHED; i++) {
        if (store->cached[i].g != NULL
            && strcmp(store->cached[i].g->info.id, name) == 0
            && strcmp(store->cached[i].owner, o.owner) == 0)
        {
            hymt_glossary_cache_drop(store, &store->cached[i]);
        }
    }

    pthread_mutex_unlock(&store->lock);

    return rc;
}


/* strictly 8-4-4-4-12 digits, lower case: nothing else is part of a path */
static bool
hymt_glossary_id(const char *id, size_t len, char copy[HYMT_GLOSSARY_ID + 1])
{
    size_t  i;

    if (len != HYMT_GLOSSARY_ID) {
        return false;
    }

    for (i = 0; i < len; i++) {
        if (i == 8 || i == 13 || i == 18 || i == 23) {
            if (id[i] != '-') {
                return false;
            }

        } else if (!((id[i] >= '0' && id[i] <= '9')
                     || (id[i] >= 'a' && id[i] <= 'f')))
        {
            return false;
        }
    }

    memcpy(copy, id, len);
    copy[len] = '\0';

    return true;
}


static hymt_status_t
hymt_glossary_none(const char *id, hymt_error_t *err)
{
    (void) hymt_fail(err, "there is no glossary %s", id);

    return HYMT_DECLINED;
}


static hymt_glossary_stamp_t
hymt_glossary_stamp(const struct stat *st)
{
    hymt_glossary_stamp_t  stamp;

    stamp.dev = st->st_dev;
    stamp.ino = st->st_ino;
    stamp.size = st->st_size;
    stamp.mtime = st->st_mtim;

    return stamp;
}


/* a reference for the caller, or NULL */
static hymt_glossary_t *
hymt_glossary_cache_find(hymt_glossary_store_t *store, const char *owner,
    const char *id, const hymt_glossary_stamp_t *stamp)
{
    size_t                   i;
    hymt_glossary_t         *g;
    hymt_glossary_cached_t  *c;

    g = NULL;

    pthread_mutex_lock(&store->lock);

    for (i = 0; i < HYMT_GLOSSARY_CACHED; i++) {
        c = &store->cached[i];

        if (c->g == NULL || strcmp(c->g->info.id, id) != 0
            || strcmp(c->owner, owner) != 0)
        {
            continue;
        }

        if (c->stamp.dev != stamp->dev || c->stamp.ino != stamp->ino
            || c->stamp.size != stamp->size
            || c->stamp.mtime.tv_sec != stamp->mtime.tv_sec
            || c->stamp.mtime.tv_nsec != stamp->mtime.tv_nsec)
        {
            hymt_glossary_cache_drop(store, c);
            continue;
        }

        g = c->g;
        c->used = ++store->clock;
        atomic_fetch_add(&g->refs, 1);
        break;
    }

    pthread_mutex_unlock(&store->lock);

    return g;
}


/* keeps a reference of its own; what was used longest ago makes room */
static void
hymt_glossary_cache_add(hymt_glossary_store_t *store, const char *owner,
    const hymt_glossary_stamp_t *stamp, hymt_glossary_t *g)
{
    size_t                   i;
    hymt_glossary_cached_t  *c, *oldest;

    if (g->bytes > store->limits.cache_bytes) {
        return;
    }

    pthread_mutex_lock(&store->lock);

    for ( ;; ) {
        c = NULL;
        oldest = NULL;

        for (i = 0; i < HYMT_GLOSSARY_CACHED; i++) {
            if (store->cached[i].g == NULL) {
                c = &store->cached[i];

            } else if (oldest == NULL || store->cached[i].used < oldest->used) {
                oldest = &store->cached[i];
            }
        }

        if (c != NULL && store->bytes + g->bytes <= store->limits.cache_bytes) {
            break;
        }

        hymt_glossary_cache_drop(store, oldest);
    }

    strcpy(c->owner, owner);
    c->stamp = *stamp;
    c->g = g;
    c->used = ++store->clock;
    store->bytes += g->bytes;
    atomic_fetch_add(&g->refs, 1);

    pthread_mutex_unlock(&store->lock);
}


static void
hymt_glossary_cache_drop(hymt_glossary_store_t *store,
    hymt_glossary_cached_t *c)
{
    store->bytes -= c->g->bytes;
    hymt_glossary_unref(c->g);
    c->g = NULL;
}
