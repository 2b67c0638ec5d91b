/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/bits.h"
#include "base/diag.h"
#include "base/hash.h"
#include "base/inputs.h"
#include "base/memory.h"
#include "base/text.h"
#include "profile/format.h"
#include "stats/codec.h"

static const char magic[] = {'T', 'M', 'K', 'C', 'H', 'K', 'P', 'T'};
enum {
    VERSION = 3,
    HEAD_BYTES = sizeof magic + 4 + 8, /* before what is checked field by field */
    TAIL_BYTES = 8,
    VALUE_BYTES = 16 /* a value takes so many or more */
};

/* What a value has. */
enum {
    HAS_PRODUCER = 1,
    HAS_STATS = 2,
    HAS_INT_STATS = 4,
    HAS_MORE_SHAPES = 8,
    HAS_SAMPLES = 16,
    HAS_TOPK = 32,
    IS_INNER = 64,
    HAS_ALL = 127
};

/* ---- writing ---- */

static void put_u64(struct tmk_text *out, uint64_t value) {
    tmk_put_bits(out, (uint32_t)value);
    tmk_put_bits(out, (uint32_t)(value >> 32));
}

static void put_block(struct tmk_text *out, const char *bytes, size_t len) {
    tmk_put_number(out, len);
    tmk_text_append(out, bytes, len);
}

static uint64_t flags_of(const struct tmk_profile_tensor *t) {
    return (t->has_producer ? HAS_PRODUCER : 0u) | (t->stats ? HAS_STATS : 0u) |
           (t->has_int_stats ? HAS_INT_STATS : 0u) | (t->more_runs ? HAS_MORE_SHAPES : 0u) |
           (t->inner ? IS_INNER : 0u) | (t->sample_min ? HAS_SAMPLES : 0u) |
           (t->topk.n ? HAS_TOPK : 0u);
}

static void put_floats(struct tmk_text *out, const float *values, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        tmk_put_bits(out, tmk_bits_of_float(values[i]));
}

static void put_value(struct tmk_text *out, const struct tmk_profile_tensor *t, int64_t before) {
    tmk_put_number(out, (uint64_t)((int64_t)t->id - before));
    put_u64(out, t->fingerprint);
    tmk_put_number(out, (uint64_t)t->kind);
    tmk_put_number(out, (uint64_t)t->status);
    tmk_put_number(out, flags_of(t));
    tmk_put_number(out, (uint64_t)t->dtype);
    tmk_put_number(out, (uint64_t)t->origin);
    tmk_put_number(out, t->expected_count);
    tmk_put_number(out, t->n_runs);
    for (uint32_t i = 0; i < t->n_runs; i++) {
        const struct tmk_shape *shape = &t->runs[i].shape;
        tmk_put_number(out, (uint64_t)shape->rank);
        for (int32_t d = 0; d < shape->rank; d++)
            tmk_put_number(out, (uint64_t)shape->dim[d]);
        tmk_put_number(out, t->runs[i].runs);
    }
    put_block(out, t->rule, strlen(t->rule));
    tmk_put_number(out, t->n_sources);
    for (uint32_t i = 0; i < t->n_sources; i++)
        tmk_put_number(out, t->sources[i]);
    struct tmk_text bytes = {0};
    if (t->stats)
        tmk_stats_encode(t->stats, &bytes);
    else if (t->has_int_stats)
        tmk_int_stats_encode(&t->int_stats, &bytes);
    if (bytes.len)
        put_block(out, bytes.data, bytes.len);
    out->failed |= bytes.failed;
    tmk_text_finish(&bytes);
    if (t->topk.n) {
        tmk_put_number(out, t->topk.n);
        for (uint32_t i = 0; i < t->topk.n; i++) {
            put_floats(out, &t->topk.min[i].value, 1);
            tmk_put_number(out, t->topk.min[i].sample);
            put_floats(out, &t->topk.max[i].value, 1);
            tmk_put_number(out, t->topk.max[i].sample);
        }
    }
    if (t->sample_min) {
        put_floats(out, t->sample_min, t->n_samples);
        put_floats(out, t->sample_max, t->n_samples);
    }
}

