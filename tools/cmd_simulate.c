/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/session.h>
#include <tidemark/simulate.h>

#include "command.h"
#include "run_options.h"
#include "simulate_search.h"
#include "table.h"
#include "target.h"

struct simulate_args {
    struct run_args run;
    const char *target, *requant, *rounding, *labels;
    bool integer, json, sort, wide;
    struct some rank;
    struct search_args search;
};

/* ---- printing ---- */

enum { CELL = 32 };

static void put_decibels(double sqnr, const char *otherwise, char out[CELL]) {
    if (isfinite(sqnr))
        snprintf(out, CELL, "%.2f", sqnr);
    else
        snprintf(out, CELL, "%s", otherwise);
}

static void put_number(double number) {
    if (isfinite(number))
        print_out("%.9g", number);
    else
        print_out("null");
}

static void put_row(const struct table *table, const struct tmk_simulated *v) {
    char id[CELL], sqnr[CELL], cosine[CELL], error[CELL], clipped[CELL] = "";
    const char *const cells[] = {
        id,    v->name, v->dtype ? tmk_dtype_name(v->dtype) : "float",     sqnr, cosine,
        error, clipped, v->output ? "output" : v->constant ? "weight" : ""};
    snprintf(id, CELL, "p%u", v->id);
    put_decibels(v->sqnr, "exact", sqnr);
    snprintf(cosine, CELL, "%.7f", v->cosine);
    snprintf(error, CELL, "%.5g", v->max_error);
    if (v->dtype)
        snprintf(clipped, CELL, "%.4f%%", 100 * v->clipped);
    table_row(table, cells, HUE_NONE);
}

static void put_json_row(const struct tmk_simulated *v) {
    print_out("{\"id\":\"p%u\",\"name\":", v->id);
    put_quoted(stdout, v->name);
    print_out(",\"dtype\":");
    put_quoted(stdout, v->dtype ? tmk_dtype_name(v->dtype) : "float32");
    print_out(",\"quantized\":%s,\"output\":%s,\"weight\":%s", v->dtype ? "true" : "false",
              v->output ? "true" : "false", v->constant ? "true" : "false");
    print_out(",\"sqnr\":");
    put_number(v->sqnr);
    print_out(",\"cosine\":%.12g,\"max_error\":%.9g,\"clipped\":%.9g,\"elements\":%llu}", v->cosine,
              v->max_error, v->clipped, (unsigned long long)v->elements);
}

static double percent_of(uint64_t part, uint64_t whole) {
    return whole ? (double)part / (double)whole : 1;
}

static void put_json_codes(const char *key, const struct tmk_code_difference *d) {
    print_out("\"%s\":{\"codes\":%llu,\"equal\":%.9g,\"largest_difference\":%lld}", key,
              (unsigned long long)d->codes, percent_of(d->equal, d->codes), (long long)d->largest);
}

static void put_json(const struct tmk_simulation *s) {
    print_out("{\"samples\":%llu", (unsigned long long)s->samples);
    if (s->predictions)
        print_out(",\"predictions\":%llu,\"agreement\":%.9g,\"agreement_interval\":[%.9g,%.9g]",
                  (unsigned long long)s->predictions, percent_of(s->agree, s->predictions),
                  s->agreement.low, s->agreement.high);
    if (s->labelled)
        print_out(",\"accuracy_float\":%.9g,\"accuracy_quantized\":%.9g,"
                  "\"accuracy_interval\":[%.9g,%.9g]",
                  percent_of(s->right_float, s->predictions),
                  percent_of(s->right_quantized, s->predictions), s->change.low, s->change.high);
    if (s->compared) {
        print_out(",\"against_float_requantization\":{");
        put_json_codes("alone", &s->alone);
        print_out(",");
        put_json_codes("whole", &s->whole);
        print_out("}");
    }
    print_out(",\"values\":[");
    for (uint32_t i = 0; i < s->n_values; i++) {
        print_out("%s", i ? "," : "");
        put_json_row(&s->values[i]);
    }
    print_out("],\"remarks\":[");
    for (uint32_t i = 0; i < s->n_remarks; i++) {
        print_out("%s", i ? "," : "");
        put_quoted(stdout, s->remarks[i]);
    }
    print_out("]}\n");
}

