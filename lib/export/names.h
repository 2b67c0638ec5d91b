/* SPDX-License-Identifier: Apache-2.0 */
/* What a consumer calls our values: a JSON object from "p12" or an original name to the consumer's
 * name, or to an array of names where the consumer has several tensors for one value. */
#ifndef TMK_EXPORT_NAMES_H
#define TMK_EXPORT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/encodings.h>

#include "base/arena.h"

struct tmk_export_alias {
    uint32_t id, order; /* of one value's names: 0, 1, ... */
    const char *name;
};

struct tmk_export_names {
    struct tmk_export_alias *items; /* ascending by id, then order */
    size_t n;
    bool keep;            /* values without an alias keep their original name */
    uint32_t strangers;   /* keys that are no value of the encodings */
    const char *stranger; /* one of them; NULL: there is none */
    struct tmk_arena arena;
};

/* Reads the map. A key that is "p" and digits is an ID, whatever values are called; of values of
 * the same name (in sub-graphs) the first is meant. TMK_FORMAT: it is no such object, a name is
 * empty, or two values would have one name. End with tmk_export_names_finish. */
TMK_NODISCARD enum tmk_status tmk_export_names_read(const char *path,
                                                    const struct tmk_encodings *encodings,
                                                    struct tmk_export_names *out,
                                                    struct tmk_diag *diag);
void tmk_export_names_finish(struct tmk_export_names *names);
/* The value's name number `order`; NULL: it has fewer. */
const char *tmk_export_names_get(const struct tmk_export_names *names, uint32_t id, uint32_t order);

#endif
