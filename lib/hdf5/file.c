/* SPDX-License-Identifier: Apache-2.0 */
#include "hdf5/file.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/memory.h"
#include "base/size.h"
#include "hdf5/ahead.h"
#include "tmk_version.h"

enum {
    SECONDS = 10,             /* of processor time that a request may take, */
    BYTES_A_SECOND = 1 << 22, /* and those that it takes to unpack so many */
};

const struct tmk_helper_kind tmk_hdf5_helper = {"tidemark-read-hdf5", "HDF5", "the HDF5 library"};

/* What the process may take on top of what it starts with: HDF5 itself; without a limit; the
 * largest chunk of HDF5, unpacked, and what else is kept. */
static const uint64_t min_memory = UINT64_C(64) << 20, default_memory = UINT64_C(2) << 30,
                      max_memory = UINT64_C(9) << 30;

static uint64_t choose_memory(void) {
    const uint64_t limit = tmk_memory_limit(), used = tmk_memory_used();
    if (!limit)
        return default_memory;
    const uint64_t left = limit > used ? limit - used : 0;
    return left < min_memory ? min_memory : left > max_memory ? max_memory : left;
}

/* ---- the file ---- */

/* Sends a request of a header and `len` further bytes. `unpacked`: bytes that it may unpack. */
static enum tmk_status hdf5_send(struct tmk_hdf5 *file, const struct tmk_hdf5_ask *ask,
                                 const void *more, size_t len, uint64_t unpacked,
                                 struct tmk_diag *diag) {
    return tmk_helper_send(&file->process, ask, sizeof *ask, more, len,
                           SECONDS + unpacked / BYTES_A_SECOND, diag);
}

/* Waits for the answer to the oldest request that has none; it brings exactly `len` bytes, or
 * states why there are none. */
static enum tmk_status hdf5_receive(struct tmk_hdf5 *file, enum tmk_hdf5_op op, void *more,
                                    size_t len, struct tmk_diag *diag) {
    struct tmk_helper_answer answer = {0};
    TMK_TRY(tmk_helper_receive(&file->process, op, &answer, more, len, diag));
    if (answer.outcome == TMK_HDF5_LACKED && tmk_memory_limit())
        return tmk_fail(diag, TMK_LIMIT,
                        "HDF5: %s; its process may take %llu MiB of the memory limit", answer.why,
                        (unsigned long long)(file->process.memory >> 20));
    return answer.outcome ? tmk_fail(diag, TMK_FORMAT, "HDF5: %s", answer.why) : TMK_OK;
}

/* Waits for the read that is under way, and forgets what it brings. */
static void hdf5_drop_ahead(struct tmk_hdf5 *file) {
    if (file->ahead.op == TMK_HDF5_READ)
        (void)!hdf5_receive(file, TMK_HDF5_READ, NULL, 0, NULL);
    file->ahead.op = TMK_HDF5_OPEN;
}

/* Asks, and waits for the answer, of exactly `size` bytes. */
static enum tmk_status hdf5_call(struct tmk_hdf5 *file, const struct tmk_hdf5_ask *ask,
                                 const void *more, size_t len, void *answer, size_t size,
                                 struct tmk_diag *diag) {
    hdf5_drop_ahead(file);
    TMK_TRY(hdf5_send(file, ask, more, len, 0, diag));
    return hdf5_receive(file, ask->op, answer, size, diag);
}

static enum tmk_status open_it(struct tmk_hdf5 *file, const char *path, struct tmk_diag *diag) {
    const struct tmk_hdf5_ask ask = {.op = TMK_HDF5_OPEN};
    TMK_TRY(tmk_infile_open(path, &file->bytes, diag));
    TMK_TRY(tmk_helper_begin(&tmk_hdf5_helper, file->bytes.fd, 2 * (size_t)TMK_HDF5_HALF,
                             choose_memory(), &file->process, diag));
    return hdf5_call(file, &ask, NULL, 0, NULL, 0, diag);
}

enum tmk_status tmk_hdf5_open(const char *path, struct tmk_hdf5 **out, struct tmk_diag *diag) {
    if (!TMK_HAVE_HDF5)
        return tmk_fail(diag, TMK_UNSUPPORTED,
                        "an HDF5 file, but this build has no HDF5; build with -Dhdf5=enabled");
    struct tmk_hdf5 *file = calloc(1, sizeof *file);
    TMK_TRY_ALLOC(file, diag);
    file->bytes.fd = file->process.fd = -1;
    enum tmk_status status = open_it(file, path, diag);
    if (status == TMK_OK)
        *out = file;
    else
        tmk_hdf5_close(&file);
    return status;
}

