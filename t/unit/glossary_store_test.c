/*
 * glossary_store_test.c - glossary.h: the directory of glossaries, its limits,
 * what others may have put there, processes and threads side by side.
 */

#include "glossary_fixture.h"
#include "sha256.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>


#define OWNER  "owner-one", 9
#define OTHER  "owner-two", 9


static char  dir[512];


static hymt_status_t
create(hymt_glossary_store_t *store, const char *owner, size_t len,
    const char *name, const char *entries, hymt_glossary_info_t *info)
{
    hymt_glossary_request_t  r;

    r = (hymt_glossary_request_t) {
        name, strlen(name), lang("en"), lang("de"), HYMT_GLOSSARY_TSV, entries,
        strlen(entries),
    };

    err.text[0] = '\0';

    return hymt_glossary_create(store, owner, len, &r, info, &err);
}


static uint32_t
listed(hymt_glossary_store_t *store, const char *owner, size_t len,
    uint32_t *bad)
{
    uint32_t               n;
    hymt_status_t          rc;
    hymt_glossary_info_t  *list;

    rc = hymt_glossary_list(store, owner, len, &list, &n, bad, &err);
    free(list);

    return rc == HYMT_OK ? n : 9999;
}


static hymt_status_t
get(hymt_glossary_store_t *store, const char *owner, size_t len,
    const char *id, uint32_t *n)
{
    hymt_status_t     rc;
    hymt_glossary_t  *g;

    err.text[0] = '\0';
    *n = 0;

    rc = hymt_glossary_get(store, owner, len, id, strlen(id), &g, &err);

    if (rc == HYMT_OK) {
        (void) hymt_glossary_entries(g, n);
        hymt_glossary_unref(g);
    }

    return rc;
}


static const char *
path_of(const char *owner, size_t len, const char *name)
{
    char         hex[HYMT_SHA256_HEX + 1];
    static char  path[1024];

    hymt_sha256_hex(owner, len, hex);
    snprintf(path, sizeof(path), "%s/%s/%s", dir, hex, name);

    return path;
}


