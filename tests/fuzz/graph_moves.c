/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that move elements about, and graphs inside nodes. */
#include "graph_maker_parts.h"

#include <stdio.h>
#include <string.h>

/* Values that fit but for one axis; constants too. */
void make_concat(struct maker *m) {
    const struct thing *x = maker_value(m, TMK_FLOAT32, 1, 5);
    const struct thing *fit[MOST_THINGS];
    uint32_t n = 0;
    if (!x)
        return;
    const int32_t axis = x->shape.rank > 1 && draw(m, 8)
                             ? draw(m, 2) ? 1 : draw_between(m, 1, x->shape.rank - 1)
                             : 0;
    for (uint32_t i = 0; i < m->n_things; i++) {
        const struct thing *t = &m->things[i];
        struct tmk_shape shape = t->shape;
        if (shape.rank != x->shape.rank || t->dtype != TMK_FLOAT32 || t->loose)
            continue;
        shape.dim[axis] = x->shape.dim[axis];
        if (tmk_shape_equal(&shape, &x->shape))
            fit[n++] = t;
    }
    char constant[24] = "";
    if (axis && one_in(m, 6)) {
        struct tmk_shape shape = x->shape;
        shape.dim[axis] = draw_between(m, 1, 3);
        snprintf(constant, sizeof constant, ", %%w%d", maker_weight(m, &shape, -1, 1));
    }
    LINE(m, " %%v%d = Concat(%%v%d", maker_result(m), x->name);
    for (unsigned more = 1 + draw(m, 3); more > 0; more--)
        LINE(m, ", %%v%d", fit[n - 1 - draw(m, n)]->name);
    LINE(m, "%s) {axis=%d}\n", constant,
         one_in(m, 3) && m->made->opset >= 11 ? axis - x->shape.rank : axis);
}

void make_split(struct maker *m) {
    const struct thing *x = maker_value(m, draw(m, 4) ? TMK_FLOAT32 : TMK_UNDEFINED, 1, 5);
    if (!x)
        return;
    const int32_t axis = x->shape.rank > 1 ? draw_between(m, 1, x->shape.rank - 1) : 0;
    const int64_t extent = x->shape.dim[axis];
    int64_t parts[4], n = 1 + draw(m, 4), left = extent;
    for (int64_t i = 0; i < n; i++) {
        parts[i] = i == n - 1 ? left : left > 0 ? draw(m, (unsigned)left + 1) : 0;
        left -= parts[i];
    }
    const bool even = draw(m, 3) == 0;
    for (int64_t i = 0; i < n; i++)
        LINE(m, "%s%%v%d", i ? ", " : " ", maker_result(m));
    LINE(m, " = Split(%%v%d", x->name);
    if (even)
        LINE(m, ") {axis=%d", axis);
    if (even && m->made->opset >= 18)
        LINE(m, ", num_outputs=%lld", (long long)n);
    if (!even) {
        line_list(m, 13, "split", parts, (int)n);
        LINE(m, "axis=%d", axis);
    }
    LINE(m, "}\n");
}

void make_slice(struct maker *m) {
    const struct thing *x = maker_value(m, draw(m, 4) ? TMK_FLOAT32 : TMK_UNDEFINED, 1, 5);
    int64_t starts[5], ends[5], axes[5], steps[5];
    int n = 0;
    bool stepped = false;
    if (!x)
        return;
    for (int32_t i = x->shape.rank > 1; i < x->shape.rank; i++) {
        if (draw(m, 2))
            continue;
        const int64_t extent = x->shape.dim[i];
        axes[n] = one_in(m, 4) ? i - x->shape.rank : i;
        steps[n] = m->made->opset >= 10 && one_in(m, 3) ? draw_between(m, -3, 3) : 1;
        if (!steps[n])
            steps[n] = 1;
        stepped |= steps[n] != 1;
        starts[n] = draw_between(m, -2, (int)extent);
        ends[n] = one_in(m, 3) ? INT32_MAX : starts[n] + draw_between(m, 0, (int)extent);
        if (steps[n] < 0) {
            starts[n] = one_in(m, 3) ? -1 : extent;
            ends[n] = one_in(m, 3) ? 0 : INT32_MIN;
        }
        n++;
    }
    if (!n)
        return;
    if (m->made->opset >= 10) {
        const int a = maker_ints(m, TMK_INT64, starts, n), b = maker_ints(m, TMK_INT64, ends, n),
                  c = maker_ints(m, TMK_INT64, axes, n);
        LINE(m, " %%v%d = Slice(%%v%d, %%w%d, %%w%d, %%w%d", maker_result(m), x->name, a, b, c);
        if (stepped)
            LINE(m, ", %%w%d", maker_ints(m, TMK_INT64, steps, n));
        LINE(m, ")\n");
        return;
    }
    LINE(m, " %%v%d = Slice(%%v%d) {", maker_result(m), x->name);
    line_ints(m, "starts", starts, n);
    line_ints(m, "ends", ends, n);
    line_ints(m, "axes", axes, n);
    LINE(m, "}\n");
}