void tmk_hdf5_close(struct tmk_hdf5 **file) {
    if (!*file)
        return;
    tmk_helper_end(&(*file)->process);
    tmk_infile_close(&(*file)->bytes);
    free(*file);
    *file = NULL;
}

const struct tmk_infile *tmk_hdf5_bytes(const struct tmk_hdf5 *file) {
    return &file->bytes;
}

static enum tmk_status fail_reply(struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_READ, "is damaged: the HDF5 library gave an invalid answer");
}

/* ---- what there is ---- */

static bool take_look(uint32_t kind, uint32_t linked, enum tmk_hdf5_kind *out, bool *is_linked) {
    if (kind >= TMK_HDF5_N_KINDS || linked > 1)
        return false;
    *out = (enum tmk_hdf5_kind)kind;
    *is_linked = linked;
    return true;
}

enum tmk_status tmk_hdf5_look(struct tmk_hdf5 *file, const char *path, enum tmk_hdf5_kind *out,
                              bool *linked, struct tmk_diag *diag) {
    const struct tmk_hdf5_ask ask = {.op = TMK_HDF5_LOOK};
    struct tmk_hdf5_look look = {0};
    bool is_linked;
    TMK_TRY(hdf5_call(file, &ask, path, strlen(path) + 1, &look, sizeof look, diag));
    if (!take_look(look.kind, look.linked, out, &is_linked))
        return fail_reply(diag);
    if (linked)
        *linked = is_linked;
    return TMK_OK;
}

/* Points the members at their names among `len` bytes of what TMK_HDF5_LIST puts there. */
static bool take_members(const char *bytes, size_t len, struct tmk_hdf5_member *members,
                         uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (len < 3 || !take_look((unsigned char)bytes[0], (unsigned char)bytes[1],
                                  &members[i].kind, &members[i].linked))
            return false;
        members[i].name = bytes + 2;
        size_t name = strnlen(bytes + 2, len - 2);
        if (name == len - 2) /* without its end */
            return false;
        bytes += name + 3;
        len -= name + 3;
    }
    return len == 0;
}

enum tmk_status tmk_hdf5_list(struct tmk_hdf5 *file, const char *path, struct tmk_hdf5_member **out,
                              uint32_t *n, struct tmk_diag *diag) {
    const struct tmk_hdf5_ask ask = {.op = TMK_HDF5_LIST};
    struct tmk_hdf5_count count = {0};
    TMK_TRY(hdf5_call(file, &ask, path, strlen(path) + 1, &count, sizeof count, diag));
    if (count.bytes > TMK_HDF5_HALF || count.n > count.bytes / 3)
        return fail_reply(diag);
    size_t table = (size_t)count.n * sizeof **out;
    struct tmk_hdf5_member *members = malloc(table + (size_t)count.bytes + 1);
    TMK_TRY_ALLOC(members, diag);
    char *bytes = (char *)members + table;
    memcpy(bytes, file->process.shared, (size_t)count.bytes);
    if (!take_members(bytes, (size_t)count.bytes, members, (uint32_t)count.n)) {
        free(members);
        return fail_reply(diag);
    }
    *out = members;
    *n = (uint32_t)count.n;
    return TMK_OK;
}

enum tmk_status tmk_hdf5_text(struct tmk_hdf5 *file, const char *path, const char *attribute,
                              char *out, size_t size, bool *found, struct tmk_diag *diag) {
    const struct tmk_hdf5_ask ask = {.op = TMK_HDF5_TEXT};
    struct tmk_hdf5_count count = {0};
    char both[TMK_HELPER_MOST_MESSAGE];
    size_t at = strlen(path) + 1, len = at + strlen(attribute) + 1;
    if (len > sizeof both)
        return tmk_fail(diag, TMK_ARGUMENT, "its name is too long");
    memcpy(both, path, at);
    memcpy(both + at, attribute, len - at);
    TMK_TRY(hdf5_call(file, &ask, both, len, &count, sizeof count, diag));
    if (count.n > 1 || count.bytes > TMK_HDF5_HALF)
        return fail_reply(diag);
    *found = count.n;
    if (count.n && size) {
        size_t take = count.bytes < size ? (size_t)count.bytes : size - 1;
        memcpy(out, file->process.shared, take);
        out[take] = '\0';
    }
    return TMK_OK;
}

/* ---- datasets ---- */

