/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/size.h"

struct tmk_buf {
    atomic_size_t refs;
    void *data;
    size_t size;
    struct tmk_buf *owner;
    enum { OWN, VIEW, MAPPED, BORROWED } kind;
    struct tmk_input file;         /* MAPPED */
    void (*release)(void *lender); /* BORROWED */
    void *lender;
};

enum { BUF_ALIGN = 64 };

/* What is taken for `size` bytes: whole lines, and one more to read beyond the end. */
static bool padded_size(size_t size, size_t *total) {
    if (!tmk_add_size(size, 2 * BUF_ALIGN - 1, total))
        return false;
    *total &= ~(size_t)(BUF_ALIGN - 1);
    return true;
}

static void give_back(void *data, size_t size) {
    size_t total;
    if (!padded_size(size, &total))
        return;
    if (size < TMK_SPARE_LARGE)
        free(data);
    else if (tmk_spare_keep(data, total))
        return;
    else
        munmap(data, total);
    tmk_memory_uncharge(total);
}

static struct tmk_buf *wrap_buf(void *data, size_t size) {
    struct tmk_buf *buf = calloc(1, sizeof *buf);
    if (!buf)
        return NULL;
    atomic_init(&buf->refs, 1);
    buf->data = data;
    buf->size = size;
    return buf;
}

static void *alloc_zeroed(size_t total) {
    void *data = aligned_alloc(BUF_ALIGN, total);
    return data ? memset(data, 0, total) : NULL;
}

struct tmk_buf *tmk_buf_create(size_t size) {
    size_t total;
    if (!padded_size(size, &total))
        return NULL;
    void *data = size < TMK_SPARE_LARGE ? NULL : tmk_spare_take(total);
    if (!data) {
        if (!tmk_memory_charge(total))
            return NULL;
        data = size < TMK_SPARE_LARGE ? alloc_zeroed(total) : tmk_spare_map(total);
    }
    if (!data) {
        tmk_memory_uncharge(total);
        return NULL;
    }
    struct tmk_buf *buf = wrap_buf(data, size);
    if (!buf)
        give_back(data, size);
    return buf;
}

struct tmk_buf *tmk_buf_view(const void *bytes, size_t size, struct tmk_buf *owner) {
    struct tmk_buf *buf = wrap_buf((void *)(size_t)bytes, size);
    if (!buf)
        return NULL;
    buf->kind = VIEW;
    buf->owner = owner ? tmk_buf_ref(owner) : NULL;
    return buf;
}

struct tmk_buf *tmk_buf_mapped(void *bytes, size_t size, const struct tmk_input *file) {
    struct tmk_buf *buf = wrap_buf(bytes, size);
    if (!buf)
        return NULL;
    buf->kind = MAPPED;
    buf->file = *file;
    return buf;
}

struct tmk_buf *tmk_buf_borrowed(const void *bytes, size_t size, void (*release)(void *owner),
                                 void *owner) {
    struct tmk_buf *buf = wrap_buf((void *)(size_t)bytes, size);
    if (!buf)
        return NULL;
    buf->kind = BORROWED;
    buf->release = release;
    buf->lender = owner;
    return buf;
}

void *tmk_buf_lender(const struct tmk_buf *buf, void (*release)(void *owner)) {
    return buf && buf->kind == BORROWED && buf->release == release ? buf->lender : NULL;
}

/* The mapped file that the bytes are in, or NULL. */
static const struct tmk_buf *mapping_of(const struct tmk_buf *buf) {
    while (buf && buf->kind == VIEW)
        buf = buf->owner;
    return buf && buf->kind == MAPPED ? buf : NULL;
}

void tmk_buf_rest(const struct tmk_buf *buf) {
    if (buf->kind == MAPPED)
        (void)madvise(buf->data, buf->size, MADV_DONTNEED);
}

void tmk_buf_rest_part(const struct tmk_buf *buf, const void *first, size_t size) {
    const struct tmk_buf *mapping = mapping_of(buf);
    const long page = sysconf(_SC_PAGESIZE);
    if (!mapping || page <= 0)
        return;
    char *start = mapping->data;
    size_t begin = (size_t)((const char *)first - start), end = begin + size;
    begin -= begin % (size_t)page;
    end -= end == mapping->size ? 0 : end % (size_t)page;
    if (begin < end)
        (void)madvise(start + begin, end - begin, MADV_DONTNEED);
}

bool tmk_buf_is_mapped(const struct tmk_buf *buf) {
    return mapping_of(buf) != NULL;
}

struct tmk_buf *tmk_buf_ref(struct tmk_buf *buf) {
    atomic_fetch_add_explicit(&buf->refs, 1, memory_order_relaxed);
    return buf;
}

void tmk_buf_unref(struct tmk_buf **slot) {
    struct tmk_buf *buf = *slot;
    *slot = NULL;
    if (!buf || atomic_fetch_sub_explicit(&buf->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (buf->kind == OWN) {
        give_back(buf->data, buf->size);
    } else if (buf->kind == MAPPED) {
        munmap(buf->data, buf->size);
        tmk_input_drop(&buf->file);
    } else if (buf->kind == BORROWED) {
        buf->release(buf->lender);
    }
    tmk_buf_unref(&buf->owner);
    free(buf);
}

void *tmk_buf_data(const struct tmk_buf *buf) {
    return buf->data;
}

size_t tmk_buf_size(const struct tmk_buf *buf) {
    return buf->size;
}
