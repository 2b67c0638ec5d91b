/* SPDX-License-Identifier: Apache-2.0 */
/* Conv, FusedConv without Z, and what ConvTranspose shares with them.
 *
 * Blocks are taken and given as they are wherever oneDNN has a fast kernel for them. Layouts of
 * row-major tensors are chosen by shape, as measured with AVX2 and AVX-512 on the layers of
 * ResNet-50 and MobileNetV2 (tests/bench/bench_kernel.c); the first rule that fits holds:
 *
 * - 1x1 in one group, without stride or padding, on 128 places or more: plain. It is a matrix
 *   product of the bytes as they lie; reordering costs more than the blocked kernel gains. On fewer
 *   places the product is too narrow.
 * - up to 4 input channels in one group: source plain, result blocked. A blocked source would be
 *   mostly filling.
 * - depthwise, and any other 1x1: blocked. With AVX-512 oneDNN by itself takes channels last, which
 *   takes five times as long to reorder to.
 * - all others: what oneDNN likes best.
 *
 * Where the choice has no fast implementation, the others are tried. */
#include <math.h>
#include <string.h>

#include "kernel/chain.h"
#include "kernel/onednn.h"
#include "kernel/simd.h"
#include "ops/activation.h"
#include "ops/contrib.h"
#include "tensor/elements.h"

enum { FEW_CHANNELS = 4 };

static bool is_fused(const struct tmk_node *node) {
    return tmk_node_is(node, TMK_DOMAIN_MICROSOFT, "FusedConv");
}

/* With a Z to add, FusedConv is left to the plain kernel. */
static bool matches_conv(const struct tmk_node *node) {
    return tmk_node_is(node, TMK_DOMAIN_ONNX, "Conv") ||
           (is_fused(node) && (node->n_inputs < 4 || !node->inputs[3]));
}

static void clip_row(size_t n, const void *px, void *py, const float *p) {
    const float *x = px;
    float *y = py;
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] < p[0] ? p[0] : x[i] > p[1] ? p[1] : x[i];
}

/* NULL: none. The node is valid. */
static tmk_row1 activation_of(const struct tmk_node *node) {
    const char *name = is_fused(node) ? tmk_node_string(node, "activation", "") : "";
    if (!name[0])
        return NULL;
    return strcmp(name, "Clip") == 0 ? clip_row : tmk_activation_find(name)->row[TMK_FLOAT32];
}

struct convolved {
    struct tmk_dn dn;
    /* The result; lanes: of the last block that are channels, 0: all. Row-major is block 1. */
    size_t batch, blocks, places, block, lanes;
    tmk_row1 activation; /* of FusedConv; NULL: none */
    const float *params;
};

static int dims_of(const struct tmk_convolution *c, dnnl_dims_t src, dnnl_dims_t dst) {
    tmk_spatial_dims(&c->spatial, c->batch, c->out, c->spatial.out, dst);
    return tmk_spatial_dims(&c->spatial, c->batch, c->in, c->spatial.in, src);
}

static dnnl_status_t describe_conv(const struct tmk_dn_request *r, const struct tmk_convolution *c,
                                   const struct tmk_candidate *candidate,
                                   struct tmk_layout *weights, struct tmk_layout *bias,
                                   dnnl_primitive_desc_t *out) {
    struct tmk_layout src = {0}, dst = {0};
    dnnl_dims_t src_dims, dst_dims;
    int rank = dims_of(c, src_dims, dst_dims);
    dnnl_status_t status = tmk_layout_form(&src, rank, src_dims, candidate->src);
    if (status == dnnl_success)
        status = tmk_layout_form(&dst, rank, dst_dims, candidate->dst);
    if (status == dnnl_success) {
        struct tmk_operands operands = {&src, weights, bias, &dst};
        status = tmk_desc_convolution(r->engine, r->attr, &operands, &c->spatial.sliding,
                                      c->transposed, out);
    }
    tmk_layout_finish(&src);
    tmk_layout_finish(&dst);
    return status;
}

static bool has_bias(const struct tmk_request *r) {
    return r->node->n_inputs > 2 && r->in[2];
}