static void
test_store(void)
{
    size_t                  i;
    uint32_t                n, bad;
    struct stat             st;
    hymt_glossary_t        *g;
    hymt_glossary_info_t    info, *list;
    hymt_glossary_store_t  *store, *again;

    static const char  *not_ids[] = {
        "", "..", "../../etc/passwd", "8d1b0c5e00004000800000000000000",
        "8D1B0C5E-0000-4000-8000-000000000000",
        "8d1b0c5e-0000-4000-8000-00000000000",
        "8d1b0c5e-0000-4000-8000-0000000000000",
        "8d1b0c5e-0000-4000-8000-00000000000/",
        "8d1b0c5e-0000-4000-8000-00000000000\n",
        "8d1b0c5e-0000-4000-8000-\0aaaaaaaaaaa",
    };

    is_int(hymt_glossary_store_open("/nonexistent/x", NULL, &store, &err),
           HYMT_ERROR, "no directory");
    has_str(err.text, "/nonexistent/x: can't open", "says which");

    is_int(hymt_glossary_store_open(dir, NULL, &store, &err), HYMT_OK, "open");
    is_int(listed(store, OWNER, &bad), 0, "nothing yet");

    is_int(create(store, OWNER, "Bahn & Co", "train\tZug\ncar\tWagen\n", &info),
           HYMT_OK, "made");
    is_int(strlen(info.id), HYMT_GLOSSARY_ID, "an id");
    ok(info.id[14] == '4' && strchr("89ab", info.id[19]) != NULL,
       "of version 4: %s", info.id);
    ok(strlen(info.created) == HYMT_GLOSSARY_CREATED
       && strncmp(info.created, "20", 2) == 0 && info.created[23] == 'Z',
       "a time: %s", info.created);
    is_str(info.name, "Bahn & Co", "its name");
    is_int(info.n, 2, "its entries");

    ok(stat(path_of(OWNER, info.id), &st) == 0
       && (st.st_mode & 0777) == 0600, "its file is the owner's alone");

    is_int(listed(store, OWNER, &bad), 1, "listed");
    is_int(listed(store, OTHER, &bad), 0, "not for another owner");
    is_int(get(store, OTHER, info.id, &n), HYMT_DECLINED, "nor got");
    is_int(hymt_glossary_delete(store, OTHER, info.id, 36, &err),
           HYMT_DECLINED, "nor deleted");

    is_int(get(store, OWNER, info.id, &n), HYMT_OK, "got");
    is_int(n, 2, "with its entries");
    is_int(get(store, OWNER, info.id, &n), HYMT_OK, "got from memory");

    is_int(hymt_glossary_store_open(dir, NULL, &again, &err), HYMT_OK,
           "another process's store");
    is_int(hymt_glossary_get(again, OWNER, info.id, 36, &g, &err), HYMT_OK,
           "has it too");
    is_str(hymt_glossary_info(g)->name, "Bahn & Co", "with its name");
    is_str(hymt_glossary_info(g)->created, info.created, "with its time");
    is_int(hymt_glossary_info(g)->tgt, lang("de"), "with its languages");

    for (i = 0; i < hymt_nelts(not_ids); i++) {
        is_int(hymt_glossary_get(store, OWNER, not_ids[i],
                                 i == hymt_nelts(not_ids) - 1
                                 ? 36 : strlen(not_ids[i]), &g, &err),
               HYMT_DECLINED, "no id, %zu", i);
    }

    is_int(hymt_glossary_get(again, OWNER, info.id, 36, &g, &err), HYMT_OK,
           "in use while");
    is_int(hymt_glossary_delete(store, OWNER, info.id, 36, &err), HYMT_OK,
           "deleted");
    is_int(get(again, OWNER, info.id, &n), HYMT_DECLINED,
           "gone for everybody");
    has_str(err.text, info.id, "the error names it");
    is_int(hymt_glossary_delete(store, OWNER, info.id, 36, &err),
           HYMT_DECLINED, "not twice");

    hymt_glossary_store_close(again);
    is_str(matches(g, "by train", false, 9), "train", "still of use");
    hymt_glossary_unref(g);
    hymt_glossary_unref(g);

    for (i = 0; i < 5; i++) {
        (void) create(store, OWNER, i % 2 ? "odd" : "even", "a\tb", &info);
    }

    is_int(hymt_glossary_list(store, OWNER, &list, &n, &bad, &err), HYMT_OK,
           "a list");
    is_int(n, 5, "of five");

    for (i = 1; i < n; i++) {
        ok(strcmp(list[i - 1].created, list[i].created) <= 0, "in order");
    }

    for (i = 0; i < n; i++) {
        (void) hymt_glossary_delete(store, OWNER, list[i].id, 36, &err);
    }

    free(list);
    is_int(listed(store, OWNER, &bad), 0, "all deleted");

    is_int(create(store, "", 0, "x", "a\tb", &info), HYMT_DECLINED, "no owner");
    is_int(create(store, OWNER, "", "a\tb", &info), HYMT_DECLINED, "no name");
    is_int(create(store, OWNER, "x\ny", "a\tb", &info), HYMT_DECLINED,
           "a line break in a name");
    is_int(create(store, OWNER, "x", "a", &info), HYMT_DECLINED,
           "entries at fault");

    hymt_glossary_store_close(store);
}


static void
test_store_limits(void)
{
    uint32_t                 n, i, bad;
    hymt_glossary_info_t     info[3];
    hymt_glossary_store_t   *store;
    hymt_glossary_limits_t   l = { 0 };

    l.count = 2;
    l.bytes = 7;
    l.cache_bytes = 2500;

    is_int(hymt_glossary_store_open(dir, &l, &store, &err), HYMT_OK, "limits");

    is_int(create(store, OWNER, "1", "aaa\tbbb", &info[0]), HYMT_OK, "one");
    is_int(create(store, OWNER, "2", "c\td", &info[1]), HYMT_OK, "two");
    is_int(create(store, OWNER, "3", "c\td", &info[2]), HYMT_TOO_LONG, "three");
    has_str(err.text, "there are 2, 2 are allowed", "says so");
    is_int(create(store, OTHER, "3", "c\td", &info[2]), HYMT_OK,
           "another owner's count");

    for (i = 0; i < 6; i++) {
        is_int(get(store, OWNER, info[i % 2].id, &n), HYMT_OK,
               "a small memory, %s", err.text);
    }

    (void) hymt_glossary_delete(store, OWNER, info[0].id, 36, &err);
    is_int(create(store, OWNER, "4", "c\td", &info[0]), HYMT_OK,
           "room after one is deleted");

    (void) hymt_glossary_delete(store, OWNER, info[0].id, 36, &err);
    (void) hymt_glossary_delete(store, OWNER, info[1].id, 36, &err);
    (void) hymt_glossary_delete(store, OTHER, info[2].id, 36, &err);
    is_int(listed(store, OTHER, &bad), 0, "clean");

    hymt_glossary_store_close(store);
}


