/* SPDX-License-Identifier: Apache-2.0 */
/* ai.tidemark::Requantize. */
#include "op_case.h"

#define NODE(attributes)                                                                           \
    "%y = ai.tidemark::Requantize(%x, %q, %s, %r, %z) {rounding=\"single_half_up\"" attributes "}"
/* By a half: 2^30 * 2^(0 - 31). */
#define HALF "init %q : i32[] = {1073741824}\ninit %s : i32[] = {0}\ninit %r : f32[] = {0.5}\n"
#define X "init %x : i32[5] = {-1000, -5, -4, 5, 1000}\n"

TEST(codes_are_clamped_to_their_type_and_to_what_is_asked) {
    gives(13, X HALF "init %z : u8[] = {10}\n", NODE(""), "u8[5] = {0, 8, 8, 13, 255}");
    gives(13, X HALF "init %z : i8[] = {-3}\n", NODE(""), "i8[5] = {-128, -5, -5, 0, 127}");
    gives(13, X HALF "init %z : i8[] = {-3}\n", NODE(", lowest=-3, highest=4"),
          "i8[5] = {-3, -3, -3, 0, 4}");
    gives(13, X HALF "init %z : i32[] = {1}\n", NODE(""), "i32[5] = {-499, -1, -1, 4, 501}");
    gives(13, X HALF "init %z : u16[] = {400}\n", NODE(""), "u16[5] = {0, 398, 398, 403, 900}");
}

TEST(ties_follow_the_named_rounding) {
#define ROUNDED(name) "%y = ai.tidemark::Requantize(%x, %q, %s, %r, %z) {rounding=\"" name "\"}"
    const char *const operands =
        "init %x : i32[4] = {-5, -3, 3, 5}\n" HALF "init %z : i8[] = {0}\n";
    gives(13, operands, ROUNDED("single_half_up"), "i8[4] = {-2, -1, 2, 3}");
    gives(13, operands, ROUNDED("single_half_away"), "i8[4] = {-3, -2, 2, 3}");
    gives(13, operands, ROUNDED("float_rne"), "i8[4] = {-2, -2, 2, 2}");
    gives(13, operands, ROUNDED("gemmlowp_double"), "i8[4] = {-2, -1, 2, 3}");
}

TEST(channels_have_multipliers_of_their_own) {
    gives(13,
          "init %x : i32[1,2,2] = {10, 20, 10, 20}\ninit %q : i32[2] = {1073741824, 1610612736}\n"
          "init %s : i32[2] = {1, 0}\ninit %r : f32[2] = {1, 0.75}\ninit %z : u8[2] = {0, 100}\n",
          NODE(", axis=-2"), "u8[1,2,2] = {10, 20, 108, 115}");
    gives(13,
          "init %x : i32[2,2] = {10, 20, 10, 20}\ninit %q : i32[] = {1073741824}\n"
          "init %s : i32[2] = {1, 0}\ninit %r : f32[] = {1}\ninit %z : u8[] = {0}\n",
          NODE(""), "u8[2,2] = {10, 10, 10, 10}");
}

TEST(codes_are_taken_from_their_own_zero_point) {
    gives(13,
          "init %x : u8[3] = {0, 128, 255}\n" HALF "init %z : i8[] = {1}\ninit %a : u8[] = {128}\n",
          "%y = ai.tidemark::Requantize(%x, %q, %s, %r, %z, %a) {rounding=\"single_half_up\"}",
          "i8[3] = {-63, 1, 65}");
}

TEST(what_makes_no_sense_is_refused) {
    const char *const zero = "init %z : u8[] = {0}\n";
    char text[512];
#define REFUSES(multipliers, node, status, why)                                                    \
    do {                                                                                           \
        snprintf(text, sizeof text, "%s%s%s", X, multipliers, zero);                               \
        refuses(13, text, node, status, why);                                                      \
    } while (0)
    REFUSES(HALF, NODE(", highest=256"), TMK_RANGE, "codes from 0 to 256");
    REFUSES(HALF, NODE(", lowest=3, highest=2"), TMK_RANGE, "codes from 3 to 2");
    REFUSES(HALF, "%y = ai.tidemark::Requantize(%x, %q, %s, %r, %z) {rounding=\"up\"}",
            TMK_UNSUPPORTED, "no rounding 'up'");
    REFUSES("init %q : i32[] = {1}\ninit %s : i32[] = {31}\ninit %r : f32[] = {0.5}\n", NODE(""),
            TMK_RANGE, "shift 31");
    REFUSES("init %q : i32[] = {-1}\ninit %s : i32[] = {0}\ninit %r : f32[] = {0.5}\n", NODE(""),
            TMK_RANGE, "multiplier -1");
    REFUSES("init %q : i32[3] = {1, 1, 1}\ninit %s : i32[] = {0}\ninit %r : f32[] = {0.5}\n",
            NODE(", axis=0"), TMK_SHAPE, "the multiplier has 3 elements");
    REFUSES("init %q : i32[5] = {1, 1, 1, 1, 1}\ninit %s : i32[] = {0}\ninit %r : f32[] = {0.5}\n",
            NODE(""), TMK_RANGE, "axis");
    REFUSES("init %q : i64[] = {1}\ninit %s : i32[] = {0}\ninit %r : f32[] = {0.5}\n", NODE(""),
            TMK_TYPE, "the multiplier");
}
