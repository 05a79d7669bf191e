/*
 * safetensors_test.c - headers of .safetensors files, good and hostile.
 */

#include "fixture.h"
#include "safetensors.h"
#include "tap.h"


typedef struct {
    const char  *what;
    const char  *header;
    uint64_t     data;         /* bytes that follow the header */
    const char  *message;      /* what the error must hold */
    const char  *tensor;       /* the tensor it must name, or "" */
} hostile_t;


static char          dir[FIXTURE_PATH];
static char          path[FIXTURE_PATH + 64];
static hymt_error_t  err;


static void
write_file(uint64_t length, const char *header, size_t n, uint64_t data)
{
    FILE  *f;

    f = fixture_create(dir, "x.safetensors");
    fwrite(&length, 8, 1, f);
    fwrite(header, 1, n, f);
    fclose(f);

    if (truncate(path, (off_t) (8 + n + data)) != 0) {
        fixture_die("can't extend", path);
    }
}


static void
refused(const char *what, const char *message, const char *tensor)
{
    char                name[128];
    hymt_safetensors_t  st;

    err.text[0] = '\0';
    snprintf(name, sizeof(name), "tensor \"%s\"", tensor);

    is_int(hymt_safetensors_open(path, &st, &err), HYMT_ERROR, "%s: refused",
           what);
    has_str(err.text, message, "%s: message", what);
    has_str(err.text, path, "%s: names the file", what);
    has_str(err.text, tensor[0] ? name : "", "%s: names the tensor", what);
    ok(strchr(err.text, '\n') == NULL, "%s: one line", what);
    is_int(st.file.fd, -1, "%s: nothing left open", what);
}


#define T(dtype, shape, begin, end)                                           \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin  \
    "," #end "]}"


