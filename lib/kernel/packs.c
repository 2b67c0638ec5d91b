/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/packs.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/diag.h"
#include "base/hash.h"
#include "base/memory.h"

enum { BUCKETS = 1024 };

struct tmk_pack {
    struct tmk_pack **link, *next; /* link: what points here; NULL: not shared */
    const void *source;
    struct tmk_layout from, to;
    void *bytes;
    size_t size;
    uint32_t users, loaded;  /* loaded: by how many of them */
    struct tmk_packs *packs; /* NULL: none */
    /* Under the lock of `packs`: */
    enum { READY, WAITING, WRITING } state;
    struct tmk_pack_writer writer;
    struct tmk_pack *next_waiting;
};

struct tmk_packs {
    struct tmk_pack *bucket[BUCKETS];
    bool empty;           /* packs have no bytes */
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool open, begun;
    uint32_t writing;
    struct tmk_pack *waiting, **last; /* in the order of coming */
    enum tmk_status status;           /* the first failure since the opening */
    struct tmk_diag diag;
};

enum tmk_status tmk_packs_create(struct tmk_packs **out, struct tmk_diag *diag) {
    struct tmk_packs *packs = calloc(1, sizeof *packs);
    TMK_TRY_ALLOC(packs, diag);
    pthread_mutex_init(&packs->lock, NULL);
    pthread_cond_init(&packs->changed, NULL);
    packs->last = &packs->waiting;
    *out = packs;
    return TMK_OK;
}

enum tmk_status tmk_packs_create_empty(struct tmk_packs **out, struct tmk_diag *diag) {
    TMK_TRY(tmk_packs_create(out, diag));
    (*out)->empty = true;
    return TMK_OK;
}

void tmk_packs_destroy(struct tmk_packs **slot) {
    struct tmk_packs *packs = *slot;
    if (!packs)
        return;
    *slot = NULL;
    pthread_cond_destroy(&packs->changed);
    pthread_mutex_destroy(&packs->lock);
    free(packs);
}

static enum tmk_status give_bytes(struct tmk_pack *pack, struct tmk_diag *diag) {
    pack->bytes = tmk_memory_mapped(pack->size);
    return pack->bytes ? TMK_OK
                       : tmk_memory_fail(diag, pack->size, "a copy of its weights for oneDNN");
}

/* ---- writing ---- */

/* One that waits, which leaves the list. Under the lock, which it lets go meanwhile. */
static void write_waiting(struct tmk_packs *packs, struct tmk_pack **link) {
    struct tmk_pack *pack = *link;
    struct tmk_diag diag = {0};
    *link = pack->next_waiting;
    if (!*link)
        packs->last = link;
    pack->state = WRITING;
    packs->writing++;
    pthread_mutex_unlock(&packs->lock);
    enum tmk_status status = pack->writer.write(pack->writer.context, pack->bytes, &diag);
    if (status != TMK_OK)
        status = tmk_in(&diag, status, "node %s", TMK_NODE_LABEL(pack->writer.node));
    pthread_mutex_lock(&packs->lock);
    pack->state = READY;
    packs->writing--;
    if (status != TMK_OK && packs->status == TMK_OK) {
        packs->status = status;
        packs->diag = diag;
    }
    pthread_cond_broadcast(&packs->changed);
}

/* The first is written at once: what the library sets up when it first runs is there then, before
 * several threads run it. */
static enum tmk_status write_or_wait(struct tmk_pack *pack, const struct tmk_pack_writer *writer,
                                     struct tmk_diag *diag) {
    struct tmk_packs *packs = pack->packs;
    if (packs)
        pthread_mutex_lock(&packs->lock);
    const bool waits = packs && packs->open && packs->begun;
    if (waits) {
        pack->writer = *writer;
        pack->state = WAITING;
        pack->next_waiting = NULL;
        *packs->last = pack;
        packs->last = &pack->next_waiting;
        pthread_cond_broadcast(&packs->changed);
    }
    if (packs) {
        packs->begun = true;
        pthread_mutex_unlock(&packs->lock);
    }
    return waits ? TMK_OK : writer->write(writer->context, pack->bytes, diag);
}

/* Has it bytes only while it is loaded? What is not shared has them from the beginning. */
static bool is_loadable(const struct tmk_pack *pack) {
    return pack->packs && pack->packs->empty;
}

enum tmk_status tmk_pack_write(struct tmk_pack *pack, const struct tmk_pack_writer *writer,
                               struct tmk_diag *diag) {
    return is_loadable(pack) ? TMK_OK : write_or_wait(pack, writer, diag);
}

enum tmk_status tmk_pack_load(struct tmk_pack *pack, const struct tmk_pack_writer *writer,
                              struct tmk_diag *diag) {
    if (!is_loadable(pack) || pack->loaded++)
        return TMK_OK;
    TMK_TRY(give_bytes(pack, diag));
    return write_or_wait(pack, writer, diag);
}

