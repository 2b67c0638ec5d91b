/* SPDX-License-Identifier: Apache-2.0 */
/* Writing HDF5: identifiers that are closed together, errors that stick. Built only where HDF5 is
 * there. HDF5 prints nothing between begin and end. Reading is another matter: hdf5/file.h. */
#ifndef TMK_PROFILE_HDF5_H
#define TMK_PROFILE_HDF5_H

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>

#include "base/file.h"
#include "profile/hdf5_table.h"

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

/* The compound type of a table: a row in memory, or packed and little-endian in the file. Kept. */
hid_t tmk_h5_layout_type(struct tmk_h5 *h, const struct tmk_h5_layout *layout, bool in_file);
/* A type of numbers; not kept. */
hid_t tmk_h5_number_type(enum tmk_h5_type type, bool in_file);
/* UTF-8 of a fixed length > 0, zero-padded in the file or terminated in memory. Kept. */
hid_t tmk_h5_text_type(struct tmk_h5 *h, size_t size, bool in_file);

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
TMK_NODISCARD enum tmk_status tmk_h5_image_finish(struct tmk_h5 *h, hid_t file,
                                                  struct tmk_h5_image *image,
                                                  enum tmk_status status, struct tmk_outfile *out,
                                                  struct tmk_diag *diag);

#endif
