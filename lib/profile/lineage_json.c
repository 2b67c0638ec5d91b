/* SPDX-License-Identifier: Apache-2.0 */
/* A lineage as JSON: one member of the header a line, one entry a line. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/utf8.h"
#include "profile/format.h"
#include "profile/lineage_format.h"

/* ---- writing ---- */

static struct tmk_json_out new_object(void) {
    cJSON *item = cJSON_CreateObject();
    return (struct tmk_json_out){item, !item};
}

static void put_id(struct tmk_json_out *to, const char *key, uint32_t id) {
    char text[16];
    snprintf(text, sizeof text, "p%" PRIu32, id);
    tmk_json_put_text(to, key, text);
}

static void put_doubles(struct tmk_json_out *to, const char *key, const double *values,
                        uint32_t n) {
    cJSON *item = cJSON_CreateArray();
    struct tmk_json_out array = {item, !item};
    for (uint32_t i = 0; i < n; i++)
        tmk_json_put_double(&array, NULL, values[i]);
    tmk_json_put_child(to, key, &array);
}

static void put_integers(struct tmk_json_out *to, const char *key, const int64_t *values,
                         uint32_t n) {
    cJSON *item = cJSON_CreateArray();
    struct tmk_json_out array = {item, !item};
    for (uint32_t i = 0; i < n; i++)
        tmk_json_put_i64(&array, NULL, values[i]);
    tmk_json_put_child(to, key, &array);
}

static void put_axis(struct tmk_json_out *to, uint32_t n, int32_t axis) {
    if (n == 1)
        tmk_json_put(to, "axis", cJSON_CreateNull());
    else
        tmk_json_put_i64(to, "axis", axis);
}

static void put_relation(struct tmk_json_out *to, const struct tmk_lineage_original *o) {
    if (tmk_lineage_is_view(&o->view))
        tmk_lineage_put_view(to, "view", &o->view);
    if (o->affine.n) {
        struct tmk_json_out affine = new_object();
        put_axis(&affine, o->affine.n, o->affine.axis);
        put_doubles(&affine, "scale", o->affine.scale, o->affine.n);
        put_doubles(&affine, "shift", o->affine.shift, o->affine.n);
        tmk_json_put_child(to, "affine", &affine);
    }
    if (o->quantized.n) {
        struct tmk_json_out quantized = new_object();
        tmk_json_put_text(&quantized, "dtype", tmk_dtype_name(o->quantized.dtype));
        put_axis(&quantized, o->quantized.n, o->quantized.axis);
        put_doubles(&quantized, "scale", o->quantized.scale, o->quantized.n);
        put_integers(&quantized, "zero_point", o->quantized.zero_point, o->quantized.n);
        tmk_json_put_child(to, "quantized", &quantized);
    }
    if (o->verdict == TMK_LINEAGE_ABSORBED) {
        struct tmk_json_out by = new_object();
        tmk_json_put_text(&by, "node", o->absorber.node);
        tmk_json_put_text(&by, "op", o->absorber.op);
        tmk_json_put_text(&by, "domain", o->absorber.domain);
        tmk_profile_put_ids(&by, "inputs", o->absorber.inputs, o->absorber.n_inputs);
        tmk_profile_put_ids(&by, "outputs", o->absorber.outputs, o->absorber.n_outputs);
        tmk_json_put_child(to, "absorbed", &by);
    }
}

static void put_identity(struct tmk_json_out *to, uint32_t id,
                         const struct tmk_lineage_identity *is) {
    char hex[17];
    put_id(to, "id", id);
    tmk_json_put_text(to, "name", is->name);
    if (*is->path)
        tmk_json_put_text(to, "path", is->path);
    snprintf(hex, sizeof hex, "%016" PRIx64, is->fingerprint);
    tmk_json_put_text(to, "fingerprint", hex);
    snprintf(hex, sizeof hex, "%016" PRIx64, is->content);
    tmk_json_put_text(to, "content", hex);
    tmk_json_put_u64(to, "ordinal", is->ordinal);
    tmk_json_put_text(to, "kind", tmk_profile_kind_name(is->kind));
    tmk_json_put_text(to, "dtype", tmk_dtype_name(is->dtype));
    tmk_lineage_put_shape(to, "shape", is->has_shape, &is->shape);
}

