/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the tables of fields, for the test of the schemas: a line each of the schema's file, the
 * place in it, the field's path from there, whether it must be there and may be left out, and the
 * names of an enum, with commas. */
#include <stdio.h>

#include "base/size.h"
#include "calib/encodings.h"
#include "profile/format.h"
#include "profile/lineage_format.h"

static void print_names(const struct tmk_field *f) {
    const struct tmk_field_names *names = f->of;
    if (f->type == TMK_FIELD_DTYPE)
        for (int i = 0; i < TMK_N_DTYPES; i++)
            printf("%s,", tmk_dtype_name((enum tmk_dtype)i));
    for (uint32_t i = 0; f->type == TMK_FIELD_NAME && i < names->n; i++)
        printf("%s,", names->names[i]);
    puts("");
}

static void print_fields(const char *file, const char *place, const char *path,
                         const struct tmk_fields *fields) {
    for (size_t i = 0; i < fields->n; i++) {
        const struct tmk_field *f = &fields->field[i];
        char below[256];
        if (!f->key)
            continue;
        snprintf(below, sizeof below, "%s/%s", path, f->key);
        printf("%s %s %s %s %s ", file, place, below,
               f->flags & TMK_FIELD_OPTIONAL ? "optional" : "required",
               f->flags & TMK_FIELD_OMIT || (f->absent && !(f->flags & TMK_FIELD_NULL)) ? "omitted"
                                                                                        : "always");
        print_names(f);
        if (f->type != TMK_FIELD_OBJECT && f->type != TMK_FIELD_LIST)
            continue;
        const struct tmk_fields *inner = f->of;
        if (inner->before)
            print_fields(file, place, below, inner->before);
        print_fields(file, place, below, inner);
    }
}

int main(void) {
    const struct {
        const char *file, *place;
        const struct tmk_fields *fields;
    } all[] = {
        {"profile", "#", &tmk_profile_header_fields},
        {"profile", "#/$defs/tensor", &tmk_profile_value_fields},
        {"profile", "#/$defs/floats", &tmk_profile_float_fields},
        {"profile", "#/$defs/integers", &tmk_profile_integer_columns},
        {"lineage", "#", &tmk_lineage_fields},
        {"encodings", "#", &tmk_encodings_fields},
    };
    for (size_t i = 0; i < TMK_COUNT(all); i++)
        print_fields(all[i].file, all[i].place, "", all[i].fields);
    return 0;
}
