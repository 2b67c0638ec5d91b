/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of a lineage. */
#include <assert.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/text.h"
#include "profile/lineage_format.h"

/* ---- what a value is ---- */

static void put_shape(struct tmk_json_out *to, const char *key, const void *record) {
    const struct tmk_lineage_identity *is = record;
    if (is->has_shape)
        tmk_profile_put_dims(to, key, &is->shape, NULL);
    else
        tmk_json_put(to, key, cJSON_CreateNull());
}

static enum tmk_status get_shape(struct tmk_field_reader *r, const cJSON *item, void *record) {
    struct tmk_lineage_identity *is = record;
    is->has_shape = !cJSON_IsNull(item);
    return is->has_shape ? tmk_profile_get_dims(r, item, true, &is->shape, NULL) : TMK_OK;
}

static const struct tmk_field_codec shape = {put_shape, get_shape};

#define RECORD tmk_lineage_identity
static const struct tmk_field identity_table[] = {
    TMK_FIELD_WHOLE("id", INDEX, ),
    TMK_FIELD("name", TEXT, name),
    TMK_FIELD("path", TEXT, path, .flags = TMK_FIELD_OPTIONAL | TMK_FIELD_OMIT),
    TMK_FIELD("fingerprint", HEX, fingerprint, TMK_COLUMN("", "hash of how it is computed")),
    TMK_FIELD("content", HEX, content, TMK_COLUMN("", "the same, with the bytes of the weights")),
    TMK_FIELD("ordinal", U32, ordinal,
              TMK_COLUMN("", "position among the values of equal fingerprint")),
    TMK_COLUMN_ONLY("name", TEXT, name, "", "name in the model"),
    TMK_COLUMN_ONLY("path", TEXT, path, "", "sub-graph that holds it; empty: the main graph"),
    TMK_FIELD("kind", NAME, kind, .of = &tmk_profile_kinds,
              TMK_COLUMN("", "input, weight, activation or output")),
    TMK_FIELD("dtype", DTYPE, dtype, TMK_COLUMN("", "element type")),
    TMK_FIELD("shape", CODEC, shape, .of = &shape,
              TMK_COLUMN("", "JSON; null: a free dimension, or no shape is known")),
};
#undef RECORD
static const struct tmk_fields identity_fields = TMK_FIELDS(identity_table, );

/* The identity is the first member of both. */
static_assert(offsetof(struct tmk_lineage_original, is) == 0, "its fields come first");
static_assert(offsetof(struct tmk_lineage_value, is) == 0, "its fields come first");

/* ---- an original's relation to its value ---- */

static bool has_no_view(const void *record) {
    return !tmk_lineage_is_view(&((const struct tmk_lineage_original *)record)->view);
}

static void put_view(struct tmk_json_out *to, const char *key, const void *record) {
    const struct tmk_lineage_view *view = &((const struct tmk_lineage_original *)record)->view;
    if (view->reshaped)
        tmk_json_put_text(to, key, "reshaped");
    else
        tmk_json_put(to, key,
                     view->rank ? cJSON_CreateIntArray(view->perm, view->rank)
                                : cJSON_CreateNull());
}

static enum tmk_status get_view(struct tmk_field_reader *r, const cJSON *item, void *record) {
    struct tmk_lineage_view got = {0};
    const cJSON *axis;
    if (cJSON_IsString(item) && strcmp(item->valuestring, "reshaped") == 0)
        got.reshaped = true;
    else if (!cJSON_IsNull(item) && !(cJSON_IsArray(item) && item->child))
        return tmk_fail(r->diag, TMK_FORMAT, "neither null, \"reshaped\" nor a permutation");
    cJSON_ArrayForEach(axis, item) {
        int64_t number;
        if (got.rank == TMK_MAX_RANK || !cJSON_IsNumber(axis) || !tmk_json_as_i64(axis, &number) ||
            number < 0 || number >= TMK_MAX_RANK)
            return tmk_fail(r->diag, TMK_FORMAT, "no permutation");
        got.perm[got.rank++] = (int32_t)number;
    }
    ((struct tmk_lineage_original *)record)->view = got;
    return TMK_OK;
}

static bool has_no_affine(const void *record) {
    return ((const struct tmk_lineage_original *)record)->affine.n == 0;
}

static bool has_one_scale(const void *record) {
    return ((const struct tmk_lineage_affine *)record)->n == 1;
}

static bool has_no_encoding(const void *record) {
    return ((const struct tmk_lineage_original *)record)->quantized.n == 0;
}

static bool has_one_encoding(const void *record) {
    return ((const struct tmk_lineage_quantized *)record)->n == 1;
}

static bool has_no_absorber(const void *record) {
    return ((const struct tmk_lineage_original *)record)->verdict != TMK_LINEAGE_ABSORBED;
}

