/* SPDX-License-Identifier: Apache-2.0 */
#include "export/quantized.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "base/text.h"
#include "graph/rewrite.h"
#include "ops/ops.h"
#include "ops/shapes.h"

/* What an operator's next version wants, where a node can be had there without a change of what it
 * computes. Facts: ONNX's changelog of operators. */

enum { MOST_INPUTS = 5 };

/* A node on its way to the next row of its operator. */
struct step {
    struct tmk_node *node;
    const char *op;
    struct tmk_value *inputs[MOST_INPUTS]; /* those that the new node has before `rest` */
    uint32_t n_inputs;
    uint32_t n_outputs;
    const char *but[4];      /* attributes that go; ends with NULL */
    struct tmk_attr more[2]; /* attributes that come */
    uint32_t n_more;
    struct tmk_value *behind; /* the result is reshaped to this shape; NULL: it stays */
    int64_t to;               /* the version that nodes are made for that the old graph lacks */
    bool again;               /* something differs: a node is made */
    bool done;
    struct tmk_diag *diag;
};

typedef enum tmk_status rule_fn(struct step *s);

/* ---- parts ---- */

static void drop_attr(struct step *s, const char *attr) {
    uint32_t i = 0;
    while (s->but[i])
        i++;
    s->but[i] = attr;
    s->again = s->again || tmk_node_attr(s->node, attr);
}

static void set_attr(struct step *s, struct tmk_attr attr) {
    s->more[s->n_more++] = attr;
    s->again = true;
}

/* An input that was absent: n numbers of 8 or 4 bytes, or one scalar (rank 0). */
static enum tmk_status give_input(struct step *s, uint32_t at, const char *what,
                                  enum tmk_dtype dtype, int32_t rank, size_t n,
                                  const void *numbers) {
    const struct tmk_shape shape = {rank, {(int64_t)n}};
    struct tmk_tensor tensor = {0};
    struct tmk_text name = {0};
    struct tmk_value *made = NULL;
    TMK_TRY(tmk_tensor_init(&tensor, dtype, &shape, s->diag));
    if (n)
        memcpy(tensor.data, numbers, n * tmk_dtype_size(dtype));
    tmk_text_printf(&name, "%s_%s", s->node->outputs[0]->name, what);
    enum tmk_status status =
        name.failed ? tmk_nomem(s->diag)
                    : tmk_graph_add_initializer(s->node->graph, name.data, &tensor, &made, s->diag);
    tmk_text_finish(&name);
    tmk_tensor_finish(&tensor);
    TMK_TRY(status);
    while (s->n_inputs <= at)
        s->inputs[s->n_inputs++] = NULL;
    s->inputs[at] = made;
    s->again = true;
    return TMK_OK;
}

/* The list of integers of that name becomes an input; absent stays absent. */
static enum tmk_status ints_to_input(struct step *s, const char *attr, uint32_t at) {
    size_t n;
    const int64_t *numbers = tmk_node_ints(s->node, attr, &n);
    if (numbers)
        TMK_TRY(give_input(s, at, attr, TMK_INT64, 1, n, numbers));
    drop_attr(s, attr);
    return TMK_OK;
}

static enum tmk_status float_to_input(struct step *s, const char *attr, uint32_t at) {
    const struct tmk_attr *given = tmk_node_attr(s->node, attr);
    if (given)
        TMK_TRY(give_input(s, at, attr, TMK_FLOAT32, 0, 1, &given->f));
    drop_attr(s, attr);
    return TMK_OK;
}

static bool wants_output(const struct tmk_node *node, uint32_t i) {
    return i < node->n_outputs && node->outputs[i] &&
           (node->outputs[i]->n_uses || node->outputs[i]->n_graph_outputs);
}

/* ---- rules ---- */

/* What is new is not used by an old node, or is what it did by default. */
static enum tmk_status mark_done(struct step *s) {
    s->done = true;
    return TMK_OK;
}

static enum tmk_status axes_to_input(struct step *s) {
    s->done = true;
    return ints_to_input(s, "axes", 1);
}

