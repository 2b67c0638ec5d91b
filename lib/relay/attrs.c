/* SPDX-License-Identifier: Apache-2.0 */
/* Operands and attributes of a call, as the rules ask for them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "relay/lower.h"
#include "tensor/shape.h"

/* ---- operands ---- */

struct tmk_value *tmk_rl_in(const struct tmk_relay_call *call, uint32_t i) {
    return i < call->n_args ? call->args[i].value : NULL;
}

struct tmk_value **tmk_rl_parts(struct tmk_relay_call *call, uint32_t i, uint32_t *n) {
    const struct tmk_relay_item *item = i < call->n_args ? &call->args[i] : NULL;
    *n = 0;
    if (call->status != TMK_OK)
        return NULL;
    if (!item || !item->items)
        return tmk_rl_fail(call, TMK_GRAPH, "operand %u is no tuple", i);
    struct tmk_value **values = tmk_arena_array(&call->to->scratch, item->n + 1, sizeof(void *));
    if (!values)
        return tmk_rl_nomem(call);
    for (uint32_t k = 0; k < item->n; k++) {
        values[k] = item->items[k].value;
        if (!values[k])
            return tmk_rl_fail(call, TMK_GRAPH, "operand %u holds something that is no tensor", i);
    }
    *n = item->n;
    return values;
}

const struct tmk_shape *tmk_rl_shape(struct tmk_relay_call *call, const struct tmk_value *v) {
    static const struct tmk_shape nothing;
    if (v && v->type.has_shape)
        return &v->type.shape;
    if (v)
        tmk_rl_fail(call, TMK_UNSUPPORTED,
                    "the shape of '%s' is not known; print the module with its types", v->name);
    return &nothing;
}

const struct tmk_shape *tmk_rl_dims(struct tmk_relay_call *call, const struct tmk_value *v) {
    const struct tmk_shape *shape = tmk_rl_shape(call, v);
    size_t count;
    if (call->status == TMK_OK && !tmk_shape_count(shape, &count))
        tmk_rl_fail(call, TMK_UNSUPPORTED,
                    "'%s' is %s, and this operator needs every dimension known", v ? v->name : "",
                    TMK_SHAPE_TEXT(shape));
    return shape;
}

int32_t tmk_rl_rank(struct tmk_relay_call *call, const struct tmk_value *v) {
    return tmk_rl_shape(call, v)->rank;
}

enum tmk_dtype tmk_rl_type_of(struct tmk_relay_call *call, const struct tmk_value *v) {
    if (v && !v->type.dtype)
        tmk_rl_fail(call, TMK_UNSUPPORTED,
                    "the type of '%s' is not known; print the module with its types", v->name);
    return v ? v->type.dtype : TMK_UNDEFINED;
}

bool tmk_rl_is_float(struct tmk_relay_call *call, const struct tmk_value *v) {
    return tmk_rl_type_of(call, v) == TMK_FLOAT32;
}

bool tmk_rl_element(const struct tmk_tensor *tensor, size_t i, double *out) {
    switch (tensor->dtype) {
    case TMK_FLOAT32:
        *out = (double)((const float *)tensor->data)[i];
        return true;
    case TMK_INT8:
        *out = ((const int8_t *)tensor->data)[i];
        return true;
    case TMK_UINT8:
    case TMK_BOOL:
        *out = ((const uint8_t *)tensor->data)[i];
        return true;
    case TMK_INT16:
        *out = ((const int16_t *)tensor->data)[i];
        return true;
    case TMK_UINT16:
        *out = ((const uint16_t *)tensor->data)[i];
        return true;
    case TMK_INT32:
        *out = ((const int32_t *)tensor->data)[i];
        return true;
    case TMK_INT64:
        *out = (double)((const int64_t *)tensor->data)[i];
        return true;
    default:
        return false;
    }
}

const double *tmk_rl_numbers(struct tmk_relay_call *call, const struct tmk_value *v,
                             const char *what, size_t *n) {
    *n = 0;
    if (call->status != TMK_OK)
        return NULL;
    if (!v || v->kind != TMK_VALUE_INITIALIZER)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "%s is not a constant", what);
    const struct tmk_tensor *t = &v->data;
    size_t count = tmk_tensor_count(t);
    double *numbers = tmk_arena_array(&call->to->scratch, count + 1, sizeof *numbers);
    if (!numbers)
        return tmk_rl_nomem(call);
    for (size_t i = 0; i < count; i++) {
        if (!tmk_rl_element(t, i, &numbers[i]))
            return tmk_rl_fail(call, TMK_TYPE, "%s is of type %s", what, tmk_dtype_name(t->dtype));
        if (t->dtype == TMK_INT64 && fabs(numbers[i]) > 0x1p53)
            return tmk_rl_fail(call, TMK_RANGE, "%s holds %lld", what,
                               (long long)((const int64_t *)t->data)[i]);
    }
    *n = count;
    return numbers;
}

