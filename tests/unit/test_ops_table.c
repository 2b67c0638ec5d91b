/* SPDX-License-Identifier: Apache-2.0 */
/* What holds for every operator: walks the table and runs each row's sample. */
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_text/read.h"
#include "tensor/list.h"
#include "tools/op_rows.h"

enum { GUARD = 64, GUARD_BYTE = 0xa5, MAX_VALUES = 256, MAX_BLOCKS = 128 };

/* ---- random contents ---- */

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Numbers that most operators can work with: no zero divisors, indices that fit. */
static void fill(struct tmk_tensor *tensor, uint64_t *random) {
    size_t n = tmk_tensor_count(tensor);
    for (size_t i = 0; i < n; i++) {
        uint64_t r = next_random(random) >> 16;
        switch (tensor->dtype) {
        case TMK_FLOAT32:
            ((float *)tensor->data)[i] = (float)(r % 4001) / 1000.0f - 2.0f;
            break;
        case TMK_BOOL:
            ((uint8_t *)tensor->data)[i] = r & 1;
            break;
        case TMK_INT8:
        case TMK_UINT8:
            ((uint8_t *)tensor->data)[i] = (uint8_t)(1 + r % 255);
            break;
        case TMK_INT16:
        case TMK_UINT16:
            ((uint16_t *)tensor->data)[i] = (uint16_t)(1 + r % 65535);
            break;
        case TMK_INT32:
        case TMK_UINT32:
            ((int32_t *)tensor->data)[i] = (int32_t)(1 + r % 2);
            break;
        case TMK_INT64:
        case TMK_UINT64:
            ((int64_t *)tensor->data)[i] = (int64_t)(1 + r % 2);
            break;
        default:
            fail_msg("no random %s", tmk_dtype_name(tensor->dtype));
        }
    }
}

/* ---- memory with guards around it ---- */

struct block {
    unsigned char *data;
    size_t bytes, padded;
};

struct guarded {
    struct block blocks[MAX_BLOCKS];
    size_t n;
    unsigned char poison; /* what fresh memory holds, so that reading it shows */
    struct tmk_tensor *out;
};

static void *guarded_block(struct guarded *g, size_t bytes) {
    assert_true(g->n < MAX_BLOCKS);
    size_t padded = (bytes + 2 * GUARD + 63) & ~(size_t)63;
    unsigned char *p = aligned_alloc(64, padded);
    assert_non_null(p);
    memset(p, GUARD_BYTE, padded);
    memset(p + GUARD, g->poison, bytes);
    g->blocks[g->n++] = (struct block){p, bytes, padded};
    return p + GUARD;
}

static void *guarded_scratch(void *context, size_t bytes) {
    return bytes < (size_t)1 << 26 ? guarded_block(context, bytes) : NULL;
}

static enum tmk_status guarded_alloc(void *context, uint32_t i, enum tmk_dtype dtype,
                                     const struct tmk_shape *shape, struct tmk_diag *diag) {
    struct guarded *g = context;
    struct tmk_tensor checked;
    enum tmk_status status = tmk_tensor_init(&checked, dtype, shape, diag);
    if (status != TMK_OK)
        return status;
    size_t bytes = tmk_tensor_bytes(&checked);
    tmk_tensor_finish(&checked);
    tmk_tensor_borrow(&g->out[i], dtype, shape, guarded_block(g, bytes));
    return TMK_OK;
}

static bool guards_hold(const struct guarded *g) {
    for (size_t i = 0; i < g->n; i++) {
        const struct block *b = &g->blocks[i];
        for (size_t k = 0; k < GUARD; k++)
            if (b->data[k] != GUARD_BYTE)
                return false;
        for (size_t k = GUARD + b->bytes; k < b->padded; k++)
            if (b->data[k] != GUARD_BYTE)
                return false;
    }
    return true;
}

static void release(struct guarded *g) {
    while (g->n)
        free(g->blocks[--g->n].data);
}

/* ---- one sample: its graph, its node, the node's inputs ---- */

struct sample {
    const struct tmk_op *row;
    struct tmk_graph *graph;
    struct tmk_node *node;
    struct tmk_tensor values[MAX_VALUES];
    const struct tmk_tensor **in;
    struct tmk_tensor *out;
    struct tmk_infer_result *results;
    char label[128];
};

