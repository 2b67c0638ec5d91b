/* SPDX-License-Identifier: Apache-2.0 */
/* A record of a file format as a table of its fields. JSON in both directions, the check of unknown
 * keys, the columns of HDF5 tables (hdf5_table.h) and the test of docs/(name).schema.json are made
 * from such tables.
 *
 * Tables are constant data, records plain structs that a table has offsets into. Not thread-safe
 * for one record; writers and readers of numbers need tmk_locale_begin. */
#pragma once

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/tensor.h>

#include "base/arena.h"
#include "base/json.h"

/* The member of the struct, its JSON key and HDF5 column, what `of` points at. */
enum tmk_field_type {
    TMK_FIELD_FORMAT,  /* none: the file's kind, of its struct tmk_file_version */
    TMK_FIELD_VERSION, /* {uint32_t major, minor}: an object, of the same */
    TMK_FIELD_TEXT,    /* const char *; of what is read where it is absent (NULL: "") */
    TMK_FIELD_WORD,    /* the same, a short ASCII text of fixed length in HDF5 */
    TMK_FIELD_BOOL,
    TMK_FIELD_U8, /* columns only */
    TMK_FIELD_U32,
    TMK_FIELD_U64,
    TMK_FIELD_I32,
    TMK_FIELD_I64,
    TMK_FIELD_F32,      /* float: a number; null is NaN */
    TMK_FIELD_F64,      /* double, the same */
    TMK_FIELD_FINITE,   /* float: never null */
    TMK_FIELD_SHARE,    /* double: finite, not negative */
    TMK_FIELD_NATURAL,  /* int32_t: not negative; null is -1 */
    TMK_FIELD_HEX,      /* uint64_t: 16 hex digits / a number */
    TMK_FIELD_ID,       /* uint32_t: "p12" / a number */
    TMK_FIELD_MAYBE_ID, /* int64_t: "p12"; null is -1 */
    TMK_FIELD_INDEX,    /* none: the record's own place in its list, as an ID */
    TMK_FIELD_WHERE,    /* struct tmk_where: an object; null is TMK_NOWHERE */
    TMK_FIELD_NAME,     /* an enum, by its names: of a struct tmk_field_names */
    TMK_FIELD_DTYPE,    /* enum tmk_dtype, by its name */
    TMK_FIELD_IDS,      /* uint32_t * and `count` */
    TMK_FIELD_FLOATS,   /* float * and `count`, all finite. Of the key of the list that sets the */
    TMK_FIELD_DOUBLES,  /* count of several; NULL: it is this one, which is not empty. */
    TMK_FIELD_INT32S,   /* int32_t * */
    TMK_FIELD_INT64S,   /* int64_t * */
    TMK_FIELD_HEX_DOUBLES, /* double *: texts as of printf's %a */
    TMK_FIELD_OBJECT,      /* a struct inside the struct: of a struct tmk_fields */
    TMK_FIELD_LIST,        /* structs by pointer and `count`: of a struct tmk_fields */
    TMK_FIELD_CODEC,       /* anything: of a struct tmk_field_codec; JSON in HDF5 */
    TMK_FIELD_ELSEWHERE,   /* a known key that other code reads and writes */
};

enum tmk_field_flag {
    TMK_FIELD_OPTIONAL = 1, /* may be absent: then a text is `of`, a real NaN, a NATURAL -1, and
                               others stay as they are */
    TMK_FIELD_OMIT = 2,     /* not written while it is 0, "", NaN or empty */
    TMK_FIELD_NULL = 4,     /* null where the field is `absent`, by fields before it */
    TMK_FIELD_LINES = 8,    /* of a LIST: one entry a line */
    TMK_FIELD_FILLED = 16,  /* of a LIST: not empty where it is there */
    TMK_FIELD_LATER = 32,   /* a column that older versions lack: then it is 0 */
};

struct tmk_field {
    const char *key; /* in JSON; NULL: a column only */
    enum tmk_field_type type;
    int flags;
    size_t at, count; /* in the struct */
    const void *of;
    bool (*absent)(const void *record); /* not written while true; NULL: see TMK_FIELD_OMIT */
    const char *column;                 /* in HDF5, where that is not the key */
    const char *units, *about;          /* of the column; about NULL: there is none */
};

