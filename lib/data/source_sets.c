/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX test sets: a folder of input_0.pb, input_1.pb, ... is one entry; a folder of test_data_set_*
 * folders is one entry each. Other files (outputs, archives) are left alone. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/text.h"
#include "data/kind.h"

struct set {
    const char *folder; /* its name in the source's folder; "" when it is that folder */
    uint64_t number;
};

struct sets {
    struct set *set; /* malloc'ed; the names are in the source's arena */
    size_t n, size;
    tmk_decode_tensor decode;
};

/* "PREFIX<digits>SUFFIX" gives the number; UINT64_MAX when there are no digits, or too many. */
static uint64_t number_in(const char *name, const char *prefix, const char *suffix) {
    size_t p = strlen(prefix), n = strlen(name), s = strlen(suffix);
    uint64_t number;
    return n > p + s && strncmp(name, prefix, p) == 0 && strcmp(name + n - s, suffix) == 0 &&
                   tmk_read_digits(name + p, n - p - s, &number)
               ? number
               : UINT64_MAX;
}

static bool is_input(const char *name) {
    return number_in(name, "input_", ".pb") != UINT64_MAX;
}

static bool is_set(const char *name) {
    static const char prefix[] = "test_data_set_";
    return strncmp(name, prefix, sizeof prefix - 1) == 0;
}

/* malloc'ed "SOURCE/FOLDER/NAME"; empty parts are left out. */
static enum tmk_status join_path(const char *path, const char *folder, const char *name, char **out,
                                 struct tmk_diag *diag) {
    return asprintf(out, "%s%s%s%s%s", path, *folder ? "/" : "", folder, *name ? "/" : "", name) < 0
               ? tmk_nomem(diag)
               : TMK_OK;
}

static enum tmk_status claims_folder(const char *path, bool *out, struct tmk_diag *diag) {
    DIR *directory = opendir(path);
    if (!directory)
        return tmk_cannot_read(diag, path);
    bool found = false;
    const struct dirent *entry;
    while (!found && (errno = 0, entry = readdir(directory)))
        found = is_input(entry->d_name) || is_set(entry->d_name);
    enum tmk_status status = found || !errno ? TMK_OK : tmk_cannot_read(diag, path);
    closedir(directory);
    *out = found;
    return status;
}

static enum tmk_status add_set(struct tmk_source *source, const char *folder,
                               struct tmk_diag *diag) {
    struct sets *sets = source->own;
    struct set set = {tmk_arena_strdup(&source->arena, folder),
                      number_in(folder, "test_data_set_", "")};
    TMK_TRY_ALLOC(set.folder && TMK_GROW(sets->set, sets->n, sets->size), diag);
    sets->set[sets->n++] = set;
    return TMK_OK;
}

/* By number, those without one last. */
static int by_number(const void *a, const void *b) {
    const struct set *x = a, *y = b;
    return x->number != y->number ? TMK_ORDER(x->number, y->number) : strcmp(x->folder, y->folder);
}

static enum tmk_status is_folder(const char *path, const char *name, bool *out,
                                 struct tmk_diag *diag) {
    char *full = NULL;
    struct stat st;
    TMK_TRY(join_path(path, name, "", &full, diag));
    enum tmk_status status = stat(full, &st) == 0 ? TMK_OK : tmk_cannot_read(diag, full);
    free(full);
    if (status == TMK_OK)
        *out = S_ISDIR(st.st_mode);
    return status;
}

/* Inputs of the folder itself make it one entry, whatever else is there. */
static enum tmk_status find_sets(struct tmk_source *source, struct tmk_diag *diag) {
    struct sets *sets = source->own;
    const char *path = source->info.path;
    DIR *directory = opendir(path);
    if (!directory)
        return tmk_cannot_read(diag, path);
    enum tmk_status status = TMK_OK;
    const struct dirent *entry;
    bool itself = false, folder = false;
    while (status == TMK_OK && (errno = 0, entry = readdir(directory))) {
        itself = itself || is_input(entry->d_name);
        if (!is_set(entry->d_name))
            continue;
        status = is_folder(path, entry->d_name, &folder, diag);
        if (status == TMK_OK && folder)
            status = add_set(source, entry->d_name, diag);
    }
    if (status == TMK_OK && errno)
        status = tmk_cannot_read(diag, path);
    closedir(directory);
    TMK_TRY(status);
    if (itself) {
        sets->n = 0;
        TMK_TRY(add_set(source, "", diag));
    }
    if (!sets->n)
        return tmk_fail(diag, TMK_FORMAT,
                        "%s: holds neither input_0.pb nor a test_data_set_* folder", path);
    qsort(sets->set, sets->n, sizeof *sets->set, by_number);
    return TMK_OK;
}

/* How many inputs a set has; each of them must be there. */
static enum tmk_status count_inputs(const char *path, uint32_t *out, struct tmk_diag *diag) {
    DIR *directory = opendir(path);
    if (!directory)
        return tmk_cannot_read(diag, path);
    uint64_t n = 0, highest = 0;
    const struct dirent *entry;
    while ((errno = 0, entry = readdir(directory))) {
        uint64_t number = number_in(entry->d_name, "input_", ".pb");
        if (number == UINT64_MAX)
            continue;
        highest = number > highest ? number : highest;
        n++;
    }
    enum tmk_status status = errno ? tmk_cannot_read(diag, path) : TMK_OK;
    closedir(directory);
    TMK_TRY(status);
    if (!n)
        return tmk_fail(diag, TMK_FORMAT, "%s: holds no input_0.pb", path);
    if (n != highest + 1 || n > INT32_MAX)
        return tmk_fail(diag, TMK_FORMAT,
                        "%s: there is an input_%llu.pb, but only %llu of input_N.pb", path,
                        (unsigned long long)highest, (unsigned long long)n);
    *out = (uint32_t)n;
    return TMK_OK;
}

