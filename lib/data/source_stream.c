/* SPDX-License-Identifier: Apache-2.0 */
/* Records in NumPy's format on standard input, so that any program can be the loader. Several
 * inputs take turns: a record for the first, one for the second, ..., again one for the first.
 *
 * A record of the input's own rank (or of one more) holds as many entries as its first axis has;
 * one of a rank less is a single entry. Nothing is read that was not asked for, except that the
 * records of other inputs come along. Where the program itself gives the records (tmk_pull), they
 * are used where they lie. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/hash.h"
#include "base/inputs.h"
#include "base/size.h"
#include "data/kind.h"
#include "data/npy.h"
#include "tensor/shape.h"

enum {
    MOST_WAITING = 4096, /* records that one input may be ahead of another */
    BELIEVED = 1 << 26   /* bytes allocated because a header states so */
};

struct record {
    struct tmk_tensor tensor; /* [entries, ...] */
    struct record *next;
};

/* Records of one array that are not taken yet. */
struct line {
    struct record *first, *last;
    uint64_t at;      /* the entry that is first in line */
    uint64_t used;    /* entries of the first record that are gone */
    uint64_t pulled;  /* entries that came in all */
    uint64_t began;   /* the last entry that was read as the first of a record */
    uint32_t waiting; /* records */
    bool single;      /* a record is one entry, and has no axis for it */
};

struct stream {
    const struct tmk_pull *pull; /* gives the records; NULL: standard input does */
    const char *called;          /* in messages */
    struct tmk_source_array *arrays;
    struct line *lines;     /* one an array */
    struct tmk_input input; /* a file that is standard input */
    struct tmk_hash128 *hash;
    char hex[TMK_HASH128_HEX]; /* once it has ended */
    uint64_t records;
    bool ended;
};

static bool claims_stream(const struct tmk_source_probe *probe) {
    return probe->stream;
}

static enum tmk_status open_stream(struct tmk_source *source,
                                   const struct tmk_source_options *options,
                                   struct tmk_diag *diag) {
    struct stream *stream = source->own;
    struct stat st;
    stream->hash = tmk_hash128_create();
    TMK_TRY_ALLOC(stream->hash, diag);
    stream->pull = options->pull;
    if (!stream->pull && fstat(STDIN_FILENO, &st) == 0 && S_ISREG(st.st_mode) &&
        !tmk_input_add(&st, &stream->input))
        return tmk_nomem(diag);
    stream->called = stream->pull ? "data" : "standard input";
    if (stream->pull && stream->pull->label) {
        stream->called = source->info.label = tmk_arena_strdup(&source->arena, stream->pull->label);
        TMK_TRY_ALLOC(stream->called, diag);
    }
    source->info.path = stream->called;
    source->info.binds = true;
    return TMK_OK;
}

/* ---- one record ---- */

/* As many of `len` bytes as there are. */
static enum tmk_status take_bytes(struct stream *stream, void *bytes, size_t len, size_t *got,
                                  struct tmk_diag *diag) {
    *got = fread(bytes, 1, len, stdin);
    if (*got < len && ferror(stdin))
        return tmk_fail(diag, TMK_READ, "cannot be read: %s", strerror(errno));
    tmk_hash128_update(stream->hash, bytes, *got);
    return TMK_OK;
}

static enum tmk_status fail_truncated(struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_FORMAT, "truncated: the stream ends inside it");
}

/* *there is false at the end of the stream. */
static enum tmk_status read_header(struct stream *stream, struct tmk_npy *out, bool *there,
                                   struct tmk_diag *diag) {
    unsigned char start[TMK_NPY_PREAMBLE];
    size_t got, size = 0;
    TMK_TRY(take_bytes(stream, start, sizeof start, &got, diag));
    *there = got > 0;
    if (!got)
        return TMK_OK;
    TMK_TRY(tmk_npy_header_size(start, got, &size, diag));
    if (got < sizeof start || size < sizeof start)
        return fail_truncated(diag);
    unsigned char *bytes = malloc(size);
    TMK_TRY_ALLOC(bytes, diag);
    memcpy(bytes, start, sizeof start);
    enum tmk_status status =
        take_bytes(stream, bytes + sizeof start, size - sizeof start, &got, diag);
    if (status == TMK_OK && got < size - sizeof start)
        status = fail_truncated(diag);
    TMK_THEN(status, tmk_npy_parse(bytes, size, out, diag));
    free(bytes);
    return status;
}

