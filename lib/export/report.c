/* SPDX-License-Identifier: Apache-2.0 */
/* The report: the frame with style, data and script put in at the marks. */
#include <tidemark/report.h>

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "calib/method.h"
#include "export/report_internal.h"

/* Methods that search for their ranges take most of a page's time: they would take half a minute
 * over 100,000 values, whose page shows none of them. */
enum { MOST_SEARCHED = 10000 };

static bool is_searched(const struct tmk_profile *profile) {
    return profile->n_tensors <= MOST_SEARCHED;
}

static void put_left_out(struct tmk_json_out *out) {
    struct tmk_json_out list = tmk_json_new_array();
    for (const struct tmk_method *const *m = tmk_method_list(); *m; m++)
        if ((*m)->searches)
            tmk_json_put_text(&list, NULL, (*m)->name);
    tmk_json_put_child(out, "methods_left_out", &list);
}

static void put_sources(const struct tmk_profile *profile, struct tmk_json_out *out) {
    struct tmk_json_out list = tmk_json_new_array();
    for (uint32_t i = 0; i < profile->n_sources; i++) {
        struct tmk_json_out one = tmk_json_new_object();
        tmk_json_put_text(&one, "input", profile->sources[i].input);
        tmk_json_put_text(&one, "source", profile->sources[i].source);
        tmk_json_put_u64(&one, "samples", profile->sources[i].samples);
        tmk_json_put_child(&list, NULL, &one);
    }
    tmk_json_put_child(out, "sources", &list);
}

static void put_settings(const struct tmk_profile *profile, struct tmk_json_out *out) {
    struct tmk_json_out list = tmk_json_new_array();
    for (uint32_t i = 0; i < profile->n_settings; i++) {
        struct tmk_json_out one = tmk_json_new_array();
        tmk_json_put_text(&one, NULL, profile->settings[i].key);
        tmk_json_put_text(&one, NULL, profile->settings[i].value);
        tmk_json_put_child(&list, NULL, &one);
    }
    tmk_json_put_child(out, "settings", &list);
}

static void put_summary(const struct tmk_profile *profile, const struct tmk_report_options *options,
                        struct tmk_json_out *out) {
    struct tmk_json_out ledger = tmk_json_new_object();
    tmk_json_put_text(out, "title",
                      options->title           ? options->title
                      : profile->model.file[0] ? profile->model.file
                                               : "profile");
    tmk_json_put_text(out, "model", profile->model.file);
    tmk_json_put_text(out, "sha256", profile->model.sha256);
    tmk_json_put_text(out, "format", profile->model.format);
    tmk_json_put_text(out, "producer", profile->producer.name);
    tmk_json_put_text(out, "version", profile->producer.version);
    tmk_json_put_text(out, "isa", profile->producer.isa);
    tmk_json_put_text(out, "kernels", profile->producer.kernels);
    tmk_json_put_u64(&ledger, "offered", profile->ledger.offered);
    tmk_json_put_u64(&ledger, "run", profile->ledger.run);
    tmk_json_put_u64(&ledger, "skipped", profile->ledger.skipped);
    tmk_json_put_u64(&ledger, "failed", profile->ledger.failed);
    tmk_json_put_child(out, "ledger", &ledger);
    put_sources(profile, out);
    put_settings(profile, out);
    if (!is_searched(profile))
        put_left_out(out);
    if (options->other) {
        struct tmk_json_out other = tmk_json_new_object();
        tmk_json_put_text(&other, "model", options->other->model.file);
        tmk_json_put_u64(&other, "run", options->other->ledger.run);
        tmk_json_put_child(out, "other", &other);
    }
}

/* '<' in a string could end the script that holds the data. */
static void put_safely(struct tmk_text *out, const struct tmk_text *json) {
    for (size_t i = 0, from = 0; i <= json->len; i++)
        if (i == json->len || json->data[i] == '<') {
            tmk_text_append(out, json->data + from, i - from);
            if (i < json->len)
                tmk_text_puts(out, "\\u003c");
            from = i + 1;
        }
}

/* Drifts come worst first; *out, the caller's to free, has one a value of the profile, or NULL. */
static enum tmk_status list_drifts(const struct tmk_profile *profile, const struct tmk_diff *diff,
                                   const struct tmk_diff_item ***out, struct tmk_diag *diag) {
    const struct tmk_diff_item **drifts =
        calloc(profile->n_tensors + (size_t)1, sizeof(const struct tmk_diff_item *));
    if (!drifts)
        return tmk_nomem(diag);
    for (uint32_t i = 0; diff && i < diff->n; i++) {
        const struct tmk_profile_tensor *t = tmk_profile_by_id(profile, diff->items[i].id_a);
        if (t && !drifts[t - profile->tensors])
            drifts[t - profile->tensors] = &diff->items[i];
    }
    *out = drifts;
    return TMK_OK;
}

/* Why a value is left float; values and those that are left ascend by ID, *next among the latter.
 */
