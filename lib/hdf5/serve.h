/* SPDX-License-Identifier: Apache-2.0 */
/* The only place that lets the HDF5 library read a file: in a process that is there for nothing
 * else. */
#ifndef TMK_HDF5_SERVE_H
#define TMK_HDF5_SERVE_H

#include "hdf5/wire.h"

/* false in a build without HDF5, where serving is not to be called. */
extern const bool tmk_hdf5_serves;

/* Answers what comes through the socket until its other end is closed or `parent` is no longer the
 * parent. Of the shared memory it has the two halves. */
void tmk_hdf5_serve(const char *path, int fd, unsigned char *shared, int parent);

#endif
