/* SPDX-License-Identifier: Apache-2.0 */
/* qdq: an ONNX model with QuantizeLinear and DequantizeLinear (docs/export-qdq.md). */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "export/exporter.h"
#include "export/quantized.h"
#include "model/onnx.h"

/* Scales by channel came with operator set 13, codes of 16 and 4 bits, scales by block with 21. */
enum { BY_CHANNEL = 13, WIDE_AND_NARROW = 21 };

static bool has_blocks(const struct tmk_encodings *encodings) {
    for (uint32_t i = 0; i < encodings->n_items; i++)
        if (encodings->items[i].block)
            return true;
    return false;
}

static bool has_width(const struct tmk_encodings *encodings, bool sixteen) {
    for (uint32_t i = 0; i < encodings->n_items; i++)
        if (tmk_dtype_bits(encodings->items[i].dtype) == (sixteen ? 16 : 4))
            return true;
    return false;
}

static enum tmk_status find_domain(const struct tmk_export_job *job, bool *microsoft,
                                   struct tmk_diag *diag) {
    const char *domain = tmk_export_setting(job, "domain", "onnx");
    *microsoft = strcmp(domain, "com.microsoft") == 0;
    if (!*microsoft && strcmp(domain, "onnx") != 0)
        return tmk_fail(diag, TMK_ARGUMENT, "domain=%s: it is onnx or com.microsoft", domain);
    return TMK_OK;
}

static enum tmk_status find_opset(const struct tmk_export_job *job, bool microsoft, int64_t *out,
                                  struct tmk_diag *diag) {
    const int64_t has = tmk_graph_opset(job->graph, TMK_DOMAIN_ONNX);
    const bool blocks = has_blocks(job->encodings);
    const bool wide = has_width(job->encodings, true) || has_width(job->encodings, false) || blocks;
    const int64_t min = wide && !microsoft ? WIDE_AND_NARROW : BY_CHANNEL;
    const char *asked = tmk_export_setting(job, "opset", NULL);
    char *end = NULL;
    if (blocks && microsoft)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "domain=com.microsoft: its DequantizeLinear has no scales by block");
    *out = has > min ? has : min;
    if (!asked)
        return TMK_OK;
    const long number = strtol(asked, &end, 10);
    if (!*asked || *end || number < 1 || number > TMK_ONNX_NEWEST)
        return tmk_fail(diag, TMK_ARGUMENT, "opset=%s: it is a number up to %d", asked,
                        TMK_ONNX_NEWEST);
    if (number < *out)
        return tmk_fail(
            diag, TMK_ARGUMENT, "opset=%ld: the model is of %lld, and these encodings need %lld%s",
            number, (long long)has, (long long)min,
            wide && !microsoft ? " (or domain=com.microsoft, for ONNX Runtime alone)" : "");
    *out = number;
    return TMK_OK;
}

/* The parts of the job that speak to people, for tmk_quantize_graph. */
static void pass_report(void *context, const struct tmk_encoding *encoding, const char *why) {
    if (why)
        tmk_export_skip(context, encoding, why);
    else
        tmk_export_wrote(context, encoding);
}

static void pass_remark(void *context, const char *text) {
    tmk_export_remark(context, "%s", text);
}

/* Of an int8 initializer that must become uint8 there, whose sums of products could overflow. */
static bool is_beyond_seven_bits(const struct tmk_tensor *codes) {
    const int8_t *code = codes->data;
    for (size_t i = 0; i < tmk_tensor_count(codes); i++)
        if (code[i] < -64 || code[i] > 64)
            return true;
    return false;
}