static enum tmk_status original_text(const struct tmk_lineage_original *o, uint32_t id,
                                     struct tmk_text *out, struct tmk_diag *diag) {
    struct tmk_json_out to = new_object();
    put_identity(&to, id, &o->is);
    tmk_json_put_text(&to, "verdict", tmk_lineage_verdict_name(o->verdict));
    tmk_json_put_text(&to, "pass", o->pass);
    if (o->remark[0])
        tmk_json_put_text(&to, "remark", o->remark);
    if (o->value < 0)
        tmk_json_put(&to, "value", cJSON_CreateNull());
    else
        put_id(&to, "value", (uint32_t)o->value);
    put_relation(&to, o);
    return tmk_json_finish(&to, out, diag);
}

static enum tmk_status value_text(const struct tmk_lineage_value *v, uint32_t id,
                                  struct tmk_text *out, struct tmk_diag *diag) {
    struct tmk_json_out to = new_object();
    put_identity(&to, id, &v->is);
    tmk_profile_put_ids(&to, "originals", v->originals, v->n_originals);
    return tmk_json_finish(&to, out, diag);
}

static enum tmk_status record_text(const struct tmk_lineage_record *record, struct tmk_text *text,
                                   struct tmk_diag *diag) {
    struct tmk_json_out header = new_object();
    const char *separator = "{\n";
    cJSON *member;
    tmk_lineage_put_header(&header, record);
    if (header.failed) {
        cJSON_Delete(header.item);
        return tmk_nomem(diag);
    }
    while ((member = cJSON_DetachItemFromArray(header.item, 0))) {
        struct tmk_json_out value = {member, false};
        tmk_text_printf(text, "%s\"%s\":", separator, member->string);
        enum tmk_status status = tmk_json_finish(&value, text, diag);
        if (status != TMK_OK) {
            cJSON_Delete(header.item);
            return status;
        }
        separator = ",\n";
    }
    cJSON_Delete(header.item);
    tmk_text_puts(text, ",\n\"originals\":[");
    for (uint32_t i = 0; i < record->n_originals; i++) {
        tmk_text_puts(text, i ? ",\n" : "\n");
        TMK_TRY(original_text(&record->originals[i], i, text, diag));
    }
    tmk_text_puts(text, "\n],\n\"values\":[");
    for (uint32_t i = 0; i < record->n_values; i++) {
        tmk_text_puts(text, i ? ",\n" : "\n");
        TMK_TRY(value_text(&record->values[i], i, text, diag));
    }
    tmk_text_puts(text, "\n]\n}\n");
    return text->failed ? tmk_nomem(diag) : TMK_OK;
}

enum tmk_status tmk_lineage_write_json(const struct tmk_lineage_record *record,
                                       struct tmk_outfile *out, struct tmk_diag *diag) {
    struct tmk_text text = {0};
    enum tmk_status status = record_text(record, &text, diag);
    if (status == TMK_OK)
        status = tmk_outfile_write(out, text.data, text.len, diag);
    tmk_text_finish(&text);
    return status;
}

/* ---- reading ---- */

static enum tmk_status expected(struct tmk_diag *diag, const char *key, const char *what) {
    return tmk_fail(diag, TMK_FORMAT, "'%s' is missing or is not %s", key, what);
}

static enum tmk_status get_id(const cJSON *item, const char *key, uint32_t *out,
                              struct tmk_diag *diag) {
    const char *text;
    TMK_TRY(tmk_json_text(item, key, &text, diag));
    return tmk_profile_id_of_text(text, out) ? TMK_OK : expected(diag, key, "an ID like \"p12\"");
}

