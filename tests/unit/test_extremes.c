/* SPDX-License-Identifier: Apache-2.0 */
/* Every operator's sample again, with an attribute or an operand outside all ordinary models: each
 * must run, or be refused with a text, soon and within the memory limit; sanitizers see the rest.
 *
 * TIDEMARK_EXTREMES=ROUNDS goes on with so many rounds of several extremes at once. */
#include "test.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/memory.h>

#include "base/size.h"
#include "exec/worker.h"
#include "graph_text/read.h"
#include "kernel/accel.h"
#include "tools/op_rows.h"

enum { LIMIT = 16 << 20, SECONDS = 30, MOST_CHANGES = 8, LONGEST_LIST = 13 };

static const int64_t ints[] = {0,
                               1,
                               -1,
                               2,
                               -2,
                               7,
                               INT32_MAX,
                               INT32_MIN,
                               INT64_C(1) << 31,
                               INT64_C(1) << 32,
                               INT64_C(1) << 62,
                               INT64_MAX,
                               INT64_MIN,
                               INT64_MIN + 1};
static const float floats[] = {0.0f, -0.0f, 1.0f,  -1.0f,  0.5f,    NAN,      INFINITY, -INFINITY,
                               3e9f, -3e9f, 1e19f, -1e19f, 3.4e38f, -3.4e38f, 1e-45f};
static const char *const strings[] = {"", "VALID", "nearest", "\xff"};

/* ---- a case ---- */

/* Which attribute or operand, and what becomes of it. */
struct change {
    bool operand;
    uint32_t which;   /* attribute rule, or operand */
    uint32_t element; /* UINT32_MAX: all */
    uint32_t length;  /* of a list */
    uint32_t extreme;
};

static uint64_t tried, succeeded; /* cases */
static char label[256];           /* of the running case, for the message on a timeout */

static void waited(int number) {
    (void)number;
    static const char text[] = "\nBail out! over time: ";
    (void)!write(STDOUT_FILENO, text, sizeof text - 1);
    (void)!write(STDOUT_FILENO, label, strlen(label));
    (void)!write(STDOUT_FILENO, "\n", 1);
    _exit(1);
}

static struct tmk_node *find(struct tmk_graph *graph, const struct tmk_op *row) {
    for (struct tmk_node *node = graph->first; node; node = node->next)
        if (node->row == row)
            return node;
    return NULL;
}

static void set_element(struct tmk_tensor *tensor, size_t i, uint32_t extreme) {
    const int64_t whole = ints[extreme % TMK_COUNT(ints)];
    const float real = floats[extreme % TMK_COUNT(floats)];
    unsigned char *to = (unsigned char *)tensor->data + i * tmk_dtype_size(tensor->dtype);
    if (tensor->dtype == TMK_FLOAT32)
        memcpy(to, &real, sizeof real);
    else if (tensor->dtype == TMK_BOOL)
        *to = whole & 1;
    else
        memcpy(to, &whole, tmk_dtype_size(tensor->dtype)); /* the lower bytes */
}

static void change_tensor(struct tmk_tensor *tensor, const struct change *change) {
    size_t n = tmk_tensor_count(tensor);
    for (size_t i = 0; i < n; i++)
        if (change->element == UINT32_MAX || change->element == i)
            set_element(tensor, i, change->extreme);
}

static struct tmk_attr_rule rule_at(const struct tmk_op *row, uint32_t i) {
    struct tmk_attr_rule rule = {0};
    for (const char *at = row->attrs; tmk_attr_rule_next(&at, &rule) && i > 0; i--)
        continue;
    return rule;
}

