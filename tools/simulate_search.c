/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

enum { CELL = 32 };

/* ---- options ---- */

/* "128", "60s", "128,60s" */
static bool read_budget(const char *text, struct search_args *out) {
    while (*text) {
        char *end = NULL;
        const double number = strtod(text, &end);
        const bool seconds = end != text && *end == 's';
        if (end == text || !isfinite(number) || number <= 0 || strchr("+-", *text))
            return false;
        end += seconds;
        if (seconds ? out->seconds > 0
                    : out->tries || number > UINT32_MAX || floor(number) != number)
            return false;
        if (seconds)
            out->seconds = number;
        else
            out->tries = (uint32_t)number;
        if (*end && (*end != ',' || !end[1]))
            return false;
        text = *end ? end + 1 : end;
    }
    return out->tries || out->seconds > 0;
}

bool check_search(const struct command *command, struct search_args *a) {
    const bool more = a->goal || a->budget || a->data.n || a->write_config || a->metric ||
                      a->metric_seconds > 0 || a->config;
    if (a->on != (a->profile && a->output))
        wrong_call(command, "--search takes --profile and -o, and they go with --search");
    else if (!a->on && more)
        wrong_call(command, "--goal, --budget, --search-data, --config, --write-config and "
                            "--metric-command go with --search");
    else if (a->goal && !tmk_goal_read(a->goal, &a->goal_kind, &a->goal_value))
        wrong_call(command,
                   "--goal %s: decibels, accuracy or metric: 30dB, accuracy-0.5%%, "
                   "metric-1%%",
                   a->goal);
    else if (a->goal_kind == TMK_GOAL_METRIC && !a->metric)
        wrong_call(command, "--goal %s takes --metric-command", a->goal);
    else if (a->budget && !read_budget(a->budget, a))
        wrong_call(command, "--budget %s: a number of tries, seconds, or both: 128, 60s, 128,60s",
                   a->budget);
    else if (a->metric_seconds < 0 || !isfinite(a->metric_seconds))
        wrong_call(command, "--metric-timeout is a number of seconds");
    else
        return true;
    return false;
}

/* ---- printing ---- */

static void print_choice(void *context, const char *text) {
    (void)context;
    print_remark("%s", text);
}

/* Is there another with as much that costs less? By what the search goes by. */
static bool is_beaten(const struct tmk_search_result *r, uint32_t i) {
    const struct tmk_search_point *p = &r->points[i];
    const bool judged = isfinite(p->judged);
    for (uint32_t k = 0; k < r->n_points; k++) {
        const struct tmk_search_point *q = &r->points[k];
        const double here = judged ? p->judged : p->sqnr, there = judged ? q->judged : q->sqnr;
        if (k != i && there >= here && q->bytes <= p->bytes && q->share8 >= p->share8 &&
            (k < i || there > here || q->bytes < p->bytes || q->share8 > p->share8))
            return true;
    }
    return false;
}

/* One measure of all figures, where there is one. */
static void put_measure(const char *key, const double figures[6]) {
    static const char *const names[] = {"float",        "before",        "after",
                                        "judged_float", "judged_before", "judged_after"};
    if (!isfinite(figures[0]))
        return;
    print_out(",\"%s\":{\"float\":%.9g", key, figures[0]);
    for (int i = 1; i < 6; i++)
        put_member(names[i], figures[i]);
    print_out("}");
}

static const char *judged_name(enum tmk_judged judged) {
    return judged == TMK_JUDGED_CROSSED ? "crossed" : judged == TMK_JUDGED_APART ? "data" : "not";
}

static void put_json(const struct tmk_search_result *r) {
    const bool judged = r->judged != TMK_JUDGED_NOT;
    const struct tmk_search_quality none = {NAN, NAN, NAN, NAN},
                                    *q[] = {&r->in_float,
                                            &r->before,
                                            &r->after,
                                            judged ? &r->judged_float : &none,
                                            judged ? &r->judged_before : &none,
                                            judged ? &r->judged_after : &none};
    double accuracy[6], metric[6];
    for (int i = 0; i < 6; i++) {
        accuracy[i] = q[i]->accuracy;
        metric[i] = q[i]->metric;
    }
    print_out("{\"samples\":%llu,\"from\":%llu,\"judged\":%llu,\"judged_from\":%llu,"
              "\"judged_by\":\"%s\"",
              (unsigned long long)r->samples, (unsigned long long)r->from,
              (unsigned long long)r->judged_samples, (unsigned long long)r->judged_from,
              judged_name(r->judged));
    print_out(",\"tried\":%u,\"chosen\":%u,\"out_of_time\":%s", r->tried, r->chosen,
              r->out_of_time ? "true" : "false");
    put_member("before", r->before.sqnr);
    put_member("after", r->after.sqnr);
    put_member("judged_before", q[4]->sqnr);
    put_member("judged_after", q[5]->sqnr);
    put_measure("accuracy", accuracy);
    put_measure("metric", metric);
    if (isfinite(q[5]->margin))
        put_member("accuracy_margin", q[5]->margin);
    print_out(",\"points\":[");
    for (uint32_t i = 0; i < r->n_points; i++) {
        const struct tmk_search_point *p = &r->points[i];
        print_out("%s{\"bytes\":%.0f,\"share8\":%.6g,\"front\":%s", i ? "," : "", p->bytes,
                  p->share8, is_beaten(r, i) ? "false" : "true");
        put_member("sqnr", p->sqnr);
        if (isfinite(p->judged))
            put_member("judged", p->judged);
        print_out("}");
    }
    print_out("]}\n");
}

