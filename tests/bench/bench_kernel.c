/* SPDX-License-Identifier: Apache-2.0 */
/* What each layer of ResNet-50 (and some of MobileNetV2 and BERT) costs on its accelerated kernel:
 * milliseconds of the reorder in, the primitive, the reorder out, all three, and of the plain
 * kernel with the argument "plain". One thread, best of several runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/size.h"
#include "graph/print.h"
#include "kernel/onednn.h"

enum { RUNS = 15 };

struct layer {
    int count; /* in ResNet-50; 0: not of it */
    const char *text;
};

#define TMK_CONV(count, x, w, attributes)                                                          \
    {                                                                                              \
        count, "input %x : f32[1," x "]\n input %w : f32[" w "]\n %y = Conv(%x, %w) {" attributes  \
               "}\n"                                                                               \
    }
#define TMK_PAD1 "pads=[1,1,1,1]"
#define TMK_STRIDE2 "strides=[2,2]"

static const struct layer layers[] = {
    TMK_CONV(1, "3,224,224", "64,3,7,7", "pads=[3,3,3,3], " TMK_STRIDE2),
    {1, "input %x : f32[1,64,112,112]\n %y = MaxPool(%x) {kernel_shape=[3,3], " TMK_PAD1
        ", " TMK_STRIDE2 "}\n"},
    TMK_CONV(1, "64,56,56", "64,64,1,1", "group=1"),
    TMK_CONV(3, "64,56,56", "64,64,3,3", TMK_PAD1),
    TMK_CONV(4, "64,56,56", "256,64,1,1", "group=1"),
    TMK_CONV(2, "256,56,56", "64,256,1,1", "group=1"),
    TMK_CONV(1, "256,56,56", "128,256,1,1", "group=1"),
    TMK_CONV(1, "128,56,56", "128,128,3,3", TMK_PAD1 ", " TMK_STRIDE2),
    TMK_CONV(4, "128,28,28", "512,128,1,1", "group=1"),
    TMK_CONV(1, "256,56,56", "512,256,1,1", TMK_STRIDE2),
    TMK_CONV(3, "512,28,28", "128,512,1,1", "group=1"),
    TMK_CONV(3, "128,28,28", "128,128,3,3", TMK_PAD1),
    TMK_CONV(1, "512,28,28", "256,512,1,1", "group=1"),
    TMK_CONV(1, "256,28,28", "256,256,3,3", TMK_PAD1 ", " TMK_STRIDE2),
    TMK_CONV(6, "256,14,14", "1024,256,1,1", "group=1"),
    TMK_CONV(1, "512,28,28", "1024,512,1,1", TMK_STRIDE2),
    TMK_CONV(5, "1024,14,14", "256,1024,1,1", "group=1"),
    TMK_CONV(5, "256,14,14", "256,256,3,3", TMK_PAD1),
    TMK_CONV(1, "1024,14,14", "512,1024,1,1", "group=1"),
    TMK_CONV(1, "512,14,14", "512,512,3,3", TMK_PAD1 ", " TMK_STRIDE2),
    TMK_CONV(3, "512,7,7", "2048,512,1,1", "group=1"),
    TMK_CONV(1, "1024,14,14", "2048,1024,1,1", TMK_STRIDE2),
    TMK_CONV(2, "2048,7,7", "512,2048,1,1", "group=1"),
    TMK_CONV(2, "512,7,7", "512,512,3,3", TMK_PAD1),
    {1, "input %x : f32[1,2048,7,7]\n %y = GlobalAveragePool(%x)\n"},
    {1, "input %x : f32[1,2048]\n input %w : f32[1000,2048]\n input %b : f32[1000]\n"
        " %y = Gemm(%x, %w, %b) {transB=1}\n"},
    TMK_CONV(0, "32,112,112", "32,1,3,3", "group=32, " TMK_PAD1),
    TMK_CONV(0, "96,112,112", "96,1,3,3", "group=96, " TMK_PAD1 ", " TMK_STRIDE2),
    TMK_CONV(0, "16,112,112", "96,16,1,1", "group=1"),
    TMK_CONV(0, "960,7,7", "960,1,3,3", "group=960, " TMK_PAD1),
    {0, "input %x : f32[1,64,28,28]\n input %w : f32[64,32,4,4]\n"
        " %y = ConvTranspose(%x, %w) {" TMK_PAD1 ", " TMK_STRIDE2 "}\n"},
    {0, "input %x : f32[1,128,35,35]\n %y = AveragePool(%x) {kernel_shape=[3,3], " TMK_PAD1 "}\n"},
    {0, "input %x : f32[1,128,768]\n input %w : f32[768,3072]\n %y = MatMul(%x, %w)\n"},
    {0, "input %x : f32[1,12,128,64]\n input %y0 : f32[1,12,64,128]\n %y = MatMul(%x, %y0)\n"},
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
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
    struct tmk_tensor operand[3], result, plain;
    const struct tmk_tensor *in[3];
    struct tmk_accel *accel;
    void *scratch;
};