void make_gather(struct maker *m) {
    const struct thing *x = maker_value(m, draw(m, 4) ? TMK_FLOAT32 : TMK_UNDEFINED, 1, 5);
    int64_t at[4];
    if (!x)
        return;
    const int32_t axis = x->shape.rank > 1 ? draw_between(m, 1, x->shape.rank - 1) : 0;
    const int64_t extent = x->shape.dim[axis];
    const int n = draw_between(m, -1, 4);
    for (int i = 0; i < 4; i++)
        at[i] = extent > 0
                    ? draw_between(m, m->made->opset >= 11 ? -(int)extent : 0, (int)extent - 1)
                    : 0;
    const int w = maker_ints(m, TMK_INT64, at, n);
    LINE(m, " %%v%d = Gather(%%v%d, %%w%d) {axis=%d}\n", maker_result(m), x->name, w, axis);
}

static void transpose(struct maker *m, const char *to, int y, const char *from, int x,
                      const int *perm, int32_t rank) {
    LINE(m, " %%%s%d = Transpose(%%%s%d) {perm=[", to, y, from, x);
    for (int32_t i = 0; i < rank; i++)
        LINE(m, "%s%d", i ? "," : "", perm[i]);
    LINE(m, "]}\n");
}

/* Any, or there and back with something between. */
void make_transpose(struct maker *m) {
    const struct thing *x = maker_value(m, draw(m, 4) ? TMK_FLOAT32 : TMK_UNDEFINED, 1, 6);
    if (!x)
        return;
    const int32_t rank = x->shape.rank;
    int perm[6], back[6];
    for (int32_t i = 0; i < rank; i++)
        perm[i] = i;
    const bool last = draw(m, 2) && rank > 2;
    for (int32_t i = rank; i-- > 1 && !last;) {
        const int k = (int)draw(m, (unsigned)i + 1), t = perm[i];
        perm[i] = perm[k];
        perm[k] = t;
    }
    for (int32_t i = 1; last && i < rank; i++)
        perm[i] = i == rank - 1 ? 1 : i + 1;
    for (int32_t i = 0; i < rank; i++)
        back[perm[i]] = i;
    const int y = maker_result(m);
    transpose(m, "v", y, "v", x->name, perm, rank);
    if (x->dtype != TMK_FLOAT32 || draw(m, 2))
        return;
    const int z = maker_result(m);
    LINE(m, " %%t%d = Relu(%%v%d)\n", y, y);
    transpose(m, "v", z, "t", y, back, rank);
}

void make_reshape(struct maker *m) {
    const struct thing *x = maker_value(m, draw(m, 4) ? TMK_FLOAT32 : TMK_UNDEFINED, 1, 6);
    int64_t shape[5];
    int n = 0;
    if (!x)
        return;
    const int32_t rank = x->shape.rank;
    switch (draw(m, 5)) {
    case 0:
        LINE(m, " %%v%d = Flatten(%%v%d) {axis=%d}\n", maker_result(m), x->name,
             draw_between(m, 0, rank));
        return;
    case 1:
    case 2: {
        /* samples stay, two axes become one or the other way round */
        shape[n++] = 0;
        if (rank > 2 && draw(m, 2))
            shape[n++] = 0;
        shape[n++] = -1;
        if (x->shape.dim[rank - 1] % 2 == 0 && draw(m, 2))
            shape[n++] = 2;
        if (m->made->opset < 5) {
            LINE(m, " %%v%d = Reshape(%%v%d) {", maker_result(m), x->name);
            line_ints(m, "shape", shape, n);
            LINE(m, "}\n");
            return;
        }
        const int w = maker_ints(m, TMK_INT64, shape, n);
        LINE(m, " %%v%d = Reshape(%%v%d, %%w%d)\n", maker_result(m), x->name, w);
        return;
    }
    case 3: {
        const int64_t axis = draw_between(m, m->made->opset < 11 ? 0 : -rank - 1, rank);
        const int y = maker_result(m);
        LINE(m, " %%v%d = Unsqueeze(%%v%d", y, x->name);
        line_list(m, 13, "axes", &axis, 1);
        LINE(m, "}\n");
        return;
    }
    default:
        for (int32_t i = 1; i < rank && n < 5; i++)
            if (x->shape.dim[i] == 1)
                shape[n++] = i;
        if (!n)
            return;
        LINE(m, " %%v%d = Squeeze(%%v%d", maker_result(m), x->name);
        line_list(m, 13, "axes", shape, n);
        LINE(m, "}\n");
    }
}

