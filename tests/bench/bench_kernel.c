/* SPDX-License-Identifier: Apache-2.0 */
/* What the layers of ResNet-50, MobileNetV2, DenseNet-121 and SqueezeNet 1.1 (and some others) cost
 * on their accelerated kernels: milliseconds between row-major tensors (the reorder in, the
 * primitive, the reorder out, all three), milliseconds and GFLOP/s in the layout that the kernel
 * requests, and with the argument "plain" milliseconds of the plain kernel. One thread; processor
 * time, best of several runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/size.h"
#include "graph_text/read.h"
#include "kernel/onednn.h"

enum { RUNS = 15 };

struct layer {
    int count; /* in the network; -1: the next one begins, of this name */
    const char *text;
};

#define TMK_CONV(count, x, w, attributes)                                                          \
    {                                                                                              \
        count, "input %x : f32[1," x "]\n input %w : f32[" w "]\n %y = Conv(%x, %w) {" attributes  \
               "}\n"                                                                               \
    }
#define TMK_POINT(count, x, w) TMK_CONV(count, x, w ",1,1", "group=1")
#define TMK_DEPTH(count, x, c, attributes)                                                         \
    TMK_CONV(count, c "," x, c ",1,3,3", "group=" c ", " attributes)
#define TMK_PAD1 "pads=[1,1,1,1]"
#define TMK_STRIDE2 "strides=[2,2]"
#define TMK_POOL(count, x, op, attributes)                                                         \
    { count, "input %x : f32[1," x "]\n %y = " op "(%x) {" attributes "}\n" }
#define TMK_NETWORK(name)                                                                          \
    { -1, name }

