/* SPDX-License-Identifier: Apache-2.0 */
#include "data/strata.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/text.h"

enum { MOST_BYTES = 256 << 20, MOST_FIELDS = 2 };

struct labelled {
    uint64_t sample;
    uint32_t stratum;
    uint32_t line; /* of the file, for messages while it is read */
};

struct tmk_strata {
    struct tmk_arena arena; /* of texts */
    char *path;
    const char *labels[TMK_MAX_STRATA];
    uint32_t n;
    struct tmk_map by_label;  /* to the entry of `labels` */
    struct labelled *samples; /* ascending */
    size_t n_samples, size;
};

/* ---- CSV ---- */

/* What is left of the file. */
struct reader {
    char *at, *end;
    uint32_t line; /* of the record at hand, from 1 */
    uint32_t next_line;
    char *field[MOST_FIELDS]; /* of it; unquoted in place, so they are texts */
    size_t length[MOST_FIELDS];
    uint32_t n_fields;
};

static bool ends_field(const struct reader *in, const char *at) {
    return at == in->end || *at == ',' || *at == '\n' ||
           (*at == '\r' && (at + 1 == in->end || at[1] == '\n'));
}

/* in->at stands behind the opening quote. The text moves to the left as quotes are dropped. */
static enum tmk_status take_quoted(struct reader *in, char **to, struct tmk_diag *diag) {
    for (;; in->at++) {
        if (in->at == in->end)
            return tmk_fail(diag, TMK_FORMAT, "a quote that is never closed");
        if (*in->at == '"') {
            in->at++;
            if (in->at == in->end || *in->at != '"')
                break;
        }
        in->next_line += *in->at == '\n';
        *(*to)++ = *in->at;
    }
    if (!ends_field(in, in->at))
        return tmk_fail(diag, TMK_FORMAT, "text behind a closing quote");
    return TMK_OK;
}

static enum tmk_status take_plain(struct reader *in, char **to, struct tmk_diag *diag) {
    for (; !ends_field(in, in->at); in->at++) {
        if (*in->at == '"')
            return tmk_fail(diag, TMK_FORMAT,
                            "a quote inside a field; it stands as \"\" in a field in quotes");
        *(*to)++ = *in->at;
    }
    return TMK_OK;
}

static enum tmk_status take_record(struct reader *in, struct tmk_diag *diag) {
    in->line = in->next_line;
    in->n_fields = 0;
    for (bool more = true; more;) {
        if (in->n_fields == MOST_FIELDS)
            return tmk_fail(diag, TMK_FORMAT,
                            "more than two fields; a label with a comma stands in quotes");
        char *begin = in->at, *to = begin;
        bool quoted = in->at < in->end && *in->at == '"';
        in->at += quoted;
        TMK_TRY(quoted ? take_quoted(in, &to, diag) : take_plain(in, &to, diag));
        in->field[in->n_fields] = begin;
        in->length[in->n_fields++] = (size_t)(to - begin);
        more = in->at < in->end && *in->at == ',';
        if (!more && in->at < in->end) /* the end of the line */
            in->at += *in->at == '\r' && in->at + 1 < in->end;
        in->at += in->at < in->end;
        *to = '\0'; /* there is space: of the separator, or behind the file */
    }
    in->next_line++;
    return TMK_OK;
}

/* ---- labels ---- */

static enum tmk_status check_label(const char *label, size_t length, struct tmk_diag *diag) {
    if (length == 0)
        return tmk_fail(diag, TMK_FORMAT, "the label is empty");
    if (length > TMK_MAX_LABEL)
        return tmk_fail(diag, TMK_FORMAT, "the label has %zu bytes; %d are the most", length,
                        TMK_MAX_LABEL);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)label[i] < ' ' || label[i] == 0x7f)
            return tmk_fail(diag, TMK_FORMAT, "the label holds the control character \\x%02x",
                            (unsigned char)label[i]);
    if (!tmk_utf8_valid(label, length))
        return tmk_fail(diag, TMK_FORMAT, "the label is not UTF-8");
    return TMK_OK;
}

