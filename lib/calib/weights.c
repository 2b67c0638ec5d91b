/* SPDX-License-Identifier: Apache-2.0 */
/* Weights become encodings by their own numbers: ranges that minimise the error of what they are
 * multiplied into, the squared error or its square; a scale for each channel, for each block, or
 * for all. */
#include "calib/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "calib/encodings.h"
#include "calib/make.h"

/* The range with the least error of given numbers.
 *
 * Of a symmetric grid one number is searched, the largest magnitude; of an asymmetric one both ends
 * together, then each by itself. Of few numbers the error jumps from one range to the next, so that
 * ranges are tried evenly spaced, and then between the neighbours of the best. */

enum {
    LANES = 8,
    CHUNK = 32,         /* numbers a float sums up */
    RANGES_AROUND = 16, /* ranges between a range's neighbours */
    ROUNDS = 2,         /* of looking there; of taking turns at the ends */
};
/* Ranges are tried from `widest` times the extremes to `evenly`, then, each `ratio` times as long
 * as the one before, to `narrowest`. */
static const double evenly = 0.2, ratio = 0.9, narrowest = 1.0 / 64;
/* How much wider and narrower than the extremes ranges are tried for sums. */
static const double wider = 0.12, narrower = -0.15;

/* In codes, |x| at most 2^22: adding this rounds to nearest even. */
static const float rounder = 0x1.8p23f;

static inline double error_of_codes(const float *x, size_t n, float scale, float from, float to,
                                    bool fourth) {
    double sum = 0;
    for (size_t first = 0; first < n; first += CHUNK) {
        float part[LANES] = {0};
        const size_t end = n - first < CHUNK ? n - first : CHUNK;
        size_t i = 0;
        for (; i + LANES <= end; i += LANES)
            for (size_t l = 0; l < LANES; l++) {
                const float real = x[first + i + l] / scale;
                float code = real < from ? from : real;
                code = code > to ? to : code;
                const float error = real - ((code + rounder) - rounder);
                part[l] += fourth ? (error * error) * (error * error) : error * error;
            }
        for (; i < end; i++) {
            const float real = x[first + i] / scale;
            const float error = real - rintf(fminf(fmaxf(real, from), to));
            part[0] += fourth ? (error * error) * (error * error) : error * error;
        }
        for (size_t l = 0; l < LANES; l++)
            sum += (double)part[l];
    }
    return sum;
}

static double error_of_float8(const float *x, size_t n, const struct tmk_grid *grid, double scale,
                              int power) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double real = (double)x[i] / scale;
        const double error = real - tmk_grid_float8_nearest(grid->dtype, real);
        sum += power == 4 ? error * error * error * error : error * error;
    }
    return sum;
}

double tmk_weight_error(const float *x, size_t n, const struct tmk_grid *grid, int power, float low,
                        float high) {
    int32_t lowest, highest, zero;
    float scale;
    double sum;
    if (tmk_grid_fit(grid, low, high, &scale, &zero, NULL) != TMK_OK)
        return HUGE_VAL;
    if (!tmk_grid_codes(grid, &lowest, &highest)) {
        sum = error_of_float8(x, n, grid, (double)scale, power);
    } else {
        const float from = (float)(lowest - zero), to = (float)(highest - zero);
        sum = power == 4 ? error_of_codes(x, n, scale, from, to, true)
                         : error_of_codes(x, n, scale, from, to, false);
    }
    return sum * pow((double)scale, power);
}

struct part_search {
    const float *x;
    size_t n;
    const struct tmk_grid *grid;
    int power;
    double low, high; /* the extremes, zero included; of a centred grid the largest magnitude */
    double down, up;  /* the best range as parts of these */
    double error;
};

static void try_range(struct part_search *s, double down, double up) {
    const double error = tmk_weight_error(s->x, s->n, s->grid, s->power, (float)(s->low * down),
                                          (float)(s->high * up));
    if (error < s->error) {
        s->error = error;
        s->down = down;
        s->up = up;
    }
}

enum { BOTH, LOW, HIGH };

static void try_part(struct part_search *s, int end, double part, double down, double up) {
    try_range(s, end == HIGH ? down : part, end == LOW ? up : part);
}

