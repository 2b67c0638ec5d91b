/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <math.h>
#include <string.h>

#include <tidemark/tensor.h>

#include "base/buf.h"
#include "tensor/elements.h"
#include "tensor/list.h"

TEST(every_half_survives_the_way_there_and_back) {
    for (uint32_t h = 0; h < 65536; h++) {
        float f = tmk_from_half((uint16_t)h);
        if (isnan(f))
            assert_true(isnan(tmk_from_half(tmk_to_half(f))));
        else
            assert_int_equal(tmk_to_half(f), h);
    }
}

TEST(halves_round_to_nearest_even) {
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float a = tmk_from_half((uint16_t)h), b = tmk_from_half((uint16_t)(h + 1)),
              middle = (float)(((double)a + (double)b) / 2);
        assert_int_equal(tmk_to_half(middle), h & 1 ? h + 1 : h);
        assert_int_equal(tmk_to_half(nextafterf(middle, 0.0f)), h);
        assert_int_equal(tmk_to_half(nextafterf(middle, INFINITY)), h + 1);
    }
    assert_int_equal(tmk_to_half(65519.996f), 0x7bff);
    assert_int_equal(tmk_to_half(65520.0f), 0x7c00);
    assert_int_equal(tmk_to_half(-INFINITY), 0xfc00);
}

TEST(lazy_tensors_have_their_elements_in_blocks_and_open) {
    enum { N = 3 * TMK_ELEMENTS_BLOCK / 2 };
    const struct tmk_shape shape = {2, {3, N / 3}}, flat = {1, {N}};
    struct tmk_buf *bytes = tmk_buf_create(N * sizeof(uint16_t));
    uint16_t *half = tmk_buf_data(bytes);
    float scratch[100];
    for (size_t i = 0; i < N; i++)
        half[i] = (uint16_t)(i % 31000);
    struct tmk_tensor lazy, again, view, opened[2], other;
    must(tmk_lazy_create(TMK_FLOAT16, &shape, half, bytes, &lazy, DIAG));
    must(tmk_lazy_create(TMK_FLOAT16, &shape, half, bytes, &again, DIAG));
    tmk_buf_unref(&bytes);
    assert_null(lazy.data);
    assert_true(tmk_tensor_is_lazy(&lazy) && tmk_tensor_has_elements(&lazy));
    assert_true(lazy.dtype == TMK_FLOAT32 && lazy.origin == TMK_FLOAT16);
    assert_int_equal(tmk_elements_scratch(&lazy, 100), sizeof scratch);
    const float *some = tmk_elements(&lazy, N - 100, 100, scratch);
    for (size_t i = 0; i < 100; i++)
        assert_true(some[i] == tmk_from_half(half[N - 100 + i]));
    tmk_tensor_share(&view, &lazy);
    view.shape = flat;
    must(tmk_tensor_open(&lazy, &opened[0], DIAG));
    must(tmk_tensor_open(&view, &opened[1], DIAG));
    tmk_tensor_finish(&lazy);
    tmk_tensor_finish(&view);
    assert_ptr_equal(opened[0].data, opened[1].data);
    assert_true(tmk_shape_equal(&opened[1].shape, &flat));
    assert_true(tmk_tensor_is_opened(&opened[0]) && !tmk_tensor_is_lazy(&opened[0]));
    tmk_tensor_finish(&opened[0]);
    for (size_t i = 0; i < N; i++)
        assert_true(((float *)opened[1].data)[i] == tmk_from_half(half[i]));
    must(tmk_tensor_open(&opened[1], &other, DIAG));
    assert_ptr_equal(other.data, opened[1].data);
    tmk_tensor_finish(&other);
    tmk_tensor_finish(&opened[1]);
    tmk_tensor_finish(&again);
}

TEST(bfloat16_rounds_to_nearest_even) {
    assert_int_equal(tmk_to_bfloat16(1.0f), 0x3f80);
    assert_int_equal(tmk_to_bfloat16(1.00390625f), 0x3f80); /* halfway, to even */
    assert_int_equal(tmk_to_bfloat16(1.01171875f), 0x3f82);
    assert_true(isnan(tmk_from_bfloat16(tmk_to_bfloat16(NAN))));
}

