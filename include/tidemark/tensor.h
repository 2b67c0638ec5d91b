/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays with a type and a shape, and sequences and optionals of them.
 *
 * A tensor is a dense row-major array. It holds a reference to the bytes it shows (heap, or a
 * mapped file), so copying a tensor is cheap and its bytes are read-only once shared. All calls are
 * thread-safe for distinct tensors; the reference count itself is atomic. */
#ifndef TIDEMARK_TENSOR_H
#define TIDEMARK_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types, with ONNX's numbers (TensorProto.DataType) and NumPy's names: all properties
 * of a type are in this list.
 * X(name, number, text, bytes an element in memory (0: not held), kind, bits an element in files)
 */
#define TMK_DTYPE_LIST(X)                                                                          \
    X(UNDEFINED, 0, "undefined", 0, NONE, 0)                                                       \
    X(FLOAT32, 1, "float32", 4, FLOAT, 32)                                                         \
    X(UINT8, 2, "uint8", 1, INTEGER, 8)                                                            \
    X(INT8, 3, "int8", 1, INTEGER, 8)                                                              \
    X(UINT16, 4, "uint16", 2, INTEGER, 16)                                                         \
    X(INT16, 5, "int16", 2, INTEGER, 16)                                                           \
    X(INT32, 6, "int32", 4, INTEGER, 32)                                                           \
    X(INT64, 7, "int64", 8, INTEGER, 64)                                                           \
    X(STRING, 8, "string", 0, NONE, 0)                                                             \
    X(BOOL, 9, "bool", 1, BOOL, 8)                                                                 \
    X(FLOAT16, 10, "float16", 2, FLOAT, 16)                                                        \
    X(FLOAT64, 11, "float64", 8, FLOAT, 64)                                                        \
    X(UINT32, 12, "uint32", 4, INTEGER, 32)                                                        \
    X(UINT64, 13, "uint64", 8, INTEGER, 64)                                                        \
    X(COMPLEX64, 14, "complex64", 8, COMPLEX, 64)                                                  \
    X(COMPLEX128, 15, "complex128", 16, COMPLEX, 128)                                              \
    X(BFLOAT16, 16, "bfloat16", 2, FLOAT, 16)                                                      \
    X(FLOAT8E4M3FN, 17, "float8_e4m3fn", 1, FLOAT, 8)                                              \
    X(FLOAT8E4M3FNUZ, 18, "float8_e4m3fnuz", 1, FLOAT, 8)                                          \
    X(FLOAT8E5M2, 19, "float8_e5m2", 1, FLOAT, 8)                                                  \
    X(FLOAT8E5M2FNUZ, 20, "float8_e5m2fnuz", 1, FLOAT, 8)                                          \
    X(UINT4, 21, "uint4", 1, INTEGER, 4)                                                           \
    X(INT4, 22, "int4", 1, INTEGER, 4)                                                             \
    X(FLOAT4E2M1, 23, "float4_e2m1", 1, FLOAT, 4)                                                  \
    X(FLOAT8E8M0, 24, "float8_e8m0fnu", 1, FLOAT, 8)                                               \
    X(UINT2, 25, "uint2", 1, INTEGER, 2)                                                           \
    X(INT2, 26, "int2", 1, INTEGER, 2)

enum tmk_dtype {
#define TMK_DTYPE_ENUM(name, number, text, size, kind, bits) TMK_##name = number,
    TMK_DTYPE_LIST(TMK_DTYPE_ENUM)
#undef TMK_DTYPE_ENUM
};
#define TMK_DTYPE_ONE(name, number, text, size, kind, bits) +1
enum { TMK_N_DTYPES = TMK_DTYPE_LIST(TMK_DTYPE_ONE) }; /* numbers are below this */
#undef TMK_DTYPE_ONE

/* Bytes an element; 0 for types that are not held in memory. Types of 2 and 4 bits are held one an
 * element, signed ones with their sign. */
TMK_API size_t tmk_dtype_size(enum tmk_dtype dtype);
/* Bits an element in files: 2 and 4 for types that are packed there, else 8 times the size. */
TMK_API unsigned tmk_dtype_bits(enum tmk_dtype dtype);
/* NumPy's name; "undefined" for anything unknown. Never NULL. */
TMK_API const char *tmk_dtype_name(enum tmk_dtype dtype);
/* TMK_UNDEFINED when no type has this name. */
TMK_API enum tmk_dtype tmk_dtype_by_name(const char *name);
/* float16, bfloat16, float32, float64 and the narrower floats. */
TMK_API bool tmk_dtype_is_float(enum tmk_dtype dtype);
/* Signed and unsigned integers of any width; not bool. */
TMK_API bool tmk_dtype_is_integer(enum tmk_dtype dtype);

