/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of a profile's values. */
#include <inttypes.h>

#include "base/diag.h"
#include "base/size.h"
#include "profile/format.h"

/* ---- names ---- */

#define NAME_OF(name, number, text) [number] = text,
static const char
    *const kind_names[] = {TMK_PROFILE_KIND_LIST(NAME_OF)},
           *const status_names[] = {TMK_PROFILE_STATUS_LIST(NAME_OF)},
           *const level_names[] = {
               [TMK_PROFILE_NO_NUMBERS] = "none",     [TMK_PROFILE_INTEGERS] = "integer",
               [TMK_PROFILE_MINMAX] = "minmax",       [TMK_PROFILE_RANGE] = "range",
               [TMK_PROFILE_HISTOGRAM] = "histogram",
};
#undef NAME_OF
const struct tmk_field_names tmk_profile_kinds = {"kind", kind_names, TMK_COUNT(kind_names)};
static const struct tmk_field_names statuses = {"status", status_names, TMK_COUNT(status_names)},
                                    levels = {"level", level_names, TMK_COUNT(level_names)};

const char *tmk_profile_kind_name(enum tmk_profile_kind kind) {
    return (size_t)kind < TMK_COUNT(kind_names) ? kind_names[kind] : "?";
}

const char *tmk_profile_status_name(enum tmk_profile_status status) {
    return (size_t)status < TMK_COUNT(status_names) ? status_names[status] : "?";
}

enum tmk_profile_level tmk_profile_level_of(const struct tmk_profile_tensor *t) {
    static const enum tmk_profile_level of[] = {[TMK_STATS_RANGE] = TMK_PROFILE_RANGE,
                                                [TMK_STATS_HISTOGRAM] = TMK_PROFILE_HISTOGRAM,
                                                [TMK_STATS_MINMAX] = TMK_PROFILE_MINMAX};
    if (t->stats)
        return of[tmk_stats_level_of(t->stats)];
    return t->has_int_stats ? TMK_PROFILE_INTEGERS : TMK_PROFILE_NO_NUMBERS;
}

const char *tmk_profile_level_name(const struct tmk_profile_tensor *tensor) {
    return level_names[tmk_profile_level_of(tensor)];
}

/* ---- shapes ---- */

void tmk_profile_put_dims(struct tmk_json_out *to, const char *key, const struct tmk_shape *shape,
                          const char *const *symbol) {
    struct tmk_json_out dims = tmk_json_new_array();
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dim[i] >= 0)
            tmk_json_put_i64(&dims, NULL, shape->dim[i]);
        else if (symbol && symbol[i] && *symbol[i])
            tmk_json_put_text(&dims, NULL, symbol[i]);
        else
            tmk_json_put(&dims, NULL, cJSON_CreateNull());
    }
    tmk_json_put_child(to, key, &dims);
}

/* As put_dims wrote it: a number, or digits where doubles do not hold it; other strings are names.
 */
static bool as_size(const cJSON *dim, int64_t *out) {
    int64_t size;
    if (!tmk_json_as_i64(dim, &size) || size < (cJSON_IsString(dim) ? INT64_C(1) << 53 : 0))
        return false;
    *out = size;
    return true;
}

enum tmk_status tmk_profile_get_dims(struct tmk_field_reader *r, const cJSON *item, bool unknown,
                                     struct tmk_shape *shape, const char **symbol) {
    struct tmk_shape got = {0};
    const cJSON *dim;
    if (!cJSON_IsArray(item))
        return tmk_fail(r->diag, TMK_FORMAT, "a shape is not an array");
    cJSON_ArrayForEach(dim, item) {
        if (got.rank == TMK_MAX_RANK)
            return tmk_fail(r->diag, TMK_FORMAT, "a shape of more than %d dimensions",
                            TMK_MAX_RANK);
        int64_t *at = &got.dim[got.rank];
        *at = -1;
        const bool size = as_size(dim, at);
        if (!size && symbol && cJSON_IsString(dim) && *dim->valuestring)
            TMK_TRY(tmk_field_keep(r, dim->valuestring, &symbol[got.rank]));
        else if (!size && !(unknown && cJSON_IsNull(dim)))
            return tmk_fail(r->diag, TMK_FORMAT, "dimension %" PRId32 " of a shape is not a size",
                            got.rank);
        got.rank++;
    }
    *shape = got;
    return TMK_OK;
}