static const hostile_t  hostile[] = {

    /* the JSON */

    { "an array", "[]", 0, "does not begin with", "" },
    { "a leading space", " {}", 0, "does not begin with", "" },
    { "broken", "{\"a\":", 0, "line 1", "" },
    { "two values", "{}{}", 0, "line 1", "" },
    { "a NUL", "{\"a\\u0000b\":1}", 0, "line 1", "" },
    { "invalid UTF-8", "{\"\xc3\":1}", 0, "line 1", "" },
    { "a tensor twice", "{\"a\":" T("F32", "[1]", 0, 4) ",\"a\":"
      T("F32", "[1]", 0, 4) "}", 4, "duplicate", "" },
    { "metadata as a list", "{\"__metadata__\":[]}", 0,
      "\"__metadata__\" must be an object of strings, got []", "" },
    { "metadata with a number", "{\"__metadata__\":{\"a\":7}}", 0,
      "but holds 7", "" },

    /* names */

    { "an empty name", "{\"\":" T("F32", "[1]", 0, 4) "}", 4,
      "is not 1 to 255 printable", "" },
    { "a newline in a name", "{\"a\\nb\":" T("F32", "[1]", 0, 4) "}", 4,
      "\"a...\" is not 1 to 255 printable", "" },
    { "a name in Chinese", "{\"权\":" T("F32", "[1]", 0, 4) "}", 4,
      "is not 1 to 255 printable", "" },

    /* keys */

    { "a number for a tensor", "{\"a\":7}", 0, "must be an object, got 7",
      "a" },
    { "an empty tensor", "{\"a\":{}}", 0, "has no \"dtype\"", "a" },
    { "no dtype", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
      "has no \"dtype\"", "a" },
    { "no shape", "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4,
      "has no \"shape\"", "a" },
    { "no offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4,
      "has no \"data_offsets\"", "a" },
    { "a key too many", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
      "\"data_offsets\":[0,4],\"scale\":1}}", 4, "has keys besides", "a" },

    /* dtypes */

    { "FP8", "{\"a\":" T("F8_E4M3", "[4]", 0, 4) "}", 4,
      "has dtype \"F8_E4M3\"; F32, F16 and BF16 are supported", "a" },
    { "GPTQ", "{\"a.qweight\":" T("I32", "[1]", 0, 4) "}", 4,
      "has dtype \"I32\"", "a.qweight" },
    { "F64", "{\"a\":" T("F64", "[1]", 0, 8) "}", 8, "dtype \"F64\"", "a" },
    { "lower case", "{\"a\":" T("f32", "[1]", 0, 4) "}", 4,
      "dtype \"f32\"", "a" },
    { "a newline in a dtype", "{\"a\":" T("F\\n", "[1]", 0, 4) "}", 4,
      "dtype \"F\\n\"", "a" },
    { "a number for a dtype", "{\"a\":{\"dtype\":1,\"shape\":[1],"
      "\"data_offsets\":[0,4]}}", 4, "has dtype 1", "a" },

    /* shapes */

    { "a scalar", "{\"a\":" T("F32", "[]", 0, 4) "}", 4,
      "one or two dimensions, got []", "a" },
    { "three dimensions", "{\"a\":" T("F32", "[1,1,1]", 0, 4) "}", 4,
      "one or two dimensions", "a" },
    { "a number for a shape", "{\"a\":" T("F32", "1", 0, 4) "}", 4,
      "one or two dimensions, got 1", "a" },
    { "an object for a shape", "{\"a\":" T("F32", "{}", 0, 4) "}", 4,
      "one or two dimensions", "a" },
    { "a dimension of 0", "{\"a\":" T("F32", "[0]", 0, 0) "}", 0,
      "positive integers, got [0]", "a" },
    { "a negative dimension", "{\"a\":" T("F32", "[-1]", 0, 4) "}", 4,
      "positive integers", "a" },
    { "negative twice", "{\"a\":" T("F32", "[-1,-1]", 0, 4) "}", 4,
      "positive integers", "a" },
    { "half a row", "{\"a\":" T("F32", "[1.5]", 0, 6) "}", 6,
      "positive integers", "a" },
    { "a row as text", "{\"a\":" T("F32", "[\"1\"]", 0, 4) "}", 4,
      "positive integers", "a" },
    { "2^62 x 4 elements", "{\"a\":"
      T("F32", "[4611686018427387904,4]", 0, 0) "}", 0, "beyond 64 bits",
      "a" },
    { "2^62 floats", "{\"a\":" T("F32", "[4611686018427387904]", 0, 0) "}",
      0, "beyond 64 bits", "a" },
    { "2^64 rows", "{\"a\":" T("F32", "[18446744073709551616]", 0, 0) "}", 0,
      "too big", "" },

    /* ranges */

    { "one offset", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
      "\"data_offsets\":[4]}}", 4, "must be two integers, got [4]", "a" },
    { "three offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
      "\"data_offsets\":[0,4,4]}}", 4, "must be two integers", "a" },
    { "offsets as an object", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
      "\"data_offsets\":{}}}", 4, "must be two integers", "a" },
    { "offsets as text", "{\"a\":" T("F32", "[1]", "0", "4") "}", 4,
      "must be two integers", "a" },
    { "offsets as fractions", "{\"a\":" T("F32", "[1]", 0.0, 4.0) "}", 4,
      "must be two integers", "a" },
    { "a negative begin", "{\"a\":" T("F32", "[1]", -4, 0) "}", 4,
      "goes from byte -4 to byte 0", "a" },
    { "the end before the begin", "{\"a\":" T("F32", "[1]", 4, 0) "}", 4,
      "goes from byte 4 to byte 0", "a" },
    { "too few bytes", "{\"a\":" T("F32", "[2]", 0, 4) "}", 4,
      "needs 8 bytes, data_offsets give 4", "a" },
    { "too many bytes", "{\"a\":" T("BF16", "[2,3]", 0, 24) "}", 24,
      "shape [2, 3] in BF16 needs 12 bytes, data_offsets give 24", "a" },
    { "past the end", "{\"a\":" T("F32", "[2]", 0, 8) "}", 7,
      "is the download complete?", "a" },
    { "far past the end", "{\"a\":"
      T("F32", "[1]", 9223372036854775803, 9223372036854775807) "}", 4,
      "is the download complete?", "a" },
    { "no data at all", "{\"a\":" T("F32", "[1]", 0, 4) "}", 0,
      "is the download complete?", "a" },

    /* ranges of several */

    { "the same bytes", "{\"a\":" T("F32", "[1]", 0, 4) ",\"b\":"
      T("F32", "[1]", 0, 4) "}", 4, "inside tensor \"a\"", "b" },
    { "an overlap", "{\"a\":" T("F32", "[2]", 0, 8) ",\"b\":"
      T("F32", "[2]", 4, 12) "}", 12, "inside tensor \"a\", which ends at",
      "b" },
    { "one inside another", "{\"small\":" T("F32", "[1]", 4, 8) ",\"big\":"
      T("F32", "[4]", 0, 16) "}", 16, "inside tensor \"big\"", "small" },
    { "a hole", "{\"a\":" T("F32", "[1]", 0, 4) ",\"b\":"
      T("F32", "[1]", 8, 12) "}", 12, "the 4 bytes before tensor \"b\"",
      "b" },
    { "a hole at the start", "{\"a\":" T("F32", "[1]", 4, 8) "}", 8,
      "the 4 bytes before tensor \"a\"", "a" },
    { "bytes at the end", "{\"a\":" T("F32", "[1]", 0, 4) "}", 9,
      "5 bytes follow the last tensor \"a\"", "" },
    { "bytes and no tensor", "{}", 9, "9 bytes follow the last tensor", "" },
};