/* Everything between head and tail. */
static enum tmk_status put_payload(struct tmk_text *out, const struct tmk_profile *profile,
                                   struct tmk_diag *diag) {
    locale_t locale[2];
    struct tmk_text text = {0};
    TMK_TRY(tmk_locale_begin(locale, diag));
    tmk_text_puts(&text, "{");
    enum tmk_status status = tmk_profile_header_text(profile, ",", &text, diag);
    tmk_text_puts(&text, "}");
    tmk_locale_end(locale);
    if (status == TMK_OK && text.failed)
        status = tmk_nomem(diag);
    if (status == TMK_OK)
        put_block(out, text.data, text.len);
    tmk_text_finish(&text);
    TMK_TRY(status);
    tmk_put_number(out, profile->n_tensors);
    int64_t before = -1;
    for (uint32_t i = 0; i < profile->n_tensors; i++) {
        put_value(out, &profile->tensors[i], before);
        before = profile->tensors[i].id;
    }
    return out->failed ? tmk_nomem(diag) : TMK_OK;
}

enum tmk_status tmk_checkpoint_encode(const struct tmk_profile *profile, struct tmk_text *out,
                                      struct tmk_diag *diag) {
    TMK_TRY(tmk_profile_validate(profile, diag));
    return tmk_checkpoint_pack(profile, out, diag);
}

enum tmk_status tmk_checkpoint_pack(const struct tmk_profile *profile, struct tmk_text *out,
                                    struct tmk_diag *diag) {
    struct tmk_text payload = {0};
    size_t start = out->len;
    enum tmk_status status = put_payload(&payload, profile, diag);
    if (status == TMK_OK) {
        tmk_text_append(out, magic, sizeof magic);
        tmk_put_bits(out, VERSION);
        put_u64(out, payload.len);
        tmk_text_append(out, payload.data, payload.len);
        if (!out->failed)
            put_u64(out, tmk_hash64(out->data + start, out->len - start, 0));
        status = out->failed ? tmk_nomem(diag) : TMK_OK;
    }
    tmk_text_finish(&payload);
    return status;
}

/* ---- reading ---- */

static uint64_t get_u64(struct tmk_byte_reader *in) {
    uint64_t low = tmk_get_bits(in), high = tmk_get_bits(in);
    return low | high << 32;
}

/* A number that is at most `most`. */
static uint64_t get_below(struct tmk_byte_reader *in, uint64_t most) {
    uint64_t value = tmk_get_number(in);
    in->failed |= value > most;
    return in->failed ? 0 : value;
}

static size_t bytes_left(const struct tmk_byte_reader *in) {
    return (size_t)(in->end - in->at);
}

/* The extent of a block; empty when it does not fit. */
static const char *get_block(struct tmk_byte_reader *in, size_t *len) {
    *len = (size_t)get_below(in, bytes_left(in));
    const char *bytes = (const char *)in->at;
    if (in->failed || *len > bytes_left(in)) {
        in->failed = true;
        *len = 0;
        return bytes;
    }
    in->at += *len;
    return bytes;
}

static enum tmk_status get_header(struct tmk_byte_reader *in, struct tmk_profile *profile,
                                  struct tmk_diag *diag) {
    size_t len;
    locale_t locale[2];
    cJSON *header;
    const char *text = get_block(in, &len);
    if (in->failed || !tmk_utf8_valid(text, len))
        return tmk_fail(diag, TMK_FORMAT, "the header is not text");
    TMK_TRY(tmk_locale_begin(locale, diag));
    enum tmk_status status = tmk_json_parse(text, len, &header, diag);
    if (status == TMK_OK) {
        status = tmk_profile_get_header(profile, header, diag);
        cJSON_Delete(header);
    }
    tmk_locale_end(locale);
    return tmk_in(diag, status, "the header");
}

static enum tmk_status get_shapes(struct tmk_byte_reader *in, struct tmk_profile_tensor *t,
                                  struct tmk_diag *diag) {
    uint64_t expected = tmk_get_number(in), n = get_below(in, TMK_PROFILE_MAX_RUNS);
    for (uint64_t i = 0; i < n; i++) {
        struct tmk_shape shape = {.rank = (int32_t)get_below(in, TMK_MAX_RANK)};
        for (int32_t d = 0; d < shape.rank; d++)
            shape.dim[d] = (int64_t)get_below(in, INT64_MAX);
        uint64_t runs = tmk_get_number(in);
        if (in->failed)
            return TMK_OK;
        TMK_TRY(tmk_profile_add_runs(t, &shape, runs, diag));
        in->failed |= t->n_runs != i + 1;
    }
    t->expected_count = expected;
    return TMK_OK;
}

