/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/encodings.h>

#include "command.h"
#include "table.h"

struct calibrate_args {
    const char *output, *dtype, *weights_dtype, *rounding;
    double percentile;
    bool per_channel, weights_per_tensor, pow2, json;
    struct tmk_calibrate_options options;
};

static void hear(void *context, const char *text) {
    (void)context;
    warn_of("%s", text);
}

/* ---- the table ---- */

static void print_number(bool known, double value) {
    if (!known)
        printf(" %7s", "-");
    else if (isinf(value))
        printf(" %7s", "exact");
    else
        printf(" %7.2f", value);
}

static void print_item(const struct tmk_encoding *e) {
    float low = e->low[0], high = e->high[0], least = e->scale[0], most = e->scale[0];
    char scale[32], zero[16] = "", id[16];
    for (uint32_t i = 1; i < e->n; i++) {
        low = fminf(low, e->low[i]);
        high = fmaxf(high, e->high[i]);
        least = fminf(least, e->scale[i]);
        most = fmaxf(most, e->scale[i]);
    }
    if (e->axis >= 0)
        snprintf(scale, sizeof scale, "%.2g..%.2g", (double)least, (double)most);
    else
        snprintf(scale, sizeof scale, "%.6g", (double)least);
    if (e->n == 1)
        snprintf(zero, sizeof zero, "%d", e->zero_point[0]);
    snprintf(id, sizeof id, "p%u", e->id);
    printf("%-5s ", id);
    print_name(e->name, 32);
    printf(" %-10s %-6s %-4s %-17s %5s %11.5g %11.5g %-10s", tmk_encoding_role_name(e->role),
           tmk_dtype_name(e->dtype), e->symmetric ? "sym" : "asym", scale, zero, (double)low,
           (double)high, e->method);
    print_number(e->expected.known, e->expected.sqnr);
    print_number(e->expected.known, 100 * e->expected.clipped);
    printf(" %s", e->rule);
    if (e->group)
        printf("%s#%u", *e->rule ? " " : "", e->group);
    if (e->group && e->expected.known && e->expected.tying > 1.005)
        printf(" (tying: error x %.3g)", e->expected.tying);
    for (uint32_t i = 0; i < e->n_uses; i++) {
        printf("%s%s '", i ? ", " : " for ", e->uses[i].op);
        put_escaped(stdout, e->uses[i].node);
        printf("' input %u", e->uses[i].input);
    }
    printf("\n");
}

static void print_table(const struct tmk_encodings *all) {
    printf("%-5s %-32s %-10s %-6s %-4s %-17s %5s %11s %11s %-10s %7s %7s %s\n", "id", "name",
           "role", "type", "", "scale", "zero", "low", "high", "method", "SQNR dB", "clip %",
           "rule");
    for (uint32_t i = 0; i < all->n_items; i++)
        print_item(&all->items[i]);
    if (all->n_left)
        printf("\nfloat:\n");
    for (uint32_t i = 0; i < all->n_left; i++) {
        char id[16];
        snprintf(id, sizeof id, "p%u", all->left[i].id);
        printf("%-5s ", id);
        print_name(all->left[i].name, 32);
        printf(" ");
        put_escaped(stdout, all->left[i].reason);
        printf("\n");
    }
}

static void put_json(const struct tmk_encodings *all, const char *file) {
    printf("{\"file\":");
    put_quoted(stdout, file);
    printf(",\"encodings\":[");
    for (uint32_t i = 0; i < all->n_items; i++) {
        const struct tmk_encoding *e = &all->items[i];
        printf("%s{\"id\":\"p%u\",\"name\":", i ? ",\n " : "", e->id);
        put_quoted(stdout, e->name);
        printf(",\"role\":\"%s\",\"dtype\":\"%s\",\"scales\":%u,\"low\":%.9g,\"high\":%.9g,"
               "\"method\":",
               tmk_encoding_role_name(e->role), tmk_dtype_name(e->dtype), e->n, (double)e->low[0],
               (double)e->high[0]);
        put_quoted(stdout, e->method);
        printf(",\"rule\":");
        put_quoted(stdout, e->rule);
        if (e->expected.known && isfinite(e->expected.sqnr))
            printf(",\"sqnr\":%.6g", e->expected.sqnr);
        if (e->expected.known)
            printf(",\"clipped\":%.6g", e->expected.clipped);
        printf(",\"uses\":%u}", e->n_uses);
    }
    printf("],\n\"left\":[");
    for (uint32_t i = 0; i < all->n_left; i++) {
        printf("%s{\"id\":\"p%u\",\"name\":", i ? ",\n " : "", all->left[i].id);
        put_quoted(stdout, all->left[i].name);
        printf(",\"reason\":");
        put_quoted(stdout, all->left[i].reason);
        printf("}");
    }
    printf("],\n\"requants\":%u}\n", all->n_requants);
}