static void put_front(const struct tmk_search_result *r) {
    const bool metric = isfinite(r->in_float.metric), judged = isfinite(r->points[0].judged);
    const struct table_column columns[] = {{"outputs' dB", 12, .right = true},
                                           {"weights, bytes", 15, .right = true},
                                           {"8-bit products", 15, .right = true},
                                           {metric ? "metric" : "accuracy", 12, .right = true}};
    struct table table;
    table_begin(&table, columns, judged ? 4 : 3);
    for (uint32_t i = 0; i < r->n_points; i++) {
        const struct tmk_search_point *p = &r->points[i];
        char sqnr[CELL] = "no change", bytes[CELL], share[CELL], by[CELL];
        const char *const cells[] = {sqnr, bytes, share, by};
        if (is_beaten(r, i))
            continue;
        if (isfinite(p->sqnr))
            snprintf(sqnr, CELL, "%.2f", p->sqnr);
        snprintf(bytes, CELL, "%.0f", p->bytes);
        snprintf(share, CELL, "%.1f%%", 100 * p->share8);
        snprintf(by, CELL, metric ? "%.6g" : "%.2f%%", metric ? p->judged : 100 * p->judged);
        table_row(&table, cells, HUE_NONE);
    }
}

static void put_quality(const struct tmk_search_quality *in_float,
                        const struct tmk_search_quality *before,
                        const struct tmk_search_quality *after) {
    print_out("  outputs: %.2f dB before, %.2f dB after\n", before->sqnr, after->sqnr);
    if (isfinite(after->accuracy))
        print_out("  accuracy: %.2f%% before, %.2f%% after, %.2f%% in float; after less float "
                  "%+.2f, 95%% within %.2f\n",
                  100 * before->accuracy, 100 * after->accuracy, 100 * in_float->accuracy,
                  100 * (after->accuracy - in_float->accuracy), 100 * after->margin);
    if (isfinite(after->metric))
        print_out("  metric: %.6g before, %.6g after, %.6g in float\n", before->metric,
                  after->metric, in_float->metric);
}

static void put_result(const struct tmk_search_result *r, const struct search_args *args) {
    const unsigned long long from = r->from, n = r->samples;
    put_front(r);
    if (args->data.n)
        print_out("chosen by %llu samples of --search-data", n);
    else
        print_out("chosen by %llu samples of --data, from %llu", n, from);
    print_out("; %u tried, %u chosen%s:\n", r->tried, r->chosen,
              r->out_of_time ? ", out of time" : "");
    put_quality(&r->in_float, &r->before, &r->after);
    if (r->judged == TMK_JUDGED_NOT) {
        print_out("on others: not judged, too few samples to leave any out\n");
        return;
    }
    if (r->judged == TMK_JUDGED_APART)
        print_out("on %llu other samples of --data, from %llu:\n",
                  (unsigned long long)r->judged_samples, (unsigned long long)r->judged_from);
    else
        print_out("cross-validated, 2 folds: samples before %llu, and the others:\n",
                  (unsigned long long)r->split);
    put_quality(&r->judged_float, &r->judged_before, &r->judged_after);
}

/* ---- searching ---- */

enum tmk_status search_encodings(struct tmk_model *model, const struct tmk_encodings *encodings,
                                 const struct tmk_target *target, const struct tmk_run_options *run,
                                 const struct search_args *args, struct tmk_diag *diag) {
    struct metric_command metric = {args->metric,
                                    args->metric_seconds > 0 ? args->metric_seconds : 600};
    struct tmk_search_options options = {.config = args->config,
                                         .target = target,
                                         .budget = args->tries,
                                         .seconds = args->seconds,
                                         .goal = args->goal_kind,
                                         .goal_value = args->goal_value,
                                         .labels = args->labels,
                                         .search_data = args->data.items,
                                         .n_search_data = args->data.n,
                                         .write_config = args->write_config,
                                         .report = print_choice};
    struct tmk_profile *profile = NULL;
    struct tmk_encodings *better = NULL;
    struct tmk_search_result result;
    if (args->metric)
        options.metric = (struct tmk_search_metric){run_metric, &metric};
    enum tmk_status status = tmk_profile_read(args->profile, &profile, diag);
    options.profile = profile;
    if (status == TMK_OK)
        status = tmk_model_search(model, encodings, run, &options, &better, &result, diag);
    if (status == TMK_OK)
        status = tmk_encodings_write(better, args->output, diag);
    end_progress();
    if (status == TMK_OK) {
        if (args->json)
            put_json(&result);
        else if (!is_quiet())
            put_result(&result, args);
        print_remark("wrote %s", args->output);
    }
    tmk_encodings_destroy(&better);
    tmk_profile_destroy(&profile);
    return status;
}