static enum tmk_status check_axis(struct tmk_field_reader *r, uint32_t n, int32_t *axis) {
    if (n == 1 ? *axis >= 0 : *axis < 0 || *axis >= TMK_MAX_RANK)
        return tmk_fail(r->diag, TMK_FORMAT, "'axis' is missing or is not %s",
                        n == 1 ? "null, for one scale" : "an axis");
    if (n == 1)
        *axis = 0;
    return TMK_OK;
}

static enum tmk_status check_affine(struct tmk_field_reader *r, void *record) {
    struct tmk_lineage_affine *affine = record;
    return check_axis(r, affine->n, &affine->axis);
}

static enum tmk_status check_quantized(struct tmk_field_reader *r, void *record) {
    struct tmk_lineage_quantized *quantized = record;
    return check_axis(r, quantized->n, &quantized->axis);
}

#define RECORD tmk_lineage_affine
static const struct tmk_field affine_table[] = {
    TMK_FIELD("axis", NATURAL, axis, .flags = TMK_FIELD_NULL, .absent = has_one_scale),
    TMK_FIELD_COUNTED("scale", DOUBLES, scale, n),
    TMK_FIELD_COUNTED("shift", DOUBLES, shift, n, .of = "scale"),
};
#undef RECORD
#define RECORD tmk_lineage_quantized
static const struct tmk_field quantized_table[] = {
    TMK_FIELD("dtype", DTYPE, dtype),
    TMK_FIELD("axis", NATURAL, axis, .flags = TMK_FIELD_NULL, .absent = has_one_encoding),
    TMK_FIELD_COUNTED("scale", DOUBLES, scale, n),
    TMK_FIELD_COUNTED("zero_point", INT64S, zero_point, n, .of = "scale"),
};
#undef RECORD
#define RECORD tmk_lineage_absorber
static const struct tmk_field absorber_table[] = {
    TMK_FIELD("node", TEXT, node),
    TMK_FIELD("op", TEXT, op),
    TMK_FIELD("domain", TEXT, domain),
    TMK_FIELD_COUNTED("inputs", IDS, inputs, n_inputs),
    TMK_FIELD_COUNTED("outputs", IDS, outputs, n_outputs),
};
#undef RECORD
static const struct tmk_fields affine_fields = TMK_FIELDS(affine_table, .after = check_affine),
                               quantized_fields =
                                   TMK_FIELDS(quantized_table, .after = check_quantized),
                               absorber_fields = TMK_FIELDS(absorber_table, );

/* ---- entries ---- */

static const char *const verdict_names[] = {
#define VERDICT_NAME(name, number, text) [number] = text,
    TMK_LINEAGE_VERDICT_LIST(VERDICT_NAME)
#undef VERDICT_NAME
};
static const struct tmk_field_names verdicts = {"verdict", verdict_names, TMK_COUNT(verdict_names)};
static const struct tmk_field_codec view = {put_view, get_view};

const char *tmk_lineage_verdict_name(enum tmk_lineage_verdict verdict) {
    return (size_t)verdict < TMK_COUNT(verdict_names) ? verdict_names[verdict] : "?";
}

#define OPTIONAL .flags = TMK_FIELD_OPTIONAL
#define RECORD tmk_lineage_original
static const struct tmk_field original_table[] = {
    TMK_FIELD("verdict", NAME, verdict, .of = &verdicts, TMK_COLUMN("", "what became of it")),
    TMK_FIELD("pass", TEXT, pass, TMK_COLUMN("", "pass that said so")),
    TMK_FIELD("remark", TEXT, remark, .flags = TMK_FIELD_OPTIONAL | TMK_FIELD_OMIT,
              TMK_COLUMN("", "what a pass had to say of it")),
    TMK_FIELD("value", MAYBE_ID, value, TMK_COLUMN("", "ID of its value in /values; -1: none")),
    TMK_FIELD("view", CODEC, view, OPTIONAL, .of = &view, .absent = has_no_view,
              TMK_COLUMN("", "JSON: null, \"reshaped\", or axis i of the value is axis [i] of it")),
    TMK_FIELD("affine", OBJECT, affine, OPTIONAL, .of = &affine_fields, .absent = has_no_affine),
    TMK_FIELD("quantized", OBJECT, quantized, OPTIONAL, .of = &quantized_fields,
              .absent = has_no_encoding),
    TMK_FIELD("absorbed", OBJECT, absorber, OPTIONAL, .of = &absorber_fields,
              .absent = has_no_absorber),
};
#undef RECORD
const struct tmk_fields tmk_lineage_original_fields = TMK_FIELDS(
    original_table, .before = &identity_fields, .size = sizeof(struct tmk_lineage_original));

#define RECORD tmk_lineage_value
static const struct tmk_field value_table[] = {
    TMK_FIELD_COUNTED("originals", IDS, originals, n_originals),
};
#undef RECORD
const struct tmk_fields tmk_lineage_value_fields =
    TMK_FIELDS(value_table, .before = &identity_fields, .size = sizeof(struct tmk_lineage_value));

