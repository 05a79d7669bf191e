/*
 * What json_quick.c reads is what jansson reads; of the rest it knows nothing.
 */

#include "json_quick.h"
#include "tap.h"


#define FLAGS  (JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL)


static uint64_t  state = 20261201;


/* Read by both, and equal. */
static const char  *plain[] = {
    "{}",
    "[]",
    " \t\r\n{ } \n",
    "{\"text\":\"Open the file.\",\"tgt_lang\":\"de\"}",
    "{ \"text\" : [ \"a\" , \"b\" , [ ] , { } ] , \"stream\" : true }",
    "[true, false, null]",
    "[0, -0, 7, -12, 123456789012345678, -999999999999999999]",
    "[0.7, -0.5, 1e3, 1E+3, 2.5e-3, 0e0, 1e-400, 1.0]",
    "[\"\", \"\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"a\\u00e9b\", \"\\u4f60\\u597D\"]",
    "[\"\\ud83d\\ude00 \\uDBFF\\uDFFF\"]",
    "[\"\\u0001\\u007f\\u0080\\u07ff\\u0800\"]",
    "{\"terms\":{\"a\\u00e9\":\"b\"},\"n\":{\"a\":{\"a\":{\"a\":[1]}}}}",
    "[\"\xc3\xa9 \xe4\xbd\xa0 \xf0\x9f\x98\x80 \x7f\"]",
    "[\"\\u0000\\u00\"",
};

/* Objects that are flat, and others. */
static const char  *flat[] = {
    "{\"text\":\"Open the file.\",\"tgt_lang\":\"de\"}",
    " { \"a\" : \"\" , \"\" : \"b\" , \"ab\" : true , \"c\" : false } ",
    "{\"a\":0,\"b\":-7,\"c\":123456789012345678,\"d\":0.7,\"e\":-1E+3}",
    "{\"\xc3\xa9\":\"\xe4\xbd\xa0 \xf0\x9f\x98\x80 \x7f\"}",
};

static const char  *nested[] = {
    "{}", "[]", "[1]", "{\"a\":[]}", "{\"a\":{}}", "{\"a\":null}",
    "{\"a\":\"\\n\"}", "{\"\\u0061\":1}", "{\"a\":1,\"a\":1}",
    "{\"b\":1,\"a\":1,\"b\":2}", "{\"a\":1,}", "{\"a\":1}}", "{\"a\":1} x",
    "{\"a\":1", "{\"a\":\"b", "{\"a\":tru}", "{\"a\":1234567890123456789}",
    "{\"a\":01}", "{\"a\":\"\xff\"}", "{\"a\":\"\n\"}", "",
};


/* Left to jansson, which takes some of them. */
static const char  *odd[] = {
    "", " ", "1", "\"a\"", "null", "{", "[", "{\"a\"", "{\"a\":", "{\"a\":1",
    "{\"a\":1,}", "[1,]", "[,1]", "{,}", "[1 2]", "{\"a\" 1}", "{a:1}",
    "{'a':1}", "[1]]", "[1] x", "{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}",
    "[01]", "[1.]", "[.5]", "[+1]", "[-]", "[1e]", "[1e+]", "[0x10]", "[NaN]",
    "[1e999]", "[1234567890123456789]", "[12345678901234567890123]",
    "[nul]", "[truex]", "[\"a]", "[\"\\x\"]", "[\"\\u12\"]", "[\"\\u12g4\"]",
    "[\"\\ud800\"]", "[\"\\ud800\\u0041\"]", "[\"\\udc00\"]", "[\"a\nb\"]",
    "[\"\\u0000\"]", "[\"\\", "[\"\\u004", "[\"\xff\"]", "[\"\xc3\"]",
    "[\"\xed\xa0\x80\"]", "\xef\xbb\xbf[]", "[\"\xc0\x80\"]",
    "[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]",
    "{\"0123456789012345678901234567890123456789012345678901234567890123\":1}",
};


static uint32_t
roll(uint32_t n)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;

    return (uint32_t) (state >> 33) % n;
}


/* A copy of just that size, for what looks beyond. */
static json_t *
quick(const char *text, size_t len, size_t most)
{
    char    *copy;
    json_t  *value;

    copy = malloc(len + 1);
    memcpy(copy, text, len);
    copy = realloc(copy, len > 0 ? len : 1);

    value = hymt_json_quick(copy, len, most);

    free(copy);

    return value;
}


/* An object of what hymt_json_flat() reads; NULL: nothing. */
static json_t *
flat_read(const char *text, size_t len, size_t cap)
{
    char                *copy;
    size_t               i, n;
    json_t              *root, *value;
    hymt_json_member_t   m[8];

    copy = malloc(len + 1);
    memcpy(copy, text, len);
    copy = realloc(copy, len > 0 ? len : 1);

    n = hymt_json_flat(copy, len, m, cap);
    root = n > 0 ? json_object() : NULL;

    for (i = 0; i < n; i++) {
        value = m[i].type == JSON_STRING ? json_stringn(m[i].text, m[i].len)
                : m[i].type == JSON_INTEGER ? json_integer(m[i].integer)
                : m[i].type == JSON_REAL ? json_real(m[i].real)
                : json_boolean(m[i].type == JSON_TRUE);

        if (m[i].tree != NULL
            || (m[i].type == JSON_INTEGER
                && m[i].real != (double) m[i].integer))
        {
            json_decref(value);
            value = json_null();
        }

        (void) json_object_setn_new(root, m[i].name, m[i].name_len, value);
    }

    free(copy);

    return root;
}


