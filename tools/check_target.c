/* SPDX-License-Identifier: Apache-2.0 */
#include "check_target.h"

#include <stdlib.h>
#include <string.h>

#include <tidemark/session.h>

#include "command.h"
#include "target.h"

struct findings {
    bool json;
    uint32_t n;
};

static void print_finding(void *context, const char *text) {
    struct findings *findings = context;
    if (findings->json) {
        print_out("%s", findings->n ? "," : "");
        put_quoted(stdout, text);
    } else if (!is_quiet()) {
        print_out("%s\n", text);
    }
    findings->n++;
}

/* The network that the encodings are of: a profile's, or a model's; NULL: no file was given. */
static enum tmk_status read_network(const char *path, const char *params, struct tmk_profile **out,
                                    struct tmk_diag *diag) {
    struct tmk_diag why = {0};
    struct tmk_model *model = NULL;
    const char *dot = path ? strrchr(path, '.') : NULL;
    if (!path)
        return TMK_OK;
    if (dot && (strcmp(dot, ".json") == 0 || strcmp(dot, ".h5") == 0) &&
        tmk_profile_read(path, out, &why) == TMK_OK)
        return TMK_OK;
    enum tmk_status status = tmk_model_open_params(path, params, true, &model, diag);
    if (status == TMK_OK)
        status = tmk_model_skeleton(model, out, diag);
    tmk_model_close(&model);
    return status;
}

static enum tmk_status check_encodings(const char *path, const struct tmk_target *target,
                                       const struct tmk_profile *network, bool json, bool *good,
                                       struct tmk_diag *diag) {
    struct tmk_encodings *encodings = NULL;
    struct findings findings = {.json = json};
    uint32_t found = 0;
    enum tmk_status status = tmk_encodings_read(path, &encodings, diag);
    if (status == TMK_OK && json) {
        print_out("{\"encodings\":");
        put_quoted(stdout, path);
        print_out(",\"target\":");
        put_quoted(stdout, tmk_target_name(target));
        print_out(",\"by\":\"%s\",\"findings\":[", network ? "operator" : "type");
    }
    if (status == TMK_OK)
        status =
            tmk_target_check(target, encodings, network, print_finding, &findings, &found, diag);
    if (json && encodings)
        print_out("]}\n");
    if (status == TMK_OK && !json && !is_quiet()) {
        print_out("%s: %u uses of codes that %s does not allow", path, found,
                  tmk_target_name(target));
        print_out("%s\n",
                  network ? "" : "; by types alone, --against MODEL compares operators, too");
    }
    *good = *good && !found;
    tmk_encodings_destroy(&encodings);
    return status;
}

int check_for_target(const struct words *files, const char *name, const char *against,
                     const char *params, bool json) {
    struct tmk_diag diag = {0};
    struct tmk_target *target = NULL;
    struct tmk_profile *network = NULL;
    bool good = true;
    enum tmk_status status = open_target(name, &target, &diag);
    if (status == TMK_OK)
        status = read_network(against, params, &network, &diag);
    for (size_t i = 0; status == TMK_OK && i < files->n; i++)
        status = check_encodings(files->items[i], target, network, json, &good, &diag);
    tmk_profile_destroy(&network);
    tmk_target_close(&target);
    return status != TMK_OK ? report_error(status, &diag) : good ? EXIT_DONE : EXIT_ANSWER_NO;
}