/* Before 7 shapes were equal unless `broadcast` was set. */
static enum tmk_status without_broadcast(struct step *s) {
    s->done = tmk_node_int(s->node, "broadcast", 0) == 0;
    drop_attr(s, "broadcast");
    drop_attr(s, "axis");
    drop_attr(s, "consumed_inputs");
    return TMK_OK;
}

static enum tmk_status gemm_7(struct step *s) {
    s->done = true; /* C broadcasts to the product, asked or not */
    drop_attr(s, "broadcast");
    return TMK_OK;
}

/* A node with one result, named after the old one's, before it. */
static enum tmk_status make_helper(struct step *s, const char *op, const char *what,
                                   struct tmk_value *const *inputs, uint32_t n,
                                   struct tmk_node **out) {
    struct tmk_text name = {0};
    tmk_text_printf(&name, "%s_%s", s->node->outputs[0]->name, what);
    const char *const names[1] = {name.data};
    const struct tmk_node_spec spec = {s->node->domain, op, name.data, s->to, inputs, n, names, 1};
    enum tmk_status status = name.failed
                                 ? tmk_nomem(s->diag)
                                 : tmk_graph_add_node(s->node->graph, s->node, &spec, out, s->diag);
    tmk_text_finish(&name);
    return status;
}

/* As a matrix, and back. */
static enum tmk_status along_all_behind(struct step *s, int64_t axis) {
    struct tmk_node *flat, *shape;
    struct tmk_value *const x = s->node->inputs[0];
    TMK_TRY(make_helper(s, "Flatten", "flat", &x, 1, &flat));
    TMK_TRY(tmk_node_set_int(flat, "axis", axis, s->diag));
    TMK_TRY(make_helper(s, "Shape", "shape", &x, 1, &shape));
    s->inputs[0] = flat->outputs[0];
    s->behind = shape->outputs[0];
    s->done = true;
    set_attr(s, tmk_attr_int("axis", 1));
    return TMK_OK;
}

/* Along one axis instead of along it and all behind it: the same where those are of size 1. */
static enum tmk_status along_one_axis(struct step *s) {
    const struct tmk_type *type = &s->node->inputs[0]->type;
    int64_t axis = tmk_node_int(s->node, "axis", 1);
    if (!type->has_shape)
        return axis >= 0 ? along_all_behind(s, axis) : TMK_OK;
    axis += axis < 0 ? type->shape.rank : 0;
    if (axis < 0 || axis >= type->shape.rank)
        return TMK_OK;
    for (int64_t i = axis + 1; i < type->shape.rank; i++)
        if (type->shape.dim[i] != 1)
            return along_all_behind(s, axis);
    s->done = true;
    set_attr(s, tmk_attr_int("axis", axis));
    return TMK_OK;
}

static enum tmk_status concat_4(struct step *s) {
    s->done = true;
    set_attr(s, tmk_attr_int("axis", tmk_node_int(s->node, "axis", 1)));
    return TMK_OK;
}

static enum tmk_status split_13(struct step *s) {
    s->done = s->node->n_inputs == 1;
    return ints_to_input(s, "split", 1);
}

static enum tmk_status split_18(struct step *s) {
    s->done = true;
    if (s->node->n_inputs < 2 || !s->node->inputs[1])
        set_attr(s, tmk_attr_int("num_outputs", s->node->n_outputs));
    return TMK_OK;
}

static enum tmk_status clip_11(struct step *s) {
    s->done = true;
    TMK_TRY(float_to_input(s, "min", 1));
    return float_to_input(s, "max", 2);
}

static enum tmk_status pad_11(struct step *s) {
    s->done = true;
    TMK_TRY(ints_to_input(s, "pads", 1));
    return float_to_input(s, "value", 2);
}

static enum tmk_status slice_10(struct step *s) {
    s->done = true;
    TMK_TRY(ints_to_input(s, "starts", 1));
    TMK_TRY(ints_to_input(s, "ends", 2));
    return ints_to_input(s, "axes", 3);
}

