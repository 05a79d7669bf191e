/*
 * glossary_test.c - glossary.h: entries, matching, the directory; sha256.h.
 */

#include "glossary.h"
#include "sha256.h"

#include "tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>


#define OWNER  "owner-one", 9
#define OTHER  "owner-two", 9


static char           dir[512];
static hymt_error_t   err;


static int
lang(const char *code)
{
    return hymt_lang_find(code, strlen(code));
}


static hymt_status_t
parse(const char *text, hymt_glossary_format_t format, hymt_glossary_t **g)
{
    err.text[0] = '\0';
    *g = NULL;

    return hymt_glossary_parse(text, strlen(text), format, lang("en"),
                               lang("de"), NULL, g, &err);
}


/* the entries as "a=b|c=d", or the error */
static const char *
shown(const char *text, hymt_glossary_format_t format)
{
    size_t                        len;
    uint32_t                      i, n;
    hymt_status_t                 rc;
    hymt_glossary_t              *g;
    const hymt_glossary_entry_t  *e;

    static char  buf[2048];

    rc = parse(text, format, &g);

    if (rc != HYMT_OK) {
        return rc == HYMT_DECLINED ? err.text : "not declined";
    }

    e = hymt_glossary_entries(g, &n);

    for (i = 0, len = 0; i < n; i++) {
        len += (size_t) snprintf(buf + len, sizeof(buf) - len, "%s%s=%s",
                                 i == 0 ? "" : "|", e[i].src, e[i].tgt);

        if (strlen(e[i].src) != e[i].src_len
            || strlen(e[i].tgt) != e[i].tgt_len)
        {
            return "lengths differ";
        }
    }

    hymt_glossary_unref(g);

    return buf;
}


static void
test_sha256(void)
{
    size_t  i;
    char    hex[HYMT_SHA256_HEX + 1], text[1000];

    /* FIPS 180-4 and the lengths around the block's end, from sha256sum */

    static const struct {
        size_t       len;
        const char  *hex;
    } as[] = {
        { 55, "9f4390f8d30c2dd92ec9f095b65e2b9a"
              "e9b0a925a5258e241c9f1e910f734318" },
        { 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f"
              "590ce20f1bde7090ef7970686ec6738a" },
        { 64, "ffe054fe7ae0cb6dc65c3af9b61d5209"
              "f439851db43d0ba5997337df154668eb" },
        { 1000, "41edece42d63e8d9bf515a9ba6932e1c"
                "20cbc9f5a5d134645adb5db1b9737ea3" },
    };

    hymt_sha256_hex("", 0, hex);
    is_str(hex, "e3b0c44298fc1c149afbf4c8996fb924"
           "27ae41e4649b934ca495991b7852b855", "SHA-256 of nothing");

    hymt_sha256_hex("abc", 3, hex);
    is_str(hex, "ba7816bf8f01cfea414140de5dae2223"
           "b00361a396177a9cb410ff61f20015ad", "of abc");

    memset(text, 'a', sizeof(text));

    for (i = 0; i < hymt_nelts(as); i++) {
        hymt_sha256_hex(text, as[i].len, hex);
        is_str(hex, as[i].hex, "of %zu times a", as[i].len);
    }
}


