/* SPDX-License-Identifier: Apache-2.0 */
/* TfIdfVectorizer over integers: how often each n-gram of a pool occurs in each row. */
#include <string.h>

#include "ops/kernel.h"

/* The pool: for each length n from 1 on, grams of n items each, one behind the other. */
struct pool {
    const int64_t *items, *starts, *columns; /* columns: of the result, by gram */
    size_t n_items, n_lengths, n_columns;
    int64_t shortest, longest, skips; /* that are looked for */
};

/* The items and the number of the first gram of length n, and how many there are. */
struct grams {
    const int64_t *items;
    size_t first, n;
};

static struct grams grams_of(const struct pool *pool, size_t n) {
    struct grams found = {pool->items, 0, 0};
    for (size_t i = 1; i <= n; i++) {
        size_t start = (size_t)pool->starts[i - 1],
               end = i < pool->n_lengths ? (size_t)pool->starts[i] : pool->n_items;
        found = (struct grams){pool->items + start, found.first + found.n, (end - start) / i};
    }
    return found;
}

static enum tmk_status check_starts(const struct pool *pool, struct tmk_diag *diag) {
    size_t grams = 0;
    for (size_t i = 0; i < pool->n_lengths; i++) {
        uint64_t start = (uint64_t)pool->starts[i],
                 end = i + 1 < pool->n_lengths ? (uint64_t)pool->starts[i + 1] : pool->n_items;
        if (start > end || end > pool->n_items || (i == 0 && start) || (end - start) % (i + 1))
            return tmk_fail(diag, TMK_RANGE,
                            "ngram_counts: items %lld to %lld of the pool are no whole number of "
                            "%zu-grams",
                            (long long)start, (long long)end, i + 1);
        grams += (end - start) / (i + 1);
    }
    if (grams != pool->n_columns)
        return tmk_fail(diag, TMK_SHAPE, "ngram_indexes has %zu entries for %zu n-grams",
                        pool->n_columns, grams);
    return TMK_OK;
}

static enum tmk_status read_pool(const struct tmk_node *node, struct pool *pool, int64_t *width,
                                 struct tmk_diag *diag) {
    *pool = (struct pool){.shortest = tmk_node_int(node, "min_gram_length", 1),
                          .longest = tmk_node_int(node, "max_gram_length", 1),
                          .skips = tmk_node_int(node, "max_skip_count", 0)};
    if (tmk_node_attr(node, "pool_strings"))
        return tmk_fail(diag, TMK_UNSUPPORTED, "pool_strings: strings are not supported");
    pool->items = tmk_node_ints(node, "pool_int64s", &pool->n_items);
    pool->starts = tmk_node_ints(node, "ngram_counts", &pool->n_lengths);
    pool->columns = tmk_node_ints(node, "ngram_indexes", &pool->n_columns);
    if (pool->shortest < 1 || pool->longest < pool->shortest || pool->skips < 0 ||
        (uint64_t)pool->longest > pool->n_lengths)
        return tmk_fail(diag, TMK_RANGE,
                        "n-grams of %lld to %lld items with up to %lld skips, of %zu lengths",
                        (long long)pool->shortest, (long long)pool->longest, (long long)pool->skips,
                        pool->n_lengths);
    TMK_TRY(check_starts(pool, diag));
    *width = 0;
    for (size_t i = 0; i < pool->n_columns; i++) {
        if (pool->columns[i] < 0 || pool->columns[i] >= INT32_MAX)
            return tmk_fail(diag, TMK_RANGE, "ngram_indexes has %lld", (long long)pool->columns[i]);
        *width = pool->columns[i] >= *width ? pool->columns[i] + 1 : *width;
    }
    return TMK_OK;
}

static enum tmk_status tfidf_infer(struct tmk_infer *infer) {
    const struct tmk_tensor *x = infer->in[0];
    struct pool pool;
    int mode;
    int64_t width;
    size_t weights;
    if (x->dtype != TMK_INT32)
        TMK_TRY(tmk_want_dtype(x, TMK_INT64, "X", infer->diag));
    if (x->shape.rank > 2)
        return tmk_fail(infer->diag, TMK_SHAPE, "X has %d axes, and may have 2",
                        (int)x->shape.rank);
    TMK_TRY(tmk_choice(infer->node, "mode", "TF IDF TFIDF", &mode, infer->diag));
    TMK_TRY(read_pool(infer->node, &pool, &width, infer->diag));
    if (tmk_node_floats(infer->node, "weights", &weights) && weights < (size_t)width)
        return tmk_fail(infer->diag, TMK_SHAPE, "%zu weights for %lld columns", weights,
                        (long long)width);
    struct tmk_shape shape = {.rank = 1, .dim = {width}};
    if (x->shape.rank == 2)
        shape = (struct tmk_shape){.rank = 2, .dim = {x->shape.dim[0], width}};
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &shape);
}

