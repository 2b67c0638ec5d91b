/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests and docs/relay-ops.md: prints the table of Relay's operators, a row a line, fields
 * between tabs:
 *
 *     name operands attributes becomes written
 *
 * `operands` is "2" or "1-2"; `attributes` are "name=default" with "; " between, "name" alone or
 * "name:type" where the call must give it, "any" where none is looked at, or "-".
 * `written` is the operator of ONNX that the row writes, or empty; the name is "-" where it is
 * written as several operators of Relay.
 */
#include <stdio.h>
#include <string.h>

#include "relay/lower.h"

static void print_attrs(const struct tmk_relay_op *op) {
    if (!op->attrs[0] || op->flags & TMK_RELAY_ALIAS)
        printf(op->flags & TMK_RELAY_ALIAS ? "any" : "-");
    for (const char *at = op->flags & TMK_RELAY_ALIAS ? "" : op->attrs; *at; at++)
        putchar(*at == '\'' ? '"' : *at);
}

int main(void) {
    for (size_t i = 0; tmk_relay_ops[i]; i++)
        for (const struct tmk_relay_op *op = tmk_relay_ops[i]; op->name; op++) {
            printf("%s\t%u", op->name[0] ? op->name : "-", op->min_in);
            if (op->max_in != op->min_in)
                printf("-%u", op->max_in);
            printf("\t");
            print_attrs(op);
            printf("\t%s\t%.*s\n", op->onnx, op->emit ? (int)strcspn(op->onnx, ",; ") : 0,
                   op->onnx);
        }
    return 0;
}
