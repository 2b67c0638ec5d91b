/* SPDX-License-Identifier: Apache-2.0 */
/* JSON by cJSON, with what cJSON leaves to its user: numbers that read back to the same bits,
 * 64-bit integers, unknown and repeated keys, trailing bytes, and documents larger than their tree
 * should be in memory.
 *
 * Numbers are printed and read in the calling thread's locale: see tmk_locale_begin. Not
 * thread-safe. */
#pragma once

#include <cjson/cJSON.h>
#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/status.h>

#include "base/arena.h"
#include "base/text.h"

/* Makes the calling thread print and read numbers with a decimal point until tmk_locale_end; *out
 * goes to it. */
enum tmk_status tmk_locale_begin(locale_t out[2], struct tmk_diag *diag);
void tmk_locale_end(locale_t saved[2]);

/* ---- writing ---- */

/* An object or array under construction. `failed` sticks once memory ran out; a put after that does
 * nothing. */
struct tmk_json_out {
    cJSON *item;
    bool failed;
};

static inline struct tmk_json_out tmk_json_new_object(void) {
    cJSON *item = cJSON_CreateObject();
    return (struct tmk_json_out){item, !item};
}
static inline struct tmk_json_out tmk_json_new_array(void) {
    cJSON *item = cJSON_CreateArray();
    return (struct tmk_json_out){item, !item};
}

/* Members of an object (key not NULL) or elements of an array (key NULL). NaN and infinities become
 * null. */
void tmk_json_put(struct tmk_json_out *to, const char *key,
                  cJSON *item); /* takes item; NULL fails */
void tmk_json_put_text(struct tmk_json_out *to, const char *key, const char *text);
void tmk_json_put_u64(struct tmk_json_out *to, const char *key, uint64_t value);
void tmk_json_put_i64(struct tmk_json_out *to, const char *key, int64_t value);
void tmk_json_put_float(struct tmk_json_out *to, const char *key, float value);
void tmk_json_put_double(struct tmk_json_out *to, const char *key, double value);
/* A profile ID as files spell it: "p12". */
void tmk_json_put_id(struct tmk_json_out *to, const char *key, uint32_t id);
/* An array. */
void tmk_json_put_floats(struct tmk_json_out *to, const char *key, const float *values, size_t n);
/* Text that is JSON already. */
void tmk_json_put_raw(struct tmk_json_out *to, const char *key, const struct tmk_text *json);
/* Puts a finished child into its parent; either's failure is the parent's. */
void tmk_json_put_child(struct tmk_json_out *to, const char *key, struct tmk_json_out *child);

/* The same spellings, appended to a text: integers beyond +-2^53 are strings of digits. A float is
 * the shortest decimal that reads back to its bits both directly and by way of a double. */
void tmk_json_u64_text(struct tmk_text *out, uint64_t value);
void tmk_json_i64_text(struct tmk_text *out, int64_t value);
void tmk_json_float_text(struct tmk_text *out, float value);

/* Appends the tree on one line and deletes it. TMK_NOMEM when it failed on the way. */
enum tmk_status tmk_json_finish(struct tmk_json_out *from, struct tmk_text *out,
                                struct tmk_diag *diag);

/* ---- reading ---- */

/* A walk over a container without building its tree. */
struct tmk_json_scan {
    const char *at, *begin, *end;
    bool first;
};

/* Enters the object ('{') or array ('[') that the text is, after white space. False: it is not. */
bool tmk_json_enter(struct tmk_json_scan *scan, const char *text, size_t len, char bracket);
/* The next element, or member (then *key is its name, to be freed), as the extent of its text.
 * TMK_NOTFOUND at the closing bracket, without a text in diag; TMK_FORMAT states what is wrong, and
 * how many bytes behind the beginning of the container. */
enum tmk_status tmk_json_next(struct tmk_json_scan *scan, char bracket, char **key,
                              const char **value, size_t *len, struct tmk_diag *diag);
/* True when only white space is left. */
bool tmk_json_rest_is_blank(const struct tmk_json_scan *scan);

/* Is it one value of JSON, nested no deeper than cJSON goes, and nothing else? Takes no memory. */
bool tmk_json_is_valid(const char *text, size_t len);

/* The tree of one value and nothing else. End with cJSON_Delete. TMK_LIMIT before it is made where
 * it exceeds the memory limit (base/memory.h). */
enum tmk_status tmk_json_parse(const char *text, size_t len, cJSON **out, struct tmk_diag *diag);
/* The same of a tree that stays while more memory is taken: what it takes is counted and added to
 * *held, which is to be given back (tmk_memory_uncharge) when it is deleted. */
enum tmk_status tmk_json_parse_held(const char *text, size_t len, cJSON **out, size_t *held,
                                    struct tmk_diag *diag);

/* The same of an object, whose strings are also known to hold no zero characters. */
enum tmk_status tmk_json_parse_object(const char *text, size_t len, cJSON **out, size_t *held,
                                      struct tmk_diag *diag);

/* An object whose members are being read. Getters name the key and what was expected; those of the
 * _or kind accept its absence. */
enum tmk_status tmk_json_keys(const cJSON *object, const char *const *known, size_t n, bool strict,
                              struct tmk_diag *diag);
/* NULL when absent. */
const cJSON *tmk_json_member(const cJSON *object, const char *key);
enum tmk_status tmk_json_object(const cJSON *object, const char *key, const cJSON **out,
                                struct tmk_diag *diag);
enum tmk_status tmk_json_array(const cJSON *object, const char *key, const cJSON **out,
                               struct tmk_diag *diag);
enum tmk_status tmk_json_text(const cJSON *object, const char *key, const char **out,
                              struct tmk_diag *diag);
enum tmk_status tmk_json_text_or(const cJSON *object, const char *key, const char **out,
                                 const char *otherwise, struct tmk_diag *diag);
/* Of a list of texts, copies in the arena, ended by NULL; `what` they are, for messages. */
enum tmk_status tmk_json_texts(const cJSON *object, const char *key, const char *what,
                               struct tmk_arena *arena, const char ***out, uint32_t *n,
                               struct tmk_diag *diag);
enum tmk_status tmk_json_u64(const cJSON *object, const char *key, uint64_t *out,
                             struct tmk_diag *diag);
enum tmk_status tmk_json_u32(const cJSON *object, const char *key, uint32_t *out,
                             struct tmk_diag *diag);
enum tmk_status tmk_json_bool_or(const cJSON *object, const char *key, bool *out, bool otherwise,
                                 struct tmk_diag *diag);

/* The value of an item by itself; false when it is none. */
bool tmk_json_as_u64(const cJSON *item, uint64_t *out);
bool tmk_json_as_i64(const cJSON *item, int64_t *out);
bool tmk_json_as_float(const cJSON *item, float *out); /* null is NaN */
