/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/select.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "base/text.h"
#include "calib/config.h"
#include "calib/encodings.h"
#include "calib/net.h"

/* Values inside of what a target computes in one step. */

/* The node that alone reads the result of this one; TMK_NET_NONE: none, or several. */
static uint32_t only_reader(const struct tmk_net *net, uint32_t v) {
    return tmk_net_tensor(net, v)->kind == TMK_PROFILE_OUTPUT || tmk_net_readers(net, v) != 1
               ? TMK_NET_NONE
               : net->uses[net->first_use[v]].node;
}

/* A sum takes one accumulator; its other operand has codes, and is no constant, which would be a
 * bias. */
static bool is_only_accumulator(const struct tmk_net *net, uint32_t sum, uint32_t v,
                                const char *const *reason) {
    const struct tmk_net_node *n = &net->nodes[sum];
    for (uint32_t i = 0; i < n->n_inputs; i++) {
        const uint32_t x = n->inputs[i];
        if (x != v && (!tmk_net_varies(net, x) || reason[x]))
            return false;
    }
    return true;
}

/* Where the config has a target that fuses an operator with the only one that reads its result,
 * that result has no codes: sets reason[v] of values that have none. reason: [n_tensors]; texts
 * live in the arena. */
static enum tmk_status fused_values(const struct tmk_net *net, const struct tmk_config *config,
                                    const char **reason, struct tmk_arena *arena,
                                    struct tmk_diag *diag) {
    const struct tmk_target *target = config->target;
    for (uint32_t i = 0; target && i < net->n_nodes; i++) {
        const uint32_t v = tmk_net_output(net, i, 0);
        const uint32_t reader = v == TMK_NET_NONE ? TMK_NET_NONE : only_reader(net, v);
        if (reader == TMK_NET_NONE || reason[v] || !net->varies[v] ||
            !tmk_target_fuses(target, net->nodes[i].op, net->nodes[reader].op))
            continue;
        const struct tmk_net_node *next = &net->nodes[reader];
        const enum tmk_op_class class = next->traits->class;
        if ((class == TMK_OP_CLAMP && config->built_in[TMK_RULE_AFTER_RELU]) ||
            (class == TMK_OP_SUM && !is_only_accumulator(net, reader, v, reason)))
            continue;
        char text[256];
        snprintf(text, sizeof text, "%s computes %s and %s in one step, without codes between them",
                 target->name, net->nodes[i].op, next->op);
        reason[v] = tmk_arena_strdup(arena, text);
        TMK_TRY_ALLOC(reason[v], diag);
    }
    return TMK_OK;
}

struct select {
    const struct tmk_net *net;
    const struct tmk_config *config;
    struct tmk_selection *out;
    struct tmk_match match;
    struct tmk_patterns patterns;
    bool *is_bias_add;
    const char **unusable; /* [n_tensors] why it has no range to quantize; NULL: it has */
    int8_t *role;          /* by position in net->uses: enum tmk_encoding_role, or NOT_A_NUMBER */
    struct tmk_diag *diag;
};
enum { NOT_A_NUMBER = -1 };

/* ---- what values are ---- */

static const char *why_unusable(const struct tmk_profile_tensor *t) {
    struct tmk_summary facts;
    if (t->inner)
        return "it lies inside an operator, where no file has a place for codes";
    if (t->status == TMK_PROFILE_INTEGER || t->has_int_stats || !tmk_dtype_is_float(t->dtype))
        return "integers and the like have no scale";
    if (t->status == TMK_PROFILE_NEVER || !t->stats)
        return "it never ran: nothing was seen of it";
    tmk_stats_quick_summary(t->stats, &facts);
    if (!facts.count)
        return "it is empty";
    if (facts.excluded > facts.padding)
        return "numbers were left out of its range (profile --exclude), and codes would lose them";
    return facts.finite ? NULL : "it had no finite number";
}

/* Numbers that stand for "not at all": under a scale that reaches them nothing else is left, and
 * under another one they are no masks any more. */