static enum tmk_status get_stats(struct tmk_byte_reader *in, struct tmk_profile_tensor *t,
                                 uint64_t flags, struct tmk_diag *diag) {
    size_t len;
    if (!(flags & (HAS_STATS | HAS_INT_STATS)))
        return TMK_OK;
    const char *bytes = get_block(in, &len);
    if (in->failed)
        return TMK_OK;
    if (flags & HAS_STATS)
        return tmk_stats_decode(bytes, len, &t->stats, diag);
    t->has_int_stats = true;
    return tmk_int_stats_decode(bytes, len, &t->int_stats, diag);
}

static float get_float(struct tmk_byte_reader *in) {
    return tmk_float_of_bits(tmk_get_bits(in));
}

static float *get_floats(struct tmk_byte_reader *in, uint64_t n) {
    float *values = malloc(n ? (size_t)n * sizeof *values : 1);
    for (uint64_t i = 0; values && i < n; i++)
        values[i] = get_float(in);
    return values;
}

static enum tmk_status get_samples(struct tmk_byte_reader *in, const struct tmk_profile *profile,
                                   struct tmk_profile_tensor *t, struct tmk_diag *diag) {
    uint64_t n = profile->ledger.end_sample - profile->ledger.first_sample;
    in->failed |= n > bytes_left(in) / (2 * sizeof(float));
    if (in->failed)
        return TMK_OK;
    t->n_samples = n;
    t->sample_min = get_floats(in, n);
    t->sample_max = get_floats(in, n);
    return t->sample_min && t->sample_max ? TMK_OK : tmk_nomem(diag);
}

static bool is_type(uint64_t number) {
    return number == TMK_UNDEFINED ||
           tmk_dtype_by_name(tmk_dtype_name((enum tmk_dtype)number)) == number;
}

static uint64_t get_names(struct tmk_byte_reader *in, struct tmk_profile_tensor *t) {
    t->fingerprint = get_u64(in);
    t->kind = (enum tmk_profile_kind)get_below(in, TMK_PROFILE_OUTPUT);
    t->status = (enum tmk_profile_status)get_below(in, TMK_PROFILE_DERIVED);
    uint64_t flags = get_below(in, HAS_ALL);
    uint64_t dtype = get_below(in, INT32_MAX), origin = get_below(in, INT32_MAX);
    in->failed |= !is_type(dtype) || !is_type(origin) ||
                  (flags & (HAS_STATS | HAS_INT_STATS)) == (HAS_STATS | HAS_INT_STATS);
    t->dtype = (enum tmk_dtype)dtype;
    t->origin = (enum tmk_dtype)origin;
    t->has_producer = flags & HAS_PRODUCER;
    t->more_runs = flags & HAS_MORE_SHAPES;
    t->inner = flags & IS_INNER;
    return flags;
}

static enum tmk_status get_value(struct tmk_byte_reader *in, struct tmk_profile *profile,
                                 int64_t *before, struct tmk_diag *diag) {
    struct tmk_profile_tensor *t;
    uint64_t distance = get_below(in, (uint64_t)(UINT32_MAX - *before));
    in->failed |= distance == 0;
    if (in->failed)
        return TMK_OK;
    *before += (int64_t)distance;
    TMK_TRY(tmk_profile_add_tensor(profile, (uint32_t)*before, &t, diag));
    uint64_t flags = get_names(in, t);
    if (!in->failed)
        TMK_TRY(get_shapes(in, t, diag));
    if (!in->failed) {
        size_t len;
        const char *rule = get_block(in, &len);
        uint64_t n = get_below(in, bytes_left(in));
        in->failed |= memchr(rule, '\0', len) || !tmk_utf8_valid(rule, len);
        if (!in->failed) {
            t->rule = len ? tmk_arena_strndup(profile->arena, rule, len) : "";
            TMK_TRY_ALLOC(t->rule, diag);
            for (uint64_t i = 0; i < n && !in->failed; i++)
                TMK_TRY(tmk_profile_add_derivation(t, (uint32_t)get_below(in, UINT32_MAX), diag));
        }
    }
    if (!in->failed)
        TMK_TRY(get_stats(in, t, flags, diag));
    if (!in->failed && (flags & HAS_TOPK)) {
        uint32_t n = (uint32_t)get_below(in, TMK_TOPK);
        for (uint32_t i = 0; i < n; i++) {
            t->topk.min[i].value = get_float(in);
            t->topk.min[i].sample = tmk_get_number(in);
            t->topk.max[i].value = get_float(in);
            t->topk.max[i].sample = tmk_get_number(in);
        }
        t->topk.n = in->failed ? 0 : n;
    }
    if (!in->failed && (flags & HAS_SAMPLES))
        TMK_TRY(get_samples(in, profile, t, diag));
    return TMK_OK;
}