static bool take_type(const struct tmk_hdf5_type *from, struct tmk_hdf5_element *out) {
    if (from->is >= TMK_HDF5_N_CLASSES || from->is_signed > 1 || from->size > SIZE_MAX / 2 ||
        (from->size == 0) != (from->is == TMK_HDF5_NONE))
        return false;
    *out = (struct tmk_hdf5_element){(enum tmk_hdf5_class)from->is, from->is_signed,
                                     from->exponent_bits, (size_t)from->size};
    return true;
}

static bool take_set(const struct tmk_hdf5_set *from, struct tmk_hdf5_dataset *out) {
    struct tmk_hdf5_dataset set = {.number = from->number,
                                   .rank = (int)from->rank,
                                   .stored = from->stored,
                                   .address = from->address,
                                   .compact = from->compact,
                                   .filtered = from->filtered};
    if (from->rank > TMK_HDF5_MAX_RANK || from->compact > 1 || from->filtered > 1 ||
        from->type.is == TMK_HDF5_NONE || !take_type(&from->type, &set.element))
        return false;
    memcpy(set.dim, from->dim, sizeof set.dim);
    memcpy(set.chunk, from->chunk, sizeof set.chunk);
    *out = set;
    return true;
}

enum tmk_status tmk_hdf5_dataset_open(struct tmk_hdf5 *file, const char *path,
                                      struct tmk_hdf5_dataset *out, struct tmk_diag *diag) {
    const struct tmk_hdf5_ask ask = {.op = TMK_HDF5_SET};
    struct tmk_hdf5_set set = {0};
    TMK_TRY(hdf5_call(file, &ask, path, strlen(path) + 1, &set, sizeof set, diag));
    return take_set(&set, out) ? TMK_OK : fail_reply(diag);
}

enum tmk_status tmk_hdf5_shut(struct tmk_hdf5 *file, struct tmk_hdf5_dataset *set,
                              struct tmk_diag *diag) {
    const struct tmk_hdf5_ask ask = {.op = TMK_HDF5_SHUT, .dataset = set->number};
    return hdf5_call(file, &ask, NULL, 0, NULL, 0, diag);
}

/* Messages of a list of things: what fits into one. */
struct letter {
    unsigned char bytes[TMK_HELPER_MOST_MESSAGE - sizeof(struct tmk_hdf5_ask)];
    size_t len;
    bool full;
};

static void put_bytes(struct letter *letter, const void *bytes, size_t len) {
    if (letter->full || len > sizeof letter->bytes - letter->len) {
        letter->full = true;
        return;
    }
    memcpy(letter->bytes + letter->len, bytes, len);
    letter->len += len;
}

enum tmk_status tmk_hdf5_columns(struct tmk_hdf5 *file, const struct tmk_hdf5_dataset *set,
                                 const char *const *names, uint32_t n, struct tmk_hdf5_element *out,
                                 struct tmk_diag *diag) {
    const struct tmk_hdf5_ask ask = {.op = TMK_HDF5_COLUMNS, .dataset = set->number, .n = n};
    struct letter letter = {.len = 0};
    for (uint32_t i = 0; i < n; i++)
        put_bytes(&letter, names[i], strlen(names[i]) + 1);
    if (letter.full)
        return tmk_fail(diag, TMK_ARGUMENT, "too many columns");
    struct tmk_hdf5_type *types = calloc((size_t)n + 1, sizeof *types);
    TMK_TRY_ALLOC(types, diag);
    enum tmk_status status =
        hdf5_call(file, &ask, letter.bytes, letter.len, types, (size_t)n * sizeof *types, diag);
    for (uint32_t i = 0; i < n && status == TMK_OK; i++)
        if (!take_type(&types[i], &out[i]))
            status = fail_reply(diag);
    free(types);
    return status;
}

enum tmk_status tmk_hdf5_read_as(struct tmk_hdf5 *file, struct tmk_hdf5_dataset *set,
                                 enum tmk_hdf5_as as, size_t chars, struct tmk_diag *diag) {
    static const size_t sizes[TMK_HDF5_N_AS] = {
        [TMK_HDF5_I8] = 1,  [TMK_HDF5_I16] = 2, [TMK_HDF5_I32] = 4, [TMK_HDF5_I64] = 8,
        [TMK_HDF5_U8] = 1,  [TMK_HDF5_U16] = 2, [TMK_HDF5_U32] = 4, [TMK_HDF5_U64] = 8,
        [TMK_HDF5_F32] = 4, [TMK_HDF5_F64] = 8, [TMK_HDF5_BYTE] = 1};
    const struct tmk_hdf5_ask ask = {.op = TMK_HDF5_READ_AS, .dataset = set->number, .n = 1};
    const struct tmk_hdf5_spec spec = {.as = as, .chars = chars};
    struct tmk_hdf5_direct answer = {0};
    size_t bytes;
    TMK_TRY(hdf5_call(file, &ask, &spec, sizeof spec, &answer, sizeof answer, diag));
    set->size = as == TMK_HDF5_CHARS ? chars : sizes[as];
    /* Where bytes are what is wanted, in one piece, they need not go through the library. */
    set->direct = answer.direct && set->address != UINT64_MAX && set->size == set->element.size &&
                  tmk_hdf5_size(set, set->rank ? set->dim[0] : 1, &bytes) && bytes <= set->stored &&
                  set->address <= file->bytes.size && bytes <= file->bytes.size - set->address;
    return TMK_OK;
}

