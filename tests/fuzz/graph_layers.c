/* SPDX-License-Identifier: Apache-2.0 */
/* Operators with weights and windows. */
#include "graph_maker_parts.h"

#include <stdio.h>

/* Strides, dilations and pads of a window, as attributes; the largest stride. */
static int64_t slide(struct maker *m, const struct thing *x, int spatial, bool explicit_pads,
                     bool dilatable, const int64_t *kernel) {
    int64_t strides[4], dilations[4], pads[8], most = 1;
    const bool dilated = dilatable && one_in(m, 4);
    for (int i = 0; i < spatial; i++) {
        strides[i] = draw(m, 3) ? 1 : draw_between(m, 1, 3);
        dilations[i] = dilated ? draw_between(m, 1, 3) : 1;
        if ((kernel[i] - 1) * dilations[i] >= x->shape.dim[2 + i] + 2)
            dilations[i] = 1;
        const int reach = (int)((kernel[i] - 1) * dilations[i]);
        pads[i] = draw_between(m, 0, reach);
        pads[spatial + i] = draw(m, 2) ? pads[i] : draw_between(m, 0, reach);
        if (x->shape.dim[2 + i] <= reach) /* or it would not fit */
            pads[i] = pads[spatial + i] = reach;
        most = strides[i] > most ? strides[i] : most;
    }
    if (draw(m, 2))
        line_ints(m, "strides", strides, spatial);
    if (dilated)
        line_ints(m, "dilations", dilations, spatial);
    if (explicit_pads)
        line_ints(m, "pads", pads, 2 * spatial);
    return most;
}

static void auto_pad(struct maker *m, bool *explicit_pads) {
    static const char *const names[] = {"SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"};
    *explicit_pads = draw(m, 4) != 3;
    if (!*explicit_pads)
        LINE(m, "auto_pad=\"%s\", ", draw_of(m, names));
}

static void kernel_extents(struct maker *m, const struct thing *x, int spatial, int64_t *kernel) {
    static const uint8_t common[] = {3, 1, 3, 2, 5, 1, 4};
    bool square = draw(m, 3);
    for (int i = 0; i < spatial; i++) {
        kernel[i] = i && square ? kernel[0] : draw_of(m, common);
        if (kernel[i] > x->shape.dim[2 + i] + 2)
            kernel[i] = 1;
    }
}

/* A divisor of n. */
static int64_t divisor(struct maker *m, int64_t n) {
    int64_t d = n > 0 ? 1 + draw(m, n < 40 ? (unsigned)n : 40) : 1;
    while (n > 0 && n % d)
        d--;
    return d;
}

static int64_t channels(struct maker *m) {
    static const uint8_t list[] = {8, 4, 16, 3, 1, 17, 5, 2, 7, 12, 24, 9, 32, 6, 20, 33};
    return draw_of(m, list);
}

static void bias(struct maker *m, int64_t n, char *out, size_t size) {
    *out = '\0';
    if (draw(m, 3))
        snprintf(out, size, ", %%w%d", maker_weight_of(m, 1, &n, -1, 1));
}

/* group, and how many channels a convolution makes. */
static int64_t groups(struct maker *m, int64_t in, int64_t *out) {
    const unsigned kind = draw(m, 4);
    int64_t group = kind == 0 ? in : kind == 1 ? divisor(m, in) : 1;
    *out = group > 1 ? group * draw_between(m, 1, 2) : channels(m);
    return group ? group : 1;
}

