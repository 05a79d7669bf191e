/*
 * backend.c - which backend a name means.
 */

#include "engine.h"

#include <stdio.h>
#include <string.h>


const hymt_backend_ops_t *
hymt_backend_find(const char *name, char *note, size_t cap, hymt_error_t *err)
{
    if (note != NULL && cap > 0) {
        note[0] = '\0';
    }

    if (strcmp(name, "cpu") == 0) {
        return &hymt_backend_cpu;
    }

    if (strcmp(name, "ref") == 0) {
        return &hymt_backend_ref;
    }

    if (strcmp(name, "auto") == 0) {
        if (note != NULL) {
            snprintf(note, cap, "cpu: this build has no CUDA backend");
        }

        return &hymt_backend_cpu;
    }

    if (strcmp(name, "cuda") == 0) {
        hymt_fail(err, "backend \"cuda\": this build has no CUDA backend; use"
                  " \"cpu\", or \"auto\" for the best one there is");
        return NULL;
    }

    hymt_fail(err, "backend \"%.64s\" is not known: \"auto\", \"cpu\" and"
              " \"ref\" are", name);

    return NULL;
}
