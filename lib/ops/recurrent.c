/* SPDX-License-Identifier: Apache-2.0 */
/* RNN, GRU, LSTM, and DynamicQuantizeLSTM of ONNX Runtime. */
#include <string.h>

#include "ops/contrib.h"
#include "ops/functions.h"
#include "ops/quantized.h"
#include "ops/recurrent.h"
#include "ops/vmath.h"

/* Weights in codes: what a matrix of one direction stands for is codes * scale. */
struct coded {
    const int32_t *codes; /* [depth, columns], less the zero points */
    const float *scale;   /* of column j: scale[j * step] */
    size_t step;
    uint8_t *quantized;  /* scratch: all elements of the other operand */
    int32_t *row, *sums; /* scratch: one row of it, and of the product */
};

/* One direction, at one step. G gates of H units; vectors of G * H floats hold the gates in the
 * order of W. */
struct tmk_recurrence {
    const struct tmk_node *node;
    size_t batch, hidden, gates;
    struct tmk_activation function[TMK_RECURRENT_FUNCTIONS];
    bool clipped;
    float clip;
    /* The rows of the batch at this step: input times W with W's bias, G * H floats; NULL: the
     * sequence has ended. */
    const float **x;
    float *hidden_state;         /* batch x H: from the last step, to be replaced */
    float *cell_state;           /* the same of LSTM, else NULL */
    float *products;             /* batch x G * H: products of a state with R */
    const float *recurrent_bias; /* G * H */
    const float *peephole;       /* LSTM: 3 * H, or NULL */
    float *sums;                 /* batch x G * H */
    const float *weights;        /* R: gate by gate, H x H; not with codes */
    const struct coded *codes;   /* R in codes; NULL: in floats */
};

struct tmk_cell {
    size_t gates;
    bool has_cell; /* a cell state besides the hidden state, and peepholes: LSTM */
    bool coded;    /* W and R are in codes, transposed: DynamicQuantizeLSTM */
    size_t n_functions;
    enum tmk_activation_kind defaults[TMK_RECURRENT_FUNCTIONS];
    /* One step for every row of the batch. */
    void (*step)(struct tmk_recurrence *r);
};

/* v = function(v, clipped to +-clip), n elements. */
static void recurrent_activate(const struct tmk_recurrence *r, size_t function, size_t n,
                               float *v) {
    for (size_t i = 0; i < n && r->clipped; i++)
        v[i] = tmk_limitf(v[i], r->clip);
    tmk_recurrent_activate(&r->function[function], n, v);
}

/* ---- shapes ---- */

/* In the order of the inputs. */
enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_HIDDEN, IN_CELL, IN_PEEPHOLE, INPUTS };
/* Of weights in codes, and their zero points behind each. */
enum { IN_W_SCALE = INPUTS, IN_R_SCALE = IN_W_SCALE + 2 };
static const char *const input_names[INPUTS] = {"X",         "W",         "R", "B", "sequence_lens",
                                                "initial_h", "initial_c", "P"};

struct sizes {
    size_t steps, batch, in, hidden, directions;
    bool batch_first; /* layout 1 */
    bool first_reversed;
};

static enum tmk_status want_shape(const struct tmk_tensor *tensor, size_t input, int32_t rank,
                                  const int64_t *dim, struct tmk_diag *diag) {
    struct tmk_shape shape = {.rank = rank};
    memcpy(shape.dim, dim, (size_t)rank * sizeof *dim);
    return tmk_want_shape(tensor, input == IN_LENGTHS ? TMK_INT32 : TMK_FLOAT32, input_names[input],
                          &shape, diag);
}

static enum tmk_status want_rank3(const struct tmk_tensor *tensor, enum tmk_dtype dtype,
                                  size_t input, struct tmk_diag *diag) {
    return tmk_want_shape(tensor, dtype, input_names[input], &(struct tmk_shape){3, {-1, -1, -1}},
                          diag);
}