void make_conv(struct maker *m) {
    const struct thing *x = maker_value(m, TMK_FLOAT32, 3, 5);
    if (!x)
        return;
    const int spatial = x->shape.rank - 2;
    int64_t out, group = groups(m, x->shape.dim[1], &out), dim[5] = {out, x->shape.dim[1] / group};
    char b[24];
    bool explicit_pads;
    kernel_extents(m, x, spatial, dim + 2);
    const int w = maker_weight_of(m, spatial + 2, dim, -0.5, 0.5);
    bias(m, out, b, sizeof b);
    LINE(m, " %%v%d = ", maker_result(m));
    if (one_in(m, 12)) {
        static const char *const activations[] = {
            "activation=\"Relu\"", "activation=\"Sigmoid\"", "activation=\"Tanh\"",
            "activation=\"LeakyRelu\", activation_params=[0.1f]",
            "activation=\"Clip\", activation_params=[-0.25f, 1f]"};
        LINE(m, "com.microsoft::FusedConv(%%v%d, %%w%d%s) {%s, ", x->name, w, b,
             draw_of(m, activations));
    } else {
        LINE(m, "Conv(%%v%d, %%w%d%s) {", x->name, w, b);
    }
    auto_pad(m, &explicit_pads);
    (void)slide(m, x, spatial, explicit_pads, true, dim + 2);
    if (draw(m, 2))
        line_ints(m, "kernel_shape", dim + 2, spatial);
    LINE(m, "group=%lld}\n", (long long)group);
}

void make_conv_transpose(struct maker *m) {
    const struct thing *x = maker_value(m, TMK_FLOAT32, 3, 5);
    if (!x)
        return;
    const int spatial = x->shape.rank - 2;
    int64_t out, group = groups(m, x->shape.dim[1], &out), dim[5] = {x->shape.dim[1], out / group};
    int64_t more[3] = {0};
    char b[24];
    bool explicit_pads;
    kernel_extents(m, x, spatial, dim + 2);
    const int w = maker_weight_of(m, spatial + 2, dim, -0.5, 0.5);
    bias(m, out, b, sizeof b);
    LINE(m, " %%v%d = ConvTranspose(%%v%d, %%w%d%s) {", maker_result(m), x->name, w, b);
    auto_pad(m, &explicit_pads);
    const int64_t stride = slide(m, x, spatial, explicit_pads, true, dim + 2);
    for (int i = 0; i < spatial; i++)
        more[i] = draw(m, (unsigned)stride);
    if (one_in(m, 3))
        line_ints(m, "output_padding", more, spatial);
    if (one_in(m, 8)) {
        for (int i = 0; i < spatial; i++)
            more[i] = x->shape.dim[2 + i] * draw_between(m, 1, 2) + draw(m, 2);
        line_ints(m, "output_shape", more, spatial);
    }
    LINE(m, "group=%lld}\n", (long long)group);
}

static void gemm_of(struct maker *m, const char *x, int64_t k, int64_t rows) {
    const int64_t n = channels(m), dim[2] = {n, k}, swapped[2] = {k, n};
    const bool trans = draw(m, 2);
    const int w = maker_weight_of(m, 2, trans ? dim : swapped, -0.5, 0.5);
    static const char *const factors[] = {"", "", "alpha=0.5f, ", "beta=0f, ",
                                          "alpha=1.5f, beta=-2f, "};
    const int64_t addends[][2] = {{1, n}, {1, 1}, {rows, n}, {rows, 1}};
    char c[24] = "";
    const unsigned which = draw(m, 7);
    if (which < 3)
        snprintf(c, sizeof c, ", %%w%d", maker_weight_of(m, 1, &n, -1, 1));
    else if (which < 6)
        snprintf(c, sizeof c, ", %%w%d",
                 maker_weight_of(m, which == 5 ? 0 : 2, addends[draw(m, 4)], -1, 1));
    if (m->made->opset < 11 && !*c)
        snprintf(c, sizeof c, ", %%w%d", maker_weight_of(m, 1, &n, -1, 1));
    LINE(m, " %%v%d = Gemm(%s, %%w%d%s) {%s%stransB=%d}\n", maker_result(m), x, w, c,
         draw_of(m, factors), m->made->opset < 7 ? "broadcast=1, " : "", trans);
}

void make_gemm(struct maker *m) {
    const struct thing *x = maker_value(m, TMK_FLOAT32, 2, 5);
    char name[24];
    if (!x)
        return;
    if (x->shape.rank == 2) {
        snprintf(name, sizeof name, "%%v%d", x->name);
        gemm_of(m, name, x->shape.dim[1], x->shape.dim[0]);
        return;
    }
    int64_t k = 1;
    for (int32_t i = 1; i < x->shape.rank; i++)
        k *= x->shape.dim[i];
    if (k > 400)
        return;
    const int flat = maker_result(m);
    snprintf(name, sizeof name, "%%v%d", flat);
    LINE(m, " %%v%d = Flatten(%%v%d)\n", flat, x->name);
    gemm_of(m, name, k, x->shape.dim[0]);
}

