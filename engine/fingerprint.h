/*
 * fingerprint.h - tells one model's files from another's, for caches.
 *
 * SHA-256 over the directory's *.json and *.safetensors in the order of their
 * names: of the former all bytes, of the latter the header, the size and the
 * time of the last change, since weights take seconds to read.  So weights that
 * are replaced in place by others of the same shape differ, unless somebody
 * sets the clock back.
 *
 * Reads some megabytes: never on an event loop.  Thread: any.
 */

#ifndef HYMT_FINGERPRINT_H
#define HYMT_FINGERPRINT_H

#include "sha256.h"


hymt_status_t hymt_fingerprint(const char *dir,
    unsigned char digest[HYMT_SHA256_SIZE], hymt_error_t *err);


#endif /* HYMT_FINGERPRINT_H */
