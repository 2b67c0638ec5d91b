/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/packs.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/hash.h"
#include "base/memory.h"

enum { BUCKETS = 1024 };

struct tmk_pack {
    struct tmk_pack **link, *next; /* link: what points here; NULL: shared with nobody */
    const void *source;
    struct tmk_layout from, to;
    void *bytes;
    uint32_t users;
};

struct tmk_packs {
    struct tmk_pack *bucket[BUCKETS];
};

enum tmk_status tmk_packs_create(struct tmk_packs **out, struct tmk_diag *diag) {
    *out = calloc(1, sizeof **out);
    return *out ? TMK_OK : tmk_nomem(diag);
}

void tmk_packs_destroy(struct tmk_packs **packs) {
    free(*packs);
    *packs = NULL;
}

static struct tmk_pack **bucket_of(struct tmk_packs *packs, const void *source) {
    return &packs->bucket[tmk_hash64(&source, sizeof source, 0) % BUCKETS];
}

static struct tmk_pack *find(struct tmk_packs *packs, const void *source, tmk_md from, tmk_md to) {
    struct tmk_pack *pack = *bucket_of(packs, source);
    while (pack &&
           !(pack->source == source && dnnl_memory_desc_equal(tmk_layout_md(&pack->from), from) &&
             dnnl_memory_desc_equal(tmk_layout_md(&pack->to), to)))
        pack = pack->next;
    return pack;
}

static void keep(struct tmk_packs *packs, struct tmk_pack *pack, const void *source) {
    struct tmk_pack **first = bucket_of(packs, source);
    pack->link = first;
    pack->next = *first;
    if (pack->next)
        pack->next->link = &pack->next;
    *first = pack;
}

enum tmk_status tmk_pack_get(struct tmk_packs *packs, const void *source, tmk_md from, tmk_md to,
                             struct tmk_pack **out, bool *made, struct tmk_diag *diag) {
    struct tmk_pack *pack = packs ? find(packs, source, from, to) : NULL;
    *made = !pack;
    if (pack) {
        pack->users++;
        *out = pack;
        return TMK_OK;
    }
    const size_t bytes = dnnl_memory_desc_get_size(to);
    pack = calloc(1, sizeof *pack);
    if (!pack)
        return tmk_nomem(diag);
    pack->source = source;
    pack->users = 1;
    pack->bytes = tmk_memory_aligned(bytes);
    if (!pack->bytes) {
        free(pack);
        return tmk_memory_lacks(diag, bytes, "a copy of its weights for oneDNN");
    }
    memset(pack->bytes, 0, bytes);
    if (packs && tmk_layout_copy(&pack->from, from) == dnnl_success &&
        tmk_layout_copy(&pack->to, to) == dnnl_success)
        keep(packs, pack, source);
    *out = pack;
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