static enum tmk_status reshape_5(struct step *s) {
    s->done = tmk_node_attr(s->node, "shape") != NULL;
    drop_attr(s, "consumed_inputs");
    return ints_to_input(s, "shape", 1);
}

static enum tmk_status topk_10(struct step *s) {
    const int64_t k = tmk_node_int(s->node, "k", -1);
    s->done = true;
    drop_attr(s, "k");
    return give_input(s, 1, "k", TMK_INT64, 1, 1, &k);
}

/* Masks changed their type, and what they are of. */
static enum tmk_status upgrade_dropout(struct step *s) {
    s->done = !wants_output(s->node, 1);
    s->again = s->again || s->node->n_outputs > 1;
    s->n_outputs = 1;
    drop_attr(s, "ratio");
    drop_attr(s, "is_test");
    drop_attr(s, "consumed_inputs");
    return TMK_OK;
}

static enum tmk_status batch_norm_9(struct step *s) {
    s->done = tmk_node_int(s->node, "spatial", 1) != 0;
    drop_attr(s, "spatial");
    drop_attr(s, "is_test");
    drop_attr(s, "consumed_inputs");
    return TMK_OK;
}

static enum tmk_status batch_norm_14(struct step *s) {
    s->done = true;
    for (uint32_t i = 1; i < s->node->n_outputs; i++)
        s->done = s->done && !wants_output(s->node, i);
    s->again = s->again || s->node->n_outputs > 1;
    s->n_outputs = 1;
    return TMK_OK;
}

static enum tmk_status upsample_9(struct step *s) {
    size_t n;
    const float *scales = tmk_node_floats(s->node, "scales", &n);
    s->done = scales != NULL;
    drop_attr(s, "scales");
    return scales ? give_input(s, 1, "scales", TMK_FLOAT32, 1, n, scales) : TMK_OK;
}

static bool all_at_least_one(const struct tmk_value *scales) {
    const struct tmk_tensor *data = tmk_value_constant(scales);
    bool fine = data && data->dtype == TMK_FLOAT32;
    for (size_t i = 0; fine && i < tmk_tensor_count(data); i++)
        fine = ((const float *)data->data)[i] >= 1;
    return fine;
}

static enum tmk_status upsample_10(struct step *s) {
    const char *mode = tmk_node_string(s->node, "mode", "nearest");
    s->done = true;
    s->op = "Resize";
    s->again = true;
    drop_attr(s, "mode");
    set_attr(s, tmk_attr_text("mode", strcmp(mode, "bilinear") == 0 ? "linear" : mode));
    return TMK_OK;
}

/* Positions were index / scale, and of the nearest below; elements that go differed. */
static enum tmk_status resize_11(struct step *s) {
    const bool nearest = strcmp(tmk_node_string(s->node, "mode", "nearest"), "nearest") == 0;
    s->done = !nearest || all_at_least_one(s->node->inputs[1]);
    s->inputs[2] = s->inputs[1];
    s->inputs[1] = NULL; /* the region of interest */
    s->n_inputs = 3;
    set_attr(s, tmk_attr_text("coordinate_transformation_mode", "asymmetric"));
    if (nearest)
        set_attr(s, tmk_attr_text("nearest_mode", "floor"));
    else
        s->again = true;
    return TMK_OK;
}

static enum tmk_status roi_align_16(struct step *s) {
    s->done = true;
    set_attr(s, tmk_attr_text("coordinate_transformation_mode", "output_half_pixel"));
    return TMK_OK;
}

static enum tmk_status dft_20(struct step *s) {
    const int64_t axis = tmk_node_int(s->node, "axis", 1);
    s->done = true;
    drop_attr(s, "axis");
    return give_input(s, 2, "axis", TMK_INT64, 0, 1, &axis);
}

static enum tmk_status grid_sample_20(struct step *s) {
    const char *mode = tmk_node_string(s->node, "mode", "bilinear");
    s->done = true;
    drop_attr(s, "mode");
    set_attr(s, tmk_attr_text("mode", strcmp(mode, "bilinear") == 0  ? "linear"
                                      : strcmp(mode, "bicubic") == 0 ? "cubic"
                                                                     : mode));
    return TMK_OK;
}