static void
test_hostile(void)
{
    size_t            i, n;
    const hostile_t  *h;

    for (i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        h = &hostile[i];
        n = strlen(h->header);

        write_file(n, h->header, n, h->data);
        refused(h->what, h->message, h->tensor);
    }
}


/* What is wrong before there is JSON. */
static void
test_hostile_length(void)
{
    size_t  i;

    static const uint64_t  lengths[] = {
        0, 1, (8 << 20) + 1, 100000000, 1ull << 32, 1ull << 63, UINT64_MAX,
        UINT64_MAX - 7,
    };

    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        write_file(lengths[i], "{}", 2, 100);
        refused("a header's length out of range", "the header's length is",
                "");
    }

    write_file(3, "{}", 2, 0);
    refused("a header longer than the file", "is the download complete?", "");

    fixture_write(dir, "x.safetensors", "");
    refused("an empty file", "the file has 0 bytes", "");

    fixture_write(dir, "x.safetensors", "1234567");
    refused("seven bytes", "is the download complete?", "");

    fixture_write(dir, "x.safetensors", "PK\3\4 this is a zip archive");
    refused("another format", "is this a safetensors file?", "");

    fixture_write(dir, "x.safetensors", "version https://git-lfs.github.com");
    refused("a Git LFS pointer", "git lfs pull", "");
}


static void
test_hostile_names(void)
{
    char    name[400], header[600];
    size_t  n;

    memset(name, 'n', sizeof(name));
    name[256] = '\0';

    n = (size_t) snprintf(header, sizeof(header), "{\"%s\":"
                          T("F32", "[1]", 0, 4) "}", name);
    write_file(n, header, n, 4);
    refused("a name of 256 bytes", "is not 1 to 255 printable", "");
}


static void
test_hostile_depth(void)
{
    size_t   n;
    char    *header;

    n = 1 << 20;
    header = malloc(n);

    memset(header, '[', n);
    memcpy(header, "{\"a\":", 5);

    write_file(n, header, n, 0);
    refused("a million brackets", "maximum parsing depth", "");

    free(header);
}


static void
test_good(void)
{
    size_t              i, n;
    hymt_safetensors_t  st;

    static const char  header[] =
        "{\"b\":" T("F32", "[2,3]", 6, 30) ",\"__metadata__\":"
        "{\"format\":\"pt\"},\"a\":" T("BF16", "[3]", 0, 6) ",\"c\":"
        T("F16", "[1,1]", 30, 32) "}   ";

    n = strlen(header);
    write_file(n, header, n, 32);

    if (!ok(hymt_safetensors_open(path, &st, &err) == HYMT_OK, "opens")) {
        printf("# %s\n", err.text);
        return;
    }

    is_int(st.n, 3, "three tensors");
    is_str(st.tensors[0].name, "a", "in the order of their places");
    is_str(st.tensors[1].name, "b", "second");
    is_str(st.tensors[2].name, "c", "third");
    is_int(st.tensors[0].dtype, HYMT_BF16, "BF16");
    is_int(st.tensors[1].dtype, HYMT_F32, "F32");
    is_int(st.tensors[2].dtype, HYMT_F16, "F16");
    is_int(st.tensors[0].n_dims, 1, "a vector");
    is_int(st.tensors[0].shape[0], 3, "of three");
    is_int(st.tensors[0].shape[1], 1, "by one");
    is_int(st.tensors[1].n_dims, 2, "a matrix");
    is_int(st.tensors[1].shape[0], 2, "of two rows");
    is_int(st.tensors[1].shape[1], 3, "and three columns");
    is_int(st.tensors[0].offset, 8 + n, "a begins where the data does");
    is_int(st.tensors[1].offset, 8 + n + 6, "b's place");
    is_int(st.tensors[1].bytes, 24, "b's bytes");

    for (i = 0; i < st.n; i++) {
        is_int(st.tensors[i].fd, st.file.fd, "file of tensor %zu", i);
        is_str(st.tensors[i].file, path, "its name");
    }

    hymt_safetensors_close(&st);

    write_file(2, "{}", 2, 0);
    is_int(hymt_safetensors_open(path, &st, &err), HYMT_OK,
           "a file of no tensors");
    is_int(st.n, 0, "none");
    hymt_safetensors_close(&st);

    unlink(path);
    is_int(hymt_safetensors_open(path, &st, &err), HYMT_DECLINED,
           "no such file");
    has_str(err.text, path, "is named");
}


int
main(void)
{
    fixture_dir(dir);
    snprintf(path, sizeof(path), "%s/x.safetensors", dir);

    test_good();
    test_hostile();
    test_hostile_length();
    test_hostile_names();
    test_hostile_depth();

    fixture_remove(dir);

    return tap_done();
}
