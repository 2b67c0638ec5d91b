/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/encodings.h>
#include <tidemark/guess.h>
#include <tidemark/model.h>

#include "command.h"
#include "table.h"
#include "target.h"
#include "warnings.h"

enum { MOST_BLOCK = 65536 };

struct calibrate_args {
    const char *target, *output, *dtype, *weights_dtype, *rounding, *model, *params;
    double percentile;
    uint64_t block;
    bool per_channel, weights_per_tensor, pow2, json, list, wide;
    struct tmk_calibrate_options options;
};

/* ---- the table ---- */

enum column { ID, NAME, ROLE, TYPE, SCHEME, SCALE, ZERO, LOW, HIGH, METHOD, SQNR, CLIP, RULE };
static const struct table_column columns[] = {
    [ID] = {"id", 5},
    [NAME] = {"name", 32, .min = 12},
    [ROLE] = {"role", 10, .leaves = 6},
    [TYPE] = {"type", 6},
    [SCHEME] = {"", 4, .leaves = 3},
    [SCALE] = {"scale", 17, .leaves = 5},
    [ZERO] = {"zero", 5, .leaves = 4, .right = true},
    [LOW] = {"low", 11, .right = true},
    [HIGH] = {"high", 11, .right = true},
    [METHOD] = {"method", 10, .leaves = 1},
    [SQNR] = {"SQNR dB", 7, .right = true},
    [CLIP] = {"clip %", 7, .leaves = 2, .right = true},
    [RULE] = {"rule", 0},
};
enum { COLUMNS = sizeof columns / sizeof *columns, CELL = 64, RULE_CELL = 512 };

static void put_number(bool known, double value, char out[CELL]) {
    if (!known)
        snprintf(out, CELL, "-");
    else if (isinf(value))
        snprintf(out, CELL, "exact");
    else
        snprintf(out, CELL, "%.2f", value);
}

static void put_rule(const struct tmk_encoding *e, char out[RULE_CELL]) {
    size_t used = (size_t)snprintf(out, RULE_CELL, "%s", e->rule);
    if (e->group)
        used +=
            (size_t)snprintf(out + used, RULE_CELL - used, "%s#%u", *e->rule ? " " : "", e->group);
    if (e->group && e->expected.known && e->expected.tying > 1.005)
        used += (size_t)snprintf(out + used, RULE_CELL - used, " (tying: error x %.3g)",
                                 e->expected.tying);
    for (uint32_t i = 0; i < e->n_uses && used < RULE_CELL; i++)
        used +=
            (size_t)snprintf(out + used, RULE_CELL - used, "%s%s '%s' input %u", i ? ", " : " for ",
                             e->uses[i].op, e->uses[i].node, e->uses[i].input);
}

static void print_item(const struct table *table, const struct tmk_encoding *e) {
    float low = e->low[0], high = e->high[0], min = e->scale[0], most = e->scale[0];
    char text[COLUMNS][CELL] = {{0}}, rule[RULE_CELL];
    const char *cells[COLUMNS];
    for (uint32_t i = 1; i < e->n; i++) {
        low = fminf(low, e->low[i]);
        high = fmaxf(high, e->high[i]);
        min = fminf(min, e->scale[i]);
        most = fmaxf(most, e->scale[i]);
    }
    for (int i = 0; i < COLUMNS; i++)
        cells[i] = text[i];
    snprintf(text[ID], CELL, "p%u", e->id);
    if (e->axis >= 0)
        snprintf(text[SCALE], CELL, "%.2g..%.2g", (double)min, (double)most);
    else
        snprintf(text[SCALE], CELL, "%.6g", (double)min);
    if (e->n == 1)
        snprintf(text[ZERO], CELL, "%d", e->zero_point[0]);
    snprintf(text[LOW], CELL, "%.5g", (double)low);
    snprintf(text[HIGH], CELL, "%.5g", (double)high);
    put_number(e->expected.known, e->expected.sqnr, text[SQNR]);
    put_number(e->expected.known, 100 * e->expected.clipped, text[CLIP]);
    put_rule(e, rule);
    cells[NAME] = e->name;
    cells[ROLE] = tmk_encoding_role_name(e->role);
    cells[TYPE] = tmk_dtype_name(e->dtype);
    cells[SCHEME] = e->symmetric ? "sym" : "asym";
    cells[METHOD] = e->method;
    cells[RULE] = rule;
    table_row(table, cells, HUE_NONE);
}

