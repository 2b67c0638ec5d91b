/* SPDX-License-Identifier: Apache-2.0 */
/* What speaks for a value being an original, without numbers: the rules behind an edit, and keys by
 * which those that a rule may hold for are found. */
#pragma once

#include "link/link.h"

enum tmk_link_rule {
    TMK_LINK_BY_OPERANDS, /* the same operator, all operands are matched to the value's */
    TMK_LINK_BY_WEIGHTS,  /* the same operator, all weights are, and one of them is telling */
    TMK_LINK_BY_NAME,     /* the same name and operator, and nothing matched speaks against it */
    TMK_LINK_RULES
};

bool tmk_link_is_like(const struct tmk_linking *l, enum tmk_link_rule rule, uint32_t original,
                      uint32_t value);
/* Is neither of them matched? */
bool tmk_link_is_free(const struct tmk_linking *l, uint32_t original, uint32_t value);
/* Are the same values like both originals? Their operands, or weights, are matched. Not for
 * BY_NAME. */
bool tmk_link_seek_alike(const struct tmk_linking *l, enum tmk_link_rule rule, uint32_t a,
                         uint32_t b);

/* Exporters number what has no name, and number it anew after an edit: is it more than that? */
bool tmk_link_is_name(const char *name);
/* Does it have a weight that is no coincidence? `t` is of `from`. */
bool tmk_link_has_telling_weight(const struct tmk_linking *l, const struct tmk_profile_tensor *t);

/* ---- keys: equal wherever the rule holds ---- */

/* What of shapes and types is known on both sides, so that it may be part of a key. */
struct tmk_link_known {
    bool dtypes, ranks;
    bool dims[TMK_MAX_RANK]; /* wherever there is such an axis */
};
struct tmk_link_known tmk_link_known(const struct tmk_linking *l);

/* Of the operator, and what comes out of it. */
uint64_t tmk_link_maker_key(const struct tmk_link_known *known, const struct tmk_profile_tensor *t);
/* Of a maker that reads a value of `to` as operand k. The sum over all operands is the key of all
 * of them. */
uint64_t tmk_link_operand_key(uint64_t maker, uint32_t k, uint32_t value);
uint64_t tmk_link_name_key(const struct tmk_profile_tensor *t);