static void put_codes(const char *where, const struct tmk_code_difference *d) {
    print_out("against float requantization %s:\n"
              "  %.4f%% of %llu codes are equal, the largest difference is %lld\n",
              where, 100 * percent_of(d->equal, d->codes), (unsigned long long)d->codes,
              (long long)d->largest);
}

static void put_table(const struct tmk_simulation *s) {
    static const struct table_column columns[] = {
        {"id", 6},
        {"value", 36, .min = 12},
        {"type", 7},
        {"SQNR dB", 8, .right = true},
        {"cosine", 10, .leaves = 1, .right = true},
        {"max error", 11, .right = true},
        {"clipped", 9, .right = true},
        {"", 6},
    };
    struct table table;
    table_begin(&table, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < s->n_values; i++)
        put_row(&table, &s->values[i]);
    print_out("%llu samples\n", (unsigned long long)s->samples);
    if (s->labelled)
        print_out("accuracy: float %.2f%%, quantized %.2f%% of %llu; change %+.2f, 95%% %+.2f to "
                  "%+.2f\n",
                  100 * percent_of(s->right_float, s->predictions),
                  100 * percent_of(s->right_quantized, s->predictions),
                  (unsigned long long)s->predictions,
                  100 * ((double)s->right_quantized - (double)s->right_float) /
                      (double)s->predictions,
                  100 * s->change.low, 100 * s->change.high);
    if (s->predictions)
        print_out("same class: %.2f%%, 95%% %.2f to %.2f\n",
                  100 * percent_of(s->agree, s->predictions), 100 * s->agreement.low,
                  100 * s->agreement.high);
    if (s->compared) {
        put_codes("of the same accumulators", &s->alone);
        put_codes("in the whole network", &s->whole);
    }
    print_remark("ran for %.2f s", s->seconds);
    for (uint32_t i = 0; i < s->n_remarks; i++)
        print_remark("%s", s->remarks[i]);
}

static int worst_first(const void *a, const void *b) {
    const double x = ((const struct tmk_simulated *)a)->sqnr,
                 y = ((const struct tmk_simulated *)b)->sqnr;
    return (x > y) - (x < y);
}

/* ---- ranking ---- */

static void put_ranking(const struct tmk_ranking *ranking, bool json) {
    static const struct table_column columns[] = {{"id", 6},
                                                  {"value", 36, .min = 12},
                                                  {"type", 7},
                                                  {"outputs' dB", 12, .right = true},
                                                  {"expected dB", 12, .right = true}};
    struct table table;
    if (json)
        print_out("{\"samples\":%llu,\"not_tried\":%u,\"ranking\":[",
                  (unsigned long long)ranking->samples, ranking->left_out);
    else
        table_begin(&table, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < ranking->n; i++) {
        const struct tmk_sensitivity *v = &ranking->values[i];
        if (json) {
            print_out("%s{\"id\":\"p%u\",\"name\":", i ? "," : "", v->id);
            put_quoted(stdout, v->name);
            print_out(",\"dtype\":\"%s\",\"sqnr\":", tmk_dtype_name(v->dtype));
            put_number(v->sqnr);
            print_out(",\"expected_sqnr\":");
            put_number(v->expected);
            print_out("}");
        } else {
            char id[CELL], sqnr[CELL], expected[CELL];
            const char *const cells[] = {id, v->name, tmk_dtype_name(v->dtype), sqnr, expected};
            snprintf(id, CELL, "p%u", v->id);
            put_decibels(v->sqnr, "no change", sqnr);
            put_decibels(v->expected, "?", expected);
            table_row(&table, cells, HUE_NONE);
        }
    }
    if (json)
        print_out("]}\n");
    else
        print_out("each value quantized alone, on %llu samples; %u not tried\n",
                  (unsigned long long)ranking->samples, ranking->left_out);
}