static void evaluate(struct sample *s, const struct tmk_node *node) {
    const struct tmk_tensor *in[TMK_MAX_INPUTS];
    struct tmk_tensor *out = calloc(node->n_outputs + 1u, sizeof *out);
    assert_non_null(out);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        in[i] = node->inputs[i] ? &s->values[node->inputs[i]->index] : NULL;
    if (tmk_op_run(node, in, out, DIAG) != TMK_OK)
        fail_msg("%s: %s does not run: %s", s->label, node->op, test_diag.text);
    for (uint32_t i = 0; i < node->n_outputs; i++)
        if (node->outputs[i])
            s->values[node->outputs[i]->index] = out[i];
    free(out);
}

/* Parses, binds, fills the inputs and runs what stands before the row's own node. */
static void open_sample(struct sample *s, const struct tmk_op *row) {
    *s = (struct sample){.row = row};
    snprintf(s->label, sizeof s->label, "%s.%d", row->name, row->since);
    if (parse_graph(op_sample(row), NULL, &s->graph, DIAG) != TMK_OK)
        fail_msg("%s: the sample does not parse: %s", s->label, test_diag.text);
    if (tmk_ops_bind(s->graph, DIAG) != TMK_OK)
        fail_msg("%s: the sample does not bind: %s", s->label, test_diag.text);
    int uses = 0;
    for (struct tmk_node *node = s->graph->first; node; node = node->next)
        if (node->row == row) {
            s->node = node;
            uses++;
        }
    if (uses != 1)
        fail_msg("%s: %d nodes of the sample use the row", s->label, uses);
    assert_true(tmk_graph_number(s->graph) <= MAX_VALUES);

    uint64_t random = 0x9e3779b97f4a7c15u;
    for (const char *p = op_sample(row); *p; p++)
        random = (random ^ (unsigned char)*p) * 0x100000001b3u;
    for (uint32_t i = 0; i < s->graph->n_values; i++) {
        const struct tmk_value *value = s->graph->values[i];
        struct tmk_tensor *tensor = &s->values[value->index];
        if (value->kind == TMK_VALUE_INITIALIZER) {
            tmk_tensor_share(tensor, &value->data);
        } else if (value->kind == TMK_VALUE_INPUT) {
            must(tmk_tensor_init(tensor, value->type.dtype, &value->type.shape, DIAG));
            fill(tensor, &random);
        }
    }
    for (const struct tmk_node *node = s->graph->first; node != s->node; node = node->next)
        evaluate(s, node);

    s->in = calloc(s->node->n_inputs + 1u, sizeof(struct tmk_tensor *));
    s->out = calloc(s->node->n_outputs + 1u, sizeof *s->out);
    s->results = calloc(s->node->n_outputs + 1u, sizeof *s->results);
    assert_true(s->in && s->out && s->results);
    for (uint32_t i = 0; i < s->node->n_inputs; i++)
        s->in[i] = s->node->inputs[i] ? &s->values[s->node->inputs[i]->index] : NULL;
    if (tmk_op_infer(s->node, s->in, s->results, DIAG) != TMK_OK)
        fail_msg("%s: the sample is not accepted: %s", s->label, test_diag.text);
}

static void close_sample(struct sample *s) {
    for (size_t i = 0; i < MAX_VALUES; i++)
        tmk_tensor_finish(&s->values[i]);
    free(s->in);
    free(s->out);
    free(s->results);
    tmk_graph_destroy(&s->graph);
}

/* Runs the row's own kernel in guarded memory; s->out shows the results until release(g). `first`
 * (may be NULL) is the memory of output 0. */
