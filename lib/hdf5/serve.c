/* SPDX-License-Identifier: Apache-2.0 */
/* The helper program that reads an HDF5 file: the only place that lets the HDF5 library read one.
 * Requests and answers: hdf5/wire.h. */
#include <errno.h>
#include <hdf5.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/size.h"
#include "hdf5/wire.h"
#include "sandbox/served.h"

#if H5_VERSION_GE(1, 13, 2)
#include <H5FDdevelop.h>
#endif

struct handle {
    H5FD_t of_library; /* first */
    haddr_t allocated;
};

/* Of the one file; the library's calls carry no context to the driver's. */
static int handle_fd = -1;
static haddr_t handle_size;

static H5FD_t *open_handle(const char *name, unsigned flags, hid_t access, haddr_t most) {
    (void)name, (void)access, (void)most;
    struct handle *handle = flags & H5F_ACC_RDWR ? NULL : calloc(1, sizeof *handle);
    return handle ? &handle->of_library : NULL;
}

static herr_t close_handle(H5FD_t *file) {
    free(file);
    return 0;
}

static herr_t query_handle(const H5FD_t *file, unsigned long *flags) {
    (void)file;
    *flags = H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE;
    return 0;
}

static haddr_t get_allocated(const H5FD_t *file, H5FD_mem_t type) {
    (void)type;
    return ((const struct handle *)file)->allocated;
}

static herr_t set_allocated(H5FD_t *file, H5FD_mem_t type, haddr_t address) {
    (void)type;
    ((struct handle *)file)->allocated = address;
    return 0;
}

static haddr_t get_end(const H5FD_t *file, H5FD_mem_t type) {
    (void)file, (void)type;
    return handle_size;
}

/* What is behind the end reads as zeros, as with the library's own driver. */
static herr_t read_handle(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t address,
                          size_t size, void *to) {
    (void)file, (void)type, (void)transfer;
    for (unsigned char *at = to; size;) {
        const ssize_t n = pread(handle_fd, at, size, (off_t)address);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0) {
            memset(at, 0, size);
            break;
        }
        at += n;
        address += (haddr_t)n;
        size -= (size_t)n;
    }
    return 0;
}

static herr_t refuse_write(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t address,
                           size_t size, const void *from) {
    (void)file, (void)type, (void)transfer, (void)address, (void)size, (void)from;
    return -1;
}