static void put_shape(struct tmk_json_out *to, const char *key, const void *record) {
    const struct tmk_profile_row *row = record;
    if (row->t.has_shape)
        tmk_profile_put_dims(to, key, &row->t.shape, row->t.symbol);
    else
        tmk_json_put(to, key, cJSON_CreateNull());
}

static enum tmk_status get_shape(struct tmk_field_reader *r, const cJSON *item, void *record) {
    struct tmk_profile_row *row = record;
    row->t.has_shape = !cJSON_IsNull(item);
    return row->t.has_shape ? tmk_profile_get_dims(r, item, true, &row->t.shape, row->t.symbol)
                            : TMK_OK;
}

static void put_runs(struct tmk_json_out *to, const char *key, const void *record) {
    const struct tmk_profile_row *row = record;
    struct tmk_json_out runs = tmk_json_new_array();
    for (uint32_t i = 0; i < row->t.n_runs; i++) {
        struct tmk_json_out run = tmk_json_new_object();
        tmk_profile_put_dims(&run, "shape", &row->t.runs[i].shape, NULL);
        tmk_json_put_u64(&run, "runs", row->t.runs[i].runs);
        tmk_json_put_child(&runs, NULL, &run);
    }
    tmk_json_put_child(to, key, &runs);
}

static enum tmk_status get_run(struct tmk_field_reader *r, const cJSON *item,
                               struct tmk_profile_tensor *t) {
    struct tmk_shape shape;
    uint64_t runs;
    uint32_t before = t->n_runs;
    if (!cJSON_IsObject(item))
        return tmk_fail(r->diag, TMK_FORMAT, "an entry is not an object");
    TMK_TRY(tmk_profile_get_dims(r, tmk_json_member(item, "shape"), false, &shape, NULL));
    TMK_TRY(tmk_json_u64(item, "runs", &runs, r->diag));
    if (runs == 0)
        return tmk_fail(r->diag, TMK_FORMAT, "a shape that never ran");
    if (before == TMK_PROFILE_MAX_RUNS)
        return tmk_fail(r->diag, TMK_FORMAT, "more than %d shapes", TMK_PROFILE_MAX_RUNS);
    TMK_TRY(tmk_profile_add_runs(t, &shape, runs, r->diag));
    return t->n_runs > before ? TMK_OK : tmk_fail(r->diag, TMK_FORMAT, "a shape stands twice");
}

static enum tmk_status get_runs(struct tmk_field_reader *r, const cJSON *item, void *record) {
    struct tmk_profile_row *row = record;
    const cJSON *run;
    if (!cJSON_IsArray(item))
        return tmk_fail(r->diag, TMK_FORMAT, "is missing or is not an array");
    cJSON_ArrayForEach(run, item) TMK_TRY(get_run(r, run, &row->t));
    return TMK_OK;
}

/* ---- nodes, operands, sources ---- */

#define RECORD tmk_profile_producer
static const struct tmk_field producer_table[] = {
    TMK_FIELD("node", TEXT, node),
    TMK_FIELD("op", TEXT, op),
    TMK_FIELD("domain", TEXT, domain),
    TMK_FIELD("output", U32, output),
};
#undef RECORD
#define RECORD tmk_profile_consumer
static const struct tmk_field consumer_table[] = {
    TMK_FIELD("node", TEXT, node, TMK_COLUMN("", "name of the node that reads it")),
    TMK_FIELD("op", TEXT, op, TMK_COLUMN("", "its operator")),
    TMK_FIELD("domain", TEXT, domain, TMK_COLUMN("", "the operator's domain")),
    TMK_FIELD("input", U32, input, TMK_COLUMN("", "position among the node's inputs")),
};
#undef RECORD
static const struct tmk_fields producer_fields = TMK_FIELDS(producer_table, );
const struct tmk_fields tmk_profile_consumer_fields =
    TMK_FIELDS(consumer_table, .size = sizeof(struct tmk_profile_consumer));

static void put_producer(struct tmk_json_out *to, const char *key, const void *record) {
    const struct tmk_profile_row *row = record;
    if (!row->t.has_producer) {
        tmk_json_put(to, key, cJSON_CreateNull());
        return;
    }
    struct tmk_json_out producer = tmk_json_new_object();
    tmk_fields_put(&producer, &producer_fields, &row->t.producer, 0);
    tmk_json_put_child(to, key, &producer);
}