static enum tmk_status stratum_of(struct tmk_strata *strata, const char *label, size_t length,
                                  uint32_t *out, struct tmk_diag *diag) {
    TMK_TRY(check_label(label, length, diag));
    const char **known = tmk_map_get(&strata->by_label, label);
    if (!known) {
        if (strata->n == TMK_MAX_STRATA)
            return tmk_fail(diag, TMK_FORMAT, "'%s' is one label more than %d, which are the most",
                            label, TMK_MAX_STRATA);
        known = &strata->labels[strata->n];
        *known = tmk_arena_strndup(&strata->arena, label, length);
        TMK_TRY_ALLOC(*known && tmk_map_put(&strata->by_label, *known, (void *)(uintptr_t)known),
                      diag);
        strata->n++;
    }
    *out = (uint32_t)(known - strata->labels);
    return TMK_OK;
}

static enum tmk_status index_of(const char *text, size_t length, uint64_t *out,
                                struct tmk_diag *diag) {
    if (!tmk_read_digits(text, length, out) || *out == UINT64_MAX)
        return tmk_fail(diag, TMK_FORMAT, "'%.*s' is no sample's index",
                        length > 40 ? 40 : (int)length, text);
    return TMK_OK;
}

static enum tmk_status take_sample(struct tmk_strata *strata, const struct reader *in, bool indexed,
                                   struct tmk_diag *diag) {
    const uint32_t wanted = 1 + indexed;
    if (in->n_fields != wanted)
        return tmk_fail(diag, TMK_FORMAT,
                        "%u field%s, not %u; a file has one label a line, or begins with the line "
                        "'sample,label' and has both in each",
                        in->n_fields, in->n_fields == 1 ? "" : "s", wanted);
    TMK_TRY_ALLOC(TMK_GROW(strata->samples, strata->n_samples, strata->size), diag);
    struct labelled *sample = &strata->samples[strata->n_samples];
    *sample = (struct labelled){.sample = strata->n_samples, .line = in->line};
    if (indexed)
        TMK_TRY(index_of(in->field[0], in->length[0], &sample->sample, diag));
    TMK_TRY(stratum_of(strata, in->field[indexed], in->length[indexed], &sample->stratum, diag));
    strata->n_samples++;
    return TMK_OK;
}

static bool field_is(const struct reader *in, uint32_t i, const char *text) {
    return in->length[i] == strlen(text) && memcmp(in->field[i], text, in->length[i]) == 0;
}

static bool is_header(const struct reader *in) {
    return in->n_fields == 2 && field_is(in, 0, "sample") && field_is(in, 1, "label");
}

static int by_sample(const void *a, const void *b) {
    const struct labelled *x = a, *y = b;
    return x->sample != y->sample ? TMK_ORDER(x->sample, y->sample) : TMK_ORDER(x->line, y->line);
}

static enum tmk_status parse_strata(struct tmk_strata *strata, char *text, size_t size,
                                    struct tmk_diag *diag) {
    static const char mark[] = "\xef\xbb\xbf"; /* of byte order, as spreadsheets write it */
    struct reader in = {.at = text, .end = text + size, .next_line = 1};
    bool first = true, indexed = false;
    if (size >= 3 && memcmp(text, mark, 3) == 0)
        in.at += 3;
    while (in.at < in.end) {
        enum tmk_status status = take_record(&in, diag);
        bool header = status == TMK_OK && first && is_header(&in);
        first = false;
        indexed |= header;
        if (status == TMK_OK && !header)
            status = take_sample(strata, &in, indexed, diag);
        TMK_TRY(tmk_in(diag, status, "line %" PRIu32, in.line));
    }
    if (!strata->n_samples)
        return tmk_fail(diag, TMK_FORMAT, "there is no label");
    if (indexed)
        qsort(strata->samples, strata->n_samples, sizeof *strata->samples, by_sample);
    for (size_t i = 1; i < strata->n_samples; i++)
        if (strata->samples[i].sample == strata->samples[i - 1].sample)
            return tmk_fail(diag, TMK_FORMAT,
                            "lines %" PRIu32 " and %" PRIu32 ": sample %" PRIu64 " is listed twice",
                            strata->samples[i - 1].line, strata->samples[i].line,
                            strata->samples[i].sample);
    return TMK_OK;
}

