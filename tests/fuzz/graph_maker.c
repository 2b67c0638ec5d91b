/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_maker_parts.h"
#include "graph_text/read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/worker.h"
#include "graph/literal.h"

static void no_memory(void) {
    fprintf(stderr, "out of memory\n");
    exit(2);
}

/* ---- numbers ---- */

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 24;
}

static float wild_number(uint64_t random) {
    static const float wild[] = {NAN,     INFINITY, -INFINITY, 3.4e38f, -3.3e38f, 1e-41f,
                                 -1e-45f, 1.2e-38f, -1e-30f,   0.0f,    -0.0f,    65504.f,
                                 1e20f,   -1.5e19f, 127.5f,    -0.5f};
    return wild[random % TMK_COUNT(wild)];
}

void fill_numbers(struct tmk_tensor *tensor, const struct numbers *how) {
    uint64_t state = how->seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < tmk_tensor_count(tensor); i++) {
        uint64_t r = next_random(&state);
        switch (tensor->dtype) {
        case TMK_FLOAT32:
            ((float *)tensor->data)[i] =
                how->wild && r % 23 == 0
                    ? wild_number(r / 23)
                    : (float)(how->low +
                              (how->high - how->low) * (double)(r % (1 << 24)) / (1 << 24));
            break;
        case TMK_BOOL:
            ((uint8_t *)tensor->data)[i] = r & 1;
            break;
        case TMK_INT32:
        case TMK_UINT32:
            ((int32_t *)tensor->data)[i] = (int32_t)(1 + r % 2); /* indices, mostly */
            break;
        case TMK_INT64:
        case TMK_UINT64:
            ((int64_t *)tensor->data)[i] = (int64_t)(1 + r % 2);
            break;
        case TMK_INT16:
        case TMK_UINT16:
            ((uint16_t *)tensor->data)[i] = (uint16_t)r;
            break;
        default:
            if (tmk_dtype_size(tensor->dtype) == 1)
                ((uint8_t *)tensor->data)[i] =
                    (uint8_t)(tensor->dtype == TMK_UINT4 || tensor->dtype == TMK_INT4 ? r % 8 : r);
        }
    }
}

static void make_tensor(struct tmk_tensor *out, enum tmk_dtype dtype,
                        const struct tmk_shape *shape) {
    if (tmk_tensor_init(out, dtype, shape, NULL) != TMK_OK)
        no_memory();
}

void made_inputs(const struct made_graph *made, uint32_t batch, struct tmk_tensor *out) {
    for (uint32_t i = 0; i < made->n_inputs; i++) {
        const struct made_input *input = &made->inputs[i];
        struct tmk_shape shape = input->shape;
        if (input->batched)
            shape.dim[0] = made->samples[batch];
        make_tensor(&out[i], input->dtype, &shape);
        const struct numbers how = {made->seed + 101 * batch + i, -2, 2,
                                    made->wild && (made->seed + i) % 3};
        fill_numbers(&out[i], &how);
    }
}

/* ---- choices ---- */

static unsigned take(struct maker *m) {
    if (!m->n)
        return 0;
    m->n--;
    return *m->bytes++;
}

unsigned draw(struct maker *m, unsigned below) {
    if (below <= 1)
        return 0;
    unsigned x = take(m);
    if (below > 256)
        x = x << 8 | take(m);
    return x % below;
}

const struct thing *maker_value(struct maker *m, enum tmk_dtype dtype, int least, int most) {
    uint32_t fit[MOST_THINGS], n = 0;
    for (uint32_t i = 0; i < m->n_things; i++) {
        const struct thing *t = &m->things[i];
        if ((dtype == TMK_UNDEFINED || t->dtype == dtype) && !t->loose && t->shape.rank >= least &&
            t->shape.rank <= most)
            fit[n++] = i;
    }
    if (!n)
        return NULL;
    unsigned back = draw(m, 4) ? draw(m, n < 3 ? n : 3) : draw(m, n);
    return &m->things[fit[n - 1 - back]];
}