/* Weights W or R in codes; their scale and zero point are one a direction, or one a column too. */
static enum tmk_status want_coded(const struct tmk_tensor *const *in, size_t input,
                                  struct tmk_diag *diag) {
    const size_t scale = input == IN_W ? IN_W_SCALE : IN_R_SCALE;
    const struct tmk_tensor *weights = in[input];
    TMK_TRY(tmk_want_quantized(weights, in[scale + 1], input_names[input], diag));
    TMK_TRY(tmk_want_dtype(in[scale], TMK_FLOAT32, "a scale", diag));
    TMK_TRY(want_rank3(weights, weights->dtype, input, diag));
    for (size_t i = scale; i < scale + 2; i++) {
        const struct tmk_shape *s = &in[i]->shape;
        if (s->rank < 1 || s->rank > 2 || s->dim[0] != weights->shape.dim[0] ||
            (s->rank == 2 && s->dim[1] != weights->shape.dim[2]))
            return tmk_fail(
                diag, TMK_SHAPE, "the %s of '%s' is %s, neither one a direction nor one a column",
                i == scale ? "scale" : "zero point", input_names[input], TMK_SHAPE_TEXT(s));
    }
    return TMK_OK;
}

/* W and R of so many directions. */
static enum tmk_status want_weights(const struct tmk_infer *infer, const struct tmk_cell *cell,
                                    const struct sizes *s) {
    const int64_t d = (int64_t)s->directions, h = (int64_t)s->hidden, gh = (int64_t)cell->gates * h,
                  x = (int64_t)s->in;
    const struct tmk_shape w = {3, {d, cell->coded ? x : gh, cell->coded ? gh : x}},
                           r = {3, {d, cell->coded ? h : gh, cell->coded ? gh : h}};
    for (size_t i = IN_W; i <= IN_R; i++) {
        const struct tmk_tensor *given = infer->in[i];
        if (cell->coded)
            TMK_TRY(want_coded(infer->in, i, infer->diag));
        TMK_TRY(tmk_want_shape(given, cell->coded ? given->dtype : TMK_FLOAT32, input_names[i],
                               i == IN_W ? &w : &r, infer->diag));
    }
    return TMK_OK;
}

/* Attributes and the shapes of X and R. */
static enum tmk_status read_sizes(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                  struct sizes *s, struct tmk_diag *diag) {
    int64_t layout = tmk_node_int(node, "layout", 0);
    const bool coded = ((const struct tmk_cell *)node->row->table)->coded;
    int direction;
    TMK_TRY(tmk_choice(node, "direction", "forward reverse bidirectional", &direction, diag));
    s->first_reversed = direction == 1;
    s->directions = direction == 2 ? 2 : 1;
    if (layout != 0 && layout != 1)
        return tmk_fail(diag, TMK_RANGE, "attribute 'layout' is %lld, neither 0 nor 1",
                        (long long)layout);
    s->batch_first = layout == 1;
    TMK_TRY(want_rank3(in[IN_X], TMK_FLOAT32, IN_X, diag));
    TMK_TRY(coded ? want_coded(in, IN_R, diag) : want_rank3(in[IN_R], TMK_FLOAT32, IN_R, diag));
    s->steps = (size_t)in[IN_X]->shape.dim[layout];
    s->batch = (size_t)in[IN_X]->shape.dim[1 - layout];
    s->in = (size_t)in[IN_X]->shape.dim[2];
    s->hidden = (size_t)in[IN_R]->shape.dim[coded ? 1 : 2];
    return TMK_OK;
}

static enum tmk_status check_clip(const struct tmk_node *node, struct tmk_diag *diag) {
    float clip = tmk_node_float(node, "clip", 1);
    if (!(clip > 0))
        return tmk_fail(diag, TMK_RANGE, "attribute 'clip' is %g, not above 0", (double)clip);
    return TMK_OK;
}

