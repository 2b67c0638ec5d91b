/* SPDX-License-Identifier: Apache-2.0 */
/* glow: Glow's profile, three YAML documents. Encodings hold no histogram, and the
 * hash of the graph before lowering is Glow's own: hash=0x... gives it. */
#include <string.h>

#include "base/diag.h"
#include "export/rows.h"
#include "export/yaml.h"

static bool is_hash(const char *text) {
    if (strncmp(text, "0x", 2) != 0)
        return false;
    const size_t digits = strspn(text + 2, "0123456789abcdefABCDEF");
    return digits > 0 && digits <= 16 && !text[2 + digits];
}

/* "name:0": a node's result, which is what a name without one means. */
static void put_name(struct tmk_text *out, const char *name) {
    struct tmk_text full = {0};
    const char *colon = strrchr(name, ':');
    bool numbered = colon && colon[1] && !colon[1 + strspn(colon + 1, "0123456789")];
    tmk_text_printf(&full, "%s%s", name, numbered ? "" : ":0");
    out->failed = out->failed || full.failed;
    if (!full.failed)
        tmk_yaml_put_text(out, full.data);
    tmk_text_finish(&full);
}

static const char *hash_of(const struct tmk_export_job *job) {
    return tmk_export_setting(job, "hash", "0x0000000000000000");
}

static enum tmk_status put_glow(const struct tmk_export_job *job, struct tmk_export_rows *rows,
                                struct tmk_text *out, struct tmk_diag *diag) {
    (void)diag;
    tmk_text_printf(out, "---\nGlowToolsVersion: ''\n...\n---\nGraphPreLowerHash: %s\n...\n---\n",
                    hash_of(job));
    for (size_t i = 0; i < rows->n; i++) {
        float low, high;
        tmk_export_range(rows->items[i].encoding, &low, &high);
        tmk_text_puts(out, "- NodeOutputName:  ");
        put_name(out, rows->items[i].name);
        tmk_text_puts(out, "\n  Min:             ");
        tmk_yaml_put_float(out, low);
        tmk_text_puts(out, "\n  Max:             ");
        tmk_yaml_put_float(out, high);
        tmk_text_puts(out, "\n  Histogram:       [ ]\n");
    }
    tmk_text_puts(out, "...\n");
    return TMK_OK;
}

static enum tmk_status write_glow(const struct tmk_export_job *job, struct tmk_diag *diag) {
    static const struct tmk_export_text text = {.put = put_glow};
    if (!is_hash(hash_of(job)))
        return tmk_fail(diag, TMK_ARGUMENT, "hash=%s: 0x and up to 16 hex digits were expected",
                        hash_of(job));
    return tmk_export_text_write(job, &text, diag);
}

const struct tmk_exporter tmk_exporter_glow = {
    .name = "glow",
    .endings = "yaml yml",
    .consumer = "Glow-style YAML (ranges without histograms): -load-profile",
    .settings = "hash=0x0000000000000000",
    .limits = {.activations = TMK_EXPORT_INTEGERS, .one_scale = true},
    .write = write_glow,
};
