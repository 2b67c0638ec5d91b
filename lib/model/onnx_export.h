/* SPDX-License-Identifier: Apache-2.0 */
/* The exporter's own: a graph as messages, before they become bytes. */
#ifndef TMK_MODEL_ONNX_EXPORT_H
#define TMK_MODEL_ONNX_EXPORT_H

#include "base/arena.h"
#include "base/map.h"
#include "model/onnx_parts.h"

/* The names taken in a graph. Inner graphs may not repeat a name that they can see. */
struct tmk_onnx_names {
    const struct tmk_onnx_names *outer;
    struct tmk_map taken;
};

/* Zero-initialise but for diag; end with finish. */
struct tmk_onnx_writer {
    struct tmk_arena arena;     /* the messages; weights are borrowed from the graph */
    struct tmk_ptrmap names;    /* value to its name in the file */
    size_t n_renamed;           /* names made up so far */
    struct tmk_ptrmap declared; /* such a value to its name outside */
    bool has_observers;
    TmkPb__Tensor **initializers; /* of all graphs, in the order of the file */
    size_t n_initializers, initializers_size;
    struct tmk_diag *diag;
};
/* A zeroed message, initialised; NULL when memory ran out. */
void *tmk_onnx_make(struct tmk_onnx_writer *w, const ProtobufCMessageDescriptor *descriptor);

/* onnx_names.c */
TMK_NODISCARD enum tmk_status tmk_onnx_name_values(struct tmk_onnx_writer *w,
                                                   const struct tmk_graph *graph,
                                                   struct tmk_onnx_names *names);
/* `wanted`, or something like it that is free; taken from now on. NULL when memory ran out. */
const char *tmk_onnx_free_name(struct tmk_onnx_writer *w, struct tmk_onnx_names *names,
                               const char *wanted);
/* The name in the file; "" for NULL. */
const char *tmk_onnx_name_of(const struct tmk_onnx_writer *w, const struct tmk_value *value);

/* onnx_values.c: parts that know nothing of graphs. `out` is written only on success. */
TMK_NODISCARD enum tmk_status tmk_onnx_write_tensor(struct tmk_onnx_writer *w,
                                                    const struct tmk_tensor *tensor,
                                                    const char *name, TmkPb__Tensor **out);
/* NULL where nothing is known. */
TMK_NODISCARD enum tmk_status tmk_onnx_write_type(struct tmk_onnx_writer *w,
                                                  const struct tmk_type *type, TmkPb__Type **out);
/* All kinds but graphs. */
TMK_NODISCARD enum tmk_status
tmk_onnx_write_attr(struct tmk_onnx_writer *w, const struct tmk_attr *attr, TmkPb__Attribute *out);

#endif
