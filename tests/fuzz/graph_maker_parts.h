/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that know operators need of the maker.
 *
 * A family of operators adds one item: initializers with maker_weight and the like, then a line (or
 * several) with LINE, results named by maker_result. What is not valid goes again, so a family may
 * guess. Where it has no operand it adds nothing. */
#pragma once

#include "base/size.h"
#include "graph_maker.h"

enum { MOST_THINGS = 64, MOST_RESULTS = 12, MOST_NODES = 24, MOST_ELEMENTS = 6000 };

/* A value of the graph, and what it is when batches have the first one's size. */
struct thing {
    int name; /* %vN */
    enum tmk_dtype dtype;
    struct tmk_shape shape;
    bool loose; /* its shape depends on numbers */
};

struct maker {
    const uint8_t *bytes;
    size_t n;
    struct made_graph *made;
    struct thing things[MOST_THINGS];
    uint32_t n_things;
    struct tmk_text head, body, item, line;
    int names, weights;
    int results[MOST_RESULTS]; /* of the item */
    uint32_t n_results;
};

#define LINE(m, ...) tmk_text_printf(&(m)->line, __VA_ARGS__)

/* A number below `below`; 0 when there are no bytes left. */
unsigned draw(struct maker *m, unsigned below);
static inline bool one_in(struct maker *m, unsigned n) {
    return draw(m, n) == n - 1;
}
static inline int draw_between(struct maker *m, int low, int high) {
    return low + (int)draw(m, (unsigned)(high - low + 1));
}
#define draw_of(m, list) ((list)[draw((m), TMK_COUNT(list))])

/* A value of this type and of a rank in [least, most]: mostly one of the last made; NULL: there is
 * none. Of any type where dtype is TMK_UNDEFINED. */
const struct thing *maker_value(struct maker *m, enum tmk_dtype dtype, int least, int most);
/* One to go with x elementwise, which is not always x's shape; x where there is no other. */
const struct thing *maker_partner(struct maker *m, const struct thing *x);
/* A new name, that of a result of the item. */
int maker_result(struct maker *m);
/* A float initializer of the item, %wN; answers N. */
int maker_weight(struct maker *m, const struct tmk_shape *shape, double low, double high);
int maker_weight_of(struct maker *m, int32_t rank, const int64_t *dim, double low, double high);
int maker_scalar(struct maker *m, double value);
/* One of integers (or bools): a list, or with n < 0 a scalar. */
int maker_ints(struct maker *m, enum tmk_dtype dtype, const int64_t *values, int n);
/* A shape that broadcasts to x's, and leaves samples alone. */
struct tmk_shape maker_broadcast(struct maker *m, const struct thing *x);
/* An input of the graph of a fixed shape; NULL: there are enough. */
const struct thing *maker_input(struct maker *m, enum tmk_dtype dtype,
                                const struct tmk_shape *shape, bool batched);
/* "name=[1,2,3], " */
void line_ints(struct maker *m, const char *name, const int64_t *values, int n);
/* ", %wN) {" from operator set `since` on, ") {name=[1,2,3], " before. */
void line_list(struct maker *m, int since, const char *name, const int64_t *values, int n);

typedef void family(struct maker *m);
/* graph_layers.c */
family make_conv, make_conv_transpose, make_matmul, make_gemm, make_pool, make_global_pool,
    make_norm, make_batch_norm, make_recurrent, make_attention;
/* graph_elementwise.c */
family make_unary, make_binary, make_variadic, make_compare, make_clip, make_cast, make_quantize,
    make_reduce, make_softmax, make_order;
/* graph_moves.c */
family make_concat, make_split, make_slice, make_gather, make_transpose, make_reshape, make_expand,
    make_pad, make_resize, make_depth, make_shape, make_body;
/* graph_rows.c: an operator's own sample. */
family make_row;
