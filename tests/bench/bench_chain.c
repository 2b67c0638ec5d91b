/* SPDX-License-Identifier: Apache-2.0 */
/* What chains cost, compared with moving the same bytes: the minimum of many runs, in microseconds.
 * Usage: bench_chain */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/size.h"
#include "graph_text/read.h"
#include "kernel/chain.h"

enum { BLOCK = 16, ROUNDS = 60, OPERANDS = 6, MEMBERS = 3 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static float *floats(size_t n) {
    float *x = aligned_alloc(64, (n * sizeof *x + 63) & ~(size_t)63);
    if (!x)
        exit(1);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i * 2654435761u % 1000) * 0.01f - 5;
    return x;
}

struct job {
    struct tmk_chain *chain;
    const float *operands[OPERANDS];
    float *x, *other, *y, *scratch;
    size_t n;
    bool in_place;
};

static double measure(struct job *job, void (*work)(struct job *job)) {
    double best = 1e30;
    int times = (int)(((size_t)1 << 20) / job->n) + 1;
    for (int round = 0; round < ROUNDS; round++) {
        double start = now();
        for (int i = 0; i < times; i++)
            work(job);
        double each = (now() - start) / times;
        best = each < best ? each : best;
    }
    return best;
}

static void copy(struct job *job) {
    memcpy(job->y, job->x, job->n * sizeof *job->y);
    __asm__ volatile("" ::"r"(job->y) : "memory");
}

/* What one loop over the same tensors costs. */
static void add(struct job *job) {
    const float *restrict x = job->x, *restrict other = job->other;
    float *restrict y = job->y;
    for (size_t i = 0; i < job->n; i++)
        y[i] = x[i] + other[i];
    __asm__ volatile("" ::"r"(job->y) : "memory");
}

static enum tmk_status glance(void *context, uint32_t which, const float *x, size_t first, size_t n,
                              struct tmk_diag *diag) {
    (void)which, (void)first, (void)n, (void)diag;
    *(float *)context += x[0];
    return TMK_OK;
}

static void run(struct job *job) {
    float *result = job->in_place ? job->x : job->y;
    if (tmk_chain_run(job->chain, job->operands, &result, job->scratch, NULL, NULL) != TMK_OK)
        exit(1);
}

static void run_watched(struct job *job) {
    float sum = 0;
    const struct tmk_chain_watcher watcher = {glance, &sum};
    if (tmk_chain_run(job->chain, job->operands, &job->y, job->scratch, &watcher, NULL) != TMK_OK)
        exit(1);
}

/* Input 0 is %x, 1 to 4 are the constants of channels, 5 is %z. */
static struct tmk_chain *make(struct tmk_graph *graph, const struct tmk_shape *space,
                              uint32_t block, bool watched) {
    static const int32_t from[MEMBERS][5] = {{0, 1, 2, 3, 4}, {-1, 5}, {-2}};
    static const int32_t from_first[1] = {-1};
    static float constants[4][4096];
    struct tmk_chain_operand operands[OPERANDS];
    struct tmk_chain_member members[MEMBERS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < OPERANDS; i++)
        operands[i] = (struct tmk_chain_operand){.shape = space, .watched = watched && i == 0};
    for (uint32_t i = 1; i < 5; i++) {
        operands[i].shape = &graph->first->inputs[i]->type.shape;
        operands[i].constant = constants[i - 1];
        for (size_t c = 0; c < 4096; c++)
            constants[i - 1][c] = 0.5f + (float)(c % 7) * 0.1f;
    }
    for (struct tmk_node *node = graph->first; node; node = node->next, n++)
        members[n] = (struct tmk_chain_member){.node = node,
                                               .from = n == 1 && !node->next ? from_first : from[n],
                                               .stored = !node->next,
                                               .watched = watched};
    struct tmk_chain *chain = NULL;
    struct tmk_diag diag = {0};
    if (tmk_chain_create(space, block, operands, OPERANDS, members, n, &chain, &diag) != TMK_OK) {
        fprintf(stderr, "%s\n", diag.text);
        exit(1);
    }
    return chain;
}