static const char *why_masked(const struct tmk_profile_tensor *t) {
    struct tmk_summary facts;
    tmk_stats_quick_summary(t->stats, &facts);
    if (facts.posinf || facts.neginf)
        return "it holds infinities, as masks do, which no code stands for";
    bool stands_for = tmk_sentinel(facts.min) || tmk_sentinel(facts.max); /* also of a constant */
    const struct tmk_flags flags = tmk_profile_flags(t);
    if (stands_for || flags.min_is || flags.max_is)
        return "its extreme is a number that masks are made of, and would take all codes";
    return NULL;
}

static int role_of_constant(const struct select *s, struct tmk_net_use use, int depth);

/* That of the first of its readers which takes it for a number. */
static int constant_role(const struct select *s, uint32_t v, int depth) {
    enum { DEEPEST = 16 };
    int role = NOT_A_NUMBER;
    for (uint32_t k = s->net->first_use[v];
         role == NOT_A_NUMBER && depth < DEEPEST && k < s->net->first_use[v + 1]; k++)
        role = role_of_constant(s, s->net->uses[k], depth);
    return role;
}

static bool bias_is_float(const struct select *s, uint32_t v, uint32_t node) {
    return tmk_match_settings(&s->match, v, TMK_ENCODING_BIAS, node).quantize == TMK_NO;
}

/* What a constant is to a node that reads it. */
static int role_of_constant(const struct select *s, struct tmk_net_use use, int depth) {
    const struct tmk_traits *row = s->net->nodes[use.node].traits;
    uint32_t y = tmk_net_output(s->net, use.node, 0);
    if (tmk_input_is_weight(row, use.input))
        return TMK_ENCODING_WEIGHT;
    if (row->bias && use.input == row->bias)
        return TMK_ENCODING_BIAS;
    if (s->is_bias_add[use.node]) {
        uint32_t v = tmk_net_input(s->net, use.node, use.input);
        if (bias_is_float(s, v, use.node) || s->out->bias_of[use.node] != TMK_NET_NONE)
            return TMK_ENCODING_BIAS;
    }
    if (!tmk_input_is_number(row, use.input))
        return NOT_A_NUMBER;
    if (row->class != TMK_OP_DIRECT || y == TMK_NET_NONE || s->net->varies[y])
        return TMK_ENCODING_ACTIVATION;
    int role = constant_role(s, y, depth + 1);
    /* a bias has its scale where it is added, and nowhere before */
    return role == TMK_ENCODING_BIAS ? NOT_A_NUMBER : role;
}

static void find_roles(struct select *s) {
    const struct tmk_net *net = s->net;
    for (uint32_t v = 0; v < net->profile->n_tensors; v++)
        for (uint32_t k = net->first_use[v]; k < net->first_use[v + 1]; k++) {
            bool shape_only = net->nodes[net->uses[k].node].traits->flags & TMK_TRAIT_SHAPE_ONLY;
            s->role[k] = (int8_t)(!net->varies[v] ? role_of_constant(s, net->uses[k], 0)
                                  : shape_only    ? (int)NOT_A_NUMBER
                                                  : (int)TMK_ENCODING_ACTIVATION);
        }
}

/* ---- biases that are added by a node of their own ---- */

static bool is_quantized(const struct select *s, uint32_t v, enum tmk_encoding_role role,
                         uint32_t node) {
    if (tmk_net_varies(s->net, v))
        role = TMK_ENCODING_ACTIVATION;
    return v != TMK_NET_NONE && !s->unusable[v] &&
           tmk_match_settings(&s->match, v, role, node).quantize != TMK_NO;
}

static bool is_one_axis(const struct tmk_profile_tensor *t) {
    int long_axes = 0;
    for (int32_t i = 0; t->has_shape && i < t->shape.rank; i++)
        long_axes += t->shape.dim[i] != 1;
    return t->has_shape && long_axes <= 1;
}

/* The node whose accumulator this Add completes: the result of a node that multiplies and
 * accumulates, which no other node reads, plus a constant along one axis. */
