/* SPDX-License-Identifier: Apache-2.0 */
/* Strata: a label for each sample, from a file.
 *
 * The file is CSV (RFC 4180, UTF-8), in one of two forms: one label a line, in the order of the
 * samples; or a first line "sample,label", and then the absolute index (from 0) and the label of a
 * sample a line, in any order.
 *
 * Strata are read-only once they were read: any number of threads may use them. */
#ifndef TIDEMARK_STRATA_H
#define TIDEMARK_STRATA_H

#include <stdint.h>

#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Different labels of a file, and bytes of one. */
enum { TMK_MAX_STRATA = 1000, TMK_MAX_LABEL = 128 };

struct tmk_strata;

/* TMK_FORMAT, with file and line, for invalid CSV: another number of fields, quotes that
 * are never closed or out of place, an empty or too long label, one with control characters or that
 * is no UTF-8, too many different ones, a sample that is listed twice, no label at all. TMK_RANGE
 * for a file of more than 256 MiB. End with tmk_strata_destroy. */
TMK_API enum tmk_status tmk_strata_read(const char *path, struct tmk_strata **out,
                                        struct tmk_diag *diag);
/* Frees and sets *strata to NULL; NULL is allowed. */
TMK_API void tmk_strata_destroy(struct tmk_strata **strata);

/* The count of different labels, and the i-th, in the order of first appearance. */
TMK_API uint32_t tmk_strata_count(const struct tmk_strata *strata);
TMK_API const char *tmk_strata_label(const struct tmk_strata *strata, uint32_t i);

#ifdef __cplusplus
}
#endif
#endif
