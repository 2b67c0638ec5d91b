/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/opclass.h"

#include <string.h>
#include <strings.h>

#include "base/size.h"

#define ALL_INPUTS UINT32_MAX

static const struct tmk_op_row rows[] = {
    /* op, class, weights, bias, numbers */
    {"Conv", TMK_OP_MACC, 1 << 1, 2, 1 << 0},
    {"ConvTranspose", TMK_OP_MACC, 1 << 1, 2, 1 << 0},
    {"Gemm", TMK_OP_MACC, 3, 2, 0},
    {"MatMul", TMK_OP_MACC, 3, -1, 0},
    {"FusedConv", TMK_OP_MACC, 1 << 1, 2, 1 << 0},
    {"FusedGemm", TMK_OP_MACC, 3, 2, 0},
    {"FusedMatMul", TMK_OP_MACC, 3, -1, 0},
    {"LSTM", TMK_OP_OTHER, 6, -1, 0},
    {"GRU", TMK_OP_OTHER, 6, -1, 0},
    {"RNN", TMK_OP_OTHER, 6, -1, 0},
    {"Attention", TMK_OP_OTHER, 1 << 1, -1, 0},
    {"PRelu", TMK_OP_OTHER, 1 << 1, -1, 0},
    {"BatchNormalization", TMK_OP_NORM, 1 << 1, 2, 0},
    {"InstanceNormalization", TMK_OP_NORM, 1 << 1, 2, 0},
    {"LayerNormalization", TMK_OP_NORM, 1 << 1, 2, 0},
    {"GroupNormalization", TMK_OP_NORM, 1 << 1, 2, 0},
    {"Reshape", TMK_OP_DIRECT, 0, -1, 1},
    {"Transpose", TMK_OP_DIRECT, 0, -1, 1},
    {"Squeeze", TMK_OP_DIRECT, 0, -1, 1},
    {"Unsqueeze", TMK_OP_DIRECT, 0, -1, 1},
    {"Flatten", TMK_OP_DIRECT, 0, -1, 1},
    {"Identity", TMK_OP_DIRECT, 0, -1, 1},
    {"Dropout", TMK_OP_DIRECT, 0, -1, 1},
    {"Slice", TMK_OP_DIRECT, 0, -1, 1},
    {"Split", TMK_OP_DIRECT, 0, -1, 1},
    {"Gather", TMK_OP_DIRECT, 0, -1, 1},
    {"GatherElements", TMK_OP_DIRECT, 0, -1, 1},
    {"GatherND", TMK_OP_DIRECT, 0, -1, 1},
    {"TopK", TMK_OP_DIRECT, 0, -1, 1},
    {"Expand", TMK_OP_DIRECT, 0, -1, 1},
    {"Tile", TMK_OP_DIRECT, 0, -1, 1},
    {"DepthToSpace", TMK_OP_DIRECT, 0, -1, 1},
    {"SpaceToDepth", TMK_OP_DIRECT, 0, -1, 1},
    {"MaxPool", TMK_OP_DIRECT, 0, -1, 1},
    {"GlobalMaxPool", TMK_OP_DIRECT, 0, -1, 1},
    {"AveragePool", TMK_OP_DIRECT, 0, -1, 1},
    {"Resize", TMK_OP_DIRECT, 0, -1, 1},
    {"Upsample", TMK_OP_DIRECT, 0, -1, 1},
    {"Concat", TMK_OP_CONCAT, 0, -1, ALL_INPUTS},
    {"Relu", TMK_OP_CLAMP, 0, -1, 0},
    {"Clip", TMK_OP_CLAMP, 0, -1, 0},
    {"Add", TMK_OP_SUM, 0, -1, ALL_INPUTS},
    {"Sub", TMK_OP_SUM, 0, -1, ALL_INPUTS},
    {"Sum", TMK_OP_SUM, 0, -1, ALL_INPUTS},
    {"Max", TMK_OP_SUM, 0, -1, ALL_INPUTS},
    {"Min", TMK_OP_SUM, 0, -1, ALL_INPUTS},
    {"Where", TMK_OP_SUM, 0, -1, 6},
    {"Mul", TMK_OP_PRODUCT, 0, -1, 3},
    {"Div", TMK_OP_OTHER, 0, -1, 3},
    {"Pow", TMK_OP_OTHER, 0, -1, 3},
    {"GlobalAveragePool", TMK_OP_RESCALE, 0, -1, 0},
    {"ReduceMean", TMK_OP_RESCALE, 0, -1, 0},
    {"ReduceMax", TMK_OP_RESCALE, 0, -1, 0},
    {"ReduceMin", TMK_OP_RESCALE, 0, -1, 0},
    {"LeakyRelu", TMK_OP_RESCALE, 0, -1, 0},
    {"Pad", TMK_OP_RESCALE, 0, -1, 1},
    {"Softmax", TMK_OP_UNIT_RANGE, 0, -1, 0},
    {"Sigmoid", TMK_OP_UNIT_RANGE, 0, -1, 0},
    {"HardSigmoid", TMK_OP_UNIT_RANGE, 0, -1, 0},
};