static void change_attr(struct tmk_node *node, const struct tmk_attr_rule *rule,
                        const struct change *change) {
    const struct tmk_attr *old = tmk_node_attr(node, rule->name);
    struct tmk_attr attr = {.name = rule->name, .kind = rule->kind, .n = change->length};
    const int64_t whole = ints[change->extreme % TMK_COUNT(ints)];
    const float real = floats[change->extreme % TMK_COUNT(floats)];
    int64_t many[LONGEST_LIST];
    float reals[LONGEST_LIST];
    for (uint32_t i = 0; i < LONGEST_LIST; i++) {
        bool keep = old && i < old->n && change->element != UINT32_MAX && change->element != i;
        many[i] = keep && old->kind == TMK_ATTR_INTS ? old->ints[i] : whole;
        reals[i] = keep && old->kind == TMK_ATTR_FLOATS ? old->floats[i] : real;
    }
    switch (rule->kind) {
    case TMK_ATTR_INT:
        attr.i = whole;
        break;
    case TMK_ATTR_FLOAT:
        attr.f = real;
        break;
    case TMK_ATTR_STRING:
        attr.s = strings[change->extreme % TMK_COUNT(strings)];
        attr.n = strlen(attr.s);
        break;
    case TMK_ATTR_INTS:
        attr.ints = many;
        break;
    case TMK_ATTR_FLOATS:
        attr.floats = reals;
        break;
    default:
        return;
    }
    must(tmk_node_set_attr(node, &attr, DIAG));
}

/* What the sample is given: ones, which most operators can work with. */
static void fill(struct tmk_tensor *tensor) {
    size_t n = tmk_tensor_count(tensor);
    for (size_t i = 0; i < n; i++)
        set_element(tensor, i, tensor->dtype == TMK_FLOAT32 ? 2 : 1);
}

/* Plans and runs; true when it ran. */
static bool plan_and_run(struct tmk_graph *graph, const struct tmk_tensor *inputs,
                         struct tmk_diag *diag) {
    struct tmk_plan *plan = NULL;
    struct tmk_worker *worker = NULL;
    tmk_graph_number(graph);
    enum tmk_status status = tmk_plan_create(graph, inputs, NULL, &plan, diag);
    if (status == TMK_OK)
        status = tmk_worker_create(&worker, diag);
    if (status == TMK_OK) {
        tmk_worker_limit(worker, 10000);
        status = tmk_worker_run(worker, plan, inputs, NULL, diag);
    }
    tmk_worker_destroy(&worker);
    tmk_plan_destroy(&plan);
    if (status != TMK_OK && (!diag->text[0] || status == TMK_NOMEM))
        fail_msg("%s: status %d: '%s'", label, status, diag->text);
    return status == TMK_OK;
}

static bool try_changes(const struct tmk_op *row, const struct change *changes, uint32_t n) {
    struct tmk_graph *graph = NULL;
    struct tmk_diag diag = {0};
    assert_ok(parse_graph(op_sample(row), NULL, &graph, &diag), &diag);
    assert_ok(tmk_ops_bind(graph, &diag), &diag);
    struct tmk_node *node = find(graph, row);
    struct tmk_tensor *inputs = calloc(graph->n_inputs + 1u, sizeof *inputs);
    assert_non_null(inputs);
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        const struct tmk_type *type = &graph->inputs[i]->type;
        assert_ok(tmk_tensor_init(&inputs[i], type->dtype, &type->shape, &diag), &diag);
        fill(&inputs[i]);
    }
    for (uint32_t c = 0; c < n; c++) {
        if (!changes[c].operand) {
            const struct tmk_attr_rule rule = rule_at(row, changes[c].which);
            change_attr(node, &rule, &changes[c]);
            continue;
        }
        struct tmk_value *value = node->inputs[changes[c].which];
        if (value && value->kind == TMK_VALUE_INITIALIZER)
            change_tensor(&value->data, &changes[c]);
        for (uint32_t i = 0; value && i < graph->n_inputs; i++)
            if (graph->inputs[i] == value)
                change_tensor(&inputs[i], &changes[c]);
    }
    bool ran = tmk_ops_bind(graph, &diag) == TMK_OK && plan_and_run(graph, inputs, &diag);
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        tmk_tensor_finish(&inputs[i]);
    free(inputs);
    tmk_graph_destroy(&graph);
    return ran;
}

static bool try_labelled(const struct tmk_op *row, const struct change *changes, uint32_t n) {
    size_t used = (size_t)snprintf(label, sizeof label, "%s.%d", row->name, (int)row->since);
    for (uint32_t c = 0; c < n && used < sizeof label; c++)
        used += (size_t)snprintf(
            label + used, sizeof label - used, " %s%s%u length %u element %d extreme %u",
            changes[c].operand ? "operand " : rule_at(row, changes[c].which).name,
            changes[c].operand ? "" : " ", changes[c].operand ? changes[c].which : 0,
            changes[c].length, (int)changes[c].element, changes[c].extreme);
    alarm(SECONDS);
    bool ran = try_changes(row, changes, n);
    tried++;
    succeeded += ran;
    alarm(0);
    return ran;
}