void make_expand(struct maker *m) {
    const struct thing *x = maker_value(m, draw(m, 4) ? TMK_FLOAT32 : TMK_UNDEFINED, 1, 5);
    int64_t to[5];
    if (!x || m->made->opset < 6)
        return;
    const bool tile = m->made->opset < 8 || draw(m, 2);
    for (int32_t i = 0; i < x->shape.rank; i++)
        to[i] = tile                   ? (i && one_in(m, 3) ? 2 : 1)
                : i == 0               ? 1
                : x->shape.dim[i] == 1 ? draw_between(m, 1, 4)
                : draw(m, 2)           ? 1
                                       : x->shape.dim[i];
    const int w = maker_ints(m, TMK_INT64, to, x->shape.rank);
    LINE(m, " %%v%d = %s(%%v%d, %%w%d)\n", maker_result(m), tile ? "Tile" : "Expand", x->name, w);
}

void make_pad(struct maker *m) {
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
    const struct thing *x = maker_value(m, TMK_FLOAT32, 1, 5);
    int64_t pads[10] = {0};
    if (!x)
        return;
    const int32_t rank = x->shape.rank;
    const char *mode = modes[draw(m, m->made->opset >= 19 ? 4 : 3)];
    for (int32_t i = rank > 2 ? 2 : rank > 1; i < rank; i++) {
        pads[i] = draw_between(m, -1, 3);
        pads[rank + i] = draw_between(m, -1, 3);
    }
    if (m->made->opset >= 11) {
        const int w = maker_ints(m, TMK_INT64, pads, 2 * rank), c = maker_scalar(m, -1.5);
        LINE(m, " %%v%d = Pad(%%v%d, %%w%d", maker_result(m), x->name, w);
        if (mode[0] == 'c' && draw(m, 2))
            LINE(m, ", %%w%d", c);
        LINE(m, ") {mode=\"%s\"}\n", mode);
        return;
    }
    LINE(m, " %%v%d = Pad(%%v%d) {mode=\"%s\", ", maker_result(m), x->name, mode);
    line_ints(m, m->made->opset < 2 ? "paddings" : "pads", pads, 2 * rank);
    LINE(m, "value=%s}\n", draw(m, 2) ? "-1.5f" : "0f");
}

void make_resize(struct maker *m) {
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const transforms[] = {"half_pixel", "asymmetric", "align_corners",
                                             "pytorch_half_pixel"};
    static const char *const rounds[] = {"round_prefer_floor", "floor", "ceil",
                                         "round_prefer_ceil"};
    static const float factors[] = {2, 1, 1.5f, 0.5f, 3, 0.75f};
    const struct thing *x = maker_value(m, TMK_FLOAT32, 3, 4);
    const int opset = m->made->opset;
    if (!x || opset < 9)
        return;
    struct tmk_tensor scales;
    const struct tmk_shape shape = {1, {x->shape.rank}};
    float factor[4] = {1, 1, 1, 1};
    for (int32_t i = 2; i < x->shape.rank; i++)
        factor[i] = draw_of(m, factors);
    const char *mode = modes[draw(m, opset < 11 ? 2 : 3)];
    const int w = maker_weight(m, &shape, 1, 1);
    struct tensor_pool *pool = &m->made->pool;
    scales = pool->tensors[pool->n - 1];
    memcpy(scales.data, factor, tmk_tensor_bytes(&scales));
    if (opset < 11) {
        LINE(m, " %%v%d = %s(%%v%d, %%w%d) {mode=\"%s\"}\n", maker_result(m),
             opset == 9 ? "Upsample" : "Resize", x->name, w, mode);
        return;
    }
    /* up to 12 the region is no option */
    const int roi = opset < 13 ? maker_weight(m, &(struct tmk_shape){1, {0}}, 0, 0) : -1;
    char text[24] = "_";
    if (roi >= 0)
        snprintf(text, sizeof text, "%%w%d", roi);
    LINE(m, " %%v%d = Resize(%%v%d, %s, %%w%d) {mode=\"%s\"", maker_result(m), x->name, text, w,
         mode);
    LINE(m, ", coordinate_transformation_mode=\"%s\"", draw_of(m, transforms));
    LINE(m, ", nearest_mode=\"%s\"", draw_of(m, rounds));
    if (opset >= 18 && one_in(m, 3) && mode[0] != 'n')
        LINE(m, ", antialias=1");
    if (mode[0] == 'c' && one_in(m, 3))
        LINE(m, ", exclude_outside=1");
    LINE(m, "}\n");
}

