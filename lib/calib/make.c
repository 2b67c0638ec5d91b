/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/make.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/text.h"
#include "calib/encodings.h"

void tmk_make_remark(const struct tmk_make *make, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    tmk_pass_remark(make->remark, make->context, fmt, args);
    va_end(args);
}

enum tmk_status tmk_make_goes_on(const struct tmk_make *make) {
    return make->stop && make->stop(make->context)
               ? tmk_fail(make->diag, TMK_INTERRUPTED, "stopped before all values have encodings")
               : TMK_OK;
}

const struct tmk_profile_tensor *tmk_make_tensor(const struct tmk_make *make, uint32_t pick) {
    const struct tmk_selection *s = make->selection;
    return &s->net->profile->tensors[s->picks[pick].value];
}

/* Whose numbers are the pick's range. */
static const struct tmk_profile_tensor *numbers_of(const struct tmk_make *make, uint32_t pick) {
    return &make->selection->net->profile->tensors[make->ties->numbers[pick]];
}

enum tmk_status tmk_make_begin(struct tmk_make *make, uint32_t pick, uint32_t n) {
    const struct tmk_pick *p = &make->selection->picks[pick];
    const struct tmk_profile_tensor *t = tmk_make_tensor(make, pick);
    struct tmk_encoding *e = &make->items[pick];
    struct tmk_summary facts;
    tmk_stats_quick_summary(t->stats, &facts);
    *e = (struct tmk_encoding){
        .id = t->id,
        .fingerprint = t->fingerprint,
        .name = t->name, /* the profile's, for now */
        .role = p->role,
        .dtype = p->terms.grid.dtype,
        .symmetric = p->terms.grid.symmetric,
        .narrow = p->terms.grid.narrow,
        .pow2 = p->terms.grid.pow2,
        .axis = -1,
        .observed_min = facts.min,
        .observed_max = facts.max,
        .method = "given",
        .rule = "",
    };
    return tmk_encoding_allocate(make->encodings, e, n, make->diag);
}

/* ---- one scale a channel ---- */

static bool by_channel(const struct tmk_make *make, uint32_t pick, struct tmk_summary *facts) {
    tmk_stats_quick_summary(tmk_make_tensor(make, pick)->stats, facts);
    return make->selection->picks[pick].terms.channels && facts->channels > 0 &&
           facts->channel_axis >= 0;
}

static enum tmk_status make_channels(struct tmk_make *make, uint32_t pick,
                                     const struct tmk_summary *facts) {
    const struct tmk_grid *grid = &make->selection->picks[pick].terms.grid;
    struct tmk_encoding *e = &make->items[pick];
    TMK_TRY(tmk_make_begin(make, pick, (uint32_t)facts->channels));
    e->axis = facts->channel_axis;
    e->method = "minmax";
    for (uint32_t c = 0; c < e->n; c++) {
        bool some = facts->channel_min[c] <= facts->channel_max[c]; /* a finite element */
        e->low[c] = some ? facts->channel_min[c] : 0;
        e->high[c] = some ? facts->channel_max[c] : 0;
        TMK_TRY(
            tmk_grid_fit(grid, e->low[c], e->high[c], &e->scale[c], &e->zero_point[c], make->diag));
    }
    tmk_encoding_set_clip(e);
    return TMK_OK;
}

/* ---- codes that the model has ---- */

static const char has_codes[] = "has-codes";

/* A target that takes other ones gets others. */
static bool are_wanted(const struct tmk_make *make, uint32_t pick, const struct tmk_encoding *e) {
    const struct tmk_terms *terms = &make->selection->picks[pick].terms;
    return !make->targeted ||
           (e->dtype == terms->grid.dtype && (e->symmetric || !terms->grid.symmetric) &&
            (e->pow2 || !terms->grid.pow2) && (e->axis < 0 || terms->channels) &&
            e->block == terms->block);
}

