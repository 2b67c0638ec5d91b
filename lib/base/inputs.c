/* SPDX-License-Identifier: Apache-2.0 */
#include "base/inputs.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

/* A hash table with open addressing, made anew when it is half full. */
struct entry {
    struct tmk_input file;
    uint32_t open; /* how often it is open at present */
    bool used, kept;
};

static struct {
    pthread_mutex_t mutex;
    struct entry *entries;
    size_t size, n; /* size: a power of two, or 0 */
    uint32_t begun;
} files = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct entry *find_entry(struct entry *entries, size_t size, const struct tmk_input *file) {
    uint64_t hash = ((uint64_t)file->inode ^ (uint64_t)file->device << 40) * 0x9e3779b97f4a7c15u;
    size_t at = (size_t)(hash >> 32) & (size - 1);
    while (entries[at].used &&
           (entries[at].file.inode != file->inode || entries[at].file.device != file->device))
        at = (at + 1) & (size - 1);
    return &entries[at];
}

/* Capacity for one more; entries without a user are dropped. */
static bool make_room(void) {
    if (files.n < files.size / 2)
        return true;
    size_t needed = 0, size = 64;
    for (size_t i = 0; i < files.size; i++)
        needed += files.entries[i].open || files.entries[i].kept;
    while (size / 4 <= needed)
        size *= 2;
    struct entry *entries = calloc(size, sizeof *entries);
    if (!entries)
        return false;
    for (size_t i = 0; i < files.size; i++)
        if (files.entries[i].open || files.entries[i].kept)
            *find_entry(entries, size, &files.entries[i].file) = files.entries[i];
    free(files.entries);
    files.entries = entries;
    files.size = size;
    files.n = needed;
    return true;
}

bool tmk_input_add(const struct stat *st, struct tmk_input *out) {
    *out = (struct tmk_input){st->st_dev, st->st_ino};
    pthread_mutex_lock(&files.mutex);
    const bool room = make_room();
    if (room) {
        struct entry *entry = find_entry(files.entries, files.size, out);
        files.n += !entry->used;
        *entry = (struct entry){*out, entry->open + 1, true, entry->kept || files.begun};
    } else {
        *out = (struct tmk_input){0};
    }
    pthread_mutex_unlock(&files.mutex);
    return room;
}

void tmk_input_drop(struct tmk_input *input) {
    if (!input->inode)
        return;
    pthread_mutex_lock(&files.mutex);
    struct entry *entry = find_entry(files.entries, files.size, input);
    entry->open -= entry->open > 0;
    pthread_mutex_unlock(&files.mutex);
    *input = (struct tmk_input){0};
}

void tmk_input_forget(const struct stat *st) {
    pthread_mutex_lock(&files.mutex);
    if (files.size)
        find_entry(files.entries, files.size, &(struct tmk_input){st->st_dev, st->st_ino})->kept =
            false;
    pthread_mutex_unlock(&files.mutex);
}

bool tmk_input_is(const struct stat *st) {
    pthread_mutex_lock(&files.mutex);
    const struct entry *entry = files.size ? find_entry(files.entries, files.size,
                                                        &(struct tmk_input){st->st_dev, st->st_ino})
                                           : NULL;
    const bool is = S_ISREG(st->st_mode) && entry && (entry->open || entry->kept);
    pthread_mutex_unlock(&files.mutex);
    return is;
}

void tmk_inputs_begin(void) {
    pthread_mutex_lock(&files.mutex);
    files.begun++;
    pthread_mutex_unlock(&files.mutex);
}

void tmk_inputs_end(void) {
    pthread_mutex_lock(&files.mutex);
    files.begun -= files.begun > 0;
    for (size_t i = 0; !files.begun && i < files.size; i++)
        files.entries[i].kept = false;
    if (!files.begun && files.size) {
        files.n = files.size; /* full: it is made anew, of what is open */
        (void)make_room();
    }
    pthread_mutex_unlock(&files.mutex);
}