/* A header may promise any size: memory beyond a bound is taken only as bytes arrive. */
static enum tmk_status read_elements(struct stream *stream, size_t bytes, struct tmk_buf **out,
                                     struct tmk_diag *diag) {
    size_t size = bytes < BELIEVED ? bytes : BELIEVED, done = 0, got;
    struct tmk_buf *buf = tmk_buf_create(size);
    enum tmk_status status = buf ? TMK_OK : tmk_nomem(diag);
    while (status == TMK_OK && done < bytes) {
        if (done == size) {
            size = bytes - size < size ? bytes : 2 * size;
            struct tmk_buf *grown = tmk_buf_create(size);
            if (!grown) {
                status = tmk_nomem(diag);
                break;
            }
            memcpy(tmk_buf_data(grown), tmk_buf_data(buf), done);
            tmk_buf_unref(&buf);
            buf = grown;
        }
        status = take_bytes(stream, (char *)tmk_buf_data(buf) + done, size - done, &got, diag);
        if (status == TMK_OK && got < size - done)
            status = fail_truncated(diag);
        done += status == TMK_OK ? got : 0;
    }
    if (status == TMK_OK)
        *out = buf;
    else
        tmk_buf_unref(&buf);
    return status;
}

/* Decides what the first record of an array says of all, and holds the others against it. *shape
 * gets an axis for the entry where a record is one. `want`: of the first record; else NULL. */
static enum tmk_status check_entry(const struct tmk_source *source, uint32_t array,
                                   const struct tmk_source_input *want, enum tmk_dtype dtype,
                                   struct tmk_shape *shape, struct tmk_diag *diag) {
    struct stream *stream = source->own;
    struct tmk_source_array *is = &stream->arrays[array];
    struct line *line = &stream->lines[array];
    const bool whole = stream->pull && stream->pull->whole;
    if (want)
        line->single = whole || !shape->rank || (want->has_shape && shape->rank < want->shape.rank);
    if (line->single && shape->rank == TMK_MAX_RANK)
        return tmk_fail(diag, TMK_SHAPE, "has too many axes");
    if (line->single)
        tmk_shape_insert(shape, 0, 1);
    if (want)
        *is = (struct tmk_source_array){.name = want->input,
                                        .entries = whole,
                                        .n_entries = TMK_SOURCE_ENDLESS,
                                        .dtype = dtype,
                                        .shape = *shape};
    else if (dtype != is->dtype || (!whole && shape->rank != is->shape.rank))
        return tmk_fail(diag, TMK_SHAPE,
                        "is %s of rank %d, but the first record for '%s' was %s of rank %d",
                        tmk_dtype_name(dtype), shape->rank, is->name, tmk_dtype_name(is->dtype),
                        is->shape.rank);
    if (line->waiting == MOST_WAITING)
        return tmk_fail(diag, TMK_FORMAT,
                        "is for '%s', which is %d records ahead of another input; they take turns",
                        is->name, MOST_WAITING);
    return TMK_OK;
}

static bool put_in_line(struct line *line, struct tmk_tensor *tensor) {
    struct record *record = calloc(1, sizeof *record);
    if (!record)
        return false;
    record->tensor = *tensor;
    line->pulled += (uint64_t)tensor->shape.dim[0];
    *(line->last ? &line->last->next : &line->first) = record;
    line->last = record;
    line->waiting++;
    return true;
}