static void
test_tsv(void)
{
    is_str(shown("a\tb\nc d\te", HYMT_GLOSSARY_TSV), "a=b|c d=e", "TSV");
    is_str(shown("a\tb\r\nc\td\r\n", HYMT_GLOSSARY_TSV), "a=b|c=d", "CRLF");
    is_str(shown("\n\na\tb\n\r\n\nc\td\n\n", HYMT_GLOSSARY_TSV), "a=b|c=d",
           "empty lines");
    is_str(shown("\xef\xbb\xbf" "a\tb", HYMT_GLOSSARY_TSV), "a=b",
           "a byte order mark");
    is_str(shown("  a \t b  ", HYMT_GLOSSARY_TSV), "a=b", "blanks around");
    is_str(shown("\"a\"\tb,c", HYMT_GLOSSARY_TSV), "\"a\"=b,c",
           "quotes and commas are text");
    is_str(shown("猫\tKatze\nÄpfel\tapples", HYMT_GLOSSARY_TSV),
           "猫=Katze|Äpfel=apples", "beyond ASCII");
    is_str(shown("a\tx\nA\ty", HYMT_GLOSSARY_TSV), "a=x|A=y",
           "case makes two terms");

    has_str(shown("a\tb\nc\n", HYMT_GLOSSARY_TSV), "line 2: no tab", "no tab");
    has_str(shown("a\tb\nc\td\te\n", HYMT_GLOSSARY_TSV), "line 2: more than"
            " one tab", "two tabs");
    has_str(shown("a\tb\n\n\t b\n", HYMT_GLOSSARY_TSV), "line 3: the source"
            " term is empty", "an empty source");
    has_str(shown("a\t  \n", HYMT_GLOSSARY_TSV), "line 1: the target term is"
            " empty", "an empty target");
    has_str(shown("a\tb\nc\td\n\na\te", HYMT_GLOSSARY_TSV), "line 4: the source"
            " term is already in line 1", "the same term twice");
    has_str(shown("a\tb\nx\x01y\tb", HYMT_GLOSSARY_TSV), "line 2: the source"
            " term has a control character", "C0");
    has_str(shown("a\tb\x7f", HYMT_GLOSSARY_TSV), "control character", "DEL");
    has_str(shown("a\tb\xc2\x85z", HYMT_GLOSSARY_TSV), "control character",
            "C1");
    has_str(shown("a\xe2\x80\xa8z\tb", HYMT_GLOSSARY_TSV), "control character",
            "a line separator");
    has_str(shown("a\rb\tc", HYMT_GLOSSARY_TSV), "control character",
            "a lone CR");
    has_str(shown("a\t\xff", HYMT_GLOSSARY_TSV), "not UTF-8 at byte 2",
            "not UTF-8");
    has_str(shown("\n \r\n", HYMT_GLOSSARY_TSV), "line 2", "blanks alone");
    has_str(shown("", HYMT_GLOSSARY_TSV), "there is none", "nothing");
    has_str(shown("\xef\xbb\xbf\n", HYMT_GLOSSARY_TSV), "there is none",
            "a mark alone");
}


static void
test_csv(void)
{
    hymt_glossary_t  *g;

    is_str(shown("a,b\nc,d", HYMT_GLOSSARY_CSV), "a=b|c=d", "CSV");
    is_str(shown("\"a, b\",\"say \"\"c\"\"\"\r\n", HYMT_GLOSSARY_CSV),
           "a, b=say \"c\"", "quotes");
    is_str(shown("a,b,en,de\nc,d\ne,f,EN,de-DE\ng,h,,", HYMT_GLOSSARY_CSV),
           "a=b|c=d|e=f|g=h", "languages");
    is_str(shown("\"a\",b,\"en\",\"de\"", HYMT_GLOSSARY_CSV), "a=b",
           "quoted languages");

    has_str(shown("a,b\nc", HYMT_GLOSSARY_CSV), "line 2: not two columns",
            "one column");
    has_str(shown("a,b,en", HYMT_GLOSSARY_CSV), "line 1: not two columns",
            "three columns");
    has_str(shown("a,b,en,de,", HYMT_GLOSSARY_CSV), "more than four", "five");
    has_str(shown("a,b,en,fr", HYMT_GLOSSARY_CSV), "line 1: the target"
            " language is not the glossary's (de)", "another language");
    has_str(shown("a,b,xx,de", HYMT_GLOSSARY_CSV), "the source language is not"
            " the glossary's (en)", "no language");
    has_str(shown("a,\"b", HYMT_GLOSSARY_CSV), "no closing quote", "no end");
    has_str(shown("a,\"b\nc\"", HYMT_GLOSSARY_CSV), "line 1: a line break",
            "a line break in a term");
    has_str(shown("\"a\"x,b", HYMT_GLOSSARY_CSV), "after a closing quote",
            "text after a quote");
    has_str(shown("a\tb,c", HYMT_GLOSSARY_CSV), "control character", "a tab");
    has_str(shown("\"\",b", HYMT_GLOSSARY_CSV), "source term is empty",
            "quoted nothing");
    has_str(shown("a,b\n\"a\",c", HYMT_GLOSSARY_CSV), "line 2: the source term"
            " is already in line 1", "the same term, quoted");

    is_int(parse("a\nb,\"", HYMT_GLOSSARY_CSV, &g), HYMT_DECLINED, "declined");
}


