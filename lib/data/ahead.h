/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that are made before they are wanted, by threads of their own, in a known order. A
 * bounded number of them waits, so that memory does not grow with the data; what is returned does
 * not depend on the threads. */
#pragma once

#include "data/source.h"

struct tmk_ahead;

/* Makes one entry; called by several threads at a time. */
typedef enum tmk_status (*tmk_ahead_make)(const void *context, uint64_t entry,
                                          struct tmk_tensor *out, struct tmk_diag *diag);

/* `context` and the order's live until destroy. Goes on with the threads that could be started;
 * when there are none *out is NULL. */
enum tmk_status tmk_ahead_create(tmk_ahead_make make, const void *context,
                                 const struct tmk_source_order *order,
                                 struct tmk_source_threads *threads, struct tmk_ahead **out,
                                 struct tmk_diag *diag);
/* Waits for the threads; NULL is allowed. */
void tmk_ahead_destroy(struct tmk_ahead **ahead);

/* Waits for the entry. *there is false when the order has passed it, or does not hold it. An entry
 * may be asked for again until a later one is. A failure is that of making the entry. */
enum tmk_status tmk_ahead_take(struct tmk_ahead *ahead, uint64_t entry, bool *there,
                               struct tmk_tensor *out, struct tmk_diag *diag);