/* Rows of tables; RECORD is the struct's tag, what follows are members of struct tmk_field. */
#define TMK_FIELD(key_, type_, member, ...)                                                        \
    { .key = key_, .type = TMK_FIELD_##type_, .at = offsetof(struct RECORD, member), __VA_ARGS__ }
#define TMK_FIELD_COUNTED(key_, type_, member, n, ...)                                             \
    TMK_FIELD(key_, type_, member, .count = offsetof(struct RECORD, n), __VA_ARGS__)
/* A part of the struct that is an object of its own in JSON: its table has offsets into the same
 * struct. */
#define TMK_FIELD_WHOLE(key_, type_, ...)                                                          \
    { .key = key_, .type = TMK_FIELD_##type_, __VA_ARGS__ }
#define TMK_COLUMN(units_, about_) .units = units_, .about = about_
#define TMK_COLUMN_ONLY(name, type_, member, units_, about_, ...)                                  \
    TMK_FIELD(NULL, type_, member, .column = name, .units = units_, .about = about_, __VA_ARGS__)

/* A member of a record, by its field. */
#define TMK_MEMBER(type, f, record) (*(type *)((unsigned char *)(record) + (f)->at))
#define TMK_MEMBER_COUNT(f, record) (*(uint32_t *)((unsigned char *)(record) + (f)->count))
#define TMK_CONST_MEMBER(type, f, record)                                                          \
    (*(type const *)((const unsigned char *)(record) + (f)->at))
#define TMK_CONST_COUNT(f, record)                                                                 \
    (*(const uint32_t *)((const unsigned char *)(record) + (f)->count))

struct tmk_field_reader;

struct tmk_fields {
    const struct tmk_fields *before; /* fields of the same struct that come first; may be NULL */
    const struct tmk_field *field;
    size_t n;
    size_t size; /* bytes of the struct, where it is in lists */
    /* What follows from fields that were read, and checks of them; may be NULL. */
    enum tmk_status (*after)(struct tmk_field_reader *r, void *record);
};
#define TMK_FIELDS(table, ...)                                                                     \
    { .field = table, .n = sizeof(table) / sizeof *(table), __VA_ARGS__ }

struct tmk_file_version {
    const char *format; /* "tidemark-profile" */
    const char *what;   /* "profile" */
    uint32_t major, minor;
};

struct tmk_field_names {
    const char *what;         /* "kind" */
    const char *const *names; /* by the enum's numbers */
    uint32_t n;
};

/* `record` is the whole struct. Errors of `get` need not name the key; item is never NULL. */
struct tmk_field_codec {
    void (*put)(struct tmk_json_out *to, const char *key, const void *record);
    enum tmk_status (*get)(struct tmk_field_reader *r, const cJSON *item, void *record);
};

/* Where what is read goes. */
struct tmk_field_reader {
    void *owner;             /* for codecs and `after` */
    struct tmk_arena *arena; /* of texts, numbers and lists */
    bool lists_grow;         /* lists are malloc'ed: the owner frees and extends them */
    bool lenient;            /* unknown keys are ignored: the file is of a newer version */
    uint32_t index;          /* of the record in its list */
    struct tmk_diag *diag;
};

/* ---- JSON ---- */

/* The record's members, in order. */
void tmk_fields_put(struct tmk_json_out *to, const struct tmk_fields *fields, const void *record,
                    uint32_t index);
/* The same as text: each member behind a separator but for the first. */
enum tmk_status tmk_fields_text(const struct tmk_fields *fields, const void *record,
                                const char *separator, struct tmk_text *out, struct tmk_diag *diag);
/* One record of a list as an object. */
enum tmk_status tmk_fields_object_text(const struct tmk_fields *fields, const void *record,
                                       uint32_t index, struct tmk_text *out, struct tmk_diag *diag);
/* A codec's member by itself, as JSON. */
enum tmk_status tmk_field_codec_text(const struct tmk_field_codec *codec, const void *record,
                                     struct tmk_text *out, struct tmk_diag *diag);
/* A file's kind and version (leading fields) first, then no unknown or repeated keys, then the
 * other fields. A record that failed may be filled in part. */
enum tmk_status tmk_fields_get(struct tmk_field_reader *r, const struct tmk_fields *fields,
                               const cJSON *object, void *record);
/* One field of it. */
enum tmk_status tmk_field_get(struct tmk_field_reader *r, const struct tmk_field *f,
                              const cJSON *object, void *record);
/* Is it a key of a field that is read and written here? */
bool tmk_fields_has(const struct tmk_fields *fields, const char *key);

/* ---- parts that HDF5 shares ---- */

/* A copy in the reader's arena; TMK_FORMAT unless it is UTF-8. */
enum tmk_status tmk_field_keep(struct tmk_field_reader *r, const char *text, const char **out);
/* The number of a NAME or DTYPE as text, and back: TMK_FORMAT: there is none. */
const char *tmk_field_name(const struct tmk_field *field, const void *record);
enum tmk_status tmk_field_by_name(const struct tmk_field *field, const char *name, void *record,
                                  struct tmk_diag *diag);
/* TMK_MISMATCH unless every text of the record, its objects and lists is UTF-8. */
enum tmk_status tmk_fields_check_texts(const struct tmk_fields *fields, const void *record,
                                       struct tmk_diag *diag);

void tmk_field_put_ids(struct tmk_json_out *to, const char *key, const uint32_t *ids, uint32_t n);