static enum tmk_status keep_codes(struct tmk_make *make, uint32_t pick, bool *done) {
    const struct tmk_profile_tensor *t = tmk_make_tensor(make, pick);
    const struct tmk_encoding *of = make->codes ? make->codes(make->model, t->id) : NULL;
    if (!of || of->fingerprint != t->fingerprint || !tmk_encoding_is_type(of->dtype) ||
        of->dtype == TMK_INT32 ||
        (of->block && make->selection->picks[pick].role != TMK_ENCODING_WEIGHT))
        return TMK_OK;
    TMK_TRY(tmk_make_begin(make, pick, of->n));
    struct tmk_encoding *e = &make->items[pick];
    e->dtype = of->dtype;
    e->axis = of->axis;
    e->block = of->block;
    e->narrow = false;
    e->symmetric = e->pow2 = true;
    e->rule = has_codes;
    for (uint32_t i = 0; i < of->n; i++) {
        int exponent;
        e->scale[i] = of->scale[i];
        e->zero_point[i] = of->zero_point[i];
        e->symmetric = e->symmetric && of->zero_point[i] == tmk_encoding_middle(of->dtype);
        e->pow2 = e->pow2 && frexpf(of->scale[i], &exponent) == 0.5f;
    }
    tmk_encoding_set_clip(e);
    memcpy(e->low, e->clip_min, e->n * sizeof *e->low);
    memcpy(e->high, e->clip_max, e->n * sizeof *e->high);
    *done = are_wanted(make, pick, e);
    return TMK_OK;
}

/* ---- one scale for all, shared by a group ---- */

struct group {
    const uint32_t *members;
    uint32_t n;
    uint32_t *sources; /* whose numbers all others' are */
    uint32_t n_sources;
    struct tmk_clip_choice choice;
    const char *method;
    float scale;
    int32_t zero_point;
};

static bool has_histogram(const struct tmk_make *make, uint32_t pick) {
    return tmk_stats_level_of(numbers_of(make, pick)->stats) == TMK_STATS_HISTOGRAM;
}

/* The exact merge of the picks' numbers; without histograms only the extremes. */
static enum tmk_status spread_of(const struct tmk_make *make, const uint32_t *picks, uint32_t n,
                                 struct tmk_spread *out) {
    const struct tmk_stats **stats = calloc(n, sizeof *stats);
    enum tmk_status status = TMK_OK;
    bool all = true;
    *out = (struct tmk_spread){.min = INFINITY, .max = -INFINITY};
    TMK_TRY_ALLOC(stats, make->diag);
    for (uint32_t i = 0; i < n; i++) {
        struct tmk_summary facts;
        stats[i] = numbers_of(make, picks[i])->stats;
        tmk_stats_quick_summary(stats[i], &facts);
        out->min = fminf(out->min, facts.min);
        out->max = fmaxf(out->max, facts.max);
        all = all && has_histogram(make, picks[i]);
    }
    if (all)
        status = tmk_spread_make(stats, n, out, make->diag);
    free(stats);
    all = true;
    for (uint32_t i = 0; i < n && all; i++)
        all = tmk_spread_take_topk(out, make->selection->net->profile,
                                   tmk_make_tensor(make, picks[i]));
    if (!all)
        out->topk.n = 0;
    all = true;
    for (uint32_t i = 0; i < n; i++)
        all = all && numbers_of(make, picks[i])->sample_min;
    for (uint32_t i = 0; i < n && all && status == TMK_OK; i++) {
        const struct tmk_profile_tensor *t = numbers_of(make, picks[i]);
        status =
            tmk_spread_take_samples(out, t->sample_min, t->sample_max, t->n_samples, make->diag);
    }
    if (status != TMK_OK)
        tmk_spread_finish(out);
    return status;
}

/* Weights whose sums are not known have the range that they have. */
static const struct tmk_method *method_of(const struct tmk_make *make, uint32_t pick) {
    const struct tmk_pick *p = &make->selection->picks[pick];
    bool weight = p->role == TMK_ENCODING_WEIGHT && p->terms.method == tmk_method_list()[0];
    return weight ? tmk_method_find("minmax") : p->terms.method;
}