static enum tmk_status get_producer(struct tmk_field_reader *r, const cJSON *item, void *record) {
    struct tmk_profile_row *row = record;
    row->t.has_producer = !cJSON_IsNull(item);
    return row->t.has_producer ? tmk_fields_get(r, &producer_fields, item, &row->t.producer)
                               : TMK_OK;
}

static enum tmk_status
get_ids(struct tmk_field_reader *r, const cJSON *item, struct tmk_profile_tensor *t,
        enum tmk_status (*add)(struct tmk_profile_tensor *t, uint32_t id, struct tmk_diag *diag)) {
    const cJSON *element;
    if (!cJSON_IsArray(item))
        return tmk_fail(r->diag, TMK_FORMAT, "not an array of IDs");
    cJSON_ArrayForEach(element, item) {
        uint32_t id;
        if (!cJSON_IsString(element) || !tmk_profile_id_of_text(element->valuestring, &id))
            return tmk_fail(r->diag, TMK_FORMAT, "holds no ID");
        TMK_TRY(add(t, id, r->diag));
    }
    return TMK_OK;
}

static bool has_no_operands(const void *record) {
    return ((const struct tmk_profile_row *)record)->t.n_operands == 0;
}

static void put_operands(struct tmk_json_out *to, const char *key, const void *record) {
    const struct tmk_profile_row *row = record;
    tmk_field_put_ids(to, key, row->t.operands, row->t.n_operands);
}

static enum tmk_status get_operands(struct tmk_field_reader *r, const cJSON *item, void *record) {
    return get_ids(r, item, &((struct tmk_profile_row *)record)->t, tmk_profile_add_operand);
}

static bool has_no_rule(const void *record) {
    return !*((const struct tmk_profile_row *)record)->t.rule;
}

static void put_sources(struct tmk_json_out *to, const char *key, const void *record) {
    const struct tmk_profile_row *row = record;
    tmk_field_put_ids(to, key, row->t.sources, row->t.n_sources);
}

static enum tmk_status get_sources(struct tmk_field_reader *r, const cJSON *item, void *record) {
    return get_ids(r, item, &((struct tmk_profile_row *)record)->t, tmk_profile_add_derivation);
}

/* ---- any value ---- */

static const struct tmk_field_codec shape = {put_shape, get_shape}, runs = {put_runs, get_runs},
                                    producer = {put_producer, get_producer},
                                    operands = {put_operands, get_operands},
                                    sources = {put_sources, get_sources};

#define RECORD tmk_profile_row
static const struct tmk_field derivation_table[] = {
    TMK_FIELD("rule", TEXT, t.rule),
    TMK_FIELD("from", CODEC, t.sources, .of = &sources),
};
static const struct tmk_fields derivation_fields = TMK_FIELDS(derivation_table, );