static uint32_t could_be_bias_add(const struct select *s, uint32_t add, bool and_wanted) {
    const struct tmk_net *net = s->net;
    if (strcmp(net->nodes[add].op, "Add") != 0 || net->nodes[add].traits->class != TMK_OP_SUM)
        return TMK_NET_NONE;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t p = tmk_net_input(net, add, i), b = tmk_net_input(net, add, 1 - i);
        if (p == TMK_NET_NONE || b == TMK_NET_NONE || net->varies[b] || !net->varies[p])
            continue;
        uint32_t macc = net->maker[p];
        if (macc == TMK_NET_NONE || net->nodes[macc].traits->class != TMK_OP_MACC ||
            tmk_net_tensor(s->net, p)->kind == TMK_PROFILE_OUTPUT || tmk_net_readers(net, p) != 1 ||
            !is_one_axis(tmk_net_tensor(s->net, b)))
            continue;
        if (!and_wanted ||
            (is_quantized(s, p, TMK_ENCODING_ACTIVATION, add) && !s->unusable[b] &&
             is_quantized(s, tmk_net_input(net, macc, 0), TMK_ENCODING_ACTIVATION, macc) &&
             is_quantized(s, tmk_net_input(net, macc, 1), TMK_ENCODING_WEIGHT, macc)))
            return macc;
    }
    return TMK_NET_NONE;
}

/* Twice, since rules may be of bias_add alone: at first every Add that could be one is. */
static void find_bias_adds(struct select *s) {
    const struct tmk_net *net = s->net;
    for (uint32_t i = 0; i < net->n_nodes; i++)
        s->out->bias_of[i] = s->out->accumulates[i] = TMK_NET_NONE;
    for (uint32_t i = 0; s->config->built_in[TMK_RULE_BIAS_ADD] && i < net->n_nodes; i++)
        s->is_bias_add[i] = could_be_bias_add(s, i, false) != TMK_NET_NONE;
    tmk_match_beside_float(&s->match);
    for (uint32_t i = 0; i < net->n_nodes; i++) {
        uint32_t macc = s->is_bias_add[i] ? could_be_bias_add(s, i, true) : TMK_NET_NONE;
        if (macc == TMK_NET_NONE)
            continue;
        s->out->accumulates[macc] = i;
        const uint32_t b = tmk_net_input(net, i, net->maker[tmk_net_input(net, i, 0)] == macc);
        if (!bias_is_float(s, b, i))
            s->out->bias_of[i] = macc;
    }
}

/* ---- picks ---- */

static struct tmk_terms terms_of_settings(const struct tmk_quant_settings *settings,
                                          enum tmk_encoding_role role) {
    bool bias = role == TMK_ENCODING_BIAS;
    enum tmk_dtype dtype = bias ? TMK_INT32 : settings->dtype;
    bool symmetric = bias || settings->symmetric == TMK_YES || tmk_dtype_is_float(dtype);
    struct tmk_terms terms = {
        .grid = {dtype, symmetric,
                 symmetric && tmk_dtype_is_integer(dtype) && !bias &&
                     tmk_encoding_middle(dtype) == 0,
                 settings->pow2 == TMK_YES},
        .method = settings->method,
        .parameter = settings->parameter,
        .channels = settings->channels == TMK_YES,
        .block = role == TMK_ENCODING_WEIGHT && settings->block > 1 ? settings->block : 0,
        .has_range = settings->has_range,
        .low = settings->has_range ? settings->low : 0,
        .high = settings->has_range ? settings->high : 0,
    };
    return terms;
}

bool tmk_same_terms(const struct tmk_terms *a, const struct tmk_terms *b) {
    return a->grid.dtype == b->grid.dtype && a->grid.symmetric == b->grid.symmetric &&
           a->grid.pow2 == b->grid.pow2 && a->method == b->method && a->parameter == b->parameter &&
           a->channels == b->channels && a->block == b->block && a->has_range == b->has_range &&
           a->low == b->low && a->high == b->high;
}

/* Picks of one value while they are found. */
struct classes {
    struct tmk_pick *picks; /* the value's own, at the end of the selection's */
    uint32_t n;
    uint32_t *of_use; /* [n_uses of the value] number among them; TMK_NET_NONE: none */
    bool some_float;
};