/* ONNX Runtime's option against that overflow makes a copy for each reader, under one name. */
static void remark_on_precision(const struct tmk_export_job *job, const struct tmk_graph *made) {
    const char *first = NULL;
    uint32_t n = 0;
    for (const struct tmk_node *node = made->first; node; node = node->next) {
        const struct tmk_value *codes = tmk_node_input(node, 0);
        if (strcmp(node->op, "DequantizeLinear") != 0 || !codes ||
            codes->kind != TMK_VALUE_INITIALIZER || codes->data.dtype != TMK_INT8 ||
            node->outputs[0]->n_uses + node->outputs[0]->n_graph_outputs < 2 ||
            !is_beyond_seven_bits(&codes->data))
            continue;
        first = n++ ? first : codes->name;
    }
    if (n)
        tmk_export_remark(job,
                          "session.x64quantprecision=1 keeps optimised ONNX Runtime from loading "
                          "this model: %u int8 initializers with codes beyond -64 ... 64 have "
                          "several readers ('%s' is the first); load it without that option",
                          n, first);
}

static void remark_on_consumers(const struct tmk_export_job *job, int64_t from, int64_t to) {
    if (from < to)
        tmk_export_remark(job, "the model became one of operator set %lld; it was of %lld",
                          (long long)to, (long long)from);
    if (has_width(job->encodings, true))
        tmk_export_remark(job, "OpenVINO (2026.4) reads 16-bit QuantizeLinear wrongly; ONNX "
                               "Runtime, QNN and TVM read it as it is meant");
}

/* Encodings of types that the format does not have are an error where there are no others. Where
 * only no operator takes them, ONNX Runtime's quantizer gives the float model, and so does this. */
static enum tmk_status check_written(const struct tmk_export_job *job, struct tmk_diag *diag) {
    const uint32_t n = job->encodings->n_items;
    for (uint32_t i = 0; i < n; i++)
        if (tmk_export_is_written(job, &job->encodings->items[i]))
            return TMK_OK;
    if (n < job->given->n_items)
        return tmk_export_ready(job, diag);
    if (n)
        tmk_export_remark(job, "no operator that ONNX Runtime quantizes has an encoding: the model "
                               "is the float one, as quantize_static's is then");
    return TMK_OK;
}

static enum tmk_status write_upgraded(const struct tmk_export_job *job, struct tmk_graph *graph,
                                      bool microsoft, struct tmk_diag *diag) {
    const struct tmk_quantize_options options = {.microsoft = microsoft,
                                                 .report = pass_report,
                                                 .remark = pass_remark,
                                                 .context = (void *)(uintptr_t)job};
    struct tmk_quantized_graph made = {0};
    TMK_TRY(tmk_quantize_graph(graph, job->encodings, &options, &made, diag));
    enum tmk_status status = check_written(job, diag);
    TMK_THEN(status, tmk_onnx_save(made.graph, job->path, diag));
    if (status == TMK_OK)
        remark_on_precision(job, made.graph);
    tmk_quantized_finish(&made);
    return status;
}

static enum tmk_status write_qdq(const struct tmk_export_job *job, struct tmk_diag *diag) {
    struct tmk_graph *graph = NULL;
    bool microsoft = false;
    int64_t opset = 0;
    TMK_TRY(find_domain(job, &microsoft, diag));
    TMK_TRY(find_opset(job, microsoft, &opset, diag));
    TMK_TRY(tmk_graph_clone(job->graph, &graph, diag));
    enum tmk_status status = tmk_opset_upgrade(graph, opset, diag);
    TMK_THEN(status, write_upgraded(job, graph, microsoft, diag));
    if (status == TMK_OK)
        remark_on_consumers(job, tmk_graph_opset(job->graph, TMK_DOMAIN_ONNX), opset);
    tmk_graph_destroy(&graph);
    return status;
}

const struct tmk_exporter tmk_exporter_qdq = {
    .name = "qdq",
    .endings = "onnx",
    .writes_model = true,
    .consumer = "ONNX Runtime, QNN, OpenVINO, TensorRT and TVM: QuantizeLinear and "
                "DequantizeLinear, as quantize_static places them",
    .settings = "opset=13|21|... domain=onnx|com.microsoft activations=tensor|channel",
    .needs_graph = true,
    .limits = {.activations = TMK_EXPORT_INTEGERS,
               .weights = TMK_EXPORT_INTEGERS,
               .blocks = true,
               .one_scale = true},
    .write = write_qdq,
};