enum tmk_status tmk_hdf5_rows_as(struct tmk_hdf5 *file, struct tmk_hdf5_dataset *set,
                                 const struct tmk_hdf5_field *fields, uint32_t n, size_t row,
                                 struct tmk_diag *diag) {
    const struct tmk_hdf5_ask ask = {
        .op = TMK_HDF5_ROWS_AS, .dataset = set->number, .n = n, .size = row};
    struct letter letter = {.len = 0};
    for (uint32_t i = 0; i < n; i++) {
        const struct tmk_hdf5_spec spec = {fields[i].as, fields[i].chars, fields[i].at};
        put_bytes(&letter, &spec, sizeof spec);
    }
    for (uint32_t i = 0; i < n; i++)
        put_bytes(&letter, fields[i].name, strlen(fields[i].name) + 1);
    if (letter.full)
        return tmk_fail(diag, TMK_ARGUMENT, "too many columns");
    TMK_TRY(hdf5_call(file, &ask, letter.bytes, letter.len, NULL, 0, diag));
    set->size = row;
    set->direct = false;
    return TMK_OK;
}

/* Elements: in pieces, the next of which is on its way while one is copied. */

enum { PIECE = 1 << 22 }; /* bytes that stay in a processor's cache until they are copied */

/* The units that a dataset is read in: so many bytes each, an index of `axis` and all of the axes
 * behind it. `per` of them are an entry. */
struct units {
    int axis;
    size_t bytes;
    uint64_t per;
};

bool tmk_hdf5_size(const struct tmk_hdf5_dataset *set, uint64_t count, size_t *out) {
    size_t bytes = set->size;
    if (count > SIZE_MAX || !tmk_mul_size(bytes, (size_t)count, &bytes))
        return false;
    for (int i = 1; i < set->rank; i++)
        if (set->dim[i] > SIZE_MAX || !tmk_mul_size(bytes, (size_t)set->dim[i], &bytes))
            return false;
    *out = bytes;
    return true;
}

/* The first axis of which one index fits into half of the shared memory. An entry's size is one.
 * false: not even an element does. */
static bool choose_units(const struct tmk_hdf5_dataset *set, struct units *out) {
    *out = (struct units){.bytes = set->size, .per = 1};
    int axis = set->rank > 0 ? set->rank - 1 : 0;
    while (axis > 0 && out->bytes * set->dim[axis] <= TMK_HDF5_HALF)
        out->bytes *= set->dim[axis--];
    for (int i = 1; i <= axis; i++)
        out->per *= set->dim[i];
    out->axis = axis;
    return out->bytes <= TMK_HDF5_HALF;
}

/* How many units from `at` on (of `left`) are read at once: whole chunks, where the set has any, so
 * that none is unpacked twice. */
static uint64_t piece_size(const struct tmk_hdf5_dataset *set, const struct units *units,
                           uint64_t at, uint64_t left) {
    uint64_t chunk = set->chunk[units->axis], most = TMK_HDF5_HALF / units->bytes,
             n = PIECE / units->bytes;
    if (units->axis > 0) {
        at %= set->dim[units->axis];
        if (left > set->dim[units->axis] - at)
            left = set->dim[units->axis] - at;
    }
    if (chunk && n >= chunk)
        n -= (at + n) % chunk;
    else if (chunk)
        n = chunk - at % chunk;
    n = n > most ? most : n;
    return n > left ? left : n ? n : 1;
}

/* Asks for units from `at` on, which end before `end`. Returns how many. */
static uint64_t cut_piece(const struct tmk_hdf5_dataset *set, const struct units *units,
                          uint64_t at, uint64_t end, struct tmk_hdf5_ask *out) {
    uint64_t n = piece_size(set, units, at, end - at);
    *out = (struct tmk_hdf5_ask){.op = TMK_HDF5_READ, .dataset = set->number};
    for (int i = set->rank - 1; i >= 0; i--) {
        bool whole = i > units->axis;
        out->start[i] = whole ? 0 : i ? at % set->dim[i] : at;
        out->extent[i] = whole ? set->dim[i] : i == units->axis ? n : 1;
        if (!whole && i)
            at /= set->dim[i];
    }
    out->size = n * units->bytes;
    return n;
}

