/* SPDX-License-Identifier: Apache-2.0 */
/* The report: the frame with style, data and script put in at the marks. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/size.h"
#include "calib/cost.h"
#include "calib/encodings.h"
#include "calib/method.h"
#include "export/report.h"

/* What `tidemark simulate --json` printed, for the report: the figures that it shows, checked. */

struct results {
    const struct tmk_profile *profile;
    struct tmk_json_out *out;
};

/* A number or null by its key, in the same spelling. */
static enum tmk_status copy_number(const cJSON *from, const char *key, bool optional,
                                   struct tmk_json_out *out, const char *as,
                                   struct tmk_diag *diag) {
    const cJSON *item = tmk_json_member(from, key);
    char digits[32] = "null";
    if (optional && !item)
        return TMK_OK;
    if (!cJSON_IsNumber(item) && !cJSON_IsNull(item))
        return tmk_fail(diag, TMK_FORMAT, "'%s' is no number", key);
    if (cJSON_IsNumber(item) && isfinite(item->valuedouble))
        snprintf(digits, sizeof digits, "%.6g", item->valuedouble);
    tmk_json_put(out, as, cJSON_CreateRaw(digits));
    return TMK_OK;
}

static enum tmk_status copy_flag(const cJSON *from, const char *key, struct tmk_json_out *out,
                                 struct tmk_diag *diag) {
    bool flag;
    TMK_TRY(tmk_json_bool_or(from, key, &flag, false, diag));
    tmk_json_put_u64(out, NULL, flag);
    return TMK_OK;
}

/* The value's number, if the profile has it under this name. */
static enum tmk_status copy_id(const struct results *r, const cJSON *from, struct tmk_json_out *out,
                               struct tmk_diag *diag) {
    const char *id, *name;
    uint32_t number;
    TMK_TRY(tmk_json_text(from, "id", &id, diag));
    TMK_TRY(tmk_json_text(from, "name", &name, diag));
    const struct tmk_profile_tensor *t =
        tmk_profile_id_of_text(id, &number) ? tmk_profile_by_id(r->profile, number) : NULL;
    if (!t || strcmp(t->name, name) != 0)
        return tmk_fail(diag, TMK_MISMATCH, "the profile has no value %s '%s'", id, name);
    tmk_json_put_u64(out, NULL, number);
    return TMK_OK;
}

typedef enum tmk_status copy_row(const struct results *r, const cJSON *from,
                                 struct tmk_json_out *out, struct tmk_diag *diag);

static enum tmk_status copy_value(const struct results *r, const cJSON *from,
                                  struct tmk_json_out *out, struct tmk_diag *diag) {
    TMK_TRY(copy_id(r, from, out, diag));
    TMK_TRY(copy_number(from, "sqnr", false, out, NULL, diag));
    TMK_TRY(copy_flag(from, "quantized", out, diag));
    return copy_flag(from, "output", out, diag);
}

static enum tmk_status copy_ranked(const struct results *r, const cJSON *from,
                                   struct tmk_json_out *out, struct tmk_diag *diag) {
    TMK_TRY(copy_id(r, from, out, diag));
    TMK_TRY(copy_number(from, "sqnr", false, out, NULL, diag));
    return copy_number(from, "expected_sqnr", false, out, NULL, diag);
}

static enum tmk_status copy_point(const struct results *r, const cJSON *from,
                                  struct tmk_json_out *out, struct tmk_diag *diag) {
    (void)r;
    TMK_TRY(copy_number(from, "sqnr", false, out, NULL, diag));
    TMK_TRY(copy_number(from, "bytes", false, out, NULL, diag));
    TMK_TRY(copy_number(from, "share8", false, out, NULL, diag));
    TMK_TRY(copy_flag(from, "front", out, diag));
    return copy_number(from, "judged", true, out, NULL, diag);
}

static enum tmk_status copy_rows(const struct results *r, const cJSON *from, const char *key,
                                 copy_row *copy, struct tmk_json_out *out, struct tmk_diag *diag) {
    const cJSON *rows, *row;
    TMK_TRY(tmk_json_array(from, key, &rows, diag));
    struct tmk_json_out list = tmk_json_new_array();
    enum tmk_status status = TMK_OK;
    cJSON_ArrayForEach(row, rows) {
        struct tmk_json_out one = tmk_json_new_array();
        status = cJSON_IsObject(row)
                     ? copy(r, row, &one, diag)
                     : tmk_fail(diag, TMK_FORMAT, "an entry of '%s' is no object", key);
        tmk_json_put_child(&list, NULL, &one);
        if (status != TMK_OK)
            break;
    }
    tmk_json_put_child(out, "rows", &list);
    return status;
}