/* The whole of infer and run; the row's table is a struct tmk_cell. */
static enum tmk_status recurrent_infer(struct tmk_infer *infer) {
    const struct tmk_cell *cell = infer->node->row->table;
    struct tmk_activation functions[2][TMK_RECURRENT_FUNCTIONS];
    struct sizes s;
    struct tmk_diag *diag = infer->diag;
    for (uint32_t i = IN_W_SCALE; cell->coded && i < IN_R_SCALE + 2; i++)
        TMK_TRY(tmk_contrib_need(infer, i, "scales and zero points of W and R"));
    TMK_TRY(read_sizes(infer->node, infer->in, &s, diag));
    TMK_TRY(check_clip(infer->node, diag));
    TMK_TRY(tmk_recurrent_functions(infer->node, cell->defaults, cell->n_functions, s.directions,
                                    functions, diag));
    int64_t d = (int64_t)s.directions, h = (int64_t)s.hidden, b = (int64_t)s.batch,
            t = (int64_t)s.steps, most;
    int64_t asked = tmk_node_int(infer->node, "hidden_size", h);
    if (asked != h)
        return tmk_fail(diag, TMK_SHAPE, "attribute 'hidden_size' is %lld, but 'R' is for %lld",
                        (long long)asked, (long long)h);
    if (!tmk_mul_i64(8, h, &most)) /* the widest: B of LSTM */
        return tmk_fail(diag, TMK_RANGE, "%lld hidden units are too many", (long long)h);
    int64_t gh = (int64_t)cell->gates * h, wide = 2 * gh;
    const int64_t bias[] = {d, wide}, peephole[] = {d, 3 * h},
                  state[] = {s.batch_first ? b : d, s.batch_first ? d : b, h};
    TMK_TRY(want_weights(infer, cell, &s));
    TMK_TRY(want_shape(tmk_infer_in(infer, IN_B), IN_B, 2, bias, diag));
    TMK_TRY(want_shape(tmk_infer_in(infer, IN_LENGTHS), IN_LENGTHS, 1, &b, diag));
    TMK_TRY(want_shape(tmk_infer_in(infer, IN_HIDDEN), IN_HIDDEN, 3, state, diag));
    TMK_TRY(want_shape(tmk_infer_in(infer, IN_CELL), IN_CELL, 3, state, diag));
    TMK_TRY(want_shape(tmk_infer_in(infer, IN_PEEPHOLE), IN_PEEPHOLE, 2, peephole, diag));
    struct tmk_shape last = {3, {state[0], state[1], h}}, y = {4, {t, d, b, h}};
    if (s.batch_first)
        y = (struct tmk_shape){4, {b, t, d, h}};
    tmk_infer_put(infer, 0, TMK_FLOAT32, &y);
    tmk_infer_put(infer, 1, TMK_FLOAT32, &last);
    return tmk_infer_set(infer, 2, TMK_FLOAT32, &last);
}

/* ---- running ---- */

/* products[b, gate] = state[b] times R's gate, for every row; `state` is batch x H. */
static void recurrent_multiply(struct tmk_recurrence *r, size_t gate, const float *state) {
    const struct tmk_vdots dots = {.rows = r->batch,
                                   .columns = r->hidden,
                                   .depth = r->hidden,
                                   .a = state,
                                   .b = r->weights + gate * r->hidden * r->hidden,
                                   .a_step = r->hidden,
                                   .b_step = r->hidden,
                                   .c = r->products + gate * r->hidden,
                                   .c_step = r->gates * r->hidden};
    tmk_vdots(&dots);
}

/* y [rows, columns] = x [rows, depth], quantized as a whole, times the weights. */
static void multiply_codes(const struct coded *c, size_t rows, size_t depth, size_t columns,
                           const float *x, float *y) {
    const struct tmk_dynamic d = tmk_quantize_dynamic(rows * depth, x, c->quantized);
    for (size_t i = 0; i < rows; i++) {
        for (size_t k = 0; k < depth; k++)
            c->row[k] = c->quantized[i * depth + k] - d.zero;
        tmk_vintegers(&(struct tmk_vintegers){1, columns, depth, c->row, c->codes, depth, columns,
                                              c->sums, columns, false});
        for (size_t j = 0; j < columns; j++)
            y[i * columns + j] = (float)c->sums[j] * (d.scale * c->scale[j * c->step]);
    }
}