static enum tmk_status run_method(const struct tmk_make *make, uint32_t pick,
                                  const struct tmk_spread *spread, struct tmk_clip_choice *out) {
    const struct tmk_terms *terms = &make->selection->picks[pick].terms;
    const struct tmk_method *method = method_of(make, pick);
    const struct tmk_profile_tensor *t = tmk_make_tensor(make, pick);
    const bool wide = method->wide_parameter > 0 && tmk_dtype_bits(terms->grid.dtype) > 8;
    const double otherwise = wide ? method->wide_parameter : method->parameter,
                 parameter = terms->parameter > 0 ? terms->parameter : otherwise;
    if (method->wants_histogram && !has_histogram(make, pick))
        return tmk_fail(make->diag, TMK_UNSUPPORTED,
                        "p%" PRIu32 " '%s' has no histogram, which the method %s wants: profile "
                        "with --kind histogram, or take --method minmax",
                        t->id, t->name, method->name);
    return tmk_in(make->diag, method->choose(spread, &terms->grid, parameter, out, make->diag),
                  "p%" PRIu32 " '%s'", t->id, t->name);
}

static struct tmk_clip_choice fixed_range(float low, float high) {
    return (struct tmk_clip_choice){low,         high,         (double)low,
                                    (double)low, (double)high, (double)high};
}

/* The range of the group, and its scale. */
static enum tmk_status choose_range(const struct tmk_make *make, struct group *g,
                                    const struct tmk_spread *spread) {
    const struct tmk_terms *terms = &make->selection->picks[g->sources[0]].terms;
    bool unit = true;
    for (uint32_t i = 0; i < g->n_sources; i++)
        unit = unit && make->ties->unit[g->sources[i]] != NULL;
    g->method = "given";
    if (terms->has_range) {
        g->choice = fixed_range(terms->low, terms->high);
    } else if (unit) {
        g->choice = fixed_range(0, 1);
    } else {
        TMK_TRY(run_method(make, g->sources[0], spread, &g->choice));
        g->method = method_of(make, g->sources[0])->name;
    }
    return tmk_grid_fit(&terms->grid, g->choice.low, g->choice.high, &g->scale, &g->zero_point,
                        make->diag);
}

/* How much worse the shared scale is than the value's own would be. */
static enum tmk_status cost_of_tying(const struct tmk_make *make, uint32_t pick,
                                     const struct tmk_spread *spread, double mse, double *out) {
    const struct tmk_terms *terms = &make->selection->picks[pick].terms;
    static const double most = 1e9;
    struct tmk_clip_choice choice;
    float scale;
    int32_t zero_point;
    TMK_TRY(run_method(make, pick, spread, &choice));
    TMK_TRY(tmk_grid_fit(&terms->grid, choice.low, choice.high, &scale, &zero_point, make->diag));
    double alone = tmk_expect_mse(spread, &terms->grid, (double)scale, zero_point);
    *out = alone > 0 ? fmin(mse / alone, most) : mse > 0 ? most : 1;
    return TMK_OK;
}

static enum tmk_status tell_expected(const struct tmk_make *make, uint32_t pick,
                                     const struct group *g, const struct tmk_spread *spread) {
    const struct tmk_terms *terms = &make->selection->picks[pick].terms;
    struct tmk_encoding *e = &make->items[pick];
    struct tmk_expectation told;
    tmk_expect(spread, &terms->grid, g->scale, g->zero_point, &told);
    e->expected.known = true;
    e->expected.mse = told.mse;
    e->expected.mse_low = told.mse_low;
    e->expected.mse_high = told.mse_high;
    e->expected.sqnr = told.sqnr;
    e->expected.clipped = told.clipped;
    e->expected.clipped_low = told.clipped_low;
    e->expected.clipped_high = told.clipped_high;
    e->expected.codes = told.codes;
    e->expected.flat = g->choice.flat;
    e->expected.flat_low = g->choice.flat ? g->choice.flat_low : 0;
    e->expected.flat_high = g->choice.flat ? g->choice.flat_high : 0;
    e->expected.low_from = g->choice.low_from;
    e->expected.low_to = g->choice.low_to;
    e->expected.high_from = g->choice.high_from;
    e->expected.high_to = g->choice.high_to;
    e->expected.tying = g->n > 1 ? 1 : 0;
    if (g->n_sources > 1 && !terms->has_range)
        return cost_of_tying(make, pick, spread, told.mse, &e->expected.tying);
    return TMK_OK;
}

