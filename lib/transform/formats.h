/* SPDX-License-Identifier: Apache-2.0 */
/* The formats of models and of exports: tables of what the modules model, export and relay have. */
#pragma once

#include "export/exporter.h"
#include "graph/graph.h"

struct tmk_model_reader {
    const char *name; /* of the format, as profiles have it */
    /* params_path: the file of the model's weights, or NULL. */
    enum tmk_status (*load)(const char *path, const char *params_path, bool keep_unknown,
                            struct tmk_graph **out, struct tmk_diag *diag);
    /* The same without operators that are not known, and the graph may be structure_only; NULL: as
     * load. */
    enum tmk_status (*load_structure)(const char *path, const char *params_path,
                                      struct tmk_graph **out, struct tmk_diag *diag);
};

/* The reader for a file, by how it begins, or else by the end of its name; ONNX's where neither
 * decides. */
enum tmk_status tmk_model_reader_find(const char *path, const struct tmk_model_reader **out,
                                      struct tmk_diag *diag);

/* Every exporter, in the order of export/list.inc; NULL at the end. */
const struct tmk_exporter *const *tmk_exporter_list(void);
/* NULL: there is no format of that name. */
const struct tmk_exporter *tmk_exporter_find(const char *name);