/* The first candidate with a fast implementation. */
static enum tmk_status choose_candidate(const struct tmk_dn_request *r,
                                        const struct tmk_convolution *c,
                                        const struct tmk_candidate *candidates, uint32_t n,
                                        dnnl_primitive_desc_t *out, bool *found) {
    struct tmk_layout weights = {0}, bias = {0};
    dnnl_dims_t bias_dims = {c->out};
    bool fits, add = has_bias(&r->base);
    enum tmk_status status =
        tmk_dn_fits(tmk_layout_tag(&weights, c->weights_rank, c->weights, dnnl_format_tag_any),
                    &fits, r->base.diag);
    if (status == TMK_OK && fits && add)
        status = tmk_dn_fits(tmk_layout_tag(&bias, 1, bias_dims, dnnl_x), &fits, r->base.diag);
    *found = false;
    for (uint32_t i = 0; status == TMK_OK && fits && i < n && !*found; i++) {
        dnnl_primitive_desc_t desc = NULL;
        bool made;
        status =
            tmk_dn_fits(describe_conv(r, c, &candidates[i], &weights, add ? &bias : NULL, &desc),
                        &made, r->base.diag);
        if (status != TMK_OK || !made)
            continue;
        *found = tmk_dn_fast(desc);
        if (*found)
            *out = desc;
        else
            dnnl_primitive_desc_destroy(desc);
    }
    tmk_layout_finish(&weights);
    tmk_layout_finish(&bias);
    return status;
}

/* Has the candidate a fast implementation? */
static enum tmk_status find_fast(const struct tmk_dn_request *r, const struct tmk_convolution *c,
                                 int32_t src, int32_t dst, bool *fast) {
    const struct tmk_candidate candidate = {src, dst};
    dnnl_primitive_desc_t desc = NULL;
    TMK_TRY(choose_candidate(r, c, &candidate, 1, &desc, fast));
    if (*fast)
        dnnl_primitive_desc_destroy(desc);
    return TMK_OK;
}

/* Has it one of a source that is not row-major, whichever oneDNN likes best? */
static enum tmk_status find_blocked(const struct tmk_dn_request *r, const struct tmk_convolution *c,
                                    bool *blocked) {
    static const struct tmk_candidate any = {TMK_ANY, TMK_ANY};
    dnnl_primitive_desc_t desc = NULL;
    dnnl_dims_t src_dims, dst_dims;
    struct tmk_layout src = {0};
    int rank = dims_of(c, src_dims, dst_dims);
    TMK_TRY(choose_candidate(r, c, &any, 1, &desc, blocked));
    if (!*blocked)
        return TMK_OK;
    enum tmk_status status =
        tmk_dn_fits(tmk_layout_form(&src, rank, src_dims, 0), blocked, r->base.diag);
    if (*blocked)
        *blocked = !dnnl_memory_desc_equal(
            tmk_layout_md(&src), dnnl_primitive_desc_query_md(desc, dnnl_query_src_md, 0));
    tmk_layout_finish(&src);
    dnnl_primitive_desc_destroy(desc);
    return status;
}

static int64_t count_places(const dnnl_dims_t axes, int rank) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= axes[i];
    return n;
}

static void note_result(struct convolved *convolved, const struct tmk_convolution *c,
                        uint32_t block) {
    const struct tmk_node *node = convolved->dn.base.node;
    size_t n;
    convolved->batch = (size_t)c->batch;
    convolved->blocks = ((size_t)c->out + block - 1) / block;
    convolved->places = (size_t)count_places(c->spatial.out, c->spatial.rank);
    convolved->block = block;
    convolved->lanes = (size_t)c->out % block;
    convolved->activation = activation_of(node);
    convolved->params = tmk_node_floats(node, "activation_params", &n);
}

/* oneDNN fills up with sums over weights of 0, and they are NaN where the source is not finite; in
 * all lanes that are no channel alike. Activations make of 0 what they like. */
static void mend_filling(const struct convolved *c, float *y) {
    for (size_t n = 0; n < c->batch; n++) {
        float *place = y + ((n + 1) * c->blocks - 1) * c->places * c->block + c->lanes;
        for (size_t i = 0; i < c->places; i++, place += c->block)
            if (*place != 0 || signbit(*place))
                memset(place, 0, (c->block - c->lanes) * sizeof *place);
    }
}

