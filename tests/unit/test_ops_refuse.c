/* SPDX-License-Identifier: Apache-2.0 */
/* Elements that a kernel refuses (indices, lengths, axes) are refused as well where the outputs
 * have no elements. */
#include "evaluate.h"
#include "op_case.h"

enum { FAR = 1 << 30 };

struct call {
    const struct tmk_node *node;
    struct tmk_tensor in[MOST_INPUTS];
    const struct tmk_tensor *view[MOST_INPUTS];
};

/* Whether infer accepts the operands; *empty: no output has elements. */
static bool is_accepted(const struct call *c, bool *empty) {
    struct tmk_infer_result results[MOST_INPUTS] = {{0}};
    assert_true(c->node->n_outputs <= MOST_INPUTS);
    tmk_diag_reset(DIAG);
    *empty = true;
    if (tmk_op_infer(c->node, c->view, results, DIAG) != TMK_OK)
        return false;
    for (uint32_t i = 0; i < c->node->n_outputs; i++) {
        size_t count = 1;
        if (c->node->outputs[i] && results[i].known)
            assert_true(tmk_shape_count(&results[i].shape, &count));
        if (c->node->outputs[i])
            *empty &= count == 0;
    }
    return true;
}

/* For an element out of range; not for what it would cost. */
static bool is_refused(const struct call *c) {
    struct tmk_tensor out[MOST_INPUTS] = {{0}};
    tmk_diag_reset(DIAG);
    const enum tmk_status status = tmk_op_run(c->node, c->view, out, DIAG);
    for (uint32_t i = 0; status == TMK_OK && i < c->node->n_outputs; i++)
        tmk_tensor_finish(&out[i]);
    return status == TMK_RANGE;
}

/* Operand i with other elements or another shape, of 0 where `number` has no place. */
static void replace(struct call *c, uint32_t i, const struct tmk_shape *shape, int64_t number) {
    const enum tmk_dtype dtype = c->in[i].dtype;
    const size_t size = tmk_dtype_size(dtype);
    tmk_tensor_finish(&c->in[i]);
    must(tmk_tensor_init(&c->in[i], dtype, shape, DIAG));
    memset(c->in[i].data, 0, tmk_tensor_bytes(&c->in[i]));
    for (size_t at = 0; at < tmk_tensor_count(&c->in[i]) && dtype != TMK_FLOAT32; at++)
        memcpy((char *)c->in[i].data + at * size, &number, size);
}

/* The kernel, not infer, refuses operand `bad` of the sample with these elements; then it does so
 * where axis `axis` of the operands in `which` has no elements, if infer accepts that. Returns
 * whether it did. */
static bool check_empty(const struct call *sample, uint32_t bad, uint32_t which, int32_t axis) {
    struct call c = {.node = sample->node};
    bool changed = false, empty, found = false;
    for (uint32_t i = 0; i < c.node->n_inputs; i++) {
        if (!sample->view[i])
            continue;
        tmk_tensor_share(&c.in[i], &sample->in[i]);
        c.view[i] = &c.in[i];
        struct tmk_shape shape = c.in[i].shape;
        if (i != bad && which >> i & 1 && axis < shape.rank && shape.dim[axis] > 0) {
            shape.dim[axis] = 0;
            replace(&c, i, &shape, 0);
            changed = true;
        }
    }
    if (changed && is_accepted(&c, &empty) && empty) {
        found = true;
        if (!is_refused(&c))
            fail_msg("%s.%d: input %u is not checked where axis %d has no elements (inputs %x)",
                     c.node->op, c.node->row->since, bad, axis, which);
    }
    for (uint32_t i = 0; i < c.node->n_inputs; i++)
        tmk_tensor_finish(&c.in[i]);
    return found;
}

/* Of the sample with operand `bad` out of every bound. */
static bool check_operand(struct call *c, uint32_t bad, int64_t number) {
    const struct tmk_shape shape = c->in[bad].shape;
    const uint32_t all = (1U << c->node->n_inputs) - 1;
    bool empty, found = false;
    replace(c, bad, &shape, number);
    if (!is_accepted(c, &empty) || !is_refused(c))
        return false;
    for (int32_t axis = 0; axis < TMK_MAX_RANK; axis++) {
        found |= check_empty(c, bad, all, axis);
        for (uint32_t i = 0; i < c->node->n_inputs; i++)
            found |= check_empty(c, bad, 1U << i, axis);
    }
    return found;
}

