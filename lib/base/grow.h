/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow by one element at a time. */
#ifndef TMK_BASE_GROW_H
#define TMK_BASE_GROW_H

#include <stddef.h>

/* The malloc'ed array (moved, if need be) with space for one more element behind `used` of them;
 * *size elements fit, and becomes larger when it moves. NULL when memory ran out: then array and
 * *size are as they were. array may be NULL. */
void *tmk_grown(void *array, size_t used, size_t *size, size_t element);

#endif