static void
test_limits(void)
{
    char                    *tsv;
    size_t                   len;
    hymt_glossary_t         *g;
    hymt_glossary_limits_t   l = { .entries = 2, .term_bytes = 4, .bytes = 20 };

    is_int(hymt_glossary_parse("a\tb\nc\td\n", 8, HYMT_GLOSSARY_TSV, 0, 1, &l,
                               &g, &err), HYMT_OK, "two entries of two");
    is_int(hymt_glossary_tsv(g, &tsv, &len, &err), HYMT_OK, "back as TSV");
    is_str(tsv, "a\tb\nc\td\n", "as they were");
    is_int(len, 8, "with their length");
    free(tsv);
    hymt_glossary_unref(g);

    is_int(hymt_glossary_parse("a\tb\nc\td\ne\tf", 11, HYMT_GLOSSARY_TSV, 0, 1,
                               &l, &g, &err), HYMT_TOO_LONG, "three");
    has_str(err.text, "line 3: more than 2 entries", "says so");

    is_int(hymt_glossary_parse("a\tbcdef", 7, HYMT_GLOSSARY_TSV, 0, 1, &l, &g,
                               &err), HYMT_TOO_LONG, "a long term");
    has_str(err.text, "target term has 5 bytes, 4 are allowed", "says so");

    is_int(hymt_glossary_parse("a\tb\n                 ", 21, HYMT_GLOSSARY_TSV,
                               0, 1, &l, &g, &err), HYMT_TOO_LONG,
           "a long text");
    has_str(err.text, "21 bytes, 20 are allowed", "says so");
}


/* the source terms that match, "a|b" */
static const char *
matches(const hymt_glossary_t *g, const char *text, bool icase, uint32_t max)
{
    size_t                        len;
    uint32_t                      i, n;
    const hymt_glossary_entry_t  *out[32];

    static char  buf[1024];

    buf[0] = '\0';

    if (hymt_glossary_match(g, text, strlen(text), icase, out, max, &n, &err)
        != HYMT_OK)
    {
        return err.text;
    }

    for (i = 0, len = 0; i < n; i++) {
        len += (size_t) snprintf(buf + len, sizeof(buf) - len, "%s%s",
                                 i == 0 ? "" : "|", out[i]->src);
    }

    return buf;
}


static void
test_match(void)
{
    hymt_glossary_t  *g;

    is_int(parse("train\tZug\ntrain station\tBahnhof\nTrain\tBahn\ncat\tKatze\n"
                 "猫\tcat\n猫咪\tkitty\nC++\tC++\n.NET\t.NET\nÄpfel\tapples\n"
                 "รถไฟ\ttrain\n서울\tSeoul\nстанция\tstation\nx\ty\ne\u0301\tz\n",
                 HYMT_GLOSSARY_TSV, &g), HYMT_OK, "a glossary");

    is_str(matches(g, "the train station", false, 32), "train station|train",
           "the longest first, what it holds too");
    is_str(matches(g, "train", false, 32), "train", "the whole text");
    is_str(matches(g, "trains, retrain, trainé, train_s", false, 32), "train",
           "whole words; an underscore parts words");
    is_str(matches(g, "cats concat cat's", false, 32), "cat",
           "an apostrophe parts words");
    is_str(matches(g, "Train TRAIN", false, 32), "Train", "case counts");
    is_str(matches(g, "TRAIN STATION", true, 32), "train station|train",
           "or not: the first of equals");
    is_str(matches(g, "ÄPFEL und äpfel", true, 32), "Äpfel",
           "not beyond ASCII either");
    is_str(matches(g, "我家的猫咪很可爱", false, 32), "猫咪|猫",
           "Chinese matches anywhere");
    is_str(matches(g, "猫x猫", false, 32), "猫|x", "and parts words");
    is_str(matches(g, "นั่งรถไฟไป", false, 32), "รถไฟ", "Thai anywhere");
    is_str(matches(g, "서울에서", false, 32), "서울", "a Korean particle");
    is_str(matches(g, "станциями", false, 32), "", "no part of a Russian word");
    is_str(matches(g, "use C++ and .NET!", false, 32), ".NET|C++",
           "terms that begin or end in punctuation");
    is_str(matches(g, "ASP.NET C++11", false, 32), ".NET|C++",
           "match beside letters on that side");
    is_str(matches(g, "", false, 32), "", "an empty text");
    is_str(matches(g, "cat train station", false, 2), "train station|train",
           "at most max, the longest");
    is_str(matches(g, "train", false, 0), "", "none of none");
    has_str(matches(g, "train \xc3", false, 32), "not UTF-8 at byte 6",
            "not UTF-8");

    hymt_glossary_unref(g);
}


