/* SPDX-License-Identifier: Apache-2.0 */
/* What the importer's and exporter's files share. */
#ifndef TMK_MODEL_ONNX_PARTS_H
#define TMK_MODEL_ONNX_PARTS_H

#include "base/buf.h"
#include "base/diag.h"
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
    struct tmk_onnx_external *externals; /* mapped so far */
    bool lazy;                           /* tensors that are read now may be lazy */
};

TMK_NODISCARD enum tmk_status tmk_onnx_file_init(struct tmk_onnx_file *file, const char *path,
                                                 struct tmk_diag *diag);
/* Lets the pages of the files go that were read so far; views of them stay good. */
void tmk_onnx_file_rest(struct tmk_onnx_file *file);
void tmk_onnx_file_finish(struct tmk_onnx_file *file);
/* Sizes of the external data files that were read, together. */
uint64_t tmk_onnx_external_bytes(const struct tmk_onnx_file *file);
/* The bytes of an external data file. `location` must lie within the model's folder, links
 * followed: TMK_FORMAT otherwise. The buf lives as long as `file`. */
TMK_NODISCARD enum tmk_status tmk_onnx_external(struct tmk_onnx_file *file, const char *location,
                                                struct tmk_buf **out, struct tmk_diag *diag);

/* The tensor of a message made by tmk_wire_outline over file->bytes, in any encoding, widened. */
TMK_NODISCARD enum tmk_status tmk_onnx_tensor(struct tmk_onnx_file *file, const TmkPb__Tensor *pb,
                                              struct tmk_tensor *out, struct tmk_diag *diag);

/* float16, bfloat16 and float64 become float32. */
enum tmk_dtype tmk_onnx_widened(enum tmk_dtype dtype);
/* A type, widened. Symbols are borrowed from the message. An absent message: nothing is known. */
TMK_NODISCARD enum tmk_status tmk_onnx_type(const TmkPb__Type *pb, struct tmk_type *out,
                                            struct tmk_diag *diag);

#endif
