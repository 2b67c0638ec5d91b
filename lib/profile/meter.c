/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/meter.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/json.h"
#include "base/size.h"

enum { MIN, MAX, LOW, HIGH, THRESHOLDS };
static const char *const names[THRESHOLDS] = {"min", "max", "p0.005", "p99.995"};
static const double low_share = 0.00005, high_share = 0.99995;

/* NAN: there is none. */
struct thresholds {
    double value[THRESHOLDS];
};

struct value {
    uint32_t id;
    char *name;
};

struct tmk_meter {
    struct value *values;
    uint32_t n_values;
    uint64_t *offered, *run;       /* [n] */
    struct thresholds *thresholds; /* [n][n_values] */
    size_t n;
};

enum tmk_status tmk_meter_create(struct tmk_meter **out, struct tmk_diag *diag) {
    *out = calloc(1, sizeof **out);
    return *out ? TMK_OK : tmk_nomem(diag);
}

void tmk_meter_destroy(struct tmk_meter **slot) {
    struct tmk_meter *meter = *slot;
    *slot = NULL;
    if (!meter)
        return;
    for (uint32_t i = 0; i < meter->n_values; i++)
        free(meter->values[i].name);
    free(meter->values);
    free(meter->offered);
    free(meter->run);
    free(meter->thresholds);
    free(meter);
}

/* ---- taking ---- */

static double quantile_of(const struct tmk_stats *stats, double share) {
    double low, high, mid;
    return tmk_stats_quantile(stats, share, false, &low, &high, &mid, NULL) == TMK_OK ? mid : NAN;
}

static struct thresholds thresholds_of(const struct tmk_profile_tensor *tensor) {
    struct tmk_summary s;
    if (!tensor->stats || tensor->kind == TMK_PROFILE_WEIGHT)
        return (struct thresholds){{NAN, NAN, NAN, NAN}};
    tmk_stats_quick_summary(tensor->stats, &s);
    return (struct thresholds){{(double)s.min, (double)s.max, quantile_of(tensor->stats, low_share),
                                quantile_of(tensor->stats, high_share)}};
}

enum tmk_status tmk_meter_take(struct tmk_meter *meter, const struct tmk_profile *profile,
                               struct tmk_diag *diag) {
    if (!meter->values) {
        meter->values = calloc(profile->n_tensors + 1u, sizeof *meter->values);
        TMK_TRY_ALLOC(meter->values, diag);
        for (uint32_t i = 0; i < profile->n_tensors; i++) {
            struct value value = {profile->tensors[i].id, strdup(profile->tensors[i].name)};
            TMK_TRY_ALLOC(value.name, diag);
            meter->values[meter->n_values++] = value;
        }
    }
    size_t n = meter->n + 1, entries, bytes;
    TMK_TRY_ALLOC(tmk_mul_size(n, meter->n_values, &entries) &&
                      tmk_mul_size(entries, sizeof *meter->thresholds, &bytes),
                  diag);
    uint64_t *offered = realloc(meter->offered, n * sizeof *offered);
    meter->offered = offered ? offered : meter->offered;
    uint64_t *run = realloc(meter->run, n * sizeof *run);
    meter->run = run ? run : meter->run;
    struct thresholds *thresholds = realloc(meter->thresholds, bytes ? bytes : 1);
    meter->thresholds = thresholds ? thresholds : meter->thresholds;
    TMK_TRY_ALLOC(offered && run && thresholds, diag);
    meter->offered[meter->n] = profile->ledger.offered;
    meter->run[meter->n] = profile->ledger.run;
    struct thresholds *to = meter->thresholds + meter->n * meter->n_values;
    for (uint32_t i = 0; i < meter->n_values; i++)
        to[i] = thresholds_of(&profile->tensors[i]);
    meter->n++;
    return TMK_OK;
}

uint64_t tmk_meter_next(const struct tmk_meter *meter) {
    uint64_t next = 1, last = meter->n ? meter->offered[meter->n - 1] : 0;
    while (next <= last && next <= UINT64_MAX / 2)
        next *= 2;
    return next;
}

/* ---- asking ---- */

size_t tmk_meter_snapshots(const struct tmk_meter *meter) {
    return meter->n;
}

uint64_t tmk_meter_offered(const struct tmk_meter *meter, size_t snapshot) {
    return meter->offered[snapshot];
}

static const struct thresholds *thresholds_at(const struct tmk_meter *meter, size_t snapshot,
                                              uint32_t value) {
    return &meter->thresholds[snapshot * meter->n_values + value];
}