enum { TMK_MAX_RANK = 12 }; /* as oneDNN's */

/* rank 0 is a scalar. Dimensions are >= 0; in a graph -1 stands for "not known yet". */
struct tmk_shape {
    int32_t rank;
    int64_t dim[TMK_MAX_RANK];
};

/* The product of the dimensions; false on overflow, a negative dimension or a bad rank. */
TMK_API bool tmk_shape_count(const struct tmk_shape *shape, size_t *out);
TMK_API bool tmk_shape_equal(const struct tmk_shape *a, const struct tmk_shape *b);
/* "[1,3,224,224]", "[]" for a scalar; -1 prints as '?'. Truncated to fit; returns `out`. */
TMK_API const char *tmk_shape_text(const struct tmk_shape *shape, char *out, size_t size);

struct tmk_buf;
struct tmk_list;

/* What a value is. */
enum tmk_type_kind {
    TMK_TYPE_TENSOR,
    TMK_TYPE_SEQUENCE,         /* of tensors */
    TMK_TYPE_OPTIONAL,         /* a tensor or nothing */
    TMK_TYPE_OPTIONAL_SEQUENCE /* of tensors, or nothing */
};

/* Zero-initialised is "no tensor": data NULL.
 *
 * With another `kind` than TMK_TYPE_TENSOR, which only operators with TMK_OP_TAKES_ANY are passed,
 * it is a sequence (TMK_TYPE_SEQUENCE: the tensors are in `list`, dtype is theirs) or an optional
 * that holds nothing (TMK_TYPE_OPTIONAL). An optional that holds something is that thing. Both have
 * no data, and a shape of no elements. */
struct tmk_tensor {
    enum tmk_dtype dtype;
    enum tmk_dtype
        origin; /* the type in the file, where it was widened to float32; else == dtype */
    struct tmk_shape shape;
    struct tmk_buf *buf; /* keeps data alive; NULL when the memory is borrowed */
    void *data;
    enum tmk_type_kind kind;
    struct tmk_list *list; /* of a sequence: never NULL, one reference is ours; else NULL */
};

/* Zeroed memory for dtype and shape. TMK_RANGE when the size overflows, TMK_LIMIT or TMK_NOMEM when
 * there is none, TMK_TYPE for a type that is not held in memory. End with tmk_tensor_finish. */
TMK_API enum tmk_status tmk_tensor_init(struct tmk_tensor *tensor, enum tmk_dtype dtype,
                                        const struct tmk_shape *shape, struct tmk_diag *diag);
/* A tensor over memory that the caller keeps alive. The caller has checked that `data` is large
 * enough. */
TMK_API void tmk_tensor_borrow(struct tmk_tensor *tensor, enum tmk_dtype dtype,
                               const struct tmk_shape *shape, void *data);
/* Shares src's bytes, or its list. `copy` is overwritten, not finished. */
TMK_API void tmk_tensor_share(struct tmk_tensor *copy, const struct tmk_tensor *src);
/* Drops the reference and leaves "no tensor". */
TMK_API void tmk_tensor_finish(struct tmk_tensor *tensor);
/* Elements; the tensor's shape has been checked, so this cannot fail. */
TMK_API size_t tmk_tensor_count(const struct tmk_tensor *tensor);
/* count times the element's size. */
TMK_API size_t tmk_tensor_bytes(const struct tmk_tensor *tensor);

/* float16, bfloat16 and float64 become float32 (IEEE 754 round to nearest even; exact for the
 * 16-bit types), `origin` keeps the old type; any other tensor is shared as it is. `out` may not be
 * `in`. */
TMK_API enum tmk_status tmk_tensor_widen(const struct tmk_tensor *in, struct tmk_tensor *out,
                                         struct tmk_diag *diag);

/* IEEE binary16 and bfloat16 <-> float32. Narrowing rounds to nearest even and keeps NaN a NaN. */
TMK_API float tmk_from_half(uint16_t bits);
TMK_API uint16_t tmk_to_half(float value);
TMK_API float tmk_from_bfloat16(uint16_t bits);
TMK_API uint16_t tmk_to_bfloat16(float value);

#ifdef __cplusplus
}
#endif
#endif