TEST(counts_refuse_overflow_and_unknown_dimensions) {
    size_t n;
    assert_true(tmk_shape_count(&(struct tmk_shape){0, {0}}, &n));
    assert_int_equal(n, 1);
    assert_true(tmk_shape_count(&(struct tmk_shape){3, {2, 0, 5}}, &n));
    assert_int_equal(n, 0);
    assert_false(tmk_shape_count(&(struct tmk_shape){2, {INT64_MAX, 3}}, &n));
    assert_false(tmk_shape_count(&(struct tmk_shape){3, {INT64_MAX, 0, 3}}, &n));
    assert_false(tmk_shape_count(&(struct tmk_shape){1, {-1}}, &n));
    assert_false(tmk_shape_count(&(struct tmk_shape){TMK_MAX_RANK + 1, {0}}, &n));
}

TEST(a_tensor_too_large_is_an_error) {
    struct tmk_tensor t;
    must_fail(tmk_tensor_init(&t, TMK_FLOAT32, &(struct tmk_shape){1, {INT64_MAX}}, DIAG),
              TMK_RANGE, "too large");
    assert_int_equal(tmk_tensor_init(&t, TMK_STRING, &(struct tmk_shape){0, {0}}, NULL), TMK_TYPE);
}

TEST(widening_keeps_the_original_type) {
    struct tmk_tensor in, out;
    must(tmk_tensor_init(&in, TMK_FLOAT16, &(struct tmk_shape){1, {2}}, DIAG));
    ((uint16_t *)in.data)[0] = 0x3c00;
    ((uint16_t *)in.data)[1] = 0xc000;
    must(tmk_tensor_widen(&in, &out, DIAG));
    assert_int_equal(out.dtype, TMK_FLOAT32);
    assert_int_equal(out.origin, TMK_FLOAT16);
    assert_true(((float *)out.data)[0] == 1.0f && ((float *)out.data)[1] == -2.0f);
    tmk_tensor_finish(&in);
    tmk_tensor_finish(&out);
}

TEST(shapes_print) {
    char text[32];
    assert_string_equal(tmk_shape_text(&(struct tmk_shape){0, {0}}, text, sizeof text), "[]");
    assert_string_equal(tmk_shape_text(&(struct tmk_shape){2, {-1, 7}}, text, sizeof text),
                        "[?,7]");
}

TEST(a_list_lives_as_long_as_somebody_holds_it) {
    struct tmk_tensor first, second, element;
    struct tmk_list *list = tmk_list_create(2);
    assert_non_null(list);
    for (size_t i = 0; i < 2; i++) {
        struct tmk_tensor *place = tmk_list_place(list, i);
        must(tmk_tensor_init(place, TMK_FLOAT32, &(struct tmk_shape){1, {3}}, DIAG));
        ((float *)place->data)[2] = (float)i;
    }
    tmk_tensor_of_list(&first, TMK_FLOAT32, list);
    assert_int_equal(tmk_tensor_count(&first), 0); /* taken for a tensor it has no elements */
    tmk_tensor_share(&second, &first);
    tmk_tensor_finish(&first);
    assert_null(first.list);
    assert_int_equal(first.kind, TMK_TYPE_TENSOR);
    assert_int_equal(tmk_list_length(second.list), 2);
    tmk_tensor_share(&element, &tmk_list_items(second.list)[1]);
    tmk_tensor_finish(&second);
    assert_true(((float *)element.data)[2] == 1.0f);
    tmk_tensor_finish(&element);
    assert_null(tmk_list_create(SIZE_MAX / 4));
}

TEST(nothing_is_no_tensor) {
    struct tmk_tensor nothing, copy;
    tmk_tensor_nothing(&nothing, TMK_INT64);
    tmk_tensor_share(&copy, &nothing);
    assert_int_equal(copy.kind, TMK_TYPE_OPTIONAL);
    assert_int_equal(tmk_tensor_bytes(&copy), 0);
    assert_string_equal(tmk_tensor_what(&copy), "an optional that holds nothing");
    tmk_tensor_finish(&copy);
    tmk_tensor_finish(&nothing);
}