static enum tmk_status get_ids(struct tmk_lineage_record *record, const cJSON *item,
                               const char *key, uint32_t **out, uint32_t *n,
                               struct tmk_diag *diag) {
    const cJSON *array, *element;
    TMK_TRY(tmk_json_array(item, key, &array, diag));
    uint32_t size = (uint32_t)cJSON_GetArraySize(array), count = 0;
    uint32_t *ids = tmk_lineage_record_array(record, size, sizeof *ids);
    if (size && !ids)
        return tmk_nomem(diag);
    cJSON_ArrayForEach(element, array) {
        if (!cJSON_IsString(element) ||
            !tmk_profile_id_of_text(element->valuestring, &ids[count++]))
            return expected(diag, key, "a list of IDs");
    }
    *out = ids;
    *n = count;
    return TMK_OK;
}

static enum tmk_status get_doubles(struct tmk_lineage_record *record, const cJSON *item,
                                   const char *key, const double **out, uint32_t *n,
                                   struct tmk_diag *diag) {
    const cJSON *array, *element;
    TMK_TRY(tmk_json_array(item, key, &array, diag));
    uint32_t size = (uint32_t)cJSON_GetArraySize(array), count = 0;
    double *values = tmk_lineage_record_array(record, size, sizeof *values);
    if (size && !values)
        return tmk_nomem(diag);
    cJSON_ArrayForEach(element, array) {
        if (!cJSON_IsNumber(element) || !isfinite(element->valuedouble))
            return expected(diag, key, "a list of finite numbers");
        values[count++] = element->valuedouble;
    }
    if (count == 0)
        return expected(diag, key, "a list with something in it");
    *out = values;
    *n = count;
    return TMK_OK;
}

static enum tmk_status get_integers(struct tmk_lineage_record *record, const cJSON *item,
                                    const char *key, const int64_t **out, uint32_t n,
                                    struct tmk_diag *diag) {
    const cJSON *array, *element;
    uint32_t count = 0;
    TMK_TRY(tmk_json_array(item, key, &array, diag));
    if ((uint32_t)cJSON_GetArraySize(array) != n)
        return expected(diag, key, "as long as 'scale'");
    int64_t *values = tmk_lineage_record_array(record, n, sizeof *values);
    if (!values)
        return tmk_nomem(diag);
    cJSON_ArrayForEach(element, array) {
        if (!tmk_json_as_i64(element, &values[count++]))
            return expected(diag, key, "a list of integers");
    }
    *out = values;
    return TMK_OK;
}

static enum tmk_status get_axis(const cJSON *item, uint32_t n, int32_t *out,
                                struct tmk_diag *diag) {
    const cJSON *axis = tmk_json_member(item, "axis");
    int64_t number = 0;
    if (n == 1 ? !cJSON_IsNull(axis)
               : !cJSON_IsNumber(axis) || !tmk_json_as_i64(axis, &number) || number < 0 ||
                     number >= TMK_MAX_RANK)
        return expected(diag, "axis", n == 1 ? "null, for one scale" : "an axis");
    *out = (int32_t)number;
    return TMK_OK;
}

static enum tmk_status get_affine(struct tmk_lineage_record *record, const cJSON *item,
                                  struct tmk_lineage_affine *out, struct tmk_diag *diag) {
    static const char *const keys[] = {"axis", "scale", "shift"};
    uint32_t shifts;
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), tmk_lineage_is_strict(record), diag));
    TMK_TRY(get_doubles(record, item, "scale", &out->scale, &out->n, diag));
    TMK_TRY(get_doubles(record, item, "shift", &out->shift, &shifts, diag));
    if (shifts != out->n)
        return expected(diag, "shift", "as long as 'scale'");
    return get_axis(item, out->n, &out->axis, diag);
}

