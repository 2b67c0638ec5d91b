/* SPDX-License-Identifier: Apache-2.0 */
/* What the families of accelerated operators share: a oneDNN primitive, and for each of its
 * arguments where the bytes come from.
 *
 * Outside, activations lie as set by tmk_accel_create, everything else row-major. Where the
 * primitive runs on another layout, the argument is reordered into scratch memory before the run,
 * the result out of it after the run. Constant operands are reordered once, when the accel is made.
 *
 * Why the bits are the same in every thread: a primitive splits its work when it is made, for the
 * number of threads that OpenMP would give it then, which tmk_kernel_enter_thread has made 1; it is
 * then shared by all threads, with scratch memory from the caller (user scratchpad), and nothing is
 * chosen by timing. */
#pragma once

#include "kernel/family.h"
#include "kernel/shim.h"
#include "ops/window.h"

enum { TMK_MAX_ARGUMENTS = 4 }; /* source, weights, bias, destination */
enum { TMK_RESULT = -1 };       /* "operand" that is output 0 */

/* One argument of a primitive. */
struct tmk_argument {
    int role;        /* DNNL_ARG_SRC ... */
    int32_t operand; /* position among the node's inputs, or TMK_RESULT */
    size_t first;    /* element of the operand with which it begins, where it is constant */
    bool moves;      /* a run takes several parts of the operand in turn: never constant */
    struct tmk_layout outside; /* how the operand's bytes lie; owned by the accel */
    /* Where it is constant, and no reorder reads `outside`: how its bytes are to lie before the
     * reorder; empty: as outside. Owned too. */
    struct tmk_layout gathered;
    tmk_md wanted;            /* how the primitive wants them; belongs to its descriptor */
    bool as_it_is;            /* in the same way, or, where it is gathered, as that is */
    dnnl_primitive_t reorder; /* of what is no constant, from the one to the other, of the result
                                 back; NULL: none is needed */
    size_t at;                /* where in the scratch memory the reordered bytes are */
    const void *constant;     /* bytes as wanted, when they are known; else NULL */
    struct tmk_pack *pack;    /* of `constant` when it is a copy */
    struct tmk_tensor source; /* of the copy, for the thread that writes it: the operand, */
    const struct tmk_dn *dn;  /* and that which has the argument */
    size_t workspace;         /* bytes that the library takes meanwhile, as far as they count */
};

struct tmk_dn {
    struct tmk_accel base; /* scratch: the primitive's own first, then reordered arguments */
    dnnl_engine_t engine;
    bool owns_engine; /* set by tmk_dn_create, once nothing can fail */
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    struct tmk_argument arguments[TMK_MAX_ARGUMENTS]; /* the result last */
    uint32_t n_arguments;
    struct tmk_dn_pool *pool; /* what runs borrow: the only thing that changes after making */
};

/* A request whose inputs that are there are float32 tensors, none of them empty, and none with more
 * bytes than an int holds, in blocks neither. */
struct tmk_dn_request {
    struct tmk_request base;
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attr; /* user scratchpad, strict float32 */
};

extern const struct tmk_family tmk_family_conv, tmk_family_conv_transpose, tmk_family_matmul,
    tmk_family_gemm, tmk_family_pool;

/* ---- making ---- */

/* *fits false, and nothing to close, unless the tensors suit oneDNN. */
enum tmk_status tmk_dn_open(const struct tmk_request *request, struct tmk_dn_request *out,
                            bool *fits);
void tmk_dn_close(struct tmk_dn_request *request);
/* `create` of families that run a primitive: calls make with an engine, unless the tensors do not
 * suit oneDNN. *dn is NULL before, and stays NULL where nothing fits. */
enum tmk_status tmk_dn_create(const struct tmk_request *request,
                              enum tmk_status (*make)(const struct tmk_dn_request *request,
                                                      struct tmk_dn **dn),
                              struct tmk_accel **out);
void tmk_dn_destroy(struct tmk_accel *accel);
enum tmk_status tmk_dn_load(struct tmk_accel *accel, struct tmk_diag *diag);
void tmk_dn_unload(struct tmk_accel *accel);

/* TMK_OK for success and where merely no implementation fits (*fits false then); otherwise a
 * failure, with text. */
enum tmk_status tmk_dn_fits(dnnl_status_t status, bool *fits, struct tmk_diag *diag);

/* True unless the implementation is one of oneDNN's unoptimised ones, slower than the plain
 * kernels. */
bool tmk_dn_fast(dnnl_primitive_desc_t desc);

/* Makes a primitive, where there is room for it. */
dnnl_status_t tmk_dn_primitive(dnnl_primitive_t *out, const_dnnl_primitive_desc_t desc);
/* How bytes lie that the argument's reorder reads, or, of a result, writes. */
tmk_md tmk_dn_reordered(const struct tmk_argument *argument);
/* Brings a constant operand into the layout wanted. Its own bytes serve where they lie well.
 * *fits false where there is no reorder for that. */
