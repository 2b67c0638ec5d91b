/* SPDX-License-Identifier: Apache-2.0 */
/* Files: read by mapping, written whole or not at all, and never in the place of one that was read
 * (base/inputs.h). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/inputs.h"

/* "PATH: cannot be read: " and what errno says: TMK_READ, or TMK_MACHINE where it is not the file's
 * fault (too many are open, no memory). */
enum tmk_status tmk_cannot_read(struct tmk_diag *diag, const char *path);

/* Maps a regular file read-only. An empty file gives an empty buf. TMK_READ names the path and the
 * reason; TMK_MACHINE where the process has too many files open, or no memory. */
enum tmk_status tmk_file_map(const char *path, struct tmk_buf **out, struct tmk_diag *diag);

/* A regular file that is read piece by piece: unlike a mapping, pieces do not stay in memory, and a
 * file that shrinks meanwhile is an error instead of a signal. Reading is thread-safe. */
struct tmk_infile {
    int fd; /* -1: none */
    uint64_t size;
    struct tmk_input input;
};
/* `path` is only read during the call. */
enum tmk_status tmk_infile_open(const char *path, struct tmk_infile *out, struct tmk_diag *diag);
/* Exactly `len` bytes from `offset`; TMK_READ when they are missing. The caller names the path. */
enum tmk_status tmk_infile_read(const struct tmk_infile *file, uint64_t offset, void *bytes,
                                size_t len, struct tmk_diag *diag);
/* TMK_READ where the file is shorter now than when it was opened: for readers of our files that
 * take what is missing for zeros. The caller names the path. */
enum tmk_status tmk_infile_check(const struct tmk_infile *file, struct tmk_diag *diag);
/* Harmless on one that was never opened (fd -1). */
void tmk_infile_close(struct tmk_infile *file);

/* SHA-256 of a file's bytes, in hex. */
enum tmk_status tmk_file_sha256(const char *path, char hex[TMK_SHA256_HEX], struct tmk_diag *diag);
/* XXH3 of 128 bits, in hex. TMK_INTERRUPTED once *stop is true (NULL: never). */
enum tmk_status tmk_file_hash128(const char *path, const atomic_bool *stop,
                                 char hex[TMK_HASH128_HEX], struct tmk_diag *diag);

/* A file that appears whole or not at all: its bytes lie in the same folder without a name, or
 * where the file system has no such files under one that begins with TMK_TEMPORARY, until commit
 * flushes them to the disk and puts them in the place of `path`. So nothing is left of a process
 * that dies, except in a window of microseconds or on such a file system; what is left is removed
 * by the next process that commits to the same folder a day later.
 *
 * A file that was there keeps its permissions. A symbolic link stays, and what it leads to is
 * written. FIFOs, devices and the process's own descriptors (/dev/stdout) are written as the bytes
 * come. */
#define TMK_TEMPORARY ".tidemark-"
enum { TMK_TEMPORARY_SIZE = sizeof TMK_TEMPORARY + 12 };
struct tmk_outfile {
    char *path;                         /* as it was given; owned; NULL: none, or it has ended */
    char *name;                         /* what it will be called in `folder`; owned */
    char temporary[TMK_TEMPORARY_SIZE]; /* what it is called there meanwhile; "": nothing */
    int fd, folder;                     /* -1: none */
};

/* On success end with commit or abort. TMK_ARGUMENT: the file is an input. */
enum tmk_status tmk_outfile_begin(const char *path, struct tmk_outfile *out, struct tmk_diag *diag);
/* Appends; TMK_WRITE (a full disk) leaves the caller to abort. */
enum tmk_status tmk_outfile_write(struct tmk_outfile *out, const void *bytes, size_t len,
                                  struct tmk_diag *diag);
/* On failure nothing is left behind. Ends the outfile either way. */
enum tmk_status tmk_outfile_commit(struct tmk_outfile *out, struct tmk_diag *diag);
/* The same of files that belong together: all are put in their places, or none; where the file
 * system can't take back what is done, the text states which were. */
enum tmk_status tmk_outfiles_commit(struct tmk_outfile *files, size_t n, struct tmk_diag *diag);
/* Harmless on a zeroed or ended outfile. */
void tmk_outfile_abort(struct tmk_outfile *out);

/* Could it be written? Checked before a long run. */
enum tmk_status tmk_outfile_check(const char *path, struct tmk_diag *diag);
/* TMK_ARGUMENT where the name ends as files of another format do; as of tmk_can_write. Names
 * without an ending, or with one of no format, are good. */
enum tmk_status tmk_check_ending(const char *path, const char *endings, struct tmk_diag *diag);
/* Is it there, and no regular file: a FIFO, a device, /dev/stdout? */
bool tmk_path_is_stream(const char *path);

/* begin, write, commit in one. */
enum tmk_status tmk_file_write(const char *path, const void *bytes, size_t len,
                               struct tmk_diag *diag);
struct tmk_file_content {
    const char *path;
    const void *bytes;
    size_t len;
};
/* The same of files that belong together. */
enum tmk_status tmk_files_write(const struct tmk_file_content *files, size_t n,
                                struct tmk_diag *diag);

/* What a file is, by its first bytes: for messages about files that are something else than was
 * asked for. */

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
    X(TORCH, "a PyTorch file", "`torch.onnx.export(model, inputs, FILE)` writes an ONNX model")    \
    X(HDF5, "an HDF5 file", "its datasets go with --data FILE.h5:/path")                           \
    X(IMAGE, "an image", "it goes with --data")                                                    \
    X(TFLITE, "a LiteRT model", "only ONNX models and Relay modules are read")                     \
    X(TENSORFLOW, "a TensorFlow model", "`python3 -m tf2onnx.convert` writes an ONNX model")       \
    X(OPENVINO, "an OpenVINO model", "only ONNX models and Relay modules are read")                \
    X(WEIGHTS, "a file of weights without a network",                                              \
      "export the network that they are of to ONNX")                                               \
    X(PICKLE, "a pickle of Python", "pickles are programs, and are not read")                      \
    X(POINTER, "a pointer of Git LFS", "`git lfs pull` fetches the file that it stands for")       \
    X(HTML, "a page of HTML", "the download gave a page about the file, and not the file")

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