enum tmk_status tmk_convolution_run(const struct tmk_accel *accel,
                                    const struct tmk_tensor *const *in,
                                    struct tmk_tensor *const *out, void *scratch,
                                    struct tmk_diag *diag) {
    const struct convolved *convolved = (const struct convolved *)accel;
    float *y = out[0]->data;
    TMK_TRY(tmk_dn_run_once(accel, in, out, scratch, diag));
    if (convolved->activation)
        convolved->activation(convolved->batch * convolved->blocks * convolved->places *
                                  convolved->block,
                              y, y, convolved->params);
    if (convolved->lanes)
        mend_filling(convolved, y);
    return TMK_OK;
}

static enum tmk_status choose_layout(const struct tmk_dn_request *r,
                                     const struct tmk_convolution *c, uint32_t have,
                                     struct tmk_accel_layout *out) {
    uint32_t block = tmk_kernel_block();
    bool found = false;
    if (count_places(c->spatial.in, c->spatial.rank) == 1 &&
        count_places(c->spatial.out, c->spatial.rank) == 1)
        return TMK_OK; /* vectors: whatever they are combined with is row-major */
    if (c->group == 1 && c->in <= FEW_CHANNELS && !c->transposed) {
        TMK_TRY(find_fast(r, c, 0, (int32_t)block, &found));
        if (found) {
            out->out = block;
            return TMK_OK;
        }
    }
    TMK_TRY(find_fast(r, c, (int32_t)block, (int32_t)block, &found));
    if (!found && have)
        TMK_TRY(find_blocked(r, c, &found));
    if (found)
        *out = (struct tmk_accel_layout){block, block};
    return TMK_OK;
}

/* `preferred_layout`, `create` and `run` of a family, all but its reading. */
static enum tmk_status convolution_preferred_layout(const struct tmk_request *request,
                                                    uint32_t have, tmk_convolution_read *read,
                                                    struct tmk_accel_layout *out) {
    struct tmk_dn_request r;
    struct tmk_convolution c = {0};
    bool fits;
    TMK_TRY(tmk_dn_open(request, &r, &fits));
    if (!fits)
        return TMK_OK;
    enum tmk_status status = read(request, &c, &fits);
    if (status == TMK_OK && fits)
        status = choose_layout(&r, &c, have, out);
    tmk_dn_close(&r);
    return status;
}

/* The candidates for the layouts asked for, before those of row-major tensors. */
static uint32_t rank_all(const struct tmk_request *r, const struct tmk_convolution *c,
                         struct tmk_accel_layout *outside, struct tmk_candidate *candidates) {
    uint32_t n = 0, block = tmk_kernel_block();
    *outside = r->layout;
    if (tmk_blocked_same(&r->in[0]->shape, block) && !outside->in)
        outside->in = block;
    if (tmk_blocked_same(&r->result->shape, block) && !outside->out)
        outside->out = block;
    int32_t in = (int32_t)outside->in, out = (int32_t)outside->out;
    if (in || out)
        candidates[n++] = (struct tmk_candidate){in, out};
    if (!in != !out)
        candidates[n++] = (struct tmk_candidate){in ? in : out, in ? in : out};
    memcpy(candidates + n, c->candidates, c->n_candidates * sizeof *candidates);
    return n + c->n_candidates;
}

static enum tmk_status convolution_create(const struct tmk_dn_request *r,
                                          tmk_convolution_read *read, struct tmk_dn **out) {
    dnnl_primitive_desc_t desc = NULL;
    struct tmk_convolution c = {0};
    struct tmk_candidate candidates[TMK_COUNT(c.candidates) + 2];
    struct tmk_accel_layout outside;
    bool found;
    TMK_TRY(read(&r->base, &c, &found));
    if (!found)
        return TMK_OK;
    uint32_t n_candidates = rank_all(&r->base, &c, &outside, candidates);
    TMK_TRY(choose_candidate(r, &c, candidates, n_candidates, &desc, &found));
    if (!found)
        return TMK_OK;
    dnnl_dims_t src, dst, bias = {c.out};
    int rank = dims_of(&c, src, dst);
    struct tmk_argument a[TMK_MAX_ARGUMENTS] = {{.role = DNNL_ARG_SRC, .operand = 0},
                                                {.role = DNNL_ARG_WEIGHTS, .operand = 1}};
    uint32_t n = 2;
    dnnl_status_t status = tmk_layout_form(&a[0].outside, rank, src, (int32_t)outside.in);
    if (status == dnnl_success)
        status = tmk_layout_strided(&a[1].outside, c.weights_rank, c.weights, c.weight_strides);
    if (status == dnnl_success && has_bias(&r->base)) {
        a[n] = (struct tmk_argument){.role = DNNL_ARG_BIAS, .operand = 2};
        status = tmk_layout_tag(&a[n++].outside, 1, bias, dnnl_x);
    }
    a[n] = (struct tmk_argument){.role = DNNL_ARG_DST, .operand = TMK_RESULT};
    if (status == dnnl_success)
        status = tmk_layout_form(&a[n].outside, rank, dst, (int32_t)outside.out);
    n++;
    if (status == dnnl_success) {
        TMK_TRY(tmk_dn_build(r, sizeof(struct convolved), desc, a, n, out));
        if (*out)
            note_result((struct convolved *)*out, &c, outside.out ? outside.out : 1);
        return TMK_OK;
    }
    for (uint32_t i = 0; i < n; i++)
        tmk_layout_finish(&a[i].outside);
    dnnl_primitive_desc_destroy(desc);
    return tmk_dn_fits(status, &found, r->base.diag);
}