static enum tmk_status run_guarded(struct sample *s, const struct tmk_tensor *const *in,
                                   struct guarded *g, void *first, struct tmk_diag *diag) {
    struct tmk_tensor **wanted = calloc(s->node->n_outputs + 1u, sizeof(struct tmk_tensor *));
    assert_non_null(wanted);
    memset(s->out, 0, s->node->n_outputs * sizeof *s->out);
    g->out = s->out;
    enum tmk_status status = TMK_OK;
    for (uint32_t i = 0; i < s->node->n_outputs && status == TMK_OK; i++) {
        const struct tmk_infer_result *r = &s->results[i];
        if (s->node->outputs[i])
            wanted[i] = &s->out[i];
        if (wanted[i] && r->known && i == 0 && first)
            tmk_tensor_borrow(&s->out[i], r->dtype, &r->shape, first);
        else if (wanted[i] && r->known)
            status = guarded_alloc(g, i, r->dtype, &r->shape, diag);
    }
    struct tmk_run run = {s->node, s->node->n_inputs, s->node->n_outputs, in,
                          wanted,  guarded_scratch,   guarded_alloc,      g,
                          diag};
    if (status == TMK_OK)
        status = tmk_run_kernel(&run);
    free(wanted);
    if (!guards_hold(g))
        fail_msg("%s: wrote outside its memory", s->label);
    return status;
}

/* What kernels gave, rather than wrote, is ours. */
static void drop_outputs(const struct sample *s, struct tmk_tensor *out) {
    for (uint32_t i = 0; i < s->node->n_outputs; i++)
        tmk_tensor_finish(&out[i]);
}

/* Calls check for each row with its sample opened. */
static void each_sample(void (*check)(struct sample *s)) {
    static struct sample s;
    for (const struct tmk_op *const *row = op_rows(); *row; row++) {
        open_sample(&s, *row);
        if (!((*row)->flags & TMK_OP_RUNS_GRAPHS)) /* those need an executor: test_exec.c */
            check(&s);
        close_sample(&s);
    }
}

static bool same_bytes(const struct tmk_tensor *a, const struct tmk_tensor *b) {
    size_t bytes = tmk_tensor_bytes(a);
    if (a->kind != b->kind || (a->list && tmk_list_length(a->list) != tmk_list_length(b->list)))
        return false;
    for (size_t i = 0; a->list && i < tmk_list_length(a->list); i++)
        if (!same_bytes(&tmk_list_items(a->list)[i], &tmk_list_items(b->list)[i]))
            return false;
    return a->dtype == b->dtype && tmk_shape_equal(&a->shape, &b->shape) &&
           (bytes == 0 || memcmp(a->data, b->data, bytes) == 0);
}

/* ---- the rows themselves ---- */

TEST(no_row_has_an_empty_field) {
    assert_non_null(op_rows()[0]);
    for (const struct tmk_op *const *p = op_rows(); *p; p++) {
        const struct tmk_op *row = *p;
        if (!row->domain || !row->infer || !row->run)
            fail_msg("%s: a field is NULL", row->name);
        if (!op_sample(row))
            fail_msg("%s.%d: op_samples.txt has no sample", row->name, row->since);
        if (row->since < 1 || row->until < row->since || row->min_in < 0 ||
            row->max_in < row->min_in || row->min_out < 0 || row->max_out < row->min_out)
            fail_msg("%s.%d: limits are in the wrong order", row->name, row->since);
        struct tmk_attr_rule rule;
        const char *at = row->attrs;
        while (tmk_attr_rule_next(&at, &rule))
            assert_true(tmk_op_takes_attr(row, rule.name));
        if (at && *at)
            fail_msg("%s.%d: '%s' is no list of attributes", row->name, row->since, row->attrs);
        struct tmk_inner_rule inner;
        for (at = row->inner; tmk_inner_rule_next(&at, &inner);)
            assert_true(inner.name[0] && inner.output > 0 && inner.output < TMK_MAX_OUTPUTS);
        if (at && *at)
            fail_msg("%s.%d: '%s' is no list of inner values", row->name, row->since, row->inner);
    }
}

TEST(versions_of_an_operator_follow_each_other) {
    for (const struct tmk_op *const *p = op_rows(); *p; p++) {
        const struct tmk_op *row = *p, *next = NULL;
        for (const struct tmk_op *const *q = op_rows(); *q; q++) {
            if (*q == row || strcmp((*q)->name, row->name) != 0 ||
                strcmp((*q)->domain, row->domain) != 0)
                continue;
            if ((*q)->since <= row->until && row->since <= (*q)->until)
                fail_msg("%s: versions %d and %d overlap", row->name, row->since, (*q)->since);
            if ((*q)->since > row->since && (!next || (*q)->since < next->since))
                next = *q;
        }
        if (next && next->since != row->until + 1)
            fail_msg("%s: nothing between versions %d and %d", row->name, row->until, next->since);
    }
}

