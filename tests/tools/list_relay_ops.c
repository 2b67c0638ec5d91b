/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests and docs/relay-ops.md: prints the table of Relay's operators, a row a line, fields
 * between tabs:
 *
 *     name operands attributes becomes
 *
 * `operands` is "2" or "1-2"; `attributes` are "name=default" with "; " between, "name" alone where
 * the call must give it, "any" where none is looked at, or "-".
 */
#include <stdio.h>
#include <string.h>

#include "model/relay_lower.h"

static void print_attrs(const struct tmk_relay_rule *rule) {
    const char *before = "";
    if (!rule->name)
        printf("-");
    for (; rule->name; rule++) {
        const char *quote = rule->kind == TMK_RELAY_RULE_TEXT ? "\"" : "";
        printf("%s%s", before, rule->name);
        if (rule->otherwise && strcmp(rule->otherwise, "None") != 0)
            printf("=%s%s%s", quote, rule->otherwise, quote);
        else if (rule->otherwise)
            printf("=None");
        before = "; ";
    }
}

int main(void) {
    for (size_t i = 0; tmk_relay_ops[i]; i++)
        for (const struct tmk_relay_op *op = tmk_relay_ops[i]; op->name; op++) {
            printf("%s\t%u", op->name, op->min_in);
            if (op->max_in != op->min_in)
                printf("-%u", op->max_in);
            printf("\t");
            if (op->flags & TMK_RELAY_ALIAS)
                printf("any");
            else
                print_attrs(op->attrs);
            printf("\t%s\n", op->becomes);
        }
    return 0;
}