static void
put(const char *path, const char *text, size_t len)
{
    FILE  *f;

    (void) unlink(path);
    f = fopen(path, "wb");
    (void) !fwrite(text, 1, len, f);
    fclose(f);
}


static void
test_hostile(void)
{
    char                    path[1024], real[1024];
    size_t                  i;
    uint32_t                n, bad;
    hymt_glossary_info_t    info;
    hymt_glossary_store_t  *store;

    const char  *id = "8d1b0c5e-0000-4000-8000-000000000000";

    static const char  *files[] = {
        "", "hymt-glossary", "hymt-glossary\t1\n", "hymt-glossary\t2\n",
        "hymt-glossary\t1\nname\tx\nsource\ten\ntarget\tde\n",
        "hymt-glossary\t1\nname\tx\nsource\ten\ntarget\txx\n"
        "created\t2021-08-03T14:16:18.329Z\nentries\t1\n\na\tb\n",
        "hymt-glossary\t1\nname\tx\x01\nsource\ten\ntarget\tde\n"
        "created\t2021-08-03T14:16:18.329Z\nentries\t1\n\na\tb\n",
        "hymt-glossary\t1\nname\tx\nsource\ten\ntarget\tde\n"
        "created\tyesterday\nentries\t1\n\na\tb\n",
        "hymt-glossary\t1\nname\tx\nsource\ten\ntarget\tde\n"
        "created\t2021-08-03T14:16:18.329Z\nentries\t-1\n\na\tb\n",
        "hymt-glossary\t1\nname\tx\nsource\ten\ntarget\tde\n"
        "created\t2021-08-03T14:16:18.329Z\nentries\t99999999999\n\na\tb\n",
        "hymt-glossary\t1\nname\tx\nsource\ten\ntarget\tde\n"
        "created\t2021-08-03T14:16:18.329Z\nentries\t1\n",
        "hymt-glossary\t1\nname\tx\nsource\ten\ntarget\tde\n"
        "created\t2021-08-03T14:16:18.329Z\nentries\t2\n\na\tb\n",
        "hymt-glossary\t1\nname\tx\nsource\ten\ntarget\tde\n"
        "created\t2021-08-03T14:16:18.329Z\nentries\t1\n\na\tb\x02\n",
    };

    is_int(hymt_glossary_store_open(dir, NULL, &store, &err), HYMT_OK, "open");
    is_int(create(store, OWNER, "good", "a\tb", &info), HYMT_OK, "a good one");

    strcpy(path, path_of(OWNER, id));
    strcpy(real, path_of(OWNER, info.id));

    for (i = 0; i < hymt_nelts(files); i++) {
        put(path, files[i], strlen(files[i]));

        is_int(get(store, OWNER, id, &n), HYMT_ERROR, "file %zu: %s", i,
               err.text);
        has_str(err.text, id, "the error names it");
        is_int(listed(store, OWNER, &bad), i < 11 ? 1 : 2,
               "the good one is listed, and what has sound fields");
        is_int(bad, i < 11, "others are counted");
    }

    (void) unlink(path);
    ok(symlink(real, path) == 0, "a link to a good one");
    is_int(get(store, OWNER, id, &n), HYMT_ERROR, "is not followed");
    has_str(err.text, "link", "says so");

    (void) unlink(path);
    ok(mkfifo(path, 0600) == 0, "a FIFO");
    is_int(get(store, OWNER, id, &n), HYMT_ERROR, "is not waited for");
    has_str(err.text, "not a regular file", "says so");

    (void) unlink(path);
    ok(mkdir(path, 0700) == 0, "a directory");
    is_int(get(store, OWNER, id, &n), HYMT_ERROR, "is none either");
    (void) rmdir(path);

    put(path, "x", 1);
    ok(truncate(path, (off_t) 1 << 40) == 0, "a file of a terabyte");
    is_int(get(store, OWNER, id, &n), HYMT_ERROR, "is not read");
    has_str(err.text, "1099511627776 bytes", "says so");
    is_int(listed(store, OWNER, &bad), 1, "nor listed");
    (void) unlink(path);

    put(path_of(OWNER, "new.left-behind"), "x", 1);
    is_int(create(store, OWNER, "next", "a\tb", &info), HYMT_OK, "made beside");
    ok(access(path_of(OWNER, "new.left-behind"), F_OK) != 0,
       "a dead maker's file is gone");

    /* another file under the same name is read anew */

    is_int(get(store, OWNER, info.id, &n), HYMT_OK, "in memory");
    put(path_of(OWNER, info.id), "x", 1);
    is_int(get(store, OWNER, info.id, &n), HYMT_ERROR, "not what memory has");

    (void) unlink(path_of(OWNER, info.id));
    (void) unlink(real);

    /* the owner's directory itself */

    strcpy(path, path_of("third", 5, ""));
    path[strlen(path) - 1] = '\0';
    ok(symlink("/tmp", path) == 0, "a link for an owner's directory");
    is_int(create(store, "third", 5, "x", "a\tb", &info), HYMT_ERROR,
           "is not followed");
    is_int(get(store, "third", 5, id, &n), HYMT_ERROR, "nor read");
    (void) unlink(path);

    hymt_glossary_store_close(store);
}