void tmk_pack_unload(struct tmk_pack *pack) {
    if (!is_loadable(pack) || --pack->loaded)
        return;
    tmk_memory_free(pack->bytes);
    pack->bytes = NULL;
}

void tmk_pack_finalize(struct tmk_pack *pack) {
    struct tmk_packs *packs = pack ? pack->packs : NULL;
    if (!packs)
        return;
    pthread_mutex_lock(&packs->lock);
    while (pack->state != READY) {
        struct tmk_pack **link = &packs->waiting;
        while (*link && *link != pack)
            link = &(*link)->next_waiting;
        if (*link)
            write_waiting(packs, link);
        else
            pthread_cond_wait(&packs->changed, &packs->lock);
    }
    pthread_mutex_unlock(&packs->lock);
}

void tmk_packs_open(struct tmk_packs *packs) {
    pthread_mutex_lock(&packs->lock);
    packs->open = true;
    packs->status = TMK_OK;
    pthread_mutex_unlock(&packs->lock);
}

enum tmk_status tmk_packs_close(struct tmk_packs *packs, struct tmk_diag *diag) {
    pthread_mutex_lock(&packs->lock);
    while (packs->waiting || packs->writing) {
        if (packs->waiting)
            write_waiting(packs, &packs->waiting);
        else
            pthread_cond_wait(&packs->changed, &packs->lock);
    }
    packs->open = false;
    pthread_cond_broadcast(&packs->changed);
    enum tmk_status status = packs->status;
    pthread_mutex_unlock(&packs->lock);
    return status == TMK_OK ? TMK_OK : tmk_fail(diag, status, "%s", packs->diag.text);
}

void tmk_packs_help(struct tmk_packs *packs) {
    pthread_mutex_lock(&packs->lock);
    while (packs->open) {
        if (packs->waiting)
            write_waiting(packs, &packs->waiting);
        else
            pthread_cond_wait(&packs->changed, &packs->lock);
    }
    pthread_mutex_unlock(&packs->lock);
}

/* ---- sharing ---- */

static struct tmk_pack **bucket_of(struct tmk_packs *packs, const void *source) {
    return &packs->bucket[tmk_hash64(&source, sizeof source, 0) % BUCKETS];
}

static struct tmk_pack *find_pack(struct tmk_packs *packs, const void *source, tmk_md from,
                                  tmk_md to) {
    struct tmk_pack *pack = *bucket_of(packs, source);
    while (pack &&
           !(pack->source == source && dnnl_memory_desc_equal(tmk_layout_md(&pack->from), from) &&
             dnnl_memory_desc_equal(tmk_layout_md(&pack->to), to)))
        pack = pack->next;
    return pack;
}

static void keep_pack(struct tmk_packs *packs, struct tmk_pack *pack, const void *source) {
    struct tmk_pack **first = bucket_of(packs, source);
    pack->link = first;
    pack->next = *first;
    if (pack->next)
        pack->next->link = &pack->next;
    *first = pack;
}

enum tmk_status tmk_pack_get(struct tmk_packs *packs, const void *source, tmk_md from, tmk_md to,
                             struct tmk_pack **out, bool *made, struct tmk_diag *diag) {
    struct tmk_pack *pack = packs ? find_pack(packs, source, from, to) : NULL;
    *made = !pack;
    if (pack) {
        pack->users++;
        *out = pack;
        return TMK_OK;
    }
    pack = calloc(1, sizeof *pack);
    TMK_TRY_ALLOC(pack, diag);
    pack->source = source;
    pack->users = 1;
    pack->size = dnnl_memory_desc_get_size(to);
    const enum tmk_status status = packs && packs->empty ? TMK_OK : give_bytes(pack, diag);
    if (status != TMK_OK) {
        free(pack);
        return status;
    }
    pack->packs = packs;
    *out = pack;
    if (!packs)
        return TMK_OK;
    TMK_TRY_ALLOC(tmk_layout_copy(&pack->from, from) == dnnl_success &&
                      tmk_layout_copy(&pack->to, to) == dnnl_success,
                  diag);
    keep_pack(packs, pack, source);
    return TMK_OK;
}

void *tmk_pack_bytes(const struct tmk_pack *pack) {
    return pack->bytes;
}

void tmk_pack_release(struct tmk_pack *pack) {
    if (!pack || --pack->users)
        return;
    if (pack->link) {
        *pack->link = pack->next;
        if (pack->next)
            pack->next->link = pack->link;
    }
    tmk_layout_finish(&pack->from);
    tmk_layout_finish(&pack->to);
    tmk_memory_free(pack->bytes);
    free(pack);
}