static const char *left_of(const struct tmk_encodings *encodings, uint32_t id, uint32_t *next) {
    while (encodings && *next < encodings->n_left && encodings->left[*next].id < id)
        ++*next;
    return encodings && *next < encodings->n_left && encodings->left[*next].id == id
               ? encodings->left[*next].reason
               : NULL;
}

static enum tmk_status put_values(const struct tmk_profile *profile,
                                  const struct tmk_report_options *options,
                                  const struct tmk_diff_item *const *drifts, struct tmk_text *page,
                                  struct tmk_diag *diag) {
    uint32_t next_left = 0;
    for (uint32_t i = 0; i < profile->n_tensors; i++) {
        struct tmk_json_out value = tmk_json_new_object();
        struct tmk_text json = {0};
        const struct tmk_report_item item = {
            .profile = profile,
            .tensor = &profile->tensors[i],
            .encodings = options->encodings,
            .left = left_of(options->encodings, profile->tensors[i].id, &next_left),
            .drift = drifts[i],
            .searched = is_searched(profile)};
        enum tmk_status status = tmk_report_value(&item, &value, diag);
        if (status != TMK_OK) {
            cJSON_Delete(value.item);
            return status;
        }
        status = tmk_json_finish(&value, &json, diag);
        if (status == TMK_OK) {
            tmk_text_puts(page, i ? ",\n" : "");
            put_safely(page, &json);
        }
        tmk_text_finish(&json);
        TMK_TRY(status);
    }
    return TMK_OK;
}

/* {"summary": ..., "warnings": ..., "values": [...]}; values one by one, since a tree of all of
 * them would be larger than the page. */
static enum tmk_status put_data(const struct tmk_profile *profile,
                                const struct tmk_report_options *options,
                                const struct tmk_diff *diff, struct tmk_text *page,
                                struct tmk_diag *diag) {
    struct tmk_json_out head = tmk_json_new_object(), summary = tmk_json_new_object(),
                        warnings = tmk_json_new_array();
    struct tmk_text json = {0};
    const struct tmk_diff_item **drifts = NULL;
    put_summary(profile, options, &summary);
    enum tmk_status status = tmk_report_warnings(profile, &warnings, diag);
    if (status == TMK_OK)
        status = list_drifts(profile, diff, &drifts, diag);
    tmk_json_put_child(&head, "summary", &summary);
    tmk_json_put_child(&head, "warnings", &warnings);
    if (status != TMK_OK) {
        cJSON_Delete(head.item);
        return status;
    }
    status = tmk_json_finish(&head, &json, diag);
    if (status == TMK_OK) {
        while (json.len && json.data[json.len - 1] != '}')
            json.len--;
        json.len--;
        put_safely(page, &json);
        tmk_text_puts(page, ",\"values\":[\n");
        status = put_values(profile, options, drifts, page, diag);
        tmk_text_puts(page, "\n]}");
    }
    free(drifts);
    tmk_text_finish(&json);
    return status;
}

/* The frame has {{css}}, {{data}} and {{js}}, once each and in this order. */
static enum tmk_status put_page(const struct tmk_profile *profile,
                                const struct tmk_report_options *options,
                                const struct tmk_diff *diff, struct tmk_text *page,
                                struct tmk_diag *diag) {
    static const char *const holes[] = {"{{css}}", "{{data}}", "{{js}}"};
    const char *at = tmk_report_frame;
    for (int i = 0; i < 3; i++) {
        const char *hole = strstr(at, holes[i]);
        tmk_text_append(page, at, (size_t)(hole - at));
        at = hole + strlen(holes[i]);
        if (i == 1)
            TMK_TRY(put_data(profile, options, diff, page, diag));
        else
            tmk_text_puts(page, i == 0 ? tmk_report_css : tmk_report_js);
    }
    tmk_text_puts(page, at);
    return page->failed ? tmk_nomem(diag) : TMK_OK;
}

enum tmk_status tmk_report_write(const struct tmk_profile *profile,
                                 const struct tmk_report_options *options, const char *path,
                                 struct tmk_diag *diag) {
    struct tmk_diff *diff = NULL;
    struct tmk_text page = {0};
    locale_t saved[2];
    if (options->encodings && options->encodings->model.fingerprint != profile->model.fingerprint)
        return tmk_fail(diag, TMK_MISMATCH,
                        "the encodings are of another model ('%s') than the profile ('%s')",
                        options->encodings->model.file, profile->model.file);
    if (options->other)
        TMK_TRY(tmk_diff_profiles(profile, options->other, &diff, diag));
    enum tmk_status status = tmk_locale_begin(saved, diag);
    if (status == TMK_OK) {
        status = put_page(profile, options, diff, &page, diag);
        tmk_locale_end(saved);
    }
    if (status == TMK_OK)
        status = tmk_file_write(path, page.data, page.len, diag);
    tmk_text_finish(&page);
    tmk_diff_destroy(&diff);
    return status;
}
