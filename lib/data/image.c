/* SPDX-License-Identifier: Apache-2.0 */
#include "data/image.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/memory.h"
#include "data/image_wire.h"

enum {
    SECONDS = 10,             /* of processor time that a picture may take, */
    BYTES_A_SECOND = 1 << 20, /* and those for each so many bytes of its file */
    FIRST_SHARED = 1 << 24,   /* bytes; more where a picture takes more */
    MOST_SHARED = 1 << 28,    /* TMK_IMAGE_MAX_PIXELS */
    FIRST_GRANT = 1 << 22,    /* bytes of the memory limit for a helper; more likewise */
};

/* What a helper may take: a picture, its coefficients, and what it is resized to. */
static const uint64_t helper_memory = UINT64_C(2) << 30;

const struct tmk_helper_kind tmk_image_helper = {"tidemark-read-images", "images",
                                                 "the library that decodes it"};

/* ---- numbers ---- */

void tmk_image_recipe_init(struct tmk_image_recipe *recipe, const struct tmk_image_spec *spec) {
    recipe->spec = *spec;
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++)
            recipe->value[c][v] = (float)((v * spec->scale - spec->mean[c]) / spec->deviation[c]);
}

/* Where each channel of the result comes from, and where its elements lie. */
enum tmk_status tmk_image_lay_out(const struct tmk_image_recipe *recipe,
                                  const struct tmk_pixels *pixels, struct tmk_tensor *out,
                                  struct tmk_diag *diag) {
    const struct tmk_image_spec *spec = &recipe->spec;
    const int64_t channels = tmk_image_channels(spec), width = pixels->width,
                  height = pixels->height;
    const struct tmk_shape nchw = {4, {1, channels, height, width}},
                           nhwc = {4, {1, height, width, channels}};
    struct tmk_tensor tensor = {0};
    TMK_TRY(tmk_tensor_init(&tensor, spec->bytes ? TMK_UINT8 : TMK_FLOAT32,
                            spec->nhwc ? &nhwc : &nchw, diag));
    size_t n = (size_t)(width * height), apart = spec->nhwc ? (size_t)channels : 1;
    for (size_t c = 0; c < (size_t)channels; c++) {
        size_t from = spec->color == TMK_IMAGE_BGR ? 2 - c : c;
        const unsigned char *p = pixels->data + (pixels->channels == 3 ? from : 0);
        size_t begin = spec->nhwc ? c : c * n, step = pixels->channels;
        if (spec->bytes) {
            uint8_t *to = (uint8_t *)tensor.data + begin;
            for (size_t i = 0; i < n; i++)
                to[i * apart] = p[i * step];
        } else {
            float *to = (float *)tensor.data + begin;
            for (size_t i = 0; i < n; i++)
                to[i * apart] = recipe->value[c][p[i * step]];
        }
    }
    *out = tensor;
    return TMK_OK;
}

/* ---- helper programs ---- */

struct image_helper {
    struct tmk_helper process;
    uint64_t granted; /* bytes of the memory limit, charged */
    struct image_helper *next;
};

struct tmk_image_helpers {
    pthread_mutex_t mutex;
    struct image_helper *idle;
};

enum tmk_status tmk_image_helpers_create(struct tmk_image_helpers **out, struct tmk_diag *diag) {
    struct tmk_image_helpers *helpers = calloc(1, sizeof *helpers);
    TMK_TRY_ALLOC(helpers, diag);
    pthread_mutex_init(&helpers->mutex, NULL);
    *out = helpers;
    return TMK_OK;
}

static void end_helper(struct image_helper *helper) {
    tmk_helper_end(&helper->process);
    tmk_memory_uncharge((size_t)helper->granted);
    free(helper);
}

void tmk_image_helpers_destroy(struct tmk_image_helpers **helpers) {
    if (!*helpers)
        return;
    for (struct image_helper *at = (*helpers)->idle, *next; at; at = next) {
        next = at->next;
        end_helper(at);
    }
    pthread_mutex_destroy(&(*helpers)->mutex);
    free(*helpers);
    *helpers = NULL;
}

static enum tmk_status start_helper(size_t shared, struct image_helper **out,
                                    struct tmk_diag *diag) {
    struct image_helper *helper = calloc(1, sizeof *helper);
    TMK_TRY_ALLOC(helper, diag);
    enum tmk_status status =
        tmk_helper_begin(&tmk_image_helper, -1, shared, helper_memory, &helper->process, diag);
    if (status == TMK_OK)
        *out = helper;
    else
        free(helper);
    return status;
}

/* One that is idle, with so much shared memory, or a new one. */
static enum tmk_status take_helper(struct tmk_image_helpers *helpers, uint64_t shared,
                                   struct image_helper **out, struct tmk_diag *diag) {
    if (shared > MOST_SHARED)
        return tmk_fail(diag, TMK_FORMAT, "a picture of %llu bytes is not read; the limit is %d",
                        (unsigned long long)shared, MOST_SHARED);
    pthread_mutex_lock(&helpers->mutex);
    struct image_helper *helper = helpers->idle;
    if (helper)
        helpers->idle = helper->next;
    pthread_mutex_unlock(&helpers->mutex);
    /* That of a process that has forked is of no use to its copy. */
    if (helper && helper->process.size >= shared && helper->process.owner == getpid()) {
        *out = helper;
        return TMK_OK;
    }
    if (helper)
        end_helper(helper);
    return start_helper(shared > FIRST_SHARED ? (size_t)shared : FIRST_SHARED, out, diag);
}