static void drop_first(struct line *line) {
    struct record *record = line->first;
    line->first = record->next;
    if (!line->first)
        line->last = NULL;
    line->used = 0;
    line->waiting--;
    tmk_tensor_finish(&record->tensor);
    free(record);
}

static enum tmk_status read_npy(struct tmk_source *source, uint32_t array,
                                const struct tmk_source_input *want, struct tmk_tensor *out,
                                bool *there, struct tmk_diag *diag) {
    struct stream *stream = source->own;
    struct tmk_npy npy;
    struct tmk_buf *bytes = NULL;
    TMK_TRY(read_header(stream, &npy, there, diag));
    if (!*there)
        return TMK_OK;
    if (npy.refusal)
        return tmk_npy_slice(&npy, NULL, 0, 0, out, diag);
    TMK_TRY(check_entry(source, array, want, npy.dtype, &npy.shape, diag));
    npy.offset = 0;
    TMK_TRY(read_elements(stream, npy.bytes, &bytes, diag));
    enum tmk_status status = tmk_npy_slice(&npy, bytes, 0, tmk_npy_entries(&npy), out, diag);
    tmk_buf_unref(&bytes);
    return status;
}

static void keep_owner(void *owner) {
    (void)owner;
}

/* The record as a tensor over its own memory, which is released with it, whatever happens. */
static enum tmk_status wrap_record(const struct tmk_record *record, struct tmk_tensor *out,
                                   struct tmk_diag *diag) {
    size_t count, bytes = 0;
    struct tmk_tensor tensor = {0};
    const size_t element = tmk_dtype_size(record->dtype);
    struct tmk_buf *buf = tmk_buf_borrowed(
        record->data, 0, record->release ? record->release : keep_owner, record->owner);
    if (!buf) {
        if (record->release)
            record->release(record->owner);
        return tmk_nomem(diag);
    }
    const bool fits = tmk_shape_count(&record->shape, &count) &&
                      tmk_mul_size(count, element, &bytes) && (record->data || !bytes);
    if (fits && element) {
        tmk_tensor_borrow(&tensor, record->dtype, &record->shape, (void *)(size_t)record->data);
        tensor.buf = buf;
        enum tmk_status status = tmk_tensor_widen(&tensor, out, diag);
        tmk_tensor_finish(&tensor);
        return status;
    }
    tmk_buf_unref(&buf);
    return fits ? tmk_fail(diag, TMK_TYPE, "is of %s, which is no type of data",
                           tmk_dtype_name(record->dtype))
                : tmk_fail(diag, TMK_SHAPE, "has a shape that is none, or no numbers");
}

static enum tmk_status pull_record(struct tmk_source *source, uint32_t array,
                                   const struct tmk_source_input *want, struct tmk_tensor *out,
                                   bool *there, struct tmk_diag *diag) {
    struct stream *stream = source->own;
    struct tmk_record record = {0};
    struct tmk_tensor tensor = {0};
    bool end = false;
    TMK_TRY(stream->pull->next(stream->pull->context,
                               want ? want->input : stream->arrays[array].name, &record, &end,
                               diag));
    *there = !end;
    if (end)
        return TMK_OK;
    TMK_TRY(wrap_record(&record, &tensor, diag));
    tmk_hash128_update(stream->hash, &tensor.shape.rank, sizeof tensor.shape.rank);
    tmk_hash128_update(stream->hash, tensor.shape.dim,
                       (size_t)tensor.shape.rank * sizeof tensor.shape.dim[0]);
    tmk_hash128_update(stream->hash, tensor.data, tmk_tensor_bytes(&tensor));
    enum tmk_status status = check_entry(source, array, want, tensor.dtype, &tensor.shape, diag);
    if (status == TMK_OK)
        *out = tensor;
    else
        tmk_tensor_finish(&tensor);
    return status;
}

