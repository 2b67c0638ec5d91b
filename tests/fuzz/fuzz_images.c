/* SPDX-License-Identifier: Apache-2.0 */
/* PNG and JPEG files and what is made of them. A line of text with the options comes first.
 */
#include <string.h>

#include "base/diag.h"
#include "data/image_decode.h"
#include "fuzz.h"

enum { MOST_SPEC = 200, MOST_SIDE = 512 };

FUZZ_TARGET(images) {
    char text[MOST_SPEC + 1] = "";
    const uint8_t *end = size ? memchr(data, '\n', size < MOST_SPEC ? size : MOST_SPEC) : NULL;
    if (!end)
        return 0;
    size_t len = (size_t)(end - data);
    memcpy(text, data, len);
    struct tmk_diag diag = {0};
    struct tmk_image_spec spec;
    if (!fuzz_ok(tmk_image_spec_parse(text, &spec, &diag), &diag))
        return 0;
    /* Large pictures are slow, not wrong. */
    if (spec.shorter > MOST_SIDE || spec.width > MOST_SIDE || spec.height > MOST_SIDE)
        return 0;
    struct tmk_image_recipe recipe;
    struct tmk_tensor tensor = {0};
    tmk_image_recipe_init(&recipe, &spec);
    struct tmk_pixels pixels = {0};
    if (fuzz_ok(tmk_image_decode(data + len + 1, size - len - 1, &spec, &pixels, &diag), &diag) &&
        fuzz_ok(tmk_image_lay_out(&recipe, &pixels, &tensor, &diag), &diag))
        tmk_tensor_finish(&tensor);
    tmk_pixels_finish(&pixels);
    return 0;
}
