/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings: how each value of a network is to be quantized, made from a profile.
 *
 * A struct tmk_encodings is plain data: one entry a value and use, and for every value that stays
 * float the reason. Make it with tmk_calibrate or tmk_encodings_read, end with
 * tmk_encodings_destroy. Strings are UTF-8, never NULL, and live as long as the encodings:
 * literals, or what tmk_encodings_text returned. docs/encodings-format.md describes the file.
 *
 * The arithmetic is ONNX's: code = clamp(rint(real / scale) + zero_point, lowest, highest), real =
 * scale * (code - zero_point), rint to nearest even, real / scale in float32.
 *
 * Thread-safety: one thread for encodings while they change, any number that only read. */
#ifndef TIDEMARK_ENCODINGS_H
#define TIDEMARK_ENCODINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidemark/profile.h>
#include <tidemark/rounding.h>
#include <tidemark/status.h>
#include <tidemark/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TMK_ENCODINGS_FORMAT "tidemark-encodings"
/* A file of the same major version always reads. */
enum { TMK_ENCODINGS_MAJOR = 1, TMK_ENCODINGS_MINOR = 0 };

/* What a value is to the arithmetic. X(name, text) */
#define TMK_ENCODING_ROLE_LIST(X)                                                                  \
    X(ACTIVATION, "activation")                                                                    \
    X(WEIGHT, "weight") /* an initializer that an operator multiplies by */                        \
    X(BIAS, "bias")     /* added to an accumulator: int32, scale = input's * weight's */

enum tmk_encoding_role {
#define TMK_ENCODING_ROLE_ENUM(name, text) TMK_ENCODING_##name,
    TMK_ENCODING_ROLE_LIST(TMK_ENCODING_ROLE_ENUM)
#undef TMK_ENCODING_ROLE_ENUM
};

/* The node input that reads a value, where only some of its consumers are meant. `node` is the
 * node's name, or, where it has none, the ID of its first output, such as "p12". */
struct tmk_encoding_use {
    const char *node, *op;
    uint32_t input;
};

/* How one value is quantized, for all its consumers or for some. */
struct tmk_encoding {
    uint32_t id; /* the profile ID: 12 is "p12" */
    uint64_t fingerprint;
    const char *name; /* the original name; may be "" */
    enum tmk_encoding_role role;
    enum tmk_dtype dtype; /* of the codes: int4 ... int32, uint4 ..., float8_... */
    bool symmetric;       /* zero_point is 0 (signed), or the middle (unsigned) */
    bool narrow;          /* the lowest code of a signed type is not used: -127 ... 127 */
    bool pow2;            /* every scale is a power of two */
    int32_t axis;         /* of the value, along which scales differ; -1: one for all */
    /* WEIGHT: so many indices of the axis share a scale, and each index of the other axes has its
     * own: the scales have the value's shape, with ceil(length / block) in place of that axis, in
     * row-major order, as ONNX's DequantizeLinear reads them. 0: one scale an index of the axis. */
    uint32_t block;
    uint32_t n;          /* 1, the length of that axis, or the number of blocks */
    float *scale;        /* [n], > 0 and finite */
    int32_t *zero_point; /* [n] */
    float *low,
        *high; /* [n]: the range that was chosen, before zero is included and the grid extends it */
    float *clip_min, *clip_max; /* [n]: the reals of the lowest and the highest code */
    float observed_min, observed_max;
    const char *method;  /* "mse"; "given" for what was not chosen from the histogram */
    const char *rule;    /* why it differs from the method's choice ("concat-inputs-share",
                            "softmax-output", "input-times-weight"); "" */
    uint32_t group;      /* values with the same number other than 0 share scale and zero point */
    uint32_t sources[2]; /* BIAS: IDs of the input and the weight */
    uint32_t n_sources;
    struct tmk_encoding_use *uses; /* NULL: for all of its consumers */
    uint32_t n_uses;