/* The kinds are told apart by their lists. */
static const struct kind {
    const char *list, *name;
    copy_row *copy;
    const char *numbers[12];
} result_kinds[] = {
    {"values",
     "simulation",
     copy_value,
     {"samples", "predictions", "agreement", "accuracy_float", "accuracy_quantized"}},
    {"ranking", "ranking", copy_ranked, {"samples", "not_tried"}},
    {"points",
     "search",
     copy_point,
     {"samples", "judged", "tried", "chosen", "before", "after", "judged_before", "judged_after"}},
};

static enum tmk_status copy_results(const struct results *r, const cJSON *tree,
                                    struct tmk_diag *diag) {
    for (size_t i = 0; i < TMK_COUNT(result_kinds); i++) {
        const struct kind *kind = &result_kinds[i];
        if (!tmk_json_member(tree, kind->list))
            continue;
        struct tmk_json_out all = tmk_json_new_object();
        enum tmk_status status = copy_rows(r, tree, kind->list, kind->copy, &all, diag);
        for (size_t k = 0; status == TMK_OK && kind->numbers[k]; k++)
            status = copy_number(tree, kind->numbers[k], k > 0, &all, kind->numbers[k], diag);
        cJSON_DeleteItemFromObjectCaseSensitive(r->out->item, kind->name);
        tmk_json_put_child(r->out, kind->name, &all);
        return status;
    }
    return tmk_fail(diag, TMK_FORMAT,
                    "this is not what `tidemark simulate --json` prints: it has neither 'values' "
                    "nor 'ranking' nor 'points'");
}

/* Reads what `tidemark simulate --json` printed, and puts it as "simulation", "ranking" or "search"
 * (the last of a kind stays). TMK_READ, TMK_FORMAT: the file; TMK_MISMATCH: it is of another
 * network than the profile. */
static enum tmk_status report_results(const struct tmk_profile *profile, const char *path,
                                      struct tmk_json_out *out, struct tmk_diag *diag) {
    struct tmk_json_file file;
    const struct results r = {profile, out};
    TMK_TRY(tmk_json_file_open(path, &file, diag));
    enum tmk_status status = copy_results(&r, file.tree, diag);
    tmk_json_file_close(&file);
    return tmk_in(diag, status, "%s", path);
}

/* What the parts of the page are made of. */
struct page {
    const struct tmk_profile *profile;
    const struct tmk_report_options *options;
    const char *const *attributes;
    struct tmk_diff **diffs;              /* [n_earlier] against each earlier profile */
    const struct tmk_diff_item **earlier; /* [n_tensors][n_earlier]; NULL: not in both */
    bool *begins;                         /* [n_tensors] */
    struct tmk_text text;
};

/* Methods that search for their ranges take most of a page's time: they would take half a minute
 * over 100,000 values, whose page shows none of them. */
enum { MOST_SEARCHED = 10000, MOST_ONLY = 50 };

static bool is_searched(const struct tmk_profile *profile) {
    return profile->n_tensors <= MOST_SEARCHED;
}

/* Details of each value that a page of many has no room for. */
enum { FEW = 200, MANY = 1000 };

