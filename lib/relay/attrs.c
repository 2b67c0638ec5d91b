/* SPDX-License-Identifier: Apache-2.0 */
/* Operands and attributes of a call, as the rules ask for them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    const char *name, *value; /* value NULL: the call must have it */
    size_t name_len, value_len;
};

/* The attribute at *at, which moves behind it; false behind the last. */
static bool next_spec(const char **at, struct spec *out) {
    const size_t len = strcspn(*at, ";"), name = strcspn(*at, "=;");
    *out = (struct spec){*at, name < len ? *at + name + 1 : NULL, name, len - name - (name < len)};
    *at += len + strspn(*at + len, "; ");
    return len > 0;
}

static bool is_named(const struct spec *spec, const char *name) {
    return strlen(name) == spec->name_len && memcmp(spec->name, name, spec->name_len) == 0;
}

static bool find_spec(const struct tmk_relay_call *call, const char *name, struct spec *out) {
    for (const char *at = call->op->attrs; next_spec(&at, out);)
        if (is_named(out, name))
            return true;
    return false;
}

/* The row's attribute that attribute i of the call is; those without a name go by position. */
static bool find_spec_at(const struct tmk_relay_call *call, uint32_t i, struct spec *out) {
    const struct tmk_relay_attr *attrs = call->expr->attrs;
    if (attrs[i].name[0])
        return find_spec(call, attrs[i].name, out);
    const char *at = call->op->attrs;
    bool found = next_spec(&at, out);
    for (uint32_t k = 0; k < i && found; k++)
        if (!attrs[k].name[0])
            found = next_spec(&at, out);
    return found;
}

bool tmk_rl_has_attr(const struct tmk_relay_call *call, const char *name) {
    struct spec spec;
    return find_spec(call, name, &spec);
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

/* The default, without quotes, in scratch memory; NULL: there is none, or it is None. */
static const char *default_of(struct tmk_relay_call *call, const char *name) {
    struct spec spec;
    if (!find_spec(call, name, &spec) || !spec.value || strncmp(spec.value, "None", 4) == 0)
        return NULL;
    const size_t quotes = spec.value[0] == '\'';
    const char *text =
        tmk_rl_text(call->to, "%.*s", (int)(spec.value_len - 2 * quotes), spec.value + quotes);
    return text ? text : tmk_rl_nomem(call);
}

/* The same; NULL is a failure. */
static const char *need_default(struct tmk_relay_call *call, const char *name) {
    const char *text = default_of(call, name);
    return text ? text : tmk_rl_fail(call, TMK_GRAPH, "needs the attribute '%s'", name);
}

static void wrong_kind(struct tmk_relay_call *call, const char *name, const char *wanted) {
    tmk_rl_fail(call, TMK_TYPE, "the attribute '%s' is not %s", name, wanted);
}

int64_t tmk_rl_int(struct tmk_relay_call *call, const char *name) {
    const struct tmk_relay_value *value = find_given(call, name);
    if (!value || is_none(value)) {
        const char *text = need_default(call, name);
        return text ? strtoll(text, NULL, 10) : 0;
    }
    if (value->kind != TMK_RELAY_INT && value->kind != TMK_RELAY_BOOL)
        wrong_kind(call, name, "an integer");
    return value->i;
}

double tmk_rl_real(struct tmk_relay_call *call, const char *name) {
    const struct tmk_relay_value *value = find_given(call, name);
    if (!value || is_none(value)) {
        const char *text = need_default(call, name);
        return text ? strtod(text, NULL) : 0;
    }
    if (value->kind == TMK_RELAY_INT)
        return (double)value->i;
    if (value->kind != TMK_RELAY_REAL)
        wrong_kind(call, name, "a number");
    return value->real;
}

bool tmk_rl_bool(struct tmk_relay_call *call, const char *name) {
    const struct tmk_relay_value *value = find_given(call, name);
    if (!value || is_none(value)) {
        const char *text = need_default(call, name);
        return text && strcmp(text, "True") == 0;
    }
    if (value->kind != TMK_RELAY_BOOL && value->kind != TMK_RELAY_INT)
        wrong_kind(call, name, "True or False");
    return value->i != 0;
}

const char *tmk_rl_string(struct tmk_relay_call *call, const char *name) {
    const struct tmk_relay_value *value = find_given(call, name);
    const char *text = value && !is_none(value) ? value->s : need_default(call, name);
    if (value && !is_none(value) && value->kind != TMK_RELAY_STRING &&
        value->kind != TMK_RELAY_NAME) {
        wrong_kind(call, name, "a text");
        text = NULL;
    }
    return text ? text : "";
}

static int64_t *new_ints(struct tmk_relay_call *call, size_t n) {
    int64_t *ints = NULL;
    if (n > TMK_RL_INTS)
        return tmk_rl_fail(call, TMK_UNSUPPORTED, "a list of %zu; at most %d", n, TMK_RL_INTS);
    ints = tmk_arena_array(&call->to->scratch, n + 1, sizeof *ints);
    return ints ? ints : tmk_rl_nomem(call);
}

/* "[1, 1]" */
static const int64_t *parse_ints(struct tmk_relay_call *call, const char *text, size_t *n) {
    int64_t *ints = new_ints(call, strlen(text));
    *n = 0;
    while (ints && *(text += strcspn(text, "-0123456789"))) {
        char *end;
        ints[(*n)++] = strtoll(text, &end, 10);
        text = end;
    }
    return ints;
}

const int64_t *tmk_rl_ints(struct tmk_relay_call *call, const char *name, size_t *n) {
    const struct tmk_relay_value *value = find_given(call, name);
    struct spec spec;
    *n = 0;
    if (value ? is_none(value)
              : find_spec(call, name, &spec) && spec.value && strncmp(spec.value, "None", 4) == 0)
        return new_ints(call, 0);
    if (!value) {
        const char *text = need_default(call, name);
        return text ? parse_ints(call, text, n) : NULL;
    }
    bool list = is_list(value);
    size_t count = list ? value->n : 1;
    int64_t *ints = new_ints(call, count);
    for (size_t i = 0; ints && i < count; i++) {
        const struct tmk_relay_value *item = list ? &value->items[i] : value;
        if (item->kind != TMK_RELAY_INT) {
            wrong_kind(call, name, "a list of integers");
            return NULL;
        }
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
    if (!value || !is_list(value)) {
        tmk_rl_fail(call, TMK_GRAPH, "needs the attribute '%s', a list of pairs", name);
        return NULL;
    }
    int64_t *ints = new_ints(call, 2 * (size_t)value->n);
    for (uint32_t i = 0; ints && i < value->n; i++) {
        const struct tmk_relay_value *pair = &value->items[i];
        if (!is_list(pair) || pair->n != 2 || pair->items[0].kind != TMK_RELAY_INT ||
            pair->items[1].kind != TMK_RELAY_INT) {
            wrong_kind(call, name, "a list of pairs");
            return NULL;
        }
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
    enum tmk_dtype dtype = tmk_rl_dtype(tmk_rl_string(call, name));
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
