/* SPDX-License-Identifier: Apache-2.0 */
/* Transforms, windows, determinants, grids of places: cases worked out by hand. */
#include "ops_nn.h"

TEST(signals_become_spectra_and_come_back) {
    /* 1 2 3 4: 10, -2+2i, -2, -2-2i */
#define REAL "init %x : f32[1,4,1] = {1, 2, 3, 4}\n"
    gives_type(17, REAL "%y = DFT(%x)", TMK_FLOAT32, "[1,4,2]", FLOATS(10, 0, -2, 2, -2, 0, -2, -2),
               1e-6);
    gives_type(20, REAL "%y = DFT(%x) {onesided=1}", TMK_FLOAT32, "[1,3,2]",
               FLOATS(10, 0, -2, 2, -2, 0), 1e-6);
    gives_type(20,
               "init %x : f32[1,3,2] = {10, 0, -2, 2, -2, 0}\n"
               "%y = DFT(%x) {inverse=1, onesided=1}",
               TMK_FLOAT32, "[1,4,1]", FLOATS(1, 2, 3, 4), 1e-6);
    gives_type(20,
               "init %x : f32[1,4,2] = {10, 0, -2, 2, -2, 0, -2, -2}\n"
               "%y = DFT(%x) {inverse=1}",
               TMK_FLOAT32, "[1,4,2]", FLOATS(1, 0, 2, 0, 3, 0, 4, 0), 1e-6);
    /* cut to 1 2, and continued with zeros to 1 2 3 4 0 */
    gives_type(17, REAL "init %n : i64[] = {2}\n%y = DFT(%x, %n) {axis=-2}", TMK_FLOAT32, "[1,2,2]",
               FLOATS(3, 0, -1, 0), 1e-6);
    gives_type(20,
               REAL "init %n : i64[] = {5}\ninit %a : i64[] = {1}\n"
                    "%y = DFT(%x, %n, %a) {onesided=1}",
               TMK_FLOAT32, "[1,3,2]",
               FLOATS(10, 0, -4.0450850f, -1.3143278f, 1.5450850f, -2.1266270f), 1e-5);
    /* along the first of two axes */
    gives_type(20,
               "init %x : f32[2,2,1] = {1, 2, 3, 4}\ninit %a : i64[] = {0}\n"
               "%y = DFT(%x, _, %a)",
               TMK_FLOAT32, "[2,2,2]", FLOATS(4, 0, 6, 0, -2, 0, -2, 0), 1e-6);
    refuses(20, REAL "%y = DFT(%x) {inverse=1, onesided=1}", TMK_SHAPE, "takes complex input");
    refuses(20, REAL "init %a : i64[] = {2}\n%y = DFT(%x, _, %a)", TMK_RANGE,
            "axis 2 is the one of the parts");
    refuses(17, REAL "init %n : i64[] = {0}\n%y = DFT(%x, %n)", TMK_RANGE, "of 0 elements");
    refuses(17, "init %x : f32[1,4] = {1, 2, 3, 4}\n%y = DFT(%x)", TMK_SHAPE, "1 or 2 parts");
}

TEST(windows_are_periodic_unless_told) {
#define SIZE "init %n : i64[] = {4}\n"
    gives_type(17, SIZE "%y = HannWindow(%n)", TMK_FLOAT32, "[4]", FLOATS(0, 0.5f, 1, 0.5f), 1e-6);
    gives_type(17, SIZE "%y = HannWindow(%n) {periodic=0}", TMK_FLOAT32, "[4]",
               FLOATS(0, 0.75f, 0.75f, 0), 1e-6);
    gives_type(17, SIZE "%y = HammingWindow(%n)", TMK_FLOAT32, "[4]",
               FLOATS(4 / 46.0f, 25 / 46.0f, 1, 25 / 46.0f), 1e-6);
    gives_type(17, SIZE "%y = BlackmanWindow(%n)", TMK_FLOAT32, "[4]", FLOATS(0, 0.34f, 1, 0.34f),
               1e-6);
    refuses(17, "init %n : i64[] = {-1}\n%y = HannWindow(%n)", TMK_RANGE, "'size' is -1");
    refuses(17, SIZE "%y = HannWindow(%n) {output_datatype=7}", TMK_UNSUPPORTED, "float32 only");
}

TEST(determinants_know_pivots_and_signs) {
    gives(11,
          "init %x : f32[3,2,2] = {0, 2, 3, 5, 1, 2, 2, 4, 3, 1, 1, 2}\n"
          "%y = Det(%x)",
          "[3]", FLOATS(-6, 0, 5));
    gives(22, "init %x : f32[0,0] = {}\n%y = Det(%x)", "[]", FLOATS(1));
    refuses(11, "init %x : f32[1,2] = {1, 2}\n%y = Det(%x)", TMK_SHAPE, "no square matrices");
}

TEST(a_grid_moves_the_middles_or_the_corners) {
#define THETA                                                                                      \
    "init %t : f32[1,2,3] = {1, 0, 10, 0, 2, 0}\ninit %n : i64[4] = {1, 9, 2, 2}\n"                \
    "%y = AffineGrid(%t, %n)"
    gives(20, THETA, "[1,2,2,2]", FLOATS(9.5f, -1, 10.5f, -1, 9.5f, 1, 10.5f, 1));
    gives(20, THETA " {align_corners=1}", "[1,2,2,2]", FLOATS(9, -2, 11, -2, 9, 2, 11, 2));
    refuses(20,
            "init %t : f32[1,2,3] = {1, 0, 0, 0, 1, 0}\ninit %n : i64[4] = {2, 9, 2, 2}\n"
            "%y = AffineGrid(%t, %n)",
            TMK_SHAPE, "for 2 images");
}