const struct tmk_op_row *tmk_op_class_of(const char *domain, const char *op) {
    static const struct tmk_op_row other = {"", TMK_OP_OTHER, 0, -1, 0};
    bool known = !*domain || strcmp(domain, "ai.onnx") == 0 || strcmp(domain, "com.microsoft") == 0;
    for (size_t i = 0; known && i < TMK_COUNT(rows); i++)
        if (strcmp(rows[i].op, op) == 0)
            return &rows[i];
    return &other;
}

bool tmk_op_is_weight(const struct tmk_op_row *row, uint32_t input) {
    return input < 32 && (row->weights >> input & 1);
}

bool tmk_op_is_number(const struct tmk_op_row *row, uint32_t input) {
    return row->numbers >> (input < 31 ? input : 31) & 1;
}

/* Relay's and Keras' names, where they differ from ONNX's by more than capitals and '_'. */
static const struct {
    const char *word, *op;
    enum tmk_op_only only;
} aliases[] = {
    {"dense", "Gemm", TMK_OP_ONLY_DENSE},
    {"dense", "MatMul", TMK_OP_ONLY_DENSE},
    {"linear", "Gemm", TMK_OP_ONLY_DENSE},
    {"linear", "MatMul", TMK_OP_ONLY_DENSE},
    {"batchmatmul", "MatMul", TMK_OP_ALL},
    {"biasadd", "Add", TMK_OP_ONLY_BIAS},
    {"subtract", "Sub", TMK_OP_ALL},
    {"multiply", "Mul", TMK_OP_ALL},
    {"divide", "Div", TMK_OP_ALL},
    {"power", "Pow", TMK_OP_ALL},
    {"maximum", "Max", TMK_OP_ALL},
    {"minimum", "Min", TMK_OP_ALL},
    {"conv1d", "Conv", TMK_OP_ALL},
    {"conv2d", "Conv", TMK_OP_ALL},
    {"conv3d", "Conv", TMK_OP_ALL},
    {"depthwiseconv2d", "Conv", TMK_OP_ALL},
    {"conv1dtranspose", "ConvTranspose", TMK_OP_ALL},
    {"conv2dtranspose", "ConvTranspose", TMK_OP_ALL},
    {"conv3dtranspose", "ConvTranspose", TMK_OP_ALL},
    {"maxpool1d", "MaxPool", TMK_OP_ALL},
    {"maxpool2d", "MaxPool", TMK_OP_ALL},
    {"maxpooling1d", "MaxPool", TMK_OP_ALL},
    {"maxpooling2d", "MaxPool", TMK_OP_ALL},
    {"avgpool1d", "AveragePool", TMK_OP_ALL},
    {"avgpool2d", "AveragePool", TMK_OP_ALL},
    {"averagepooling1d", "AveragePool", TMK_OP_ALL},
    {"averagepooling2d", "AveragePool", TMK_OP_ALL},
    {"globalavgpool2d", "GlobalAveragePool", TMK_OP_ALL},
    {"globalaveragepooling2d", "GlobalAveragePool", TMK_OP_ALL},
    {"globalmaxpool2d", "GlobalMaxPool", TMK_OP_ALL},
    {"globalmaxpooling2d", "GlobalMaxPool", TMK_OP_ALL},
    {"batchnorm", "BatchNormalization", TMK_OP_ALL},
    {"layernorm", "LayerNormalization", TMK_OP_ALL},
    {"instancenorm", "InstanceNormalization", TMK_OP_ALL},
    {"groupnorm", "GroupNormalization", TMK_OP_ALL},
    {"batchflatten", "Flatten", TMK_OP_ALL},
    {"concatenate", "Concat", TMK_OP_ALL},
    {"expanddims", "Unsqueeze", TMK_OP_ALL},
    {"stridedslice", "Slice", TMK_OP_ALL},
    {"take", "Gather", TMK_OP_ALL},
    {"embedding", "Gather", TMK_OP_ALL},
    {"permute", "Transpose", TMK_OP_ALL},
    {"broadcastto", "Expand", TMK_OP_ALL},
    {"upsampling", "Resize", TMK_OP_ALL},
    {"upsampling2d", "Resize", TMK_OP_ALL},
    {"resize2d", "Resize", TMK_OP_ALL},
    {"zeropadding2d", "Pad", TMK_OP_ALL},
    {"mean", "ReduceMean", TMK_OP_ALL},
    {"sum", "ReduceSum", TMK_OP_ALL},
};

/* Without "nn.", "image.", '_' and capitals; cut to fit. */
static const char *plain(const char *word, char out[64]) {
    size_t n = 0;
    if (strncmp(word, "nn.", 3) == 0)
        word += 3;
    else if (strncmp(word, "image.", 6) == 0)
        word += 6;
    for (; *word && n < 63; word++)
        if (*word != '_')
            out[n++] = (char)(*word >= 'A' && *word <= 'Z' ? *word - 'A' + 'a' : *word);
    out[n] = '\0';
    return out;
}

bool tmk_op_is_called(const char *op, const char *word, enum tmk_op_only *only) {
    char a[64], b[64];
    plain(word, a);
    *only = TMK_OP_ALL;
    if (strcmp(a, plain(op, b)) == 0)
        return true;
    for (size_t i = 0; i < TMK_COUNT(aliases); i++)
        if (strcmp(aliases[i].word, a) == 0 && strcmp(aliases[i].op, op) == 0) {
            *only = aliases[i].only;
            return true;
        }
    return false;
}