/* many terms and a long text against looking for each term by itself */
static void
test_match_large(void)
{
    char                          *text, *all, word[64];
    size_t                         len, at;
    uint32_t                       i, k, n, wrong, want;
    uint64_t                       start;
    unsigned                       rng;
    hymt_glossary_t               *g;
    const hymt_glossary_entry_t   *e;
    const hymt_glossary_entry_t  **out;

    all = malloc(1 << 20);
    text = malloc(110000);
    out = malloc(10000 * sizeof(*out));
    rng = 1;

    for (i = 0, at = 0; i < 10000; i++) {
        at += (size_t) sprintf(all + at, "term%u word\t%u\n", i * 7 % 10000, i);
    }

    is_int(hymt_glossary_parse(all, at, HYMT_GLOSSARY_TSV, 1, 2, NULL, &g,
                               &err), HYMT_OK, "10,000 entries");

    for (len = 0; len < 100000; /* void */) {
        rng = rng * 1103515245 + 12345;
        len += (size_t) sprintf(text + len, "term%u %s", rng >> 16,
                                rng & 0x800 ? "word " : "words ");
    }

    start = tap_cpu_ns();
    is_int(hymt_glossary_match(g, text, len, true, out, 10000, &n, &err),
           HYMT_OK, "in 100 KB");
    printf("# 10,000 terms in 100 KB: %.1f ms\n",
           (double) (tap_cpu_ns() - start) / 1e6);

    e = hymt_glossary_entries(g, &k);
    wrong = 0;
    want = 0;

    for (i = 0; i < k; i += 16) {
        snprintf(word, sizeof(word), "%s ", e[i].src);
        want = strstr(text, word) != NULL
               && (strncmp(text, word, strlen(word)) == 0
                   || strstr(text, word)[-1] == ' ');

        for (k = 0; k < n && out[k] != &e[i]; k++) { /* void */ }

        wrong += (k < n) != want;
        (void) hymt_glossary_entries(g, &k);
    }

    is_int(wrong, 0, "the same as strstr() finds");
    ok(n > 100 && n < 10000, "some of them");
    hymt_glossary_unref(g);

    /* nested terms of one letter, in a text of that letter */

    for (i = 0, at = 0; i < 340; i++) {
        for (k = 0; k <= i; k++) {
            memcpy(all + at, "中", 3);
            at += 3;
        }

        at += (size_t) sprintf(all + at, "\tx\n");
    }

    for (len = 0; len < 99999; len += 3) {
        memcpy(text + len, "中", 3);
    }

    is_int(hymt_glossary_parse(all, at, HYMT_GLOSSARY_TSV, 0, 1, NULL, &g,
                               &err), HYMT_OK, "terms that begin alike");

    start = tap_cpu_ns();
    is_int(hymt_glossary_match(g, text, len, false, out, 10000, &n, &err),
           HYMT_OK, "in a text made to be slow");
    start = tap_cpu_ns() - start;
    printf("# 340 nested terms in 100 KB: %.1f ms\n", (double) start / 1e6);

    is_int(n, 340, "all of them");
    is_int(out[0]->src_len, 1020, "the longest first");
    ok(start < 5000000000, "in bounded time");

    hymt_glossary_unref(g);
    free(all);
    free(text);
    free(out);
}


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

    test_sha256();
    test_tsv();
    test_csv();
    test_limits();
    test_match();
    test_match_large();
    test_store();
    test_store_limits();
    test_hostile();
    test_together();

    clean(dir);
    ok(rmdir(dir) == 0, "the directory is empty again");

    return tap_done();
}