static enum tmk_status get_quantized(struct tmk_lineage_record *record, const cJSON *item,
                                     struct tmk_lineage_quantized *out, struct tmk_diag *diag) {
    static const char *const keys[] = {"dtype", "axis", "scale", "zero_point"};
    const char *dtype;
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), tmk_lineage_is_strict(record), diag));
    TMK_TRY(tmk_json_text(item, "dtype", &dtype, diag));
    TMK_TRY(tmk_profile_dtype_by_name(dtype, &out->dtype, diag));
    TMK_TRY(get_doubles(record, item, "scale", &out->scale, &out->n, diag));
    TMK_TRY(get_integers(record, item, "zero_point", &out->zero_point, out->n, diag));
    return get_axis(item, out->n, &out->axis, diag);
}

static enum tmk_status get_absorber(struct tmk_lineage_record *record, const cJSON *item,
                                    struct tmk_lineage_absorber *out, struct tmk_diag *diag) {
    static const char *const keys[] = {"node", "op", "domain", "inputs", "outputs"};
    const char *node, *op, *domain;
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), tmk_lineage_is_strict(record), diag));
    TMK_TRY(tmk_json_text(item, "node", &node, diag));
    TMK_TRY(tmk_json_text(item, "op", &op, diag));
    TMK_TRY(tmk_json_text(item, "domain", &domain, diag));
    TMK_TRY(tmk_lineage_keep(record, node, &out->node, diag));
    TMK_TRY(tmk_lineage_keep(record, op, &out->op, diag));
    TMK_TRY(tmk_lineage_keep(record, domain, &out->domain, diag));
    TMK_TRY(get_ids(record, item, "inputs", &out->inputs, &out->n_inputs, diag));
    return get_ids(record, item, "outputs", &out->outputs, &out->n_outputs, diag);
}

static enum tmk_status get_identity(struct tmk_lineage_record *record, const cJSON *item,
                                    uint32_t expected_id, struct tmk_lineage_identity *is,
                                    struct tmk_diag *diag) {
    const char *name, *path, *kind, *dtype;
    uint32_t id;
    TMK_TRY(get_id(item, "id", &id, diag));
    if (id != expected_id)
        return tmk_fail(diag, TMK_FORMAT, "'id' is p%" PRIu32 " where p%" PRIu32 " belongs", id,
                        expected_id);
    TMK_TRY(tmk_json_text(item, "name", &name, diag));
    TMK_TRY(tmk_json_text_or(item, "path", &path, "", diag));
    TMK_TRY(tmk_lineage_keep(record, name, &is->name, diag));
    TMK_TRY(tmk_lineage_keep(record, path, &is->path, diag));
    TMK_TRY(tmk_json_hex64(item, "fingerprint", &is->fingerprint, diag));
    TMK_TRY(tmk_json_hex64(item, "content", &is->content, diag));
    TMK_TRY(tmk_json_u32(item, "ordinal", &is->ordinal, diag));
    TMK_TRY(tmk_json_text(item, "kind", &kind, diag));
    TMK_TRY(tmk_profile_kind_by_name(kind, &is->kind, diag));
    TMK_TRY(tmk_json_text(item, "dtype", &dtype, diag));
    TMK_TRY(tmk_profile_dtype_by_name(dtype, &is->dtype, diag));
    return tmk_lineage_get_shape(tmk_json_member(item, "shape"), &is->has_shape, &is->shape, diag);
}

static enum tmk_status get_relation(struct tmk_lineage_record *record, const cJSON *item,
                                    struct tmk_lineage_original *o, struct tmk_diag *diag) {
    const cJSON *affine = tmk_json_member(item, "affine"),
                *quantized = tmk_json_member(item, "quantized"),
                *absorbed = tmk_json_member(item, "absorbed");
    TMK_TRY(tmk_lineage_get_view(tmk_json_member(item, "view"), &o->view, diag));
    if (affine)
        TMK_TRY(tmk_in(diag, get_affine(record, affine, &o->affine, diag), "'affine'"));
    if (quantized)
        TMK_TRY(tmk_in(diag, get_quantized(record, quantized, &o->quantized, diag), "'quantized'"));
    if (absorbed)
        TMK_TRY(tmk_in(diag, get_absorber(record, absorbed, &o->absorber, diag), "'absorbed'"));
    return TMK_OK;
}

