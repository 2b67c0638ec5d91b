/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that stand for a value when models are compared: a few of each batch, at positions that
 * depend on its size only, so that equal values have equal signatures wherever they come from. */
#ifndef TMK_LINK_SIGNATURE_H
#define TMK_LINK_SIGNATURE_H

#include <tidemark/session.h>

/* A batch as a matrix of rows and channels; some rows are kept whole. */
struct tmk_link_matrix {
    size_t rows, channels; /* of a batch; channels 0: nothing is kept */
    uint32_t kept;         /* rows a batch */
    float *x;              /* [batch][kept][channels] */
};

/* Where the channels are. */
enum tmk_link_layout { TMK_LINK_CHANNELS_FIRST, TMK_LINK_CHANNELS_LAST, TMK_LINK_LAYOUTS };

struct tmk_signature {
    uint32_t batches; /* 0: never seen */
    bool uneven; /* its shape changed, or it was seen twice in a batch: there is nothing here */
    enum tmk_dtype dtype;
    struct tmk_shape shape; /* of a batch */
    size_t count;
    uint64_t hash; /* of all bytes of all batches */
    /* float32 only: */
    uint32_t n_flat;
    float *flat; /* [batch][n_flat]: elements in row-major order */
    /* Axis 1 and the last one; one of the two where they are the same. */
    struct tmk_link_matrix by[TMK_LINK_LAYOUTS];
};

struct tmk_signatures {
    struct tmk_signature *all; /* [profile ID] */
    uint32_t n;
    uint32_t batches; /* that ran, and are in */
    uint32_t most;    /* batches that there is space for */
};

TMK_NODISCARD enum tmk_status tmk_signatures_init(struct tmk_signatures *s, uint32_t n,
                                                  uint32_t most_batches, struct tmk_diag *diag);
void tmk_signatures_finish(struct tmk_signatures *s);
/* Batches come in order, from 0 on. A tensor of no elements leaves nothing. */
TMK_NODISCARD enum tmk_status tmk_signature_add(struct tmk_signatures *s, uint32_t id,
                                                uint32_t batch, const struct tmk_tensor *tensor,
                                                struct tmk_diag *diag);

#endif
