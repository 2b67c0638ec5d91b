/* SPDX-License-Identifier: Apache-2.0 */
/* Raising errors with a place. See <tidemark/status.h> for the contract. */
#pragma once

#include <stdbool.h>

#include <tidemark/status.h>

/* Records the first failure's text; later ones are passed over. Control characters of the text
 * (hostile names) become '?'. `diag` may be NULL. */
void tmk_diag_set(struct tmk_diag *diag, enum tmk_status status, const char *fmt, ...)
    TMK_PRINTF(3, 4);

/* The same, as an expression of the status, so that `return tmk_fail(...)` reads well. A macro, so
 * that compilers see which status it is. */
#define tmk_fail(diag, status, ...) (tmk_diag_set((diag), (status), __VA_ARGS__), (status))

/* Puts "place: " in front of the text when `status` is a failure; returns `status`. */
enum tmk_status tmk_in(struct tmk_diag *diag, enum tmk_status status, const char *fmt, ...)
    TMK_PRINTF(3, 4);

/* The one spelling of an allocation failure: TMK_NOMEM, or TMK_LIMIT once the memory limit refused
 * something (base/memory.h), with the text that goes with it. */
bool tmk_nomem_by_limit(struct tmk_diag *diag);
#define tmk_nomem(diag) (tmk_nomem_by_limit(diag) ? TMK_LIMIT : TMK_NOMEM)

/* Returns the expression's status from the calling function when it is not TMK_OK. */
#define TMK_TRY(expr)                                                                              \
    do {                                                                                           \
        enum tmk_status tmk_try_status_ = (expr);                                                  \
        if (tmk_try_status_ != TMK_OK)                                                             \
            return tmk_try_status_;                                                                \
    } while (0)

/* Sets the variable to the expression's status, unless a step before this one failed: for steps
 * behind which there is something to clean up. */
#define TMK_THEN(status, expr)                                                                     \
    do {                                                                                           \
        if ((status) == TMK_OK)                                                                    \
            (status) = (expr);                                                                     \
    } while (0)

/* Returns tmk_nomem(diag) from the calling function unless the allocations gave something. */
#define TMK_TRY_ALLOC(allocated, diag)                                                             \
    do {                                                                                           \
        if (!(allocated))                                                                          \
            return tmk_nomem(diag);                                                                \
    } while (0)