/* Between the neighbours of the best, which are `step` off. */
static void refine_range(struct part_search *s, int end, double step) {
    for (int round = 0; round < ROUNDS; round++, step = 2 * step / RANGES_AROUND) {
        const double down = s->down, up = s->up, from = (end == HIGH ? up : down) - step;
        for (int i = 0; i <= RANGES_AROUND; i++)
            if (from + 2 * step * i / RANGES_AROUND > 0)
                try_part(s, end, from + 2 * step * i / RANGES_AROUND, down, up);
    }
}

static void search_end(struct part_search *s, int end, double widest, uint32_t tries) {
    const double down = s->down, up = s->up, step = (widest - evenly) / tries;
    for (uint32_t i = 0; i <= tries; i++)
        try_part(s, end, widest - step * i, down, up);
    for (double part = evenly; part > narrowest; part *= ratio)
        try_part(s, end, part, down, up);
    const double best = end == HIGH ? s->up : s->down;
    refine_range(s, end, best < evenly ? best * (1 - ratio) : step);
}

void tmk_weight_search(const float *x, size_t n, const struct tmk_grid *grid, int power,
                       uint32_t tries, float *low, float *high) {
    struct part_search s = {.x = x, .n = n, .grid = grid, .power = power, .down = 1, .up = 1};
    const bool centred = tmk_grid_is_centred(grid);
    int32_t lowest, highest;
    double widest = 1;
    s.error = tmk_weight_error(x, n, grid, power, *low, *high);
    s.low = fmin((double)*low, 0);
    s.high = fmax((double)*high, 0);
    if (centred) {
        s.high = fmax(-s.low, s.high);
        s.low = -s.high;
        /* so that no number is beyond the highest code, of which there are fewer than lower ones */
        if (tmk_grid_codes(grid, &lowest, &highest))
            widest =
                ((double)highest - lowest) / (2 * (highest - rint(((double)lowest + highest) / 2)));
    }
    const double before = s.error;
    search_end(&s, BOTH, widest, tries);
    for (int round = 0; !centred && round < ROUNDS; round++) {
        if (s.low < 0)
            search_end(&s, LOW, 1, tries);
        if (s.high > 0)
            search_end(&s, HIGH, 1, tries);
    }
    if (s.error < before) {
        *low = (float)(s.low * s.down);
        *high = (float)(s.high * s.up);
    }
}

/* ---- the error of a sum of products ----
 *
 * sum(w x) of n products, where the x have the mean m and the variance v and do not depend on each
 * other, is off by v sum(d^2) + m^2 sum(d)^2 on average, d being the weights' errors. Behind a Relu
 * m^2 is as large as v, so that the second part is half of it, the same in all samples and at all
 * places: means over places do not make it smaller. It jumps from one scale to the next, so that
 * one of a few hundred scales has hardly any of it, and no larger a first part. */

/* Of the weights' errors, in steps of the scale. */
struct code_errors {
    double square, sum;
};

static inline void add_code_error(float real, float most, float *square, float *sum) {
    float code = real < -most ? -most : real;
    code = code > most ? most : code;
    const float off = ((code + rounder) - rounder) - real;
    *square += off * off;
    *sum += off;
}

static struct code_errors errors_of_codes(const float *x, size_t n, float scale, float most) {
    struct code_errors all = {0, 0};
    const float inverse = 1 / scale;
    for (size_t first = 0; first < n; first += CHUNK) {
        float square[LANES] = {0}, sum[LANES] = {0};
        const size_t end = n - first < CHUNK ? n - first : CHUNK;
        size_t i = 0;
        for (; i + LANES <= end; i += LANES)
            for (size_t l = 0; l < LANES; l++)
                add_code_error(x[first + i + l] * inverse, most, &square[l], &sum[l]);
        for (; i < end; i++)
            add_code_error(x[first + i] * inverse, most, &square[0], &sum[0]);
        for (size_t l = 0; l < LANES; l++) {
            all.square += (double)square[l];
            all.sum += (double)sum[l];
        }
    }
    return all;
}