    /* The effect as predicted from the histogram; known = false without one. */
    struct {
        bool known;
        double mse; /* mean squared error, of the reals, within [mse_low, mse_high] */
        double mse_low, mse_high;
        double sqnr; /* decibels: 10 log10(mean square / mse); HUGE_VAL: no error */
        /* Share of the elements beyond the lowest and highest code by more than half a step, within
         * [clipped_low, clipped_high]. */
        double clipped, clipped_low, clipped_high;
        uint32_t codes;             /* a lower bound of codes of the type that are used */
        bool flat;                  /* other thresholds, 5 % off and more, are as good within 1 % */
        double flat_low, flat_high; /* between which largest magnitudes that holds */
        /* The requested thresholds (percentiles) are proven to lie in [low_from, low_to] and
         * [high_from, high_to]; low and high where they are these very numbers. */
        double low_from, low_to, high_from, high_to;
        double tying; /* mse over what it would be without the group; 1: costs nothing */
    } expected;
};

/* A value that stays float. */
struct tmk_left_float {
    uint32_t id;
    const char *name;
    const char *reason; /* "softmax is left float by the config", for people */
    /* For formats that need a range of every value; NaN: no finite number was seen. */
    float observed_min, observed_max;
};

/* A requantization that an engine of integers does: of a node's accumulator (operand -1; its scale
 * is the product of input's and weight's), or of its operand number `operand`, to the scale of
 * value `id`. */
struct tmk_requant {
    uint32_t id; /* of the value whose codes come out */
    const char *node, *op;
    int32_t operand;
    uint32_t n;          /* 1, or one a channel */
    double *real;        /* [n]: the multiplier, s_in [* s_weight] / s_out in double */
    int32_t *multiplier; /* [n]: q */
    int32_t *shift;      /* [n] */
    double error;        /* the largest difference from multiplying by `real`, in codes, over all
                            accumulators that do not saturate: proven */
};

/* A setting of calibrate, as the file has it. */
struct tmk_encodings_setting {
    const char *key, *value;
};

struct tmk_arena;

struct tmk_encodings {
    struct {
        uint32_t major, minor;
    } version;
    struct {
        const char *name, *version;
    } producer;
    struct {
        const char *file, *sha256, *format; /* of the model, as the profile has them */
        uint64_t fingerprint;
    } model;
    uint64_t samples; /* that the profile saw */
    enum tmk_rounding rounding;
    bool pow2_requant; /* all multipliers are powers of two: q is 2^30 */
    struct tmk_encodings_setting *settings;
    uint32_t n_settings;
    struct tmk_encoding *items; /* ascending by id; of one id those with uses first */
    uint32_t n_items;
    struct tmk_left_float *left; /* ascending by id; a value is here or above, never nowhere */
    uint32_t n_left;
    struct tmk_requant *requants; /* in the order of the values' IDs, then of operands */
    uint32_t n_requants;
    struct tmk_arena *arena; /* where everything lives; not for callers */
};

TMK_API const char *tmk_encoding_role_name(enum tmk_encoding_role role);

/* Empty, of this library's version. */
TMK_API enum tmk_status tmk_encodings_create(struct tmk_encodings **out, struct tmk_diag *diag);
/* Frees and sets *encodings to NULL; NULL is allowed. */
TMK_API void tmk_encodings_destroy(struct tmk_encodings **encodings);
/* A copy that lives as long as the encodings; NULL when memory ran out. */
TMK_API const char *tmk_encodings_text(struct tmk_encodings *encodings, const char *text);
/* `size` zeroed bytes that live as long as the encodings; NULL when memory ran out. */
TMK_API void *tmk_encodings_make(struct tmk_encodings *encodings, size_t count, size_t size);

/* Of a value at this consumer (node as in tmk_encoding_use, input), or, with node NULL, at most
 * consumers. NULL: it stays float. */
TMK_API const struct tmk_encoding *tmk_encodings_find(const struct tmk_encodings *encodings,
                                                      uint32_t id, const char *node,
                                                      uint32_t input);