static const struct layer layers[] = {
    TMK_NETWORK("ResNet-50"),
    TMK_CONV(1, "3,224,224", "64,3,7,7", "pads=[3,3,3,3], " TMK_STRIDE2),
    TMK_POOL(1, "64,112,112", "MaxPool", "kernel_shape=[3,3], " TMK_PAD1 ", " TMK_STRIDE2),
    TMK_POINT(1, "64,56,56", "64,64"),
    TMK_CONV(3, "64,56,56", "64,64,3,3", TMK_PAD1),
    TMK_POINT(4, "64,56,56", "256,64"),
    TMK_POINT(2, "256,56,56", "64,256"),
    TMK_POINT(1, "256,56,56", "128,256"),
    TMK_CONV(1, "128,56,56", "128,128,3,3", TMK_PAD1 ", " TMK_STRIDE2),
    TMK_POINT(4, "128,28,28", "512,128"),
    TMK_CONV(1, "256,56,56", "512,256,1,1", TMK_STRIDE2),
    TMK_POINT(3, "512,28,28", "128,512"),
    TMK_CONV(3, "128,28,28", "128,128,3,3", TMK_PAD1),
    TMK_POINT(1, "512,28,28", "256,512"),
    TMK_CONV(1, "256,28,28", "256,256,3,3", TMK_PAD1 ", " TMK_STRIDE2),
    TMK_POINT(6, "256,14,14", "1024,256"),
    TMK_CONV(1, "512,28,28", "1024,512,1,1", TMK_STRIDE2),
    TMK_POINT(5, "1024,14,14", "256,1024"),
    TMK_CONV(5, "256,14,14", "256,256,3,3", TMK_PAD1),
    TMK_POINT(1, "1024,14,14", "512,1024"),
    TMK_CONV(1, "512,14,14", "512,512,3,3", TMK_PAD1 ", " TMK_STRIDE2),
    TMK_POINT(3, "512,7,7", "2048,512"),
    TMK_CONV(1, "1024,14,14", "2048,1024,1,1", TMK_STRIDE2),
    TMK_POINT(2, "2048,7,7", "512,2048"),
    TMK_CONV(2, "512,7,7", "512,512,3,3", TMK_PAD1),
    {1, "input %x : f32[1,2048,7,7]\n %y = GlobalAveragePool(%x)\n"},
    {1, "input %x : f32[1,2048]\n input %w : f32[1000,2048]\n input %b : f32[1000]\n"
        " %y = Gemm(%x, %w, %b) {transB=1}\n"},
    TMK_NETWORK("MobileNetV2"),
    TMK_CONV(1, "3,224,224", "32,3,3,3", TMK_PAD1 ", " TMK_STRIDE2),
    TMK_DEPTH(1, "112,112", "32", TMK_PAD1),
    TMK_POINT(1, "32,112,112", "16,32"),
    TMK_POINT(1, "16,112,112", "96,16"),
    TMK_DEPTH(1, "112,112", "96", TMK_PAD1 ", " TMK_STRIDE2),
    TMK_POINT(1, "96,56,56", "24,96"),
    TMK_POINT(2, "24,56,56", "144,24"),
    TMK_DEPTH(1, "56,56", "144", TMK_PAD1),
    TMK_POINT(1, "144,56,56", "24,144"),
    TMK_DEPTH(1, "56,56", "144", TMK_PAD1 ", " TMK_STRIDE2),
    TMK_POINT(1, "144,28,28", "32,144"),
    TMK_POINT(3, "32,28,28", "192,32"),
    TMK_DEPTH(2, "28,28", "192", TMK_PAD1),
    TMK_POINT(2, "192,28,28", "32,192"),
    TMK_DEPTH(1, "28,28", "192", TMK_PAD1 ", " TMK_STRIDE2),
    TMK_POINT(1, "192,14,14", "64,192"),
    TMK_POINT(4, "64,14,14", "384,64"),
    TMK_DEPTH(4, "14,14", "384", TMK_PAD1),
    TMK_POINT(3, "384,14,14", "64,384"),
    TMK_POINT(1, "384,14,14", "96,384"),
    TMK_POINT(3, "96,14,14", "576,96"),
    TMK_DEPTH(2, "14,14", "576", TMK_PAD1),
    TMK_POINT(2, "576,14,14", "96,576"),
    TMK_DEPTH(1, "14,14", "576", TMK_PAD1 ", " TMK_STRIDE2),
    TMK_POINT(1, "576,7,7", "160,576"),
    TMK_POINT(3, "160,7,7", "960,160"),
    TMK_DEPTH(3, "7,7", "960", TMK_PAD1),
    TMK_POINT(2, "960,7,7", "160,960"),
    TMK_POINT(1, "960,7,7", "320,960"),
    TMK_POINT(1, "320,7,7", "1280,320"),
    TMK_NETWORK("some of DenseNet-121"),
    TMK_POINT(1, "64,56,56", "128,64"),
    TMK_POINT(1, "224,56,56", "128,224"),
    TMK_CONV(6, "128,56,56", "32,128,3,3", TMK_PAD1),
    TMK_POOL(1, "128,56,56", "AveragePool", "kernel_shape=[2,2], " TMK_STRIDE2),
    TMK_POINT(1, "480,28,28", "128,480"),
    TMK_CONV(12, "128,28,28", "32,128,3,3", TMK_PAD1),
    TMK_POINT(1, "992,14,14", "128,992"),
    TMK_CONV(24, "128,14,14", "32,128,3,3", TMK_PAD1),
    TMK_POINT(1, "992,7,7", "128,992"),
    TMK_CONV(16, "128,7,7", "32,128,3,3", TMK_PAD1),
    TMK_NETWORK("SqueezeNet 1.1"),
    TMK_CONV(1, "3,224,224", "64,3,3,3", TMK_STRIDE2),
    TMK_POOL(1, "64,111,111", "MaxPool", "kernel_shape=[3,3], " TMK_STRIDE2),
    TMK_POINT(1, "64,55,55", "16,64"),
    TMK_POINT(2, "16,55,55", "64,16"),
    TMK_CONV(2, "16,55,55", "64,16,3,3", TMK_PAD1),
    TMK_POINT(1, "128,55,55", "16,128"),
    TMK_POINT(1, "128,27,27", "32,128"),
    TMK_POINT(2, "32,27,27", "128,32"),
    TMK_CONV(2, "32,27,27", "128,32,3,3", TMK_PAD1),
    TMK_POINT(1, "256,13,13", "48,256"),
    TMK_POINT(2, "48,13,13", "192,48"),
    TMK_CONV(2, "48,13,13", "192,48,3,3", TMK_PAD1),
    TMK_POINT(2, "64,13,13", "256,64"),
    TMK_CONV(2, "64,13,13", "256,64,3,3", TMK_PAD1),
    TMK_POINT(1, "512,13,13", "1000,512"),
    TMK_NETWORK("others"),
    TMK_CONV(1, "128,28,28", "256,4,3,3", "group=32, " TMK_PAD1),
    TMK_CONV(1, "128,28,28", "128,128,3,3", "dilations=[2,2], pads=[2,2,2,2]"),
    TMK_CONV(1, "64,1000", "64,64,5", "pads=[2,2]"),
    TMK_CONV(1, "32,8,28,28", "64,32,3,3,3", "pads=[1,1,1,1,1,1]"),
    {1, "input %x : f32[1,64,28,28]\n input %w : f32[64,32,4,4]\n"
        " %y = ConvTranspose(%x, %w) {" TMK_PAD1 ", " TMK_STRIDE2 "}\n"},
    TMK_POOL(1, "128,35,35", "AveragePool", "kernel_shape=[3,3], " TMK_PAD1),
    {1, "input %x : f32[1,128,768]\n input %w : f32[768,3072]\n %y = MatMul(%x, %w)\n"},
    {1, "input %x : f32[1,12,128,64]\n input %y0 : f32[1,12,64,128]\n %y = MatMul(%x, %y0)\n"},
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void stop(enum tmk_status status, const struct tmk_diag *diag) {
    if (status == TMK_OK)
        return;
    fprintf(stderr, "bench_kernel: %s\n", diag->text);
    exit(1);
}

struct bench {
    const struct tmk_node *node;
    struct tmk_tensor operand[3], result;
    const struct tmk_tensor *in[3];
    struct tmk_accel *accel;
    void *scratch;
};

/* Sums of a network, in milliseconds. */
struct total {
    const char *name;
    double rows, blocks;
};

/* Best time of the parts of a primitive; of everything for TMK_PART_ALL; of the plain kernel for
 * 0. Short runs are timed many at a time. */
static double best_time(struct bench *b, unsigned parts) {
    struct tmk_diag diag = {0};
    double best = 1e9;
    const struct tmk_dn *dn = (const struct tmk_dn *)b->accel;
    void *data[TMK_MAX_ARGUMENTS];
    for (uint32_t i = 0; parts && parts != TMK_PART_ALL && i < dn->n_arguments; i++) {
        int32_t operand = dn->arguments[i].operand;
        data[i] = operand == TMK_RESULT ? b->result.data : b->operand[operand].data;
    }
    for (int i = 0, times = 1; i < (parts ? RUNS : 2); i++) {
        struct tmk_tensor plain;
        double start = now();
        for (int k = 0; k < times; k++)
            if (!parts) {
                stop(tmk_op_run(b->node, b->in, &plain, &diag), &diag);
                tmk_tensor_finish(&plain);
            } else if (parts == TMK_PART_ALL)
                stop(tmk_accel_run(b->accel, b->in, (struct tmk_tensor *[]){&b->result}, b->scratch,
                                   &diag),
                     &diag);
            else
                stop(tmk_dn_execute(dn, data, b->scratch, parts, &diag), &diag);
        double taken = (now() - start) / times;
        best = taken < best ? taken : best;
        if (i == 0 && parts && taken < 1)
            times = 1 + (int)(1 / (taken + 1e-4));
    }
    return best;
}

/* The node's line without its graph: "Conv f32 [1,64,56,56] [64,64,1,1]". */
static void print_label(const struct bench *b) {
    char label[128], shape[64];
    int used = snprintf(label, sizeof label, "%s", b->node->op);
    for (uint32_t i = 0; i < b->node->n_inputs && i < 2; i++)
        used += snprintf(label + used, sizeof label - (size_t)used, " %s",
                         tmk_shape_text(&b->operand[i].shape, shape, sizeof shape));
    printf("%-44s", label);
}

/* Multiplications and additions of a convolution or product; 0 of others. */
static double operations(const struct bench *b) {
    double per_result = 2;
    if (b->node->n_inputs < 2)
        return 0;
    const struct tmk_shape *w = &b->operand[1].shape;
    if (strcmp(b->node->op, "Conv") == 0)
        for (int32_t i = 1; i < w->rank; i++)
            per_result *= (double)w->dim[i];
    else if (strcmp(b->node->op, "MatMul") == 0)
        per_result *= (double)w->dim[w->rank - 2];
    else
        return 0;
    return per_result * (double)tmk_tensor_count(&b->result);
}

static void make_accel(struct bench *b, const struct tmk_tensor *const *in_known,
                       const struct tmk_infer_result *type, struct tmk_accel_layout layout) {
    struct tmk_diag diag = {0};
    tmk_accel_destroy(&b->accel);
    free(b->scratch);
    b->scratch = NULL;
    stop(tmk_accel_create(b->node, in_known, type, layout, NULL, &b->accel, &diag), &diag);
    if (!b->accel)
        return;
    b->scratch = aligned_alloc(64, (tmk_accel_scratch(b->accel) | 63) + 1);
    if (!b->scratch)
        stop(tmk_nomem(&diag), &diag);
}

/* Memory for a tensor of this shape in any layout. */
static void allocate(struct tmk_tensor *out, const struct tmk_shape *shape) {
    enum { WIDEST = 16 };
    struct tmk_diag diag = {0};
    struct tmk_shape filled = *shape;
    if (filled.rank > 2)
        filled.dim[1] = (filled.dim[1] + WIDEST - 1) / WIDEST * WIDEST;
    stop(tmk_tensor_init(out, TMK_FLOAT32, &filled, &diag), &diag);
    out->shape = *shape;
}

static void measure_rows(struct bench *b, const struct tmk_tensor *const *in_known,
                         const struct tmk_infer_result *type, double *taken) {
    make_accel(b, in_known, type, (struct tmk_accel_layout){0, 0});
    if (!b->accel) {
        *taken = best_time(b, 0);
        printf(" %8s %8s %8s %8.4f  %-25s", "", "", "", *taken, "plain");
        return;
    }
    *taken = best_time(b, TMK_PART_ALL);
    printf(" %8.4f %8.4f %8.4f %8.4f  %-25s", best_time(b, TMK_PART_IN),
           best_time(b, TMK_PART_PRIMITIVE), best_time(b, TMK_PART_OUT), *taken,
           tmk_accel_name(b->accel));
}

static void measure(const struct layer *layer, bool plain, struct total *total) {
    struct tmk_diag diag = {0};
    struct tmk_graph *graph;
    struct tmk_infer_result type;
    struct bench b = {0};
    char text[512];
    snprintf(text, sizeof text, "graph \"g\" opset 17 {\n%s output %%y\n}\n", layer->text);
    stop(parse_graph(text, NULL, &graph, &diag), &diag);
    stop(tmk_ops_bind(graph, &diag), &diag);
    b.node = graph->first;
    struct tmk_tensor known[3];
    const struct tmk_tensor *in_known[3];
    for (uint32_t i = 0; i < b.node->n_inputs; i++) {
        const struct tmk_value *value = b.node->inputs[i];
        allocate(&b.operand[i], &value->type.shape);
        float *x = b.operand[i].data;
        for (size_t k = 0; k < tmk_tensor_count(&b.operand[i]); k++)
            x[k] = (float)(k * 2654435761u % 1024) / 1024 - 0.5f;
        b.in[i] = &b.operand[i];
        known[i] = b.operand[i];
        if (strcmp(value->name, "w") != 0 && strcmp(value->name, "b") != 0)
            known[i].data = NULL;
        in_known[i] = &known[i];
    }
    stop(tmk_op_infer(b.node, in_known, &type, &diag), &diag);
    allocate(&b.result, &type.shape);
    print_label(&b);
    printf(" %2dx", layer->count);
    double rows, blocks;
    measure_rows(&b, in_known, &type, &rows);
    struct tmk_accel_layout wanted;
    stop(tmk_accel_preferred_layout(b.node, in_known, &type, tmk_kernel_block(), &wanted, &diag),
         &diag);
    blocks = rows;
    if (wanted.in || wanted.out) {
        make_accel(&b, in_known, &type, wanted);
        blocks = best_time(&b, TMK_PART_ALL);
        printf(" {%2u,%2u} %8.4f %6.1f  %s", wanted.in, wanted.out, blocks,
               operations(&b) / blocks * 1e-6, tmk_accel_name(b.accel));
    } else
        printf(" {%2u,%2u}", 0, 0);
    if (plain)
        printf("  plain %.3f", best_time(&b, 0));
    printf("\n");
    total->rows += rows * layer->count;
    total->blocks += blocks * layer->count;
    tmk_accel_destroy(&b.accel);
    free(b.scratch);
    for (size_t i = 0; i < TMK_COUNT(b.operand); i++)
        tmk_tensor_finish(&b.operand[i]);
    tmk_tensor_finish(&b.result);
    tmk_graph_destroy(&graph);
}

static void print_total(const struct total *total) {
    if (total->name)
        printf("%s: %.2f ms row-major, %.2f ms in blocks\n\n", total->name, total->rows,
               total->blocks);
}

int main(int argc, char **argv) {
    struct total total = {0};
    tmk_kernel_enter_thread();
    printf("%s\n%-44s    %8s %8s %8s %8s  %-25s %7s %8s %6s\n", tmk_kernel_library(), "ms", "in",
           "kernel", "out", "all", "implementation", "layout", "ms", "GF/s");
    for (size_t i = 0; i < TMK_COUNT(layers); i++) {
        if (layers[i].count < 0) {
            print_total(&total);
            total = (struct total){.name = layers[i].text};
        } else
            measure(&layers[i], argc > 1 && strcmp(argv[1], "plain") == 0, &total);
    }
    print_total(&total);
    return 0;
}
