/*
 * sha256_test.c - sha256.h.
 */

#include "base.h"
#include "sha256.h"

#include "tap.h"


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


int
main(void)
{
    test_sha256();

    return tap_done();
}