static enum tmk_status read_record(struct tmk_source *source, uint32_t array,
                                   const struct tmk_source_input *want, bool *there,
                                   struct tmk_diag *diag) {
    struct stream *stream = source->own;
    struct tmk_tensor tensor = {0};
    TMK_TRY((stream->pull ? pull_record : read_npy)(source, array, want, &tensor, there, diag));
    if (*there && !put_in_line(&stream->lines[array], &tensor)) {
        tmk_tensor_finish(&tensor);
        return tmk_nomem(diag);
    }
    stream->records += *there;
    return TMK_OK;
}

/* A record for each array. */
static enum tmk_status read_round(struct tmk_source *source, const struct tmk_source_input *wants,
                                  uint32_t n, struct tmk_diag *diag) {
    struct stream *stream = source->own;
    for (uint32_t a = 0; a < n && !stream->ended; a++) {
        bool there = false;
        TMK_TRY(tmk_in(diag, read_record(source, a, wants ? &wants[a] : NULL, &there, diag),
                       "%s: record %llu", stream->called, (unsigned long long)stream->records + 1));
        if (!there && a)
            return tmk_fail(diag, TMK_FORMAT, "%s: ends after record %llu, without one for '%s'",
                            stream->called, (unsigned long long)stream->records,
                            wants ? wants[a].input : stream->arrays[a].name);
        stream->ended = !there;
    }
    return TMK_OK;
}

/* ---- as a source ---- */

static enum tmk_status bind_stream(struct tmk_source *source, const struct tmk_source_input *wants,
                                   uint32_t n, struct tmk_diag *diag) {
    struct stream *stream = source->own;
    stream->arrays = tmk_arena_array(&source->arena, n, sizeof *stream->arrays);
    stream->lines = tmk_arena_array(&source->arena, n, sizeof *stream->lines);
    TMK_TRY_ALLOC(stream->arrays && stream->lines, diag);
    source->info.arrays = stream->arrays;
    source->info.n_arrays = n;
    TMK_TRY(read_round(source, wants, n, diag));
    if (stream->ended)
        return tmk_fail(diag, TMK_FORMAT, "%s: is empty; it should hold %s", stream->called,
                        stream->pull ? "a record for each input" : ".npy records");
    for (uint32_t a = 0; a < n; a++)
        if (!(stream->arrays[a].name = tmk_arena_strdup(&source->arena, wants[a].input)))
            return tmk_nomem(diag);
    return TMK_OK;
}

/* Until the array has an entry in line, or the stream is at its end. */
static enum tmk_status fill_line(struct tmk_source *source, uint32_t array, struct tmk_diag *diag) {
    struct stream *stream = source->own;
    struct line *line = &stream->lines[array];
    for (;;) {
        while (line->first && line->used == (uint64_t)line->first->tensor.shape.dim[0])
            drop_first(line);
        if (line->first || stream->ended)
            return TMK_OK;
        TMK_TRY(read_round(source, NULL, source->info.n_arrays, diag));
    }
}

/* Entries of the first record, up to `most`. */
static uint64_t advance_line(struct line *line, uint64_t most) {
    uint64_t left = (uint64_t)line->first->tensor.shape.dim[0] - line->used;
    uint64_t n = left < most ? left : most;
    line->used += n;
    line->at += n;
    return n;
}

static bool same_entries(const struct tmk_shape *a, const struct tmk_shape *b) {
    return a->rank == b->rank &&
           memcmp(a->dim + 1, b->dim + 1, (size_t)(a->rank - 1) * sizeof a->dim[0]) == 0;
}

/* `count` entries that lie in the first record, where they lie. */
static void view_line(struct line *line, uint64_t count, struct tmk_tensor *out) {
    const struct tmk_tensor *from = &line->first->tensor;
    const size_t entry = tmk_tensor_bytes(from) / (size_t)from->shape.dim[0];
    tmk_tensor_share(out, from);
    if (from->data) /* NULL: a record without elements */
        out->data = (char *)from->data + line->used * entry;
    out->shape.dim[0] = (int64_t)count;
    (void)advance_line(line, count);
}

