/* SPDX-License-Identifier: Apache-2.0 */
/* Conv of 3x3 windows without strides, by Winograd's F(2x2, 3x3): 16 multiplications where the
 * direct sum has 36 (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015).
 *
 * Of his algorithms only this one, since it keeps the values that a profile observes. Its
 * transforms add, and halve; each result is made of its own window's elements alone. So windows of
 * zeros give exact zeros, small integers stay integers, and nothing that is not finite reaches
 * beyond the windows that see it; it rounds about as the direct sum does. F(4x4, 3x3) divides by 6
 * and 24 and mixes neighbours, and rounds five times as badly.
 *
 * What is not finite, or becomes so on the way, is not what the direct sum would give (an infinity
 * becomes NaN); such a result is made again, directly.
 *
 * oneDNN takes the algorithm only where it thinks that weights and a stretch of the result fit its
 * caches; so the work is cut into parts, each of which makes some of the result's channels from
 * some of the source's, and adds them to what the part before has made of the others. */
#include "kernel/onednn.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tensor/elements.h"

enum {
    BLOCK = 16,      /* of oneDNN's only implementation */
    MAX_PARTS = 16,  /* each transforms its source again, and its result */
    FEW_PLACES = 100 /* where more bytes of weights cost what fewer multiplications save */
};

struct winograd {
    struct tmk_accel base;
    dnnl_engine_t engine;
    /* Each for one sample. Those that make the same channels follow each other. */
    struct tmk_dn *parts[MAX_PARTS];
    uint32_t n_parts;
    uint32_t results, sources; /* ranges of channels of either, n_parts together */
    bool biased;
    size_t batch, src, dst; /* elements of a sample */
};

/* The channels of one part: of the source, of the result. */
struct cut {
    int64_t in, n_in, out, n_out;
};

/* Asked first: it costs nothing, and reading a convolution looks at all its weights. */
static bool may_suit(const struct tmk_request *r) {
    const struct tmk_shape *w = &r->in[1]->shape;
    return r->layout.in == BLOCK && r->layout.out == BLOCK && tmk_tensor_has_elements(r->in[1]) &&
           w->rank == 4 && w->dim[2] == 3 && w->dim[3] == 3;
}

static bool suits_winograd(const struct tmk_convolution *c) {
    const struct tmk_sliding *s = &c->spatial.sliding;
    if (c->group != 1 || c->spatial.rank != 2 || c->in % BLOCK || c->out % BLOCK ||
        c->spatial.out[0] * c->spatial.out[1] < FEW_PLACES)
        return false;
    for (int i = 0; i < 2; i++)
        if (s->kernel[i] != 3 || s->stride[i] != 1 || s->dilation[i] || s->begin[i] > 1 ||
            s->begin[i] != s->end[i])
            return false;
    return true;
}

/* The primitive of a part; the arguments get how the operands lie. */
static dnnl_status_t describe_product(const struct tmk_dn_request *r,
                                      const struct tmk_convolution *c, const struct cut *cut,
                                      struct tmk_argument *a, uint32_t n,
                                      dnnl_primitive_desc_t *out) {
    struct tmk_layout any = {0};
    dnnl_dims_t src = {0}, dst = {0}, bias = {cut->n_out}, weights = {cut->n_out, cut->n_in, 3, 3},
                strides = {c->in * 9, 9, 3, 1};
    tmk_spatial_dims(&c->spatial, 1, cut->n_in, c->spatial.in, src);
    tmk_spatial_dims(&c->spatial, 1, cut->n_out, c->spatial.out, dst);
    bool biased = n == TMK_MAX_ARGUMENTS;
    struct tmk_operands operands = {&a[0].outside, &any, biased ? &a[2].outside : NULL,
                                    &a[n - 1].outside};
    dnnl_status_t status = tmk_layout_form(&a[0].outside, 4, src, BLOCK);
    if (status == dnnl_success)
        status = tmk_layout_strided(&a[1].outside, 4, weights, strides);
    if (status == dnnl_success && cut->n_in < c->in)
        status = tmk_layout_tag(&a[1].gathered, 4, weights, dnnl_oihw);
    if (status == dnnl_success && biased)
        status = tmk_layout_tag(&a[2].outside, 1, bias, dnnl_x);
    if (status == dnnl_success)
        status = tmk_layout_form(&a[n - 1].outside, 4, dst, BLOCK);
    if (status == dnnl_success)
        status = tmk_layout_tag(&any, 4, weights, dnnl_format_tag_any);
    if (status == dnnl_success)
        status = tmk_desc_winograd(r->engine, r->attr, &operands, &c->spatial.sliding, out);
    tmk_layout_finish(&any);
    return status;
}