static enum tmk_status rank_values(struct tmk_model *model, const struct tmk_encodings *encodings,
                                   const struct tmk_run_options *run,
                                   const struct simulate_args *args, struct tmk_diag *diag) {
    struct tmk_ranking *ranking = NULL;
    enum tmk_status status =
        tmk_model_rank(model, encodings, run, (uint32_t)args->rank.n, &ranking, diag);
    end_progress();
    if (status == TMK_OK)
        put_ranking(ranking, args->json);
    tmk_ranking_destroy(&ranking);
    return status;
}

/* ---- the command ---- */

/* False after an error message. */
static bool make_options(const struct command *command, const struct simulate_args *args,
                         const struct tmk_encodings *encodings, struct tmk_simulate_options *out) {
    struct tmk_simulate_options o = {.integer = args->integer || args->requant || args->rounding,
                                     .rounding = encodings->rounding,
                                     .pow2 = encodings->pow2_requant,
                                     .labels = args->labels};
    if (args->requant) {
        o.pow2 = strcmp(args->requant, "pow2") == 0;
        if (strcmp(args->requant, "float") == 0)
            o.rounding = TMK_ROUNDING_FLOAT_RNE;
        else if (o.rounding == TMK_ROUNDING_FLOAT_RNE)
            o.rounding = TMK_ROUNDING_SINGLE_HALF_UP;
    }
    if (args->rounding && !tmk_rounding_by_name(args->rounding, &o.rounding)) {
        (void)wrong_call(command,
                         "there is no rounding '%s'; there are single_half_up, single_half_away, "
                         "gemmlowp_double and float_rne",
                         args->rounding);
        return false;
    }
    *out = o;
    return true;
}

static enum tmk_status compare_models(struct tmk_model *model,
                                      const struct tmk_encodings *encodings,
                                      const struct tmk_run_options *run,
                                      const struct tmk_simulate_options *options,
                                      const struct simulate_args *args, struct tmk_diag *diag) {
    struct tmk_simulation *simulation = NULL;
    enum tmk_status status = tmk_model_simulate(model, encodings, run, options, &simulation, diag);
    end_progress();
    if (status == TMK_OK && args->sort)
        qsort(simulation->values, simulation->n_values, sizeof *simulation->values, worst_first);
    if (status == TMK_OK)
        (args->json ? put_json : put_table)(simulation);
    tmk_simulation_destroy(&simulation);
    return status;
}

/* The target is to compute the encodings. */
static enum tmk_status check_target(const struct tmk_model *model,
                                    const struct tmk_encodings *encodings,
                                    const struct tmk_target *target, struct tmk_diag *diag) {
    struct tmk_profile *values = NULL;
    uint32_t found = 0;
    enum tmk_status status = target ? tmk_model_skeleton(model, &values, diag) : TMK_OK;
    if (status == TMK_OK && target)
        status = tmk_target_check(target, encodings, values, hear_remark, NULL, &found, diag);
    if (found)
        warn_of("%u uses of codes that %s does not allow", found, tmk_target_name(target));
    tmk_profile_destroy(&values);
    return status;
}