void make_depth(struct maker *m) {
    const struct thing *x = maker_value(m, TMK_FLOAT32, 4, 4);
    if (!x)
        return;
    if (draw(m, 2))
        LINE(m, " %%v%d = SpaceToDepth(%%v%d) {blocksize=2}\n", maker_result(m), x->name);
    else
        LINE(m, " %%v%d = DepthToSpace(%%v%d) {blocksize=2%s}\n", maker_result(m), x->name,
             m->made->opset >= 11 && draw(m, 2) ? ", mode=\"CRD\"" : "");
}

/* Arithmetic on shapes, and what is done with it. */
void make_shape(struct maker *m) {
    const struct thing *x = maker_value(m, TMK_UNDEFINED, 1, 5);
    if (!x || m->made->opset < 5)
        return;
    const int s = maker_result(m);
    LINE(m, " %%v%d = Shape(%%v%d)\n", s, x->name);
    switch (draw(m, 4)) {
    case 0:
        LINE(m, " %%v%d = Size(%%v%d)\n", maker_result(m), x->name);
        break;
    case 1: { /* to a matrix of as many rows as there are samples */
        const int64_t zero = 0, minus = -1;
        const int i = maker_ints(m, TMK_INT64, &zero, 1),
                  rest = maker_ints(m, TMK_INT64, &minus, 1);
        LINE(m, " %%n%d = Gather(%%v%d, %%w%d)\n %%c%d = Concat(%%n%d, %%w%d) {axis=0}\n", s, s, i,
             s, s, rest);
        LINE(m, " %%v%d = Reshape(%%v%d, %%c%d)\n", maker_result(m), x->name, s);
        break;
    }
    case 2: {
        const struct thing *y = maker_partner(m, x);
        if (m->made->opset >= 8)
            LINE(m, " %%v%d = Expand(%%v%d, %%v%d)\n", maker_result(m), y->name, s);
        break;
    }
    default:
        if (m->made->opset >= 9)
            LINE(m, " %%v%d = ConstantOfShape(%%v%d) {value=f32[1]{0.5}}\n", maker_result(m), s);
    }
}

/* A graph inside a node, over a value of outside. */
void make_body(struct maker *m) {
    const struct thing *x = maker_value(m, TMK_FLOAT32, 1, 4);
    char type[64], dims[48];
    if (!x || m->made->opset < 9)
        return;
    const struct tmk_shape rest = {x->shape.rank - 1,
                                   {x->shape.dim[1], x->shape.dim[2], x->shape.dim[3]}};
    const int y = maker_result(m);
    (void)tmk_shape_text(&rest, dims, sizeof dims);
    snprintf(type, sizeof type, "f32%s", dims);
    switch (draw(m, 3)) {
    case 0: { /* the mean decides */
        const int zero = maker_scalar(m, 0.4);
        LINE(m, " %%m%d = ReduceSum(%%v%d) {keepdims=0}\n %%c%d = Greater(%%m%d, %%w%d)\n", y,
             x->name, y, y, zero);
        LINE(m,
             " %%v%d = If(%%c%d) {then_branch=graph \"t\" {\n %%a%d = Relu(%%v%d)\n output %%a%d\n "
             "},"
             " else_branch=graph \"e\" {\n %%b%d = Neg(%%v%d)\n %%d%d = Abs(%%b%d)\n output "
             "%%d%d\n }}\n",
             y, y, y, x->name, y, y, x->name, y, y, y);
        break;
    }
    case 1: { /* so many rounds */
        const int64_t rounds = draw(m, 4);
        const int n = maker_ints(m, TMK_INT64, &rounds, -1), w = maker_scalar(m, 0.5),
                  s = maker_result(m);
        LINE(m,
             " %%v%d, %%v%d = Loop(%%w%d, _, %%v%d) {body=graph \"b\" {\n input %%i%d : i64[]\n "
             "input %%c%d : bool[]\n"
             " input %%e%d : f32\n %%d%d = Identity(%%c%d)\n %%f%d = Mul(%%e%d, %%w%d)\n %%g%d = "
             "Tanh(%%f%d)\n"
             " output %%d%d\n output %%f%d\n output %%g%d\n }}\n",
             y, s, n, x->name, y, y, y, y, y, y, y, w, y, y, y, y, y);
        break;
    }
    default: { /* along the first axis: running sums */
        const int zero = maker_weight(m, &rest, 0, 0), s = maker_result(m);
        LINE(m,
             " %%v%d, %%v%d = Scan(%%w%d, %%v%d) {body=graph \"s\" {\n input %%a%d : %s\n input "
             "%%e%d : %s\n"
             " %%n%d = Add(%%a%d, %%e%d)\n %%r%d = Relu(%%n%d)\n output %%n%d\n output %%r%d\n }, "
             "num_scan_inputs=1}\n",
             y, s, zero, x->name, y, type, y, type, y, y, y, y, y, y, y);
    }
    }
}
