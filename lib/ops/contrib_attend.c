/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/contrib_attend.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "ops/kernel.h"
#include "ops/matmul.h"
#include "ops/softmax.h"

/* ---- masks ---- */

static bool mask_fits(const struct tmk_shape *m, const struct tmk_attend_sizes *s) {
    if (m->rank == 1)
        return m->dim[0] == s->batch || (m->dim[0] % 2 == 0 && m->dim[0] / 2 == s->batch);
    if (m->rank == 2)
        return m->dim[0] == s->batch && m->dim[1] == s->total;
    return m->rank == 3 && m->dim[0] == s->batch && m->dim[1] == s->queries &&
           m->dim[2] == s->total;
}

/* [B,1] and [1,1]: the same for every key, so it masks nothing. */
static bool is_unmasked(const struct tmk_tensor *mask, const struct tmk_attend_sizes *s) {
    const struct tmk_shape *m = &mask->shape;
    return !mask_fits(m, s) && m->rank == 2 && m->dim[1] == 1 &&
           (m->dim[0] == s->batch || m->dim[0] == 1);
}

enum tmk_status tmk_attend_check(const struct tmk_attend_sizes *s, const struct tmk_tensor *mask,
                                 const struct tmk_tensor *bias, struct tmk_diag *diag) {
    const int64_t most = INT32_MAX;
    if (s->heads > 1 << 20 || s->batch > most || s->queries > most || s->total > most ||
        s->size > most || s->value_size > most)
        return tmk_fail(diag, TMK_RANGE, "%lld samples of %lld heads, %lld queries and %lld keys",
                        (long long)s->batch, (long long)s->heads, (long long)s->queries,
                        (long long)s->total);
    if (mask) {
        TMK_TRY(tmk_want_dtype(mask, TMK_INT32, "the mask", diag));
        if (!mask_fits(&mask->shape, s) && !is_unmasked(mask, s))
            return tmk_fail(diag, TMK_UNSUPPORTED,
                            "a mask of %s is not supported for %lld samples, %lld queries and "
                            "%lld keys",
                            TMK_SHAPE_TEXT(&mask->shape), (long long)s->batch,
                            (long long)s->queries, (long long)s->total);
    }
    if (bias) {
        const struct tmk_shape *b = &bias->shape;
        TMK_TRY(tmk_want_dtype(bias, TMK_FLOAT32, "attention_bias", diag));
        if (b->rank != 4 || (b->dim[0] != s->batch && b->dim[0] != 1) ||
            (b->dim[1] != s->heads && b->dim[1] != 1) || b->dim[2] != s->queries ||
            b->dim[3] != s->total)
            return tmk_fail(diag, TMK_SHAPE,
                            "attention_bias is %s, which does not fit [%lld,%lld,%lld,%lld]",
                            TMK_SHAPE_TEXT(b), (long long)s->batch, (long long)s->heads,
                            (long long)s->queries, (long long)s->total);
    }
    return TMK_OK;
}

/* The mask of sample b: S rows of T. */
static void fill_mask(const struct tmk_attend *a, size_t b, float filter, bool causal, float *out) {
    const struct tmk_attend_sizes *s = &a->s;
    const struct tmk_tensor *mask = a->mask && !is_unmasked(a->mask, s) ? a->mask : NULL;
    const int32_t *given = mask ? mask->data : NULL;
    int32_t rank = mask ? mask->shape.rank : 0;
    int64_t end = s->total, begin = 0;
    if (rank == 1) {
        end = given[b];
        if (mask->shape.dim[0] != s->batch)
            begin = given[(size_t)s->batch + b];
    }
    for (int64_t i = 0; i < s->queries; i++)
        for (int64_t j = 0; j < s->total; j++) {
            bool open = j >= begin && j < end;
            if (rank == 2)
                open = given[b * (size_t)s->total + (size_t)j] > 0;
            else if (rank == 3)
                open =
                    given[(b * (size_t)s->queries + (size_t)i) * (size_t)s->total + (size_t)j] > 0;
            *out++ = causal && j > s->past + i ? -FLT_MAX : open ? 0 : filter;
        }
}

/* ---- past and present ---- */

enum tmk_status tmk_attend_join(struct tmk_run *run, const struct tmk_attend_sizes *s, int64_t size,
                                const float *past, float *present, struct tmk_attend_heads *heads) {
    size_t count = (size_t)(s->batch * s->heads), n = (size_t)s->heads, width = (size_t)size,
           before = (size_t)s->past * width, total = (size_t)s->total;
    if (!present && (!past || s->past == 0))
        return TMK_OK;
    float *to = present;
    if (!present)
        TMK_TRY(tmk_scratch_floats(run, s->batch * s->heads, s->total, size, &to));
    struct tmk_attend_heads joined = {to, n * total * width, total * width, width};
    for (size_t i = 0; i < count && total && width; i++, to += total * width) {
        const float *from = heads->data + i / n * heads->batch + i % n * heads->head;
        if (before)
            memcpy(to, past + i * before, before * sizeof *to);
        for (size_t r = 0; r < (size_t)s->keys; r++)
            memcpy(to + before + r * width, from + r * heads->row, width * sizeof *to);
    }
    *heads = joined;
    return TMK_OK;
}