void make_matmul(struct maker *m) {
    const struct thing *x = maker_value(m, TMK_FLOAT32, 1, 5);
    if (!x)
        return;
    const int32_t rank = x->shape.rank;
    int64_t k = x->shape.dim[rank - 1], rows = rank > 1 ? x->shape.dim[rank - 2] : 1,
            n = channels(m);
    int64_t dim[6] = {0};
    int32_t r = 0;
    const unsigned kind = draw(m, 8);
    if (kind == 0 && rank > 1) { /* with its own transpose */
        const int t = maker_result(m);
        LINE(m, " %%v%d = Transpose(%%v%d) {perm=[", t, x->name);
        for (int32_t i = 0; i < rank; i++)
            LINE(m, "%s%d", i ? "," : "", i == rank - 1 ? rank - 2 : i == rank - 2 ? rank - 1 : i);
        LINE(m, "]}\n %%v%d = MatMul(%%v%d, %%v%d)\n", maker_result(m), x->name, t);
        return;
    }
    if (kind == 1) { /* a vector */
        const int w = maker_weight_of(m, 1, &k, -0.5, 0.5);
        LINE(m, " %%v%d = MatMul(%%v%d, %%w%d)\n", maker_result(m), x->name, w);
        return;
    }
    /* a matrix, or a stack of them that is broadcast; on either side */
    const bool left = kind == 2 && rank > 1;
    if (kind >= 6)
        for (int32_t i = rank > 2 ? (int32_t)draw(m, (unsigned)rank - 1) : 0; i + 2 < rank; i++)
            dim[r++] = i == 0 || draw(m, 2) ? 1 : x->shape.dim[i];
    if (kind == 7 && r < 3 && rank < 5 && r + 2 == rank)
        dim[0] = 1, r = r ? r : 0;
    dim[r] = left ? n : k;
    dim[r + 1] = left ? rows : n;
    const int w = maker_weight_of(m, r + 2, dim, -0.5, 0.5);
    const char *op = one_in(m, 12) && !left ? "com.microsoft::FusedMatMul" : "MatMul";
    if (left)
        LINE(m, " %%v%d = MatMul(%%w%d, %%v%d)\n", maker_result(m), w, x->name);
    else
        LINE(m, " %%v%d = %s(%%v%d, %%w%d)%s\n", maker_result(m), op, x->name, w,
             *op == 'c' ? " {alpha=0.5f}" : "");
}

void make_pool(struct maker *m) {
    const struct thing *x = maker_value(m, TMK_FLOAT32, 3, 5);
    if (!x)
        return;
    static const char *const ops[] = {"MaxPool", "AveragePool", "MaxPool", "AveragePool", "LpPool"};
    const int spatial = x->shape.rank - 2, opset = m->made->opset;
    const char *op = draw_of(m, ops);
    int64_t kernel[4];
    bool explicit_pads;
    kernel_extents(m, x, spatial, kernel);
    LINE(m, " %%v%d", maker_result(m));
    if (op[0] == 'M' && opset >= 8 && one_in(m, 5))
        LINE(m, ", %%v%d", maker_result(m));
    LINE(m, " = %s(%%v%d) {", op, x->name);
    auto_pad(m, &explicit_pads);
    if (opset >= (op[0] == 'L' ? 18 : 10) && one_in(m, 3))
        LINE(m, "ceil_mode=1, ");
    if (op[0] == 'A' && opset >= 7 && draw(m, 2))
        LINE(m, "count_include_pad=1, ");
    if (op[0] == 'L' && opset >= 2)
        LINE(m, "p=%d, ", draw_between(m, 1, 3));
    if (op[0] == 'M' && opset >= 8 && one_in(m, 6))
        LINE(m, "storage_order=1, ");
    (void)slide(m, x, spatial, explicit_pads,
                opset >= (op[0] == 'A'   ? 19
                          : op[0] == 'L' ? 18
                                         : 10),
                kernel);
    line_ints(m, "kernel_shape", kernel, spatial);
    LINE(m, "}\n");
}

