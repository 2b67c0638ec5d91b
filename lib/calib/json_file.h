/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are one JSON object: encodings, what `calibrate` is configured with. */
#ifndef TMK_CALIB_JSON_FILE_H
#define TMK_CALIB_JSON_FILE_H

#include <tidemark/encodings.h>

#include "profile/fields.h"

struct tmk_json_file {
    cJSON *tree;
    size_t held;        /* bytes that were counted for it */
    locale_t locale[2]; /* numbers read with a decimal point meanwhile */
};

/* TMK_READ, or TMK_FORMAT; errors name the file. On success end with close, on the same thread. */
TMK_NODISCARD enum tmk_status tmk_json_file_open(const char *path, struct tmk_json_file *out,
                                                 struct tmk_diag *diag);
void tmk_json_file_close(struct tmk_json_file *file);

/* The fields of a file of encodings. */
extern const struct tmk_fields tmk_encodings_fields;

/* The member "uses" of an encoding, where it is for some readers only. */
void tmk_json_put_uses(struct tmk_json_out *to, const struct tmk_encoding *e);

#endif
