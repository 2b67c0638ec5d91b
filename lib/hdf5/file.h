/* SPDX-License-Identifier: Apache-2.0 */
/* Reading untrusted HDF5 files.
 *
 * The HDF5 library crashes, loops or writes out of bounds on some damaged files (docs/fuzzing.md),
 * and they cannot be recognized outside of it. So a helper program reads each (sandbox/helper.h),
 * with what the memory limit leaves, within bounds. What it answers is as hostile as the file:
 * sizes and kinds are checked where they arrive, numbers by the caller that requested them. This
 * process reads no file with the library; it still writes with it.
 *
 * A file is used by one thread at a time, by the process that opened it; different files by
 * different threads. Errors do not name the file: callers put its path in front. They are
 * TMK_FORMAT where HDF5 refused something, in HDF5's words, TMK_LIMIT where that was for want of
 * memory under a limit, TMK_READ where the file cannot be read or its process died of it,
 * TMK_MACHINE where there is no process to be had, TMK_UNSUPPORTED in a build without HDF5. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>

#include "base/file.h"

struct tmk_hdf5;

enum tmk_status tmk_hdf5_open(const char *path, struct tmk_hdf5 **out, struct tmk_diag *diag);
/* NULL is allowed. Waits for the process. */
void tmk_hdf5_close(struct tmk_hdf5 **file);
/* The file's own bytes, to see whether they are still there (tmk_infile_check). Borrowed. */
const struct tmk_infile *tmk_hdf5_bytes(const struct tmk_hdf5 *file);

/* ---- what there is ---- */

enum tmk_hdf5_kind {
    TMK_HDF5_NOTHING,
    TMK_HDF5_GROUP,
    TMK_HDF5_DATASET,
    TMK_HDF5_OTHER, /* a named type, or a link that leads nowhere */
    TMK_HDF5_N_KINDS,
};

/* What stands at a path ("/a/b"). *linked (may be NULL): a link on the way is soft or leads into
 * another file. */
enum tmk_status tmk_hdf5_look(struct tmk_hdf5 *file, const char *path, enum tmk_hdf5_kind *out,
                              bool *linked, struct tmk_diag *diag);

struct tmk_hdf5_member {
    const char *name;
    enum tmk_hdf5_kind kind;
    bool linked;
};
/* A group's members, in order of their names' bytes. One block, to free(). */
enum tmk_status tmk_hdf5_list(struct tmk_hdf5 *file, const char *path, struct tmk_hdf5_member **out,
                              uint32_t *n, struct tmk_diag *diag);

/* An attribute that is one text, cut to fit. false: there is none, or it is something else. */
enum tmk_status tmk_hdf5_text(struct tmk_hdf5 *file, const char *path, const char *attribute,
                              char *out, size_t size, bool *found, struct tmk_diag *diag);

/* ---- datasets ---- */

enum tmk_hdf5_class {
    TMK_HDF5_NONE, /* a column that is not there */
    TMK_HDF5_INTEGER,
    TMK_HDF5_FLOAT,
    TMK_HDF5_BOOL,  /* h5py's: an enum of FALSE and TRUE in one byte */
    TMK_HDF5_FIXED, /* text of a fixed length */
    TMK_HDF5_TABLE, /* rows of columns */
    TMK_HDF5_ELSE,
    TMK_HDF5_N_CLASSES,
};

/* A type in the file. */
struct tmk_hdf5_element {
    enum tmk_hdf5_class is;
    bool is_signed;         /* an integer */
    uint32_t exponent_bits; /* of a float */
    size_t size;            /* bytes, > 0 but for NONE */
};

/* What elements are read as: numbers in the machine's own order. */
enum tmk_hdf5_as {
    TMK_HDF5_I8,
    TMK_HDF5_I16,
    TMK_HDF5_I32,
    TMK_HDF5_I64,
    TMK_HDF5_U8,
    TMK_HDF5_U16,
    TMK_HDF5_U32,
    TMK_HDF5_U64,
    TMK_HDF5_F32,
    TMK_HDF5_F64,
    TMK_HDF5_BYTE,  /* of a bool */
    TMK_HDF5_CHARS, /* text, zero-padded, cut so that a zero ends it */
    TMK_HDF5_N_AS,
};

enum { TMK_HDF5_MAX_RANK = 32, TMK_HDF5_MAX_ELEMENT = 1 << 26 /* bytes, in memory */ };

/* An open dataset. It goes with the file, or with tmk_hdf5_shut. */
struct tmk_hdf5_dataset {
    struct tmk_hdf5_element element;
    int rank;
    uint64_t dim[TMK_HDF5_MAX_RANK];
    uint64_t chunk[TMK_HDF5_MAX_RANK]; /* 0: not stored in chunks */
    uint64_t stored;                   /* bytes in the file */
    uint64_t address;                  /* of its one block of bytes; UINT64_MAX: it has none */
    bool compact;                      /* inside the object's header */
    bool filtered;                     /* compressed, say */
    /* Of the layer. */
    uint32_t number;
    size_t size;   /* of an element in memory; 0: no type to read it as was set */
    bool direct;   /* its bytes are the elements as they are wanted */
    uint64_t next; /* the entry behind the last that was read */
};

enum tmk_status tmk_hdf5_dataset_open(struct tmk_hdf5 *file, const char *path,
                                      struct tmk_hdf5_dataset *out, struct tmk_diag *diag);
enum tmk_status tmk_hdf5_shut(struct tmk_hdf5 *file, struct tmk_hdf5_dataset *set,
                              struct tmk_diag *diag);

/* The types of a table's columns of these names. out [n]. */
enum tmk_status tmk_hdf5_columns(struct tmk_hdf5 *file, const struct tmk_hdf5_dataset *set,
                                 const char *const *names, uint32_t n, struct tmk_hdf5_element *out,
                                 struct tmk_diag *diag);

/* As what elements are read; `chars` are the bytes of CHARS. */
enum tmk_status tmk_hdf5_read_as(struct tmk_hdf5 *file, struct tmk_hdf5_dataset *set,
                                 enum tmk_hdf5_as as, size_t chars, struct tmk_diag *diag);

struct tmk_hdf5_field {
    const char *name; /* of the column */
    enum tmk_hdf5_as as;
    size_t chars, at; /* where it goes in a row */
};
/* Rows of so many bytes; what no field covers is 0. */
enum tmk_status tmk_hdf5_rows_as(struct tmk_hdf5 *file, struct tmk_hdf5_dataset *set,
                                 const struct tmk_hdf5_field *fields, uint32_t n, size_t row,
                                 struct tmk_diag *diag);

/* Bytes of `count` entries along the first axis, as they are read; a scalar is one entry. false:
 * more than memory can hold. */
bool tmk_hdf5_size(const struct tmk_hdf5_dataset *set, uint64_t count, size_t *out);

/* Entries [first, first + count) into `to`, which holds tmk_hdf5_size. TMK_RANGE where there are
 * not so many. */
enum tmk_status tmk_hdf5_read(struct tmk_hdf5 *file, struct tmk_hdf5_dataset *set, uint64_t first,
                              uint64_t count, void *to, struct tmk_diag *diag);