/* products = the hidden state times R, of every gate. */
static void multiply_gates(struct tmk_recurrence *r) {
    if (r->codes)
        multiply_codes(r->codes, r->batch, r->hidden, r->gates * r->hidden, r->hidden_state,
                       r->products);
    else
        for (size_t g = 0; g < r->gates; g++)
            recurrent_multiply(r, g, r->hidden_state);
}

static enum tmk_status read_lengths(const struct tmk_tensor *lengths, const struct sizes *s,
                                    struct tmk_diag *diag) {
    for (size_t b = 0; lengths && b < s->batch; b++) {
        int32_t length = ((const int32_t *)lengths->data)[b];
        if (length < 0 || (size_t)length > s->steps)
            return tmk_fail(diag, TMK_RANGE, "input 'sequence_lens' has %d in sequences of %zu",
                            (int)length, s->steps);
    }
    return TMK_OK;
}

/* Where row b of direction d of a state begins. */
static size_t state_at(const struct sizes *s, size_t d, size_t b) {
    return (s->batch_first ? b * s->directions + d : d * s->batch + b) * s->hidden;
}

/* What the directions share. */
struct walk {
    struct tmk_run *run;
    const struct tmk_cell *cell;
    struct sizes s;
    struct tmk_recurrence r;
    float *input, *bias; /* input: steps x batch (in X's order) x G * H */
    struct coded w_codes, r_codes;
};

static enum tmk_status prepare_walk(struct walk *w) {
    const struct sizes *s = &w->s;
    struct tmk_run *run = w->run;
    size_t wide = w->cell->gates * s->hidden, rows;
    TMK_TRY_ALLOC(tmk_mul_size(s->steps, s->batch, &rows), run->diag);
    TMK_TRY(tmk_scratch_floats(run, rows, wide, 1, &w->input));
    TMK_TRY(tmk_scratch_floats(run, s->batch, s->hidden, 1, &w->r.hidden_state));
    TMK_TRY(tmk_scratch_floats(run, s->batch, wide, 1, &w->r.products));
    TMK_TRY(tmk_scratch_floats(run, s->batch, wide, 1, &w->r.sums));
    TMK_TRY(tmk_scratch_floats(run, wide, 1, 1, &w->bias));
    memset(w->bias, 0, wide * sizeof *w->bias);
    w->r.x = run->scratch(run->context, (s->batch + 1) * sizeof *w->r.x);
    TMK_TRY_ALLOC(w->r.x, run->diag);
    return w->cell->has_cell ? tmk_scratch_floats(run, s->batch, s->hidden, 1, &w->r.cell_state)
                             : TMK_OK;
}

static void load_state(const struct walk *w, size_t d, size_t input, float *state) {
    const struct tmk_tensor *given = tmk_run_in(w->run, (uint32_t)input);
    size_t n = w->s.hidden;
    for (size_t b = 0; state && n && b < w->s.batch; b++)
        if (given)
            memcpy(state + b * n, (const float *)given->data + state_at(&w->s, d, b),
                   n * sizeof *state);
        else
            memset(state + b * n, 0, n * sizeof *state);
}

/* Of a sequence without steps: zeros, as in ONNX Runtime. */
static void store_state(const struct walk *w, size_t d, uint32_t output, const float *state) {
    const struct tmk_tensor *out = tmk_run_out(w->run, output),
                            *lengths = tmk_run_in(w->run, IN_LENGTHS);
    size_t n = w->s.hidden;
    for (size_t b = 0; out && state && b < w->s.batch; b++) {
        float *to = (float *)out->data + state_at(&w->s, d, b);
        if (lengths && ((const int32_t *)lengths->data)[b] == 0)
            memset(to, 0, n * sizeof *to);
        else
            memcpy(to, state + b * n, n * sizeof *to);
    }
}