#define MAYBE .flags = TMK_FIELD_OPTIONAL | TMK_FIELD_OMIT
static const struct tmk_field value_table[] = {
    TMK_FIELD("id", ID, t.id, TMK_COLUMN("", "profile ID: 12 is p12")),
    TMK_FIELD("fingerprint", HEX, t.fingerprint,
              TMK_COLUMN("", "hash of how the value is computed")),
    TMK_FIELD("content", HEX, t.content, TMK_COLUMN("", "the same, with the bytes of the weights")),
    TMK_FIELD("ordinal", U32, t.ordinal,
              TMK_COLUMN("", "position among the values of equal fingerprint")),
    TMK_FIELD("name", TEXT, t.name, TMK_COLUMN("", "original name in the model")),
    TMK_FIELD("path", TEXT, t.path, MAYBE,
              TMK_COLUMN("", "sub-graph that holds the value; empty: the main graph")),
    TMK_FIELD("kind", NAME, t.kind, .of = &tmk_profile_kinds,
              TMK_COLUMN("", "input, weight, activation or output")),
    TMK_FIELD("inner", BOOL, t.inner,
              .flags = TMK_FIELD_OPTIONAL | TMK_FIELD_OMIT | TMK_FIELD_LATER,
              TMK_COLUMN("", "1: lies inside its producer; no model has it as an edge")),
    TMK_FIELD("status", NAME, t.status, .of = &statuses,
              TMK_COLUMN("", "observed, never, constant, integer, dead or derived")),
    TMK_FIELD("dtype", DTYPE, t.dtype, TMK_COLUMN("", "element type as it ran")),
    TMK_FIELD("origin", DTYPE, t.origin, TMK_COLUMN("", "element type in the model file")),
    TMK_FIELD("shape", CODEC, t.shape, .of = &shape,
              TMK_COLUMN("", "declared shape, JSON; null or a name: a free dimension")),
    TMK_FIELD("observed_shapes", CODEC, t.runs, .of = &runs,
              TMK_COLUMN("", "shapes that ran and how often, JSON")),
    TMK_FIELD("more_shapes", BOOL, t.more_runs, MAYBE,
              TMK_COLUMN("", "1: more distinct shapes ran than are listed")),
    TMK_FIELD("expected_count", U64, t.expected_count,
              TMK_COLUMN("elements", "elements of all shapes that ran")),
    TMK_FIELD("producer", CODEC, t.producer, .of = &producer),
    TMK_COLUMN_ONLY("producer_node", TEXT, t.producer.node, "",
                    "name of the node that computes the value"),
    TMK_COLUMN_ONLY("producer_op", TEXT, t.producer.op, "", "its operator"),
    TMK_COLUMN_ONLY("producer_domain", TEXT, t.producer.domain, "", "the operator's domain"),
    TMK_COLUMN_ONLY("producer_output", I64, producer_output, "",
                    "position among the node's outputs; -1: no node computes it"),
    TMK_FIELD_COUNTED("consumers", LIST, t.consumers, t.n_consumers,
                      .of = &tmk_profile_consumer_fields),
    TMK_FIELD("operands", CODEC, t.operands, .flags = TMK_FIELD_OPTIONAL, .of = &operands,
              .absent = has_no_operands),
    TMK_FIELD_WHOLE("derivation", OBJECT, .flags = TMK_FIELD_OPTIONAL, .of = &derivation_fields,
                    .absent = has_no_rule),
    TMK_COLUMN_ONLY("derivation_rule", TEXT, t.rule, "",
                    "exact rule by which the statistics were derived"),
    TMK_COLUMN_ONLY("derivation_from", CODEC, t.sources, "",
                    "IDs that they were derived from, JSON", .of = &sources),
    TMK_FIELD("level", NAME, level, .of = &levels,
              TMK_COLUMN("", "none, integer, minmax, range or histogram: how the numbers were "
                             "kept")),
};
const struct tmk_fields tmk_profile_value_fields = TMK_FIELDS(value_table, );

/* ---- values without numbers, and of integers ---- */

static const struct tmk_field count_table[] = {
    /* the first files of version 1.0 had none */
    TMK_FIELD("count", U64, is.count, .flags = TMK_FIELD_OPTIONAL),
};

static enum tmk_status check_no_count(struct tmk_field_reader *r, void *record) {
    const struct tmk_profile_row *row = record;
    if (row->is.count)
        return tmk_fail(r->diag, TMK_FORMAT, "'count': is %" PRIu64 ", but nothing else was kept",
                        row->is.count);
    return TMK_OK;
}

const struct tmk_fields tmk_profile_none_fields =
    TMK_FIELDS(count_table, .before = &tmk_profile_value_fields, .after = check_no_count);

static bool has_no_integers(const void *record) {
    return ((const struct tmk_profile_row *)record)->t.int_stats.count == 0;
}

#define WHERE_ANY .flags = TMK_FIELD_NULL, .absent = has_no_integers
static const struct tmk_field integer_table[] = {
    TMK_COLUMN_ONLY("tensor_id", U32, t.id, "", "the value"),
    TMK_FIELD("count", U64, t.int_stats.count),
    TMK_FIELD("samples", U64, t.int_stats.samples),
    TMK_FIELD("updates", U64, t.int_stats.updates),
    TMK_FIELD("min", I64, t.int_stats.min, WHERE_ANY,
              TMK_COLUMN("1", "least element; 0 when there is none")),
    TMK_FIELD("max", I64, t.int_stats.max, WHERE_ANY,
              TMK_COLUMN("1", "greatest element; 0 when there is none")),
    TMK_FIELD("min_at", WHERE, t.int_stats.min_at, WHERE_ANY),
    TMK_FIELD("max_at", WHERE, t.int_stats.max_at, WHERE_ANY),
    TMK_FIELD("zeros", U64, t.int_stats.zeros),
    TMK_FIELD("saturated", U64, t.int_stats.saturated,
              TMK_COLUMN("elements", "elements above 2^63-1, which count as 2^63-1")),
};
const struct tmk_fields tmk_profile_integer_columns = TMK_FIELDS(integer_table, ),
                        tmk_profile_integer_fields =
                            TMK_FIELDS(integer_table, .before = &tmk_profile_value_fields);