TEST(every_row_is_found_by_its_versions) {
    for (const struct tmk_op *const *p = op_rows(); *p; p++) {
        const struct tmk_op *row = *p;
        assert_ptr_equal(tmk_op_find(row->domain, row->name, row->since), row);
        assert_ptr_equal(tmk_op_find(row->domain, row->name, row->until), row);
    }
    assert_null(tmk_op_find("", "NoSuchOperator", 13));
    assert_null(tmk_op_find("elsewhere", op_rows()[0]->name, 13));
    assert_null(tmk_op_find("", "Identity", 0));
}

/* ---- what the samples show ---- */

static void check_inference(struct sample *s) {
    struct guarded g = {.poison = 0xcd};
    bool itself = false;
    for (uint32_t i = 0; i < s->node->n_outputs; i++)
        itself |= s->node->outputs[i] && !s->results[i].known;
    if (itself != !!(s->row->flags & TMK_OP_SIZES_ITSELF))
        fail_msg("%s: the flag SIZES_ITSELF is wrong", s->label);
    evaluate(s, s->node);
    if (run_guarded(s, s->in, &g, NULL, DIAG) != TMK_OK)
        fail_msg("%s: %s", s->label, test_diag.text);
    for (uint32_t i = 0; i < s->node->n_outputs; i++) {
        if (!s->node->outputs[i])
            continue;
        const struct tmk_tensor *folded = &s->values[s->node->outputs[i]->index];
        if (s->results[i].known && (s->results[i].dtype != folded->dtype ||
                                    !tmk_shape_equal(&s->results[i].shape, &folded->shape)))
            fail_msg("%s: output %u is not as inferred", s->label, i);
        if (!same_bytes(folded, &s->out[i]))
            fail_msg("%s: output %u depends on what its memory held", s->label, i);
    }
    drop_outputs(s, s->out);
    release(&g);
}

TEST(inferred_shapes_are_those_of_the_run) {
    each_sample(check_inference);
}

static void check_unknown_elements(struct sample *s) {
    uint32_t n = s->node->n_inputs;
    struct tmk_tensor *shapes = calloc(n + 1u, sizeof *shapes);
    const struct tmk_tensor **in = calloc(n + 1u, sizeof(struct tmk_tensor *));
    struct tmk_infer_result *results = calloc(s->node->n_outputs + 1u, sizeof *results);
    assert_true(shapes && in && results);
    for (uint32_t i = 0; i < n; i++)
        if (s->in[i]) {
            shapes[i] = *s->in[i];
            shapes[i].data = NULL;
            in[i] = &shapes[i];
        }
    if (tmk_op_infer(s->node, in, results, DIAG) != TMK_OK)
        fail_msg("%s: is refused without elements: %s", s->label, test_diag.text);
    for (uint32_t i = 0; i < s->node->n_outputs; i++)
        if (results[i].known && s->node->outputs[i] &&
            (results[i].dtype != s->results[i].dtype ||
             !tmk_shape_equal(&results[i].shape, &s->results[i].shape)))
            fail_msg("%s: output %u is guessed wrong without elements", s->label, i);
    free(shapes);
    free(in);
    free(results);
}

TEST(inference_does_without_elements) {
    each_sample(check_unknown_elements);
}