/* A misplaced number gives another message than misplaced text; for the reader of the message both
 * are damage. */
static enum tmk_status as_damage(struct tmk_diag *diag, enum tmk_status status) {
    switch (status) {
    case TMK_OK:
    case TMK_NOMEM:
        return status;
    case TMK_UNSUPPORTED:
        return tmk_in(diag, status, "the checkpoint");
    default:
        if (diag)
            diag->status = TMK_FORMAT;
        return tmk_in(diag, TMK_FORMAT, "the checkpoint is damaged");
    }
}

static enum tmk_status get_payload(const uint8_t *bytes, size_t len, struct tmk_profile *profile,
                                   struct tmk_diag *diag) {
    struct tmk_byte_reader in = {bytes, bytes + len, false};
    TMK_TRY(get_header(&in, profile, diag));
    if (profile->version.minor != TMK_PROFILE_MINOR)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "it is of another release; go on with that, or begin anew");
    TMK_TRY(tmk_profile_validate(profile, diag)); /* sizes follow from the ledger */
    uint64_t n = get_below(&in, bytes_left(&in) / VALUE_BYTES);
    int64_t before = -1;
    for (uint64_t i = 0; i < n && !in.failed; i++)
        TMK_TRY(tmk_in(diag, get_value(&in, profile, &before, diag), "p%" PRId64, before));
    in.failed |= in.at != in.end;
    if (in.failed)
        return tmk_fail(diag, TMK_FORMAT, "byte %zu is none that is written there",
                        HEAD_BYTES + (size_t)(in.at - bytes));
    return TMK_OK;
}

/* It is consistent, and these are the bytes that are written for it. */
static enum tmk_status check_payload(const uint8_t *bytes, size_t len,
                                     const struct tmk_profile *profile, struct tmk_diag *diag) {
    struct tmk_text again = {0};
    TMK_TRY(tmk_profile_validate(profile, diag));
    enum tmk_status status = put_payload(&again, profile, diag);
    if (status == TMK_OK && (again.len != len || memcmp(again.data, bytes, len) != 0))
        status = tmk_fail(diag, TMK_FORMAT, "its bytes are not the ones that are written for it");
    tmk_text_finish(&again);
    return status;
}

static enum tmk_status check_frame(const uint8_t *bytes, size_t len, struct tmk_diag *diag) {
    struct tmk_byte_reader in = {bytes, bytes + len, false};
    size_t known = len < sizeof magic ? len : sizeof magic;
    if (len == 0 || memcmp(bytes, magic, known) != 0)
        return tmk_fail(diag, TMK_FORMAT, "not a checkpoint");
    if (len < HEAD_BYTES + TAIL_BYTES)
        return tmk_fail(diag, TMK_FORMAT, "the checkpoint is cut short: %zu bytes", len);
    in.at += sizeof magic;
    uint32_t version = tmk_get_bits(&in);
    uint64_t payload = get_u64(&in), holds = len - HEAD_BYTES - TAIL_BYTES;
    if (version != VERSION)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "a checkpoint of version %" PRIu32 ", but this program reads %d; go on "
                        "with the release that wrote it, or begin anew",
                        version, VERSION);
    if (payload != holds)
        return tmk_fail(diag, TMK_FORMAT,
                        "the checkpoint is cut short or damaged: %" PRIu64
                        " bytes between head and checksum, but it says %" PRIu64,
                        holds, payload);
    struct tmk_byte_reader tail = {bytes + len - TAIL_BYTES, bytes + len, false};
    if (get_u64(&tail) != tmk_hash64(bytes, len - TAIL_BYTES, 0))
        return tmk_fail(diag, TMK_FORMAT, "the checkpoint is damaged: its checksum is wrong");
    return TMK_OK;
}