/* The first reason stays. */
static enum tmk_status TMK_PRINTF(3, 4)
    set_reason(struct select *s, uint32_t v, const char *fmt, ...) {
    char text[512];
    va_list args;
    if (s->out->reason[v])
        return TMK_OK;
    va_start(args, fmt);
    tmk_vprint_cut(text, sizeof text, fmt, args);
    va_end(args);
    s->out->reason[v] = tmk_arena_strdup(&s->out->arena, text);
    return s->out->reason[v] ? TMK_OK : tmk_nomem(s->diag);
}

/* Why the node is float without a rule. */
static enum tmk_status say_default(struct select *s, uint32_t v, uint32_t node) {
    const struct tmk_net_node *n = &s->net->nodes[node];
    const uint32_t beside = s->match.beside_float[node];
    const enum tmk_pattern pattern = s->patterns.of[node];
    if (s->match.skipped_first[node] || s->match.skipped_last[node])
        return set_reason(s, v, "float for %s '%s': left by %s", n->op, n->name,
                          s->match.skipped_first[node] ? "skip_first_layer" : "skip_last_layer");
    const uint32_t moved = tmk_net_input(s->net, node, 0);
    if (beside == node && moved != TMK_NET_NONE && s->match.unpaired[moved])
        return set_reason(s, v,
                          "float for %s '%s': it moves a part of '%s', whose codes none reads",
                          n->op, n->name, tmk_net_tensor(s->net, moved)->name);
    if (beside == node || (beside == TMK_NET_NONE && tmk_match_default(&s->match, node) != TMK_NO &&
                           tmk_net_tensor(s->net, v)->kind == TMK_PROFILE_OUTPUT))
        return set_reason(s, v, "an output of the model, in float as %s '%s' computes it", n->op,
                          n->name);
    if (beside != TMK_NET_NONE && beside > node)
        return set_reason(s, v, "float for %s '%s': only float operators read what it moves", n->op,
                          n->name);
    if (beside != TMK_NET_NONE)
        return set_reason(s, v,
                          "float for %s '%s': it moves or clips what %s '%s' computes in float",
                          n->op, n->name, s->net->nodes[beside].op, s->net->nodes[beside].name);
    if (tmk_match_default(&s->match, node) != TMK_NO)
        return set_reason(s, v, "float for %s '%s': left by the config's defaults", n->op, n->name);
    if (s->match.wide[node] != 0)
        return set_reason(s, v, "float for %s '%s': 8 bits leave %.1f dB of what it multiplies",
                          n->op, n->name, (double)s->match.wide[node]);
    if (tmk_match_is_narrow(&s->match, node))
        return set_reason(s, v, "float for %s '%s': %s is no quicker in codes of so few channels",
                          n->op, n->name, s->config->target->name);
    if (pattern != TMK_PATTERN_NONE)
        return set_reason(s, v, "float for %s '%s': pattern %s", n->op, n->name,
                          tmk_pattern_name(pattern));
    return set_reason(s, v, "float for %s '%s': it is no Conv, Gemm or MatMul, and moves nothing",
                      n->op, n->name);
}

static enum tmk_status say_config(struct select *s, uint32_t v, uint32_t by, uint32_t node) {
    char who[32] = "the config's defaults";
    if (by && by <= s->config->n_base)
        snprintf(who, sizeof who, "the target's table");
    else if (by)
        snprintf(who, sizeof who, "rules[%" PRIu32 "] of the config", by - 1 - s->config->n_base);
    if (node == TMK_NET_NONE)
        return set_reason(s, v, "left float by %s", who);
    if (by == 1 && s->config->target)
        return set_reason(s, v, "float for %s '%s': %s has no integer kernel for it",
                          s->net->nodes[node].op, s->net->nodes[node].name,
                          s->config->target->name);
    if (!by)
        return say_default(s, v, node);
    return set_reason(s, v, "float for %s '%s': left by %s", s->net->nodes[node].op,
                      s->net->nodes[node].name, who);
}

static uint32_t add_class(struct classes *f, enum tmk_encoding_role role,
                          const struct tmk_terms *terms, uint32_t macc) {
    for (uint32_t i = 0; i < f->n; i++)
        if (f->picks[i].role == role && f->picks[i].macc == macc &&
            tmk_same_terms(&f->picks[i].terms, terms))
            return i;
    f->picks[f->n] = (struct tmk_pick){.role = role, .terms = *terms, .macc = macc};
    return f->n++;
}