static void check_twice(struct sample *s) {
    struct guarded first = {.poison = 0x00}, second = {.poison = 0xff};
    struct tmk_tensor before[64];
    assert_true(s->node->n_inputs <= 64);
    for (uint32_t i = 0; i < s->node->n_inputs; i++) {
        before[i] = (struct tmk_tensor){0};
        if (s->in[i] && s->in[i]->kind != TMK_TYPE_TENSOR) {
            tmk_tensor_share(&before[i], s->in[i]);
        } else if (s->in[i]) {
            must(tmk_tensor_init(&before[i], s->in[i]->dtype, &s->in[i]->shape, DIAG));
            memcpy(before[i].data, s->in[i]->data, tmk_tensor_bytes(s->in[i]));
        }
    }
    if (run_guarded(s, s->in, &first, NULL, DIAG) != TMK_OK)
        fail_msg("%s: %s", s->label, test_diag.text);
    struct tmk_tensor *kept = calloc(s->node->n_outputs + 1u, sizeof *kept);
    assert_non_null(kept);
    memcpy(kept, s->out, s->node->n_outputs * sizeof *kept);
    if (run_guarded(s, s->in, &second, NULL, DIAG) != TMK_OK)
        fail_msg("%s: %s", s->label, test_diag.text);
    for (uint32_t i = 0; i < s->node->n_outputs; i++)
        if (s->node->outputs[i] && !same_bytes(&kept[i], &s->out[i]))
            fail_msg("%s: output %u differs from run to run", s->label, i);
    for (uint32_t i = 0; i < s->node->n_inputs; i++) {
        if (s->in[i] && !same_bytes(&before[i], s->in[i]))
            fail_msg("%s: input %u was written to", s->label, i);
        tmk_tensor_finish(&before[i]);
    }
    drop_outputs(s, kept);
    drop_outputs(s, s->out);
    free(kept);
    release(&first);
    release(&second);
}

TEST(running_twice_gives_the_same_bytes) {
    each_sample(check_twice);
}

/* Output 0 in input 0's memory, where the flags allow it. */
static void check_shared(struct sample *s) {
    const struct tmk_infer_result *r = &s->results[0];
    bool view = s->row->flags & TMK_OP_VIEW;
    bool inplace = s->row->flags & TMK_OP_INPLACE;
    if (!view && !inplace)
        return;
    const struct tmk_tensor *source = s->in[0];
    bool same = r->dtype == source->dtype && tmk_shape_equal(&r->shape, &source->shape);
    struct guarded apart = {.poison = 0xcd}, shared = {.poison = 0xcd};
    if (run_guarded(s, s->in, &apart, NULL, DIAG) != TMK_OK)
        fail_msg("%s: %s", s->label, test_diag.text);
    struct tmk_tensor expected = s->out[0], copy = *source;
    if (view && (expected.dtype != source->dtype ||
                 tmk_tensor_bytes(&expected) != tmk_tensor_bytes(source) ||
                 memcmp(expected.data, source->data, tmk_tensor_bytes(source)) != 0))
        fail_msg("%s: is no view", s->label);
    if (view || same) {
        copy.data = guarded_block(&shared, tmk_tensor_bytes(source));
        memcpy(copy.data, source->data, tmk_tensor_bytes(source));
        const struct tmk_tensor *in[TMK_MAX_INPUTS];
        for (uint32_t i = 0; i < s->node->n_inputs; i++)
            in[i] = s->in[i] == source ? &copy : s->in[i];
        if (run_guarded(s, in, &shared, copy.data, DIAG) != TMK_OK)
            fail_msg("%s: in place: %s", s->label, test_diag.text);
        if (!same_bytes(&expected, &s->out[0]))
            fail_msg("%s: gives other bytes in place", s->label);
    }
    release(&apart);
    release(&shared);
}

TEST(views_and_in_place_results_are_the_same_bytes) {
    each_sample(check_shared);
}

/* An operator of shapes gives the same result with other elements. */
static void check_shape_only(struct sample *s) {
    if (!tmk_node_has(s->node, TMK_TRAIT_SHAPE_ONLY))
        return;
    struct guarded first = {.poison = 0xcd}, second = {.poison = 0xcd};
    if (run_guarded(s, s->in, &first, NULL, DIAG) != TMK_OK)
        fail_msg("%s: %s", s->label, test_diag.text);
    struct tmk_tensor expected = s->out[0];
    struct tmk_tensor other = *s->in[0];
    other.data = guarded_block(&second, tmk_tensor_bytes(&other));
    memset(other.data, 0x3e, tmk_tensor_bytes(&other));
    const struct tmk_tensor *in[] = {&other};
    assert_int_equal(s->node->n_inputs, 1);
    if (run_guarded(s, in, &second, NULL, DIAG) != TMK_OK)
        fail_msg("%s: %s", s->label, test_diag.text);
    if (!same_bytes(&expected, &s->out[0]))
        fail_msg("%s: looks at elements", s->label);
    release(&first);
    release(&second);
}

