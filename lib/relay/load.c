/* SPDX-License-Identifier: Apache-2.0 */
/* Relay files become a graph. */
#include "base/buf.h"
#include "base/diag.h"
#include "base/file.h"
#include "relay/relay.h"

enum tmk_status tmk_relay_open(const char *path, const char *params_path, bool keep_unknown,
                               struct tmk_relay_module **module, struct tmk_relay_params **params,
                               struct tmk_graph **out, struct tmk_diag *diag) {
    struct tmk_buf *text = NULL;
    *module = NULL;
    *params = NULL;
    TMK_TRY(tmk_file_map(path, &text, diag));
    enum tmk_status status =
        tmk_relay_parse(tmk_buf_data(text), tmk_buf_size(text), path, module, diag);
    tmk_buf_unref(&text);
    TMK_TRY(status);
    if (params_path)
        TMK_TRY(tmk_relay_params_read(params_path, params, diag));
    return tmk_in(diag, tmk_relay_lower(*module, *params, keep_unknown, out, diag), "%s", path);
}

enum tmk_status tmk_relay_load(const char *path, const char *params_path, bool keep_unknown,
                               struct tmk_graph **out, struct tmk_diag *diag) {
    struct tmk_relay_module *module = NULL;
    struct tmk_relay_params *params = NULL;
    enum tmk_status status =
        tmk_relay_open(path, params_path, keep_unknown, &module, &params, out, diag);
    tmk_relay_module_destroy(&module);
    tmk_relay_params_destroy(&params);
    return status;
}