const struct thing *maker_partner(struct maker *m, const struct thing *x) {
    uint32_t fit[MOST_THINGS], n = 0;
    for (uint32_t i = 0; i < m->n_things; i++) {
        const struct thing *t = &m->things[i];
        bool fits = t->dtype == x->dtype && !t->loose;
        for (int32_t k = 1; fits && k <= t->shape.rank && k <= x->shape.rank; k++) {
            int64_t a = t->shape.dim[t->shape.rank - k], b = x->shape.dim[x->shape.rank - k];
            fits = a == b || a == 1 || b == 1;
        }
        if (fits)
            fit[n++] = i;
    }
    return n ? &m->things[fit[n - 1 - draw(m, n)]] : x;
}

int maker_result(struct maker *m) {
    if (m->n_results < MOST_RESULTS)
        m->results[m->n_results++] = m->names;
    return m->names++;
}

/* ---- initializers ---- */

static const char *type_name(enum tmk_dtype dtype) {
    return tmk_dtype_size(dtype) ? tmk_literal_dtype(dtype) : NULL;
}

static void print_type(struct tmk_text *text, enum tmk_dtype dtype, const struct tmk_shape *shape,
                       bool batched) {
    tmk_text_printf(text, "%s[", type_name(dtype));
    for (int32_t i = 0; i < shape->rank; i++)
        if (i == 0 && batched)
            tmk_text_puts(text, "\"N\"");
        else
            tmk_text_printf(text, "%s%lld", i ? "," : "", (long long)shape->dim[i]);
    tmk_text_puts(text, "]");
}

/* Takes the tensor over. Sometimes it is a Constant node, or stands behind one that does nothing.
 */
static int add_weight(struct maker *m, struct tmk_tensor *tensor) {
    struct tensor_pool *pool = &m->made->pool;
    const size_t at = pool->n;
    if (!tensor_pool_add(pool, tensor))
        no_memory();
    tmk_tensor_finish(tensor);
    const int name = m->weights++;
    const unsigned how = draw(m, 16);
    tmk_text_printf(&m->item, " %s%%%s%d %s ", how == 13 ? "" : "init ", how == 14 ? "u" : "w",
                    name, how == 13 ? "= Constant() {value=" : ":");
    print_type(&m->item, pool->tensors[at].dtype, &pool->tensors[at].shape, false);
    tmk_text_printf(&m->item, how == 13 ? "#%zu}\n" : " = #%zu\n", at);
    if (how == 14)
        tmk_text_printf(&m->item, " %%w%d = Identity(%%u%d)\n", name, name);
    return name;
}

int maker_weight(struct maker *m, const struct tmk_shape *shape, double low, double high) {
    struct tmk_tensor tensor;
    size_t count = 0;
    struct tmk_shape small = *shape;
    if (!tmk_shape_count(shape, &count) || count > 4 * MOST_ELEMENTS)
        small.rank = 0; /* will be refused, or is fine */
    make_tensor(&tensor, TMK_FLOAT32, &small);
    const struct numbers how = {m->made->seed + (uint64_t)m->weights * 7919, low, high,
                                m->made->wild && one_in(m, 4)};
    fill_numbers(&tensor, &how);
    return add_weight(m, &tensor);
}

int maker_weight_of(struct maker *m, int32_t rank, const int64_t *dim, double low, double high) {
    struct tmk_shape shape = {.rank = rank};
    memcpy(shape.dim, dim, (size_t)rank * sizeof *dim);
    return maker_weight(m, &shape, low, high);
}

int maker_scalar(struct maker *m, double value) {
    struct tmk_tensor tensor;
    make_tensor(&tensor, TMK_FLOAT32, &(struct tmk_shape){0});
    *(float *)tensor.data = (float)value;
    return add_weight(m, &tensor);
}

int maker_ints(struct maker *m, enum tmk_dtype dtype, const int64_t *values, int n) {
    struct tmk_tensor tensor;
    make_tensor(&tensor, dtype, &(struct tmk_shape){n >= 0, {n}});
    for (int i = 0; i < (n < 0 ? 1 : n); i++)
        if (tmk_dtype_size(dtype) == 8)
            ((int64_t *)tensor.data)[i] = values[i];
        else if (tmk_dtype_size(dtype) == 4)
            ((int32_t *)tensor.data)[i] = (int32_t)values[i];
        else if (tmk_dtype_size(dtype) == 1)
            ((uint8_t *)tensor.data)[i] = (uint8_t)values[i];
    return add_weight(m, &tensor);
}