/* Read, not mapped: a file that is cut meanwhile is an error, and fields are ended in place. */
static enum tmk_status read_text(const struct tmk_infile *file, char **out, struct tmk_diag *diag) {
    if (file->size > MOST_BYTES)
        return tmk_fail(diag, TMK_RANGE, "%" PRIu64 " bytes of labels; %d are the most", file->size,
                        MOST_BYTES);
    *out = malloc((size_t)file->size + 1); /* for the end of the last field */
    return *out ? tmk_infile_read(file, 0, *out, (size_t)file->size, diag) : tmk_nomem(diag);
}

static enum tmk_status read_strata(const struct tmk_infile *file, struct tmk_strata *strata,
                                   struct tmk_diag *diag) {
    char *text = NULL;
    enum tmk_status status = read_text(file, &text, diag);
    TMK_THEN(status, parse_strata(strata, text, (size_t)file->size, diag));
    free(text);
    return status;
}

enum tmk_status tmk_strata_read(const char *path, struct tmk_strata **out, struct tmk_diag *diag) {
    struct tmk_infile file;
    TMK_TRY(tmk_infile_open(path, &file, diag));
    struct tmk_strata *strata = calloc(1, sizeof *strata);
    enum tmk_status status = strata ? TMK_OK : tmk_nomem(diag);
    if (status == TMK_OK && !(strata->path = strdup(path)))
        status = tmk_nomem(diag);
    TMK_THEN(status, read_strata(&file, strata, diag));
    tmk_infile_close(&file);
    if (status == TMK_OK)
        *out = strata;
    else
        tmk_strata_destroy(&strata);
    return tmk_in(diag, status, "%s", path);
}

void tmk_strata_destroy(struct tmk_strata **slot) {
    struct tmk_strata *strata = slot ? *slot : NULL;
    if (!strata)
        return;
    *slot = NULL;
    tmk_map_finish(&strata->by_label);
    tmk_arena_finish(&strata->arena);
    free(strata->samples);
    free(strata->path);
    free(strata);
}

/* ---- asking ---- */

uint32_t tmk_strata_count(const struct tmk_strata *strata) {
    return strata->n;
}

const char *tmk_strata_label(const struct tmk_strata *strata, uint32_t i) {
    return strata->labels[i];
}

uint64_t tmk_strata_end(const struct tmk_strata *strata) {
    return strata->samples[strata->n_samples - 1].sample + 1;
}

const char *tmk_strata_path(const struct tmk_strata *strata) {
    return strata->path;
}

/* The position of the first that is not before the sample. */
static size_t find_range(const struct tmk_strata *strata, uint64_t sample) {
    size_t low = 0, high = strata->n_samples;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strata->samples[middle].sample < sample)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

enum tmk_status tmk_strata_of(const struct tmk_strata *strata, uint64_t first, uint64_t end,
                              uint32_t *out, struct tmk_diag *diag) {
    const size_t at = find_range(strata, first);
    for (uint64_t i = 0; i < end - first; i++) {
        const struct labelled *sample =
            at + i < strata->n_samples ? &strata->samples[at + i] : NULL;
        if (!sample || sample->sample != first + i)
            return tmk_fail(diag, TMK_NOTFOUND, "%s: sample %" PRIu64 " has no label", strata->path,
                            first + i);
        if (sample->stratum != strata->samples[at].stratum)
            return tmk_fail(
                diag, TMK_MISMATCH,
                "%s: samples %" PRIu64 " ('%s') and %" PRIu64
                " ('%s') are of one batch, but of two strata; --batch 1, or data in the "
                "order of its labels, keeps strata apart",
                strata->path, first + i - 1, strata->labels[strata->samples[at].stratum], first + i,
                strata->labels[sample->stratum]);
    }
    *out = strata->samples[at].stratum;
    return TMK_OK;
}
