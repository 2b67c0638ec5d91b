/* SPDX-License-Identifier: Apache-2.0 */
/* A profile on a terminal. Everything goes to stdout. */
#pragma once

#include <tidemark/profile.h>

/* A header and one line for each of n positions in profile->tensors. */
void show_table(const struct tmk_profile *profile, const uint32_t *chosen, uint32_t n);
/* All that is known of one value. */
void show_value(const struct tmk_profile *profile, const struct tmk_profile_tensor *tensor);
/* A JSON array of the chosen values' figures. */
void show_json(const struct tmk_profile *profile, const uint32_t *chosen, uint32_t n);
struct tmk_pattern_node;
/* A table, or a list in JSON. */
void print_patterns(const struct tmk_pattern_node *nodes, size_t n, bool json);
/* The nodes that make the chosen values, each with the values and ranges on its inputs and outputs.
 * TMK_NOMEM. */
enum tmk_status show_nodes(const struct tmk_profile *profile, const uint32_t *chosen, uint32_t n,
                           bool json);
/* The nodes that make the chosen values (in the order of IDs) and belong to patterns that
 * `calibrate` leaves float. TMK_NOMEM. */
enum tmk_status show_patterns(const struct tmk_profile *profile, const uint32_t *chosen, uint32_t n,
                              bool json, struct tmk_diag *diag);
/* The `most` samples that set the chosen values' extremes, worst first. */
enum tmk_status show_outliers(const struct tmk_profile *profile, const uint32_t *chosen, uint32_t n,
                              uint64_t most, bool json, struct tmk_diag *diag);
/* How many samples the chosen values' ranges needed. TMK_NOTFOUND: the profile lacks per-sample
 * data. */
enum tmk_status show_convergence(const struct tmk_profile *profile, const uint32_t *chosen,
                                 uint32_t n, bool json, struct tmk_diag *diag);

/* One line of what is known of a value; wrapped at 80 characters. */
void print_entry(const char *label, const char *fmt, ...) TMK_PRINTF(2, 3);
/* A blank and an item of a list behind `*used` characters, or on a line of its own. */
void print_item(int *used, const char *fmt, ...) TMK_PRINTF(2, 3);
/* The samples in which one value has its extremes, and its range without the worst of them. */
void print_tops(const struct tmk_profile_tensor *tensor);

enum { SPARK_CELLS = 16, SPARK_BYTES = SPARK_CELLS * 4 + 1 };
/* A histogram from lo to hi, a block of eight heights a cell; "" where lo < hi does not hold or
 * there is no histogram. */
void draw_sparkline(const struct tmk_stats *stats, double lo, double hi, char out[SPARK_BYTES]);
