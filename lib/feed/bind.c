/* SPDX-License-Identifier: Apache-2.0 */
/* Which source feeds which input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tidemark/guess.h>

#include "base/diag.h"
#include "data/image_spec.h"
#include "data/role.h"
#include "feed/internal.h"
#include "model/onnx.h"
#include "tensor/list.h"
#include "tensor/shape.h"

/* INPUT=PATH, where INPUT is an input of the graph; a path may hold '=' itself. */
static int32_t split_binding(const struct tmk_graph *graph, const char *text, const char **path) {
    *path = text;
    for (const char *eq = strchr(text, '='); eq; eq = strchr(eq + 1, '=')) {
        int32_t input = tmk_graph_input_named(graph, text, (size_t)(eq - text));
        if (input >= 0) {
            *path = eq + 1;
            return input;
        }
    }
    return -1;
}

/* Adds to a message which inputs there are, and where the weights of a Relay module (which has no
 * version of ONNX) come from. */
static enum tmk_status with_inputs(const struct tmk_graph *graph, enum tmk_status status,
                                   struct tmk_diag *diag) {
    enum { MAX_REPORTED = 6 };
    if (!diag)
        return status;
    for (uint32_t i = 0; i < graph->n_inputs && i < MAX_REPORTED; i++) {
        const size_t used = strlen(diag->text);
        const struct tmk_type *type = &graph->inputs[i]->type;
        snprintf(diag->text + used, sizeof diag->text - used, "%s'%.80s' %s%.80s",
                 i ? ", " : "; the inputs are ", graph->inputs[i]->name,
                 tmk_dtype_name(type->dtype), type->has_shape ? TMK_SHAPE_TEXT(&type->shape) : "");
    }
    const size_t used = strlen(diag->text);
    snprintf(diag->text + used, sizeof diag->text - used, "%s%s",
             graph->n_inputs > MAX_REPORTED ? " and others" : "",
             graph->n_inputs > 1 && !graph->ir_version
                 ? "; the weights of a Relay module go with --params"
                 : "");
    return status;
}

static enum tmk_status bind_array(struct tmk_feed *feed, uint32_t input, uint32_t source,
                                  uint32_t array, struct tmk_diag *diag) {
    if (feed->bound[input].taken)
        return tmk_fail(diag, TMK_ARGUMENT,
                        "input '%s' has two sources: %s and %s; many images are one as a folder, "
                        "or as a .txt that lists them",
                        feed->graph->inputs[input]->name, feed_path(feed, &feed->bound[input]),
                        tmk_source_info(feed->sources[source])->path);
    feed->bound[input].source = source;
    feed->bound[input].array = array;
    feed->bound[input].taken = true;
    if (feed->bound[input].empty) /* but is read all the same */
        feed->bound[input].empty = feed->bound[input].fed_back = false;
    return TMK_OK;
}

static enum tmk_status bind_to(struct tmk_feed *feed, uint32_t input, uint32_t source,
                               struct tmk_diag *diag) {
    const struct tmk_source_info *info = tmk_source_info(feed->sources[source]);
    const char *name = feed->graph->inputs[input]->name;
    for (uint32_t a = 0; a < info->n_arrays; a++)
        if (info->n_arrays == 1 || strcmp(info->arrays[a].name, name) == 0)
            return bind_array(feed, input, source, a, diag);
    struct tmk_guess guess = {.wanted = name};
    char meant[TMK_GUESS_SIZE];
    for (uint32_t a = 0; a < info->n_arrays; a++)
        tmk_guess_try(&guess, info->arrays[a].name);
    return tmk_fail(diag, TMK_ARGUMENT, "%s: holds %u arrays, none of them named '%s'%s",
                    info->path, info->n_arrays, name, tmk_guess_text(&guess, meant));
}

/* The one input that has nothing yet, or -1 when there are none or several. The model's only input
 * takes data even where it is empty. */
static int32_t only_input_left(const struct tmk_feed *feed) {
    int32_t left = -1;
    if (feed->graph->n_inputs == 1)
        return feed->bound[0].taken ? -1 : 0;
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++)
        if (!feed->bound[i].taken && !feed->bound[i].fed_back) {
            if (left >= 0)
                return -1;
            left = (int32_t)i;
        }
    return left;
}

/* Sets whose tensors don't all carry inputs' names go by position. */
static bool by_position(const struct tmk_graph *graph, const struct tmk_source_info *info) {
    if (!info->n_arrays || !info->arrays[0].whole || info->n_arrays > graph->n_inputs)
        return false;
    for (uint32_t a = 0; a < info->n_arrays; a++)
        if (tmk_graph_input_named(graph, info->arrays[a].name, strlen(info->arrays[a].name)) < 0)
            return true;
    return false;
}