static bool is_under_way(const struct tmk_hdf5 *file, const struct tmk_hdf5_ask *ask) {
    const struct tmk_hdf5_ask *ahead = &file->ahead;
    return ahead->op == TMK_HDF5_READ && ahead->dataset == ask->dataset &&
           memcmp(ahead->start, ask->start, sizeof ask->start) == 0 &&
           memcmp(ahead->extent, ask->extent, sizeof ask->extent) == 0;
}

/* Bytes of a chunk that is kept; each read may unpack one more than it brings. */
static uint64_t chunk_bytes(const struct tmk_hdf5_dataset *set) {
    uint64_t bytes = set->rank && set->chunk[0] ? set->element.size : 0;
    for (int i = 0; i < set->rank && bytes; i++)
        if (__builtin_mul_overflow(bytes, set->chunk[i], &bytes) || bytes > TMK_HDF5_LARGEST_CACHE)
            return TMK_HDF5_LARGEST_CACHE;
    return bytes;
}

static enum tmk_status set_out(struct tmk_hdf5 *file, const struct tmk_hdf5_dataset *set,
                               const struct tmk_hdf5_ask *ask, struct tmk_diag *diag) {
    TMK_TRY(hdf5_send(file, ask, NULL, 0, ask->size + chunk_bytes(set), diag));
    file->ahead = *ask;
    return TMK_OK;
}

static enum tmk_status read_pieces(struct tmk_hdf5 *file, const struct tmk_hdf5_dataset *set,
                                   uint64_t first, uint64_t count, bool in_order, unsigned char *to,
                                   struct tmk_diag *diag) {
    struct units units;
    uint64_t end;
    struct tmk_hdf5_ask ask;
    if (!choose_units(set, &units) || __builtin_mul_overflow(first + count, units.per, &end))
        return tmk_fail(diag, TMK_FORMAT, "it is too large");
    uint64_t at = first * units.per, n = cut_piece(set, &units, at, end, &ask);
    if (!is_under_way(file, &ask)) {
        hdf5_drop_ahead(file);
        TMK_TRY(set_out(file, set, &ask, diag));
    }
    while (at < end) {
        size_t half = file->ahead.half, bytes = (size_t)n * units.bytes;
        file->ahead.op = TMK_HDF5_OPEN;
        TMK_TRY(hdf5_receive(file, TMK_HDF5_READ, NULL, 0, diag));
        at += n;
        uint64_t left = set->rank ? set->dim[0] - (first + count) : 0, more = 0;
        if (at < end)
            n = cut_piece(set, &units, at, end, &ask);
        else if (in_order) /* the next call's first piece, most likely; no loss if not */
            more = count < left ? count : left;
        ask.half = !half;
        if (at < end) {
            TMK_TRY(set_out(file, set, &ask, diag));
        } else if (more && !__builtin_mul_overflow(first + count + more, units.per, &left)) {
            (void)cut_piece(set, &units, at, left, &ask);
            ask.half = !half;
            (void)!set_out(file, set, &ask, NULL);
        }
        memcpy(to, file->process.shared + half * TMK_HDF5_HALF, bytes);
        to += bytes;
    }
    return TMK_OK;
}

enum tmk_status tmk_hdf5_read(struct tmk_hdf5 *file, struct tmk_hdf5_dataset *set, uint64_t first,
                              uint64_t count, void *to, struct tmk_diag *diag) {
    uint64_t n = set->rank ? set->dim[0] : 1;
    size_t bytes, before;
    if (first > n || count > n - first)
        return tmk_fail(diag, TMK_RANGE, "entries %llu to %llu are wanted, of %llu",
                        (unsigned long long)first, (unsigned long long)(first + count),
                        (unsigned long long)n);
    if (!tmk_hdf5_size(set, count, &bytes))
        return tmk_fail(diag, TMK_FORMAT, "it is too large");
    if (!bytes)
        return TMK_OK;
    if (set->direct && tmk_hdf5_size(set, first, &before))
        return tmk_infile_read(&file->bytes, set->address + before, to, bytes, diag);
    /* A second read that begins where the first one ended promises a third. */
    bool in_order = first && first == set->next && file->last == set->number + 1;
    set->next = first + count;
    file->last = set->number + 1;
    return read_pieces(file, set, first, count, in_order, to, diag);
}
