/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/elements.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/tensor.h>

#include "base/bits.h"
#include "base/buf.h"
#include "base/diag.h"

/* Between the floating-point formats. Layouts: IEEE 754-2019 (binary16, binary32, binary64) and
 * bfloat16. */

/* Without branches, so that compilers make vectors of a loop over it. */
float tmk_from_half(uint16_t half) {
    const uint32_t magnitude = half & 0x7fffu, mantissa = half & 0x3ffu,
                   special = 0u - (magnitude >= 0x7c00u), small = 0u - (magnitude < 0x400u),
                   large = (magnitude << 13) + (112u << 23) + (special & 112u << 23);
    const uint32_t least =
        tmk_bits_of_float((float)(int32_t)mantissa * 0x1p-24f); /* zero, denormal: exact */
    return tmk_float_of_bits((half & 0x8000u) << 16 | (large & ~small) | (least & small));
}

uint16_t tmk_to_half(float value) {
    uint32_t bits = tmk_bits_of_float(value), magnitude = bits & 0x7fffffffu;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x33000001u) /* 2^-25 and below round to zero */
        return sign;
    uint32_t shift = 13, kept;
    if (magnitude < 0x38800000u) { /* a denormal half: the implicit bit becomes explicit */
        shift = 126u - (magnitude >> 23);
        magnitude = (magnitude & 0x7fffffu) | 0x800000u;
        kept = magnitude >> shift;
    } else {
        kept = (magnitude - 0x38000000u) >> 13;
    }
    uint32_t rest = magnitude & ((1u << shift) - 1), half = 1u << (shift - 1);
    kept += rest > half || (rest == half && (kept & 1));
    return (uint16_t)(sign | kept);
}

float tmk_from_bfloat16(uint16_t bits) {
    return tmk_float_of_bits((uint32_t)bits << 16);
}

uint16_t tmk_to_bfloat16(float value) {
    uint32_t bits = tmk_bits_of_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/* n elements of a type of floats, which need not be aligned, as float32. */
static void widen_floats(enum tmk_dtype dtype, const void *bytes, size_t n, float *to) {
    const char *from = bytes; /* mapped files need not be aligned */
    uint16_t half;
    double wide;
    if (dtype == TMK_FLOAT16)
        for (size_t i = 0; i < n; i++) {
            memcpy(&half, from + i * sizeof half, sizeof half);
            to[i] = tmk_from_half(half);
        }
    else if (dtype == TMK_BFLOAT16)
        for (size_t i = 0; i < n; i++) {
            memcpy(&half, from + i * sizeof half, sizeof half);
            to[i] = tmk_from_bfloat16(half);
        }
    else if (dtype == TMK_FLOAT32)
        memcpy(to, from, n * sizeof *to);
    else
        for (size_t i = 0; i < n; i++) {
            memcpy(&wide, from + i * sizeof wide, sizeof wide);
            to[i] = (float)wide;
        }
}

enum tmk_status tmk_tensor_widen(const struct tmk_tensor *in, struct tmk_tensor *out,
                                 struct tmk_diag *diag) {
    if (in->dtype != TMK_FLOAT16 && in->dtype != TMK_BFLOAT16 && in->dtype != TMK_FLOAT64) {
        tmk_tensor_share(out, in);
        return TMK_OK;
    }
    TMK_TRY(tmk_tensor_init(out, TMK_FLOAT32, &in->shape, diag));
    out->origin = in->dtype;
    widen_floats(in->dtype, in->data, tmk_tensor_count(in), out->data);
    return TMK_OK;
}

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
    TMK_TRY(status);
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

bool tmk_elements_large(const struct tmk_tensor *tensor) {
    return tmk_elements_mapped(tensor) && tmk_tensor_count(tensor) >= TMK_ELEMENTS_BLOCK;
}

size_t tmk_elements_scratch(const struct tmk_tensor *tensor, size_t n) {
    return lazy_of(tensor) ? n * sizeof(float) : 0;
}

const void *tmk_elements(const struct tmk_tensor *tensor, size_t first, size_t n, void *scratch) {
    const struct lazy *lazy = lazy_of(tensor);
    if (!lazy)
        return (const char *)tensor->data + first * tmk_dtype_size(tensor->dtype);
    widen_floats(lazy->dtype, lazy->bytes + first * tmk_dtype_size(lazy->dtype), n, scratch);
    return scratch;
}

void tmk_elements_rest(const struct tmk_tensor *tensor, size_t first, size_t n) {
    const struct lazy *lazy = lazy_of(tensor);
    const size_t size = tmk_dtype_size(lazy ? lazy->dtype : tensor->dtype);
    const char *bytes = lazy ? lazy->bytes : tensor->data;
    if (bytes)
        tmk_buf_rest_part(lazy ? lazy->owner : tensor->buf, bytes + first * size, n * size);
}

/* ---- single elements, as numbers ---- */

bool tmk_number_takes(enum tmk_dtype dtype) {
    return dtype == TMK_FLOAT32 || dtype == TMK_INT64 || dtype == TMK_INT32 || dtype == TMK_BOOL;
}

double tmk_number_get(const struct tmk_tensor *tensor, size_t at) {
    switch (tensor->dtype) {
    case TMK_FLOAT32:
        return (double)((const float *)tensor->data)[at];
    case TMK_INT64:
        return (double)((const int64_t *)tensor->data)[at];
    case TMK_INT32:
        return ((const int32_t *)tensor->data)[at];
    default:
        return ((const uint8_t *)tensor->data)[at];
    }
}

enum tmk_status tmk_number_put(struct tmk_tensor *tensor, size_t at, double value,
                               struct tmk_diag *diag) {
    const bool whole = value == floor(value) && fabs(value) <= 9007199254740992.0;
    switch (tensor->dtype) {
    case TMK_FLOAT32:
        ((float *)tensor->data)[at] = (float)value;
        return TMK_OK;
    case TMK_INT64:
        if (whole) {
            ((int64_t *)tensor->data)[at] = (int64_t)value;
            return TMK_OK;
        }
        break;
    case TMK_INT32:
        if (whole && value >= INT32_MIN && value <= INT32_MAX) {
            ((int32_t *)tensor->data)[at] = (int32_t)value;
            return TMK_OK;
        }
        break;
    case TMK_BOOL:
        if (value == 0 || value == 1) {
            ((uint8_t *)tensor->data)[at] = value == 1;
            return TMK_OK;
        }
        break;
    default:
        return tmk_fail(diag, TMK_TYPE, "numbers do not feed inputs of type %s",
                        tmk_dtype_name(tensor->dtype));
    }
    return tmk_fail(diag, TMK_FORMAT, "%.17g is no %s", value, tmk_dtype_name(tensor->dtype));
}
