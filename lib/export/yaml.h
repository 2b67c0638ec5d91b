/* SPDX-License-Identifier: Apache-2.0 */
/* YAML's spellings of names and numbers. */
#pragma once

#include "base/arena.h"
#include "base/text.h"
#include "export/reader.h"

/* In double quotes; what YAML does not print is escaped. UTF-8. */
void tmk_yaml_put_text(struct tmk_text *out, const char *text);
/* The text of a scalar on one line: plain, in single or in double quotes; NULL: it is none of
 * these, or memory ran out. Of escapes those that tmk_yaml_put_text makes, and the single letters.
 */
char *tmk_yaml_text(const char *raw, size_t len, struct tmk_arena *arena);
/* A finite float that every YAML reader takes for a number: 1e-05 is a string to PyYAML, 1.0e-05
 * is not. */
void tmk_yaml_put_float(struct tmk_text *out, float value);

/* Formats in YAML: read with libyaml, or refused in a build without it. As tmk_reader.read. */

enum tmk_status tmk_read_glow(const struct tmk_ranges_file *file, struct tmk_ranges *out,
                              struct tmk_diag *diag);
enum tmk_status tmk_read_rknn(const struct tmk_ranges_file *file, struct tmk_ranges *out,
                              struct tmk_diag *diag);
