/* SPDX-License-Identifier: Apache-2.0 */
#include "hdf5/handle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if H5_VERSION_GE(1, 13, 2)
#include <H5FDdevelop.h>
#endif

struct handle {
    H5FD_t of_library; /* first */
    haddr_t allocated;
};

/* Of the one file; the library's calls carry no context to the driver's. */
static int handle_fd = -1;
static haddr_t handle_size;

static H5FD_t *open_handle(const char *name, unsigned flags, hid_t access, haddr_t most) {
    (void)name, (void)access, (void)most;
    struct handle *handle = flags & H5F_ACC_RDWR ? NULL : calloc(1, sizeof *handle);
    return handle ? &handle->of_library : NULL;
}

static herr_t close_handle(H5FD_t *file) {
    free(file);
    return 0;
}

static herr_t query_handle(const H5FD_t *file, unsigned long *flags) {
    (void)file;
    *flags = H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE;
    return 0;
}

static haddr_t get_allocated(const H5FD_t *file, H5FD_mem_t type) {
    (void)type;
    return ((const struct handle *)file)->allocated;
}

static herr_t set_allocated(H5FD_t *file, H5FD_mem_t type, haddr_t address) {
    (void)type;
    ((struct handle *)file)->allocated = address;
    return 0;
}

static haddr_t get_end(const H5FD_t *file, H5FD_mem_t type) {
    (void)file, (void)type;
    return handle_size;
}

/* What is behind the end reads as zeros, as with the library's own driver. */
static herr_t read_handle(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t address,
                          size_t size, void *to) {
    (void)file, (void)type, (void)transfer;
    for (unsigned char *at = to; size;) {
        const ssize_t n = pread(handle_fd, at, size, (off_t)address);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0) {
            memset(at, 0, size);
            break;
        }
        at += n;
        address += (haddr_t)n;
        size -= (size_t)n;
    }
    return 0;
}

static herr_t refuse_write(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t address,
                           size_t size, const void *from) {
    (void)file, (void)type, (void)transfer, (void)address, (void)size, (void)from;
    return -1;
}

static const H5FD_class_t handle_class = {
#ifdef H5FD_CLASS_VERSION
    .version = H5FD_CLASS_VERSION,
    .value = (H5FD_class_value_t)H5_VFD_RESERVED + 1,
#endif
    .name = "tidemark",
    .maxaddr = ((haddr_t)1 << 62) - 1,
    .fc_degree = H5F_CLOSE_WEAK,
    .open = open_handle,
    .close = close_handle,
    .query = query_handle,
    .get_eoa = get_allocated,
    .set_eoa = set_allocated,
    .get_eof = get_end,
    .read = read_handle,
    .write = refuse_write,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

bool tmk_hdf5_read_handle(hid_t access, int fd) {
    struct stat is;
    handle_fd = fd;
    handle_size = fstat(fd, &is) == 0 ? (haddr_t)is.st_size : 0; /* none: nothing is read */
    const hid_t driver = H5FDregister(&handle_class);
    return driver >= 0 && H5Pset_driver(access, driver, NULL) >= 0;
}