void tmk_weight_search_sums(const float *x, size_t n, const struct tmk_grid *grid, double mean,
                            double variance, uint32_t tries, float *high) {
    const double most = (double)*high;
    double least = HUGE_VAL;
    int32_t lowest, highest, zero;
    float scale;
    if (!tmk_grid_codes(grid, &lowest, &highest))
        return;
    for (uint32_t i = 0; i <= tries; i++) {
        /* from the extremes outwards and inwards: of equal ones the first */
        const double part = 1 + (i % 2 ? wider : narrower) * ((i + 1) / 2) / (tries / 2.0);
        if (tmk_grid_fit(grid, (float)(-most * part), (float)(most * part), &scale, &zero, NULL) !=
            TMK_OK)
            continue;
        const struct code_errors errors = errors_of_codes(x, n, scale, (float)(highest - zero));
        const double cost = (double)scale * (double)scale *
                            (variance * errors.square + mean * mean * errors.sum * errors.sum);
        if (cost < least) {
            least = cost;
            *high = (float)(most * part);
        }
    }
}

/* Ranges that are tried for each scale: more of small weights, where the error jumps more. */
enum { FEWEST_TRIES = 64, MOST_TRIES = 1024, MOST_SUMS = 128, NUMBERS = 1 << 22 };

static enum tmk_status refuse_values(const struct tmk_spread *spread, const struct tmk_grid *grid,
                                     double parameter, struct tmk_clip_choice *out,
                                     struct tmk_diag *diag) {
    (void)spread;
    (void)grid;
    (void)parameter;
    (void)out;
    return tmk_fail(diag, TMK_UNSUPPORTED,
                    "l4 is a method for weights, and needs the model that they are in");
}

const struct tmk_method tmk_method_l4 = {
    .name = "l4",
    .help = "the range with the least fourth power of the error",
    .choose = refuse_values,
};

/* The power of the error that the method minimises; 0: it is for histograms. */
static int power_of(const struct tmk_method *method) {
    return method == &tmk_method_l4 ? 4 : strcmp(method->name, "mse") == 0 ? 2 : 0;
}

static bool is_for_sums(const struct tmk_method *method) {
    return strcmp(method->name, "auto") == 0;
}

/* ---- which scales ---- */

/* The axis along which the matrix product sums up; -1: it is none, or the axis is not known. */
static int32_t summed_axis(const struct tmk_make *make, const struct tmk_net_use *use,
                           const struct tmk_shape *shape, int32_t channel_axis) {
    const struct tmk_net_node *node = &make->selection->net->nodes[use->node];
    const struct tmk_traits *traits = node->traits;
    if (traits->product != TMK_PRODUCT_MATRIX || use->input != 1 || shape->rank < 2)
        return -1;
    if (strcmp(node->op, "MatMul") == 0)
        return shape->rank - 2;
    return shape->rank == 2 && channel_axis >= 0 && channel_axis < 2 ? 1 - channel_axis : -1;
}

/* The same for all readers of the pick, or -1. */
static int32_t block_axis(const struct tmk_make *make, uint32_t pick, const struct tmk_shape *shape,
                          int32_t channel_axis) {
    const struct tmk_selection *s = make->selection;
    const struct tmk_net *net = s->net;
    const uint32_t v = s->picks[pick].value;
    int32_t axis = -1;
    bool first = true;
    for (uint32_t k = net->first_use[v]; k < net->first_use[v + 1]; k++) {
        if (s->use_pick[k] != pick)
            continue;
        const int32_t of_use = summed_axis(make, &net->uses[k], shape, channel_axis);
        if (!first && of_use != axis)
            return -1;
        axis = of_use;
        first = false;
    }
    return axis;
}

/* ---- their ranges ---- */

struct weight {
    const struct tmk_tensor *real;
    double mean, variance; /* of what it is multiplied by, for sums */
    struct tmk_scale_layout layout;
    float *numbers; /* the finite ones under one scale; room for all */
    size_t n;
    float low, high;
};

static void add_number(struct weight *w, float x) {
    if (!isfinite(x))
        return;
    w->low = w->n && w->low < x ? w->low : x;
    w->high = w->n && w->high > x ? w->high : x;
    w->numbers[w->n++] = x;
}

/* Mean and variance of the elements that the pick's first reader multiplies by it; false: they are
 * not known, or its sums are not those of the channels. */