/* ---- what stays float ---- */

/* A reason without what it names: " 'conv1'". */
static void generalize_reason(const char *reason, char out[RULE_CELL]) {
    size_t used = 0;
    while (*reason && used + 1 < RULE_CELL) {
        const char *end = strncmp(reason, " '", 2) == 0 ? strchr(reason + 2, '\'') : NULL;
        if (end)
            reason = end + 1;
        else
            out[used++] = *reason++;
    }
    out[used] = '\0';
}

struct reason {
    char text[RULE_CELL];
    uint32_t n;
};

static int most_first(const void *a, const void *b) {
    const struct reason *x = a, *y = b;
    return x->n == y->n ? strcmp(x->text, y->text) : x->n < y->n ? 1 : -1;
}

/* How many for which reason. */
static void sum_up_left(const struct tmk_encodings *all) {
    enum { MOST = 64, INDENT = 10 };
    struct reason reasons[MOST] = {0};
    uint32_t n = 0, others = 0;
    for (uint32_t i = 0; i < all->n_left; i++) {
        char text[RULE_CELL];
        uint32_t at = 0;
        generalize_reason(all->left[i].reason, text);
        while (at < n && strcmp(reasons[at].text, text) != 0)
            at++;
        if (at == n && n < MOST)
            memcpy(reasons[n++].text, text, sizeof text);
        if (at < n)
            reasons[at].n++;
        else
            others++;
    }
    qsort(reasons, n, sizeof *reasons, most_first);
    print_out("\n%u values stay float (--list names them):\n", all->n_left);
    for (uint32_t i = 0; i < n; i++)
        print_wrapped(reasons[i].text, print_out("%8u  ", reasons[i].n), INDENT);
    if (others)
        print_out("%8u  for other reasons\n", others);
}

static void list_left(const struct tmk_encodings *all) {
    static const struct table_column of_left[] = {
        {"id", 5}, {"stays float", 32, .min = 12}, {"why", 0}};
    struct table table;
    print_out("\n");
    table_begin(&table, of_left, sizeof of_left / sizeof *of_left);
    for (uint32_t i = 0; i < all->n_left; i++) {
        char id[16];
        snprintf(id, sizeof id, "p%u", all->left[i].id);
        const char *const cells[] = {id, all->left[i].name, all->left[i].reason};
        table_row(&table, cells, HUE_NONE);
    }
}

static void print_table(const struct tmk_encodings *all, bool list) {
    struct table table;
    table_begin(&table, columns, COLUMNS);
    for (uint32_t i = 0; i < all->n_items; i++)
        print_item(&table, &all->items[i]);
    if (all->n_left)
        (list ? list_left : sum_up_left)(all);
}

static void put_json(const struct tmk_encodings *all, const char *file) {
    print_out("{\"file\":");
    put_quoted(stdout, file);
    print_out(",\"encodings\":[");
    for (uint32_t i = 0; i < all->n_items; i++) {
        const struct tmk_encoding *e = &all->items[i];
        print_out(i ? ",\n " : "");
        print_out("{\"id\":\"p%u\",\"name\":", e->id);
        put_quoted(stdout, e->name);
        print_out(",\"role\":\"%s\",\"dtype\":\"%s\",\"scales\":%u,\"low\":%.9g,\"high\":%.9g,"
                  "\"method\":",
                  tmk_encoding_role_name(e->role), tmk_dtype_name(e->dtype), e->n,
                  (double)e->low[0], (double)e->high[0]);
        put_quoted(stdout, e->method);
        print_out(",\"rule\":");
        put_quoted(stdout, e->rule);
        if (e->expected.known && isfinite(e->expected.sqnr))
            print_out(",\"sqnr\":%.6g", e->expected.sqnr);
        if (e->expected.known)
            print_out(",\"clipped\":%.6g", e->expected.clipped);
        print_out(",\"uses\":%u}", e->n_uses);
    }
    print_out("],\n\"left\":[");
    for (uint32_t i = 0; i < all->n_left; i++) {
        print_out(i ? ",\n " : "");
        print_out("{\"id\":\"p%u\",\"name\":", all->left[i].id);
        put_quoted(stdout, all->left[i].name);
        print_out(",\"reason\":");
        put_quoted(stdout, all->left[i].reason);
        print_out("}");
    }
    print_out("],\n\"requants\":%u}\n", all->n_requants);
}

