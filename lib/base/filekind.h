/* SPDX-License-Identifier: Apache-2.0 */
/* What a file is, by its first bytes: for messages about files that are something else than was
 * asked for. */
#ifndef TMK_BASE_FILEKIND_H
#define TMK_BASE_FILEKIND_H

#include <stddef.h>

#include <tidemark/status.h>

/* X(name, what it is, what it is for) */
#define TMK_FILE_KINDS(X)                                                                          \
    X(MODEL, "an ONNX model", "`tidemark graph` prints it, `tidemark profile` measures it")        \
    X(RELAY, "a Relay module", "`tidemark graph` prints it, `tidemark profile` measures it")       \
    X(PARAMS, "the weights of a Relay module", "it goes with --params")                            \
    X(PROFILE, "a profile",                                                                        \
      "`tidemark show` prints it, `tidemark calibrate` makes encodings of it")                     \
    X(ENCODINGS, "a file of encodings", "`tidemark simulate` and `tidemark export` read it")       \
    X(LINEAGE, "a lineage", "it goes with --lineage of `tidemark link`, `graph` or `check`")       \
    X(NPY, "a NumPy array", "it goes with --data")                                                 \
    X(ZIP, "a .npz or another .zip file", "NumPy's go with --data")                                \
    X(HDF5, "an HDF5 file", "its datasets go with --data FILE.h5:/path")                           \
    X(IMAGE, "an image", "it goes with --data")                                                    \
    X(TFLITE, "a LiteRT model", "only ONNX models and Relay modules are read")

enum tmk_file_kind {
    TMK_FILE_OTHER,
#define TMK_FILE_KIND(name, is, use) TMK_FILE_##name,
    TMK_FILE_KINDS(TMK_FILE_KIND)
#undef TMK_FILE_KIND
};

/* Of a regular file's first bytes; TMK_FILE_OTHER where they do not identify it. */
enum tmk_file_kind tmk_file_kind_of(const char *bytes, size_t n);
/* The same of a file; TMK_FILE_OTHER where it can't be read, or is no regular file. */
enum tmk_file_kind tmk_file_kind(const char *path);
/* "an ONNX model"; "" for TMK_FILE_OTHER. */
const char *tmk_file_kind_text(enum tmk_file_kind kind);

/* For a reader of one kind of file that failed: where the file is of another kind, the text states
 * that instead, and what such a file is for. Returns `status`. TMK_FILE_OTHER: the reader's kind
 * has no mark of its own. */
enum tmk_status tmk_explain_file_kind(struct tmk_diag *diag, enum tmk_status status,
                                      const char *path, enum tmk_file_kind wanted);
/* The same, and then tmk_in with the path. */
enum tmk_status tmk_in_file(struct tmk_diag *diag, enum tmk_status status, const char *path,
                            enum tmk_file_kind wanted);

#endif