enum tmk_status tmk_dn_settle(const struct tmk_dn_request *request, struct tmk_dn *dn,
                              struct tmk_argument *argument, const struct tmk_tensor *operand,
                              bool *fits);

/* Block of a form: 0 row-major, TMK_ANY: what oneDNN likes best, else as many channels. */
enum { TMK_ANY = -1 };
/* Rank 4 or 5 where it is blocked. dnnl_unimplemented for blocks that oneDNN does not have. */
dnnl_status_t tmk_layout_form(struct tmk_layout *layout, int rank, const dnnl_dims_t dims,
                              int32_t block);

/* Makes an accel of `size` bytes (a struct that begins with struct tmk_dn; the rest is zero)
 * from a descriptor and its arguments (role, operand, first, moves and outside are set). Takes the
 * descriptor and the arguments' layouts over, on failure too. Leaves *out alone when a reorder that
 * is needed does not exist. */
enum tmk_status tmk_dn_build(const struct tmk_dn_request *request, size_t size,
                             dnnl_primitive_desc_t desc, struct tmk_argument *arguments, uint32_t n,
                             struct tmk_dn **out);

/* ---- windows ---- */

/* A window over 1 to 3 spatial axes in oneDNN's terms. One axis becomes two, the first of one
 * element. */
struct tmk_spatial {
    int rank; /* 2 or 3 */
    dnnl_dims_t in, out;
    struct tmk_sliding sliding;
};
/* False where oneDNN has no such window, or might: its code counts in ints, and attributes may be
 * hostile. */
bool tmk_spatial_of(const struct tmk_window *window, struct tmk_spatial *out);
/* dims of [batch, channels, in or out...]; returns the rank. */
int tmk_spatial_dims(const struct tmk_spatial *spatial, int64_t batch, int64_t channels,
                     const dnnl_dims_t axes, dnnl_dims_t dims);

/* Conv or ConvTranspose: weights' dims and strides are oneDNN's, with a leading group axis where
 * there are several groups. */
struct tmk_convolution {
    struct tmk_spatial spatial;
    bool transposed;
    int64_t batch, in, out, group; /* channels are those of all groups */
    int weights_rank;
    dnnl_dims_t weights, weight_strides;
    /* Layouts for row-major tensors, best first (as of tmk_layout_form). The first that has a fast
     * implementation is made. */
    struct tmk_candidate {
        int32_t src, dst;
    } candidates[4];
    uint32_t n_candidates;
};
/* What a node is; *fits false where oneDNN has no such thing. */
typedef enum tmk_status tmk_convolution_read(const struct tmk_request *request,
                                             struct tmk_convolution *out, bool *fits);
enum tmk_status tmk_convolution_run(const struct tmk_accel *accel,
                                    const struct tmk_tensor *const *in,
                                    struct tmk_tensor *const *out, void *scratch,
                                    struct tmk_diag *diag);

bool tmk_all_finite(const float *x, size_t n);
/* Conv by Winograd's algorithm; leaves *out alone where it does not suit. */
enum tmk_status tmk_winograd_create(const struct tmk_request *request, tmk_convolution_read *read,
                                    struct tmk_accel **out);
/* Conv in any case directly: `create` of its family but for Winograd. */
enum tmk_status tmk_conv_create_direct(const struct tmk_request *request, struct tmk_accel **out);

/* ---- running ---- */

/* A status of something that was run. */
enum tmk_status tmk_dn_ran(dnnl_status_t status, struct tmk_diag *diag);
/* When everything else of the accel has been made; before any of it is destroyed. */
enum tmk_status tmk_dn_pool_create(const struct tmk_dn *dn, struct tmk_dn_pool **out,
                                   struct tmk_diag *diag);
/* NULL is allowed. */
void tmk_dn_pool_destroy(struct tmk_dn_pool *pool);

/* Parts of a run, so that benchmarks can time each. */
enum tmk_dn_part { TMK_PART_IN = 1, TMK_PART_PRIMITIVE = 2, TMK_PART_OUT = 4, TMK_PART_ALL = 7 };

/* Runs the primitive once; data[i] are the bytes of argument i (ignored where it is constant). */
enum tmk_status tmk_dn_execute(const struct tmk_dn *dn, void *const *data, void *scratch,
                               unsigned parts, struct tmk_diag *diag);
/* The same on the node's operands, all parts: `run` of families that need no more. */
enum tmk_status tmk_dn_run_once(const struct tmk_accel *accel, const struct tmk_tensor *const *in,
                                struct tmk_tensor *const *out, void *scratch,
                                struct tmk_diag *diag);