/* One number a group becomes one a channel. */
static enum tmk_status repeat_input(struct step *s, uint32_t at, const char *what,
                                    int64_t channels) {
    const struct tmk_tensor *data = tmk_value_constant(s->inputs[at]);
    const int64_t groups = data ? (int64_t)tmk_tensor_count(data) : 0;
    s->done = s->done && groups && data->dtype == TMK_FLOAT32 && channels % groups == 0;
    if (!s->done)
        return TMK_OK;
    float *numbers = calloc((size_t)channels, sizeof *numbers);
    TMK_TRY_ALLOC(numbers, s->diag);
    for (int64_t i = 0; i < channels; i++)
        numbers[i] = ((const float *)data->data)[i / (channels / groups)];
    enum tmk_status status = give_input(s, at, what, TMK_FLOAT32, 1, (size_t)channels, numbers);
    free(numbers);
    return status;
}

static enum tmk_status group_norm_21(struct step *s) {
    const struct tmk_type *type = &s->node->inputs[0]->type;
    s->done = type->has_shape && type->shape.rank > 1 && type->shape.dim[1] > 0;
    if (!s->done)
        return TMK_OK;
    TMK_TRY(repeat_input(s, 1, "scale", type->shape.dim[1]));
    return repeat_input(s, 2, "bias", type->shape.dim[1]);
}

static enum tmk_status scatter_11(struct step *s) {
    s->done = true;
    s->op = "ScatterElements";
    s->again = true;
    return TMK_OK;
}

/* By operator and the version that brought the change. */
static const struct {
    const char *op;
    int32_t since;
    rule_fn *rule;
} rules[] = {
    {"Add", 7, without_broadcast},
    {"And", 7, without_broadcast},
    {"AveragePool", 7, mark_done},
    {"AveragePool", 10, mark_done},
    {"AveragePool", 19, mark_done},
    {"BatchNormalization", 9, batch_norm_9},
    {"BatchNormalization", 14, batch_norm_14},
    {"Clip", 11, clip_11},
    {"Concat", 4, concat_4},
    {"Constant", 12, mark_done},
    {"DFT", 20, dft_20},
    {"DepthToSpace", 11, mark_done},
    {"DequantizeLinear", 13, mark_done},
    {"DequantizeLinear", 21, mark_done},
    {"Div", 7, without_broadcast},
    {"Dropout", 7, upgrade_dropout},
    {"Dropout", 10, upgrade_dropout},
    {"Dropout", 12, upgrade_dropout},
    {"Equal", 7, without_broadcast},
    {"GRU", 14, mark_done},
    {"GatherND", 12, mark_done},
    {"Gemm", 7, gemm_7},
    {"Gemm", 11, mark_done},
    {"Greater", 7, without_broadcast},
    {"GridSample", 20, grid_sample_20},
    {"GroupNormalization", 21, group_norm_21},
    {"Hardmax", 13, along_one_axis},
    {"LSTM", 14, mark_done},
    {"Less", 7, without_broadcast},
    {"LogSoftmax", 13, along_one_axis},
    {"LpPool", 18, mark_done},
    {"Max", 8, mark_done},
    {"MaxPool", 8, mark_done},
    {"MaxPool", 10, mark_done},
    {"Mean", 8, mark_done},
    {"Min", 8, mark_done},
    {"Mul", 7, without_broadcast},
    {"OneHot", 11, mark_done},
    {"OptionalHasElement", 18, mark_done},
    {"Or", 7, without_broadcast},
    {"Pad", 11, pad_11},
    {"Pad", 18, mark_done},
    {"Pow", 7, without_broadcast},
    {"QuantizeLinear", 13, mark_done},
    {"QuantizeLinear", 21, mark_done},
    {"RNN", 14, mark_done},
    {"ReduceL1", 18, axes_to_input},
    {"ReduceL2", 18, axes_to_input},
    {"ReduceLogSum", 18, axes_to_input},
    {"ReduceLogSumExp", 18, axes_to_input},
    {"ReduceMax", 18, axes_to_input},
    {"ReduceMean", 18, axes_to_input},
    {"ReduceMin", 18, axes_to_input},
    {"ReduceProd", 18, axes_to_input},
    {"ReduceSum", 13, axes_to_input},
    {"ReduceSumSquare", 18, axes_to_input},
    {"Reshape", 5, reshape_5},
    {"Reshape", 14, mark_done},
    {"Resize", 11, resize_11},
    {"Resize", 18, mark_done},
    {"RoiAlign", 16, roi_align_16},
    {"Scatter", 11, scatter_11},
    {"ScatterElements", 16, mark_done},
    {"ScatterND", 16, mark_done},
    {"Shape", 15, mark_done},
    {"Slice", 10, slice_10},
    {"Softmax", 13, along_one_axis},
    {"Split", 13, split_13},
    {"Split", 18, split_18},
    {"Squeeze", 13, axes_to_input},
    {"Sub", 7, without_broadcast},
    {"Sum", 8, mark_done},
    {"TopK", 10, topk_10},
    {"TopK", 11, mark_done},
    {"Unsqueeze", 13, axes_to_input},
    {"Upsample", 9, upsample_9},
    {"Upsample", 10, upsample_10},
    {"Xor", 7, without_broadcast},
};

