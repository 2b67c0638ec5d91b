/* SPDX-License-Identifier: Apache-2.0 */
/* What `calibrate` is asked for: by the command line, by a file. docs/calibrate.md describes the
 * file. */
#pragma once

#include <tidemark/encodings.h>

#include "base/arena.h"
#include "base/json.h"
#include "calib/method.h"
#include "calib/target.h"

/* Yes, no, or not said. */
enum tmk_tristate { TMK_UNSET, TMK_NO, TMK_YES };

enum { TMK_MOST_BLOCK = 65536 };

/* Settings of how values are quantized; what is not set stays as it is. */
struct tmk_quant_settings {
    enum tmk_tristate quantize, symmetric, channels, pow2;
    enum tmk_dtype dtype;            /* TMK_UNDEFINED: not said */
    const struct tmk_method *method; /* NULL: not said */
    double parameter;                /* of a method; 0: not said */
    uint32_t block;                  /* terms that share a scale; 0: not said; 1: no blocks */
    bool has_range;
    float low, high;
    uint32_t by; /* the rule that decides whether to quantize: its number + 1; 0: none */
};
/* What `over` says, in place of what *wish says. */
void tmk_quant_settings_override(struct tmk_quant_settings *settings,
                                 const struct tmk_quant_settings *over);
/* TMK_ARGUMENT for a method, scheme or type that there is not. */
enum tmk_status tmk_quant_settings_of_choice(const struct tmk_calibrate_choice *choice,
                                             struct tmk_quant_settings *out, struct tmk_diag *diag);

/* Values that a rule may be of. */
enum tmk_config_kind {
    TMK_CONFIG_ANY,
    TMK_CONFIG_ACTIVATION,
    TMK_CONFIG_WEIGHT,
    TMK_CONFIG_BIAS,
    TMK_CONFIG_INPUT, /* of the model */
    TMK_CONFIG_OUTPUT
};

struct tmk_config_rule {
    const char *op, *node;  /* of an operator: what it is called, a glob over names; NULL: any */
    const char **except_op; /* types that it is not; ends with NULL; NULL: any */
    const char *pattern;    /* that the operator belongs to; NULL: any */
    const char *name;       /* a glob over names of values; NULL: any */
    bool has_id;
    uint32_t id;
    enum tmk_config_kind kind;
    struct tmk_quant_settings settings;
};

/* Rules that are built in, and can be switched off or on. X(NAME, "name", on) */
#define TMK_BUILT_IN_LIST(X)                                                                       \
    X(AFTER_RELU, "activation-after-relu", true)                                                   \
    X(CONCAT, "concat-inputs-share", true)                                                         \
    X(DIRECT, "pass-through-shares", true)                                                         \
    X(ADDS, "residual-adds-share", false)                                                          \
    X(SOFTMAX, "softmax-output", true)                                                             \
    X(SIGMOID, "sigmoid-output", false)                                                            \
    X(BIAS_ADD, "bias-add", true)                                                                  \
    X(BIAS_FITS, "bias-fits", true)                                                                \
    X(MASKS, "masks-stay-float", true)                                                             \
    X(TARGET, "target-shares", true)
enum tmk_built_in {
#define TMK_BUILT_IN_ENUM(name, text, on) TMK_RULE_##name,
    TMK_BUILT_IN_LIST(TMK_BUILT_IN_ENUM)
#undef TMK_BUILT_IN_ENUM
        TMK_RULES
};
const char *tmk_built_in_name(enum tmk_built_in rule);

struct tmk_config {
    struct tmk_quant_settings defaults[3]; /* by enum tmk_encoding_role: `all`, then `own` */
    struct tmk_quant_settings all, own[3];
    struct tmk_config_rule *rules;
    uint32_t n_rules;
    bool skip_first, skip_last;
    enum tmk_tristate quantize_sensitive;
    enum tmk_dtype sensitive_dtype;  /* of 16 bits; TMK_UNDEFINED: as all others */
    const struct tmk_target *target; /* whose table the first n_base rules are; NULL: none */
    uint32_t n_base;
    bool built_in[TMK_RULES];
    struct tmk_arena arena;
};

/* As it is without a file. End with finish. */
void tmk_config_init(struct tmk_config *config);
/* Adds what a target's table says; before anything else. */
enum tmk_status tmk_config_add_target(struct tmk_config *config, const struct tmk_target *target,
                                      struct tmk_diag *diag);
/* Adds what a file says: its rules come behind those that are there, all else is in the place of
 * what was said before. TMK_FORMAT names the file and the entry. */
enum tmk_status tmk_config_add_file(struct tmk_config *config, const char *path,
                                    struct tmk_diag *diag);
/* The same of what such a file holds. The tree is only read during the call. */
enum tmk_status tmk_config_add(struct tmk_config *config, const cJSON *tree, struct tmk_diag *diag);
/* "float", "quantize", or a type of 16 bits; status `wrong` for other words. */
enum tmk_status tmk_config_set_sensitive(struct tmk_config *config, const char *text,
                                         enum tmk_status wrong, struct tmk_diag *diag);
void tmk_config_finish(struct tmk_config *config);

struct tmk_weight_ranges;
/* tmk_calibrate with a config that stands in no file (NULL: it does); options->config is but its
 * name. known: ranges of the weights of this model that former calls found, and where they are
 * kept; NULL: none are. */
enum tmk_status tmk_calibrate_by(const struct tmk_profile *profile,
                                 const struct tmk_calibrate_options *options, const cJSON *config,
                                 struct tmk_weight_ranges *known, struct tmk_encodings **out,
                                 struct tmk_diag *diag);