/* Is every window one place, and every place a window? */
static bool is_pointwise(const struct tmk_window *w) {
    for (int32_t i = 0; i < w->n; i++)
        if (w->kernel[i] != 1 || w->stride[i] != 1 || w->begin[i] || w->end[i])
            return false;
    return true;
}

static void rank_candidates(struct tmk_convolution *c, const struct tmk_window *w) {
    enum { WIDE_ENOUGH = 128 };
    const int32_t block = (int32_t)tmk_kernel_block();
    const struct tmk_candidate plain = {0, 0}, blocked = {block, block}, image = {0, block},
                               any = {TMK_ANY, TMK_ANY};
    if (is_pointwise(w) && c->group == 1 && tmk_window_out(w) >= WIDE_ENOUGH)
        c->candidates[c->n_candidates++] = plain;
    else if (c->group == 1 && c->in <= FEW_CHANNELS)
        c->candidates[c->n_candidates++] = image;
    else if (tmk_window_taps(w) == 1 || (c->group > 1 && c->in == c->group))
        c->candidates[c->n_candidates++] = blocked;
    c->candidates[c->n_candidates++] = any;
    c->candidates[c->n_candidates++] = plain;
}

bool tmk_all_finite(const float *x, size_t n) {
    return tmk_simd_find(tmk_kernel_block())->all_finite(x, n);
}

static bool all_elements_finite(const struct tmk_tensor *weights) {
    enum { BLOCK = 4096 };
    float scratch[BLOCK];
    const size_t count = tmk_tensor_count(weights);
    bool finite = true;
    if (!tmk_tensor_is_lazy(weights))
        return tmk_all_finite(weights->data, count);
    for (size_t first = 0; finite && first < count; first += BLOCK) {
        const size_t n = count - first < BLOCK ? count - first : (size_t)BLOCK;
        finite = tmk_all_finite(tmk_elements(weights, first, n, scratch), n);
    }
    return finite;
}

/* Padding is made of zeros, and 0 times an infinite weight is NaN; oneDNN leaves padding out. */
static bool padding_shows(const struct tmk_window *w, const struct tmk_tensor *weights) {
    bool padded = false;
    for (int32_t i = 0; i < w->n; i++)
        padded = padded || w->begin[i] || w->end[i];
    return padded && tmk_tensor_has_elements(weights) && !all_elements_finite(weights);
}

static enum tmk_status read_conv(const struct tmk_request *r, struct tmk_convolution *out,
                                 bool *fits) {
    const struct tmk_shape *x = &r->in[0]->shape, *w = &r->in[1]->shape;
    int64_t group = tmk_node_int(r->node, "group", 1);
    struct tmk_window window;
    TMK_TRY(tmk_window_conv(r->node, x, w, &window, r->diag));
    struct tmk_convolution c = {
        .batch = x->dim[0], .in = x->dim[1], .out = w->dim[0], .group = group};
    *fits = tmk_spatial_of(&window, &c.spatial) && !padding_shows(&window, r->in[1]);
    if (!*fits)
        return TMK_OK;
    int rank = c.spatial.rank, leading = group > 1;
    c.weights[0] = group;
    c.weights[leading] = c.out / group;
    c.weights[leading + 1] = c.in / group;
    memcpy(c.weights + leading + 2, c.spatial.sliding.kernel, (size_t)rank * sizeof *c.weights);
    c.weights_rank = leading + 2 + rank;
    for (int64_t step = 1, i = c.weights_rank - 1; i >= 0; step *= c.weights[i--])
        c.weight_strides[i] = step;
    rank_candidates(&c, &window);
    *out = c;
    return TMK_OK;
}