/* ---- one head ---- */

struct scratch {
    float *panel, *scores, *mask, *result;
};

static enum tmk_status one_head(struct tmk_run *run, const struct tmk_attend *a,
                                const struct scratch *scratch, size_t b, size_t h, float scale) {
    const struct tmk_attend_sizes *s = &a->s;
    size_t queries = (size_t)s->queries, total = (size_t)s->total, width = (size_t)s->value_size,
           area = queries * total, heads = (size_t)s->heads, head = b * heads + h;
    tmk_gemm_transposed(queries, total, (size_t)s->size, a->q.data + b * a->q.batch + h * a->q.head,
                        a->q.row, a->k.data + b * a->k.batch + h * a->k.head, a->k.row,
                        scratch->scores, scratch->panel);
    if (tmk_run_out(run, a->scores)) {
        for (size_t i = 0; i < area; i++)
            scratch->scores[i] *= scale;
        TMK_TRY(tmk_run_show(run, a->scores, scratch->scores, head * area, area));
        scale = 1;
    }
    for (size_t i = 0; i < area; i++)
        scratch->scores[i] = scratch->scores[i] * scale + scratch->mask[i];
    if (a->bias) {
        const struct tmk_shape *shape = &a->bias->shape;
        size_t at =
            (shape->dim[0] == 1 ? 0 : b) * (size_t)shape->dim[1] + (shape->dim[1] == 1 ? 0 : h);
        const float *bias = (const float *)a->bias->data + at * area;
        for (size_t i = 0; i < area; i++)
            scratch->scores[i] += bias[i];
    }
    if (a->products && area)
        memcpy(a->products + head * area, scratch->scores, area * sizeof(float));
    if (!a->y && !tmk_run_out(run, a->probabilities))
        return TMK_OK;
    for (size_t i = 0; i < queries && total; i++)
        tmk_softmax_row(total, scratch->scores + i * total, scratch->scores + i * total);
    TMK_TRY(tmk_run_show(run, a->probabilities, scratch->scores, head * area, area));
    if (!a->y)
        return TMK_OK;
    tmk_gemm_rows(queries, width, total, scratch->scores, total,
                  a->v.data + b * a->v.batch + h * a->v.head, a->v.row, scratch->result,
                  scratch->panel);
    for (size_t i = 0; i < queries && width; i++)
        memcpy(a->y + ((b * queries + i) * heads + h) * width, scratch->result + i * width,
               width * sizeof(float));
    return TMK_OK;
}

enum tmk_status tmk_attend_show(struct tmk_run *run, uint32_t output,
                                const struct tmk_attend_sizes *s, int64_t rows, int64_t size,
                                const struct tmk_attend_heads *heads) {
    const size_t n = (size_t)s->heads, width = (size_t)size;
    const bool whole = heads->head == width;
    size_t at = 0;
    if (!tmk_run_out(run, output))
        return TMK_OK;
    for (size_t b = 0; b < (size_t)s->batch; b++)
        for (size_t r = 0; r < (size_t)rows; r++)
            for (size_t h = 0; h < n; h += whole ? n : 1, at += whole ? n * width : width)
                TMK_TRY(tmk_run_show(
                    run, output, heads->data + b * heads->batch + r * heads->row + h * heads->head,
                    at, whole ? n * width : width));
    return TMK_OK;
}

enum tmk_status tmk_attend(struct tmk_run *run, const struct tmk_attend *attend) {
    const struct tmk_attend_sizes *s = &attend->s;
    struct scratch scratch = {0};
    float scale = tmk_node_float(run->node, "scale", 0),
          filter = tmk_node_float(run->node, "mask_filter_value", -10000.0f);
    bool causal = tmk_node_int(run->node, "unidirectional", 0) != 0;
    if (scale == 0)
        scale = s->size ? 1 / sqrtf((float)s->size) : 1;
    if (!attend->y && !attend->products && !tmk_run_out(run, attend->scores) &&
        !tmk_run_out(run, attend->probabilities))
        return TMK_OK;
    TMK_TRY(tmk_scratch_floats(run, TMK_GEMM_PANEL / sizeof(float), 1, 1, &scratch.panel));
    TMK_TRY(tmk_scratch_floats(run, s->queries, s->total, 1, &scratch.scores));
    TMK_TRY(tmk_scratch_floats(run, s->queries, s->total, 1, &scratch.mask));
    TMK_TRY(tmk_scratch_floats(run, s->queries, s->value_size, 1, &scratch.result));
    for (size_t b = 0; b < (size_t)s->batch; b++) {
        fill_mask(attend, b, filter, causal, scratch.mask);
        for (size_t h = 0; h < (size_t)s->heads; h++)
            TMK_TRY(one_head(run, attend, &scratch, b, h, scale));
    }
    return TMK_OK;
}
