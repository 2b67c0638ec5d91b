/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/format.h"

#ifdef TMK_HDF5_LIBRARY

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/diag.h"

#define TMK_HDF5_LOADER
#include "profile/hdf5_calls.h"

struct tmk_hdf5_calls tmk_hdf5_calls;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool is_loaded;

static void *open_library(const char *name, const char **missing) {
    void *library = *missing ? NULL : dlopen(name, RTLD_NOW | RTLD_LOCAL);
    *missing = library ? NULL : name;
    return library;
}

static void find(void *library, const char *name, void *pointer, const char **missing) {
    void *found = *missing ? NULL : dlsym(library, name);
    if (found)
        memcpy(pointer, &found, sizeof found);
    else if (!*missing)
        *missing = name;
}

/* NULL, or what there is not. */
static const char *load(void) {
    const char *missing = NULL;
    void *library = open_library(TMK_HDF5_LIBRARY, &missing);
#define X(name) find(library, #name, &tmk_hdf5_calls.name, &missing);
    TMK_HDF5_CALLS(X)
    if (!missing)
        library = open_library(TMK_HDF5_HL_LIBRARY, &missing);
    TMK_HDF5_HL_CALLS(X)
#undef X
    return missing;
}

enum tmk_status tmk_profile_load_hdf5(const char *path, struct tmk_diag *diag) {
    pthread_mutex_lock(&mutex);
    const char *missing = is_loaded ? NULL : load();
    is_loaded = !missing;
    pthread_mutex_unlock(&mutex);
    if (!missing)
        return TMK_OK;
    return tmk_fail(diag, TMK_UNSUPPORTED,
                    "%s: the HDF5 library cannot be loaded (%s); write .json, or install it", path,
                    missing);
}

#else

enum tmk_status tmk_profile_load_hdf5(const char *path, struct tmk_diag *diag) {
    (void)path;
    (void)diag;
    return TMK_OK;
}

#endif