static bool is_whole(const struct tmk_tensor *tensor) {
    return tensor->kind == TMK_TYPE_TENSOR && tmk_tensor_count(tensor) > 0 &&
           (tensor->dtype == TMK_INT32 || tensor->dtype == TMK_INT64);
}

/* How many operands of a row are checked in outputs without elements. */
static int check_row(const struct tmk_op *row) {
    struct tmk_graph *graph = NULL;
    struct tmk_tensor inputs[MOST_INPUTS] = {{0}};
    struct tmk_node *node;
    uint64_t random = 1;
    uint32_t n_inputs;
    int found = 0;
    if (row->flags & (TMK_OP_RUNS_GRAPHS | TMK_OP_TAKES_ANY) || !can_be_samples(row, &n_inputs))
        return 0;
    must(parse_graph(op_sample(row), NULL, &graph, DIAG));
    must(tmk_ops_bind(graph, DIAG));
    for (uint32_t i = 0; i < n_inputs; i++) {
        const struct tmk_type *type = &graph->inputs[i]->type;
        must(tmk_tensor_init(&inputs[i], type->dtype, &type->shape, DIAG));
        fill(&inputs[i], &random);
    }
    struct made made = make(graph, inputs);
    for (node = graph->first; node->row != row; node = node->next)
        ;
    for (uint32_t bad = 0; bad < node->n_inputs; bad++)
        for (int sign = -1; sign <= 1; sign += 2) {
            struct call c = {.node = node};
            for (uint32_t i = 0; i < node->n_inputs; i++)
                if (node->inputs[i]) {
                    tmk_tensor_share(&c.in[i], &made.values[node->inputs[i]->index]);
                    c.view[i] = &c.in[i];
                }
            found += c.view[bad] && is_whole(&c.in[bad]) && check_operand(&c, bad, sign * FAR);
            for (uint32_t i = 0; i < node->n_inputs; i++)
                tmk_tensor_finish(&c.in[i]);
        }
    drop(&made);
    for (uint32_t i = 0; i < n_inputs; i++)
        tmk_tensor_finish(&inputs[i]);
    tmk_graph_destroy(&graph);
    return found;
}

TEST(elements_are_checked_where_outputs_have_none) {
    int gather = 0, scatter = 0, all = 0;
    for (const struct tmk_op *const *row = op_rows(); *row; row++) {
        const int found = check_row(*row);
        if (found && getenv("TIDEMARK_TEST_ROWS"))
            printf("# %s.%d: %d\n", (*row)->name, (*row)->since, found);
        gather += strcmp((*row)->name, "Gather") == 0 ? found : 0;
        scatter += strstr((*row)->name, "Scatter") ? found : 0;
        all += found;
    }
    assert_true(gather > 0 && scatter > 0 && all > gather + scatter);
}

/* Kinds that no sample shows. */
TEST(refused_elements_of_empty_results) {
    static const struct {
        int opset;
        const char *operands, *node, *why;
    } cases[] = {
        {18,
         "init %x : f32[0,3] = {}\ninit %i : i64[1,3] = {0, 5, 0}\ninit %u : f32[1,3] = {1, 2, 3}",
         "%y = ScatterElements(%x, %i, %u)", "index 0"},
        {9, "init %x : f32[0] = {}\ninit %i : i64[2] = {5, 0}\ninit %u : f32[2] = {1, 2}",
         "%y = Scatter(%x, %i, %u)", "index 5"},
        {18, "init %x : f32[0,3] = {}\ninit %i : i64[1,1] = {7}\ninit %u : f32[1,3] = {1, 2, 3}",
         "%y = ScatterND(%x, %i, %u)", "index 7"},
        {18, "init %x : f32[2,0] = {}\ninit %i : i64[1,1] = {7}\ninit %u : f32[1,0] = {}",
         "%y = ScatterND(%x, %i, %u)", "index 7"},
        {18, "init %x : f32[2,0] = {}\ninit %i : i64[1] = {2}", "%y = Gather(%x, %i)", "index 2"},
        {18, "init %x : f32[0,2] = {}\ninit %i : i64[1] = {-3}", "%y = Gather(%x, %i) {axis=1}",
         "index -3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuses(cases[i].opset, cases[i].operands, cases[i].node, TMK_RANGE, cases[i].why);
}
