/* SPDX-License-Identifier: Apache-2.0 */
/* YAML's spellings of names and numbers. */
#ifndef TMK_EXPORT_YAML_H
#define TMK_EXPORT_YAML_H

#include "base/text.h"

/* In double quotes; what YAML does not print is escaped. UTF-8. */
void tmk_yaml_put_text(struct tmk_text *out, const char *text);
/* A finite float that every YAML reader takes for a number: 1e-05 is a string to PyYAML, 1.0e-05
 * is not. */
void tmk_yaml_put_float(struct tmk_text *out, float value);

#endif