static const H5FD_class_t handle_class = {
#ifdef H5FD_CLASS_VERSION
    .version = H5FD_CLASS_VERSION,
    .value = (H5FD_class_value_t)H5_VFD_RESERVED + 1,
#endif
    .name = "tidemark",
    .maxaddr = ((haddr_t)1 << 62) - 1,
    .fc_degree = H5F_CLOSE_WEAK,
    .open = open_handle,
    .close = close_handle,
    .query = query_handle,
    .get_eoa = get_allocated,
    .set_eoa = set_allocated,
    .get_eof = get_end,
    .read = read_handle,
    .write = refuse_write,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

/* Makes files of these access properties read `fd`, whatever their names. To be called once. */
static bool hdf5_read_handle(hid_t access, int fd) {
    struct stat is;
    handle_fd = fd;
    handle_size = fstat(fd, &is) == 0 ? (haddr_t)is.st_size : 0; /* none: nothing is read */
    const hid_t driver = H5FDregister(&handle_class);
    return driver >= 0 && H5Pset_driver(access, driver, NULL) >= 0;
}

enum {
    CACHE_SLOTS = 101,
    LONGEST_TEXT = 1 << 14,
};

/* A dataset; all 0: shut. */
struct set {
    hid_t id, type, memory, space; /* memory: as what its elements are read; 0: not set */
    size_t chunk;                  /* bytes of one */
    size_t row;                    /* bytes of a table's row in memory; 0: no table */
};

struct server {
    unsigned char *half[2];
    hid_t access, file;
    struct set *sets;
    size_t n_sets, size;
    /* The message, its further bytes, and the answer's. */
    struct tmk_hdf5_ask ask;
    char *more;
    size_t len;
    unsigned char *answer;
    size_t answer_len;
    const char *why; /* NULL: in HDF5's words */
};

static bool reply_error(struct server *s, const char *why) {
    s->why = why;
    return false;
}

static bool reply_bytes(struct server *s, const void *bytes, size_t len) {
    memcpy(s->answer, bytes, len);
    s->answer_len = len;
    return true;
}

/* ---- what there is ---- */

static uint32_t kind_of(hid_t at, const char *path) {
    hid_t object = H5Oopen(at, path, H5P_DEFAULT);
    if (object < 0)
        return TMK_HDF5_OTHER;
    H5I_type_t is = H5Iget_type(object);
    H5Oclose(object);
    return is == H5I_DATASET ? TMK_HDF5_DATASET : is == H5I_GROUP ? TMK_HDF5_GROUP : TMK_HDF5_OTHER;
}

struct listing {
    unsigned char *to;
    struct tmk_hdf5_count count;
};

static herr_t put_member(hid_t group, const char *name, const H5L_info_t *info, void *context) {
    struct listing *list = context;
    size_t len = strlen(name) + 1;
    if (len + 2 > TMK_HDF5_HALF - list->count.bytes)
        return -1;
    unsigned char *to = list->to + list->count.bytes;
    to[0] = (unsigned char)kind_of(group, name);
    to[1] = info->type != H5L_TYPE_HARD;
    memcpy(to + 2, name, len);
    list->count.n++;
    list->count.bytes += len + 2;
    return 0;
}

/* The bytes of a text that is the attribute's only element; false: it is something else. */
static bool take_text(struct server *s, hid_t attribute, hid_t type, struct tmk_hdf5_count *out) {
    if (H5Tis_variable_str(type) > 0) {
        char *text = NULL;
        hid_t memory = H5Tcopy(H5T_C_S1);
        H5Tset_size(memory, H5T_VARIABLE);
        H5Tset_cset(memory, H5Tget_cset(type));
        if (H5Aread(attribute, memory, &text) < 0 || !text)
            return false;
        out->bytes = strnlen(text, LONGEST_TEXT);
        memcpy(s->half[0], text, out->bytes);
        return true;
    }
    if (H5Tget_size(type) > LONGEST_TEXT || H5Aread(attribute, type, s->half[0]) < 0)
        return false;
    out->bytes = strnlen((char *)s->half[0], H5Tget_size(type));
    return true;
}

static bool serve_text(struct server *s) {
    struct tmk_hdf5_count found = {0, 0};
    const char *name = s->more + strlen(s->more) + 1;
    if (H5Aexists_by_name(s->file, s->more, name, H5P_DEFAULT) <= 0)
        return reply_bytes(s, &found, sizeof found);
    hid_t attribute = H5Aopen_by_name(s->file, s->more, name, H5P_DEFAULT, H5P_DEFAULT);
    hid_t type = attribute >= 0 ? H5Aget_type(attribute) : H5I_INVALID_HID;
    hid_t space = attribute >= 0 ? H5Aget_space(attribute) : H5I_INVALID_HID;
    if (type >= 0 && space >= 0 && H5Tget_class(type) == H5T_STRING &&
        H5Sget_simple_extent_npoints(space) == 1 && take_text(s, attribute, type, &found))
        found.n = 1;
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    if (attribute >= 0)
        H5Aclose(attribute);
    return reply_bytes(s, &found, sizeof found);
}

/* ---- datasets ---- */

static bool is_bool(hid_t type) {
    char name[8];
    int8_t value;
    if (H5Tget_nmembers(type) != 2)
        return false;
    for (unsigned i = 0; i < 2; i++) {
        char *member = H5Tget_member_name(type, i);
        snprintf(name, sizeof name, "%s", member ? member : "");
        H5free_memory(member);
        if (H5Tget_size(type) != 1 || H5Tget_member_value(type, i, &value) < 0 ||
            strcmp(name, value ? "TRUE" : "FALSE") != 0)
            return false;
    }
    return true;
}

static uint32_t class_of(hid_t type) {
    switch (H5Tget_class(type)) {
    case H5T_INTEGER:
        return TMK_HDF5_INTEGER;
    case H5T_FLOAT:
        return TMK_HDF5_FLOAT;
    case H5T_ENUM:
        return is_bool(type) ? TMK_HDF5_BOOL : TMK_HDF5_ELSE;
    case H5T_STRING:
        return H5Tis_variable_str(type) == 0 ? TMK_HDF5_FIXED : TMK_HDF5_ELSE;
    case H5T_COMPOUND:
        return TMK_HDF5_TABLE;
    default:
        return TMK_HDF5_ELSE;
    }
}

static bool describe_type(hid_t type, struct tmk_hdf5_type *out) {
    size_t sign, exponent, bits = 0, mantissa, mantissa_bits;
    *out = (struct tmk_hdf5_type){.is = class_of(type), .size = H5Tget_size(type)};
    if (out->is == TMK_HDF5_INTEGER)
        out->is_signed = H5Tget_sign(type) == H5T_SGN_2;
    if (out->is == TMK_HDF5_FLOAT &&
        H5Tget_fields(type, &sign, &exponent, &bits, &mantissa, &mantissa_bits) < 0)
        return false;
    out->exponent_bits = (uint32_t)bits;
    return out->size > 0;
}

/* HDF5 does not look whether a damaged type's columns lie inside its rows. */
static bool is_sound(hid_t type) {
    int members = H5Tget_nmembers(type);
    size_t row = H5Tget_size(type);
    for (int m = 0; m < members; m++) {
        hid_t element = H5Tget_member_type(type, (unsigned)m);
        size_t size = element < 0 ? 0 : H5Tget_size(element),
               at = H5Tget_member_offset(type, (unsigned)m);
        if (element >= 0)
            H5Tclose(element);
        if (size == 0 || at > row || size > row - at)
            return false;
    }
    return true;
}

static void close_set(struct set *set) {
    if (set->memory > 0)
        H5Tclose(set->memory);
    if (set->space > 0)
        H5Sclose(set->space);
    if (set->type > 0)
        H5Tclose(set->type);
    if (set->id > 0)
        H5Dclose(set->id);
    *set = (struct set){0};
}

/* Neighbouring entries often share a compressed chunk, which should be unpacked once. */
static bool keep_a_chunk(struct server *s, struct set *set) {
    hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
    bool kept = access >= 0 && H5Pset_chunk_cache(access, CACHE_SLOTS, set->chunk, 1) >= 0;
    if (kept) {
        H5Dclose(set->id); /* as long as it is open, its old cache stays */
        set->id = H5Dopen2(s->file, s->more, access);
        kept = set->id >= 0;
    }
    if (access >= 0)
        H5Pclose(access);
    return kept;
}

/* false: in other files or datasets. */
static bool describe_layout(struct set *set, struct tmk_hdf5_set *out) {
    hsize_t chunk[H5S_MAX_RANK];
    hid_t created = H5Dget_create_plist(set->id);
    H5D_layout_t layout = created < 0 ? H5D_LAYOUT_ERROR : H5Pget_layout(created);
    out->compact = layout == H5D_COMPACT;
    const bool here = created >= 0 && layout != H5D_VIRTUAL && layout != H5D_LAYOUT_ERROR &&
                      H5Pget_external_count(created) == 0;
    out->filtered = layout == H5D_CHUNKED && H5Pget_nfilters(created) > 0;
    haddr_t address = layout == H5D_CONTIGUOUS && here ? H5Dget_offset(set->id) : HADDR_UNDEF;
    out->address = address == HADDR_UNDEF ? UINT64_MAX : address;
    int rank = layout == H5D_CHUNKED ? H5Pget_chunk(created, H5S_MAX_RANK, chunk) : 0;
    set->chunk = rank > 0 ? (size_t)out->type.size : 0;
    for (int i = 0; i < rank; i++) {
        out->chunk[i] = chunk[i];
        if (!tmk_mul_size(set->chunk, (size_t)chunk[i], &set->chunk))
            set->chunk = SIZE_MAX;
    }
    if (created >= 0)
        H5Pclose(created);
    return here;
}

static bool describe_set(struct server *s, struct set *set, struct tmk_hdf5_set *out) {
    hsize_t dim[H5S_MAX_RANK];
    set->id = H5Dopen2(s->file, s->more, H5P_DEFAULT);
    if (set->id < 0 || (set->type = H5Dget_type(set->id)) < 0 ||
        !describe_type(set->type, &out->type))
        return false;
    if (!describe_layout(set, out)) /* even its shape may be in another file */
        return reply_error(s, "its data are outside the file; copy them into it");
    if ((set->space = H5Dget_space(set->id)) < 0)
        return false;
    int rank = H5Sget_simple_extent_ndims(set->space);
    if (rank < 0 || H5Sget_simple_extent_dims(set->space, dim, NULL) < 0)
        return false;
    out->rank = (uint32_t)rank;
    for (int i = 0; i < rank; i++)
        out->dim[i] = dim[i];
    out->stored = H5Dget_storage_size(set->id);
    return set->chunk <= 1 << 20 || set->chunk > TMK_HDF5_LARGEST_CACHE || keep_a_chunk(s, set);
}

static bool open_set(struct server *s) {
    struct tmk_hdf5_set is = {0};
    size_t i = 0;
    while (i < s->n_sets && s->sets[i].id)
        i++;
    if (i == s->n_sets) {
        if (!TMK_GROW(s->sets, s->n_sets, s->size))
            return reply_error(s, "too many datasets");
        s->sets[s->n_sets++] = (struct set){0};
    }
    is.number = (uint32_t)i;
    if (!describe_set(s, &s->sets[i], &is)) {
        close_set(&s->sets[i]);
        return false;
    }
    return reply_bytes(s, &is, sizeof is);
}

/* A copy, to close. `own` is what a bool is in the file. */
static hid_t memory_type(const struct tmk_hdf5_spec *spec, hid_t own) {
    const hid_t natives[TMK_HDF5_N_AS] = {[TMK_HDF5_I8] = H5T_NATIVE_INT8,
                                          [TMK_HDF5_I16] = H5T_NATIVE_INT16,
                                          [TMK_HDF5_I32] = H5T_NATIVE_INT32,
                                          [TMK_HDF5_I64] = H5T_NATIVE_INT64,
                                          [TMK_HDF5_U8] = H5T_NATIVE_UINT8,
                                          [TMK_HDF5_U16] = H5T_NATIVE_UINT16,
                                          [TMK_HDF5_U32] = H5T_NATIVE_UINT32,
                                          [TMK_HDF5_U64] = H5T_NATIVE_UINT64,
                                          [TMK_HDF5_F32] = H5T_NATIVE_FLOAT,
                                          [TMK_HDF5_F64] = H5T_NATIVE_DOUBLE,
                                          [TMK_HDF5_BYTE] = own,
                                          [TMK_HDF5_CHARS] = H5T_C_S1};
    hid_t type = H5Tcopy(natives[spec->as]);
    if (type >= 0 && spec->as == TMK_HDF5_CHARS &&
        (H5Tset_size(type, (size_t)spec->chars) < 0 || H5Tset_strpad(type, H5T_STR_NULLTERM) < 0 ||
         H5Tset_cset(type, H5T_CSET_UTF8) < 0)) {
        H5Tclose(type);
        return -1;
    }
    return type;
}

static bool take_memory(struct set *set, hid_t memory) {
    if (set->memory > 0)
        H5Tclose(set->memory);
    set->memory = memory > 0 ? memory : 0;
    return memory > 0;
}

static bool read_elements(struct server *s, struct set *set) {
    int rank = H5Sget_simple_extent_ndims(set->space);
    hsize_t start[H5S_MAX_RANK], extent[H5S_MAX_RANK], n = 1;
    for (int i = 0; i < rank; i++) {
        start[i] = s->ask.start[i];
        extent[i] = s->ask.extent[i];
        n *= extent[i];
    }
    if (rank && H5Sselect_hyperslab(set->space, H5S_SELECT_SET, start, NULL, extent, NULL) < 0)
        return false;
    memset(s->half[s->ask.half], 0, set->row * n); /* what the file's rows have not */
    /* of the same shape: HDF5 goes element by element otherwise */
    hid_t memory = rank ? H5Screate_simple(rank, extent, NULL) : H5Screate(H5S_SCALAR);
    bool done = memory >= 0 && H5Dread(set->id, set->memory, memory, set->space, H5P_DEFAULT,
                                       s->half[s->ask.half]) >= 0;
    const hid_t why = done ? -1 : H5Eget_current_stack(); /* closing would forget it */
    if (memory >= 0)
        H5Sclose(memory);
    if (why >= 0)
        H5Eset_current_stack(why);
    return done;
}

/* ---- messages ---- */

static bool serve_set(struct server *s) {
    struct set *set = &s->sets[s->ask.dataset];
    switch ((enum tmk_hdf5_op)s->ask.op) {
    case TMK_HDF5_SHUT:
        close_set(set);
        return true;
    case TMK_HDF5_COLUMNS: {
        const char *name = s->more;
        if (!is_sound(set->type))
            return reply_error(s, "a column is outside its row");
        for (uint32_t i = 0; i < s->ask.n; i++, name += strlen(name) + 1) {
            struct tmk_hdf5_type is = {.is = TMK_HDF5_NONE};
            int member = H5Tget_member_index(set->type, name);
            hid_t type = member < 0 ? -1 : H5Tget_member_type(set->type, (unsigned)member);
            bool known = type < 0 || describe_type(type, &is);
            if (type >= 0)
                H5Tclose(type);
            if (!known)
                return false;
            memcpy(s->answer + i * sizeof is, &is, sizeof is);
        }
        s->answer_len = s->ask.n * sizeof(struct tmk_hdf5_type);
        return true;
    }
    case TMK_HDF5_READ_AS: {
        struct tmk_hdf5_spec spec;
        memcpy(&spec, s->more, sizeof spec);
        if (!take_memory(set, memory_type(&spec, set->type)))
            return false;
        struct tmk_hdf5_direct is = {H5Tequal(set->memory, set->type) > 0};
        return reply_bytes(s, &is, sizeof is);
    }
    case TMK_HDF5_ROWS_AS: {
        const char *name = s->more + s->ask.n * sizeof(struct tmk_hdf5_spec);
        hid_t rows = H5Tcreate(H5T_COMPOUND, (size_t)s->ask.size);
        bool good = take_memory(set, rows);
        set->row = (size_t)s->ask.size;
        for (uint32_t i = 0; i < s->ask.n && good; i++, name += strlen(name) + 1) {
            struct tmk_hdf5_spec spec;
            memcpy(&spec, s->more + i * sizeof spec, sizeof spec);
            hid_t type = memory_type(&spec, -1);
            good = type >= 0 && H5Tinsert(rows, name, (size_t)spec.at, type) >= 0;
            if (type >= 0)
                H5Tclose(type);
        }
        return good;
    }
    default:
        return read_elements(s, set);
    }
}

static bool serve_request(struct server *s) {
    switch ((enum tmk_hdf5_op)s->ask.op) {
    case TMK_HDF5_OPEN:
        s->file = H5Fopen("/", H5F_ACC_RDONLY, s->access);
        return s->file >= 0;
    case TMK_HDF5_LOOK: {
        struct tmk_hdf5_look is = {0};
        for (char *at = s->more + strspn(s->more, "/"); *at;) {
            char *end = at + strcspn(at, "/"), was = *end;
            H5L_info_t info;
            *end = '\0';
            if (H5Lexists(s->file, s->more, H5P_DEFAULT) <= 0)
                return reply_bytes(s, &is, sizeof is);
            if (H5Lget_info(s->file, s->more, &info, H5P_DEFAULT) < 0 || info.type != H5L_TYPE_HARD)
                is.linked = 1;
            *end = was;
            at = end + strspn(end, "/");
        }
        is.kind = kind_of(s->file, s->more);
        return reply_bytes(s, &is, sizeof is);
    }
    case TMK_HDF5_LIST: {
        struct listing list = {s->half[0], {0, 0}};
        hsize_t from = 0;
        hid_t group = H5Gopen2(s->file, s->more, H5P_DEFAULT);
        if (group < 0)
            return false;
        bool done = H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, &from, put_member, &list) >= 0;
        H5Gclose(group);
        return done ? reply_bytes(s, &list.count, sizeof list.count)
                    : reply_error(s, "its members cannot be listed");
    }
    case TMK_HDF5_TEXT:
        return serve_text(s);
    case TMK_HDF5_SET:
        return open_set(s);
    default:
        return s->ask.dataset < s->n_sets && s->sets[s->ask.dataset].id
                   ? serve_set(s)
                   : reply_error(s, "no such dataset is open");
    }
}

