/* SPDX-License-Identifier: Apache-2.0 */
/* The helper program that decodes PNG and JPEG files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/memory.h"
#include "data/image_decode.h"
#include "data/image_wire.h"
#include "sandbox/served.h"

static enum tmk_status decode_picture(struct tmk_served *served, const struct tmk_image_ask *ask,
                                      struct tmk_image_reply *reply, struct tmk_diag *diag) {
    struct tmk_pixels pixels = {0};
    if (ask->len > served->size)
        return tmk_fail(diag, TMK_ARGUMENT, "more bytes than shared memory");
    TMK_TRY(tmk_image_decode(served->shared, (size_t)ask->len, &ask->spec, &pixels, diag));
    const size_t bytes = (size_t)pixels.width * pixels.height * pixels.channels;
    if (bytes <= served->size) {
        memcpy(served->shared, pixels.data, bytes);
        *reply = (struct tmk_image_reply){
            .width = pixels.width, .height = pixels.height, .channels = pixels.channels};
    } else {
        reply->shared = bytes;
    }
    tmk_pixels_finish(&pixels);
    return TMK_OK;
}

/* The caller's memory counts with it, so that messages name what is in use. */
static enum tmk_status decode_within(struct tmk_served *served, const struct tmk_image_ask *ask,
                                     struct tmk_image_reply *reply, struct tmk_diag *diag) {
    tmk_memory_set_limit(0);
    const bool charged = tmk_memory_charge((size_t)ask->used);
    tmk_memory_set_limit(ask->limit);
    enum tmk_status status = decode_picture(served, ask, reply, diag);
    reply->lacks = tmk_memory_refused();
    if (charged)
        tmk_memory_uncharge((size_t)ask->used);
    return status;
}

int main(void) {
    static struct tmk_served served;
    struct tmk_image_ask ask;
    if (!tmk_served_begin(&served))
        return EXIT_FAILURE;
    bool there = true;
    while (there && tmk_served_next(&served, &ask, sizeof ask)) {
        struct tmk_diag diag = {0};
        struct tmk_image_reply reply = {0};
        struct tmk_helper_answer answer = {.op = TMK_IMAGE_DECODE};
        answer.outcome = (uint32_t)decode_within(&served, &ask, &reply, &diag);
        snprintf(answer.why, sizeof answer.why, "%.*s", (int)sizeof answer.why - 1, diag.text);
        there = tmk_served_answer(&served, &answer, &reply, sizeof reply);
    }
    _exit(0); /* without exit handlers, which a file may have reached */
}