static bool find_factors(const struct tmk_make *make, uint32_t pick, struct weight *w) {
    const struct tmk_selection *s = make->selection;
    const struct tmk_net *net = s->net;
    const uint32_t v = s->picks[pick].value;
    struct tmk_summary facts;
    uint32_t k = net->first_use[v];
    while (k < net->first_use[v + 1] && s->use_pick[k] != pick)
        k++;
    if (k == net->first_use[v + 1] || net->uses[k].input != 1)
        return false;
    const struct tmk_net_node *node = &net->nodes[net->uses[k].node];
    const struct tmk_traits *traits = node->traits;
    const uint32_t x = tmk_net_input(net, net->uses[k].node, 0);
    if (traits->class != TMK_OP_MACC || traits->product == TMK_PRODUCT_CONV_TRANSPOSED ||
        x == TMK_NET_NONE || !tmk_net_tensor(net, x)->stats)
        return false;
    tmk_stats_summary(tmk_net_tensor(net, x)->stats, &facts);
    w->mean = facts.mean;
    w->variance = facts.sumsq_est / (double)facts.finite - facts.mean * facts.mean;
    return facts.finite && isfinite(w->variance) && w->variance > 0;
}

/* Those under the i-th scale. */
static void gather_numbers(struct weight *w, const struct tmk_encoding *e, size_t i) {
    const struct tmk_scale_layout *l = &w->layout;
    const float *data = w->real->data;
    const size_t count = tmk_tensor_count(w->real);
    w->n = 0;
    w->low = w->high = 0;
    if (e->axis < 0) {
        for (size_t k = 0; k < count; k++)
            add_number(w, data[k]);
    } else if (l->block) {
        const size_t row = i / l->inner, first = row % l->blocks * l->block;
        const float *from = data + row / l->blocks * l->dim * l->inner + i % l->inner;
        for (size_t k = first; k < first + l->block && k < l->dim; k++)
            add_number(w, from[k * l->inner]);
    } else {
        for (size_t at = i * l->inner; at < count; at += l->dim * l->inner)
            for (size_t k = 0; k < l->inner; k++)
                add_number(w, data[at + k]);
    }
}

static uint32_t tries_for(const struct weight *w, uint32_t most) {
    const size_t tries = NUMBERS / (tmk_tensor_count(w->real) + 1);
    return tries < FEWEST_TRIES ? FEWEST_TRIES : tries < most ? (uint32_t)tries : most;
}

/* ---- ranges that were found before ---- */

/* All that they depend on, beside the numbers of the weight. */
struct known_ranges {
    uint32_t id, n, block;
    int32_t axis;
    struct tmk_grid grid;
    const struct tmk_method *method;
    double mean, variance;
    float *ends; /* [2][n]: the low ones, the high ones; malloc'ed */
};

struct tmk_weight_ranges {
    struct known_ranges *list;
    uint32_t n, room;
};

struct tmk_weight_ranges *tmk_weight_ranges_create(void) {
    return calloc(1, sizeof(struct tmk_weight_ranges));
}

void tmk_weight_ranges_destroy(struct tmk_weight_ranges **slot) {
    struct tmk_weight_ranges *known = *slot;
    *slot = NULL;
    for (uint32_t i = 0; known && i < known->n; i++)
        free(known->list[i].ends);
    if (known)
        free(known->list);
    free(known);
}

static struct known_ranges describe_ranges(const struct tmk_encoding *e, const struct weight *w,
                                           const struct tmk_method *method) {
    return (struct known_ranges){.id = e->id,
                                 .n = e->n,
                                 .block = e->block,
                                 .axis = e->axis,
                                 .grid = {e->dtype, e->symmetric, e->narrow, e->pow2},
                                 .method = method,
                                 .mean = w->mean,
                                 .variance = w->variance};
}

static bool are_ranges_of(const struct known_ranges *a, const struct known_ranges *b) {
    return a->id == b->id && a->n == b->n && a->block == b->block && a->axis == b->axis &&
           a->method == b->method && a->grid.dtype == b->grid.dtype &&
           a->grid.symmetric == b->grid.symmetric && a->grid.narrow == b->grid.narrow &&
           a->grid.pow2 == b->grid.pow2 && a->mean == b->mean && a->variance == b->variance;
}

