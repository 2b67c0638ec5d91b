/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the source tree that the fuzz targets have in them: schemas, and what is mutated. */
#pragma once

#include <stddef.h>

/* Ends with a name that is NULL. */
extern const struct embedded {
    const char *name;
    const unsigned char *data;
    size_t size;
} embedded[];