static rule_fn *find_rule(const char *op, int32_t since) {
    for (size_t i = 0; i < TMK_COUNT(rules); i++)
        if (rules[i].since == since && strcmp(rules[i].op, op) == 0)
            return rules[i].rule;
    return NULL;
}

/* ---- the new node ---- */

static enum tmk_status move_output(struct tmk_value *from, struct tmk_value *to,
                                   struct tmk_diag *diag) {
    TMK_TRY(tmk_value_set_type(to, &from->type, diag));
    TMK_TRY(tmk_value_replace(from, to, NULL, true, diag));
    tmk_value_take_identity(to, from);
    return TMK_OK;
}

/* The matrix that `made` computes becomes the old node's result, which takes its name. */
static enum tmk_status reshape_behind(struct step *s, struct tmk_node *made,
                                      struct tmk_node **out) {
    struct tmk_value *const inputs[2] = {made->outputs[0], s->behind};
    TMK_TRY(make_helper(s, "Reshape", "matrix", inputs, 2, out));
    const char *name = (*out)->outputs[0]->name;
    TMK_TRY(tmk_value_rename((*out)->outputs[0], made->outputs[0]->name, s->diag));
    return tmk_value_rename(made->outputs[0], name, s->diag);
}

static enum tmk_status make_again(struct step *s, int32_t since, struct tmk_node **out) {
    struct tmk_node *old = s->node, *made = NULL;
    const uint32_t rest = old->n_inputs > MOST_INPUTS ? old->n_inputs : MOST_INPUTS;
    struct tmk_value **inputs = calloc(rest + 1, sizeof(struct tmk_value *));
    const char **names = calloc((size_t)s->n_outputs + 1, sizeof(char *));
    enum tmk_status status = inputs && names ? TMK_OK : tmk_nomem(s->diag);
    uint32_t n = 0;
    if (status == TMK_OK) {
        for (; n < s->n_inputs; n++)
            inputs[n] = s->inputs[n];
        for (; n < old->n_inputs; n++)
            inputs[n] = old->inputs[n];
        for (uint32_t i = 0; i < s->n_outputs; i++)
            names[i] = old->outputs[i] ? old->outputs[i]->name : NULL;
        status = tmk_graph_add_node(old->graph, old,
                                    &(struct tmk_node_spec){old->domain, s->op, old->name, since,
                                                            inputs, n, names, s->n_outputs},
                                    &made, s->diag);
    }
    free(inputs);
    free(names);
    TMK_TRY(status);
    TMK_TRY(tmk_node_copy_attrs(made, old, s->but, s->diag));
    for (uint32_t i = 0; i < s->n_more; i++)
        TMK_TRY(tmk_node_set_attr(made, &s->more[i], s->diag));
    struct tmk_node *last = made;
    if (s->behind)
        TMK_TRY(reshape_behind(s, made, &last));
    for (uint32_t i = 0; i < s->n_outputs; i++)
        if (old->outputs[i])
            TMK_TRY(move_output(old->outputs[i], last->outputs[i], s->diag));
    tmk_node_remove(old);
    *out = made;
    return TMK_OK;
}