/* `count` entries, or fewer, gathered from records of one shape. */
static enum tmk_status gather_line(struct tmk_source *source, uint32_t array, uint64_t count,
                                   struct tmk_tensor *out, struct tmk_diag *diag) {
    struct line *line = &((struct stream *)source->own)->lines[array];
    struct tmk_tensor tensor = {0};
    struct tmk_shape shape = line->first->tensor.shape;
    enum tmk_dtype origin = line->first->tensor.origin;
    uint64_t done = 0;
    enum tmk_status status = TMK_OK;
    if (count <= (uint64_t)shape.dim[0] - line->used) {
        view_line(line, count, out);
        return TMK_OK;
    }
    shape.dim[0] = (int64_t)count;
    TMK_TRY(tmk_tensor_init(&tensor, line->first->tensor.dtype, &shape, diag));
    size_t entry = tmk_tensor_bytes(&tensor) / (size_t)count;
    while (done < count && line->first && same_entries(&shape, &line->first->tensor.shape)) {
        const char *from = (const char *)line->first->tensor.data + line->used * entry;
        uint64_t n = advance_line(line, count - done);
        if (entry)
            memcpy((char *)tensor.data + done * entry, from, n * entry);
        done += n;
        status = done < count ? fill_line(source, array, diag) : TMK_OK;
        if (status != TMK_OK)
            break;
    }
    tensor.shape.dim[0] = (int64_t)done;
    tensor.origin = origin;
    if (status == TMK_OK)
        *out = tensor;
    else
        tmk_tensor_finish(&tensor);
    return status;
}

static enum tmk_status read_stream(struct tmk_source *source, uint32_t array, uint64_t first,
                                   uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    struct line *line = &((struct stream *)source->own)->lines[array];
    if (first < line->at || !count || count > INT64_MAX)
        return tmk_fail(diag, TMK_RANGE, "%s: entry %llu is gone",
                        ((struct stream *)source->own)->called, (unsigned long long)first);
    for (;;) {
        TMK_TRY(fill_line(source, array, diag));
        if (!line->first) {
            struct tmk_shape none = source->info.arrays[array].shape;
            none.dim[0] = 0;
            return tmk_tensor_init(out, source->info.arrays[array].dtype, &none, diag);
        }
        if (line->at == first)
            break;
        (void)advance_line(line, first - line->at);
    }
    if (!line->used)
        line->began = first;
    return gather_line(source, array, count, out, diag);
}

static bool begins_record(const struct tmk_source *source, uint32_t array, uint64_t entry) {
    return ((const struct stream *)source->own)->lines[array].began == entry;
}

static void end_stream(struct tmk_source *source) {
    struct stream *stream = source->own;
    if (!stream->hash)
        return;
    tmk_hash128_finish(&stream->hash, stream->hex);
    for (uint32_t a = 0; a < source->info.n_arrays; a++)
        stream->arrays[a].n_entries = stream->lines[a].pulled;
}

static enum tmk_status hash_stream(const struct tmk_source *source, const atomic_bool *stop,
                                   char hex[TMK_HASH128_HEX], struct tmk_diag *diag) {
    (void)stop;
    (void)diag;
    memcpy(hex, ((const struct stream *)source->own)->hex, TMK_HASH128_HEX);
    return TMK_OK;
}

static void close_stream(struct tmk_source *source) {
    struct stream *stream = source->own;
    char hex[TMK_HASH128_HEX];
    for (uint32_t a = 0; stream->lines && a < source->info.n_arrays; a++)
        while (stream->lines[a].first)
            drop_first(&stream->lines[a]);
    if (stream->hash)
        tmk_hash128_finish(&stream->hash, hex);
    tmk_input_drop(&stream->input);
}

const struct tmk_source_kind tmk_source_stream = {
    .name = "stream",
    .takes = "- (.npy records on standard input)",
    .own_size = sizeof(struct stream),
    .claims = claims_stream,
    .open = open_stream,
    .bind = bind_stream,
    .read = read_stream,
    .begins = begins_record,
    .end = end_stream,
    .hash = hash_stream,
    .close = close_stream,
};
