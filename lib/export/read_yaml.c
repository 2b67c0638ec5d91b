/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges in YAML, by libyaml: Glow's profile, RKNN's quantization parameters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/diag.h"
#include "base/memory.h"
#include "export/yaml.h"

enum { MOST_NESTED = 64, MOST_LOOKS = 1 << 26 };

static enum tmk_status not_yaml(const yaml_parser_t *parser, struct tmk_diag *diag) {
    if (parser->error == YAML_MEMORY_ERROR)
        return tmk_nomem(diag);
    return tmk_fail(diag, TMK_FORMAT, "line %zu: not YAML: %s", parser->problem_mark.line + 1,
                    parser->problem ? parser->problem : "damaged");
}

/* ---- what the documents of a text will take ---- */

struct scan {
    size_t depth, anchors, tags; /* anchors: and aliases; tags: in bytes */
    size_t bytes;                /* of the documents' trees, at most */
};

static size_t text_length(const yaml_char_t *text) {
    return text ? strlen((const char *)text) : 0;
}

/* One event, looked at before libyaml's tree is built: which takes 300 times as much as the text,
 * compares each anchor with all others, copies tags as often as they are named, and slows down with
 * each level of lists in lists. */
static enum tmk_status look_at(struct scan *s, const yaml_event_t *event, size_t len,
                               struct tmk_diag *diag) {
    /* sizes of libyaml 0.2.5's nodes, lists' first allocations, and heap blocks; lists double */
    enum { NODE = 2 * sizeof(yaml_node_t) + 48, FIRST_LIST = 160, BLOCK = 32, TAG_OF_TEXT = 8 };
    const size_t line = event->start_mark.line + 1;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        s->bytes += NODE + BLOCK + event->data.scalar.length;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        s->depth--;
        break;
    default:
        break;
    }
    if (event->type == YAML_SEQUENCE_START_EVENT || event->type == YAML_MAPPING_START_EVENT) {
        s->bytes += NODE + FIRST_LIST;
        s->depth++;
    }
    s->anchors += anchor || event->type == YAML_ALIAS_EVENT;
    s->tags += text_length(tag);
    s->bytes += text_length(tag) + text_length(anchor);
    if (s->depth > MOST_NESTED)
        return tmk_fail(diag, TMK_FORMAT, "line %zu: lists are nested deeper than %d", line,
                        MOST_NESTED);
    if (s->anchors && s->anchors > MOST_LOOKS / len)
        return tmk_fail(diag, TMK_FORMAT, "line %zu: too many anchors and aliases for %zu bytes",
                        line, len);
    if (s->tags / TAG_OF_TEXT > len)
        return tmk_fail(diag, TMK_FORMAT, "line %zu: its tags are longer than its text", line);
    return TMK_OK;
}

static enum tmk_status scan_text(const char *text, size_t len, size_t *bytes,
                                 struct tmk_diag *diag) {
    struct scan scan = {0};
    yaml_parser_t parser;
    enum tmk_status status = TMK_OK;
    TMK_TRY_ALLOC(yaml_parser_initialize(&parser), diag);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    for (bool more = true; status == TMK_OK && more;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            status = not_yaml(&parser, diag);
            break;
        }
        more = event.type != YAML_STREAM_END_EVENT && event.type != YAML_NO_EVENT;
        status = look_at(&scan, &event, len, diag);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    *bytes = scan.bytes;
    return status;
}

/* ---- a document as a tree ---- */

static yaml_node_t *map_member(yaml_document_t *document, yaml_node_t *map, const char *key) {
    if (!map || map->type != YAML_MAPPING_NODE)
        return NULL;
    for (yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top;
         pair++) {
        yaml_node_t *name = yaml_document_get_node(document, pair->key);
        if (name && name->type == YAML_SCALAR_NODE && name->data.scalar.length == strlen(key) &&
            memcmp(name->data.scalar.value, key, strlen(key)) == 0)
            return yaml_document_get_node(document, pair->value);
    }
    return NULL;
}

static bool number_of(const yaml_node_t *node, double *out) {
    if (!node || node->type != YAML_SCALAR_NODE || !node->data.scalar.length)
        return false;
    char *end;
    *out = strtod((const char *)node->data.scalar.value, &end);
    return end == (const char *)node->data.scalar.value + node->data.scalar.length &&
           isfinite(*out);
}

/* Element i of a list of numbers. */
static bool nth_number(yaml_document_t *document, const yaml_node_t *list, ptrdiff_t i,
                       double *out) {
    return list && list->type == YAML_SEQUENCE_NODE &&
           list->data.sequence.items.start + i < list->data.sequence.items.top &&
           number_of(yaml_document_get_node(document, list->data.sequence.items.start[i]), out);
}

static enum tmk_status bad_at(struct tmk_diag *diag, const yaml_node_t *node, const char *wanted) {
    return tmk_fail(diag, TMK_FORMAT, "line %zu: %s", node->start_mark.line + 1, wanted);
}

typedef enum tmk_status document_fn(yaml_document_t *document, yaml_node_t *root,
                                    struct tmk_ranges *out, struct tmk_diag *diag);

