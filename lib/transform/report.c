/* SPDX-License-Identifier: Apache-2.0 */
/* The report's page, with the attributes of a model's nodes. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/text.h"
#include "export/report.h"
#include "transform/model.h"

enum { MOST_ELEMENTS = 16 };

static void put_element(const struct tmk_attr *a, size_t i, struct tmk_text *out) {
    char digits[32];
    if (a->kind == TMK_ATTR_INTS)
        tmk_text_printf(out, "%s%" PRId64, i ? ", " : "", a->ints[i]);
    else if (a->kind == TMK_ATTR_STRINGS)
        tmk_text_printf(out, "%s%s", i ? ", " : "", a->strings[i]);
    else {
        tmk_format_float(a->floats[i], digits);
        tmk_text_printf(out, "%s%s", i ? ", " : "", digits);
    }
}

static void put_attribute(const struct tmk_attr *a, struct tmk_text *out) {
    char text[128];
    tmk_text_printf(out, "%s%s = ", out->len ? "\n" : "", a->name);
    switch (a->kind) {
    case TMK_ATTR_INT:
        tmk_text_printf(out, "%" PRId64, a->i);
        break;
    case TMK_ATTR_FLOAT:
        tmk_format_float(a->f, text);
        tmk_text_puts(out, text);
        break;
    case TMK_ATTR_STRING:
        tmk_text_puts(out, a->s);
        break;
    case TMK_ATTR_TENSOR:
        tmk_text_printf(out, "%s %s", tmk_dtype_name(a->tensors->dtype),
                        tmk_shape_text(&a->tensors->shape, text, sizeof text));
        break;
    case TMK_ATTR_INTS:
    case TMK_ATTR_FLOATS:
    case TMK_ATTR_STRINGS:
        for (size_t i = 0; i < a->n && i < MOST_ELEMENTS; i++)
            put_element(a, i, out);
        if (a->n > MOST_ELEMENTS)
            tmk_text_printf(out, ", ... (%zu)", a->n);
        break;
    default:
        tmk_text_puts(out, a->kind == TMK_ATTR_TYPE ? "a type" : "graphs or tensors");
    }
}

struct listing {
    const struct tmk_profile *profile;
    struct tmk_arena arena;  /* of the texts */
    const char **attributes; /* [n_tensors] */
    bool failed;             /* out of memory */
};

static void list_attributes(struct listing *l, const struct tmk_graph *graph) {
    for (const struct tmk_node *node = graph->first; node; node = node->next) {
        struct tmk_text text = {0};
        for (uint32_t i = 0; i < node->n_attrs; i++)
            put_attribute(&node->attrs[i], &text);
        const char *copy = text.len ? tmk_arena_strdup(&l->arena, text.data) : NULL;
        l->failed = l->failed || text.failed || (text.len && !copy);
        tmk_text_finish(&text);
        for (uint32_t i = 0; i < node->n_outputs; i++) {
            const struct tmk_profile_tensor *t =
                node->outputs[i] && node->outputs[i]->profile_id >= 0
                    ? tmk_profile_by_id(l->profile, (uint32_t)node->outputs[i]->profile_id)
                    : NULL;
            if (t)
                l->attributes[t - l->profile->tensors] = copy;
        }
    }
}

static enum tmk_status write_with_model(const struct tmk_profile *profile,
                                        const struct tmk_report_options *options, const char *path,
                                        struct tmk_diag *diag) {
    const struct tmk_graph *graph = options->model->graph;
    if (tmk_graph_fingerprint(graph) != profile->model.fingerprint)
        return tmk_fail(diag, TMK_MISMATCH, "the profile is of another model ('%s') than '%s'",
                        profile->model.file, options->model->path);
    struct listing list = {.profile = profile};
    list.attributes = calloc(profile->n_tensors + (size_t)1, sizeof *list.attributes);
    TMK_TRY_ALLOC(list.attributes, diag);
    for (const struct tmk_graph *g = graph; g; g = tmk_graph_next(graph, g))
        list_attributes(&list, g);
    enum tmk_status status = list.failed
                                 ? tmk_nomem(diag)
                                 : tmk_report_page(profile, options, list.attributes, path, diag);
    free(list.attributes);
    tmk_arena_finish(&list.arena);
    return status;
}

enum tmk_status tmk_report_write(const struct tmk_profile *profile,
                                 const struct tmk_report_options *options, const char *path,
                                 struct tmk_diag *diag) {
    return options->model ? write_with_model(profile, options, path, diag)
                          : tmk_report_page(profile, options, NULL, path, diag);
}
