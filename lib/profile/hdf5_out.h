/* SPDX-License-Identifier: Apache-2.0 */
/* Making attributes, datasets and groups of an HDF5 file: without times, so that equal contents are
 * equal bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>

#include "base/file.h"
#include "base/text.h"
#include "profile/hdf5_calls.h"
#include "profile/hdf5_table.h"

/* Writing HDF5: identifiers that are closed together, errors that stick. Built only where HDF5 is
 * there. HDF5 prints nothing between begin and end. Reading is another matter: hdf5/file.h. */

/* A session with the library. After the first failure `failed` stays, `why` has it in HDF5's words,
 * and whatever is called with an identifier that was not got fails too; so callers check once at
 * their end. */
struct tmk_h5 {
    bool failed;
    char why[200];
    hid_t kept[48];
    size_t n_kept;
    H5E_auto2_t printer;
    void *printer_data;
};

void tmk_h5_begin(struct tmk_h5 *h);
/* Keeps an identifier of any kind until its release; negative is a failure. Returns it. */
hid_t tmk_h5_keep(struct tmk_h5 *h, hid_t id);
/* Closes what was kept since h->n_kept was `mark`. */
void tmk_h5_release(struct tmk_h5 *h, size_t mark);
/* Notes a call's failure (negative). Returns !h->failed. */
bool tmk_h5_ok(struct tmk_h5 *h, herr_t result);

/* ---- a file that is made in memory and written in one go: whole or not at all ---- */

/* H5Fget_file_image spoils the checksum of newer superblocks (1.10.8); so the driver's own memory
 * is taken over when it closes the file and would free it. Zero-initialised before it opens. */
struct tmk_h5_image {
    unsigned char *bytes;
};

/* The empty file; it is not kept. Negative on failure. */
hid_t tmk_h5_image_open(struct tmk_h5 *h, struct tmk_h5_image *image);
/* Closes the file (may be negative) and the session, and appends its bytes where all went well so
 * far: `status`, and HDF5 itself. Everything else that was kept has been released. */
enum tmk_status tmk_h5_image_finish(struct tmk_h5 *h, hid_t file, struct tmk_h5_image *image,
                                    enum tmk_status status, struct tmk_outfile *out,
                                    struct tmk_diag *diag);

/* ---- attributes, datasets and groups ---- */

enum { TMK_H5_CHUNK_ELEMENTS = 16384 };

void tmk_h5_put_attribute(struct tmk_h5 *h, hid_t at, const char *name, hid_t in_file,
                          hid_t in_memory, hid_t space, const void *value);
/* Of variable length: h5py gives a str. We never read attributes. */
void tmk_h5_put_text(struct tmk_h5 *h, hid_t at, const char *name, const char *text);
void tmk_h5_put_u64(struct tmk_h5 *h, hid_t at, const char *name, uint64_t value);
/* The attributes "units" and "long_name". */
void tmk_h5_describe(struct tmk_h5 *h, hid_t dataset, const char *units, const char *about);

/* How a dataset of this size is to be stored: in chunks, shuffled and deflated, unless it is empty
 * or a scalar. Kept. */
hid_t tmk_h5_creation(struct tmk_h5 *h, int rank, const hsize_t *size, const hsize_t *chunk);

/* A one-dimensional dataset that is filled from its start. Kept by the session. */
struct tmk_h5_out {
    hid_t dataset, type; /* in memory */
    hsize_t at;
};
struct tmk_h5_out tmk_h5_new_column(struct tmk_h5 *h, hid_t parent, const char *name,
                                    enum tmk_h5_type type, hsize_t size);
/* Several of one size, described. out [n]. */
void tmk_h5_new_columns(struct tmk_h5 *h, hid_t parent, const struct tmk_h5_flat *flat, size_t n,
                        hsize_t size, struct tmk_h5_out *out);
void tmk_h5_append(struct tmk_h5 *h, struct tmk_h5_out *to, const void *values, hsize_t n);

/* The position of a walk over a table's rows: at an item, and at its part where it has several. */
struct tmk_h5_cursor {
    uint32_t item, part;
};

/* The rows of a table, walked twice: for the sizes of their texts, then to be written. */
struct tmk_h5_rows {
    const struct tmk_h5_table *table;
    const void *source;
    /* Fills the next record, which is zeroed, and moves on; false behind the last one. What it
     * points at is borrowed until the next call. */
    bool (*next)(const void *source, struct tmk_h5_cursor *cursor, void *record);
};
/* A compound dataset of them, described. *dataset (may be NULL) is kept. */
enum tmk_status tmk_h5_new_table(struct tmk_h5 *h, hid_t parent, const char *name,
                                 const char *about, const struct tmk_h5_rows *rows, hid_t *dataset,
                                 struct tmk_diag *diag);

/* The scalar dataset "header": a text of JSON. */
void tmk_h5_new_header(struct tmk_h5 *h, hid_t file, const struct tmk_text *json);

/* Kept. */
hid_t tmk_h5_new_group(struct tmk_h5 *h, hid_t parent, const char *name, const char *about);