/* ---- all of them ---- */

static uint32_t operands_of(const struct tmk_op *row) {
    struct tmk_graph *graph = NULL;
    must(parse_graph(op_sample(row), NULL, &graph, DIAG));
    must(tmk_ops_bind(graph, DIAG));
    uint32_t n = find(graph, row)->n_inputs;
    tmk_graph_destroy(&graph);
    return n;
}

static uint32_t rules_of(const struct tmk_op *row) {
    struct tmk_attr_rule rule;
    uint32_t n = 0;
    for (const char *at = row->attrs; tmk_attr_rule_next(&at, &rule);)
        n++;
    return n;
}

static void try_rule(const struct tmk_op *row, uint32_t rule, uint32_t extreme) {
    static const uint32_t lengths[] = {0, 1, 2, 3, 4, LONGEST_LIST};
    const enum tmk_attr_kind kind = rule_at(row, rule).kind;
    struct change change = {false, rule, UINT32_MAX, 0, extreme};
    if (kind != TMK_ATTR_INTS && kind != TMK_ATTR_FLOATS) {
        (void)try_labelled(row, &change, 1);
        return;
    }
    for (size_t i = 0; i < TMK_COUNT(lengths); i++) {
        change.length = lengths[i];
        change.element = UINT32_MAX;
        (void)try_labelled(row, &change, 1);
        change.element = extreme % (lengths[i] + 1); /* one of them; others as they are */
        if (lengths[i])
            (void)try_labelled(row, &change, 1);
    }
}

TEST(no_extreme_is_too_much) {
    for (const struct tmk_op *const *row = op_rows(); *row; row++) {
        const uint32_t operands = operands_of(*row), rules = rules_of(*row);
        if (!try_labelled(*row, NULL, 0)) /* the sample itself */
            fail_msg("%s: does not run", label);
        for (uint32_t extreme = 0; extreme < TMK_COUNT(floats); extreme++) {
            for (uint32_t rule = 0; rule < rules; rule++)
                try_rule(*row, rule, extreme);
            for (uint32_t i = 0; i < operands; i++)
                for (uint32_t element = 0; element < 2; element++) {
                    const struct change change = {true, i, element ? 0 : UINT32_MAX, 0, extreme};
                    (void)try_labelled(*row, &change, 1);
                }
        }
    }
    assert_true(succeeded > 10000 && tried > succeeded + 10000); /* it is no sieve, and no wall */
}

static uint32_t below(uint64_t *random, uint32_t n) {
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return n ? (uint32_t)((*random >> 33) % n) : 0;
}

TEST(nor_are_several) {
    const char *asked = getenv("TIDEMARK_EXTREMES");
    const unsigned long rounds = asked ? strtoul(asked, NULL, 10) : 1;
    uint64_t random = asked ? (uint64_t)getpid() : 1;
    for (unsigned long round = 0; round < rounds; round++)
        for (const struct tmk_op *const *row = op_rows(); *row; row++) {
            const uint32_t operands = operands_of(*row), rules = rules_of(*row);
            struct change changes[MOST_CHANGES];
            uint32_t n = 2 + below(&random, MOST_CHANGES - 1);
            if (!operands && !rules)
                continue;
            for (uint32_t c = 0; c < n; c++) {
                const bool operand = !rules || (operands && below(&random, 2));
                changes[c] = (struct change){operand, below(&random, operand ? operands : rules),
                                             below(&random, 2) ? UINT32_MAX : below(&random, 4),
                                             below(&random, LONGEST_LIST),
                                             below(&random, TMK_COUNT(floats))};
            }
            (void)try_labelled(*row, changes, n);
        }
}

static int set_up(void **state) {
    (void)state;
    signal(SIGALRM, waited);
    tmk_memory_set_limit(LIMIT);
    tmk_kernel_enter_thread();
    return 0;
}

GROUP_FIXTURE(set_up, NULL)
