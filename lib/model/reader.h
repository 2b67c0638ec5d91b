/* SPDX-License-Identifier: Apache-2.0 */
/* Model files, whatever they are. */
#ifndef TMK_MODEL_READER_H
#define TMK_MODEL_READER_H

#include "graph/graph.h"

struct tmk_reader {
    const char *name; /* of the format, as profiles have it */
    TMK_NODISCARD enum tmk_status (*load)(const char *path, const char *params_path,
                                          bool keep_unknown, struct tmk_graph **out,
                                          struct tmk_diag *diag);
};

/* The reader for a file, by how it begins, or else by the end of its name; ONNX's where neither
 * says. */
TMK_NODISCARD enum tmk_status tmk_reader_find(const char *path, const struct tmk_reader **out,
                                              struct tmk_diag *diag);

#endif