uint32_t tmk_meter_values(const struct tmk_meter *meter, size_t snapshot) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < meter->n_values; i++)
        n += !isnan(thresholds_at(meter, snapshot, i)->value[MIN]);
    return n;
}

/* How far the threshold that moved most did; *which is not written where none did. */
static double movement_between(const struct thresholds *from, const struct thresholds *to,
                               int *which) {
    double range = to->value[MAX] - to->value[MIN], most = 0;
    if (isnan(to->value[MIN]))
        return 0;
    for (int t = 0; t < THRESHOLDS; t++) {
        double moved = isnan(from->value[MIN]) ? 1
                       : to->value[t] == from->value[t]
                           ? 0
                           : fabs(to->value[t] - from->value[t]) / range;
        if (moved > most) {
            most = moved;
            *which = t;
        }
    }
    return most;
}

uint32_t tmk_meter_moved(const struct tmk_meter *meter, size_t from, size_t to, double share,
                         struct tmk_movement *worst) {
    uint32_t n = 0;
    struct tmk_movement most = {0, "", "", 0};
    for (uint32_t i = 0; i < meter->n_values; i++) {
        int which = 0;
        double moved =
            movement_between(thresholds_at(meter, from, i), thresholds_at(meter, to, i), &which);
        n += moved > share;
        if (moved > most.share)
            most = (struct tmk_movement){meter->values[i].id, meter->values[i].name, names[which],
                                         moved};
    }
    if (worst)
        *worst = most;
    return n;
}

bool tmk_meter_is_stable(const struct tmk_meter *meter, double share) {
    size_t n = meter->n;
    return n > 1 && meter->offered[n - 1] >= TMK_METER_MIN_SAMPLES &&
           tmk_meter_moved(meter, n - 2, n - 1, share, NULL) == 0;
}

/* ---- writing ---- */

static enum tmk_status put_all(const struct tmk_meter *meter, struct tmk_text *out,
                               struct tmk_diag *diag) {
    bool first = true;
    tmk_text_puts(out, "{\n\"format\":\"tidemark-snapshots\",\n\"version\":1,\n\"snapshots\":[");
    for (size_t s = 0; s < meter->n; s++)
        tmk_text_printf(out, "%s{\"offered\":%" PRIu64 ",\"run\":%" PRIu64 "}", s ? "," : "",
                        meter->offered[s], meter->run[s]);
    tmk_text_puts(out, "],\n\"values\":[");
    for (uint32_t i = 0; i < meter->n_values; i++) {
        if (!meter->n || isnan(thresholds_at(meter, meter->n - 1, i)->value[MIN]))
            continue;
        tmk_text_puts(out, first ? "\n" : ",\n");
        first = false;
        struct tmk_json_out value = tmk_json_new_object(), moved = tmk_json_new_array();
        tmk_json_put_id(&value, "id", meter->values[i].id);
        tmk_json_put_text(&value, "name", meter->values[i].name);
        for (int t = 0; t < THRESHOLDS; t++) {
            struct tmk_json_out list = tmk_json_new_array();
            for (size_t s = 0; s < meter->n; s++)
                if (t == MIN || t == MAX)
                    tmk_json_put_float(&list, NULL, (float)thresholds_at(meter, s, i)->value[t]);
                else
                    tmk_json_put_double(&list, NULL, thresholds_at(meter, s, i)->value[t]);
            tmk_json_put_child(&value, names[t], &list);
        }
        for (size_t s = 0; s < meter->n; s++) {
            int which = 0;
            bool known = s > 0 && !isnan(thresholds_at(meter, s, i)->value[MIN]);
            tmk_json_put_double(&moved, NULL,
                                known ? movement_between(thresholds_at(meter, s - 1, i),
                                                         thresholds_at(meter, s, i), &which)
                                      : NAN);
        }
        tmk_json_put_child(&value, "moved", &moved);
        TMK_TRY(tmk_json_finish(&value, out, diag));
    }
    tmk_text_puts(out, "\n]\n}\n");
    return out->failed ? tmk_nomem(diag) : TMK_OK;
}

enum tmk_status tmk_meter_write(const struct tmk_meter *meter, const char *path,
                                struct tmk_diag *diag) {
    locale_t locale[2];
    struct tmk_text text = {0};
    TMK_TRY(tmk_check_ending(path, "json", diag));
    TMK_TRY(tmk_locale_begin(locale, diag));
    enum tmk_status status = put_all(meter, &text, diag);
    tmk_locale_end(locale);
    TMK_THEN(status, tmk_file_write(path, text.data, text.len, diag));
    tmk_text_finish(&text);
    return status;
}