static void
test_flat(void)
{
    char                *a, *b;
    size_t               i, cap;
    json_t              *got, *want;
    json_error_t         error;
    hymt_json_member_t   none;

    for (i = 0; i < sizeof(flat) / sizeof(*flat); i++) {
        got = flat_read(flat[i], strlen(flat[i]), 8);
        want = json_loadb(flat[i], strlen(flat[i]), FLAGS, &error);
        a = json_dumps(got, JSON_COMPACT);
        b = json_dumps(want, JSON_COMPACT);

        is_str(a, b, "flat, members in their order: %s", flat[i]);

        free(a);
        free(b);
        json_decref(got);
        json_decref(want);
    }

    for (i = 0; i < sizeof(nested) / sizeof(*nested); i++) {
        got = flat_read(nested[i], strlen(nested[i]), 8);
        ok(got == NULL, "not flat: %s", nested[i]);
        json_decref(got);
    }

    /* what an empty body is */

    is_int(hymt_json_flat(NULL, 0, &none, 1), 0, "not flat: nothing at all");

    for (cap = 0; cap < 6; cap++) {
        got = flat_read("{\"a\":1,\"b\":2,\"c\":3,\"d\":4}", 25, cap);
        is_int(got != NULL, cap >= 4, "four members, %zu are taken", cap);
        json_decref(got);
    }
}


static void
test_plain(void)
{
    size_t         i;
    json_t        *got, *want;
    json_error_t   error;

    for (i = 0; i + 1 < sizeof(plain) / sizeof(*plain); i++) {
        got = quick(plain[i], strlen(plain[i]), 100);
        want = json_loadb(plain[i], strlen(plain[i]), FLAGS, &error);

        ok(got != NULL, "read: %s", plain[i]);
        ok(json_equal(got, want), "as by jansson");

        json_decref(got);
        json_decref(want);
    }

    for (i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
        got = quick(odd[i], strlen(odd[i]), 100);
        ok(got == NULL, "left alone: %s", odd[i]);
        json_decref(got);
    }

    got = quick("[\"a\0b\"]", 7, 100);
    ok(got == NULL, "left alone: a zero");
    json_decref(got);
}


/* The order of members is that of jansson, too. */
static void
test_order(void)
{
    char    *text;
    json_t  *got;

    got = quick("{\"b\":1,\"a\":2,\"c\":3}", 19, 100);
    text = json_dumps(got, JSON_COMPACT);
    is_str(text, "{\"b\":1,\"a\":2,\"c\":3}", "members stay in their order");

    free(text);
    json_decref(got);
}


static void
test_most(void)
{
    size_t       most;
    json_t      *got;
    const char  *text;

    text = "{\"a\":[1,{},\"x\"],\"b\":null}";

    for (most = 0; most < 8; most++) {
        got = quick(text, strlen(text), most);
        is_int(got != NULL, most >= 6, "six values, %zu are taken", most);
        json_decref(got);
    }
}


/* Texts that are nearly right: whatever is read is what jansson reads. */
static void
test_random(void)
{
    char           text[512];
    size_t         i, n, len;
    json_t        *got, *want, *members;
    const char    *from;
    uint32_t       round, read, flats, wrong;
    json_error_t   error;

    static const char  chars[] = "{}[]\",:\\u0d8e1.-tfn \x01\xc3\xa9";

    read = flats = wrong = 0;

    for (round = 0; round < 200000; round++) {
        from = round % 2 ? flat[roll(sizeof(flat) / sizeof(*flat))]
                         : plain[roll(sizeof(plain) / sizeof(*plain))];
        len = strlen(from);
        memcpy(text, from, len);

        for (n = roll(4); n > 0 && len > 0; n--) {
            i = roll((uint32_t) len);

            switch (roll(3)) {

            case 0:
                text[i] = chars[roll(sizeof(chars) - 1)];
                break;

            case 1:
                memmove(text + i, text + i + 1, len - i - 1);
                len--;
                break;

            default:
                memmove(text + i + 1, text + i, len - i);
                text[i] = chars[roll(sizeof(chars) - 1)];
                len++;
            }
        }

        got = quick(text, len, 100);

        if (got != NULL) {
            want = json_loadb(text, len, FLAGS, &error);
            read++;

            if (!json_equal(got, want)) {
                wrong++;
                printf("# %.*s\n", (int) len, text);
            }

            json_decref(want);
        }

        /* what is flat is so for both */

        members = flat_read(text, len, 8);

        if (members != NULL) {
            flats++;

            if (got == NULL || !json_equal(got, members)) {
                wrong++;
                printf("# flat: %.*s\n", (int) len, text);
            }
        }

        json_decref(members);
        json_decref(got);
    }

    is_int(wrong, 0, "nothing is read otherwise");
    ok(read > 50000, "of %u texts", read);
    ok(flats > 20000, "%u of them flat", flats);
}


int
main(void)
{
    test_plain();
    test_order();
    test_flat();
    test_most();
    test_random();

    return tap_done();
}