static enum tmk_status bind_by_name(struct tmk_feed *feed, uint32_t source, struct tmk_diag *diag) {
    const struct tmk_source_info *info = tmk_source_info(feed->sources[source]);
    bool position = by_position(feed->graph, info), any = false;
    for (uint32_t a = 0; a < info->n_arrays; a++) {
        const char *name = info->arrays[a].name;
        int32_t input =
            position ? (int32_t)a : tmk_graph_input_named(feed->graph, name, strlen(name));
        if (input < 0)
            continue;
        TMK_TRY(bind_array(feed, (uint32_t)input, source, a, diag));
        any = true;
    }
    int32_t left = only_input_left(feed);
    if (any)
        return TMK_OK;
    if (info->n_arrays == 1 && (left >= 0 || feed->graph->n_inputs == 1))
        return bind_array(feed, left >= 0 ? (uint32_t)left : 0, source, 0, diag);
    return with_inputs(feed->graph,
                       tmk_fail(diag, TMK_ARGUMENT,
                                "%s: it is not clear which input it is for; say INPUT=%s",
                                info->path, info->path),
                       diag);
}

static enum tmk_status open_sources(struct tmk_feed *feed, struct tmk_diag *diag) {
    const struct tmk_data_options *data = feed->data;
    struct tmk_image_spec image;
    const struct tmk_source_options how = {
        .decode = tmk_onnx_load_tensor, .image = &image, .pull = data->pull};
    bool streams = false;
    TMK_TRY(tmk_image_spec_parse(data->image, &image, diag));
    for (size_t d = 0; d < data->n_sources; d++) {
        const char *path;
        int32_t input = split_binding(feed->graph, data->sources[d], &path);
        const char *equals = strchr(path, '=');
        if (input < 0 && equals && equals > path && access(path, F_OK) != 0 &&
            (strcmp(equals + 1, "-") == 0 || access(equals + 1, F_OK) == 0)) {
            /* INPUT=PATH whose INPUT is none, where there is no file of this name. */
            char name[128], meant[TMK_GUESS_SIZE];
            struct tmk_guess guess = {.wanted = name};
            snprintf(name, sizeof name, "%.*s", (int)(equals - path), path);
            for (uint32_t i = 0; i < feed->graph->n_inputs; i++)
                tmk_guess_try(&guess, feed->graph->inputs[i]->name);
            return with_inputs(feed->graph,
                               tmk_fail(diag, TMK_ARGUMENT,
                                        "--data %s: the model has no input '%s'%s", path, name,
                                        tmk_guess_text(&guess, meant)),
                               diag);
        }
        bool stream = strcmp(path, "-") == 0;
        if (stream && input >= 0 && feed->bound[input].fed_back)
            return tmk_fail(diag, TMK_ARGUMENT,
                            "'%s' is fed back; its first state is read from a file, not from "
                            "standard input",
                            feed->graph->inputs[input]->name);
        if (stream && streams)
            return tmk_fail(diag, TMK_ARGUMENT,
                            "standard input is named twice; a single - feeds all inputs that have "
                            "no other data, a record each in turn");
        streams |= stream;
        TMK_TRY(tmk_source_open(path, &how, &feed->sources[d], diag));
        feed->n_sources++;
    }
    return TMK_OK;
}

struct tmk_source_input tmk_feed_want(const struct tmk_feed *feed, uint32_t input) {
    const struct tmk_value *value = feed->graph->inputs[input];
    const struct tmk_type *type = &value->type;
    struct tmk_source_input want = {value->name, type->dtype, type->has_shape, type->shape};
    for (int32_t k = 0; type->has_shape && k < type->shape.rank; k++) {
        const int64_t *given = tmk_feed_dim(feed->data, type->symbol[k]);
        if (type->shape.dim[k] < 0 && given)
            want.shape.dim[k] = *given;
    }
    return want;
}

static bool is_free(const struct tmk_feed *feed, uint32_t input) {
    return !feed->bound[input].taken && !feed->bound[input].fed_back;
}

static enum tmk_role role_wanted(const struct tmk_feed *feed, uint32_t input) {
    const struct tmk_source_input want = tmk_feed_want(feed, input);
    return tmk_role_of(&want, false);
}

static bool is_prompt(enum tmk_role role) {
    return role == TMK_ROLE_TOKENS || role == TMK_ROLE_EMBEDDINGS;
}

/* Is the input made of tokens, or of their embeddings? */
static bool is_made(enum tmk_role role) {
    return role != TMK_ROLE_NONE && !is_prompt(role);
}

