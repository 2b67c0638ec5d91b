/* SPDX-License-Identifier: Apache-2.0 */
/* What the families of accelerated operators share: a oneDNN primitive, and for each of its
 * arguments where the bytes come from.
 *
 * Activations are plain row-major tensors outside. Where the primitive runs on another layout, the
 * argument is reordered into scratch memory before the run, the result out of it after the run.
 * Constant operands are reordered once, when the accel is made.
 *
 * Why the bits are the same in every thread: a primitive splits its work when it is made, for the
 * number of threads that OpenMP would give it then, which tmk_kernel_enter_thread has made 1; it is
 * then shared by all threads, with scratch memory from the caller (user scratchpad), and nothing is
 * chosen by timing.
 */
#ifndef TMK_KERNEL_ONEDNN_H
#define TMK_KERNEL_ONEDNN_H

#include "base/diag.h"
#include "base/size.h"
#include "kernel/accel.h"
#include "kernel/shim.h"
#include "ops/window.h"

enum { TMK_MAX_ARGUMENTS = 4 }; /* source, weights, bias, destination */
enum { TMK_RESULT = -1 };       /* "operand" that is output 0 */

/* One argument of a primitive. */
struct tmk_argument {
    int role;                 /* DNNL_ARG_SRC ... */
    int32_t operand;          /* position among the node's inputs, or TMK_RESULT */
    bool moves;               /* a run takes several parts of the operand in turn: never constant */
    struct tmk_layout plain;  /* how the operand's bytes lie; owned by the accel */
    tmk_md wanted;            /* how the primitive wants them; belongs to its descriptor */
    dnnl_primitive_t reorder; /* from the one to the other (of the result: back); NULL: the same */
    size_t at;                /* where in the scratch memory the reordered bytes are */
    const void *constant;     /* bytes as wanted, when they are known; else NULL */
    void *owned;              /* `constant` when it is a copy */
};

struct tmk_accel {
    const struct tmk_family *family;
    const struct tmk_node *node;
    dnnl_engine_t engine;
    bool owns_engine; /* set by tmk_accel_create, once nothing can fail */
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    struct tmk_argument arguments[TMK_MAX_ARGUMENTS]; /* the result last */
    uint32_t n_arguments;
    size_t scratch; /* the primitive's own at its beginning, then reordered arguments */
    char name[64];
};

/* What tmk_accel_create was asked for. Inputs that are there are float32 tensors; nothing is empty,
 * and no tensor has more bytes than an int holds. */
struct tmk_request {
    const struct tmk_family *family;
    const struct tmk_node *node;
    const struct tmk_tensor *const *in;
    const struct tmk_shape *result;
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attr; /* user scratchpad, strict float32 */
    struct tmk_diag *diag;
};

/* Operators that are prepared and run alike; one const struct a file, named in accel.c. */
struct tmk_family {
    /* By operator name, in ONNX's own domain. */
    bool (*matches)(const struct tmk_node *node);
    /* Leaves *out alone where nothing fits. */
    enum tmk_status (*create)(const struct tmk_request *request, struct tmk_accel **out);
    /* As tmk_accel_run. */
    enum tmk_status (*run)(const struct tmk_accel *accel, const struct tmk_tensor *const *in,
                           struct tmk_tensor *const *out, void *scratch, struct tmk_diag *diag);
};
extern const struct tmk_family tmk_family_conv, tmk_family_conv_transpose, tmk_family_matmul,
    tmk_family_gemm, tmk_family_pool;

/* ---- making ---- */

/* TMK_OK for success and for what only says that nothing fits (*fits false then); otherwise a
 * failure, with text. */
TMK_NODISCARD enum tmk_status tmk_dn_fits(dnnl_status_t status, bool *fits, struct tmk_diag *diag);

/* True unless the implementation is one of oneDNN's unoptimised ones, slower than the plain
 * kernels. */
bool tmk_dn_fast(dnnl_primitive_desc_t desc);

/* Which layout a candidate asks for. BLOCKED has as many channels together as a vector has floats
 * (16 with AVX-512, 8 otherwise): cheap to reorder to. ANY is what oneDNN likes best. */
enum tmk_form { TMK_FORM_PLAIN, TMK_FORM_BLOCKED, TMK_FORM_ANY };
/* Rank 4 or 5 where the form is BLOCKED. */
dnnl_status_t tmk_layout_form(struct tmk_layout *layout, int rank, const dnnl_dims_t dims,
                              enum tmk_form form);

/* Makes an accel of `size` bytes (a struct that begins with struct tmk_accel; the rest is zero)
 * from a descriptor and its arguments (role, operand, moves and plain are set). Takes the
 * descriptor and the arguments' layouts over, on failure too. Leaves *out alone when a reorder that
 * is needed does not exist. */
TMK_NODISCARD enum tmk_status tmk_accel_build(const struct tmk_request *request, size_t size,
                                              dnnl_primitive_desc_t desc,
                                              struct tmk_argument *arguments, uint32_t n,
                                              struct tmk_accel **out);

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

/* The descriptor and layouts of Conv and ConvTranspose: weights' dims and strides are oneDNN's,
 * with a leading group axis where weights_rank says so. Tries the candidates in order; the first
 * that has a fast implementation is made. */
struct tmk_convolution {
    struct tmk_spatial spatial;
    bool transposed;
    int64_t batch, in, out; /* channels, of all groups */
    int weights_rank;
    dnnl_dims_t weights, weight_strides;
    struct tmk_candidate {
        enum tmk_form src, dst;
    } candidates[4];
    uint32_t n_candidates;
};
TMK_NODISCARD enum tmk_status tmk_convolution_create(const struct tmk_request *request,
                                                     const struct tmk_convolution *convolution,
                                                     struct tmk_accel **out);

/* ---- running ---- */

/* Parts of a run, so that benchmarks can time each. */
enum tmk_part { TMK_PART_IN = 1, TMK_PART_PRIMITIVE = 2, TMK_PART_OUT = 4, TMK_PART_ALL = 7 };

/* Runs the primitive once; data[i] are the bytes of argument i (ignored where it is constant). */
TMK_NODISCARD enum tmk_status tmk_accel_execute(const struct tmk_accel *accel, void *const *data,
                                                void *scratch, unsigned parts,
                                                struct tmk_diag *diag);
/* The same on the node's operands, all parts: `run` of families that need no more. */
TMK_NODISCARD enum tmk_status tmk_accel_run_once(const struct tmk_accel *accel,
                                                 const struct tmk_tensor *const *in,
                                                 struct tmk_tensor *const *out, void *scratch,
                                                 struct tmk_diag *diag);

#endif
