/* SPDX-License-Identifier: Apache-2.0 */
/* Elements: in pieces, the next of which is on its way while one is copied. */
#include <string.h>

#include "base/diag.h"
#include "base/size.h"
#include "hdf5/ahead.h"

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

void tmk_hdf5_drop_ahead(struct tmk_hdf5 *file) {
    if (file->ahead.op == TMK_HDF5_READ)
        (void)!tmk_hdf5_receive(file, TMK_HDF5_READ, NULL, 0, NULL);
    file->ahead.op = TMK_HDF5_OPEN;
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
    TMK_TRY(tmk_hdf5_send(file, ask, NULL, 0, ask->size + chunk_bytes(set), diag));
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
        tmk_hdf5_drop_ahead(file);
        TMK_TRY(set_out(file, set, &ask, diag));
    }
    while (at < end) {
        size_t half = file->ahead.half, bytes = (size_t)n * units.bytes;
        file->ahead.op = TMK_HDF5_OPEN;
        TMK_TRY(tmk_hdf5_receive(file, TMK_HDF5_READ, NULL, 0, diag));
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