/* *out stays NULL where the library has nothing for that. */
static enum tmk_status make_part(const struct tmk_dn_request *r, const struct tmk_convolution *c,
                                 const struct cut *cut, bool biased, struct tmk_dn **out) {
    struct tmk_argument a[TMK_MAX_ARGUMENTS] = {
        {.role = DNNL_ARG_SRC, .operand = 0, .moves = true},
        {.role = DNNL_ARG_WEIGHTS,
         .operand = 1,
         .first = (size_t)((cut->out * c->in + cut->in) * 9)}};
    uint32_t n = 2;
    if (biased)
        a[n++] =
            (struct tmk_argument){.role = DNNL_ARG_BIAS, .operand = 2, .first = (size_t)cut->out};
    a[n++] = (struct tmk_argument){.role = DNNL_ARG_DST, .operand = TMK_RESULT};
    dnnl_primitive_desc_t desc = NULL;
    bool fits;
    enum tmk_status answer =
        tmk_dn_fits(describe_product(r, c, cut, a, n, &desc), &fits, r->base.diag);
    if (desc) {
        /* transforming takes as much memory again */
        a[1].workspace =
            dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0));
        return tmk_dn_build(r, sizeof **out, desc, a, n, out);
    }
    for (uint32_t i = 0; i < n; i++)
        tmk_layout_finish(&a[i].outside);
    tmk_layout_finish(&a[1].gathered);
    return answer;
}

static void destroy_parts(struct winograd *w) {
    while (w->n_parts > 0)
        tmk_dn_destroy(&w->parts[--w->n_parts]->base);
}

/* All parts, or none. `adding`: as r, for those that add to what is there. */
static enum tmk_status make_parts(const struct tmk_dn_request *r,
                                  const struct tmk_dn_request *adding,
                                  const struct tmk_convolution *c, struct winograd *w) {
    const int64_t n_in = c->in / w->sources, n_out = c->out / w->results;
    for (uint32_t i = 0; i < w->results * w->sources; i++) {
        const uint32_t source = i % w->sources, result = i / w->sources;
        const struct cut cut = {source * n_in, n_in, result * n_out, n_out};
        struct tmk_dn *dn = NULL;
        TMK_TRY(make_part(source ? adding : r, c, &cut, w->biased && !source, &dn));
        if (!dn) {
            destroy_parts(w);
            return TMK_OK;
        }
        w->parts[w->n_parts++] = dn;
    }
    return TMK_OK;
}

/* Parts of weights that stay in the second-level cache from one sample to the next are worth it
 * where two of them are enough: measured on 64 to 256 channels of 13x13, a sixth faster. */
static uint32_t fewest_parts(const struct tmk_convolution *c) {
    enum { STAYS = 512 << 10 };
    const int64_t bytes = 16 * c->in * c->out * (int64_t)sizeof(float);
    return bytes > STAYS && bytes <= 2 * STAYS && c->out % (2 * BLOCK) == 0 ? 2 : 1;
}

/* As few parts as the library takes; of as many, those with more of the result's ranges, which add
 * up less. */
static enum tmk_status cut_tiles(const struct tmk_dn_request *r, const struct tmk_convolution *c,
                                 struct winograd *w) {
    struct tmk_dn_request adding = *r;
    bool fits;
    TMK_TRY(tmk_dn_fits(tmk_attr_adding(r->attr, &adding.attr), &fits, r->base.diag));
    if (!fits)
        return TMK_OK;
    enum tmk_status status = TMK_OK;
    for (uint32_t n = fewest_parts(c); n <= MAX_PARTS && status == TMK_OK && !w->n_parts; n++)
        for (uint32_t results = n; results > 0 && status == TMK_OK && !w->n_parts; results--) {
            const uint32_t sources = n / results;
            if (n % results || c->out % (results * BLOCK) || c->in % (sources * BLOCK))
                continue;
            w->results = results;
            w->sources = sources;
            status = make_parts(r, &adding, c, w);
        }
    dnnl_primitive_attr_destroy(adding.attr);
    return status;
}

static enum tmk_status fill_weights(const struct tmk_dn_request *r, const struct tmk_convolution *c,
                                    struct winograd *w) {
    w->base.family = r->base.family;
    w->base.node = r->base.node;
    w->biased = r->base.node->n_inputs > 2 && r->base.in[2];
    w->batch = (size_t)c->batch;
    w->src = (size_t)(c->in * c->spatial.in[0] * c->spatial.in[1]);
    w->dst = (size_t)(c->out * c->spatial.out[0] * c->spatial.out[1]);
    TMK_TRY(cut_tiles(r, c, w));
    for (uint32_t i = 0; i < w->n_parts; i++) {
        const struct tmk_accel *part = &w->parts[i]->base;
        w->base.held += part->held;
        w->base.code += part->code;
        w->base.scratch = part->scratch > w->base.scratch ? part->scratch : w->base.scratch;
        memcpy(w->base.name, part->name, sizeof w->base.name);
    }
    return TMK_OK;
}