/* opset_rules.c: makes of the node, which is valid for the versions of its row, one that is valid
 * for `since`, the next row's first. *node is the new one, or still the old. False in *done: it
 * has no such form, or none in this file. */
static enum tmk_status opset_step(struct tmk_node **node, int32_t since, int64_t to, bool *done,
                                  struct tmk_diag *diag) {
    struct step s = {
        .node = *node, .op = (*node)->op, .n_outputs = (*node)->n_outputs, .to = to, .diag = diag};
    rule_fn *rule = find_rule(s.op, since);
    *done = false;
    if (!rule)
        return TMK_OK;
    while (s.n_inputs < s.node->n_inputs && s.n_inputs < MOST_INPUTS) {
        s.inputs[s.n_inputs] = s.node->inputs[s.n_inputs];
        s.n_inputs++;
    }
    TMK_TRY(rule(&s));
    if (!s.done)
        return TMK_OK;
    if (s.again)
        TMK_TRY(make_again(&s, since, node));
    (*node)->version = since;
    *done = true;
    return TMK_OK;
}

struct upgrading {
    int64_t to;
    struct tmk_text refused;
    uint32_t n_refused;
    struct tmk_diag *diag;
};

static void refuse_node(struct upgrading *r, const struct tmk_node *node) {
    enum { MOST = 4 };
    if (r->n_refused++ < MOST)
        tmk_text_printf(&r->refused, "%s%s", r->n_refused > 1 ? ", " : "", TMK_NODE_LABEL(node));
}

/* Row by row, until its row is the one of the wanted version. */
static enum tmk_status upgrade_node(struct upgrading *r, struct tmk_node *node) {
    bool done = true;
    while (done) {
        const struct tmk_op *row = tmk_op_find(node->domain, node->op, node->version);
        if (!row || row == tmk_op_find(node->domain, node->op, r->to)) {
            node->version = r->to;
            return TMK_OK;
        }
        TMK_TRY(opset_step(&node, row->until + 1, r->to, &done, r->diag));
    }
    refuse_node(r, node);
    return TMK_OK;
}

static enum tmk_status upgrade_graph(struct upgrading *r, struct tmk_graph *graph) {
    for (struct tmk_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        if (strcmp(node->domain, TMK_DOMAIN_ONNX) == 0 && node->version < r->to)
            TMK_TRY(upgrade_node(r, node));
    }
    return TMK_OK;
}

enum tmk_status tmk_opset_upgrade(struct tmk_graph *graph, int64_t to, struct tmk_diag *diag) {
    struct upgrading r = {.to = to, .diag = diag};
    const int64_t from = tmk_graph_opset(graph, TMK_DOMAIN_ONNX);
    if (from >= to)
        return TMK_OK;
    TMK_TRY(tmk_fill_types(graph, diag));
    enum tmk_status status = TMK_OK;
    for (struct tmk_graph *g = graph; g && status == TMK_OK; g = tmk_graph_next(graph, g))
        status = upgrade_graph(&r, g);
    if (status == TMK_OK && r.refused.failed)
        status = tmk_nomem(diag);
    if (status == TMK_OK && r.n_refused)
        status = tmk_fail(diag, TMK_UNSUPPORTED,
                          "operator set %lld can't become %lld here: %s%s have no form there that "
                          "is known to mean the same; convert the model first "
                          "(onnx.version_converter), and profile it again",
                          (long long)from, (long long)to, r.refused.data,
                          r.n_refused > 4 ? " and more" : "");
    tmk_text_finish(&r.refused);
    TMK_TRY(status);
    TMK_TRY(tmk_graph_set_opset(graph, TMK_DOMAIN_ONNX, to, diag));
    return tmk_ops_bind(graph, diag);
}