static const char *rule_of(const struct tmk_make *make, uint32_t pick, const struct group *g) {
    const struct tmk_ties *ties = make->ties;
    if (make->selection->picks[pick].terms.has_range)
        return "config";
    if (ties->numbers[pick] != make->selection->picks[pick].value)
        return tmk_built_in_name(TMK_RULE_AFTER_RELU);
    if (ties->unit[pick] && g->n_sources == 1 && !ties->covered[pick])
        return ties->unit[pick];
    return ties->rule[pick] && (ties->covered[pick] || g->n_sources > 1) ? ties->rule[pick] : "";
}

static enum tmk_status make_member(struct tmk_make *make, uint32_t pick, const struct group *g,
                                   const struct tmk_spread *shared, uint32_t number) {
    struct tmk_encoding *e = &make->items[pick];
    TMK_TRY(tmk_make_begin(make, pick, 1));
    e->scale[0] = g->scale;
    e->zero_point[0] = g->zero_point;
    e->low[0] = g->choice.low;
    e->high[0] = g->choice.high;
    e->method = g->method;
    e->rule = rule_of(make, pick, g);
    e->group = number;
    tmk_encoding_set_clip(e);
    if (!has_histogram(make, pick))
        return TMK_OK;
    if (g->n_sources == 1 && g->sources[0] == pick)
        return tell_expected(make, pick, g, shared);
    struct tmk_spread own;
    TMK_TRY(spread_of(make, &pick, 1, &own));
    enum tmk_status status = tell_expected(make, pick, g, &own);
    tmk_spread_finish(&own);
    return status;
}

/* The members' own numbers decide, each once: not those that others' are copies or parts of. */
static void find_sources(const struct tmk_make *make, struct group *g) {
    g->n_sources = 0;
    for (uint32_t i = 0; i < g->n; i++)
        if (!make->ties->covered[g->members[i]])
            g->sources[g->n_sources++] = g->members[i];
    for (uint32_t i = 0; !g->n_sources && i < g->n; i++) /* round a loop */
        g->sources[g->n_sources++] = g->members[i];
}

static enum tmk_status make_group(struct tmk_make *make, struct group *g, uint32_t number) {
    struct tmk_spread spread;
    find_sources(make, g);
    TMK_TRY(spread_of(make, g->sources, g->n_sources, &spread));
    enum tmk_status status = choose_range(make, g, &spread);
    for (uint32_t i = 0; status == TMK_OK && i < g->n; i++)
        status = make_member(make, g->members[i], g, &spread, number);
    tmk_spread_finish(&spread);
    return status;
}

/* ---- all of them ---- */

/* Members of each group one after the other, groups in the order of their first members. */
static uint32_t *members_by_group(const struct tmk_make *make, uint32_t **first) {
    uint32_t n = make->selection->n_picks;
    uint32_t *members = malloc(((size_t)n + 1) * sizeof *members),
             *at = calloc((size_t)n + 1, sizeof *at);
    if (!members || !at) {
        free(members);
        free(at);
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++)
        at[tmk_tie_root(make->ties, i) + 1]++;
    for (uint32_t i = 0; i < n; i++)
        at[i + 1] += at[i];
    for (uint32_t i = 0; i < n; i++)
        members[at[tmk_tie_root(make->ties, i)]++] = i;
    memmove(at + 1, at, n * sizeof *at);
    at[0] = 0;
    *first = at;
    return members;
}