static void sum_up(const struct tmk_encodings *all, const char *output) {
    uint32_t roles[3] = {0};
    double error = 0;
    for (uint32_t i = 0; i < all->n_items; i++)
        roles[all->items[i].role]++;
    for (uint32_t i = 0; i < all->n_requants; i++)
        error = fmax(error, all->requants[i].error);
    print_remark("%u activations, %u weights, %u biases quantized; %u values stay float",
                 roles[TMK_ENCODING_ACTIVATION], roles[TMK_ENCODING_WEIGHT],
                 roles[TMK_ENCODING_BIAS], all->n_left);
    if (all->n_requants)
        print_remark("%u requantizations in fixed point, %s: at most %.6g codes off",
                     all->n_requants, tmk_rounding_name(all->rounding), error);
    print_remark("wrote %s", output);
}

/* ---- the call ---- */

/* The model whose weights are looked at: what --model names, or the profile's, where it is found;
 * NULL where it is not, and nothing needs it. */
static enum tmk_status open_weights(const struct calibrate_args *args, const char *path,
                                    const struct tmk_profile *profile, struct tmk_model **out,
                                    struct tmk_diag *diag) {
    const struct tmk_calibrate_choice *weights = &args->options.weights;
    const bool minmax = weights->method && strcmp(weights->method, "minmax") == 0;
    if (args->model)
        return tmk_model_open_params(args->model, args->params, true, out, diag);
    if (minmax && !weights->block)
        return TMK_OK;
    const enum tmk_status status = tmk_model_open_profiled(profile, path, args->params, out, diag);
    const bool memory = status == TMK_NOMEM || status == TMK_LIMIT;
    if (!weights->method && !weights->block && !memory)
        return TMK_OK;
    if (status != TMK_OK || *out)
        return status;
    snprintf(
        diag->text, sizeof diag->text,
        "the weights are asked for: --model FILE (%.400s, as it was profiled, is neither beside "
        "the profile nor in the current folder)",
        profile->model.file);
    return diag->status = TMK_NOTFOUND;
}

/* Where the weights were not looked at, though nothing speaks against it. */
static void remark_on_extremes(const struct calibrate_args *args, const struct tmk_model *model,
                               const struct tmk_encodings *all, const struct tmk_profile *profile) {
    const struct tmk_calibrate_choice *weights = &args->options.weights;
    if (model || weights->method || weights->block || args->options.config)
        return;
    for (uint32_t i = 0; i < all->n_items; i++)
        if (all->items[i].role == TMK_ENCODING_WEIGHT) {
            print_remark(
                "weights have their extremes; --model %s, as it was profiled, gives ranges "
                "that are chosen for the outputs",
                *profile->model.file ? profile->model.file : "FILE");
            return;
        }
}

static int calibrate_profile(const char *path, const struct calibrate_args *args) {
    struct tmk_diag diag = {0};
    struct tmk_target *target = NULL;
    struct tmk_model *model = NULL;
    struct tmk_calibrate_options options = args->options;
    struct tmk_profile *profile = NULL;
    struct tmk_encodings *all = NULL;
    enum tmk_status status = open_target(args->target, &target, &diag);
    options.target = target;
    if (status == TMK_OK)
        status = tmk_profile_read(path, &profile, &diag);
    if (status == TMK_OK)
        status = open_weights(args, path, profile, &model, &diag);
    options.constant = model ? tmk_model_constant : NULL;
    options.codes = model ? tmk_model_codes : NULL;
    options.model = model;
    if (status == TMK_OK)
        status = tmk_calibrate(profile, &options, &all, &diag);
    if (status == TMK_OK)
        status = tmk_encodings_write(all, args->output, &diag);
    if (status == TMK_OK && args->json)
        put_json(all, args->output);
    else if (status == TMK_OK && (args->list || !is_quiet()))
        print_table(all, args->list);
    if (status == TMK_OK) {
        remark_on_thinned(profile);
        remark_on_extremes(args, model, all, profile);
        sum_up(all, args->output);
    }
    tmk_encodings_destroy(&all);
    tmk_profile_destroy(&profile);
    tmk_model_close(&model);
    tmk_target_close(&target);
    return status == TMK_OK ? EXIT_DONE : report_error(status, &diag);
}

static bool is_method(const char *wanted, struct tmk_guess *guess) {
    const char *name, *help;
    for (size_t i = 0; tmk_calibrate_method(i, &name, &help); i++) {
        tmk_guess_try(guess, name);
        if (strcmp(name, wanted) == 0)
            return true;
    }
    return false;
}

