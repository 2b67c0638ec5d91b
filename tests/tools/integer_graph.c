/* SPDX-License-Identifier: Apache-2.0 */
/* The integer form of a model under encodings, as an ONNX file of its own.
 *
 *   integer_graph MODEL ENC.json OUT.onnx [--params FILE] [--pow2]
 *
 * Says for each original which value of the file has its codes: "p12 NAME". */
#include <stdio.h>
#include <string.h>

#include <tidemark/encodings.h>

#include "export/quantized.h"
#include "model/onnx.h"
#include "transform/formats.h"

enum { NEWEST = 21 };

static enum tmk_status load(const char *path, const char *params, struct tmk_graph **out,
                            struct tmk_diag *diag) {
    const struct tmk_model_reader *reader = NULL;
    enum tmk_status status = tmk_model_reader_find(path, &reader, diag);
    return status == TMK_OK ? reader->load(path, params, false, out, diag) : status;
}

static void say(const struct tmk_quantized_graph *quantized) {
    for (uint32_t i = 0; i < quantized->n; i++) {
        const struct tmk_value *codes = quantized->values[i].codes;
        if (codes && codes->kind == TMK_VALUE_RESULT)
            printf("p%u %s\n", quantized->values[i].id, codes->name);
    }
}

/* Nodes are of several versions; the file is of one. */
static enum tmk_status settle_version(struct tmk_graph *graph, struct tmk_diag *diag) {
    int64_t lowest = NEWEST;
    for (const struct tmk_node *node = graph->first; node; node = node->next)
        if (!node->domain[0] && node->version < lowest)
            lowest = node->version;
    enum tmk_status status = tmk_graph_set_opset(graph, "", lowest, diag);
    return status == TMK_OK ? tmk_opset_upgrade(graph, NEWEST, diag) : status;
}

static enum tmk_status write_form(const struct tmk_graph *graph,
                                  const struct tmk_encodings *encodings, bool pow2,
                                  const char *path, struct tmk_diag *diag) {
    const struct tmk_quantize_options options = {
        .integer = true, .rounding = encodings->rounding, .pow2 = pow2 || encodings->pow2_requant};
    struct tmk_quantized_graph quantized = {0};
    enum tmk_status status = tmk_quantize_graph(graph, encodings, &options, &quantized, diag);
    if (status != TMK_OK)
        return status;
    status = settle_version(quantized.graph, diag);
    if (status == TMK_OK)
        status = tmk_onnx_save(quantized.graph, path, diag);
    if (status == TMK_OK)
        say(&quantized);
    tmk_quantized_finish(&quantized);
    return status;
}

int main(int argc, char **argv) {
    struct tmk_diag diag = {0};
    struct tmk_encodings *encodings = NULL;
    struct tmk_graph *graph = NULL;
    const char *params = NULL;
    bool pow2 = false;
    for (int i = 4; i < argc; i++) {
        pow2 |= strcmp(argv[i], "--pow2") == 0;
        if (strcmp(argv[i], "--params") == 0 && i + 1 < argc)
            params = argv[++i];
    }
    if (argc < 4)
        return 2;
    enum tmk_status status = tmk_encodings_read(argv[2], &encodings, &diag);
    if (status == TMK_OK)
        status = load(argv[1], params, &graph, &diag);
    if (status == TMK_OK)
        status = write_form(graph, encodings, pow2, argv[3], &diag);
    if (status != TMK_OK)
        fprintf(stderr, "%s\n", diag.text);
    tmk_graph_destroy(&graph);
    tmk_encodings_destroy(&encodings);
    return status == TMK_OK ? 0 : 1;
}