/* The node whose operands' scales a bias takes; TMK_NET_NONE, and a reason: one of them has none.
 */
static enum tmk_status macc_of_bias(struct select *s, uint32_t v, uint32_t node, uint32_t *out) {
    uint32_t macc = s->out->bias_of[node] != TMK_NET_NONE ? s->out->bias_of[node] : node;
    uint32_t x = tmk_net_input(s->net, macc, 0), w = tmk_net_input(s->net, macc, 1);
    *out = macc;
    if (is_quantized(s, x, TMK_ENCODING_ACTIVATION, macc) &&
        is_quantized(s, w, TMK_ENCODING_WEIGHT, macc))
        return TMK_OK;
    *out = TMK_NET_NONE;
    return set_reason(s, v, "float: the input or the weight of %s '%s' is, so that it has no scale",
                      s->net->nodes[macc].op, s->net->nodes[macc].name);
}

static enum tmk_status pick_for_use(struct select *s, struct classes *f, uint32_t v, uint32_t k) {
    struct tmk_net_use use = s->net->uses[k];
    uint32_t macc = TMK_NET_NONE, *of = &f->of_use[k - s->net->first_use[v]];
    *of = TMK_NET_NONE;
    if (s->role[k] == NOT_A_NUMBER)
        return TMK_OK;
    enum tmk_encoding_role role = (enum tmk_encoding_role)s->role[k];
    struct tmk_quant_settings settings = tmk_match_settings(&s->match, v, role, use.node);
    if (settings.quantize == TMK_NO) {
        f->some_float = true;
        return say_config(s, v, settings.by, use.node);
    }
    if (role == TMK_ENCODING_BIAS) {
        TMK_TRY(macc_of_bias(s, v, use.node, &macc));
        if (macc == TMK_NET_NONE) {
            f->some_float = true;
            return TMK_OK;
        }
    }
    struct tmk_terms terms = terms_of_settings(&settings, role);
    *of = add_class(f, role, &terms, macc);
    return TMK_OK;
}

/* What the value is as it is computed: for readers outside of the model, and as the first choice
 * for those inside. */
static enum tmk_status pick_for_maker(struct select *s, struct classes *f, uint32_t v,
                                      uint32_t *general) {
    bool read_outside =
        tmk_net_tensor(s->net, v)->kind == TMK_PROFILE_OUTPUT || !tmk_net_readers(s->net, v);
    struct tmk_quant_settings settings =
        tmk_match_settings(&s->match, v, TMK_ENCODING_ACTIVATION, TMK_NET_NONE);
    struct tmk_terms terms = terms_of_settings(&settings, TMK_ENCODING_ACTIVATION);
    *general = TMK_NET_NONE;
    if (!s->net->varies[v])
        return TMK_OK;
    if (settings.quantize == TMK_NO && read_outside) {
        f->some_float = true;
        return say_config(s, v, settings.by, s->net->maker[v]);
    }
    /* kernels that read and compute different types are rare: readers convert what they read */
    const bool converted =
        s->config->sensitive_dtype != TMK_UNDEFINED && s->net->maker[v] != TMK_NET_NONE;
    if (settings.quantize != TMK_NO && (read_outside || converted) && !f->some_float)
        *general = add_class(f, TMK_ENCODING_ACTIVATION, &terms, TMK_NET_NONE);
    for (uint32_t i = 0; *general == TMK_NET_NONE && i < f->n; i++)
        if (f->picks[i].role == TMK_ENCODING_ACTIVATION &&
            tmk_same_terms(&f->picks[i].terms, &terms))
            *general = i;
    return TMK_OK;
}