struct tmk_shape maker_broadcast(struct maker *m, const struct thing *x) {
    struct tmk_shape shape = x->shape;
    for (int32_t i = 0; i < shape.rank; i++)
        if (i == 0 || one_in(m, 3))
            shape.dim[i] = 1;
    int32_t drop = shape.rank ? (int32_t)draw(m, (unsigned)shape.rank + 1) : 0;
    shape.rank -= drop;
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = shape.dim[i + drop];
    return shape;
}

void line_ints(struct maker *m, const char *name, const int64_t *values, int n) {
    LINE(m, "%s=[", name);
    for (int i = 0; i < n; i++)
        LINE(m, "%s%lld", i ? "," : "", (long long)values[i]);
    LINE(m, "], ");
}

void line_list(struct maker *m, int since, const char *name, const int64_t *values, int n) {
    if (m->made->opset >= since) {
        LINE(m, ", %%w%d) {", maker_ints(m, TMK_INT64, values, n));
        return;
    }
    LINE(m, ") {");
    line_ints(m, name, values, n);
}

/* ---- inputs ---- */

const struct thing *maker_input(struct maker *m, enum tmk_dtype dtype,
                                const struct tmk_shape *shape, bool batched) {
    struct made_graph *made = m->made;
    if (made->n_inputs == MOST_MADE_INPUTS || m->n_things == MOST_THINGS || !type_name(dtype))
        return NULL;
    made->inputs[made->n_inputs++] = (struct made_input){dtype, *shape, batched};
    struct thing *t = &m->things[m->n_things++];
    *t = (struct thing){m->names++, dtype, *shape, false};
    tmk_text_printf(&m->head, " input %%v%d : ", t->name);
    print_type(&m->head, dtype, shape, batched);
    tmk_text_puts(&m->head, "\n");
    return t;
}

static int64_t extent(struct maker *m) {
    static const uint8_t extents[] = {4, 5, 1, 3, 6, 7, 8, 2, 9, 10, 13, 16};
    return draw_of(m, extents);
}

static void first_input(struct maker *m) {
    static const uint8_t channels[] = {3, 8, 16, 5, 1, 4, 17, 2, 9, 12, 7, 24, 32, 33, 6, 20};
    static const uint8_t ranks[] = {4, 4, 4, 3, 2, 5, 4, 3, 2, 1, 4, 6};
    struct tmk_shape shape = {.rank = draw_of(m, ranks)};
    size_t count;
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = i == 0 ? m->made->samples[0] : i == 1 ? draw_of(m, channels) : extent(m);
    for (int32_t i = shape.rank; i-- > 2;)
        if (!tmk_shape_count(&shape, &count) || count > MOST_ELEMENTS)
            shape.dim[i] = 2;
    if (one_in(m, 48))
        shape.dim[draw(m, (unsigned)shape.rank)] = 0;
    maker_input(m, TMK_FLOAT32, &shape, shape.dim[0] == m->made->samples[0] && !one_in(m, 12));
}

/* Like another, so that the two go together; sometimes of another type. */
static void further_input(struct maker *m) {
    static const enum tmk_dtype types[] = {TMK_FLOAT32, TMK_FLOAT32, TMK_FLOAT32, TMK_INT64,
                                           TMK_BOOL,    TMK_INT32,   TMK_UINT8,   TMK_INT8};
    const struct thing like = m->things[draw(m, m->n_things)];
    struct tmk_shape shape = like.shape;
    if (shape.rank > 1 && one_in(m, 3))
        shape.dim[shape.rank - 1] = 1;
    maker_input(m, draw_of(m, types), &shape,
                m->made->inputs[0].batched && shape.rank && shape.dim[0] == m->made->samples[0]);
}

/* ---- items ---- */

static void header(const struct maker *m, struct tmk_text *text) {
    tmk_text_printf(
        text, "graph \"made\" opset %d \"com.microsoft\" 1 \"ai.onnx.ml\" 3 \"ai.tidemark\" 1 {\n",
        m->made->opset);
}