/* ---- attributes ---- */

/* One attribute of a row. */
struct spec {
    const char *name, *type, *value; /* value NULL: the call must have it; type "": by the value */
    size_t name_len, value_len;
};

/* The attribute at *at, which moves behind it; false behind the last. */
static bool next_spec(const char **at, struct spec *out) {
    const size_t len = strcspn(*at, ";"), name = strcspn(*at, ":=;"), value = strcspn(*at, "=;");
    *out = (struct spec){.name = *at,
                         .type = (*at)[name] == ':' ? *at + name + 1 : "",
                         .value = value < len ? *at + value + 1 : NULL,
                         .name_len = name,
                         .value_len = value < len ? len - value - 1 : 0};
    *at += len + strspn(*at + len, "; ");
    return len > 0;
}

static bool is_named(const struct spec *spec, const char *name) {
    return strlen(name) == spec->name_len && memcmp(spec->name, name, spec->name_len) == 0;
}

static bool find_spec(const struct tmk_relay_op *op, const char *name, struct spec *out) {
    for (const char *at = op->attrs; next_spec(&at, out);)
        if (is_named(out, name))
            return true;
    return false;
}

/* How the default is spelled. */
static enum tmk_relay_attr_kind spelled_kind(const char *value, size_t len) {
    if (*value == '-' || tmk_is_digit(*value))
        return memchr(value, '.', len) || memchr(value, 'e', len) ? TMK_RELAY_REAL : TMK_RELAY_INT;
    return *value == '\''                   ? TMK_RELAY_STRING
           : *value == '['                  ? TMK_RELAY_LIST
           : *value == 'T' || *value == 'F' ? TMK_RELAY_BOOL
                                            : TMK_RELAY_NONE;
}

bool tmk_relay_op_attr_is(const struct tmk_relay_op *op, const char *name,
                          enum tmk_relay_attr_kind kind) {
    static const char *const types[] = {
        [TMK_RELAY_INT] = "int", [TMK_RELAY_REAL] = "real", [TMK_RELAY_BOOL] = "bool"};
    struct spec spec;
    if (!find_spec(op, name, &spec))
        return false;
    if (*spec.type)
        return strncmp(spec.type, types[kind], strlen(types[kind])) == 0;
    return spec.value && spelled_kind(spec.value, spec.value_len) == kind;
}

/* The row's attribute that attribute i of the call is; those without a name go by position. */
static bool find_spec_at(const struct tmk_relay_call *call, uint32_t i, struct spec *out) {
    const struct tmk_relay_attr *attrs = call->expr->attrs;
    if (attrs[i].name[0])
        return find_spec(call->op, attrs[i].name, out);
    const char *at = call->op->attrs;
    bool found = next_spec(&at, out);
    for (uint32_t k = 0; k < i && found; k++)
        if (!attrs[k].name[0])
            found = next_spec(&at, out);
    return found;
}

bool tmk_rl_has_attr(const struct tmk_relay_call *call, const char *name) {
    struct spec spec;
    return find_spec(call->op, name, &spec);
}

static const struct tmk_relay_value *find_given(const struct tmk_relay_call *call,
                                                const char *name) {
    struct spec spec;
    for (uint32_t i = 0; i < call->expr->n_attrs; i++)
        if (find_spec_at(call, i, &spec) && is_named(&spec, name))
            return &call->expr->attrs[i].value;
    return NULL;
}

static bool is_none(const struct tmk_relay_value *value) {
    return value->kind == TMK_RELAY_NONE;
}

static bool is_list(const struct tmk_relay_value *value) {
    return value->kind == TMK_RELAY_LIST || value->kind == TMK_RELAY_GROUP;
}

bool tmk_rl_given(const struct tmk_relay_call *call, const char *name) {
    const struct tmk_relay_value *value = find_given(call, name);
    return value && !is_none(value);
}

/* "[1, 1]", which has fewer numbers than letters. */
static void parse_ints(struct tmk_relay_call *call, const char *text, struct tmk_relay_value *out) {
    out->items = tmk_arena_array(&call->to->scratch, strlen(text), sizeof *out->items);
    if (!out->items)
        tmk_rl_nomem(call);
    while (out->items && *(text += strcspn(text, "-0123456789"))) {
        char *end;
        out->items[out->n++] =
            (struct tmk_relay_value){.kind = TMK_RELAY_INT, .i = strtoll(text, &end, 10)};
        text = end;
    }
}

