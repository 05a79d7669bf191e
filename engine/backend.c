/*
 * backend.c - which backend a name means, and how the CUDA backend's shared
 * object is found and opened; see backend.h.
 */

#include "backend.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


#ifndef HYMT_BUILD_ID
#define HYMT_BUILD_ID  "none"
#endif

#define HYMT_CUDA_FILE  "hymt_cuda.so"


static const hymt_backend_ops_t *hymt_backend_open(hymt_error_t *err);
static const hymt_backend_ops_t *hymt_backend_look(const char *path,
    void *handle, hymt_error_t *err);
static bool hymt_backend_path(char path[PATH_MAX]);
static bool hymt_backend_folder(char path[PATH_MAX]);


static const char *const  hymt_backend_places[] = {
    HYMT_CUDA_FILE,
    "../lib/hymt/" HYMT_CUDA_FILE,
};


hymt_status_t
hymt_backend_check(const char *name, hymt_error_t *err)
{
    if (strcmp(name, "auto") == 0 || strcmp(name, "cuda") == 0
        || strcmp(name, "cpu") == 0 || strcmp(name, "ref") == 0)
    {
        return HYMT_OK;
    }

    return hymt_fail(err, "backend \"%.64s\" is not known: \"auto\", \"cuda\","
                     " \"cpu\" and \"ref\" are", name);
}


bool
hymt_backend_on_device(const char *name)
{
    char  path[PATH_MAX];

    if (strcmp(name, "cuda") == 0) {
        return true;
    }

    /* what a driver has put there, WSL's too; asking it would open it */

    return strcmp(name, "auto") == 0
           && (access("/dev/nvidiactl", F_OK) == 0
               || access("/dev/dxg", F_OK) == 0)
           && hymt_backend_path(path);
}


const hymt_backend_ops_t *
hymt_backend_find(const char *name, hymt_error_t *err)
{
    if (strcmp(name, "cpu") == 0) {
        return &hymt_backend_cpu;
    }

    if (strcmp(name, "ref") == 0) {
        return &hymt_backend_ref;
    }

    if (strcmp(name, "cuda") == 0) {
        return hymt_backend_open(err);
    }

    (void) hymt_backend_check(name, err);

    return NULL;
}


static const hymt_backend_ops_t *
hymt_backend_open(hymt_error_t *err)
{
    char         path[PATH_MAX];
    void        *handle;
    const char  *why;

    if (!hymt_backend_path(path)) {
        hymt_fail(err, "there is no %s: build it with nvcc found"
                  " (CUDA=/path ./build.sh), and install it beside the module",
                  path[0] ? path : HYMT_CUDA_FILE);
        return NULL;
    }

    /* never closed: the driver's threads outlive any engine */

    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL) {
        why = dlerror();
        hymt_fail(err, "%s can't be opened: %s", path,
                  why != NULL ? why : "no reason given");
        return NULL;
    }

    return hymt_backend_look(path, handle, err);
}


/* What does not fit to this code must not be called. */
static const hymt_backend_ops_t *
hymt_backend_look(const char *path, void *handle, hymt_error_t *err)
{
    hymt_backend_ops_fn_t       fn;
    const hymt_backend_ops_t   *ops;

    *(void **) &fn = dlsym(handle, HYMT_BACKEND_CUDA_SYMBOL);
    if (fn == NULL) {
        hymt_fail(err, "%s has no %s(): it is another library", path,
                  HYMT_BACKEND_CUDA_SYMBOL);
        return NULL;
    }

    ops = fn();

    if (ops->abi != HYMT_BACKEND_ABI) {
        hymt_fail(err, "%s is of another version: its ABI is %u, %u is"
                  " needed; build and install both together", path, ops->abi,
                  HYMT_BACKEND_ABI);
        return NULL;
    }

    if (strcmp(ops->build_id, HYMT_BUILD_ID) != 0) {
        hymt_fail(err, "%s is of another build: its id is %.32s, %s is needed;"
                  " build and install both together", path, ops->build_id,
                  HYMT_BUILD_ID);
        return NULL;
    }

    return ops;
}


/* False: it is nowhere; path then says where it should be, or is empty. */
static bool
hymt_backend_path(char path[PATH_MAX])
{
    int          n;
    char         folder[PATH_MAX];
    size_t       i;
    const char  *given;

    path[0] = '\0';
    given = getenv("HYMT_CUDA_LIBRARY");

    if (given != NULL) {
        n = snprintf(path, PATH_MAX, "%s", given);
        return n > 0 && n < PATH_MAX && access(path, F_OK) == 0;
    }

    if (!hymt_backend_folder(folder)) {
        return false;
    }

    for (i = hymt_nelts(hymt_backend_places); i-- > 0; /* void */) {
        n = snprintf(path, PATH_MAX, "%s/%s", folder, hymt_backend_places[i]);

        if (n < PATH_MAX && access(path, F_OK) == 0) {
            return true;
        }
    }

    return false;
}


/* Of the file this code is in: the module, or a program. */
static bool
hymt_backend_folder(char path[PATH_MAX])
{
    char     *slash;
    Dl_info   info;

    if (dladdr(hymt_backend_places, &info) == 0 || info.dli_fname == NULL) {
        return false;
    }

    /* a program's name is what it was called by, maybe found in PATH */

    if (realpath(info.dli_fname, path) == NULL
        && realpath("/proc/self/exe", path) == NULL)
    {
        return false;
    }

    slash = strrchr(path, '/');
    if (slash == NULL) {
        return false;
    }

    *slash = '\0';

    return true;
}