/* Grams by their items: numbers + 1, 0 is empty; `size` is a power of two, twice the grams. */
struct table {
    uint32_t *slots;
    size_t size;
};

static size_t hash_gram(const int64_t *items, size_t n, size_t apart) {
    uint64_t sum = n;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ (uint64_t)items[i * apart]) * 0x9e3779b97f4a7c15u;
    return (size_t)(sum >> 20);
}

static bool is_gram(const int64_t *gram, const int64_t *items, size_t n, size_t apart) {
    for (size_t i = 0; i < n; i++)
        if (gram[i] != items[i * apart])
            return false;
    return true;
}

/* The slot of the gram, or the empty one where it would be. */
static uint32_t *find_gram(const struct table *table, const struct grams *grams,
                           const int64_t *items, size_t n, size_t apart) {
    size_t at = hash_gram(items, n, apart) & (table->size - 1);
    while (table->slots[at] && !is_gram(grams->items + (table->slots[at] - 1) * n, items, n, apart))
        at = (at + 1) & (table->size - 1);
    return &table->slots[at];
}

/* Large enough for the grams of any length. */
static enum tmk_status make_table(struct tmk_run *run, size_t grams, struct table *table) {
    table->size = 2;
    while (table->size / 2 < grams)
        table->size *= 2;
    table->slots = run->scratch(run->context, table->size * sizeof *table->slots);
    return table->slots ? TMK_OK : tmk_nomem(run->diag);
}

static void fill_table(const struct table *table, const struct grams *grams, size_t n) {
    memset(table->slots, 0, table->size * sizeof *table->slots);
    for (size_t g = 0; g < grams->n; g++)
        *find_gram(table, grams, grams->items + g * n, n, 1) = (uint32_t)(g + 1);
}

/* Single items are the same however far apart they are. */
static void count_grams(const struct pool *pool, const struct table *table,
                        const struct grams *grams, size_t n, const int64_t *row, size_t length,
                        float *y) {
    size_t furthest = n == 1 ? 1 : (size_t)pool->skips + 1;
    for (size_t apart = 1; apart <= furthest && apart <= length; apart++)
        for (size_t i = 0; i < length && (n - 1) <= (length - 1 - i) / apart; i++) {
            uint32_t found = *find_gram(table, grams, row + i, n, apart);
            if (found)
                y[pool->columns[grams->first + found - 1]] += 1;
        }
}

static void weigh_counts(const struct tmk_node *node, float *y, size_t rows, size_t width) {
    const char *mode = tmk_node_string(node, "mode", "");
    size_t n;
    const float *weights = tmk_node_floats(node, "weights", &n);
    const bool once = strcmp(mode, "IDF") == 0;
    if (strcmp(mode, "TF") == 0)
        return;
    for (size_t r = 0; r < rows; r++, y += width)
        for (size_t i = 0; i < width; i++) {
            if (once && y[i] > 1)
                y[i] = 1;
            y[i] *= weights ? weights[i] : 1;
        }
}

static enum tmk_status tfidf_run(struct tmk_run *run) {
    const struct tmk_tensor *x = run->in[0];
    struct tmk_tensor *out = tmk_run_out(run, 0);
    struct pool pool;
    struct table table;
    int64_t width;
    TMK_TRY(read_pool(run->node, &pool, &width, run->diag));
    size_t items = tmk_tensor_count(x), rows = tmk_tensor_count(out) / (size_t)width,
           length = items / rows;
    int64_t *row = run->scratch(run->context, (items + 1) * sizeof *row);
    TMK_TRY_ALLOC(row, run->diag);
    TMK_TRY(make_table(run, pool.n_columns, &table));
    for (size_t i = 0; i < items; i++)
        row[i] =
            x->dtype == TMK_INT32 ? ((const int32_t *)x->data)[i] : ((const int64_t *)x->data)[i];
    memset(out->data, 0, tmk_tensor_bytes(out));
    for (size_t n = (size_t)pool.shortest; n <= (size_t)pool.longest; n++) {
        const struct grams grams = grams_of(&pool, n);
        fill_table(&table, &grams, n);
        for (size_t r = 0; r < rows; r++)
            count_grams(&pool, &table, &grams, n, row + r * length, length,
                        (float *)out->data + r * (size_t)width);
    }
    weigh_counts(run->node, out->data, rows, (size_t)width);
    return TMK_OK;
}

const struct tmk_op tmk_ops_tfidf[] = {
    {TMK_OP_ONNX("TfIdfVectorizer", 9, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .attrs = "max_gram_length:int! max_skip_count:int! min_gram_length:int! mode:string! "
              "ngram_counts:ints! ngram_indexes:ints! pool_int64s:ints pool_strings:strings "
              "weights:floats",
     .infer = tfidf_infer, .run = tfidf_run},
    {NULL}};