static enum tmk_status say_no_number(struct select *s, uint32_t v) {
    const struct tmk_profile_tensor *t = tmk_net_tensor(s->net, v);
    if (s->net->varies[v])
        return set_reason(s, v, "only its shape is read");
    if (t->kind != TMK_PROFILE_WEIGHT)
        return set_reason(s, v,
                          "it does not depend on the data: arithmetic on shapes or constants");
    if (!tmk_net_readers(s->net, v))
        return set_reason(s, v, "a constant that nothing reads");
    struct tmk_net_use use = s->net->uses[s->net->first_use[v]];
    return set_reason(s, v, "a parameter of %s '%s', which no arithmetic of integers has codes for",
                      s->net->nodes[use.node].op, s->net->nodes[use.node].name);
}

/* Hands the value's picks their uses; the general one comes last, and lists none. */
static enum tmk_status finalize_value(struct select *s, struct classes *f, uint32_t v,
                                      uint32_t general) {
    const struct tmk_net *net = s->net;
    uint32_t first = net->first_use[v], n = tmk_net_readers(net, v);
    if (f->some_float)
        general = TMK_NET_NONE;
    else if (general == TMK_NET_NONE && f->n)
        general = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        struct tmk_pick *pick = &f->picks[i];
        pick->value = v;
        pick->general = i == general;
        pick->rank = i == general ? UINT32_MAX : i;
        pick->uses = tmk_arena_array(&s->out->arena, pick->general ? 0 : n, sizeof *pick->uses);
        TMK_TRY_ALLOC(pick->uses, s->diag);
        for (uint32_t k = 0; !pick->general && k < n; k++)
            if (f->of_use[k] == i)
                pick->uses[pick->n_uses++] = &net->uses[first + k];
    }
    return TMK_OK;
}

static enum tmk_status pick_value(struct select *s, struct classes *f, uint32_t v) {
    uint32_t general, maker = s->net->maker[v];
    f->n = 0;
    f->some_float = false;
    f->picks = s->out->picks + s->out->n_picks;
    if (s->unusable[v])
        return set_reason(s, v, "%s", s->unusable[v]);
    if (maker != TMK_NET_NONE && s->out->accumulates[maker] != TMK_NET_NONE)
        return set_reason(s, v, "the accumulator that %s '%s' adds its bias to: it stays int32",
                          s->net->nodes[s->out->accumulates[maker]].op,
                          s->net->nodes[s->out->accumulates[maker]].name);
    for (uint32_t k = s->net->first_use[v]; k < s->net->first_use[v + 1]; k++)
        TMK_TRY(pick_for_use(s, f, v, k));
    TMK_TRY(pick_for_maker(s, f, v, &general));
    if (!f->n && !f->some_float)
        return say_no_number(s, v);
    TMK_TRY(finalize_value(s, f, v, general));
    s->out->n_picks += f->n;
    return TMK_OK;
}

static int by_value(const void *a, const void *b) {
    const struct tmk_pick *x = a, *y = b;
    return x->value != y->value ? TMK_ORDER(x->value, y->value) : TMK_ORDER(x->rank, y->rank);
}

static void index_picks(struct tmk_selection *out) {
    qsort(out->picks, out->n_picks, sizeof *out->picks, by_value);
    for (uint32_t v = 0; v < out->net->profile->n_tensors; v++)
        out->general[v] = TMK_NET_NONE;
    for (uint32_t i = 0; i < out->n_picks; i++)
        if (out->picks[i].general)
            out->general[out->picks[i].value] = i;
    for (uint32_t v = 0; v < out->net->profile->n_tensors; v++)
        for (uint32_t k = out->net->first_use[v]; k < out->net->first_use[v + 1]; k++)
            out->use_pick[k] = out->general[v];
    for (uint32_t i = 0; i < out->n_picks; i++)
        for (uint32_t k = 0; k < out->picks[i].n_uses; k++)
            out->use_pick[out->picks[i].uses[k] - out->net->uses] = i;
}

static enum tmk_status pick_all(struct select *s) {
    const struct tmk_net *net = s->net;
    uint32_t n = net->profile->n_tensors, most = 0;
    struct classes f = {.n = 0};
    enum tmk_status status = TMK_OK;
    for (uint32_t v = 0; v < n; v++)
        most = tmk_net_readers(net, v) > most ? tmk_net_readers(net, v) : most;
    f.of_use = calloc((size_t)most + 1, sizeof *f.of_use);
    TMK_TRY_ALLOC(f.of_use, s->diag);
    for (uint32_t v = 0; status == TMK_OK && v < n; v++)
        status = pick_value(s, &f, v);
    free(f.of_use);
    if (status == TMK_OK)
        index_picks(s->out);
    return status;
}