/* The row's default, in scratch memory; NULL, and a failure, where there is none. */
static const struct tmk_relay_value *find_default(struct tmk_relay_call *call, const char *name) {
    struct spec spec;
    struct tmk_relay_value *value = tmk_arena_alloc(&call->to->scratch, sizeof *value);
    if (!find_spec(call->op, name, &spec) || !spec.value)
        return tmk_rl_fail(call, TMK_GRAPH, "needs the attribute '%s'", name);
    char *text = tmk_arena_strndup(&call->to->scratch, spec.value, spec.value_len);
    if (!value || !text)
        return tmk_rl_nomem(call);
    *value = (struct tmk_relay_value){.kind = spelled_kind(text, spec.value_len),
                                      .i = strcmp(text, "True") == 0,
                                      .real = strtod(text, NULL),
                                      .s = text};
    if (value->kind == TMK_RELAY_INT) {
        value->i = strtoll(text, NULL, 10);
    } else if (value->kind == TMK_RELAY_STRING) { /* without its quotes */
        text[spec.value_len - 1] = '\0';
        value->s = text + 1;
    } else if (value->kind == TMK_RELAY_LIST) {
        parse_ints(call, text, value);
    }
    return value;
}

/* Given, or by default; NULL after a failure. */
static const struct tmk_relay_value *need_value(struct tmk_relay_call *call, const char *name) {
    const struct tmk_relay_value *value = find_given(call, name);
    if (!value || is_none(value))
        value = find_default(call, name);
    return value && is_none(value) ? tmk_rl_fail(call, TMK_GRAPH, "needs the attribute '%s'", name)
                                   : value;
}

static void *wrong_kind(struct tmk_relay_call *call, const char *name, const char *wanted) {
    return tmk_rl_fail(call, TMK_TYPE, "the attribute '%s' is not %s", name, wanted);
}

int64_t tmk_rl_int(struct tmk_relay_call *call, const char *name) {
    const struct tmk_relay_value *value = need_value(call, name);
    if (value && value->kind != TMK_RELAY_INT && value->kind != TMK_RELAY_BOOL)
        value = wrong_kind(call, name, "an integer");
    return value ? value->i : 0;
}

double tmk_rl_real(struct tmk_relay_call *call, const char *name) {
    const struct tmk_relay_value *value = need_value(call, name);
    if (value && value->kind == TMK_RELAY_INT)
        return (double)value->i;
    if (value && value->kind != TMK_RELAY_REAL)
        value = wrong_kind(call, name, "a number");
    return value ? value->real : 0;
}

bool tmk_rl_bool(struct tmk_relay_call *call, const char *name) {
    const struct tmk_relay_value *value = need_value(call, name);
    if (value && value->kind != TMK_RELAY_BOOL && value->kind != TMK_RELAY_INT)
        value = wrong_kind(call, name, "True or False");
    return value && value->i != 0;
}

const char *tmk_rl_string(struct tmk_relay_call *call, const char *name) {
    const struct tmk_relay_value *value = need_value(call, name);
    if (value && value->kind != TMK_RELAY_STRING && value->kind != TMK_RELAY_NAME)
        value = wrong_kind(call, name, "a text");
    return value ? value->s : "";
}

static int64_t *new_ints(struct tmk_relay_call *call, size_t n) {
    int64_t *ints = NULL;
    if (n > TMK_RL_INTS)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "a list of %zu; at most %d", n, TMK_RL_INTS);
    ints = tmk_arena_array(&call->to->scratch, n + 1, sizeof *ints);
    return ints ? ints : tmk_rl_nomem(call);
}

const int64_t *tmk_rl_ints(struct tmk_relay_call *call, const char *name, size_t *n) {
    const struct tmk_relay_value *value = find_given(call, name);
    *n = 0;
    value = value ? value : find_default(call, name);
    if (!value)
        return NULL;
    const bool list = is_list(value);
    const size_t count = list ? value->n : !is_none(value);
    int64_t *ints = new_ints(call, count);
    for (size_t i = 0; ints && i < count; i++) {
        const struct tmk_relay_value *item = list ? &value->items[i] : value;
        if (item->kind != TMK_RELAY_INT)
            return wrong_kind(call, name, "a list of integers");
        ints[i] = item->i;
    }
    *n = ints ? count : 0;
    return ints;
}

