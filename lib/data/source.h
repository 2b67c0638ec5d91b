/* SPDX-License-Identifier: Apache-2.0 */
/* Calibration inputs: named arrays cut into entries. One file a kind of source; kinds are found
 * through one list.
 *
 * A source holds one or more arrays, each of so many entries. Two kinds:
 *  - `whole`: each entry is a complete tensor of its own, shapes may differ from entry to entry
 * (ONNX test sets);
 *  - otherwise: one big array [n_entries, ...] (NumPy): entries are its slices along the first
 * axis.
 * A source is used by one thread at a time. Tensors it returns stay valid after it is closed (they
 * hold references). */
#pragma once

#include <stdatomic.h>

#include <tidemark/pull.h>
#include <tidemark/tensor.h>

#include "base/hash.h"

struct tmk_source;
struct tmk_image_spec;

#define TMK_SOURCE_ENDLESS UINT64_MAX /* how many entries there are shows when they end */

struct tmk_source_array {
    const char *name; /* of the input it is for, or "" when the source does not name it */
    bool whole;
    bool entries; /* the first axis counts samples, each of them an input of any rank and shape */
    uint64_t n_entries; /* TMK_SOURCE_ENDLESS becomes a number with tmk_source_end */
    enum tmk_dtype
        dtype; /* !whole: as returned (float16 and float64 are widened to float32); TMK_UNDEFINED: a
                * type that cannot be read, an error only when it is read */
    struct tmk_shape shape; /* !whole: of the big array, first axis included; -1: not known before
                               an entry is read, and may differ between entries */
};

struct tmk_source_info {
    const char *kind; /* as in its row: "npy", "images" */
    const char *path;
    const char *label; /* the path without directories, for the record */
    const struct tmk_source_array *arrays;
    uint32_t n_arrays;
    bool binds;    /* has no arrays before tmk_source_bind */
    bool prompts;  /* which is made for inputs that it does not name, too: masks, caches */
    bool separate; /* entries are files of their own: a bad one does not affect the others */
};

/* Decodes one serialised tensor file (ONNX TensorProto); *name is malloc'ed or NULL. Given by the
 * caller, since this module does not depend on model formats. */
typedef enum tmk_status (*tmk_decode_tensor)(const char *path, struct tmk_tensor *out, char **name,
                                             struct tmk_diag *diag);

struct tmk_source_options {
    tmk_decode_tensor decode;           /* NULL: ONNX tensors are refused */
    const struct tmk_image_spec *image; /* what is made of images; NULL: the default */
    const struct tmk_pull *pull;        /* "-" reads from it; NULL: from standard input */
};

/* Opens what `path` names; the list in data/kind.h states what that may be. `options` may be NULL;
 * it is only read during the call. TMK_READ, TMK_FORMAT (which file, which byte or field),
 * TMK_UNSUPPORTED (which kinds there are). */
enum tmk_status tmk_source_open(const char *path, const struct tmk_source_options *options,
                                struct tmk_source **out, struct tmk_diag *diag);
void tmk_source_close(struct tmk_source **source);
const struct tmk_source_info *tmk_source_info(const struct tmk_source *source);

/* An input that wants data. */
struct tmk_source_input {
    const char *input;
    enum tmk_dtype dtype;
    bool has_shape;
    struct tmk_shape shape; /* first axis included; -1 is free */
};
/* For sources that take their arrays from what is wanted of them (info.binds): array i feeds
 * input i. To be called once, before reading. May wait for a stream. */
enum tmk_status tmk_source_bind(struct tmk_source *source, const struct tmk_source_input *wants,
                                uint32_t n, struct tmk_diag *diag);

/* The entries that will be read, in ascending order: gives the next one, or false after the last.
 * May be called by any thread, one at a time, until the source is closed. */
struct tmk_source_order {
    bool (*next)(void *context, uint64_t *entry);
    void *context;
};
struct tmk_source_threads {
    uint32_t wanted, missing; /* missing: could not be started */
    int why;                  /* errno */
};
/* Says what will be read, so that sources for which reading is work can do it ahead, on up to
 * threads->wanted threads of their own; which are missing is written there. Without any, or if this
 * is left out, what is read is the same. A second order takes the place of the first, which is not
 * asked any more. */
enum tmk_status tmk_source_ahead(struct tmk_source *source, const struct tmk_source_order *order,
                                 struct tmk_source_threads *threads, struct tmk_diag *diag);

/* Entries [first, first + count) of an array: !whole: one tensor [count, ...]; whole: count must be
 * 1, the entry itself. Finish *out. Fewer entries come (and the tensor's first dimension states how
 * many) where an endless array ends, where an entry's shape differs from the one before, and where
 * a separate one is bad: that is an error once it is the first. Endless arrays are read in
 * ascending order, and what is passed over is gone; at their end, 0 entries come. */
enum tmk_status tmk_source_read(struct tmk_source *source, uint32_t array, uint64_t first,
                                uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag);

/* Is the entry, the first of those read last, also the first of a record? Always false where there
 * are no records. */
bool tmk_source_begins(const struct tmk_source *source, uint32_t array, uint64_t entry);

/* What an entry is called within a source whose entries are separate; "" when it has no name. */
const char *tmk_source_entry_name(const struct tmk_source *source, uint64_t entry);

/* Nothing more will be read: the info of a stream becomes final. */
void tmk_source_end(struct tmk_source *source);

/* Of the bytes that the entries are made of: XXH3 of 128 bits in hex; of a stream "" before
 * tmk_source_end, then of the bytes that were read. Reads all of them, and may do so on a thread of
 * its own while another uses the source, until *stop is true (TMK_INTERRUPTED; NULL: never). */
enum tmk_status tmk_source_hash(const struct tmk_source *source, const atomic_bool *stop,
                                char hex[TMK_HASH128_HEX], struct tmk_diag *diag);
/* What is known of them without reading all: where this differs the bytes do. */
uint64_t tmk_source_quick_hash(const struct tmk_source *source);