static herr_t note_innermost(unsigned n, const H5E_error2_t *error, void *context) {
    struct tmk_helper_answer *head = context;
    if (n == 0 && error->desc)
        snprintf(head->why, sizeof head->why, "%s", error->desc);
    if (n == 0 && error->maj_num == H5E_RESOURCE)
        head->outcome = TMK_HDF5_LACKED;
    return 0;
}

/* From 1.14.4 on HDF5 forgets why a filter failed. A chunk that has no room tells as much. */
static bool lacks_room(const struct server *s) {
    if (s->ask.op != TMK_HDF5_READ || s->ask.dataset >= s->n_sets)
        return false;
    void *chunk = malloc(s->sets[s->ask.dataset].chunk);
    const bool lacks = !chunk && s->sets[s->ask.dataset].chunk;
    free(chunk);
    return lacks;
}

/* Before a byte of the file is read. */
static bool prepare_library(struct server *s) {
    s->access = H5Pcreate(H5P_FILE_ACCESS);
    /* Who made the file may not choose which others are opened, nor which programs are loaded. */
    return s->access >= 0 && H5Eset_auto2(H5E_DEFAULT, NULL, NULL) >= 0 &&
           H5Lunregister(H5L_TYPE_EXTERNAL) >= 0 && H5PLset_loading_state(0) >= 0 &&
           hdf5_read_handle(s->access, TMK_HELPER_FILE);
}

int main(void) {
    static struct tmk_served served;
    unsigned char answer[TMK_HELPER_MOST_MESSAGE];
    struct server s = {.more = served.more, .answer = answer};
    if (!prepare_library(&s) || !tmk_served_begin(&served))
        return EXIT_FAILURE;
    s.half[0] = served.shared;
    s.half[1] = served.shared + TMK_HDF5_HALF;
    bool there = true;
    while (there && tmk_served_next(&served, &s.ask, sizeof s.ask)) {
        s.len = served.len;
        s.answer_len = 0;
        s.why = NULL;
        bool done = serve_request(&s);
        struct tmk_helper_answer head = {.op = s.ask.op,
                                         .outcome = done ? TMK_HDF5_DONE : TMK_HDF5_FAILED};
        if (!done) {
            snprintf(head.why, sizeof head.why, "%s", s.why ? s.why : "a call failed");
            if (!s.why)
                H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, note_innermost, &head);
            if (!s.why && lacks_room(&s))
                head.outcome = TMK_HDF5_LACKED;
        }
        there = tmk_served_answer(&served, &head, s.answer, done ? s.answer_len : 0);
    }
    _exit(0); /* without exit handlers, which a file may have reached */
}
