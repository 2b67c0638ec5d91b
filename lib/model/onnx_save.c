/* SPDX-License-Identifier: Apache-2.0 */
/* Messages become bytes: in memory, or in a file with the large weights next to it. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "model/onnx.h"
#include "model/onnx_export.h"

enum { WEIGHTS_LIMIT = 2000000000 }; /* of a file without external data */
enum { SMALL = 1024 };               /* such tensors stay in the model in any case */
enum { EXTERNAL_ALIGN = 4096 };      /* so that a page of the file is one of a mapping */

/* Where protobuf-c's pieces go: whatever takes bytes. */
struct sink {
    ProtobufCBuffer base; /* first: protobuf-c hands it back */
    struct tmk_text *text;
    struct tmk_outfile *file;
    struct tmk_diag *diag;
    enum tmk_status status;
    size_t used;
    uint8_t block[1 << 14];
};

static void flush_block(struct sink *sink) {
    if (sink->used && sink->status == TMK_OK)
        sink->status = tmk_outfile_write(sink->file, sink->block, sink->used, sink->diag);
    sink->used = 0;
}

static void append_to_file(ProtobufCBuffer *buffer, size_t len, const uint8_t *bytes) {
    struct sink *sink = (struct sink *)buffer;
    if (len > sizeof sink->block - sink->used)
        flush_block(sink);
    if (len > sizeof sink->block) {
        if (sink->status == TMK_OK)
            sink->status = tmk_outfile_write(sink->file, bytes, len, sink->diag);
    } else if (len) {
        memcpy(sink->block + sink->used, bytes, len);
        sink->used += len;
    }
}

static void append_to_text(ProtobufCBuffer *buffer, size_t len, const uint8_t *bytes) {
    tmk_text_append(((struct sink *)buffer)->text, (const char *)bytes, len);
}

static enum tmk_status check_size(const TmkPb__Model *model, struct tmk_diag *diag) {
    size_t size = tmk_pb__model__get_packed_size(model);
    if (size > INT32_MAX)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "the model takes %zu bytes without external data; an ONNX file ends at "
                        "2 GiB",
                        size);
    return TMK_OK;
}

enum tmk_status tmk_onnx_encode(const struct tmk_graph *graph, struct tmk_text *out,
                                struct tmk_diag *diag) {
    struct tmk_onnx_writer w = {.diag = diag};
    struct sink sink = {.base.append = append_to_text, .text = out};
    TmkPb__Model *model = NULL;
    enum tmk_status status = tmk_onnx_write_model(&w, graph, &model);
    if (status == TMK_OK)
        status = check_size(model, diag);
    if (status == TMK_OK) {
        tmk_pb__model__pack_to_buffer(model, &sink.base);
        status = out->failed ? tmk_nomem(diag) : TMK_OK;
    }
    tmk_onnx_writer_finish(&w);
    return status;
}

static size_t weight_bytes(const struct tmk_onnx_writer *w) {
    size_t total = 0;
    for (size_t i = 0; i < w->n_initializers; i++)
        if (!tmk_add_size(total, w->initializers[i]->raw_data.len, &total))
            return SIZE_MAX;
    return total;
}

static enum tmk_status add_entry(struct tmk_onnx_writer *w, TmkPb__Tensor *tensor, const char *key,
                                 const char *value) {
    TmkPb__Entry *entry = tmk_onnx_make(w, &tmk_pb__entry__descriptor);
    char *copy = tmk_arena_strdup(&w->arena, value);
    if (!entry || !copy)
        return tmk_nomem(w->diag);
    entry->key = (char *)(uintptr_t)key;
    entry->value = copy;
    tensor->external_data[tensor->n_external_data++] = entry;
    return TMK_OK;
}