/* What is in front of Relu takes over the encoding behind it. */
static enum tmk_status take_over_range(struct tmk_make *make, uint32_t pick, uint32_t *groups) {
    struct tmk_encoding *e = &make->items[pick], *from = &make->items[make->ties->takes[pick]];
    if (!from->group)
        from->group = ++*groups;
    if (!from->expected.tying)
        from->expected.tying = 1;
    TMK_TRY(tmk_make_begin(make, pick, 1));
    e->scale[0] = from->scale[0];
    e->zero_point[0] = from->zero_point[0];
    e->low[0] = from->low[0];
    e->high[0] = from->high[0];
    e->method = from->method;
    e->rule = tmk_built_in_name(TMK_RULE_AFTER_RELU);
    e->group = from->group;
    e->expected = from->expected;
    tmk_encoding_set_clip(e);
    return TMK_OK;
}

static enum tmk_status make_groups(struct tmk_make *make, const uint32_t *members,
                                   const uint32_t *first, uint32_t *sources) {
    uint32_t n = make->selection->n_picks, groups = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct group g = {
            .members = members + first[i], .n = first[i + 1] - first[i], .sources = sources};
        struct tmk_summary facts;
        if (!g.n || make->ties->takes[i] != TMK_NET_NONE ||
            make->selection->picks[i].role == TMK_ENCODING_BIAS)
            continue;
        TMK_TRY(tmk_make_goes_on(make));
        bool done = false;
        if (g.n == 1 && !make->selection->net->varies[make->selection->picks[i].value])
            TMK_TRY(keep_codes(make, i, &done));
        if (!done && g.n == 1 && make->selection->picks[i].role == TMK_ENCODING_WEIGHT)
            TMK_TRY(tmk_make_weight(make, i, &done));
        if (done)
            continue;
        if (g.n == 1 && by_channel(make, i, &facts))
            TMK_TRY(make_channels(make, i, &facts));
        else
            TMK_TRY(make_group(make, &g, g.n > 1 ? ++groups : 0));
    }
    for (uint32_t i = n; i-- > 0;)
        if (make->ties->takes[i] != TMK_NET_NONE)
            TMK_TRY(take_over_range(make, i, &groups));
    return TMK_OK;
}

/* ---- biases: int32 under the scale of the accumulator they are added to, input's times weight's
 * ---- */

/* The encodings of the two operands of the bias's node; false: one of them has none. */
static bool find_operands(const struct tmk_make *make, uint32_t pick, struct tmk_encoding *of[2]) {
    uint32_t macc = make->selection->picks[pick].macc;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t p = tmk_pick_of_input(make->selection, macc, i);
        if (p == TMK_NET_NONE || !make->items[p].n)
            return false;
        of[i] = &make->items[p];
    }
    return true;
}

/* Where the weight has a scale a channel, the other operand has one for all, and the bias an
 * element a channel, or there is no such scale. */
static const char *why_none(const struct tmk_make *make, uint32_t pick,
                            struct tmk_encoding *const of[2]) {
    const struct tmk_profile_tensor *t = tmk_make_tensor(make, pick);
    size_t elements = 0;
    if (tmk_dtype_is_float(of[0]->dtype) || tmk_dtype_is_float(of[1]->dtype))
        return "float: products of float8 numbers accumulate as floats";
    if (of[0]->n > 1 && of[1]->n > 1)
        return "float: its input has a scale a channel, and its weight, too";
    if (of[1]->block)
        return "float: its weight has scales by block";
    uint32_t n = of[0]->n > of[1]->n ? of[0]->n : of[1]->n;
    if (n > 1 && (!t->has_shape || !tmk_shape_count(&t->shape, &elements) || elements != n))
        return "float: it has not an element for each channel of the weight";
    return NULL;
}

static double max_bias(const struct tmk_make *make, uint32_t pick) {
    struct tmk_summary facts;
    tmk_stats_quick_summary(tmk_make_tensor(make, pick)->stats, &facts);
    return fmax(fabs((double)facts.min), fabs((double)facts.max));
}

/* The least scale under which the bias fits into int32, with a margin, as ONNX Runtime has it. */
static double least_scale(double magnitude) {
    return 1.0001 * (2 * magnitude) / ((double)INT32_MAX - (double)(INT32_MIN + 1));
}

