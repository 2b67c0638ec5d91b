/* SPDX-License-Identifier: Apache-2.0 */
/* Random graphs as ONNX models, for other runtimes to run.
 *
 *     graph_to_onnx FIRST COUNT FOLDER
 *
 * For each seed FOLDER/SEED.onnx and, read back from that file and run, SEED.npz with every tensor
 * of the first batch by name: inputs and results, those in nodes' graphs left out. With FOLDER "-"
 * the graphs are printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/npz_write.h"
#include "exec/worker.h"
#include "graph_bytes.h"
#include "graph_maker.h"
#include "graph_text/read.h"
#include "model/onnx.h"

enum { MOST_ENTRIES = 256 };

static enum tmk_status read_back(const struct made_graph *made, const char *path,
                                 struct tmk_diag *diag) {
    struct tmk_graph *graph = NULL;
    enum tmk_status status = parse_graph(made->text.data, &made->pool, &graph, diag);
    if (status == TMK_OK)
        status = tmk_ops_bind(graph, diag);
    if (status == TMK_OK)
        status = tmk_onnx_save(graph, path, diag);
    tmk_graph_destroy(&graph);
    return status;
}

static enum tmk_status run(struct tmk_graph *graph, const struct tmk_tensor *inputs,
                           const char *path, struct tmk_diag *diag) {
    struct tmk_plan *plan = NULL;
    struct tmk_worker *worker = NULL;
    struct tmk_tensor tensors[MOST_ENTRIES];
    struct tmk_npz_entry entries[MOST_ENTRIES];
    size_t n = 0;
    enum tmk_status status = TMK_OK;
    for (const struct tmk_node *node = graph->first; node && status == TMK_OK; node = node->next)
        for (uint32_t i = 0; i < node->n_outputs && status == TMK_OK; i++)
            if (node->outputs[i] && !node->outputs[i]->n_graph_outputs)
                status = tmk_graph_add_output(graph, node->outputs[i], diag);
    tmk_graph_number(graph);
    if (status == TMK_OK)
        status = tmk_plan_create(graph, inputs, NULL, &plan, diag);
    if (status == TMK_OK)
        status = tmk_worker_create(&worker, diag);
    if (status == TMK_OK)
        status = tmk_worker_run(worker, plan, inputs, NULL, diag);
    for (uint32_t i = 0;
         status == TMK_OK && i < graph->n_inputs + graph->n_outputs && n < MOST_ENTRIES; i++) {
        const struct tmk_value *value =
            i < graph->n_inputs ? graph->inputs[i] : graph->outputs[i - graph->n_inputs];
        bool again = false;
        for (size_t k = 0; k < n; k++)
            again |= strcmp(entries[k].name, value->name) == 0;
        tensors[n] = tmk_worker_value(worker, value);
        if (again || tensors[n].kind != TMK_TYPE_TENSOR || tmk_dtype_size(tensors[n].dtype) == 0 ||
            tensors[n].dtype >= TMK_FLOAT8E4M3FN)
            continue;
        entries[n] = (struct tmk_npz_entry){value->name, &tensors[n]};
        n++;
    }
    if (status == TMK_OK)
        status = tmk_npz_write(path, entries, n, diag);
    tmk_worker_destroy(&worker);
    tmk_plan_destroy(&plan);
    return status;
}

static void one(uint64_t seed, const char *folder) {
    uint8_t bytes[MOST_GRAPH_BYTES];
    char model[4096], arrays[4096];
    struct made_graph made;
    struct tmk_graph *graph = NULL;
    struct tmk_tensor inputs[MOST_MADE_INPUTS];
    struct tmk_diag diag = {0};
    graph_make(bytes, graph_bytes(seed, bytes), &made);
    if (strcmp(folder, "-") == 0) {
        printf("%s", made.text.data);
        made_graph_finish(&made);
        return;
    }
    snprintf(model, sizeof model, "%s/%llu.onnx", folder, (unsigned long long)seed);
    snprintf(arrays, sizeof arrays, "%s/%llu.npz", folder, (unsigned long long)seed);
    made_inputs(&made, 0, inputs);
    enum tmk_status status = read_back(&made, model, &diag);
    if (status == TMK_OK)
        status = tmk_onnx_load(model, NULL, &graph, &diag);
    if (status == TMK_OK)
        status = run(graph, inputs, arrays, &diag);
    if (status != TMK_OK)
        printf("%llu: %s\n", (unsigned long long)seed, diag.text);
    for (uint32_t i = 0; i < made.n_inputs; i++)
        tmk_tensor_finish(&inputs[i]);
    tmk_graph_destroy(&graph);
    made_graph_finish(&made);
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: graph_to_onnx FIRST COUNT FOLDER\n");
        return 2;
    }
    const uint64_t first = strtoull(argv[1], NULL, 10), n = strtoull(argv[2], NULL, 10);
    tmk_kernel_enter_thread();
    for (uint64_t seed = first; seed < first + n; seed++)
        one(seed, argv[3]);
    return 0;
}
