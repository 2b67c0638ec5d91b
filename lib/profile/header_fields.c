/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of a profile's header. */
#include <string.h>

#include "base/diag.h"
#include "profile/format.h"

/* ---- settings ---- */

/* A setting that was added more than once is a list. */
static void put_settings(struct tmk_json_out *to, const char *key, const void *record) {
    const struct tmk_profile *profile = record;
    const struct tmk_profile_setting *settings = profile->settings;
    struct tmk_json_out out = tmk_json_new_object();
    for (uint32_t i = 0, end; i < profile->n_settings; i = end) {
        for (end = i + 1; end < profile->n_settings; end++)
            if (strcmp(settings[end].key, settings[i].key) != 0)
                break;
        if (end == i + 1) {
            tmk_json_put_text(&out, settings[i].key, settings[i].value);
            continue;
        }
        struct tmk_json_out list = tmk_json_new_array();
        for (uint32_t k = i; k < end; k++)
            tmk_json_put_text(&list, NULL, settings[k].value);
        tmk_json_put_child(&out, settings[i].key, &list);
    }
    tmk_json_put_child(to, key, &out);
}

static enum tmk_status get_setting(struct tmk_profile *profile, const char *key, const cJSON *value,
                                   struct tmk_diag *diag) {
    if (!cJSON_IsString(value))
        return tmk_fail(diag, TMK_FORMAT, "'%s' is not a string", key);
    return tmk_profile_add_setting(profile, key, value->valuestring, diag);
}

static enum tmk_status get_settings(struct tmk_field_reader *r, const cJSON *item, void *record) {
    struct tmk_profile *profile = record;
    const cJSON *setting, *value, *last = NULL;
    if (!cJSON_IsObject(item))
        return tmk_fail(r->diag, TMK_FORMAT, "not an object");
    cJSON_ArrayForEach(setting, item) {
        if (last && strcmp(last->string, setting->string) == 0)
            return tmk_fail(r->diag, TMK_FORMAT, "'%s' stands twice", setting->string);
        last = setting;
        if (!cJSON_IsArray(setting)) {
            TMK_TRY(get_setting(profile, setting->string, setting, r->diag));
            continue;
        }
        if (cJSON_GetArraySize(setting) < 2)
            return tmk_fail(r->diag, TMK_FORMAT, "'%s' is a list of less than two",
                            setting->string);
        cJSON_ArrayForEach(value, setting)
            TMK_TRY(get_setting(profile, setting->string, value, r->diag));
    }
    return TMK_OK;
}

/* ---- the tables: `column` is an attribute of the HDF5 file ---- */

#define RECORD tmk_profile_opset
static const struct tmk_field opset_table[] = {
    TMK_FIELD("domain", TEXT, domain),
    TMK_FIELD("version", I64, version),
};
#undef RECORD
#define RECORD tmk_profile_source
static const struct tmk_field source_table[] = {
    TMK_FIELD("input", TEXT, input),
    TMK_FIELD("source", TEXT, source),
    TMK_FIELD("samples", U64, samples),
    TMK_FIELD("hash", TEXT, hash),
};
#undef RECORD
#define RECORD tmk_profile_bad
static const struct tmk_field bad_table[] = {
    TMK_FIELD("sample", U64, sample),
    TMK_FIELD("file", TEXT, file),
    TMK_FIELD("why", TEXT, why),
};
#undef RECORD
static const struct tmk_fields opset_fields = TMK_FIELDS(opset_table,
                                                         .size = sizeof(struct tmk_profile_opset)),
                               source_fields = TMK_FIELDS(
                                   source_table, .size = sizeof(struct tmk_profile_source)),
                               bad_fields =
                                   TMK_FIELDS(bad_table, .size = sizeof(struct tmk_profile_bad));

