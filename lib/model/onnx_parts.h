/* SPDX-License-Identifier: Apache-2.0 */
/* What the importer's and exporter's files share. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/diag.h"
#include "base/map.h"
#include "graph/graph.h"
#include "model/onnx.pb-c.h"

/* AttributeProto.AttributeType */
enum tmk_onnx_attr_type {
    TMK_ONNX_FLOAT = 1,
    TMK_ONNX_INT = 2,
    TMK_ONNX_STRING = 3,
    TMK_ONNX_TENSOR = 4,
    TMK_ONNX_GRAPH = 5,
    TMK_ONNX_FLOATS = 6,
    TMK_ONNX_INTS = 7,
    TMK_ONNX_STRINGS = 8,
    TMK_ONNX_TENSORS = 9,
    TMK_ONNX_GRAPHS = 10,
    TMK_ONNX_SPARSE_TENSOR = 11,
    TMK_ONNX_SPARSE_TENSORS = 12,
    TMK_ONNX_TYPE_PROTO = 13,
    TMK_ONNX_TYPE_PROTOS = 14
};

enum { TMK_ONNX_EXTERNAL = 1 }; /* TensorProto.data_location */

struct tmk_onnx_external;

/* Of elements that are narrower than a byte, in a file. */
static inline size_t tmk_packed_bytes(enum tmk_dtype dtype, size_t count) {
    const size_t each = 8 / tmk_dtype_bits(dtype);
    return count / each + (count % each != 0);
}

/* A mapped file with what its tensors may refer to. */
struct tmk_onnx_file {
    struct tmk_buf *bytes;
    const char *path;                    /* borrowed */
    struct tmk_onnx_external *externals; /* mapped so far, in the order of their names */
    bool lazy;                           /* tensors that are read now may be lazy */
};

enum tmk_status tmk_onnx_file_init(struct tmk_onnx_file *file, const char *path,
                                   struct tmk_diag *diag);
/* Lets the pages of the files go that were read so far; views of them stay good. */
void tmk_onnx_file_rest(struct tmk_onnx_file *file);
void tmk_onnx_file_finish(struct tmk_onnx_file *file);
/* Sizes of the external data files that were read, together. */
uint64_t tmk_onnx_external_bytes(const struct tmk_onnx_file *file);
/* Of all of their bytes, one file after the other; "" where there are none. */
enum tmk_status tmk_onnx_external_hash(const struct tmk_onnx_file *file, char hex[TMK_HASH128_HEX],
                                       struct tmk_diag *diag);
/* The bytes of an external data file. `location` must lie within the model's folder, links
 * followed: TMK_FORMAT otherwise. The buf lives as long as `file`. */
enum tmk_status tmk_onnx_external(struct tmk_onnx_file *file, const char *location,
                                  struct tmk_buf **out, struct tmk_diag *diag);

/* The tensor of a message made by tmk_wire_outline over file->bytes, in any encoding, widened. */
enum tmk_status tmk_onnx_tensor(struct tmk_onnx_file *file, const TmkPb__Tensor *pb,
                                struct tmk_tensor *out, struct tmk_diag *diag);

/* The same of a sparse tensor, made dense (onnx_sparse.c). */
enum tmk_status tmk_onnx_sparse(struct tmk_onnx_file *file, const TmkPb__Sparse *pb,
                                struct tmk_tensor *out, struct tmk_diag *diag);

/* float16, bfloat16 and float64 become float32. */
enum tmk_dtype tmk_onnx_widened(enum tmk_dtype dtype);
/* A type, widened. Symbols are borrowed from the message. An absent message: nothing is known. */
enum tmk_status tmk_onnx_type(const TmkPb__Type *pb, struct tmk_type *out, struct tmk_diag *diag);

/* The exporter's own: a graph as messages, before they become bytes. */

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
enum tmk_status tmk_onnx_name_values(struct tmk_onnx_writer *w, const struct tmk_graph *graph,
                                     struct tmk_onnx_names *names);
/* `wanted`, or something like it that is free; taken from now on. NULL when memory ran out. */
const char *tmk_onnx_free_name(struct tmk_onnx_writer *w, struct tmk_onnx_names *names,
                               const char *wanted);
/* The name in the file; "" for NULL. */
const char *tmk_onnx_name_of(const struct tmk_onnx_writer *w, const struct tmk_value *value);

/* onnx_values.c: parts that know nothing of graphs. `out` is written only on success. */
enum tmk_status tmk_onnx_write_tensor(struct tmk_onnx_writer *w, const struct tmk_tensor *tensor,
                                      const char *name, TmkPb__Tensor **out);
/* NULL where nothing is known. */
enum tmk_status tmk_onnx_write_type(struct tmk_onnx_writer *w, const struct tmk_type *type,
                                    TmkPb__Type **out);
enum tmk_status tmk_onnx_write_maps(struct tmk_onnx_writer *w, const struct tmk_node *node,
                                    TmkPb__Type **out);
/* All kinds but graphs. */
enum tmk_status tmk_onnx_write_attr(struct tmk_onnx_writer *w, const struct tmk_attr *attr,
                                    TmkPb__Attribute *out);
