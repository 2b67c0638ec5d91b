/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests and docs/ops.md: prints the operator table, a row a line, fields between tabs:
 *
 *     domain name since until inputs outputs flags channels inner attributes
 *
 * `until` is "-" for rows that still hold; counts are "2" or "1-3" or "1-" (no limit); flags are
 * words between commas, or "-". The domain of ONNX is "ai.onnx".
 */
#include <stdio.h>

#include "tools/op_rows.h"

static void print_count(int32_t least, int32_t most) {
    if (least == most)
        printf("\t%d", (int)least);
    else if (most == TMK_VARIADIC)
        printf("\t%d-", (int)least);
    else
        printf("\t%d-%d", (int)least, (int)most);
}

enum {
    SHAPE_ONLY = 1 << 30, /* a trait of the operator, not a flag of the row */
    PURE = 1 << 29        /* not TMK_OP_IMPURE */
};

static void print_flags(const struct tmk_op *op) {
    static const struct {
        unsigned flag;
        const char *name;
    } names[] = {{PURE, "pure"},
                 {TMK_OP_VIEW, "view"},
                 {TMK_OP_INPLACE, "inplace"},
                 {SHAPE_ONLY, "shape-only"},
                 {TMK_OP_SIZES_ITSELF, "sizes-itself"},
                 {TMK_OP_TAKES_ANY, "takes-any"},
                 {TMK_OP_MAKES_SEQUENCES, "makes-sequences"}};
    const char *before = "\t";
    unsigned flags = op->flags & TMK_OP_IMPURE ? op->flags - TMK_OP_IMPURE : op->flags | PURE;
    if (tmk_traits_are(tmk_traits_of(op->domain, op->name), TMK_TRAIT_SHAPE_ONLY))
        flags |= SHAPE_ONLY;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (flags & names[i].flag) {
            printf("%s%s", before, names[i].name);
            before = ",";
        }
    if (*before == '\t') /* none has a word */
        printf("\t-");
}

int main(void) {
    static const char *const channels[] = {[TMK_CHANNEL_NONE] = "none",
                                           [TMK_CHANNEL_AXIS1] = "axis-1",
                                           [TMK_CHANNEL_LAST] = "last",
                                           [TMK_CHANNEL_INHERIT] = "inherit"};
    for (const struct tmk_op *const *row = op_rows(); *row; row++) {
        const struct tmk_op *op = *row;
        printf("%s\t%s\t%d", *op->domain ? op->domain : "ai.onnx", op->name, (int)op->since);
        if (op->until == INT32_MAX)
            printf("\t-");
        else
            printf("\t%d", (int)op->until);
        print_count(op->min_in, op->max_in);
        print_count(op->min_out, op->max_out);
        print_flags(op);
        printf("\t%s\t%s\t%s\n", channels[op->channel], op->inner ? op->inner : "-",
               op->attrs ? op->attrs : "-");
    }
    return 0;
}