static void return_helper(struct tmk_image_helpers *helpers, struct image_helper *helper) {
    if (helper->process.fd < 0) {
        end_helper(helper);
        return;
    }
    pthread_mutex_lock(&helpers->mutex);
    helper->next = helpers->idle;
    helpers->idle = helper;
    pthread_mutex_unlock(&helpers->mutex);
}

/* ---- a picture ---- */

static enum tmk_status fail_reply(struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_READ,
                    "is damaged: the process that decodes it gave an invalid answer");
}

static enum tmk_status call_helper(struct image_helper *helper, const struct tmk_image_ask *ask,
                                   struct tmk_image_reply *reply, struct tmk_diag *diag) {
    struct tmk_helper_answer answer = {0};
    *reply = (struct tmk_image_reply){0};
    TMK_TRY(tmk_helper_send(&helper->process, ask, sizeof *ask, NULL, 0,
                            SECONDS + ask->len / BYTES_A_SECOND, diag));
    TMK_TRY(tmk_helper_receive(&helper->process, TMK_IMAGE_DECODE, &answer, reply, sizeof *reply,
                               diag));
    switch ((enum tmk_status)answer.outcome) {
    case TMK_OK:
        return TMK_OK;
    case TMK_FORMAT:
    case TMK_SHAPE:
    case TMK_UNSUPPORTED:
    case TMK_LIMIT:
    case TMK_NOMEM:
        return tmk_fail(diag, (enum tmk_status)answer.outcome, "%s", answer.why);
    default:
        return fail_reply(diag);
    }
}

/* More of the memory limit for the helper: at least twice as much, since each refusal repeats the
 * work. false: there is no more. */
static bool grant_more(struct image_helper *helper, uint64_t lacks) {
    uint64_t more = helper->granted > FIRST_GRANT ? helper->granted : FIRST_GRANT;
    if (lacks > more)
        more = lacks;
    if (more > SIZE_MAX || !tmk_memory_charge((size_t)more))
        return false;
    helper->granted += more;
    return true;
}

/* The bytes are in the shared memory. *shared: bytes of it that the pixels take, where they are
 * more than there are. `read` puts the bytes there again. */
static enum tmk_status decode_bytes(struct image_helper *helper, const struct tmk_infile *file,
                                    const struct tmk_image_spec *spec, struct tmk_pixels *out,
                                    uint64_t *shared, struct tmk_diag *diag) {
    struct tmk_image_ask ask = {.op = TMK_IMAGE_DECODE, .len = file->size, .spec = *spec};
    struct tmk_image_reply reply;
    const uint64_t limit = tmk_memory_limit();
    TMK_TRY(tmk_infile_read(file, 0, helper->process.shared, (size_t)file->size, diag));
    if (limit && !helper->granted)
        (void)grant_more(helper, 0);
    for (bool last = false;;) {
        const uint64_t used = tmk_memory_used(), others = used - helper->granted;
        ask.used = others;
        ask.limit = !limit ? 0 : last || used > limit ? limit : used;
        struct tmk_diag why = {0};
        enum tmk_status status = call_helper(helper, &ask, &reply, &why);
        if (status == TMK_LIMIT && !last) {
            last = !grant_more(helper, reply.lacks);
            continue;
        }
        if (status != TMK_OK)
            return tmk_fail(diag, status, "%s", why.text);
        break;
    }
    *shared = reply.shared;
    if (reply.shared)
        return TMK_OK;
    const uint64_t pixels = (uint64_t)reply.width * reply.height;
    if (!pixels || pixels > TMK_IMAGE_MAX_PIXELS || (reply.channels != 1 && reply.channels != 3) ||
        pixels * reply.channels > helper->process.size)
        return fail_reply(diag);
    *out = (struct tmk_pixels){reply.width, reply.height, reply.channels, helper->process.shared};
    return TMK_OK;
}

static enum tmk_status load_with(struct tmk_image_helpers *helpers, const struct tmk_infile *file,
                                 const struct tmk_image_recipe *recipe, uint64_t *shared,
                                 struct tmk_tensor *out, struct tmk_diag *diag) {
    struct image_helper *helper;
    struct tmk_pixels pixels;
    TMK_TRY(take_helper(helpers, *shared, &helper, diag));
    enum tmk_status status = decode_bytes(helper, file, &recipe->spec, &pixels, shared, diag);
    if (status == TMK_OK && !*shared)
        status = tmk_image_lay_out(recipe, &pixels, out, diag);
    return_helper(helpers, helper);
    return status;
}

static enum tmk_status load_file(struct tmk_image_helpers *helpers, const struct tmk_infile *file,
                                 const struct tmk_image_recipe *recipe, struct tmk_tensor *out,
                                 struct tmk_diag *diag) {
    uint64_t shared = file->size;
    if (!tmk_memory_charge((size_t)file->size))
        return tmk_memory_fail(diag, (size_t)file->size, "its bytes");
    enum tmk_status status = load_with(helpers, file, recipe, &shared, out, diag);
    if (status == TMK_OK && shared)
        status = load_with(helpers, file, recipe, &shared, out, diag);
    if (status == TMK_OK && shared)
        status = fail_reply(diag);
    tmk_memory_uncharge((size_t)file->size);
    return status;
}

enum tmk_status tmk_image_load(struct tmk_image_helpers *helpers, const char *path,
                               const struct tmk_image_recipe *recipe, struct tmk_tensor *out,
                               struct tmk_diag *diag) {
    struct tmk_infile file = {.fd = -1};
    TMK_TRY(tmk_infile_open(path, &file, diag));
    enum tmk_status status = load_file(helpers, &file, recipe, out, diag);
    tmk_infile_close(&file);
    return tmk_in(diag, status, "%s", path);
}
