/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator is, as far as others than its kernel depend on it: one row an operator, in
 * traits.c, for all operator sets. A trait that a row does not state is false, or not known. Plain
 * constants, which need no graph. Thread-safe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How integers compute it. */
enum tmk_op_class {
    TMK_OP_OTHER,      /* not at all */
    TMK_OP_MACC,       /* multiplies and accumulates: its result's scale is a product */
    TMK_OP_NORM,       /* normalizes, then multiplies by a weight and adds a bias */
    TMK_OP_DIRECT,     /* results are numbers of operand 0, or means: the same codes do */
    TMK_OP_CONCAT,     /* the result holds the numbers of all operands */
    TMK_OP_CLAMP,      /* clips to bounds: its range can be its operand's */
    TMK_OP_SUM,        /* operands get the result's scale, then are added, compared, selected */
    TMK_OP_PRODUCT,    /* of two operands */
    TMK_OP_RESCALE,    /* a function of one operand that only brings it to another scale */
    TMK_OP_UNIT_RANGE, /* a function into [0, 1] */
    TMK_OP_SOFTMAX,    /* into [0, 1], with a sum of 1 */
};

/* Which samples of a batch (along axis 0 of the operands) a sample of the results depends on. Each
 * rule but the first two reads attributes, constant operands or shapes; lib/plan has its code. */
enum tmk_batch_rule {
    TMK_BATCH_UNKNOWN,
    TMK_BATCH_SAMPLE,    /* on that of operand 0 alone */
    TMK_BATCH_POINTWISE, /* element i on element i of the operands, which broadcast as NumPy's do */
    TMK_BATCH_ARG,
    TMK_BATCH_BATCH_NORM,
    TMK_BATCH_CONCAT,
    TMK_BATCH_CUMULATE,
    TMK_BATCH_EXPAND,
    TMK_BATCH_FLATTEN,
    TMK_BATCH_GATHER,
    TMK_BATCH_GATHER_ELEMENTS,
    TMK_BATCH_GEMM,
    TMK_BATCH_LAST_AXIS,
    TMK_BATCH_LAYER_NORM,
    TMK_BATCH_MATMUL,
    TMK_BATCH_MAX_POOL,
    TMK_BATCH_MEAN_VARIANCE,
    TMK_BATCH_ONE_HOT,
    TMK_BATCH_PAD,
    TMK_BATCH_QUANTIZE,
    TMK_BATCH_REDUCE,
    TMK_BATCH_RESHAPE,
    TMK_BATCH_RESIZE,
    TMK_BATCH_SLICE,
    TMK_BATCH_SOFTMAX,
    TMK_BATCH_SPLIT,
    TMK_BATCH_SQUEEZE,
    TMK_BATCH_TILE,
    TMK_BATCH_TRANSPOSE,
    TMK_BATCH_TRILU,
    TMK_BATCH_UNSQUEEZE,
    TMK_N_BATCH_RULES
};

/* What it multiplies by, and where that has its channels. */
enum tmk_product {
    TMK_PRODUCT_NONE,
    TMK_PRODUCT_CONV,            /* weights [M, C / group, kernel...] */
    TMK_PRODUCT_CONV_TRANSPOSED, /* weights [C, M / group, kernel...] */
    TMK_PRODUCT_MATRIX           /* weights [K, M] ([M, K] with transB) */
};

enum tmk_trait {
    /* Each element of float results is one of operand 0 (Concat: of any operand; Pad: or the number
     * that pads). Which one does not depend on their values. */
    TMK_TRAIT_MOVES = 1,
    TMK_TRAIT_CASTS = 2,        /* each element is operand 0's, as another type has it */
    TMK_TRAIT_MONOTONE = 4,     /* pointwise: of a larger operand 0 the result is no smaller */
    TMK_TRAIT_AFFINE = 8,       /* of one operand, if all others are constants */
    TMK_TRAIT_HOMOGENEOUS = 16, /* operand 0 times s > 0, one number for all elements or one for
                                   each channel, gives the result times s */
    TMK_TRAIT_LINEAR = 32,      /* the same for every s */
    TMK_TRAIT_CODES = 2048, /* does to codes what it does to numbers, and takes 8-bit integers */
    TMK_TRAIT_RANDOM = 64,  /* the result depends on a seed, or on the place in the graph */
    TMK_TRAIT_SHAPE_ONLY = 128, /* reads its operands' shapes, never their elements */
    TMK_TRAIT_QUANTIZED = 256,  /* computes with codes, or makes numbers of them */
    TMK_TRAIT_RECODES = 512,    /* quantizes or dequantizes, and does nothing else */
    TMK_TRAIT_ROWS = 4096,   /* result 0 has the axes of operand 0, but for its own last (or those
                                from `axis` on): a row is made for the same indices */
    TMK_TRAIT_PAIRED = 8192, /* of no class DIRECT: QDQ models as ONNX Runtime makes them have codes
                                at its operands and results */
    TMK_TRAIT_FOLLOWS = 16384,  /* and these have codes where its operands have: it asks for none */
    TMK_TRAIT_SENSITIVE = 1024, /* 8-bit operands or results lose much of its accuracy: quotients,
                                   roots, exponentials, phases, long sums, normalizations */
    TMK_TRAIT_RECURRENT = 32768 /* operand 0 is a sequence, 5 its initial hidden state, 6 its
                                   initial cell state; result 0 has all hidden states, 1 the last, 2
                                   the last cell state */
};

struct tmk_traits {
    const char *domain, *op;
    enum tmk_op_class class;
    enum tmk_batch_rule batch;
    enum tmk_product product;
    uint32_t weights; /* bit i: input i, where it is a constant, is a weight */
    uint32_t bias;    /* the input that is added to the accumulator; 0: none */
    uint32_t numbers; /* bit i: a constant on input i is an operand like an activation; bit 31: so
                         are all from there on */
    unsigned flags;   /* enum tmk_trait */
};

/* The operator's row; "" and "ai.onnx" are one domain. For an operator without a row: one that
 * states nothing, whose name is "". */
const struct tmk_traits *tmk_traits_of(const char *domain, const char *op);
/* Every row, by name, then domain. */
const struct tmk_traits *tmk_traits_list(uint32_t *n);

static inline bool tmk_traits_are(const struct tmk_traits *traits, unsigned flags) {
    return (traits->flags & flags) != 0;
}
bool tmk_input_is_weight(const struct tmk_traits *traits, uint32_t input);
bool tmk_input_is_number(const struct tmk_traits *traits, uint32_t input);
/* A constant on the input may have codes: it is a weight, a bias or a number. */
bool tmk_input_has_codes(const struct tmk_traits *traits, uint32_t input);
/* Of a product: the input that its weights are on. */
uint32_t tmk_weight_input(const struct tmk_traits *traits);
