/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for the module in a build without Relay. */
#include "base/diag.h"
#include "export/exporter.h"
#include "relay/relay.h"

static enum tmk_status refuse_relay(const char *path, struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_UNSUPPORTED,
                    "%s: this build reads and writes no Relay; build with -Drelay=enabled", path);
}

enum tmk_status tmk_relay_load(const char *path, const char *params_path, bool keep_unknown,
                               struct tmk_graph **out, struct tmk_diag *diag) {
    (void)params_path, (void)keep_unknown, (void)out;
    return refuse_relay(path, diag);
}

enum tmk_status tmk_relay_open(const char *path, const char *params_path, bool keep_unknown,
                               struct tmk_relay_module **module, struct tmk_relay_params **params,
                               struct tmk_graph **out, struct tmk_diag *diag) {
    *module = NULL;
    *params = NULL;
    return tmk_relay_load(path, params_path, keep_unknown, out, diag);
}

enum tmk_status tmk_relay_save(const struct tmk_graph *graph, const char *path,
                               const char *params_path, struct tmk_relay_written *written,
                               struct tmk_diag *diag) {
    (void)graph, (void)params_path, (void)written;
    return refuse_relay(path, diag);
}

enum tmk_status tmk_relay_match(const struct tmk_relay_written *written,
                                const struct tmk_relay_module *read, const struct tmk_graph *file,
                                struct tmk_ptrmap *out, struct tmk_diag *diag) {
    (void)written, (void)read, (void)file, (void)out;
    return refuse_relay("the lineage", diag);
}

void tmk_relay_written_finish(struct tmk_relay_written *written) {
    (void)written;
}

void tmk_relay_module_destroy(struct tmk_relay_module **module) {
    (void)module;
}

void tmk_relay_params_destroy(struct tmk_relay_params **params) {
    (void)params;
}

static enum tmk_status write_none(const struct tmk_export_job *job, struct tmk_diag *diag) {
    return refuse_relay(job->path, diag);
}

const struct tmk_exporter tmk_exporter_relay = {
    .name = "relay",
    .endings = "relay txt",
    .writes_model = true,
    .consumer = "(Relay in a build with -Drelay=enabled)",
    .settings = "",
    .write = write_none,
};