/* Integer types: the codes that the grid uses. TMK_API so that exporters and tests agree. */
TMK_API void tmk_encoding_codes(const struct tmk_encoding *encoding, int32_t *lowest,
                                int32_t *highest);

/* Reads, and checks: numbers finite, scales positive, zero points on the grid, lists ascending.
 * TMK_FORMAT names the entry and the field. */
TMK_API enum tmk_status tmk_encodings_read(const char *path, struct tmk_encodings **out,
                                           struct tmk_diag *diag);
/* Writes JSON, whole or not at all. */
TMK_API enum tmk_status tmk_encodings_write(const struct tmk_encodings *encodings, const char *path,
                                            struct tmk_diag *diag);

/* ---- making them ---- */

/* Choices for a value, or for a kind of values. */
struct tmk_calibrate_choice {
    const char *method;   /* "mse"; NULL: the default; of weights also "l4" */
    double parameter;     /* of percentile: 99.99; 0: the method's default */
    enum tmk_dtype dtype; /* TMK_UNDEFINED: the default */
    const char *scheme;   /* "asymmetric", "symmetric"; NULL: the default */
    const char *scales;   /* "tensor": one for all; "channel"; NULL: the default */
    bool pow2;
    uint32_t block; /* weights of matrix products: a scale for each block of so many terms of a sum,
                       by mse unless a method is given; 0: the default, none */
};

struct tmk_target;

/* Zero-initialised is the default: int8 weights by channel, symmetric, by auto where `constant`
 * gives their numbers, else by minmax; uint8 activations, asymmetric, by auto; int32 biases;
 * single_half_up. */
struct tmk_calibrate_options {
    struct tmk_calibrate_choice activations, weights;
    enum tmk_rounding rounding;
    bool pow2_requant;
    const char *config; /* a file of choices by operator, name, ID and kind; NULL: none */
    /* What 8 bits ruin (tidemark/patterns.h), and operators that neither multiply by weights nor
     * move what these compute: "float", the default, "quantize", or "uint16" or "int16": in this
     * type where activations have 8 bits. NULL: as the config. */
    const char *sensitive;
    /* Its table holds under the config (tidemark/target.h). NULL: none. */
    const struct tmk_target *target;
    /* The numbers of constants, which the weights' methods auto, mse and l4 and scales by block
     * need; of float32, unchanged during the call; NULL: it is no such constant. tmk_model_constant
     * is such a function. NULL: none are known, and weights have their min and max. */
    const struct tmk_tensor *(*constant)(void *model, uint32_t id);
    /* The codes that the model has of a constant, which keeps them, but where they are not of the
     * target's kind: dtype, axis, block, n, scale and zero_point; unchanged during the call; NULL:
     * it has none. tmk_model_codes is such a function. NULL: none are known. */
    const struct tmk_encoding *(*codes)(void *model, uint32_t id);
    void *model; /* of both */
    /* Remarks, one line each: a rule of the config that matches nothing, a weight's scale that was
     * enlarged. May be NULL. */
    void (*remark)(void *context, const char *text);
    /* Asked before each value and each scale of a weight, by the thread that called: true ends it
     * with TMK_INTERRUPTED. May be NULL. */
    bool (*stop)(void *context);
    void *context; /* of both */
};

/* TMK_ARGUMENT: no such method or scheme, or a type that has no codes. TMK_FORMAT, with the entry:
 * the config. TMK_UNSUPPORTED: the profile has no histograms, and the method needs them.
 * TMK_MISMATCH: the target does not allow what the options or the config choose, or a constant is
 * not the one that was profiled. */
TMK_API enum tmk_status tmk_calibrate(const struct tmk_profile *profile,
                                      const struct tmk_calibrate_options *options,
                                      struct tmk_encodings **out, struct tmk_diag *diag);

/* Name and help of the i-th method; false behind the last. */
TMK_API bool tmk_calibrate_method(size_t i, const char **name, const char **help);

#ifdef __cplusplus
}
#endif
#endif
