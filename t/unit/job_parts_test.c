/*
 * job_parts_test.c - terms and chats, written and read, and what nobody has
 * written.
 */

#include "job_parts.h"
#include "tap.h"


static hymt_term_t   terms[HYMT_MAX_TERMS];
static hymt_turn_t   turns[HYMT_MAX_TURNS];
static hymt_error_t  err;


static void
test_terms(void)
{
    char                buf[64];
    size_t              n;
    const char         *end;

    static const hymt_term_t  two[] = {
        { "bank", 4, "Ufer", 4 },
        { "a b", 3, "\xc3\xa9", 2 },
    };

    end = hymt_term_write(hymt_term_write(buf, &two[0]), &two[1]);
    is_int(end - buf, 4 + 4 + 3 + 2 + 2 * HYMT_TERM_EXTRA, "bytes of terms");
    is_int(hymt_terms_read(buf, (size_t) (end - buf), terms, &n, &err),
           HYMT_OK, "terms are read");
    is_int(n, 2, "all");
    ok(terms[1].src_len == 3 && memcmp(terms[1].src, "a b", 3) == 0,
       "a source");
    ok(terms[1].tgt_len == 2 && memcmp(terms[1].tgt, "\xc3\xa9", 2) == 0,
       "a translation");

    is_int(hymt_terms_read(buf, 0, terms, &n, &err), HYMT_OK, "no terms");
    is_int(n, 0, "are none");
}


static void
test_turns(void)
{
    char         buf[64];
    size_t       n;
    const char  *end;

    static const hymt_turn_t  three[] = {
        { HYMT_ROLE_SYSTEM, "", 0 },
        { HYMT_ROLE_ASSISTANT, "u 1\nx", 5 },
        { HYMT_ROLE_USER, "end", 3 },
    };

    end = hymt_turn_write(buf, &three[0]);
    end = hymt_turn_write((char *) end, &three[1]);
    end = hymt_turn_write((char *) end, &three[2]);

    is_int(hymt_turns_read(buf, (size_t) (end - buf), turns, &n, &err),
           HYMT_OK, "a chat is read");
    is_int(n, 3, "all of it");
    is_int(turns[0].role, HYMT_ROLE_SYSTEM, "a role");
    is_int(turns[0].len, 0, "an empty turn");
    ok(turns[1].role == HYMT_ROLE_ASSISTANT && turns[1].len == 5
       && memcmp(turns[1].content, "u 1\nx", 5) == 0,
       "content that looks like a turn");
    ok(turns[2].role == HYMT_ROLE_USER && turns[2].len == 3, "the last");
}


static void
test_bad(void)
{
    size_t  i, n;

    static const char  *const bad_terms[] = {
        "a", "a\tb", "a\n", "\n", "a\tb\nc\n", "a\tb\nc\td",
    };

    static const char  *const bad_turns[] = {
        "u", "u ", "u 1", "u 1\n", "x 1\na", "u1\na", "u -1\na", "u 2\na",
        "u 1\nab", "u \n", "u 99999999999\na", "u 4294967296\na", "u 1 \na",
        "U 1\na", "u 1\nau",
    };

    for (i = 0; i < hymt_nelts(bad_terms); i++) {
        is_int(hymt_terms_read(bad_terms[i], strlen(bad_terms[i]), terms, &n,
                               &err),
               HYMT_ERROR, "bad terms %zu", i);
    }

    for (i = 0; i < hymt_nelts(bad_turns); i++) {
        is_int(hymt_turns_read(bad_turns[i], strlen(bad_turns[i]), turns, &n,
                               &err),
               HYMT_ERROR, "bad turns %zu", i);
    }

    is_int(hymt_turns_read("\0 1\na", 5, turns, &n, &err), HYMT_ERROR,
           "a NUL is no role");
}