static enum tmk_status decode_profile(const uint8_t *bytes, size_t len, bool trusted,
                                      struct tmk_profile **out, struct tmk_diag *diag) {
    const uint8_t *payload = bytes + HEAD_BYTES;
    struct tmk_profile *profile;
    TMK_TRY(check_frame(bytes, len, diag));
    len -= HEAD_BYTES + TAIL_BYTES;
    TMK_TRY(tmk_profile_create(&profile, diag));
    enum tmk_status status = get_payload(payload, len, profile, diag);
    if (status == TMK_OK && !trusted)
        status = check_payload(payload, len, profile, diag);
    status = as_damage(diag, status);
    if (status == TMK_OK)
        *out = profile;
    else
        tmk_profile_destroy(&profile);
    return status;
}

enum tmk_status tmk_checkpoint_decode(const void *bytes, size_t len, struct tmk_profile **out,
                                      struct tmk_diag *diag) {
    return decode_profile(bytes, len, false, out, diag);
}

enum tmk_status tmk_checkpoint_unpack(const void *bytes, size_t len, struct tmk_profile **out,
                                      struct tmk_diag *diag) {
    return decode_profile(bytes, len, true, out, diag);
}

/* ---- files ---- */

enum tmk_status tmk_checkpoint_write(struct tmk_profile *const *profiles, size_t n,
                                     const char *path, struct tmk_diag *diag) {
    struct tmk_text bytes = {0};
    enum tmk_status status = TMK_OK;
    for (size_t i = 0; status == TMK_OK && i < n; i++)
        if (profiles[i])
            status = tmk_in(diag, tmk_checkpoint_encode(profiles[i], &bytes, diag), "%s", path);
    TMK_THEN(status, tmk_file_write(path, bytes.data, bytes.len, diag));
    tmk_text_finish(&bytes);
    return status;
}

/* The bytes of the checkpoint that begins here; all bytes where it has no length. */
static size_t length_of_first(const uint8_t *bytes, size_t len) {
    struct tmk_byte_reader in = {bytes + sizeof magic + sizeof(uint32_t), bytes + len, false};
    if (len < HEAD_BYTES + TAIL_BYTES)
        return len;
    uint64_t payload = get_u64(&in), most = len - HEAD_BYTES - TAIL_BYTES;
    return payload > most ? len : HEAD_BYTES + (size_t)payload + TAIL_BYTES;
}

static enum tmk_status decode_all(const uint8_t *bytes, size_t len, struct tmk_profile ***list,
                                  size_t *n, struct tmk_diag *diag) {
    size_t size = 0;
    do {
        size_t first = length_of_first(bytes, len);
        TMK_TRY_ALLOC(TMK_GROW(*list, *n, size), diag);
        TMK_TRY(tmk_checkpoint_decode(bytes, first, &(*list)[*n], diag));
        ++*n;
        bytes += first;
        len -= first;
    } while (len > 0);
    return TMK_OK;
}

enum tmk_status tmk_checkpoint_read(const char *path, struct tmk_profile ***out, size_t *n,
                                    struct tmk_diag *diag) {
    struct tmk_profile **list = NULL;
    struct stat st;
    struct tmk_buf *buf;
    size_t found = 0;
    TMK_TRY(tmk_file_map(path, &buf, diag));
    enum tmk_status status = decode_all(tmk_buf_data(buf), tmk_buf_size(buf), &list, &found, diag);
    tmk_buf_unref(&buf);
    if (stat(path, &st) == 0)
        tmk_input_forget(&st); /* it is read to be written anew */
    if (status == TMK_OK) {
        *out = list;
        *n = found;
        return TMK_OK;
    }
    while (found > 0)
        tmk_profile_destroy(&list[--found]);
    free(list);
    return tmk_in(diag, status, "%s", path);
}