static void describe_methods(char *out, size_t size) {
    const char *name, *help;
    size_t used = (size_t)snprintf(out, size, "how ranges of activations are found:");
    for (size_t i = 0; tmk_calibrate_method(i, &name, &help) && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s %s, %s", i ? ";" : "", name, help);
}

static const char *list_methods(char *out, size_t size) {
    const char *name, *help;
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; tmk_calibrate_method(i, &name, &help) && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", name);
    return out;
}

static bool is_scheme(const char *scheme) {
    return strcmp(scheme, "symmetric") == 0 || strcmp(scheme, "asymmetric") == 0;
}

/* What is wrong with the call's words; true: nothing. */
static bool check_arguments(const struct command *command, struct calibrate_args *args,
                            int *exit_status) {
    struct tmk_calibrate_choice *a = &args->options.activations, *w = &args->options.weights;
    const char *schemes[] = {a->scheme, w->scheme};
    char list[256], meant[TMK_GUESS_SIZE];
    struct tmk_guess method = {.wanted = a->method ? a->method : ""};
    if (a->method && !is_method(a->method, &method)) {
        *exit_status = wrong_call(command, "--method %s%s: there are %s", a->method,
                                  tmk_guess_text(&method, meant), list_methods(list, sizeof list));
        return false;
    }
    if (args->percentile > 0 && !(args->percentile > 50 && args->percentile <= 100)) {
        *exit_status =
            wrong_call(command, "--percentile %g: above 50, up to 100", args->percentile);
        return false;
    }
    if (args->percentile > 0 && a->method && strcmp(a->method, "percentile") != 0) {
        *exit_status = wrong_call(command, "--percentile does not go with --method %s", a->method);
        return false;
    }
    for (int i = 0; i < 2; i++)
        if (schemes[i] && !is_scheme(schemes[i])) {
            *exit_status = wrong_call(command, "--%sscheme %s: symmetric or asymmetric",
                                      i ? "weights-" : "", schemes[i]);
            return false;
        }
    if (w->method && strcmp(w->method, "auto") != 0 && strcmp(w->method, "minmax") != 0 &&
        strcmp(w->method, "mse") != 0 && strcmp(w->method, "l4") != 0) {
        *exit_status =
            wrong_call(command, "--weights-method %s: auto, minmax, mse or l4", w->method);
        return false;
    }
    if (args->block == 1 || args->block > MOST_BLOCK) {
        *exit_status = wrong_call(command, "--weights-block: 2 to %d", MOST_BLOCK);
        return false;
    }
    w->block = (uint32_t)args->block;
    const char *types[] = {args->dtype, args->weights_dtype};
    enum tmk_dtype *out[] = {&a->dtype, &w->dtype};
    for (int i = 0; i < 2; i++) {
        *out[i] = types[i] ? tmk_dtype_by_name(types[i]) : TMK_UNDEFINED;
        if (types[i] && *out[i] == TMK_UNDEFINED) {
            struct tmk_guess type = {.wanted = types[i]};
            for (int d = TMK_UNDEFINED + 1; d < TMK_N_DTYPES; d++)
                tmk_guess_try(&type, tmk_dtype_name((enum tmk_dtype)d));
            *exit_status = wrong_call(command, "--%sdtype %s%s: there is no such type",
                                      i ? "weights-" : "", types[i], tmk_guess_text(&type, meant));
            return false;
        }
    }
    if (args->rounding && !tmk_rounding_by_name(args->rounding, &args->options.rounding)) {
        *exit_status = wrong_call(command,
                                  "--rounding %s: single_half_up, single_half_away, "
                                  "gemmlowp_double or float_rne",
                                  args->rounding);
        return false;
    }
    if (args->percentile > 0) {
        a->method = "percentile";
        a->parameter = args->percentile;
    }
    a->scales = args->per_channel ? "channel" : NULL;
    w->scales = args->weights_per_tensor ? "tensor" : NULL;
    a->pow2 = w->pow2 = args->pow2;
    return true;
}

static int run_calibrate(const struct command *command, int argc, char **argv) {
    struct calibrate_args args = {.options.remark = hear_warning};
    struct words rest = {0};
    char method_help[2048];
    describe_methods(method_help, sizeof method_help);
    const struct option_row options[] = {
        {"output", 'o', OPTION_OUTPUT, "FILE", "where to write the encodings, a .json",
         &args.output},
        {"method", 0, OPTION_TEXT, "NAME", method_help, &args.options.activations.method},
        {"percentile", 0, OPTION_REAL, "P", "the method percentile, with P percent, such as 99.99",
         &args.percentile},
        {"dtype", 0, OPTION_TEXT, "TYPE", "of activations: uint8, int8, uint16, int16, int4 ...",
         &args.dtype},
        {"weights-method", 0, OPTION_TEXT, "NAME",
         "how ranges of weights are found: auto the range with the least error of the sums that "
         "they are multiplied into, the default where the model is found; minmax; mse, l4 the "
         "range with the least squared error, with the least fourth power of the error",
         &args.options.weights.method},
        {"weights-block", 0, OPTION_COUNT, "N",
         "weights of matrix products get a scale for each N terms of a sum, such as 32 (and all "
         "weights ranges by mse, unless --weights-method says otherwise)",
         &args.block},
        {"model", 0, OPTION_INPUT, "FILE",
         "where the weights are; without it the profiled model is looked for beside the profile "
         "and in the current folder, by its name and hash, and weights have their extremes where "
         "it is in neither",
         &args.model},
        PARAMS_OPTION_ROW(args.params),
        {"weights-dtype", 0, OPTION_TEXT, "TYPE", "of weights: int8, int4, int16 ...",
         &args.weights_dtype},
        {"scheme", 0, OPTION_TEXT, "NAME", "of activations: asymmetric or symmetric",
         &args.options.activations.scheme},
        {"weights-scheme", 0, OPTION_TEXT, "NAME", "of weights: symmetric or asymmetric",
         &args.options.weights.scheme},
        {"per-channel", 0, OPTION_FLAG, NULL, "activations get a scale a channel, too",
         &args.per_channel},
        {"weights-per-tensor", 0, OPTION_FLAG, NULL, "weights get one scale for all channels",
         &args.weights_per_tensor},
        {"pow2", 0, OPTION_FLAG, NULL, "all scales are powers of two", &args.pow2},
        {"rounding", 0, OPTION_TEXT, "NAME",
         "of fixed-point multiplication: single_half_up, single_half_away, gemmlowp_double, "
         "float_rne",
         &args.rounding},
        {"pow2-requant", 0, OPTION_FLAG, NULL,
         "all multipliers are powers of two: shifts (and so are all scales)",
         &args.options.pow2_requant},
        {"config", 0, OPTION_INPUT, "FILE", "choices by operator, name, ID and kind, in JSON",
         &args.options.config},
        {"sensitive", 0, OPTION_TEXT, "WHICH",
         "what 8 bits ruin (`show --patterns`), and what is no product of weights: float (the "
         "default), quantize, or uint16 or int16",
         &args.options.sensitive},
        TARGET_OPTION_ROW(args.target),
        {"list", 0, OPTION_FLAG, NULL, "each value that stays float, with the reason", &args.list},
        WIDE_OPTION_ROW(args.wide),
        {"json", 0, OPTION_FLAG, NULL, "what was done as JSON instead of the table", &args.json},
        {0}};
    int exit_status;
    if (parse_options(command, options, argc, argv, &rest, &exit_status)) {
        if (args.wide)
            table_widen();
        if (wants_targets(args.target))
            exit_status = list_targets();
        else if (rest.n != 1)
            exit_status = wrong_call(command, rest.n ? "one PROFILE at a time" : "which PROFILE?");
        else if (!args.output)
            exit_status = wrong_call(command, "where to? add -o FILE.json");
        else if (check_arguments(command, &args, &exit_status))
            exit_status = calibrate_profile(rest.items[0], &args);
    }
    free(rest.items);
    return exit_status;
}

const struct command command_calibrate = {
    "calibrate",
    "choose types, scales and zero points for the values of a profile",
    "PROFILE -o ENC.json",
    "PROFILE is a .json or .h5 file that `tidemark profile` wrote, with histograms. Activations\n"
    "become uint8, asymmetric, weights int8 by channel, symmetric, biases int32, unless the\n"
    "options or --config choose others; docs/calibrate.md documents the rules and the config.\n"
    "Values that stay float are listed with the reason. `simulate` measures what the encodings\n"
    "cost, `export` writes them for other tools.",
    "tidemark calibrate profile.json -o encodings.json --method mse",
    run_calibrate,
};