static size_t most_channels(const struct tmk_profile *profile) {
    return profile->n_tensors <= FEW ? 512 : profile->n_tensors <= MANY ? 64 : 32;
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

static void put_setting(const char *key, const char *value, struct tmk_json_out *list) {
    struct tmk_json_out one = tmk_json_new_array();
    tmk_json_put_text(&one, NULL, key);
    tmk_json_put_text(&one, NULL, value);
    tmk_json_put_child(list, NULL, &one);
}

static void put_settings(const struct tmk_profile *profile, struct tmk_json_out *out) {
    struct tmk_json_out list = tmk_json_new_array();
    char thinned[512];
    for (uint32_t i = 0; i < profile->n_settings; i++)
        put_setting(profile->settings[i].key, profile->settings[i].value, &list);
    if (tmk_profile_thinned(profile, thinned, sizeof thinned))
        put_setting("thinned", thinned, &list);
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
}

/* Values that one of the two profiles has alone: how many, and the names of the first. */
static void put_only(const char *key, const char *const *names, uint32_t n,
                     struct tmk_json_out *out) {
    struct tmk_json_out list = tmk_json_new_array();
    tmk_json_put_u64(&list, NULL, n);
    for (uint32_t i = 0; i < n && i < MOST_ONLY; i++)
        tmk_json_put_text(&list, NULL, names[i]);
    tmk_json_put_child(out, key, &list);
}

static void put_earlier(const struct page *p, struct tmk_json_out *out) {
    struct tmk_json_out list = tmk_json_new_array();
    for (size_t i = 0; i < p->options->n_earlier; i++) {
        struct tmk_json_out one = tmk_json_new_object();
        tmk_json_put_text(&one, "model", p->options->earlier[i]->model.file);
        tmk_json_put_u64(&one, "run", p->options->earlier[i]->ledger.run);
        put_only("only_before", p->diffs[i]->only_a, p->diffs[i]->n_only_a, &one);
        put_only("only_now", p->diffs[i]->only_b, p->diffs[i]->n_only_b, &one);
        tmk_json_put_child(&list, NULL, &one);
    }
    tmk_json_put_child(out, "earlier", &list);
}

/* Bytes of the weights and the share of multiplications in 8 bits. */
static enum tmk_status put_cost(const struct page *p, struct tmk_json_out *out,
                                struct tmk_diag *diag) {
    struct tmk_cost cost;
    if (!p->options->encodings)
        return TMK_OK;
    TMK_TRY(tmk_cost_of(p->profile, p->options->encodings, &cost, diag));
    tmk_json_put_double(out, "bytes", cost.bytes);
    tmk_json_put_double(out, "share8", cost.share8);
    for (uint32_t i = 0; i < p->options->encodings->n_settings; i++)
        if (strcmp(p->options->encodings->settings[i].key, "target") == 0)
            tmk_json_put_text(out, "target", p->options->encodings->settings[i].value);
    return TMK_OK;
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

static enum tmk_status page_goes_on(const struct page *p, struct tmk_diag *diag) {
    return p->options->stop && p->options->stop(p->options->context)
               ? tmk_fail(diag, TMK_INTERRUPTED, "stopped before the page was whole")
               : TMK_OK;
}

static enum tmk_status compare_earlier(struct page *p, struct tmk_diag *diag) {
    const size_t n = p->options->n_earlier;
    p->diffs = calloc(n + 1, sizeof(struct tmk_diff *));
    p->earlier = calloc(n * p->profile->n_tensors + 1, sizeof(const struct tmk_diff_item *));
    TMK_TRY_ALLOC(p->diffs && p->earlier, diag);
    for (size_t k = 0; k < n; k++) {
        TMK_TRY(page_goes_on(p, diag));
        TMK_TRY(tmk_diff_profiles(p->options->earlier[k], p->profile, &p->diffs[k], diag));
        for (uint32_t i = 0; i < p->diffs[k]->n; i++) {
            const struct tmk_diff_item *item = &p->diffs[k]->items[i];
            const struct tmk_profile_tensor *t =
                tmk_profile_by_id(p->profile, (uint32_t)item->id_b);
            if (t)
                p->earlier[(size_t)(t - p->profile->tensors) * n + k] = item;
        }
    }
    return TMK_OK;
}

static enum tmk_status find_nonfinite(struct page *p, struct tmk_diag *diag) {
    struct tmk_nonfinite *all;
    uint32_t n;
    p->begins = calloc(p->profile->n_tensors + (size_t)1, sizeof *p->begins);
    TMK_TRY_ALLOC(p->begins, diag);
    TMK_TRY(tmk_profile_nonfinite(p->profile, &all, &n, diag));
    for (uint32_t i = 0; i < n; i++)
        if (!all[i].n_from)
            p->begins[tmk_profile_by_id(p->profile, all[i].id) - p->profile->tensors] = true;
    free(all);
    return TMK_OK;
}

static enum tmk_status put_values(struct page *p, struct tmk_diag *diag) {
    const struct tmk_profile *profile = p->profile;
    for (uint32_t i = 0; i < profile->n_tensors; i++) {
        TMK_TRY(page_goes_on(p, diag));
        struct tmk_json_out value = tmk_json_new_array();
        struct tmk_text json = {0};
        const struct tmk_left_float *left =
            p->options->encodings
                ? tmk_encodings_left(p->options->encodings, profile->tensors[i].id)
                : NULL;
        const struct tmk_report_item item = {.profile = profile,
                                             .tensor = &profile->tensors[i],
                                             .encodings = p->options->encodings,
                                             .left = left ? left->reason : NULL,
                                             .attributes = p->attributes ? p->attributes[i] : NULL,
                                             .earlier =
                                                 p->earlier + (size_t)i * p->options->n_earlier,
                                             .n_earlier = p->options->n_earlier,
                                             .begins = p->begins[i],
                                             .searched = is_searched(profile),
                                             .most_channels = most_channels(profile),
                                             .topk = profile->n_tensors <= FEW};
        enum tmk_status status = tmk_report_value(&item, &value, diag);
        if (status != TMK_OK) {
            cJSON_Delete(value.item);
            return status;
        }
        status = tmk_json_finish(&value, &json, diag);
        if (status == TMK_OK) {
            tmk_text_puts(&p->text, i ? ",\n" : "");
            put_safely(&p->text, &json);
        }
        tmk_text_finish(&json);
        TMK_TRY(status);
    }
    return TMK_OK;
}

/* What the numbers and positions in the values mean. */
static void put_legend(struct tmk_json_out *out) {
    struct tmk_json_out columns = tmk_json_new_array(), methods = tmk_json_new_array(),
                        page_kinds = tmk_json_new_array(), statuses = tmk_json_new_array();
    for (size_t i = 0; tmk_report_columns[i]; i++)
        tmk_json_put_text(&columns, NULL, tmk_report_columns[i]);
    for (const struct tmk_method *const *m = tmk_method_list(); *m; m++)
        tmk_json_put_text(&methods, NULL, (*m)->name);
#define PUT_KIND(name, number, text) tmk_json_put_text(&page_kinds, NULL, text);
    TMK_PROFILE_KIND_LIST(PUT_KIND)
#undef PUT_KIND
#define PUT_STATUS(name, number, text) tmk_json_put_text(&statuses, NULL, text);
    TMK_PROFILE_STATUS_LIST(PUT_STATUS)
#undef PUT_STATUS
    tmk_json_put_child(out, "columns", &columns);
    tmk_json_put_child(out, "methods", &methods);
    tmk_json_put_child(out, "kinds", &page_kinds);
    tmk_json_put_child(out, "statuses", &statuses);
}

static enum tmk_status put_head(struct page *p, struct tmk_json_out *head, struct tmk_diag *diag) {
    struct tmk_json_out summary = tmk_json_new_object();
    put_summary(p->profile, p->options, &summary);
    put_earlier(p, &summary);
    enum tmk_status status = put_cost(p, &summary, diag);
    tmk_json_put_child(head, "summary", &summary);
    put_legend(head);
    for (size_t i = 0; status == TMK_OK && i < p->options->n_results; i++)
        status = report_results(p->profile, p->options->results[i], head, diag);
    return status;
}

/* {"summary": ..., "columns": ..., "values": [...]}; values one by one, since a tree of all of
 * them would be larger than the page. */
static enum tmk_status put_data(struct page *p, struct tmk_diag *diag) {
    struct tmk_json_out head = tmk_json_new_object();
    struct tmk_text json = {0};
    enum tmk_status status = put_head(p, &head, diag);
    if (status != TMK_OK) {
        cJSON_Delete(head.item);
        return status;
    }
    status = tmk_json_finish(&head, &json, diag);
    if (status == TMK_OK) {
        while (json.len && json.data[json.len - 1] != '}')
            json.len--;
        json.len--;
        put_safely(&p->text, &json);
        tmk_text_puts(&p->text, ",\"values\":[\n");
        status = put_values(p, diag);
        tmk_text_puts(&p->text, "\n]}");
    }
    tmk_text_finish(&json);
    return status;
}

/* The frame has {{css}}, {{data}} and {{js}}, once each and in this order. */
static enum tmk_status put_page(struct page *p, struct tmk_diag *diag) {
    static const char *const holes[] = {"{{css}}", "{{data}}", "{{js}}"};
    const char *at = tmk_report_frame;
    for (int i = 0; i < 3; i++) {
        const char *hole = strstr(at, holes[i]);
        tmk_text_append(&p->text, at, (size_t)(hole - at));
        at = hole + strlen(holes[i]);
        if (i == 1)
            TMK_TRY(put_data(p, diag));
        else
            tmk_text_puts(&p->text, i == 0 ? tmk_report_css : tmk_report_js);
    }
    tmk_text_puts(&p->text, at);
    return p->text.failed ? tmk_nomem(diag) : TMK_OK;
}

static void finish_page(struct page *p) {
    for (size_t i = 0; p->diffs && i < p->options->n_earlier; i++)
        tmk_diff_destroy(&p->diffs[i]);
    free(p->diffs);
    free(p->earlier);
    free(p->begins);
    tmk_text_finish(&p->text);
}

enum tmk_status tmk_report_page(const struct tmk_profile *profile,
                                const struct tmk_report_options *options,
                                const char *const *attributes, const char *path,
                                struct tmk_diag *diag) {
    struct page p = {.profile = profile, .options = options, .attributes = attributes};
    locale_t saved[2];
    if (options->encodings && options->encodings->model.fingerprint != profile->model.fingerprint)
        return tmk_fail(diag, TMK_MISMATCH,
                        "the encodings are of another model ('%s') than the profile ('%s')",
                        options->encodings->model.file, profile->model.file);
    TMK_TRY(tmk_check_ending(path, "html htm", diag));
    enum tmk_status status = tmk_locale_begin(saved, diag);
    if (status == TMK_OK) {
        status = compare_earlier(&p, diag);
        TMK_THEN(status, find_nonfinite(&p, diag));
        TMK_THEN(status, put_page(&p, diag));
        tmk_locale_end(saved);
    }
    TMK_THEN(status, tmk_file_write(path, p.text.data, p.text.len, diag));
    finish_page(&p);
    return status;
}
