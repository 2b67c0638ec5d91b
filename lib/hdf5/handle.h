/* SPDX-License-Identifier: Apache-2.0 */
/* A driver of the HDF5 library that reads one open descriptor: a path is never opened. */
#ifndef TMK_HDF5_HANDLE_H
#define TMK_HDF5_HANDLE_H

#include <stdbool.h>

#include <hdf5.h>

/* Makes files of these access properties read `fd`, whatever their names. To be called once. */
bool tmk_hdf5_read_handle(hid_t access, int fd);

#endif