void make_global_pool(struct maker *m) {
    static const char *const ops[] = {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"};
    const struct thing *x = maker_value(m, TMK_FLOAT32, 3, 6);
    if (x)
        LINE(m, " %%v%d = %s(%%v%d)\n", maker_result(m), draw_of(m, ops), x->name);
}

void make_batch_norm(struct maker *m) {
    const struct thing *x = maker_value(m, TMK_FLOAT32, 2, 6);
    if (!x)
        return;
    const int64_t c = x->shape.dim[1];
    const int scale = maker_weight_of(m, 1, &c, draw(m, 3) ? 0.25 : -1, 1.5),
              shift = maker_weight_of(m, 1, &c, -1, 1), mean = maker_weight_of(m, 1, &c, -1, 1),
              var = maker_weight_of(m, 1, &c, 0.1, 2);
    LINE(m, " %%v%d = BatchNormalization(%%v%d, %%w%d, %%w%d, %%w%d, %%w%d) {%s}\n",
         maker_result(m), x->name, scale, shift, mean, var,
         m->made->opset < 7 ? "is_test=1"
         : one_in(m, 3)     ? "epsilon=0.01f"
                            : "epsilon=1e-5f");
}

static void layer_norm(struct maker *m, const struct thing *x) {
    const int opset = m->made->opset;
    const int32_t axis = x->shape.rank - 1 - (int32_t)draw(m, x->shape.rank > 1 ? 2 : 1);
    const int scale = maker_weight_of(m, x->shape.rank - axis, x->shape.dim + axis, -1, 1.5);
    const bool rms = opset >= 23 && one_in(m, 3);
    char b[24] = "";
    if (!rms && draw(m, 2))
        snprintf(b, sizeof b, ", %%w%d",
                 maker_weight_of(m, x->shape.rank - axis, x->shape.dim + axis, -1, 1));
    LINE(m, " %%v%d", maker_result(m));
    for (unsigned more = rms ? 0 : draw(m, 4) ? 0 : draw(m, 3); more > 0; more--)
        LINE(m, ", %%v%d", maker_result(m));
    LINE(m, " = %s(%%v%d, %%w%d%s) {axis=%d}\n", rms ? "RMSNormalization" : "LayerNormalization",
         x->name, scale, b, one_in(m, 2) ? axis - x->shape.rank : axis);
}

void make_norm(struct maker *m) {
    const struct thing *x = maker_value(m, TMK_FLOAT32, 2, 5);
    const int opset = m->made->opset;
    if (!x)
        return;
    const int64_t c = x->shape.dim[1];
    switch (draw(m, 7)) {
    case 0:
    case 1:
        layer_norm(m, x);
        return;
    case 2: {
        const int scale = maker_weight_of(m, 1, &c, -1, 1.5),
                  shift = maker_weight_of(m, 1, &c, -1, 1);
        LINE(m, " %%v%d = InstanceNormalization(%%v%d, %%w%d, %%w%d)\n", maker_result(m), x->name,
             scale, shift);
        return;
    }
    case 3: {
        const int64_t groups = divisor(m, c), n = opset >= 21 ? c : groups;
        const int scale = maker_weight_of(m, 1, &n, -1, 1.5),
                  shift = maker_weight_of(m, 1, &n, -1, 1);
        LINE(m, " %%v%d = GroupNormalization(%%v%d, %%w%d, %%w%d) {num_groups=%lld}\n",
             maker_result(m), x->name, scale, shift, (long long)groups);
        return;
    }
    case 4:
        LINE(m, " %%v%d = LpNormalization(%%v%d) {p=%d, ", maker_result(m), x->name,
             draw_between(m, 1, 2));
        LINE(m, "axis=%d}\n", draw_between(m, -x->shape.rank, x->shape.rank - 1));
        return;
    case 5: {
        int64_t axes[4], n = 0;
        for (int32_t i = 0; i < x->shape.rank && n < 4; i++)
            if (i && draw(m, 2))
                axes[n++] = i;
        LINE(m, " %%v%d = MeanVarianceNormalization(%%v%d) {", maker_result(m), x->name);
        if (n)
            line_ints(m, "axes", axes, (int)n);
        LINE(m, "}\n");
        return;
    }
    default:
        LINE(m, " %%v%d = LRN(%%v%d) {size=%d, alpha=0.01f, beta=0.75f, bias=1.5f}\n",
             maker_result(m), x->name, 1 + 2 * (int)draw(m, 3));
    }
}

/* ---- sequences ---- */

void make_recurrent(struct maker *m) {
    static const char *const ops[] = {"LSTM", "GRU", "RNN"};
    static const char *const directions[] = {"forward", "reverse", "bidirectional"};
    static const int8_t gates[] = {4, 3, 1};
    const struct thing *x = maker_value(m, TMK_FLOAT32, 3, 3);
    if (!x)
        return;
    const unsigned op = draw(m, 3), direction = draw(m, 3);
    const bool batch_first = m->made->opset >= 14 && draw(m, 2);
    const int64_t d = direction == 2 ? 2 : 1, hidden = draw_between(m, 1, 9), in = x->shape.dim[2];
    const int64_t w_dim[] = {d, gates[op] * hidden, in}, r_dim[] = {d, gates[op] * hidden, hidden},
                  b_dim[] = {d, 2 * gates[op] * hidden};
    const int w = maker_weight_of(m, 3, w_dim, -0.5, 0.5),
              r = maker_weight_of(m, 3, r_dim, -0.5, 0.5);
    char b[24] = "";
    if (draw(m, 2))
        snprintf(b, sizeof b, ", %%w%d", maker_weight_of(m, 2, b_dim, -0.5, 0.5));
    LINE(m, " %%v%d", maker_result(m));
    for (int more = op == 0 ? 2 : 1; more > 0; more--)
        LINE(m, ", %%v%d", maker_result(m));
    LINE(m, " = %s(%%v%d, %%w%d, %%w%d%s) {hidden_size=%lld, direction=\"%s\"", ops[op], x->name, w,
         r, b, (long long)hidden, directions[direction]);
    if (batch_first)
        LINE(m, ", layout=1");
    if (op == 1 && draw(m, 2))
        LINE(m, ", linear_before_reset=1");
    if (one_in(m, 4))
        LINE(m, ", clip=0.5f");
    LINE(m, "}\n");
}

/* With itself: of rank 4, or of rank 3 with heads in the last axis. */
void make_attention(struct maker *m) {
    const struct thing *x = maker_value(m, TMK_FLOAT32, 3, 4);
    if (!x)
        return;
    if (m->made->opset < 23) { /* spelled out */
        const int s = maker_result(m), p = maker_result(m), y = maker_result(m);
        const int32_t r = x->shape.rank;
        const int scale = maker_scalar(m, 0.25), t = maker_result(m);
        LINE(m, " %%v%d = Transpose(%%v%d) {perm=[%s]}\n", t, x->name,
             r == 3 ? "0,2,1" : "0,1,3,2");
        LINE(m, " %%v%d = MatMul(%%v%d, %%v%d)\n", s, x->name, t);
        LINE(m, " %%q%d = Mul(%%v%d, %%w%d)\n", s, s, scale);
        LINE(m, " %%v%d = Softmax(%%q%d) {axis=%d}\n", p, s, m->made->opset < 13 ? r - 1 : -1);
        LINE(m, " %%v%d = MatMul(%%v%d, %%v%d)\n", y, p, x->name);
        return;
    }
    LINE(m, " %%v%d = Attention(%%v%d, %%v%d, %%v%d) {", maker_result(m), x->name, x->name,
         x->name);
    if (x->shape.rank == 3) {
        const int64_t heads = divisor(m, x->shape.dim[2]);
        LINE(m, "q_num_heads=%lld, kv_num_heads=%lld, ", (long long)heads, (long long)heads);
    }
    LINE(m, "is_causal=%u", draw(m, 2));
    if (one_in(m, 3))
        LINE(m, ", scale=0.5f");
    if (one_in(m, 4))
        LINE(m, ", softcap=2f");
    LINE(m, "}\n");
}