/* Such a source feeds the input that it was given for, or all that no other source feeds. An input
 * that prompts were given for is bound already. */
static enum tmk_status bind_source(struct tmk_feed *feed, uint32_t source, int32_t input,
                                   struct tmk_diag *diag) {
    const bool prompts = input >= 0 && tmk_source_info(feed->sources[source])->prompts,
               fills = prompts && is_prompt(role_wanted(feed, (uint32_t)input));
    uint32_t n = 0;
    struct tmk_source_input *wants = calloc(feed->graph->n_inputs + 1u, sizeof *wants);
    enum tmk_status status = wants ? TMK_OK : tmk_nomem(diag);
    if (status == TMK_OK && prompts)
        wants[n++] = tmk_feed_want(feed, (uint32_t)input);
    for (uint32_t i = 0; status == TMK_OK && i < feed->graph->n_inputs; i++)
        if (prompts      ? fills && is_free(feed, i) && is_made(role_wanted(feed, i))
            : input >= 0 ? i == (uint32_t)input
                         : is_free(feed, i)) {
            wants[n] = tmk_feed_want(feed, i);
            status = bind_array(feed, i, source, n++, diag);
        }
    if (status == TMK_OK && !n)
        status = tmk_fail(diag, TMK_ARGUMENT, "%s: every input has data already",
                          tmk_source_info(feed->sources[source])->path);
    TMK_THEN(status, tmk_source_bind(feed->sources[source], wants, n, diag));
    free(wants);
    return status;
}

/* Bindings by name first, since they leave fewer inputs; what takes all that is left, last. */
enum { TURN_NAMED, TURN_UNNAMED, TURN_REST, N_TURNS };

enum tmk_status tmk_feed_takes(const struct tmk_graph *graph, struct tmk_diag *diag) {
    for (uint32_t i = 0; i < graph->n_inputs; i++) {
        enum tmk_type_kind kind = graph->inputs[i]->type.kind;
        if (kind != TMK_TYPE_TENSOR && kind != TMK_TYPE_OPTIONAL)
            return tmk_fail(diag, TMK_UNSUPPORTED, "input '%s' is %s; data are arrays only",
                            graph->inputs[i]->name, tmk_type_kind_text(kind));
    }
    return TMK_OK;
}

enum tmk_status tmk_feed_bind(struct tmk_feed *feed, struct tmk_diag *diag) {
    const struct tmk_data_options *data = feed->data;
    feed->sources = calloc(data->n_sources + 1, sizeof(struct tmk_source *));
    TMK_TRY_ALLOC(feed->sources, diag);
    bool counted = feed->graph->n_inputs == 0;
    /* A tensor without elements has one value, so no data is needed for it. */
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++) {
        const struct tmk_source_input want = tmk_feed_want(feed, i);
        if (feed->graph->inputs[i]->type.kind != TMK_TYPE_TENSOR)
            continue;
        for (int32_t k = 0; want.has_shape && k < want.shape.rank && !feed->bound[i].fed_back; k++)
            if (want.shape.dim[k] == 0)
                feed->bound[i].empty = feed->bound[i].fed_back = true;
    }
    TMK_TRY(open_sources(feed, diag));
    for (int turn = 0; turn < N_TURNS; turn++) {
        for (uint32_t d = 0; d < feed->n_sources; d++) {
            const char *path;
            int32_t input = split_binding(feed->graph, feed->data->sources[d], &path);
            const struct tmk_source_info *info = tmk_source_info(feed->sources[d]);
            const bool prompts = input >= 0 && info->prompts;
            if (prompts && turn == TURN_NAMED)
                TMK_TRY(bind_array(feed, (uint32_t)input, d, 0, diag));
            if (turn != (input >= 0 && !prompts ? TURN_NAMED
                         : info->binds          ? TURN_REST
                                                : TURN_UNNAMED))
                continue;
            if (info->binds)
                TMK_TRY(bind_source(feed, d, input, diag));
            else if (input >= 0)
                TMK_TRY(bind_to(feed, (uint32_t)input, d, diag));
            else
                TMK_TRY(bind_by_name(feed, d, diag));
        }
    }
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++)
        counted |= !feed->bound[i].fed_back;
    if (!counted)
        return tmk_fail(
            diag, TMK_ARGUMENT,
            "every input is empty or fed back, so that no data sets the number of samples "
            "there are");
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++)
        if (!feed->bound[i].taken && !feed->bound[i].fed_back)
            return with_inputs(feed->graph,
                               tmk_fail(diag, TMK_ARGUMENT,
                                        "input '%s' has no data; add --data '%s=FILE'",
                                        feed->graph->inputs[i]->name, feed->graph->inputs[i]->name),
                               diag);
    return TMK_OK;
}