/* The item alone, with the values that it reads as inputs. */
static void item_alone(const struct maker *m, struct tmk_text *text, struct tmk_tensor *inputs,
                       uint32_t *n) {
    *n = 0;
    header(m, text);
    for (uint32_t i = 0; i < m->n_things; i++) {
        char name[24];
        size_t len = (size_t)snprintf(name, sizeof name, "%%v%d", m->things[i].name);
        bool read = false;
        for (const char *at = m->line.data; !read && (at = strstr(at, name)); at += len)
            read = !(at[len] >= '0' && at[len] <= '9');
        if (!read)
            continue;
        tmk_text_printf(text, " input %s : ", name);
        print_type(text, m->things[i].dtype, &m->things[i].shape, false);
        tmk_text_puts(text, "\n");
        make_tensor(&inputs[*n], m->things[i].dtype, &m->things[i].shape);
        fill_numbers(&inputs[(*n)++], &(struct numbers){m->made->seed + i, 0.25, 1, false});
    }
    if (m->item.data)
        tmk_text_puts(text, m->item.data);
    tmk_text_puts(text, m->line.data);
    for (uint32_t i = 0; i < m->n_results; i++)
        tmk_text_printf(text, " output %%v%d\n", m->results[i]);
    tmk_text_puts(text, "}\n");
    if (text->failed)
        no_memory();
}

static bool sizes_itself(struct tmk_graph *graph) {
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        if (node->row->flags & (TMK_OP_SIZES_ITSELF | TMK_OP_RUNS_GRAPHS))
            return true;
    return false;
}

/* The results become values that later items may read. */
static void keep_results(struct maker *m, struct tmk_graph *graph,
                         const struct tmk_worker *worker) {
    bool loose = sizes_itself(graph);
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        struct tmk_tensor tensor = tmk_worker_value(worker, graph->outputs[i]);
        if (m->n_things < MOST_THINGS && tensor.kind == TMK_TYPE_TENSOR &&
            type_name(tensor.dtype) && tmk_tensor_count(&tensor) <= MOST_ELEMENTS)
            m->things[m->n_things++] =
                (struct thing){m->results[i], tensor.dtype, tensor.shape, loose};
    }
}

/* False: it is not valid, or does not run. */
static bool try_item(struct maker *m) {
    struct tmk_text text = {0};
    struct tmk_graph *graph = NULL;
    struct tmk_plan *plan = NULL;
    struct tmk_worker *worker = NULL;
    struct tmk_tensor inputs[MOST_THINGS];
    struct tmk_diag diag = {0};
    uint32_t n;
    item_alone(m, &text, inputs, &n);
    bool good = parse_graph(text.data, &m->made->pool, &graph, &diag) == TMK_OK &&
                tmk_ops_bind(graph, &diag) == TMK_OK;
    if (good) {
        tmk_graph_number(graph);
        good = tmk_plan_create(graph, inputs, &(struct tmk_plan_options){.plain = true}, &plan,
                               &diag) == TMK_OK &&
               plan->arena_bytes < 16u * MOST_ELEMENTS * sizeof(float) &&
               tmk_worker_create(&worker, &diag) == TMK_OK &&
               tmk_worker_run(worker, plan, inputs, NULL, &diag) == TMK_OK;
    }
    if (!good && getenv("TIDEMARK_MAKER_REFUSED"))
        fprintf(stderr, "refused: %s\n%s", diag.text, text.data);
    if (good)
        keep_results(m, graph, worker);
    tmk_worker_destroy(&worker);
    tmk_plan_destroy(&plan);
    tmk_graph_destroy(&graph);
    for (uint32_t i = 0; i < n; i++)
        tmk_tensor_finish(&inputs[i]);
    tmk_text_finish(&text);
    return good;
}

static void clear(struct tmk_text *text) {
    text->len = 0;
    if (text->data)
        text->data[0] = '\0';
}

/* Takes commas away that nothing follows. */
static void close_lists(struct tmk_text *text) {
    for (char *at = text->data; at && (at = strstr(at, ", }"));) {
        memmove(at, at + 2, strlen(at + 2) + 1);
        text->len -= 2;
    }
}

static bool add_item(struct maker *m, family *make) {
    const size_t pool = m->made->pool.n;
    clear(&m->item);
    clear(&m->line);
    m->n_results = 0;
    make(m);
    close_lists(&m->line);
    if (m->line.len && try_item(m)) {
        if (m->item.len)
            tmk_text_puts(&m->body, m->item.data);
        tmk_text_puts(&m->body, m->line.data);
        return true;
    }
    while (m->made->pool.n > pool)
        tmk_tensor_finish(&m->made->pool.tensors[--m->made->pool.n]);
    return false;
}

