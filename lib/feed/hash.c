/* SPDX-License-Identifier: Apache-2.0 */
/* The data's hashes, which take as long as reading all of it: computed in parallel with the run. */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/hash.h"
#include "feed/internal.h"

static bool is_stream(const struct tmk_source *source) {
    return strcmp(tmk_source_info(source)->kind, "stream") == 0;
}

static void *hash_all(void *context) {
    struct tmk_feed *feed = context;
    struct feed_hashing *hashing = &feed->hashing;
    for (uint32_t i = 0; hashing->status == TMK_OK && i < feed->n_sources; i++)
        if (!is_stream(feed->sources[i]))
            hashing->status =
                tmk_source_hash(feed->sources[i], &hashing->stop, hashing->hex[i], &hashing->diag);
    if (hashing->status != TMK_OK)
        atomic_store(&hashing->failed, true);
    else if (hashing->then.publish)
        hashing->then.publish(hashing->then.context, (const char(*)[TMK_HASH128_HEX])hashing->hex,
                              feed->n_sources);
    return NULL;
}

enum tmk_status tmk_feed_hash(struct tmk_feed *feed, const struct tmk_feed_hashed *then,
                              struct tmk_diag *diag) {
    struct feed_hashing *hashing = &feed->hashing;
    hashing->hex = calloc((size_t)feed->n_sources + 1, sizeof *hashing->hex);
    TMK_TRY_ALLOC(hashing->hex, diag);
    hashing->then = *then;
    int error = pthread_create(&hashing->thread, NULL, hash_all, feed);
    hashing->runs = !error;
    if (error && feed->notices.fewer_threads)
        feed->notices.fewer_threads(feed->notices.context, TMK_THREADS_HASH, 1, 1, strerror(error));
    if (error)
        hash_all(feed);
    return TMK_OK;
}

bool tmk_feed_hash_failed(const struct tmk_feed *feed) {
    return atomic_load(&feed->hashing.failed);
}

static void join_threads(struct feed_hashing *hashing) {
    if (hashing->runs)
        pthread_join(hashing->thread, NULL);
    hashing->runs = false;
}

enum tmk_status tmk_feed_hashes(struct tmk_feed *feed, const char (**hex)[TMK_HASH128_HEX],
                                struct tmk_diag *diag) {
    struct feed_hashing *hashing = &feed->hashing;
    join_threads(hashing);
    if (hashing->status != TMK_OK)
        return tmk_fail(diag, hashing->status, "%s", hashing->diag.text);
    for (uint32_t i = 0; i < feed->n_sources; i++)
        if (is_stream(feed->sources[i]))
            TMK_TRY(tmk_source_hash(feed->sources[i], NULL, hashing->hex[i], diag));
    *hex = (const char(*)[TMK_HASH128_HEX])hashing->hex;
    return TMK_OK;
}

void tmk_feed_hash_end(struct tmk_feed *feed) {
    atomic_store(&feed->hashing.stop, true);
    join_threads(&feed->hashing);
    free(feed->hashing.hex);
}

uint64_t tmk_feed_glance(const struct tmk_feed *feed) {
    uint64_t hash = feed->n_sources;
    for (uint32_t i = 0; i < feed->n_sources; i++) {
        uint64_t of_source = tmk_source_quick_hash(feed->sources[i]);
        hash = tmk_hash64(&of_source, sizeof of_source, hash);
    }
    return hash;
}

uint32_t tmk_feed_sources(const struct tmk_feed *feed) {
    return feed->n_sources;
}

uint32_t tmk_feed_source_of(const struct tmk_feed *feed, uint32_t input) {
    return feed->bound[input].source;
}