/* Best time of the parts; of everything, Gemm's and MatMul's loops too, for TMK_PART_ALL; of the
 * plain kernel for 0. */
static double best_time(struct bench *b, unsigned parts) {
    struct tmk_diag diag = {0};
    double best = 1e9;
    void *data[TMK_MAX_ARGUMENTS];
    for (uint32_t i = 0; b->accel && i < b->accel->n_arguments; i++) {
        int32_t operand = b->accel->arguments[i].operand;
        data[i] = operand == TMK_RESULT ? b->result.data : b->operand[operand].data;
    }
    for (int i = 0; i < (parts ? RUNS : 2); i++) {
        double start = now();
        if (!parts) {
            stop(tmk_op_run(b->node, b->in, &b->plain, &diag), &diag);
            tmk_tensor_finish(&b->plain);
        } else if (parts == TMK_PART_ALL)
            stop(tmk_accel_run(b->accel, b->in, (struct tmk_tensor *[]){&b->result}, b->scratch,
                               &diag),
                 &diag);
        else
            stop(tmk_accel_execute(b->accel, data, b->scratch, parts, &diag), &diag);
        double taken = now() - start;
        best = taken < best ? taken : best;
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

/* Adds count times the layer's time to *total. */
static void measure(const struct layer *layer, bool plain, double *total) {
    struct tmk_diag diag = {0};
    struct tmk_graph *graph;
    struct tmk_infer_result type;
    struct bench b = {0};
    char text[512];
    snprintf(text, sizeof text, "graph \"g\" opset 17 {\n%s output %%y\n}\n", layer->text);
    stop(tmk_graph_parse(text, NULL, &graph, &diag), &diag);
    stop(tmk_ops_bind(graph, &diag), &diag);
    b.node = graph->first;
    struct tmk_tensor known[3];
    const struct tmk_tensor *in_known[3];
    for (uint32_t i = 0; i < b.node->n_inputs; i++) {
        const struct tmk_value *value = b.node->inputs[i];
        stop(tmk_tensor_init(&b.operand[i], TMK_FLOAT32, &value->type.shape, &diag), &diag);
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
    stop(tmk_tensor_init(&b.result, type.dtype, &type.shape, &diag), &diag);
    double start = now();
    stop(tmk_accel_create(b.node, in_known, &type, &b.accel, &diag), &diag);
    double making = now() - start, all = 0;
    print_label(&b);
    if (b.accel) {
        b.scratch = aligned_alloc(64, (tmk_accel_scratch(b.accel) | 63) + 1);
        if (!b.scratch)
            stop(tmk_nomem(&diag), &diag);
        all = best_time(&b, TMK_PART_ALL);
        printf(" %dx %8.3f %8.3f %8.3f %8.3f  %8.3f  %-32s %7zu", layer->count,
               best_time(&b, TMK_PART_IN), best_time(&b, TMK_PART_PRIMITIVE),
               best_time(&b, TMK_PART_OUT), all, making, tmk_accel_name(b.accel),
               tmk_accel_scratch(b.accel) / 1024);
    }
    if (plain || !b.accel) {
        double time = best_time(&b, 0);
        printf("  plain %.3f", time);
        all = b.accel ? all : time;
    }
    printf("\n");
    *total += all * layer->count;
    tmk_accel_destroy(&b.accel);
    free(b.scratch);
    for (size_t i = 0; i < TMK_COUNT(b.operand); i++)
        tmk_tensor_finish(&b.operand[i]);
    tmk_tensor_finish(&b.result);
    tmk_graph_destroy(&graph);
}

int main(int argc, char **argv) {
    double total = 0;
    tmk_kernel_enter_thread();
    printf("%s\n%-44s    %8s %8s %8s %8s  %8s  %-32s %7s\n", tmk_kernel_library(), "ms", "in",
           "kernel", "out", "all", "making", "implementation", "KiB");
    for (size_t i = 0; i < TMK_COUNT(layers); i++)
        measure(&layers[i], argc > 1 && strcmp(argv[1], "plain") == 0, &total);
    printf("ResNet-50's convolutions, pools and product: %.1f ms\n", total);
    return 0;
}