static bool recall_ranges(const struct tmk_weight_ranges *known, const struct known_ranges *wanted,
                          struct tmk_encoding *e) {
    for (uint32_t i = 0; known && i < known->n; i++)
        if (are_ranges_of(&known->list[i], wanted)) {
            memcpy(e->low, known->list[i].ends, e->n * sizeof *e->low);
            memcpy(e->high, known->list[i].ends + e->n, e->n * sizeof *e->high);
            return true;
        }
    return false;
}

static enum tmk_status keep_ranges(struct tmk_weight_ranges *known, struct known_ranges ranges,
                                   const struct tmk_encoding *e, struct tmk_diag *diag) {
    if (!known)
        return TMK_OK;
    if (known->n == known->room) {
        const uint32_t room = 2 * known->room + 16;
        struct known_ranges *list = realloc(known->list, room * sizeof *list);
        TMK_TRY_ALLOC(list, diag);
        known->list = list;
        known->room = room;
    }
    ranges.ends = malloc(2 * (size_t)e->n * sizeof *ranges.ends);
    TMK_TRY_ALLOC(ranges.ends, diag);
    memcpy(ranges.ends, e->low, e->n * sizeof *e->low);
    memcpy(ranges.ends + e->n, e->high, e->n * sizeof *e->high);
    known->list[known->n++] = ranges;
    return TMK_OK;
}

static enum tmk_status find_ranges(const struct tmk_make *make, const struct tmk_method *method,
                                   const struct tmk_grid *grid, struct weight *w,
                                   struct tmk_encoding *e) {
    const int power = power_of(method);
    const bool sums = is_for_sums(method);
    const uint32_t tries = tries_for(w, sums ? MOST_SUMS : MOST_TRIES);
    for (uint32_t i = 0; i < e->n; i++) {
        TMK_TRY(tmk_make_goes_on(make));
        gather_numbers(w, e, i);
        if (sums) {
            w->high = fmaxf(w->high, -w->low);
            if (w->high > 0)
                tmk_weight_search_sums(w->numbers, w->n, grid, w->mean, w->variance, tries,
                                       &w->high);
            w->low = -w->high;
        } else if (power && w->n) {
            tmk_weight_search(w->numbers, w->n, grid, power, tries, &w->low, &w->high);
        }
        e->low[i] = w->low;
        e->high[i] = w->high;
    }
    return TMK_OK;
}

static enum tmk_status choose_ranges(const struct tmk_make *make, uint32_t pick, struct weight *w) {
    struct tmk_encoding *e = &make->items[pick];
    const struct tmk_grid grid = {e->dtype, e->symmetric, e->narrow, e->pow2};
    const struct tmk_method *method = make->selection->picks[pick].terms.method;
    const struct known_ranges described = describe_ranges(e, w, method);
    if (!recall_ranges(make->known, &described, e)) {
        TMK_TRY(find_ranges(make, method, &grid, w, e));
        TMK_TRY(keep_ranges(make->known, described, e, make->diag));
    }
    for (uint32_t i = 0; i < e->n; i++) {
        TMK_TRY(tmk_grid_fit(&grid, e->low[i], e->high[i], &e->scale[i], &e->zero_point[i],
                             make->diag));
        if (e->symmetric)
            e->zero_point[i] = tmk_encoding_middle(e->dtype);
    }
    tmk_encoding_set_clip(e);
    return TMK_OK;
}

static enum tmk_status fill_weight(struct tmk_make *make, uint32_t pick, struct weight *w) {
    struct tmk_encoding *e = &make->items[pick];
    if (!tmk_scale_layout_init(&w->layout, e, &w->real->shape))
        return tmk_fail(make->diag, TMK_MISMATCH, "p%" PRIu32 " '%s': %" PRIu32 " channels", e->id,
                        e->name, e->n);
    w->numbers = malloc((tmk_tensor_count(w->real) + 1) * sizeof *w->numbers);
    TMK_TRY_ALLOC(w->numbers, make->diag);
    enum tmk_status status = choose_ranges(make, pick, w);
    free(w->numbers);
    return status;
}

