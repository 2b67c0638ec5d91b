/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/hdf5_parts.h"

#define RECORD tmk_h5_consumer
static const struct tmk_field reader_table[] = {
    TMK_COLUMN_ONLY("tensor_id", U32, tensor_id, "", "the value that is read"),
};
#undef RECORD
static const struct tmk_fields reader_fields = TMK_FIELDS(reader_table, );

const struct tmk_h5_table tmk_h5_tensors = {{{&tmk_profile_float_fields, 0}},
                                            sizeof(struct tmk_profile_row)},
                          tmk_h5_integers = {{{&tmk_profile_integer_columns, 0}},
                                             sizeof(struct tmk_profile_row)},
                          tmk_h5_consumers = {{{&reader_fields, 0},
                                               {&tmk_profile_consumer_fields,
                                                offsetof(struct tmk_h5_consumer, consumer)}},
                                              sizeof(struct tmk_h5_consumer)};

const struct tmk_h5_flat
    tmk_h5_ids = {"tensor", TMK_H5_U32, "", "profile IDs: the dimension of /tensors", false},
    tmk_h5_histograms[] =
        {
            {"bins", TMK_H5_U16, "", "upper 16 bits of the float32: position in /bin_edges", false},
            {"counts", TMK_H5_U64, "elements", "elements in the bin", false},
            {"low", TMK_H5_U64, "", "sum of the mantissa bits that the bin drops", false},
            {"squares", TMK_H5_U64, "", "sum of their squares, of values with squares_kept; else 0",
             true},
},
    tmk_h5_channels[] =
        {
            {"min", TMK_H5_F32, "1", "least finite element of the channel; NaN: there is none",
             false},
            {"max", TMK_H5_F32, "1", "greatest finite element of the channel; NaN: there is none",
             false},
},
    tmk_h5_topk[] =
        {
            {"tensor", TMK_H5_U32, "", "profile ID; its rows begin with the furthest sample",
             false},
            {"min", TMK_H5_F32, "1", "least finite element of a sample", false},
            {"min_sample", TMK_H5_U64, "", "the sample that has it", false},
            {"max", TMK_H5_F32, "1", "greatest finite element of a sample", false},
            {"max_sample", TMK_H5_U64, "", "the sample that has it", false},
},
    tmk_h5_operands[] =
        {
            {"tensor", TMK_H5_U32, "", "profile ID of a value", false},
            {"operand", TMK_H5_U32, "", "profile ID of a value that it is computed from", false},
},
    tmk_h5_nonfinite[] = {
        {"tensor", TMK_H5_U32, "", "profile ID of a value that was not always finite", false},
        {"from", TMK_H5_I64, "", "profile ID of the value it has that from; -1: it began", false},
};