TEST(operators_of_shapes_ignore_elements) {
    each_sample(check_shape_only);
}

/* ---- hostile inputs ---- */

static void distort(struct tmk_tensor *tensor, uint64_t *random) {
    static const enum tmk_dtype dtypes[] = {TMK_FLOAT32, TMK_INT64, TMK_INT32,
                                            TMK_UINT8,   TMK_BOOL,  TMK_INT8};
    static const int64_t extremes[] = {INT64_MIN, INT64_MIN + 1, -3, -1, 0, 5, INT64_MAX};
    enum tmk_dtype dtype = tensor->dtype;
    struct tmk_shape shape = tensor->shape;
    uint64_t r = next_random(random) >> 20;
    if (r % 7 == 0)
        dtype = dtypes[(r >> 8) % 6];
    if (r % 5 == 0)
        shape.rank = (int32_t)((r >> 12) % 6);
    for (int32_t i = 0; i < shape.rank; i++, r >>= 2)
        if (i >= tensor->shape.rank || r % 4 == 0)
            shape.dim[i] = (int64_t)((next_random(random) >> 20) % 5);
    struct tmk_tensor fresh;
    must(tmk_tensor_init(&fresh, dtype, &shape, DIAG));
    fill(&fresh, random);
    size_t n = tmk_tensor_count(&fresh), given = tmk_tensor_count(tensor);
    if (dtype == tensor->dtype && n && given) { /* what the sample holds, with some of it spoilt */
        size_t bytes = tmk_tensor_bytes(&fresh), have = tmk_tensor_bytes(tensor);
        memcpy(fresh.data, tensor->data, bytes < have ? bytes : have);
    }
    if (dtype == TMK_INT64 && n && (next_random(random) >> 20) % 3 == 0)
        ((int64_t *)fresh.data)[next_random(random) % n] =
            extremes[(next_random(random) >> 20) % 7];
    if (dtype == TMK_FLOAT32 && n && (next_random(random) >> 20) % 5 == 0)
        ((float *)fresh.data)[next_random(random) % n] = NAN;
    *tensor = fresh;
}

/* Whatever inputs a row accepts it must also run on, or refuse with a text. */
static void check_hostile(struct sample *s) {
    enum { TRIALS = 150, MOST_BYTES = 1 << 20 };
    uint64_t random = 0x243f6a8885a308d3u + (uint64_t)s->row->since;
    uint32_t n = s->node->n_inputs;
    struct tmk_tensor *spoilt = calloc(n + 1u, sizeof *spoilt);
    const struct tmk_tensor **in = calloc(n + 1u, sizeof(struct tmk_tensor *));
    assert_true(spoilt && in);
    for (int trial = 0; trial < TRIALS && n; trial++) {
        for (uint32_t i = 0; i < n; i++) {
            in[i] = s->in[i];
            if (s->in[i] && (next_random(&random) >> 20) % 2 == 0) {
                spoilt[i] = *s->in[i];
                distort(&spoilt[i], &random);
                in[i] = &spoilt[i];
            }
        }
        enum tmk_status status = tmk_op_infer(s->node, in, s->results, DIAG);
        size_t bytes = 0;
        for (uint32_t i = 0; i < s->node->n_outputs && status == TMK_OK; i++) {
            struct tmk_tensor sized = {.dtype = s->results[i].dtype, .shape = s->results[i].shape};
            bytes += s->results[i].known ? tmk_tensor_bytes(&sized) : 0;
        }
        if (status == TMK_OK && bytes < MOST_BYTES) {
            struct guarded g = {.poison = 0xcd};
            status = run_guarded(s, in, &g, NULL, DIAG);
            drop_outputs(s, s->out);
            release(&g);
        }
        if (status != TMK_OK && !test_diag.text[0])
            fail_msg("%s: refuses without a text", s->label);
        for (uint32_t i = 0; i < n; i++)
            tmk_tensor_finish(&spoilt[i]);
    }
    free(spoilt);
    free(in);
}

TEST(hostile_inputs_are_refused_or_survived) {
    each_sample(check_hostile);
}
