/* SPDX-License-Identifier: Apache-2.0 */
#include "calib/op_names.h"

#include <string.h>

#include "base/size.h"

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
static const char *plain_word(const char *word, char out[64]) {
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
    plain_word(word, a);
    *only = TMK_OP_ALL;
    if (strcmp(a, plain_word(op, b)) == 0)
        return true;
    for (size_t i = 0; i < TMK_COUNT(aliases); i++)
        if (strcmp(aliases[i].word, a) == 0 && strcmp(aliases[i].op, op) == 0) {
            *only = aliases[i].only;
            return true;
        }
    return false;
}