/* ---- the header ---- */

static void put_passes(struct tmk_json_out *to, const char *key, const void *record) {
    const struct tmk_lineage_record *lineage = record;
    struct tmk_json_out passes = tmk_json_new_array();
    for (uint32_t i = 0; i < lineage->n_passes; i++)
        tmk_json_put_text(&passes, NULL, lineage->passes[i]);
    tmk_json_put_child(to, key, &passes);
}

static enum tmk_status get_passes(struct tmk_field_reader *r, const cJSON *item, void *record) {
    const cJSON *pass;
    if (!cJSON_IsArray(item))
        return tmk_fail(r->diag, TMK_FORMAT, "not an array");
    cJSON_ArrayForEach(pass, item) {
        if (!cJSON_IsString(pass))
            return tmk_fail(r->diag, TMK_FORMAT, "holds no name");
        TMK_TRY(tmk_lineage_record_add_pass(record, pass->valuestring, r->diag));
    }
    return TMK_OK;
}

static const struct tmk_field_codec passes = {put_passes, get_passes};
static const struct tmk_file_version version = {TMK_LINEAGE_FORMAT, "lineage", TMK_LINEAGE_MAJOR,
                                                TMK_LINEAGE_MINOR};

#define RECORD tmk_lineage_model
static const struct tmk_field model_table[] = {
    TMK_FIELD("file", TEXT, file),
    TMK_FIELD("sha256", TEXT, sha256),
    TMK_FIELD("graph_fingerprint", HEX, fingerprint),
};
#undef RECORD
static const struct tmk_fields model_fields = TMK_FIELDS(model_table, );

#define RECORD tmk_lineage_record
#define HEADER                                                                                     \
    TMK_FIELD("format", FORMAT, version, .of = &version),                                          \
        TMK_FIELD("version", VERSION, version, .of = &version),                                    \
        TMK_FIELD("producer", TEXT, producer),                                                     \
        TMK_FIELD("original", OBJECT, original, .of = &model_fields),                              \
        TMK_FIELD("transformed", OBJECT, transformed, .of = &model_fields),                        \
        TMK_FIELD("passes", CODEC, passes, .of = &passes)
static const struct tmk_field header_table[] = {HEADER};
static const struct tmk_field file_table[] = {
    HEADER,
    TMK_FIELD_COUNTED("originals", LIST, originals, n_originals, .flags = TMK_FIELD_LINES,
                      .of = &tmk_lineage_original_fields),
    TMK_FIELD_COUNTED("values", LIST, values, n_values, .flags = TMK_FIELD_LINES,
                      .of = &tmk_lineage_value_fields),
};
#undef RECORD
const struct tmk_fields tmk_lineage_header_fields = TMK_FIELDS(header_table, ),
                        tmk_lineage_fields = TMK_FIELDS(file_table, );

struct tmk_field_reader tmk_lineage_reader(struct tmk_lineage_record *record,
                                           struct tmk_diag *diag) {
    return (struct tmk_field_reader){.owner = record, .arena = record->arena, .diag = diag};
}

enum tmk_status tmk_lineage_write_json(const struct tmk_lineage_record *record,
                                       struct tmk_outfile *out, struct tmk_diag *diag) {
    struct tmk_text text = {0};
    tmk_text_puts(&text, "{\n");
    enum tmk_status status = tmk_fields_text(&tmk_lineage_fields, record, ",\n", &text, diag);
    tmk_text_puts(&text, "\n}\n");
    if (status == TMK_OK && text.failed)
        status = tmk_nomem(diag);
    TMK_THEN(status, tmk_outfile_write(out, text.data, text.len, diag));
    tmk_text_finish(&text);
    return status;
}

static enum tmk_status read_tree(const cJSON *tree, struct tmk_lineage_record **out,
                                 struct tmk_diag *diag) {
    struct tmk_lineage_record *record;
    TMK_TRY(tmk_lineage_record_create(
        (uint32_t)cJSON_GetArraySize(tmk_json_member(tree, "originals")),
        (uint32_t)cJSON_GetArraySize(tmk_json_member(tree, "values")), &record, diag));
    struct tmk_field_reader r = tmk_lineage_reader(record, diag);
    enum tmk_status status = tmk_fields_get(&r, &tmk_lineage_fields, tree, record);
    if (status == TMK_OK)
        *out = record;
    else
        tmk_lineage_record_destroy(&record);
    return status;
}

enum tmk_status tmk_lineage_read_json(const char *text, size_t len, struct tmk_lineage_record **out,
                                      struct tmk_diag *diag) {
    cJSON *tree;
    size_t held = 0;
    TMK_TRY(tmk_utf8_check(text, len, diag));
    TMK_TRY(tmk_json_parse_object(text, len, &tree, &held, diag));
    enum tmk_status status = read_tree(tree, out, diag);
    cJSON_Delete(tree);
    tmk_memory_uncharge(held);
    return status;
}