#define RECORD tmk_profile
static const struct tmk_field producer_table[] = {
    TMK_FIELD("name", TEXT, producer.name, .column = "producer_name"),
    TMK_FIELD("version", TEXT, producer.version, .column = "producer_version"),
    TMK_FIELD("isa", TEXT, producer.isa, .column = "isa"),
    TMK_FIELD("kernels", TEXT, producer.kernels, .column = "kernels"),
};
static const struct tmk_field model_table[] = {
    TMK_FIELD("file", TEXT, model.file, .column = "model_file"),
    TMK_FIELD("sha256", TEXT, model.sha256, .column = "model_sha256"),
    TMK_FIELD("format", TEXT, model.format),
    TMK_FIELD("ir_version", I64, model.ir_version),
    TMK_FIELD_COUNTED("opsets", LIST, model.opsets, model.n_opsets, .of = &opset_fields),
    TMK_FIELD("graph_fingerprint", HEX, model.fingerprint),
};
static const struct tmk_field ledger_table[] = {
    TMK_FIELD("offered", U64, ledger.offered, .column = "samples_offered"),
    TMK_FIELD("run", U64, ledger.run, .column = "samples_run"),
    TMK_FIELD("skipped", U64, ledger.skipped, .column = "samples_skipped"),
    TMK_FIELD("failed", U64, ledger.failed, .column = "samples_failed"),
    TMK_FIELD("batches", U64, ledger.batches, .column = "batches"),
    TMK_FIELD("first_sample", U64, ledger.first_sample, .column = "first_sample"),
    TMK_FIELD("end_sample", U64, ledger.end_sample, .column = "end_sample"),
    TMK_FIELD_COUNTED("bad", LIST, bad, n_bad, .of = &bad_fields,
                      .flags = TMK_FIELD_OPTIONAL | TMK_FIELD_OMIT),
};
static const struct tmk_fields producer_fields = TMK_FIELDS(producer_table, ),
                               model_fields = TMK_FIELDS(model_table, ),
                               ledger_fields = TMK_FIELDS(ledger_table, );
static const struct tmk_field_codec settings = {put_settings, get_settings};
static const struct tmk_file_version version = {TMK_PROFILE_FORMAT, "profile", TMK_PROFILE_MAJOR,
                                                TMK_PROFILE_MINOR};

static const struct tmk_field header_table[] = {
    TMK_FIELD("format", FORMAT, version, .of = &version),
    TMK_FIELD("version", VERSION, version, .of = &version),
    TMK_FIELD_WHOLE("producer", OBJECT, .of = &producer_fields),
    TMK_FIELD_WHOLE("model", OBJECT, .of = &model_fields),
    TMK_FIELD_COUNTED("data", LIST, sources, n_sources, .of = &source_fields),
    TMK_FIELD("settings", CODEC, settings, .of = &settings),
    TMK_FIELD_WHOLE("ledger", OBJECT, .of = &ledger_fields),
    TMK_FIELD("coverage", CODEC, coverage, .of = &tmk_profile_coverage_codec,
              .flags = TMK_FIELD_OPTIONAL),
    TMK_FIELD("tensors", ELSEWHERE, tensors),
};
const struct tmk_fields tmk_profile_header_fields = TMK_FIELDS(header_table, );

struct tmk_field_reader tmk_profile_reader(struct tmk_profile *profile, struct tmk_diag *diag) {
    return (struct tmk_field_reader){
        .owner = profile,
        .arena = profile->arena,
        .lists_grow = true,
        .lenient = profile->version.minor > TMK_PROFILE_MINOR,
        .diag = diag,
    };
}

enum tmk_status tmk_profile_header_text(const struct tmk_profile *profile, const char *separator,
                                        struct tmk_text *out, struct tmk_diag *diag) {
    return tmk_fields_text(&tmk_profile_header_fields, profile, separator, out, diag);
}

enum tmk_status tmk_profile_get_header(struct tmk_profile *profile, const cJSON *header,
                                       struct tmk_diag *diag) {
    struct tmk_field_reader r = tmk_profile_reader(profile, diag);
    return tmk_fields_get(&r, &tmk_profile_header_fields, header, profile);
}