static enum tmk_status select_values(struct select *s) {
    tmk_match_first_and_last(&s->match);
    for (uint32_t v = 0; v < s->net->profile->n_tensors; v++) {
        s->unusable[v] = why_unusable(tmk_net_tensor(s->net, v));
        if (!s->unusable[v] && s->config->built_in[TMK_RULE_MASKS])
            s->unusable[v] = why_masked(tmk_net_tensor(s->net, v));
    }
    TMK_TRY(fused_values(s->net, s->config, s->unusable, &s->out->arena, s->diag));
    find_bias_adds(s);
    find_roles(s);
    return pick_all(s);
}

enum tmk_status tmk_select(const struct tmk_net *net, const struct tmk_config *config,
                           struct tmk_selection *out, struct tmk_diag *diag) {
    size_t n = net->profile->n_tensors, n_uses = net->first_use[n];
    struct select s = {.net = net, .config = config, .out = out, .diag = diag};
    *out = (struct tmk_selection){.net = net};
    struct tmk_arena *arena = &out->arena;
    out->picks = tmk_arena_array(arena, n_uses + n, sizeof *out->picks);
    out->general = tmk_arena_array(arena, n, sizeof *out->general);
    out->use_pick = tmk_arena_array(arena, n_uses, sizeof *out->use_pick);
    out->reason = tmk_arena_array(arena, n, sizeof *out->reason);
    out->bias_of = tmk_arena_array(arena, net->n_nodes, sizeof *out->bias_of);
    out->accumulates = tmk_arena_array(arena, net->n_nodes, sizeof *out->accumulates);
    out->matched = tmk_arena_array(arena, config->n_rules, sizeof *out->matched);
    s.is_bias_add = tmk_arena_array(arena, net->n_nodes, sizeof *s.is_bias_add);
    s.unusable = tmk_arena_array(arena, n, sizeof *s.unusable);
    s.role = tmk_arena_array(arena, n_uses, sizeof *s.role);
    bool *first = tmk_arena_array(arena, net->n_nodes, sizeof *first),
         *last = tmk_arena_array(arena, net->n_nodes, sizeof *last);
    uint32_t *beside = tmk_arena_array(arena, net->n_nodes, sizeof *beside);
    bool *more_bits = tmk_arena_array(arena, net->n_nodes, sizeof *more_bits),
         *unpaired = tmk_arena_array(arena, n, sizeof *unpaired);
    float *wide = tmk_arena_array(arena, net->n_nodes, sizeof *wide);
    TMK_TRY_ALLOC(out->picks && out->general && out->use_pick && out->reason && out->bias_of &&
                      out->accumulates && out->matched && s.is_bias_add && s.unusable && s.role &&
                      first && last && beside && more_bits && unpaired && wide,
                  diag);
    s.match = (struct tmk_match){net,  config, s.is_bias_add, first,        last,    &s.patterns,
                                 wide, beside, more_bits,     out->matched, unpaired};
    enum tmk_status status = tmk_patterns_init(&s.patterns, net, diag);
    TMK_THEN(status, tmk_find_wide(net, config, &s.patterns, wide, diag));
    TMK_THEN(status, select_values(&s));
    tmk_patterns_finish(&s.patterns);
    return status;
}

void tmk_selection_finish(struct tmk_selection *selection) {
    tmk_arena_finish(&selection->arena);
    *selection = (struct tmk_selection){.n_picks = 0};
}

uint32_t tmk_pick_of_input(const struct tmk_selection *selection, uint32_t node, uint32_t input) {
    uint32_t v = tmk_net_input(selection->net, node, input);
    for (uint32_t k = v == TMK_NET_NONE ? 0 : selection->net->first_use[v];
         v != TMK_NET_NONE && k < selection->net->first_use[v + 1]; k++)
        if (selection->net->uses[k].node == node && selection->net->uses[k].input == input)
            return selection->use_pick[k];
    return TMK_NET_NONE;
}