/* The codes of W or R in one direction, and scratch for products of [rows, depth] with them. */
static enum tmk_status load_codes(const struct walk *w, size_t input, size_t d, size_t rows,
                                  struct coded *c) {
    const size_t scale = input == IN_W ? IN_W_SCALE : IN_R_SCALE;
    const struct tmk_tensor *given = w->run->in[input], *zero = w->run->in[scale + 1];
    const size_t depth = (size_t)given->shape.dim[1], columns = (size_t)given->shape.dim[2],
                 size = depth * columns;
    size_t elements;
    TMK_TRY_ALLOC(tmk_mul_size(rows, depth, &elements), w->run->diag);
    int32_t *codes = tmk_scratch(w->run, size, sizeof *codes);
    c->quantized = tmk_scratch(w->run, elements, 1);
    c->row = tmk_scratch(w->run, depth, sizeof *c->row);
    c->sums = tmk_scratch(w->run, columns, sizeof *c->sums);
    TMK_TRY_ALLOC(codes && c->quantized && c->row && c->sums, w->run->diag);
    c->step = w->run->in[scale]->shape.rank == 2;
    c->scale = (const float *)w->run->in[scale]->data + d * (c->step ? columns : 1);
    const bool each = zero->shape.rank == 2;
    tmk_quantized_widen(given, d * size, size, each ? 0 : tmk_quantized_at(zero, d), codes);
    for (size_t i = 0; each && i < size; i++)
        codes[i] -= tmk_quantized_at(zero, d * columns + i % columns);
    c->codes = codes;
    return TMK_OK;
}

/* Input times W. */
static enum tmk_status multiply_input(struct walk *w, size_t d) {
    const struct tmk_tensor *x = w->run->in[IN_X], *weights = w->run->in[IN_W];
    const size_t wide = w->cell->gates * w->s.hidden, rows = w->s.steps * w->s.batch;
    if (w->cell->coded) {
        TMK_TRY(load_codes(w, IN_W, d, rows, &w->w_codes));
        TMK_TRY(load_codes(w, IN_R, d, w->s.batch, &w->r_codes));
        w->r.codes = &w->r_codes;
        multiply_codes(&w->w_codes, rows, w->s.in, wide, x->data, w->input);
        return TMK_OK;
    }
    const struct tmk_vdots dots = {.rows = rows,
                                   .columns = wide,
                                   .depth = w->s.in,
                                   .a = x->data,
                                   .b = (const float *)weights->data + d * wide * w->s.in,
                                   .a_step = w->s.in,
                                   .b_step = w->s.in,
                                   .c = w->input,
                                   .c_step = wide};
    tmk_vdots(&dots);
    w->r.weights = (const float *)w->run->in[IN_R]->data + d * wide * w->s.hidden;
    return TMK_OK;
}

/* Input times W, biases, R, initial states. */
static enum tmk_status begin_direction(struct walk *w, size_t d) {
    struct tmk_run *run = w->run;
    const struct sizes *s = &w->s;
    const struct tmk_tensor *b = tmk_run_in(run, IN_B), *p = tmk_run_in(run, IN_PEEPHOLE);
    size_t wide = w->cell->gates * s->hidden, rows = s->steps * s->batch;
    TMK_TRY(multiply_input(w, d));
    if (b) {
        const float *bias = (const float *)b->data + d * 2 * wide;
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < wide; j++)
                w->input[i * wide + j] += bias[j];
        memcpy(w->bias, bias + wide, wide * sizeof *bias);
    }
    w->r.recurrent_bias = w->bias;
    w->r.peephole = p ? (const float *)p->data + d * 3 * s->hidden : NULL;
    load_state(w, d, IN_HIDDEN, w->r.hidden_state);
    load_state(w, d, IN_CELL, w->r.cell_state);
    return TMK_OK;
}