static void
test_many(void)
{
    char    buf[8 * HYMT_MAX_TERMS];
    size_t  i, n;

    for (i = 0; i <= HYMT_MAX_TERMS; i++) {
        memcpy(buf + 4 * i, "a\tb\n", 4);
    }

    is_int(hymt_terms_read(buf, 4 * HYMT_MAX_TERMS, terms, &n, &err), HYMT_OK,
           "as many terms as there may be");
    is_int(hymt_terms_read(buf, 4 * HYMT_MAX_TERMS + 4, terms, &n, &err),
           HYMT_ERROR, "one more");
    is_str(err.text, "more than 256 terms", "is told");

    for (i = 0; i <= HYMT_MAX_TURNS; i++) {
        memcpy(buf + 5 * i, "u 1\na", 5);
    }

    is_int(hymt_turns_read(buf, 5 * HYMT_MAX_TURNS, turns, &n, &err), HYMT_OK,
           "as many turns as there may be");
    is_int(hymt_turns_read(buf, 5 * HYMT_MAX_TURNS + 5, turns, &n, &err),
           HYMT_ERROR, "one more");
}


static void
test_stops(void)
{
    size_t        i;
    char          buf[HYMT_STOPS_BYTES + 2];
    hymt_error_t  err;

    static const char  stops[] = "\n\n\0end\0stop";

    is_int(hymt_stops_check("", 0, &err), HYMT_OK, "no stop strings");
    is_int(hymt_stops_check(stops, sizeof(stops), &err), HYMT_OK, "three");
    is_int(hymt_stops_check("a", 1, &err), HYMT_ERROR, "one without its end");
    is_int(hymt_stops_check("", 1, &err), HYMT_ERROR, "an empty one");
    is_int(hymt_stops_check("a\0", 3, &err), HYMT_ERROR, "an empty one last");

    for (i = 0; i <= HYMT_MAX_STOPS; i++) {
        memcpy(buf + 2 * i, "x", 2);
    }

    is_int(hymt_stops_check(buf, 2 * HYMT_MAX_STOPS, &err), HYMT_OK,
           "as many as there may be");
    is_int(hymt_stops_check(buf, 2 * HYMT_MAX_STOPS + 2, &err), HYMT_ERROR,
           "one more");

    memset(buf, 'x', sizeof(buf));
    buf[HYMT_STOPS_BYTES - 1] = '\0';
    is_int(hymt_stops_check(buf, HYMT_STOPS_BYTES, &err), HYMT_OK,
           "as long as there may be");
    buf[HYMT_STOPS_BYTES] = '\0';
    is_int(hymt_stops_check(buf, HYMT_STOPS_BYTES + 1, &err), HYMT_ERROR,
           "longer");

    ok(!hymt_stops_seen("", 0, "abc", 0, 3), "none is seen");
    ok(!hymt_stops_seen(stops, sizeof(stops), "the en", 4, 6), "not yet");
    ok(hymt_stops_seen(stops, sizeof(stops), "the end", 6, 7), "now");
    ok(hymt_stops_seen(stops, sizeof(stops), "the end ", 4, 8), "and more");
    ok(!hymt_stops_seen(stops, sizeof(stops), "the end ", 7, 8),
       "what ended before is not looked at again");
    ok(hymt_stops_seen(stops, sizeof(stops), "end", 0, 3), "at the beginning");
}


/* Whatever is read lies within the part. */
static void
test_random(void)
{
    char      part[40];
    size_t    i, j, n, bad;
    uint64_t  x;

    static const char  letters[] = "sua 0123\n\tx";

    x = 1;
    bad = 0;

    for (i = 0; i < 200000; i++) {

        for (j = 0; j < sizeof(part); j++) {
            x = x * 6364136223846793005ull + 1442695040888963407ull;
            part[j] = letters[(x >> 40) % (sizeof(letters) - 1)];
        }

        if (hymt_turns_read(part, sizeof(part), turns, &n, NULL) == HYMT_OK) {
            for (j = 0; j < n; j++) {
                bad += turns[j].content < part
                       || turns[j].content + turns[j].len
                          > part + sizeof(part);
            }
        }

        if (hymt_terms_read(part, sizeof(part), terms, &n, NULL) == HYMT_OK) {
            for (j = 0; j < n; j++) {
                bad += terms[j].src < part
                       || terms[j].tgt + terms[j].tgt_len
                          > part + sizeof(part);
            }
        }
    }

    is_int(bad, 0, "nothing outside of the part");
}


int
main(void)
{
    test_terms();
    test_turns();
    test_bad();
    test_many();
    test_stops();
    test_random();

    return tap_done();
}