/* Free dimensions by their names. */

const int64_t *tmk_feed_dim(const struct tmk_data_options *data, const char *symbol) {
    for (size_t d = 0; symbol && d < data->n_dims; d++)
        if (strcmp(data->dims[d].name, symbol) == 0)
            return &data->dims[d].value;
    return NULL;
}

enum tmk_status tmk_feed_check_dims(const struct tmk_feed *feed, struct tmk_diag *diag) {
    const struct tmk_data_options *data = feed->data;
    for (size_t d = 0; d < data->n_dims; d++) {
        if (*tmk_feed_dim(data, data->dims[d].name) != data->dims[d].value)
            return tmk_fail(diag, TMK_ARGUMENT, "--dim %s is given twice", data->dims[d].name);
        bool found = false;
        struct tmk_guess guess = {.wanted = data->dims[d].name};
        char meant[TMK_GUESS_SIZE];
        for (uint32_t i = 0; i < feed->graph->n_inputs && !found; i++)
            for (int k = 0; k < feed->graph->inputs[i]->type.shape.rank && !found; k++) {
                const char *symbol = feed->graph->inputs[i]->type.symbol[k];
                found = symbol && strcmp(symbol, data->dims[d].name) == 0;
                if (symbol)
                    tmk_guess_try(&guess, symbol);
            }
        if (!found)
            return tmk_fail(diag, TMK_ARGUMENT, "--dim %s%s: no input has a dimension of this name",
                            data->dims[d].name, tmk_guess_text(&guess, meant));
    }
    return TMK_OK;
}

bool tmk_feed_dim_is(const struct tmk_feed *feed, uint32_t input, const struct tmk_shape *shape,
                     int32_t k, const char *symbol) {
    const struct tmk_type *type = &feed->graph->inputs[input]->type;
    return type->has_shape && type->shape.rank == shape->rank && type->symbol[k] &&
           strcmp(type->symbol[k], symbol) == 0;
}

/* Does a tensor use the name for different sizes? Then it is no name, for other tensors too. */
static bool is_anonymous(const struct tmk_feed *feed, const struct tmk_tensor *inputs,
                         const char *symbol) {
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++) {
        const struct tmk_shape *shape = &inputs[i].shape;
        int64_t size = -1;
        for (int32_t k = 0; k < shape->rank; k++) {
            if (!tmk_feed_dim_is(feed, i, shape, k, symbol))
                continue;
            if (size >= 0 && size != shape->dim[k])
                return true;
            size = shape->dim[k];
        }
    }
    return false;
}

/* The first dimension of this name that has another size, of the inputs before `input`. */
static void compare_dims(struct tmk_feed *feed, const struct tmk_tensor *inputs, uint32_t input,
                         const char *symbol, int64_t size) {
    for (uint32_t i = 0; i < input && !feed->reported.dims; i++)
        for (int32_t k = 0; k < inputs[i].shape.rank && !feed->reported.dims; k++)
            if (tmk_feed_dim_is(feed, i, &inputs[i].shape, k, symbol) &&
                inputs[i].shape.dim[k] != size && !is_anonymous(feed, inputs, symbol)) {
                feed->reported.dims = true;
                tmk_feed_remark(feed,
                                "dimension '%s' is %lld in input '%s' and %lld in '%s'; going on, "
                                "as long as the operators take these sizes",
                                symbol, (long long)inputs[i].shape.dim[k],
                                feed->graph->inputs[i]->name, (long long)size,
                                feed->graph->inputs[input]->name);
            }
}

enum tmk_status tmk_feed_check_symbols(struct tmk_feed *feed, const struct tmk_tensor *inputs,
                                       struct tmk_diag *diag) {
    for (uint32_t i = 0; i < feed->graph->n_inputs; i++) {
        const struct tmk_value *input = feed->graph->inputs[i];
        const struct tmk_shape *shape = &inputs[i].shape;
        for (int32_t k = 0; k < shape->rank; k++) {
            const char *symbol = k < input->type.shape.rank ? input->type.symbol[k] : NULL;
            if (!symbol || !tmk_feed_dim_is(feed, i, shape, k, symbol))
                continue;
            const int64_t *given = tmk_feed_dim(feed->data, symbol);
            if (given && *given != shape->dim[k])
                return tmk_fail(diag, TMK_SHAPE, "dimension '%s' is %lld in input '%s', not %lld",
                                symbol, (long long)shape->dim[k], input->name, (long long)*given);
            compare_dims(feed, inputs, i, symbol, shape->dim[k]);
        }
    }
    return TMK_OK;
}