static enum tmk_status move_out(struct tmk_onnx_writer *w, TmkPb__Tensor *tensor,
                                const char *location, size_t *at, struct tmk_outfile *out) {
    static const uint8_t zeros[EXTERNAL_ALIGN];
    size_t padding = (EXTERNAL_ALIGN - *at % EXTERNAL_ALIGN) % EXTERNAL_ALIGN, n = 3;
    char offset[24], length[24];
    TMK_TRY(tmk_outfile_write(out, zeros, padding, w->diag));
    TMK_TRY(tmk_outfile_write(out, tensor->raw_data.data, tensor->raw_data.len, w->diag));
    snprintf(offset, sizeof offset, "%zu", *at + padding);
    snprintf(length, sizeof length, "%zu", tensor->raw_data.len);
    *at += padding + tensor->raw_data.len;
    tensor->external_data = tmk_arena_array(&w->arena, n, sizeof *tensor->external_data);
    if (!tensor->external_data)
        return tmk_nomem(w->diag);
    TMK_TRY(add_entry(w, tensor, "location", location));
    TMK_TRY(add_entry(w, tensor, "offset", offset));
    TMK_TRY(add_entry(w, tensor, "length", length));
    tensor->has_data_location = true;
    tensor->data_location = TMK_ONNX_EXTERNAL;
    tensor->has_raw_data = false;
    return TMK_OK;
}

static enum tmk_status move_weights_out(struct tmk_onnx_writer *w, const char *data_path,
                                        struct tmk_outfile *out) {
    const char *slash = strrchr(data_path, '/');
    size_t at = 0;
    for (size_t i = 0; i < w->n_initializers; i++)
        if (w->initializers[i]->raw_data.len >= SMALL)
            TMK_TRY(move_out(w, w->initializers[i], slash ? slash + 1 : data_path, &at, out));
    return TMK_OK;
}

static enum tmk_status write_file(const TmkPb__Model *model, struct tmk_outfile *out,
                                  struct tmk_diag *diag) {
    struct sink sink = {.base.append = append_to_file, .file = out, .diag = diag};
    TMK_TRY(check_size(model, diag));
    tmk_pb__model__pack_to_buffer(model, &sink.base);
    flush_block(&sink);
    return sink.status;
}

static enum tmk_status save_model(const struct tmk_graph *graph, const char *path, size_t limit,
                                  bool as_declared, struct tmk_diag *diag) {
    struct tmk_onnx_writer w = {.as_declared = as_declared, .diag = diag};
    struct tmk_outfile files[2] = {{0}}, *out = &files[0], *data = &files[1];
    struct tmk_text data_path = {0};
    TmkPb__Model *model = NULL;
    enum tmk_status status = tmk_onnx_write_model(&w, graph, &model);
    if (status == TMK_OK)
        status = tmk_outfile_begin(path, out, diag);
    if (status == TMK_OK && weight_bytes(&w) > limit) {
        tmk_text_printf(&data_path, "%s.data", path);
        status = data_path.failed ? tmk_nomem(diag) : tmk_outfile_begin(data_path.data, data, diag);
        if (status == TMK_OK)
            status = move_weights_out(&w, data_path.data, data);
    }
    if (status == TMK_OK)
        status = write_file(model, out, diag);
    if (status == TMK_OK)
        status = tmk_outfiles_commit(files, data_path.data ? 2 : 1, diag);
    tmk_outfile_abort(out);
    tmk_outfile_abort(data);
    tmk_text_finish(&data_path);
    tmk_onnx_writer_finish(&w);
    return status;
}

enum tmk_status tmk_onnx_save_split(const struct tmk_graph *graph, const char *path, size_t limit,
                                    struct tmk_diag *diag) {
    return save_model(graph, path, limit, false, diag);
}

enum tmk_status tmk_onnx_save_as_declared(const struct tmk_graph *graph, const char *path,
                                          struct tmk_diag *diag) {
    return save_model(graph, path, WEIGHTS_LIMIT, true, diag);
}

enum tmk_status tmk_onnx_save(const struct tmk_graph *graph, const char *path,
                              struct tmk_diag *diag) {
    return tmk_onnx_save_split(graph, path, WEIGHTS_LIMIT, diag);
}
