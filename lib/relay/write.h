/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the printer of Relay text. Appending never fails half-way: check `failed` of the text. */
#ifndef TMK_RELAY_WRITE_H
#define TMK_RELAY_WRITE_H

#include "relay/ast.h"

/* Is it version 0.0.4 or before? */
bool tmk_relay_is_old(const struct tmk_relay_module *module);

/* ---- relay_print_values.c ---- */

void tmk_relay_print_type(struct tmk_text *out, const struct tmk_relay_type *type);
void tmk_relay_print_attr(struct tmk_text *out, const struct tmk_relay_attr *attr, bool old);
/* A number, True or False; TMK_TYPE where Relay text has no spelling for the element type. */
TMK_NODISCARD enum tmk_status tmk_relay_print_scalar(struct tmk_text *out,
                                                     const struct tmk_relay_expr *expr, bool old,
                                                     struct tmk_diag *diag);

/* ---- relay_print_meta.c ---- */

/* The section's JSON. */
TMK_NODISCARD enum tmk_status tmk_relay_print_section(const struct tmk_relay_module *module,
                                                      struct tmk_text *out, struct tmk_diag *diag);

#endif