/* Where the bias would overflow, the weight's scale is enlarged; NULL, or why it is not. */
static const char *make_it_fit(const struct tmk_make *make, uint32_t pick,
                               struct tmk_encoding *of[2]) {
    double least = least_scale(max_bias(make, pick));
    struct tmk_encoding *w = of[1];
    uint32_t enlarged = 0;
    for (uint32_t i = 0; w->role == TMK_ENCODING_WEIGHT && of[0]->n == 1 && i < w->n; i++) {
        double product = (double)of[0]->scale[0] * (double)w->scale[i];
        if (product >= least || !(product > 0))
            continue;
        if (w->rule == has_codes)
            return "float: int32 does not hold it under the scale of the weight's codes";
        double scale = (double)w->scale[i] * (least / product);
        if (w->pow2)
            scale = exp2(ceil(log2(scale)));
        w->scale[i] = (float)scale;
        enlarged++;
    }
    if (!enlarged)
        return NULL;
    w->rule = tmk_built_in_name(TMK_RULE_BIAS_FITS);
    w->expected.known = false;
    tmk_encoding_set_clip(w);
    tmk_make_remark(
        make,
        "p%u '%s': %u of its %u scales were enlarged, since a bias as large as the largest "
        "of p%u '%s' would not fit into int32",
        w->id, w->name, enlarged, w->n, tmk_make_tensor(make, pick)->id,
        tmk_make_tensor(make, pick)->name);
    return NULL;
}

static int32_t long_axis(const struct tmk_profile_tensor *t) {
    for (int32_t i = 0; i < t->shape.rank; i++)
        if (t->shape.dim[i] != 1)
            return i;
    return t->shape.rank - 1;
}

static enum tmk_status make_bias(struct tmk_make *make, uint32_t pick,
                                 struct tmk_encoding *const of[2]) {
    struct tmk_encoding *e = &make->items[pick];
    uint32_t n = of[0]->n > of[1]->n ? of[0]->n : of[1]->n;
    TMK_TRY(tmk_make_begin(make, pick, n));
    e->rule = "input-times-weight";
    e->pow2 = of[0]->pow2 && of[1]->pow2;
    e->n_sources = 2;
    for (uint32_t i = 0; i < 2; i++)
        e->sources[i] = of[i]->id;
    if (n > 1)
        e->axis = long_axis(tmk_make_tensor(make, pick));
    for (uint32_t i = 0; i < n; i++) {
        float scale = of[0]->scale[of[0]->n > 1 ? i : 0] * of[1]->scale[of[1]->n > 1 ? i : 0];
        e->scale[i] = scale >= FLT_MIN && isfinite(scale) ? scale : FLT_MIN;
        e->low[i] = e->observed_min;
        e->high[i] = e->observed_max;
    }
    tmk_encoding_set_clip(e);
    return TMK_OK;
}

static enum tmk_status make_biases(struct tmk_make *make) {
    struct tmk_encoding *of[2];
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < make->selection->n_picks; i++) {
            if (make->selection->picks[i].role != TMK_ENCODING_BIAS || make->dropped[i])
                continue;
            if (pass == 0) {
                make->dropped[i] = find_operands(make, i, of)
                                       ? why_none(make, i, of)
                                       : "float: the input or the weight of its operator is";
                if (!make->dropped[i] && make->config->built_in[TMK_RULE_BIAS_FITS])
                    make->dropped[i] = make_it_fit(make, i, of);
            } else if (find_operands(make, i, of)) {
                TMK_TRY(make_bias(make, i, of));
            }
        }
    return TMK_OK;
}

enum tmk_status tmk_make_items(struct tmk_make *make) {
    uint32_t *first = NULL, *members = members_by_group(make, &first);
    uint32_t *sources = malloc(((size_t)make->selection->n_picks + 1) * sizeof *sources);
    enum tmk_status status =
        members && sources ? make_groups(make, members, first, sources) : tmk_nomem(make->diag);
    free(sources);
    free(members);
    free(first);
    return status == TMK_OK ? make_biases(make) : status;
}
