/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the names by which programs load HDF5 and its high-level functions. Exit status 1 where
 * they are no shared libraries. */
#include <dlfcn.h>
#include <hdf5.h>
#include <hdf5_hl.h>
#include <stdio.h>
#include <string.h>

static int print_name(const void *function) {
    Dl_info info;
    if (!dladdr(function, &info) || !strstr(info.dli_fname, ".so"))
        return 1;
    const char *slash = strrchr(info.dli_fname, '/');
    puts(slash ? slash + 1 : info.dli_fname);
    return 0;
}

int main(void) {
    return print_name((const void *)H5open) || print_name((const void *)H5DSset_scale);
}