static int simulate_model(const struct command *command, const struct simulate_args *args,
                          const struct words *rest, const struct tmk_run_options *run) {
    struct tmk_diag diag = {0};
    struct tmk_encodings *encodings = NULL;
    struct tmk_model *model = NULL;
    struct tmk_target *target = NULL;
    struct tmk_simulate_options options;
    struct search_args search = args->search;
    search.labels = args->labels;
    search.json = args->json;
    enum tmk_status status = tmk_encodings_read(rest->items[1], &encodings, &diag);
    if (status == TMK_OK && !make_options(command, args, encodings, &options)) {
        tmk_encodings_destroy(&encodings);
        return EXIT_WRONG_CALL;
    }
    if (status == TMK_OK)
        status = tmk_model_open_params(rest->items[0], args->run.params, false, &model, &diag);
    if (status == TMK_OK)
        status = open_target(args->target, &target, &diag);
    if (status == TMK_OK)
        status = check_target(model, encodings, target, &diag);
    if (status == TMK_OK)
        status = args->search.on ? search_encodings(model, encodings, target, run, &search, &diag)
                 : args->rank.given ? rank_values(model, encodings, run, args, &diag)
                                    : compare_models(model, encodings, run, &options, args, &diag);
    tmk_target_close(&target);
    tmk_model_close(&model);
    tmk_encodings_destroy(&encodings);
    return status == TMK_OK ? EXIT_DONE : report_error(status, &diag);
}

static bool is_requant(const char *word) {
    return strcmp(word, "float") == 0 || strcmp(word, "fixed") == 0 || strcmp(word, "pow2") == 0;
}

static int run_simulate(const struct command *command, int argc, char **argv) {
    struct simulate_args args = {0};
    struct words rest = {0};
    const struct option_row options[] = {
        RUN_OPTION_ROWS(args.run),
        {"integer", 0, OPTION_FLAG, NULL,
         "integer arithmetic (default: float operators between quantized values)", &args.integer},
        {"requant", 0, OPTION_TEXT, "HOW",
         "integer arithmetic whose sums become codes by float, fixed (a multiplier and "
         "a shift) or pow2 (a shift); default: as in the encodings",
         &args.requant},
        {"rounding", 0, OPTION_TEXT, "NAME",
         "integer arithmetic rounded so: single_half_up, single_half_away, gemmlowp_double or "
         "float_rne",
         &args.rounding},
        TARGET_OPTION_ROW(args.target),
        {"labels", 0, OPTION_INPUT, "WHICH",
         "the right classes: a .npy, or the name of an array in an .npz of the data (default: "
         "'labels', where there is one)",
         &args.labels},
        {"sort", 0, OPTION_FLAG, NULL, "the values that lose most first", &args.sort},
        {"rank", 0, OPTION_SOME, "N",
         "instead: what each value costs the outputs when it alone is quantized, of the "
         "N (64) of which most is expected, on --limit (8) samples",
         &args.rank},
        SEARCH_OPTION_ROWS(args.search),
        WIDE_OPTION_ROW(args.wide),
        {"json", 0, OPTION_FLAG, NULL, "an object instead of the table", &args.json},
        {0}};
    struct tmk_run_options run;
    int exit_status;
    if (!parse_options(command, options, argc, argv, &rest, &exit_status))
        goto end;
    if (args.wide)
        table_widen();
    exit_status = EXIT_WRONG_CALL;
    if (wants_targets(args.target))
        exit_status = list_targets();
    else if (rest.n < 2)
        wrong_call(command, rest.n < 1 ? "which MODEL?" : "which encodings? MODEL ENC.json");
    else if (args.requant && !is_requant(args.requant))
        wrong_call(command, "--requant is float, fixed or pow2, and not '%s'", args.requant);
    else if (args.rank.n > UINT32_MAX)
        wrong_call(command, "--rank is too large");
    else if (!check_search(command, &args.search))
        ; /* it said why */
    else if (make_run_options(command, &args.run, &rest, 2, &run, &exit_status))
        exit_status = simulate_model(command, &args, &rest, &run);
end:
    finish_run_args(&args.run);
    free(args.search.data.items);
    free(rest.items);
    return exit_status;
}

const struct command command_simulate = {
    "simulate",
    "compare the quantized model with the float one",
    "MODEL ENC.json --data SRC...",
    "Runs both and prints the error of each value: signal-to-noise ratio, cosine, largest error,\n"
    "share of clipped elements; and how often both networks predict the same class, and the\n"
    "right one.",
    "tidemark simulate digits.onnx encodings.json --data digits.npy --requant fixed --sort",
    run_simulate,
};