static void walk_direction(struct walk *w, size_t d) {
    const struct sizes *s = &w->s;
    const struct tmk_tensor *lengths = tmk_run_in(w->run, IN_LENGTHS), *y = tmk_run_out(w->run, 0);
    size_t wide = w->cell->gates * s->hidden, n = s->hidden;
    bool reversed = d == 1 || s->first_reversed;
    for (size_t step = 0; step < s->steps; step++) {
        for (size_t b = 0; b < s->batch; b++) {
            size_t length = lengths ? (size_t)((const int32_t *)lengths->data)[b] : s->steps;
            size_t t = reversed ? length - 1 - step : step;
            size_t row = s->batch_first ? b * s->steps + t : t * s->batch + b;
            w->r.x[b] = step < length ? w->input + row * wide : NULL;
        }
        w->cell->step(&w->r);
        for (size_t b = 0; y && b < s->batch; b++) {
            if (!w->r.x[b])
                continue;
            size_t row = (size_t)(w->r.x[b] - w->input) / wide; /* as in X */
            size_t t = s->batch_first ? row % s->steps : row / s->batch;
            size_t at = s->batch_first ? (row * s->directions + d) * n
                                       : ((t * s->directions + d) * s->batch + b) * n;
            memcpy((float *)y->data + at, w->r.hidden_state + b * n, n * sizeof(float));
        }
    }
}

static enum tmk_status recurrent_run(struct tmk_run *run) {
    const struct tmk_cell *cell = run->node->row->table;
    struct tmk_activation functions[2][TMK_RECURRENT_FUNCTIONS];
    struct walk w = {.run = run, .cell = cell};
    struct tmk_tensor *y = tmk_run_out(run, 0);
    TMK_TRY(read_sizes(run->node, run->in, &w.s, run->diag));
    TMK_TRY(tmk_recurrent_functions(run->node, cell->defaults, cell->n_functions, w.s.directions,
                                    functions, run->diag));
    TMK_TRY(read_lengths(tmk_run_in(run, IN_LENGTHS), &w.s, run->diag));
    if (w.s.batch == 0 || w.s.hidden == 0)
        return TMK_OK;
    if (y) /* zero beyond the ends of sequences */
        memset(y->data, 0, tmk_tensor_bytes(y));
    w.r.node = run->node;
    w.r.batch = w.s.batch;
    w.r.hidden = w.s.hidden;
    w.r.gates = cell->gates;
    w.r.clipped = tmk_node_attr(run->node, "clip") != NULL;
    w.r.clip = tmk_node_float(run->node, "clip", 0);
    TMK_TRY(prepare_walk(&w));
    for (size_t d = 0; d < w.s.directions; d++) {
        memcpy(w.r.function, functions[d], sizeof w.r.function);
        TMK_TRY(begin_direction(&w, d));
        walk_direction(&w, d);
        store_state(&w, d, 1, w.r.hidden_state);
        store_state(&w, d, 2, w.r.cell_state);
    }
    return TMK_OK;
}

/* RNN and GRU: cells with one state. */

/* ---- RNN: h = f(x W + h R + biases) ---- */

static void step_rnn(struct tmk_recurrence *r) {
    recurrent_multiply(r, 0, r->hidden_state);
    for (size_t b = 0; b < r->batch; b++) {
        const float *x = r->x[b], *products = r->products + b * r->hidden;
        float *h = r->hidden_state + b * r->hidden;
        if (!x)
            continue;
        for (size_t j = 0; j < r->hidden; j++)
            h[j] = x[j] + (products[j] + r->recurrent_bias[j]);
        recurrent_activate(r, 0, r->hidden, h);
    }
}

static const struct tmk_cell rnn_cell = {
    .gates = 1, .n_functions = 1, .defaults = {TMK_ACTIVATION_TANH}, .step = step_rnn};

/* ---- GRU, with the gates z (update), r (reset), h (candidate) ----
 *
 * z = f(x Wz + h Rz + biases), r likewise; candidate c = g(x Wh + (r h) Rh + biases), or, with
 * linear_before_reset, g(x Wh + bias + r (h Rh + bias)); h = (1 - z) c + z h. */