static void sum_up(const struct tmk_encodings *all, const char *output) {
    uint32_t roles[3] = {0};
    double error = 0;
    for (uint32_t i = 0; i < all->n_items; i++)
        roles[all->items[i].role]++;
    for (uint32_t i = 0; i < all->n_requants; i++)
        error = fmax(error, all->requants[i].error);
    remark("%u activations, %u weights, %u biases quantized; %u values stay float",
           roles[TMK_ENCODING_ACTIVATION], roles[TMK_ENCODING_WEIGHT], roles[TMK_ENCODING_BIAS],
           all->n_left);
    if (all->n_requants)
        remark("%u requantizations in fixed point, %s: at most %.6g codes off", all->n_requants,
               tmk_rounding_name(all->rounding), error);
    remark("wrote %s", output);
}

/* ---- the call ---- */

static int calibrate(const char *path, const struct calibrate_args *args) {
    struct tmk_diag diag = {0};
    struct tmk_profile *profile = NULL;
    struct tmk_encodings *all = NULL;
    enum tmk_status status = tmk_profile_read(path, &profile, &diag);
    if (status == TMK_OK)
        status = tmk_calibrate(profile, &args->options, &all, &diag);
    if (status == TMK_OK)
        status = tmk_encodings_write(all, args->output, &diag);
    if (status == TMK_OK && args->json)
        put_json(all, args->output);
    else if (status == TMK_OK)
        print_table(all);
    if (status == TMK_OK)
        sum_up(all, args->output);
    tmk_encodings_destroy(&all);
    tmk_profile_destroy(&profile);
    return status == TMK_OK ? EXIT_DONE : complain(status, &diag);
}

static bool is_method(const char *wanted) {
    const char *name, *help;
    for (size_t i = 0; tmk_calibrate_method(i, &name, &help); i++)
        if (strcmp(name, wanted) == 0)
            return true;
    return false;
}

static const char *methods(char *out, size_t size) {
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
static bool check(const struct command *command, struct calibrate_args *args, int *exit_status) {
    struct tmk_calibrate_choice *a = &args->options.activations, *w = &args->options.weights;
    const char *schemes[] = {a->scheme, w->scheme};
    char list[256];
    if (a->method && !is_method(a->method)) {
        *exit_status =
            wrong_call(command, "--method %s: there are %s", a->method, methods(list, sizeof list));
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
    const char *types[] = {args->dtype, args->weights_dtype};
    enum tmk_dtype *out[] = {&a->dtype, &w->dtype};
    for (int i = 0; i < 2; i++) {
        *out[i] = types[i] ? tmk_dtype_by_name(types[i]) : TMK_UNDEFINED;
        if (types[i] && *out[i] == TMK_UNDEFINED) {
            *exit_status = wrong_call(command, "--%sdtype %s: there is no such type",
                                      i ? "weights-" : "", types[i]);
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
    struct calibrate_args args = {.options.remark = hear};
    struct words rest = {0};
    const struct option_row options[] = {
        {"output", 'o', OPTION_TEXT, "FILE", "where to write the encodings, a .json", &args.output},
        {"method", 0, OPTION_TEXT, "NAME", "how ranges of activations are found",
         &args.options.activations.method},
        {"percentile", 0, OPTION_REAL, "P", "the method percentile, with P percent, such as 99.99",
         &args.percentile},
        {"dtype", 0, OPTION_TEXT, "TYPE", "of activations: uint8, int8, uint16, int16, int4 ...",
         &args.dtype},
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
        {"config", 0, OPTION_TEXT, "FILE", "choices by operator, name, ID and kind, in JSON",
         &args.options.config},
        {"json", 0, OPTION_FLAG, NULL, "what was done as JSON instead of the table", &args.json},
        {0}};
    int exit_status;
    if (parse_options(command, options, argc, argv, &rest, &exit_status)) {
        if (rest.n != 1)
            exit_status = wrong_call(command, rest.n ? "one PROFILE at a time" : "which PROFILE?");
        else if (!args.output)
            exit_status = wrong_call(command, "where to? add -o FILE.json");
        else if (check(command, &args, &exit_status))
            exit_status = calibrate(rest.items[0], &args);
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
    "options or --config say otherwise; docs/calibrate.md tells the rules, and the config.\n"
    "What stays float is listed with the reason. `simulate` tells what the encodings cost,\n"
    "`export` writes them for other tools.",
    "tidemark calibrate profile.json -o encodings.json --method mse",
    run_calibrate,
};