/* The numbers must be the profile's: of its shape, min and max. */
static enum tmk_status check_constant(const struct tmk_make *make, uint32_t pick,
                                      const struct tmk_tensor *real,
                                      const struct tmk_summary *facts) {
    const struct tmk_profile_tensor *t = tmk_make_tensor(make, pick);
    const float *data = real->data;
    float low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < tmk_tensor_count(real); i++)
        if (isfinite(data[i])) {
            low = fminf(low, data[i]);
            high = fmaxf(high, data[i]);
        }
    if ((t->has_shape && !tmk_shape_equal(&t->shape, &real->shape)) ||
        (low <= high && (low != facts->min || high != facts->max)))
        return tmk_fail(make->diag, TMK_MISMATCH,
                        "p%" PRIu32 " '%s' of the model is not the weight that was profiled", t->id,
                        t->name);
    return TMK_OK;
}

/* The scales that the weight gets: how many, along which axis, in which blocks. n stays 0: those
 * that it has without its numbers. */
static enum tmk_status begin_scales(struct tmk_make *make, uint32_t pick,
                                    const struct tmk_tensor *real,
                                    const struct tmk_summary *facts) {
    const struct tmk_terms *terms = &make->selection->picks[pick].terms;
    const bool channels = terms->channels && facts->channels > 0 && facts->channel_axis >= 0;
    const int32_t axis =
        terms->block ? block_axis(make, pick, &real->shape, facts->channel_axis) : -1;
    const bool searched = power_of(terms->method) || is_for_sums(terms->method);
    size_t n = channels ? (size_t)facts->channels : 1;
    if (axis >= 0) {
        const size_t dim = (size_t)real->shape.dim[axis], block = terms->block;
        n = dim ? tmk_tensor_count(real) / dim * (dim / block + (dim % block != 0)) : 0;
    }
    if (!n || (!searched && axis < 0))
        return TMK_OK;
    if (n > UINT32_MAX)
        return tmk_fail(make->diag, TMK_LIMIT, "%zu scales are too many", n);
    TMK_TRY(tmk_make_begin(make, pick, (uint32_t)n));
    struct tmk_encoding *e = &make->items[pick];
    e->axis = axis >= 0 ? axis : channels ? facts->channel_axis : -1;
    e->block = axis >= 0 ? terms->block : 0;
    e->method = searched ? terms->method->name : "minmax";
    /* where ranges are searched, the lowest of 16 codes is worth having */
    if (axis >= 0 && searched && e->dtype == TMK_INT4)
        e->narrow = false;
    return TMK_OK;
}

enum tmk_status tmk_make_weight(struct tmk_make *make, uint32_t pick, bool *done) {
    const struct tmk_terms *terms = &make->selection->picks[pick].terms;
    const struct tmk_profile_tensor *t = tmk_make_tensor(make, pick);
    struct tmk_summary facts;
    const bool sums = is_for_sums(terms->method);
    if (terms->has_range || (!power_of(terms->method) && !terms->block && !sums))
        return TMK_OK;
    if (!make->constant && terms->block)
        return tmk_fail(make->diag, TMK_ARGUMENT,
                        "p%" PRIu32 " '%s': scales by block need the model that the weights are in",
                        t->id, t->name);
    struct weight w = {.real = NULL};
    tmk_stats_quick_summary(t->stats, &facts);
    if (sums && (!terms->channels || !facts.channels || facts.channel_axis < 0 || !make->constant ||
                 !terms->grid.symmetric || tmk_dtype_bits(terms->grid.dtype) != 8 ||
                 !tmk_dtype_is_integer(terms->grid.dtype) || !find_factors(make, pick, &w)))
        return TMK_OK;
    w.real = make->constant ? make->constant(make->model, t->id) : NULL;
    if (make->constant && !w.real && !sums)
        tmk_make_remark(make,
                        "p%" PRIu32 " '%s' is no constant of the model that could be read: its "
                        "range is the profile's",
                        t->id, t->name);
    if (!w.real)
        return TMK_OK;
    TMK_TRY(check_constant(make, pick, w.real, &facts));
    TMK_TRY(tmk_in(make->diag, begin_scales(make, pick, w.real, &facts), "p%" PRIu32 " '%s'", t->id,
                   t->name));
    *done = make->items[pick].n > 0;
    return *done ? fill_weight(make, pick, &w) : TMK_OK;
}