static enum tmk_status path_of(const struct tmk_source *source, size_t set, uint32_t input,
                               char **out, struct tmk_diag *diag) {
    const struct sets *sets = source->own;
    char name[32];
    snprintf(name, sizeof name, "input_%u.pb", input);
    return join_path(source->info.path, sets->set[set].folder, name, out, diag);
}

static enum tmk_status hash_file(const struct tmk_source *source, struct tmk_hash128 *hash,
                                 size_t set, uint32_t input, struct tmk_diag *diag) {
    struct tmk_buf *buf = NULL;
    char *path = NULL;
    TMK_TRY(path_of(source, set, input, &path, diag));
    enum tmk_status status = tmk_file_map(path, &buf, diag);
    if (status == TMK_OK) {
        tmk_source_hash_head(hash, path + strlen(source->info.path) + 1, tmk_buf_size(buf));
        tmk_hash128_update(hash, tmk_buf_data(buf), tmk_buf_size(buf));
        tmk_buf_unref(&buf);
    }
    free(path);
    return status;
}

static enum tmk_status hash_all(const struct tmk_source *source, const atomic_bool *stop,
                                char hex[TMK_HASH128_HEX], struct tmk_diag *diag) {
    const struct sets *sets = source->own;
    char digest[TMK_HASH128_HEX];
    struct tmk_hash128 *hash = tmk_hash128_create();
    TMK_TRY_ALLOC(hash, diag);
    enum tmk_status status = TMK_OK;
    for (size_t s = 0; s < sets->n && status == TMK_OK; s++) {
        for (uint32_t i = 0; i < source->info.n_arrays && status == TMK_OK; i++)
            status = hash_file(source, hash, s, i, diag);
        TMK_THEN(status, tmk_source_hash_stopped(source, stop, diag));
    }
    tmk_hash128_finish(&hash, digest);
    if (status == TMK_OK)
        memcpy(hex, digest, sizeof digest);
    return status;
}

/* The name that the first set's tensor carries. */
static enum tmk_status name_array(struct tmk_source *source, uint32_t input, const char **out,
                                  struct tmk_diag *diag) {
    const struct sets *sets = source->own;
    struct tmk_tensor tensor = {0};
    char *path = NULL, *name = NULL;
    TMK_TRY(path_of(source, 0, input, &path, diag));
    enum tmk_status status = sets->decode(path, &tensor, &name, diag);
    free(path);
    TMK_TRY(status);
    tmk_tensor_finish(&tensor);
    *out = tmk_arena_strdup(&source->arena, name ? name : "");
    free(name);
    return *out ? TMK_OK : tmk_nomem(diag);
}

static enum tmk_status count_all(struct tmk_source *source, uint32_t *out, struct tmk_diag *diag) {
    const struct sets *sets = source->own;
    uint32_t n = 0;
    for (size_t s = 0; s < sets->n; s++) {
        uint32_t here = 0;
        char *path = NULL;
        TMK_TRY(join_path(source->info.path, sets->set[s].folder, "", &path, diag));
        enum tmk_status status = count_inputs(path, &here, diag);
        if (status == TMK_OK && s && here != n)
            status = tmk_fail(diag, TMK_FORMAT, "%s: holds %u inputs, but %s holds %u", path, here,
                              sets->set[0].folder, n);
        free(path);
        TMK_TRY(status);
        n = here;
    }
    *out = n;
    return TMK_OK;
}

static enum tmk_status open_sets(struct tmk_source *source,
                                 const struct tmk_source_options *options, struct tmk_diag *diag) {
    struct sets *sets = source->own;
    if (!options->decode)
        return tmk_fail(diag, TMK_UNSUPPORTED, "%s: ONNX tensors are not read here",
                        source->info.path);
    sets->decode = options->decode;
    uint32_t n = 0;
    TMK_TRY(find_sets(source, diag));
    TMK_TRY(count_all(source, &n, diag));
    struct tmk_source_array *arrays = tmk_arena_array(&source->arena, n, sizeof *arrays);
    TMK_TRY_ALLOC(arrays, diag);
    source->info.arrays = arrays;
    source->info.n_arrays = n;
    source->info.separate = true;
    for (uint32_t i = 0; i < n; i++) {
        arrays[i] = (struct tmk_source_array){.name = "", .whole = true, .n_entries = sets->n};
        TMK_TRY(name_array(source, i, &arrays[i].name, diag));
    }
    return TMK_OK;
}

static enum tmk_status read_sets(struct tmk_source *source, uint32_t array, uint64_t first,
                                 uint64_t count, struct tmk_tensor *out, struct tmk_diag *diag) {
    const struct sets *sets = source->own;
    (void)count;
    char *path = NULL, *name = NULL;
    TMK_TRY(path_of(source, (size_t)first, array, &path, diag));
    enum tmk_status status = sets->decode(path, out, &name, diag);
    if (status == TMK_OK)
        free(name);
    free(path);
    return status;
}

static const char *entry_name(const struct tmk_source *source, uint64_t entry) {
    const struct sets *sets = source->own;
    return entry < sets->n ? sets->set[entry].folder : "";
}

static void close_sets(struct tmk_source *source) {
    free(((struct sets *)source->own)->set);
}

const struct tmk_source_kind tmk_source_sets = {
    .name = "onnx-sets",
    .takes = "a folder of input_N.pb or of test_data_set_* folders (ONNX test sets)",
    .own_size = sizeof(struct sets),
    .claims_folder = claims_folder,
    .open = open_sets,
    .read = read_sets,
    .entry_name = entry_name,
    .hash = hash_all,
    .close = close_sets,
};
