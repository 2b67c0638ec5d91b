/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests: reads a model and writes it again, or prints a tensor file.
 *
 *     roundtrip IN.onnx OUT.onnx [LIMIT]     LIMIT: bytes of weights from which on they go to
 *                                            OUT.onnx.data
 *     roundtrip IN.pb
 *     roundtrip <PAIRS                       a line each, IN and OUT with a tab between; prints a
 *                                            line for each, which is empty or says what is wrong
 *
 * Exit status 1 and one line on stderr when the file is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/onnx.h"

static enum tmk_status copy_model(const char *from, const char *to, const char *limit,
                                  struct tmk_diag *diag) {
    struct tmk_graph *graph = NULL;
    struct tmk_onnx_options options = {.keep_unknown = true};
    enum tmk_status status = tmk_onnx_load(from, &options, &graph, diag);
    if (status == TMK_OK)
        status = limit ? tmk_onnx_save_split(graph, to, strtoul(limit, NULL, 10), diag)
                       : tmk_onnx_save(graph, to, diag);
    tmk_graph_destroy(&graph);
    return status;
}

static enum tmk_status print_tensor(const char *path, struct tmk_diag *diag) {
    struct tmk_tensor tensor = {0};
    char *name = NULL, shape[256];
    enum tmk_status status = tmk_onnx_load_tensor(path, &tensor, &name, diag);
    if (status == TMK_OK) {
        printf("%s %s %s %s", name ? name : "-", tmk_dtype_name(tensor.origin),
               tmk_dtype_name(tensor.dtype), tmk_shape_text(&tensor.shape, shape, sizeof shape));
        for (size_t i = 0; tensor.dtype == TMK_FLOAT32 && i < tmk_tensor_count(&tensor); i++)
            printf(" %a", (double)((const float *)tensor.data)[i]);
        printf("\n");
    }
    tmk_tensor_finish(&tensor);
    free(name);
    return status;
}

static int copy_models(void) {
    char *line = NULL;
    size_t size = 0;
    for (ssize_t length; (length = getline(&line, &size, stdin)) > 0;) {
        char *to = line;
        const char *from = strsep(&to, "\t");
        struct tmk_diag diag = {0};
        line[length - 1] = '\0';
        puts(to && copy_model(from, to, NULL, &diag) == TMK_OK ? "" : diag.text);
        fflush(stdout);
    }
    free(line);
    return 0;
}

int main(int argc, char **argv) {
    struct tmk_diag diag = {0};
    if (argc > 4)
        return 2;
    if (argc == 1)
        return copy_models();
    enum tmk_status status =
        argc == 2 ? print_tensor(argv[1], &diag) : copy_model(argv[1], argv[2], argv[3], &diag);
    if (status != TMK_OK)
        fprintf(stderr, "%s\n", diag.text);
    return status == TMK_OK ? 0 : 1;
}