static enum tmk_status get_original(struct tmk_lineage_record *record, const cJSON *item,
                                    uint32_t id, struct tmk_diag *diag) {
    static const char *const keys[] = {"id",       "name",  "path",  "fingerprint", "content",
                                       "ordinal",  "kind",  "dtype", "shape",       "verdict",
                                       "pass",     "value", "view",  "affine",      "quantized",
                                       "absorbed", "remark"};
    struct tmk_lineage_original *o = &record->originals[id];
    const char *verdict, *pass, *remark;
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), tmk_lineage_is_strict(record), diag));
    TMK_TRY(get_identity(record, item, id, &o->is, diag));
    TMK_TRY(tmk_json_text(item, "verdict", &verdict, diag));
    TMK_TRY(tmk_lineage_verdict_by_name(verdict, &o->verdict, diag));
    TMK_TRY(tmk_json_text(item, "pass", &pass, diag));
    TMK_TRY(tmk_lineage_keep(record, pass, &o->pass, diag));
    TMK_TRY(tmk_json_text_or(item, "remark", &remark, "", diag));
    TMK_TRY(tmk_lineage_keep(record, remark, &o->remark, diag));
    if (!cJSON_IsNull(tmk_json_member(item, "value"))) {
        uint32_t value;
        TMK_TRY(get_id(item, "value", &value, diag));
        o->value = value;
    }
    return get_relation(record, item, o, diag);
}

static enum tmk_status get_value(struct tmk_lineage_record *record, const cJSON *item, uint32_t id,
                                 struct tmk_diag *diag) {
    static const char *const keys[] = {"id",      "name", "path",  "fingerprint", "content",
                                       "ordinal", "kind", "dtype", "shape",       "originals"};
    struct tmk_lineage_value *v = &record->values[id];
    TMK_TRY(tmk_json_keys(item, keys, TMK_COUNT(keys), tmk_lineage_is_strict(record), diag));
    TMK_TRY(get_identity(record, item, id, &v->is, diag));
    return get_ids(record, item, "originals", &v->originals, &v->n_originals, diag);
}

static enum tmk_status get_entries(const cJSON *tree, struct tmk_lineage_record *record,
                                   struct tmk_diag *diag) {
    const cJSON *originals, *values, *item;
    uint32_t id = 0;
    TMK_TRY(tmk_lineage_get_header(record, tree, diag));
    TMK_TRY(tmk_json_array(tree, "originals", &originals, diag));
    TMK_TRY(tmk_json_array(tree, "values", &values, diag));
    cJSON_ArrayForEach(item, originals) {
        TMK_TRY(tmk_in(diag, get_original(record, item, id, diag), "originals[%" PRIu32 "]", id));
        id++;
    }
    id = 0;
    cJSON_ArrayForEach(item, values) {
        TMK_TRY(tmk_in(diag, get_value(record, item, id, diag), "values[%" PRIu32 "]", id));
        id++;
    }
    return TMK_OK;
}

static enum tmk_status read_tree(const cJSON *tree, struct tmk_lineage_record **out,
                                 struct tmk_diag *diag) {
    struct tmk_lineage_record *record;
    TMK_TRY(tmk_lineage_record_create(
        (uint32_t)cJSON_GetArraySize(tmk_json_member(tree, "originals")),
        (uint32_t)cJSON_GetArraySize(tmk_json_member(tree, "values")), &record, diag));
    enum tmk_status status = get_entries(tree, record, diag);
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