/* ---- the graph ---- */

static const struct {
    family *make;
    uint8_t weight;
} families[] = {
    {make_conv, 10},     {make_unary, 8},   {make_binary, 10},        {make_batch_norm, 5},
    {make_pool, 6},      {make_matmul, 4},  {make_gemm, 3},           {make_clip, 5},
    {make_concat, 5},    {make_reduce, 3},  {make_softmax, 2},        {make_norm, 4},
    {make_transpose, 3}, {make_reshape, 3}, {make_conv_transpose, 3}, {make_global_pool, 2},
    {make_split, 2},     {make_slice, 2},   {make_gather, 2},         {make_expand, 2},
    {make_pad, 2},       {make_resize, 2},  {make_depth, 1},          {make_variadic, 3},
    {make_compare, 3},   {make_cast, 2},    {make_quantize, 4},       {make_order, 2},
    {make_shape, 2},     {make_body, 3},    {make_recurrent, 2},      {make_attention, 2},
    {make_row, 14},
};

static family *pick_family(struct maker *m) {
    unsigned all = 0;
    for (size_t i = 0; i < TMK_COUNT(families); i++)
        all += families[i].weight;
    unsigned at = draw(m, all);
    for (size_t i = 0;; i++) {
        if (at < families[i].weight)
            return families[i].make;
        at -= families[i].weight;
    }
}

static void add_outputs(struct maker *m) {
    uint32_t n = m->n_things, last = m->made->n_inputs;
    bool taken[MOST_THINGS] = {false};
    /* the last one, some others, now and then all, or an input */
    unsigned share = draw(m, 6);
    if (n > last)
        taken[n - 1] = true;
    for (uint32_t i = 0; i < n; i++)
        taken[i] |= share == 5 || (share && draw(m, 8) < share) || n == last;
    for (uint32_t i = 0; i < n; i++)
        if (taken[i])
            tmk_text_printf(&m->body, " output %%v%d\n", m->things[i].name);
}

void graph_make(const uint8_t *bytes, size_t n, struct made_graph *out) {
    static const uint8_t opsets[] = {17, 18, 21, 13, 11, 24, 19, 22, 17, 10, 9,
                                     23, 12, 15, 16, 20, 25, 28, 26, 27, 8,  7,
                                     14, 6,  1,  18, 17, 13, 21, 4,  2,  24};
    struct maker m = {.bytes = bytes, .n = n, .made = out};
    *out = (struct made_graph){0};
    out->opset = draw_of(&m, opsets);
    out->wild = one_in(&m, 4);
    for (int i = 0; i < 4; i++)
        out->how = out->how << 8 | take(&m);
    out->seed = 1 + draw(&m, 65536);
    out->n_batches = 1 + draw(&m, MOST_MADE_BATCHES);
    for (uint32_t i = 0; i < out->n_batches; i++)
        out->samples[i] = 1 + draw(&m, i ? 5 : 3);
    first_input(&m);
    for (uint32_t i = 1; i < out->n_batches && !out->inputs[0].batched; i++)
        out->samples[i] = out->samples[0]; /* equal shapes mean equal batches */
    for (unsigned more = draw(&m, 3); more > 0; more--)
        further_input(&m);
    int nodes = 0;
    for (int tries = 0; tries < 3 * MOST_NODES && nodes < MOST_NODES && (m.n || !nodes); tries++)
        nodes += add_item(&m, pick_family(&m));
    add_outputs(&m);
    header(&m, &out->text);
    tmk_text_puts(&out->text, m.head.data);
    tmk_text_puts(&out->text, m.body.data);
    tmk_text_puts(&out->text, "}\n");
    if (out->text.failed || m.head.failed || m.body.failed || m.item.failed || m.line.failed)
        no_memory();
    tmk_text_finish(&m.head);
    tmk_text_finish(&m.body);
    tmk_text_finish(&m.item);
    tmk_text_finish(&m.line);
}

void made_graph_finish(struct made_graph *made) {
    tensor_pool_finish(&made->pool);
    tmk_text_finish(&made->text);
}