bool tmk_rl_exactly(struct tmk_relay_call *call, const char *name, int64_t *out, size_t n) {
    size_t have;
    const int64_t *ints = tmk_rl_ints(call, name, &have);
    if (ints && have != n && have != 1)
        tmk_rl_fail(call, TMK_GRAPH, "the attribute '%s' has %zu numbers; wanted %zu", name, have,
                    n);
    for (size_t i = 0; i < n; i++)
        out[i] = call->status == TMK_OK ? ints[have == 1 ? 0 : i] : 0;
    return call->status == TMK_OK;
}

const int64_t (*tmk_rl_pairs(struct tmk_relay_call *call, const char *name, size_t *n))[2] {
    const struct tmk_relay_value *value = find_given(call, name);
    *n = 0;
    if (!value || !is_list(value))
        return tmk_rl_fail(call, TMK_GRAPH, "needs the attribute '%s', a list of pairs", name);
    int64_t *ints = new_ints(call, 2 * (size_t)value->n);
    for (uint32_t i = 0; ints && i < value->n; i++) {
        const struct tmk_relay_value *pair = &value->items[i];
        if (!is_list(pair) || pair->n != 2 || pair->items[0].kind != TMK_RELAY_INT ||
            pair->items[1].kind != TMK_RELAY_INT)
            return wrong_kind(call, name, "a list of pairs");
        ints[2 * i] = pair->items[0].i;
        ints[2 * i + 1] = pair->items[1].i;
    }
    *n = ints ? value->n : 0;
    return (const int64_t(*)[2])ints;
}

int32_t tmk_rl_axis(struct tmk_relay_call *call, int64_t axis, int32_t rank) {
    if (axis >= -rank && axis < rank)
        return (int32_t)(axis < 0 ? axis + rank : axis);
    tmk_rl_fail(call, TMK_RANGE, "axis %lld of a tensor of rank %d", (long long)axis, (int)rank);
    return 0;
}

enum tmk_dtype tmk_rl_dtype_attr(struct tmk_relay_call *call, const char *name,
                                 enum tmk_dtype absent) {
    const struct tmk_relay_value *value = find_given(call, name);
    if (!value || is_none(value) || !tmk_rl_string(call, name)[0])
        return absent;
    enum tmk_dtype dtype = tmk_relay_dtype(tmk_rl_string(call, name));
    if (!dtype)
        tmk_rl_fail(call, TMK_UNSUPPORTED, "the type '%s' is not supported",
                    tmk_rl_string(call, name));
    return dtype;
}

enum tmk_status tmk_rl_check_attrs(struct tmk_relay_call *call) {
    if (call->op->flags & TMK_RELAY_ALIAS)
        return TMK_OK;
    struct spec spec;
    for (uint32_t i = 0; i < call->expr->n_attrs; i++) {
        const struct tmk_relay_attr *attr = &call->expr->attrs[i];
        if (!find_spec_at(call, i, &spec))
            return tmk_fail(call->to->diag, TMK_UNSUPPORTED, "the attribute '%s' is not known",
                            attr->name);
        if (attr->value.kind == TMK_RELAY_META)
            return tmk_fail(call->to->diag, TMK_UNSUPPORTED,
                            "the attribute '%s' stands in the metadata section", attr->name);
    }
    return TMK_OK;
}

/* ---- layouts ---- */

bool tmk_rl_layout(struct tmk_relay_call *call, const char *from, const char *to,
                   int64_t perm[TMK_RL_LETTERS], int32_t *n) {
    size_t len = strlen(to);
    *n = 0;
    if (strspn(from, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != strlen(from) ||
        strspn(to, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != len)
        tmk_rl_fail(call, TMK_UNSUPPORTED,
                    "the blocked layout '%s' is not supported; give the module from before layouts "
                    "are altered",
                    strspn(from, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != strlen(from) ? from : to);
    else if (len > TMK_RL_LETTERS || strlen(from) != len)
        tmk_rl_fail(call, TMK_UNSUPPORTED, "layout '%s' where '%s' was expected", from, to);
    for (size_t i = 0; i < len && call->status == TMK_OK; i++) {
        const char *at = strchr(from, to[i]);
        if (!at || strchr(to + i + 1, to[i]))
            tmk_rl_fail(call, TMK_UNSUPPORTED, "layout '%s' where '%s' was expected", from, to);
        else
            perm[i] = at - from;
    }
    *n = call->status == TMK_OK ? (int32_t)len : 0;
    return call->status == TMK_OK;
}