enum { UPDATE, RESET, RNN_CANDIDATE, GRU_GATES };

static void step_gru(struct tmk_recurrence *r) {
    size_t n = r->hidden, wide = GRU_GATES * n;
    bool reset_last = tmk_node_int(r->node, "linear_before_reset", 0) != 0;
    const float *bias = r->recurrent_bias;
    /* `sums`: for every row its two gates, then for every row r h */
    float *reset_state = r->sums + r->batch * (RNN_CANDIDATE * n);
    recurrent_multiply(r, UPDATE, r->hidden_state);
    recurrent_multiply(r, RESET, r->hidden_state);
    if (reset_last)
        recurrent_multiply(r, RNN_CANDIDATE, r->hidden_state);
    for (size_t b = 0; b < r->batch; b++) {
        const float *x = r->x[b], *products = r->products + b * wide;
        float *gate = r->sums + b * (RNN_CANDIDATE * n), *reset = reset_state + b * n;
        for (size_t j = 0; j < n; j++)
            reset[j] = 0;
        if (!x)
            continue;
        for (size_t j = 0; j < RNN_CANDIDATE * n; j++)
            gate[j] = x[j] + (products[j] + bias[j]);
        recurrent_activate(r, 0, RNN_CANDIDATE * n, gate);
        for (size_t j = 0; j < n; j++)
            reset[j] = gate[RESET * n + j] * r->hidden_state[b * n + j];
    }
    if (!reset_last)
        recurrent_multiply(r, RNN_CANDIDATE, reset_state);
    for (size_t b = 0; b < r->batch; b++) {
        const float *products = r->products + b * wide + RNN_CANDIDATE * n;
        float *update = r->sums + b * (RNN_CANDIDATE * n), *candidate = update + RESET * n,
              *h = r->hidden_state + b * n;
        if (!r->x[b])
            continue;
        const float *x = r->x[b] + RNN_CANDIDATE * n;
        for (size_t j = 0; j < n; j++) {
            float product = products[j] + bias[RNN_CANDIDATE * n + j];
            candidate[j] = x[j] + (reset_last ? candidate[j] * product : product);
        }
        recurrent_activate(r, 1, n, candidate);
        for (size_t j = 0; j < n; j++)
            h[j] = (1 - update[j]) * candidate[j] + update[j] * h[j];
    }
}

static const struct tmk_cell gru_cell = {.gates = GRU_GATES,
                                         .n_functions = 2,
                                         .defaults = {TMK_ACTIVATION_SIGMOID, TMK_ACTIVATION_TANH},
                                         .step = step_gru};

/* ---- rows ---- */

#define TMK_RNN_ATTRS                                                                              \
    "activation_alpha:floats activation_beta:floats activations:strings clip:float "               \
    "direction:string hidden_size:int"

/* LSTM, with the gates i (input), o (output), f (forget), c (candidate).
 *
 * i = f(x Wi + h Ri + Pi c + biases), f likewise (or 1 - i, with input_forget), candidate g(x Wc +
 * h Rc + biases); then c = f c + i candidate, o = f(x Wo + h Ro + Po c + biases) with the new c,
 * and h = o h(c). `clip` holds for the input of every function, as ONNX has it: of h(c), too, where
 * ONNX Runtime leaves it out. */

enum { INPUT, OUTPUT, FORGET, LSTM_CANDIDATE, GATES };

