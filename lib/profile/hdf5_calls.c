/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/format.h"

#include <stdatomic.h>

static atomic_bool is_loaded;

#ifdef TMK_HDF5_LIBRARY

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/diag.h"

#define TMK_HDF5_LOADER
#include "profile/hdf5_calls.h"

struct tmk_hdf5_calls tmk_hdf5_calls;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* *missing becomes the name where the library has none of it. */
static void find(void *library, const char *name, void *pointer, const char **missing) {
    void *found = dlsym(library, name);
    if (found)
        memcpy(pointer, &found, sizeof found);
    else
        *missing = name;
}

/* NULL, or the library or function that is missing. */
static const char *load(void) {
    const char *missing = NULL;
    void *library = dlopen(TMK_HDF5_LIBRARY, RTLD_NOW | RTLD_LOCAL),
         *high_level = dlopen(TMK_HDF5_HL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library || !high_level)
        return library ? TMK_HDF5_HL_LIBRARY : TMK_HDF5_LIBRARY;
#define X(name) find(library, #name, &tmk_hdf5_calls.name, &missing);
    TMK_HDF5_CALLS(X)
#undef X
#define X(name) find(high_level, #name, &tmk_hdf5_calls.name, &missing);
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
    is_loaded = true;
    return TMK_OK;
}

#endif

bool tmk_profile_hdf5_is_loaded(void) {
    return is_loaded;
}
