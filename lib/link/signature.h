/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that stand for a value when models are compared: a few of each batch, at positions that
 * depend on its size only, so that equal values have equal signatures wherever they come from. */
#pragma once

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

enum tmk_status tmk_signatures_init(struct tmk_signatures *s, uint32_t n, uint32_t most_batches,
                                    struct tmk_diag *diag);
void tmk_signatures_finish(struct tmk_signatures *s);
/* Batches come in order, from 0 on. A tensor of no elements leaves nothing. */
enum tmk_status tmk_signature_add(struct tmk_signatures *s, uint32_t id, uint32_t batch,
                                  const struct tmk_tensor *tensor, struct tmk_diag *diag);

/* How the numbers of two signatures are related. Pure. */

/* Of the range: up to here numbers are the same, computed in another way. */
#define TMK_LINK_TOLERANCE 1e-4

/* The largest |x - y| of n numbers, of the range of x. False: they are not the same numbers, or x
 * is constant, which matches anything. */
bool tmk_link_same(const float *x, const float *y, size_t n, double *residual);

/* As tmk_link_same where numbers were rounded to narrow types on the way: *residual is the root
 * mean square of x - y, of the standard deviation of x, and at most `tolerance`. */
bool tmk_link_near(const float *x, const float *y, size_t n, double tolerance, double *residual);

/* y = scale * x + shift. */
struct tmk_link_fit {
    uint32_t n; /* 1: all channels alike */
    double *scale, *shift;
    bool *seen;      /* x varies there */
    double residual; /* the largest, of the range of its channel */
    uint64_t points;
    bool lost; /* a channel of y is constant where x is not */
};
/* Least squares, channel by channel, over so many batches. TMK_NOTFOUND, without a text in diag:
 * it does not fit in every channel, there are too few points for two unknowns, or in less than half
 * of the channels there is anything to be seen, or y is x but for a thousandth. Channels of which
 * nothing is to be seen have scale 1, as good as any other if they never vary. On success end with
 * tmk_link_fit_finish. */
enum tmk_status tmk_link_fit(const struct tmk_link_matrix *x, const struct tmk_link_matrix *y,
                             uint32_t batches, struct tmk_link_fit *out, struct tmk_diag *diag);
void tmk_link_fit_finish(struct tmk_link_fit *fit);
