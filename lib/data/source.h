/* SPDX-License-Identifier: Apache-2.0 */
/* Calibration inputs: named arrays cut into entries. One file a kind of source; kinds are found
 * through one list.
 *
 * A source holds one or more arrays, each of so many entries. Two kinds:
 *  - `whole`: each entry is a complete tensor of its own, shapes may differ from entry to entry
 * (ONNX test sets);
 *  - otherwise: one big array [n_entries, ...] (NumPy): entries are its slices along the first
 * axis. A source is read by one thread at a time. Tensors it hands out stay good after it is closed
 * (they hold references).
 */
#ifndef TMK_DATA_SOURCE_H
#define TMK_DATA_SOURCE_H

#include <tidemark/tensor.h>

struct tmk_source;

struct tmk_source_array {
    const char *name; /* of the input it is for, or "" when the source does not say */
    bool whole;
    uint64_t n_entries;
    enum tmk_dtype
        dtype; /* !whole: as handed out (float16 and float64 are widened to float32); TMK_UNDEFINED:
                  a type that cannot be read, an error only when somebody wants it */
    struct tmk_shape shape; /* !whole: of the big array, first axis included */
};

struct tmk_source_info {
    const char *kind; /* "npy", "npz", "onnx-sets" */
    const char *path;
    const struct tmk_source_array *arrays;
    uint32_t n_arrays;
    char hash[65]; /* of the bytes that the entries are made of: SHA-256 in hex */
};

/* Decodes one serialised tensor file (ONNX TensorProto); *name is malloc'ed or NULL. Given by the
 * caller, since this room knows no model formats. */
typedef enum tmk_status (*tmk_decode_tensor)(const char *path, struct tmk_tensor *out, char **name,
                                             struct tmk_diag *diag);

/* Opens what `path` names: FILE.npy, FILE.npz, a folder of input_N.pb or of test_data_set_*
 * folders. TMK_READ, TMK_FORMAT (which file, which byte or field), TMK_UNSUPPORTED (which kinds
 * there are). */
TMK_NODISCARD enum tmk_status tmk_source_open(const char *path, tmk_decode_tensor decode,
                                              struct tmk_source **out, struct tmk_diag *diag);
void tmk_source_close(struct tmk_source **source);
const struct tmk_source_info *tmk_source_info(const struct tmk_source *source);

/* Entries [first, first + count) of an array: !whole: one tensor [count, ...];
 * whole: count must be 1, the entry itself. Finish *out. */
TMK_NODISCARD enum tmk_status tmk_source_read(struct tmk_source *source, uint32_t array,
                                              uint64_t first, uint64_t count,
                                              struct tmk_tensor *out, struct tmk_diag *diag);

#endif