static enum tmk_status preferred_layout(const struct tmk_request *r, uint32_t have,
                                        struct tmk_accel_layout *out) {
    return convolution_preferred_layout(r, have, read_conv, out);
}

static enum tmk_status make_conv(const struct tmk_dn_request *r, struct tmk_dn **out) {
    return convolution_create(r, read_conv, out);
}

enum tmk_status tmk_conv_create_direct(const struct tmk_request *r, struct tmk_accel **out) {
    return tmk_dn_create(r, make_conv, out);
}

static enum tmk_status create_conv(const struct tmk_request *r, struct tmk_accel **out) {
    if (!is_fused(r->node))
        TMK_TRY(tmk_winograd_create(r, read_conv, out));
    return *out ? TMK_OK : tmk_conv_create_direct(r, out);
}

const struct tmk_family tmk_family_conv = {matches_conv,        preferred_layout, create_conv,
                                           tmk_convolution_run, tmk_dn_destroy,   true,
                                           tmk_dn_load,         tmk_dn_unload};

/* ConvTranspose, oneDNN's deconvolution. ONNX stores the weights as [C, M / group, kernel...];
 * oneDNN calls the same bytes [M, C, ...] with the two channel axes' strides exchanged. */

static bool matches_transposed(const struct tmk_node *node) {
    return tmk_node_is(node, TMK_DOMAIN_ONNX, "ConvTranspose");
}

static enum tmk_status read_transposed(const struct tmk_request *r, struct tmk_convolution *out,
                                       bool *fits) {
    const struct tmk_shape *x = &r->in[0]->shape, *w = &r->in[1]->shape;
    int64_t group = tmk_node_int(r->node, "group", 1);
    struct tmk_window window;
    TMK_TRY(tmk_window_conv_transpose(r->node, x, w, &window, r->diag));
    struct tmk_convolution c = {.transposed = true,
                                .batch = x->dim[0],
                                .in = x->dim[1],
                                .out = r->result->shape.dim[1],
                                .group = group,
                                .candidates = {{TMK_ANY, TMK_ANY}, {0, 0}},
                                .n_candidates = 2};
    *fits = tmk_spatial_of(&window, &c.spatial);
    if (!*fits)
        return TMK_OK;
    int rank = c.spatial.rank, leading = group > 1, channels = leading;
    c.weights[0] = group;
    c.weights[channels] = c.out / group;
    c.weights[channels + 1] = c.in / group;
    memcpy(c.weights + leading + 2, c.spatial.sliding.kernel, (size_t)rank * sizeof *c.weights);
    c.weights_rank = leading + 2 + rank;
    int64_t taps = 1;
    for (int i = c.weights_rank - 1; i >= leading + 2; taps *= c.weights[i--])
        c.weight_strides[i] = taps;
    c.weight_strides[channels] = taps;
    c.weight_strides[channels + 1] = taps * c.weights[channels];
    if (leading)
        c.weight_strides[0] = c.weight_strides[2] * c.weights[2];
    *out = c;
    return TMK_OK;
}

static enum tmk_status preferred_layout_transpose(const struct tmk_request *r, uint32_t have,
                                                  struct tmk_accel_layout *out) {
    return convolution_preferred_layout(r, have, read_transposed, out);
}

static enum tmk_status make_transposed(const struct tmk_dn_request *r, struct tmk_dn **out) {
    return convolution_create(r, read_transposed, out);
}

static enum tmk_status create_transposed(const struct tmk_request *r, struct tmk_accel **out) {
    return tmk_dn_create(r, make_transposed, out);
}

const struct tmk_family tmk_family_conv_transpose = {matches_transposed, preferred_layout_transpose,
                                                     create_transposed,  tmk_convolution_run,
                                                     tmk_dn_destroy,     true,
                                                     tmk_dn_load,        tmk_dn_unload};