static void
work(hymt_glossary_store_t *store, unsigned seed)
{
    uint32_t              i, n, bad;
    hymt_error_t          e;
    hymt_glossary_t      *g;
    hymt_glossary_info_t  info, *list;

    const hymt_glossary_request_t  r = {
        "x", 1, lang("en"), lang("de"), HYMT_GLOSSARY_TSV, "a\tb\n", 4,
    };

    for (i = 0; i < 12; i++) {
        if (hymt_glossary_create(store, OWNER, &r, &info, &e) != HYMT_OK) {
            continue;
        }

        (void) hymt_glossary_list(store, OWNER, &list, &n, &bad, &e);
        free(list);

        if (hymt_glossary_get(store, OWNER, info.id, 36, &g, &e) == HYMT_OK) {
            hymt_glossary_unref(g);
        }

        if ((i + seed) % 2) {
            (void) hymt_glossary_delete(store, OWNER, info.id, 36, &e);
        }
    }
}


static void *
work_thread(void *data)
{
    work(data, 0);

    return NULL;
}


static void
test_together(void)
{
    int                      status;
    pid_t                    pid[3];
    uint32_t                 i, n, bad;
    pthread_t                thread[3];
    hymt_glossary_info_t    *list;
    hymt_glossary_store_t   *store;
    hymt_glossary_limits_t   l = { .count = 10 };

    is_int(hymt_glossary_store_open(dir, &l, &store, &err), HYMT_OK, "open");

    for (i = 0; i < 3; i++) {
        pid[i] = fork();

        if (pid[i] == 0) {
            work(store, i);
            _exit(0);
        }
    }

    for (i = 0; i < 3; i++) {
        pthread_create(&thread[i], NULL, work_thread, store);
    }

    for (i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
        ok(waitpid(pid[i], &status, 0) == pid[i] && status == 0,
           "a process beside");
    }

    is_int(hymt_glossary_list(store, OWNER, &list, &n, &bad, &err), HYMT_OK,
           "after three processes and three threads");
    ok(n <= 10, "never more than allowed: %u", n);
    is_int(bad, 0, "none is broken");

    for (i = 0; i < n; i++) {
        (void) hymt_glossary_delete(store, OWNER, list[i].id, 36, &err);
    }

    free(list);
    hymt_glossary_store_close(store);
}


static void
clean(const char *path)
{
    DIR            *d;
    char            name[1024];
    struct dirent  *e;

    d = opendir(path);

    while (d != NULL && (e = readdir(d)) != NULL) {
        if (e->d_name[0] != '.') {
            snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
            (void) (unlink(name) == 0 || rmdir(name));
        }
    }

    if (d != NULL) {
        closedir(d);
    }
}


int
main(void)
{
    const char  *tmp;

    tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/hymt-glossary.XXXXXX",
             tmp == NULL ? "/tmp" : tmp);

    if (mkdtemp(dir) == NULL) {
        printf("Bail out! mkdtemp %s: %s\n", dir, strerror(errno));
        return 1;
    }

    test_store();
    test_store_limits();
    test_hostile();
    test_together();

    clean(dir);
    ok(rmdir(dir) == 0, "the directory is empty again");

    return tap_done();
}