static enum tmk_status each_document(const char *text, size_t len, document_fn *fn,
                                     struct tmk_ranges *out, struct tmk_diag *diag) {
    yaml_parser_t parser;
    yaml_document_t document;
    enum tmk_status status = TMK_OK;
    TMK_TRY_ALLOC(yaml_parser_initialize(&parser), diag);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    for (bool more = true; status == TMK_OK && more;) {
        if (!yaml_parser_load(&parser, &document)) {
            status = not_yaml(&parser, diag);
            break;
        }
        yaml_node_t *root = yaml_document_get_root_node(&document);
        more = root != NULL;
        if (root)
            status = fn(&document, root, out, diag);
        yaml_document_delete(&document);
    }
    yaml_parser_delete(&parser);
    return status;
}

static enum tmk_status read_documents(const char *text, size_t len, document_fn *fn,
                                      struct tmk_ranges *out, struct tmk_diag *diag) {
    size_t bytes;
    TMK_TRY(scan_text(text, len, &bytes, diag));
    if (!tmk_memory_charge(bytes))
        return tmk_memory_fail(diag, bytes, "YAML of %zu bytes as a tree", len);
    enum tmk_status status = each_document(text, len, fn, out, diag);
    tmk_memory_uncharge(bytes);
    if (status == TMK_OK && !out->n)
        status = tmk_fail(diag, TMK_FORMAT, "it has no ranges");
    return status;
}

/* ---- Glow: documents, the last of which is a list ---- */

/* "conv1:0" is result 0 of conv1. */
static size_t node_name(const char *name, size_t len) {
    return len > 2 && memcmp(name + len - 2, ":0", 2) == 0 ? len - 2 : len;
}

static enum tmk_status read_glow_document(yaml_document_t *document, yaml_node_t *root,
                                          struct tmk_ranges *out, struct tmk_diag *diag) {
    if (root->type != YAML_SEQUENCE_NODE)
        return TMK_OK;
    for (yaml_node_item_t *item = root->data.sequence.items.start;
         item < root->data.sequence.items.top; item++) {
        yaml_node_t *entry = yaml_document_get_node(document, *item);
        yaml_node_t *name = map_member(document, entry, "NodeOutputName");
        struct tmk_range *range;
        double low, high;
        if (!name || name->type != YAML_SCALAR_NODE ||
            !number_of(map_member(document, entry, "Min"), &low) ||
            !number_of(map_member(document, entry, "Max"), &high))
            return bad_at(diag, entry, "wants NodeOutputName, Min and Max");
        const char *text = (const char *)name->data.scalar.value;
        TMK_TRY(
            tmk_ranges_add(out, text, node_name(text, name->data.scalar.length), 1, &range, diag));
        TMK_TRY(tmk_range_set(range, 0, low, high, 0, diag));
    }
    return TMK_OK;
}

enum tmk_status tmk_read_glow(const struct tmk_ranges_file *file, struct tmk_ranges *out,
                              struct tmk_diag *diag) {
    return read_documents(file->text, file->len, read_glow_document, out, diag);
}

/* ---- RKNN ---- */

static enum tmk_status read_rknn_tensor(yaml_document_t *document, const yaml_node_t *name,
                                        yaml_node_t *entry, struct tmk_ranges *out,
                                        struct tmk_diag *diag) {
    const yaml_node_t *lows = map_member(document, entry, "min"),
                      *highs = map_member(document, entry, "max");
    struct tmk_range *range;
    if (name->type != YAML_SCALAR_NODE || !lows || lows->type != YAML_SEQUENCE_NODE || !highs)
        return bad_at(diag, name, "wants lists 'min' and 'max'");
    const ptrdiff_t n = lows->data.sequence.items.top - lows->data.sequence.items.start;
    if (!n)
        return TMK_OK;
    TMK_TRY(tmk_ranges_add(out, (const char *)name->data.scalar.value, name->data.scalar.length,
                           (uint32_t)n, &range, diag));
    for (ptrdiff_t c = 0; c < n; c++) {
        double low, high;
        if (!nth_number(document, lows, c, &low) || !nth_number(document, highs, c, &high))
            return bad_at(diag, name, "'min' and 'max' are lists of as many numbers");
        TMK_TRY(tmk_range_set(range, (uint32_t)c, low, high, 0, diag));
    }
    return TMK_OK;
}

static enum tmk_status read_rknn_document(yaml_document_t *document, yaml_node_t *root,
                                          struct tmk_ranges *out, struct tmk_diag *diag) {
    yaml_node_t *tensors = map_member(document, root, "quantize_parameters");
    if (!tensors || tensors->type != YAML_MAPPING_NODE)
        return bad_at(diag, root, "has no mapping 'quantize_parameters'");
    for (yaml_node_pair_t *pair = tensors->data.mapping.pairs.start;
         pair < tensors->data.mapping.pairs.top; pair++)
        TMK_TRY(read_rknn_tensor(document, yaml_document_get_node(document, pair->key),
                                 yaml_document_get_node(document, pair->value), out, diag));
    return TMK_OK;
}

enum tmk_status tmk_read_rknn(const struct tmk_ranges_file *file, struct tmk_ranges *out,
                              struct tmk_diag *diag) {
    return read_documents(file->text, file->len, read_rknn_document, out, diag);
}