static void destroy_winograd(struct tmk_accel *accel) {
    struct winograd *w = (struct winograd *)accel;
    destroy_parts(w);
    if (w->engine)
        dnnl_engine_destroy(w->engine);
    free(w);
}

/* ---- running ---- */

/* The same node once more, made and run directly. */
static enum tmk_status run_directly(const struct winograd *w, const struct tmk_tensor *const *in,
                                    struct tmk_tensor *const *out, struct tmk_diag *diag) {
    struct tmk_tensor source = *in[0];
    const struct tmk_tensor *described[3] = {&source, in[1], w->biased ? in[2] : NULL};
    struct tmk_infer_result result = {
        .known = true, .dtype = out[0]->dtype, .shape = out[0]->shape};
    struct tmk_request request = {.family = &tmk_family_conv,
                                  .node = w->base.node,
                                  .in = described,
                                  .result = &result,
                                  .layout = {BLOCK, BLOCK},
                                  .diag = diag};
    struct tmk_accel *accel = NULL;
    source.data = NULL; /* else it is taken for a constant */
    TMK_TRY(tmk_conv_create_direct(&request, &accel));
    if (!accel)
        return tmk_fail(diag, TMK_MACHINE, "%s", "oneDNN has no direct convolution");
    void *scratch = tmk_memory_aligned(accel->scratch);
    enum tmk_status status =
        scratch ? tmk_convolution_run(accel, in, out, scratch, diag) : tmk_nomem(diag);
    tmk_memory_free(scratch);
    tmk_accel_destroy(&accel);
    return status;
}

static enum tmk_status run_winograd(const struct tmk_accel *accel,
                                    const struct tmk_tensor *const *in,
                                    struct tmk_tensor *const *out, void *scratch,
                                    struct tmk_diag *diag) {
    const struct winograd *w = (const struct winograd *)accel;
    const size_t n_in = w->src / w->sources, n_out = w->dst / w->results;
    for (uint32_t result = 0; result < w->results; result++)
        for (size_t sample = 0; sample < w->batch; sample++) {
            float *y = (float *)out[0]->data + sample * w->dst + n_out * result;
            for (uint32_t source = 0; source < w->sources; source++) {
                const struct tmk_dn *part = w->parts[result * w->sources + source];
                void *data[TMK_MAX_ARGUMENTS] = {(float *)in[0]->data + sample * w->src +
                                                 n_in * source};
                data[part->n_arguments - 1] = y;
                TMK_TRY(tmk_dn_execute(part, data, scratch, TMK_PART_ALL, diag));
            }
            if (!tmk_all_finite(y, n_out))
                return run_directly(w, in, out, diag);
        }
    return TMK_OK;
}

static enum tmk_status load_winograd(struct tmk_accel *accel, struct tmk_diag *diag) {
    const struct winograd *w = (const struct winograd *)accel;
    for (uint32_t i = 0; i < w->n_parts; i++)
        TMK_TRY(tmk_dn_load(&w->parts[i]->base, diag));
    return TMK_OK;
}

static void unload_winograd(struct tmk_accel *accel) {
    const struct winograd *w = (const struct winograd *)accel;
    for (uint32_t i = 0; i < w->n_parts; i++)
        tmk_dn_unload(&w->parts[i]->base);
}

static const struct tmk_family family = {
    NULL, NULL, NULL, run_winograd, destroy_winograd, false, load_winograd, unload_winograd};

/* Where something comes of it, *out has the engine. */
static enum tmk_status create_winograd(const struct tmk_dn_request *r, tmk_convolution_read *read,
                                       struct tmk_accel **out) {
    struct tmk_convolution c = {0};
    bool fits;
    TMK_TRY(read(&r->base, &c, &fits));
    if (!fits || !suits_winograd(&c))
        return TMK_OK;
    struct winograd *w = calloc(1, sizeof *w);
    TMK_TRY_ALLOC(w, r->base.diag);
    enum tmk_status status = fill_weights(r, &c, w);
    if (status == TMK_OK && w->n_parts > 0) {
        w->engine = r->engine;
        *out = &w->base;
    } else {
        destroy_winograd(&w->base);
    }
    return status;
}

/* Where there is no memory for it, it fails, though there may be enough for the direct sum: which
 * of the two runs must not depend on what else has memory at the time. */
enum tmk_status tmk_winograd_create(const struct tmk_request *request, tmk_convolution_read *read,
                                    struct tmk_accel **out) {
    struct tmk_request own = *request;
    struct tmk_dn_request r;
    bool fits;
    own.family = &family;
    if (!may_suit(request))
        return TMK_OK;
    TMK_TRY(tmk_dn_open(&own, &r, &fits));
    if (!fits)
        return TMK_OK;
    enum tmk_status status = create_winograd(&r, read, out);
    if (*out)
        dnnl_primitive_attr_destroy(r.attr);
    else
        tmk_dn_close(&r);
    return status;
}
