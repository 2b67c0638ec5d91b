/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/elements.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/diag.h"
#include "tensor/widen.h"

struct lazy {
    enum tmk_dtype dtype; /* in the file */
    const char *bytes;
    struct tmk_buf *owner; /* of the bytes */
    struct tmk_buf *self;  /* the tensors' buf, which ends this; no reference */
    pthread_mutex_t lock;  /* of what follows */
    struct tmk_tensor opened;
    size_t holds; /* of `opened` */
};

static void release_lazy(void *of) {
    struct lazy *lazy = of;
    tmk_buf_unref(&lazy->owner);
    pthread_mutex_destroy(&lazy->lock);
    free(lazy);
}

static void release_hold(void *of) {
    struct lazy *lazy = of;
    struct tmk_buf *self = lazy->self;
    pthread_mutex_lock(&lazy->lock);
    if (--lazy->holds == 0)
        tmk_tensor_finish(&lazy->opened);
    pthread_mutex_unlock(&lazy->lock);
    tmk_buf_unref(&self);
}

static struct lazy *lazy_of(const struct tmk_tensor *tensor) {
    return tensor->data ? NULL : tmk_buf_lender(tensor->buf, release_lazy);
}

enum tmk_status tmk_lazy_create(enum tmk_dtype dtype, const struct tmk_shape *shape,
                                const void *bytes, struct tmk_buf *owner, struct tmk_tensor *out,
                                struct tmk_diag *diag) {
    struct lazy *lazy = calloc(1, sizeof *lazy);
    struct tmk_buf *self = lazy ? tmk_buf_borrowed(bytes, 0, release_lazy, lazy) : NULL;
    if (!self) {
        free(lazy);
        return tmk_nomem(diag);
    }
    pthread_mutex_init(&lazy->lock, NULL);
    lazy->dtype = dtype;
    lazy->bytes = bytes;
    lazy->owner = tmk_buf_ref(owner);
    lazy->self = self;
    *out = (struct tmk_tensor){.dtype = TMK_FLOAT32, .origin = dtype, .shape = *shape, .buf = self};
    return TMK_OK;
}

bool tmk_tensor_is_lazy(const struct tmk_tensor *tensor) {
    return lazy_of(tensor) != NULL;
}

bool tmk_tensor_has_elements(const struct tmk_tensor *tensor) {
    return tensor->data || lazy_of(tensor);
}

static enum tmk_status open_whole(struct lazy *lazy, const struct tmk_tensor *tensor,
                                  struct tmk_diag *diag) {
    const size_t count = tmk_tensor_count(tensor);
    TMK_TRY(tmk_tensor_init(&lazy->opened, TMK_FLOAT32, &tensor->shape, diag));
    for (size_t first = 0; first < count; first += TMK_ELEMENTS_BLOCK) {
        const size_t n =
            count - first < TMK_ELEMENTS_BLOCK ? count - first : (size_t)TMK_ELEMENTS_BLOCK;
        (void)tmk_elements(tensor, first, n, (float *)lazy->opened.data + first);
        tmk_elements_rest(tensor, first, n);
    }
    tmk_elements_rest(tensor, 0, count);
    return TMK_OK;
}

enum tmk_status tmk_tensor_open(const struct tmk_tensor *tensor, struct tmk_tensor *out,
                                struct tmk_diag *diag) {
    struct lazy *lazy = lazy_of(tensor);
    struct tmk_buf *hold = NULL;
    enum tmk_status status = TMK_OK;
    if (!lazy) {
        tmk_tensor_share(out, tensor);
        return TMK_OK;
    }
    pthread_mutex_lock(&lazy->lock);
    if (!lazy->holds)
        status = open_whole(lazy, tensor, diag);
    if (status == TMK_OK) {
        hold = tmk_buf_borrowed(lazy->opened.data, tmk_tensor_bytes(tensor), release_hold, lazy);
        if (hold) {
            lazy->holds++;
            tmk_buf_ref(lazy->self);
        } else if (!lazy->holds) {
            tmk_tensor_finish(&lazy->opened);
        }
        status = hold ? TMK_OK : tmk_nomem(diag);
    }
    pthread_mutex_unlock(&lazy->lock);
    if (status != TMK_OK)
        return status;
    *out = *tensor;
    out->buf = hold;
    out->data = tmk_buf_data(hold);
    return TMK_OK;
}

bool tmk_tensor_is_opened(const struct tmk_tensor *tensor) {
    return tensor->data && tmk_buf_lender(tensor->buf, release_hold);
}

const void *tmk_elements_address(const struct tmk_tensor *tensor) {
    const struct lazy *lazy = lazy_of(tensor);
    return lazy ? lazy->bytes : tensor->data;
}

bool tmk_elements_mapped(const struct tmk_tensor *tensor) {
    return lazy_of(tensor) || tmk_buf_is_mapped(tensor->buf);
}

size_t tmk_elements_scratch(const struct tmk_tensor *tensor, size_t n) {
    return lazy_of(tensor) ? n * sizeof(float) : 0;
}

const void *tmk_elements(const struct tmk_tensor *tensor, size_t first, size_t n, void *scratch) {
    const struct lazy *lazy = lazy_of(tensor);
    if (!lazy)
        return (const char *)tensor->data + first * tmk_dtype_size(tensor->dtype);
    tmk_widen(lazy->dtype, lazy->bytes + first * tmk_dtype_size(lazy->dtype), n, scratch);
    return scratch;
}

void tmk_elements_rest(const struct tmk_tensor *tensor, size_t first, size_t n) {
    const struct lazy *lazy = lazy_of(tensor);
    const size_t size = tmk_dtype_size(lazy ? lazy->dtype : tensor->dtype);
    const char *bytes = lazy ? lazy->bytes : tensor->data;
    if (bytes)
        tmk_buf_rest_part(lazy ? lazy->owner : tensor->buf, bytes + first * size, n * size);
}