static void step_row(const struct tmk_recurrence *r, size_t b, bool coupled) {
    size_t n = r->hidden;
    const float *x = r->x[b], *products = r->products + b * GATES * n;
    float *gate = r->sums + b * GATES * n, *h = r->hidden_state + b * n, *c = r->cell_state + b * n;
    float *in = gate + INPUT * n, *out = gate + OUTPUT * n, *forget = gate + FORGET * n,
          *candidate = gate + LSTM_CANDIDATE * n;
    const float *p = r->peephole; /* of i, o, f */
    for (size_t j = 0; j < GATES * n; j++)
        gate[j] = x[j] + (products[j] + r->recurrent_bias[j]);
    for (size_t j = 0; j < n && p; j++) {
        in[j] += p[INPUT * n + j] * c[j];
        forget[j] += p[FORGET * n + j] * c[j];
    }
    recurrent_activate(r, 0, n, in);
    if (coupled)
        for (size_t j = 0; j < n; j++)
            forget[j] = 1 - in[j];
    else
        recurrent_activate(r, 0, n, forget);
    recurrent_activate(r, 1, n, candidate);
    for (size_t j = 0; j < n; j++)
        c[j] = forget[j] * c[j] + in[j] * candidate[j];
    for (size_t j = 0; j < n && p; j++)
        out[j] += p[OUTPUT * n + j] * c[j];
    recurrent_activate(r, 0, n, out);
    memcpy(h, c, n * sizeof *h);
    recurrent_activate(r, 2, n, h);
    for (size_t j = 0; j < n; j++)
        h[j] *= out[j];
}

static void step_lstm(struct tmk_recurrence *r) {
    bool coupled = tmk_node_int(r->node, "input_forget", 0) != 0;
    multiply_gates(r);
    for (size_t b = 0; b < r->batch; b++)
        if (r->x[b])
            step_row(r, b, coupled);
}

#define TMK_LSTM_CELL                                                                              \
    .gates = GATES, .has_cell = true, .n_functions = 3,                                            \
    .defaults = {TMK_ACTIVATION_SIGMOID, TMK_ACTIVATION_TANH, TMK_ACTIVATION_TANH},                \
    .step = step_lstm
static const struct tmk_cell lstm_cell = {TMK_LSTM_CELL};
static const struct tmk_cell coded_lstm_cell = {TMK_LSTM_CELL, .coded = true};

#define TMK_LSTM_ATTRS                                                                             \
    "activation_alpha:floats activation_beta:floats activations:strings clip:float "               \
    "direction:string hidden_size:int input_forget:int"

#define RECURRENT(name, since_, until_, max_in_, max_out_, attrs_, cell)                           \
    {                                                                                              \
        TMK_OP_ONNX(name, since_, until_), TMK_OP_COUNTS(3, max_in_, 0, max_out_),                 \
            .flags = TMK_OP_CHECKS, .channel = TMK_CHANNEL_LAST, .attrs = attrs_, .table = cell,   \
            .infer = recurrent_infer, .run = recurrent_run, .cost = tmk_cost_recurrent             \
    }

/* output_sequence: an older form of whether output 0 is wanted */
const struct tmk_op tmk_ops_recurrent[] = {
    RECURRENT("RNN", 1, 13, 6, 2, TMK_RNN_ATTRS " output_sequence:int", &rnn_cell),
    RECURRENT("RNN", 14, INT32_MAX, 6, 2, TMK_RNN_ATTRS " layout:int", &rnn_cell),
    RECURRENT("GRU", 1, 13, 6, 2, TMK_RNN_ATTRS " linear_before_reset:int output_sequence:int",
              &gru_cell),
    RECURRENT("GRU", 14, INT32_MAX, 6, 2, TMK_RNN_ATTRS " layout:int linear_before_reset:int",
              &gru_cell),
    RECURRENT("LSTM", 1, 13, 8, 3, TMK_LSTM_ATTRS " output_sequence:int", &lstm_cell),
    RECURRENT("LSTM", 14, INT32_MAX, 8, 3, TMK_LSTM_ATTRS " layout:int", &lstm_cell),
    {TMK_OP_CONTRIB("DynamicQuantizeLSTM"), TMK_OP_COUNTS(3, 12, 0, 3), .flags = TMK_OP_CHECKS,
     .channel = TMK_CHANNEL_LAST, .attrs = TMK_LSTM_ATTRS, .table = &coded_lstm_cell,
     .infer = recurrent_infer, .run = recurrent_run, .cost = tmk_cost_recurrent},
    {NULL}};