static void bench(const struct tmk_shape *space, uint32_t block, const char *tail,
                  const char *title) {
    char text[1024], shape[64];
    struct tmk_graph *graph = NULL;
    struct tmk_diag diag = {0};
    struct job job = {0};
    int64_t c = space->dim[1];
    tmk_shape_text(space, shape, sizeof shape);
    snprintf(text, sizeof text,
             "graph \"g\" opset 17 {\n  input %%x : f32%s\n  input %%z : f32%s\n"
             "  input %%s : f32[%lld]\n  input %%b : f32[%lld]\n  input %%m : f32[%lld]\n"
             "  input %%v : f32[%lld]\n  %%n = BatchNormalization(%%x, %%s, %%b, %%m, %%v)\n%s"
             "  output %%y\n}\n",
             shape, shape, (long long)c, (long long)c, (long long)c, (long long)c, tail);
    if (parse_graph(text, NULL, &graph, &diag) != TMK_OK || tmk_ops_bind(graph, &diag) != TMK_OK ||
        !tmk_blocked_count(space, block, &job.n)) {
        fprintf(stderr, "%s\n", diag.text);
        exit(1);
    }
    job.x = floats(job.n);
    job.other = floats(job.n);
    job.y = floats(job.n);
    job.operands[0] = job.x;
    job.operands[5] = job.other;
    job.chain = make(graph, space, block, false);
    job.scratch = floats(tmk_chain_scratch(job.chain) / sizeof(float) + 16);
    double copied = measure(&job, copy), added = measure(&job, add), ran = measure(&job, run);
    job.in_place = true;
    double inside = measure(&job, run);
    tmk_chain_destroy(&job.chain);
    job.chain = make(graph, space, block, true);
    double watched = measure(&job, run_watched);
    tmk_chain_destroy(&job.chain);
    printf("%-16s %-6s %-18s %9.1f %9.1f %9.1f %9.1f %9.1f\n", shape, block ? "blocks" : "rows",
           title, copied, added, ran, inside, watched);
    free(job.x);
    free(job.other);
    free(job.y);
    free(job.scratch);
    tmk_graph_destroy(&graph);
}

static struct tmk_shape turned;

static void to_blocks(struct job *job) {
    tmk_to_blocks(job->x, job->y, &turned, BLOCK);
}

static void from_blocks(struct job *job) {
    tmk_from_blocks(job->x, job->y, &turned, BLOCK);
}

static void bench_layouts(const struct tmk_shape *shape) {
    struct job job = {0};
    char text[64];
    turned = *shape;
    if (!tmk_blocked_count(shape, BLOCK, &job.n))
        exit(1);
    job.x = floats(job.n);
    job.y = floats(job.n);
    double copied = measure(&job, copy), to = measure(&job, to_blocks),
           from = measure(&job, from_blocks);
    printf("%-16s %9.1f %9.1f %9.1f\n", tmk_shape_text(shape, text, sizeof text), copied, to, from);
    free(job.x);
    free(job.y);
}

int main(void) {
    static const struct tmk_shape shapes[] = {
        {4, {1, 64, 56, 56}}, {4, {1, 256, 56, 56}}, {4, {1, 512, 7, 7}}, {4, {1, 512, 1, 1}}};
    printf(
        "microseconds a run; one read and write, two reads and a write, the chain, in place, and "
        "shown to a watcher\n%-16s %-6s %-18s %9s %9s %9s %9s %9s\n",
        "", "", "", "memcpy", "x + z", "chain", "in place", "watched");
    for (size_t i = 0; i < TMK_COUNT(shapes); i++)
        for (uint32_t block = 0; block <= BLOCK; block += BLOCK) {
            bench(&shapes[i], block, "  %y = Relu(%n)\n", "norm, relu");
            bench(&shapes[i], block, "  %a = Add(%n, %z)\n  %y = Relu(%a)\n", "norm, add, relu");
        }
    printf("\nmicroseconds to change the layout\n%-16s %9s %9s %9s\n", "", "memcpy", "to blocks",
           "back");
    for (size_t i = 0; i < TMK_COUNT(shapes); i++)
        bench_layouts(&shapes[i]);
    return 0;
}
