/* SPDX-License-Identifier: Apache-2.0 */
/* Mutations of JSON: the tree stays one, and where the format has a schema (docs/NAME.schema.json),
 * most new values and members are such as it describes. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "embedded.h"
#include "mutate.h"

enum { MOST_PLACES = 4096, DEEPEST = 12, MOST_STEPS = 4 };

/* A target's schema, and the bytes before its JSON. */
static const struct {
    const char *target, *schema;
    size_t skip;
} kinds[] = {{"profile", "profile.schema.json", 0},
             {"encodings", "encodings.schema.json", 0},
             {"lineage", "lineage.schema.json", 0},
             {"config", "config.schema.json", 0},
             {"names", NULL, 0},
             {"ranges", NULL, 1}};

struct place {
    cJSON *item, *parent; /* parent NULL: the root */
    const cJSON *schema;  /* NULL: not described */
};

struct job {
    uint64_t random;
    const cJSON *root_schema;
    struct place places[MOST_PLACES];
    size_t n;
};

static uint64_t draw(struct job *job, uint64_t below) {
    job->random ^= job->random << 13;
    job->random ^= job->random >> 7;
    job->random ^= job->random << 17;
    return (job->random >> 11) % below;
}

static bool one_in(struct job *job, uint64_t n) {
    return draw(job, n) == 0;
}

/* ---- the schema ---- */

static const cJSON *load_schema(const char *name) {
    static cJSON *parsed[TMK_COUNT(kinds)];
    for (size_t i = 0; i < TMK_COUNT(kinds); i++) {
        if (!name || !kinds[i].schema || strcmp(kinds[i].schema, name) != 0)
            continue;
        for (const struct embedded *file = embedded; file->name && !parsed[i]; file++)
            if (strcmp(file->name, name) == 0)
                parsed[i] = cJSON_ParseWithLength((const char *)file->data, file->size);
        if (!parsed[i])
            abort(); /* the build embeds it */
        return parsed[i];
    }
    return NULL;
}

static bool is_of_type(const cJSON *item, const char *type) {
    return (cJSON_IsObject(item) && strcmp(type, "object") == 0) ||
           (cJSON_IsArray(item) && strcmp(type, "array") == 0) ||
           (cJSON_IsString(item) && strcmp(type, "string") == 0) ||
           (cJSON_IsBool(item) && strcmp(type, "boolean") == 0) ||
           (cJSON_IsNull(item) && strcmp(type, "null") == 0) ||
           (cJSON_IsNumber(item) && (strcmp(type, "number") == 0 || strcmp(type, "integer") == 0));
}

/* Behind references and alternatives: the one that an item is of; any, without one. */
static const cJSON *resolve(struct job *job, const cJSON *schema, const cJSON *item) {
    for (int depth = 0; schema && depth < DEEPEST; depth++) {
        const cJSON *ref = cJSON_GetObjectItemCaseSensitive(schema, "$ref"),
                    *one_of = cJSON_GetObjectItemCaseSensitive(schema, "oneOf"), *chosen = NULL;
        if (cJSON_IsString(ref)) {
            const char *name = strrchr(ref->valuestring, '/');
            schema = cJSON_GetObjectItemCaseSensitive(
                cJSON_GetObjectItemCaseSensitive(job->root_schema, "$defs"), name ? name + 1 : "");
            continue;
        }
        if (!one_of)
            return cJSON_IsObject(schema) ? schema : NULL;
        const int n = cJSON_GetArraySize(one_of);
        for (int i = 0; i < n && item && !chosen; i++) {
            const cJSON *each = resolve(job, cJSON_GetArrayItem(one_of, i), item),
                        *type = cJSON_GetObjectItemCaseSensitive(each, "type");
            if (cJSON_IsString(type) && is_of_type(item, type->valuestring))
                chosen = each;
        }
        schema = chosen ? chosen : cJSON_GetArrayItem(one_of, (int)draw(job, (uint64_t)n));
    }
    return schema;
}

static const cJSON *schema_of_member(const cJSON *schema, const char *key) {
    const cJSON *known = cJSON_GetObjectItemCaseSensitive(
                    cJSON_GetObjectItemCaseSensitive(schema, "properties"), key),
                *others = cJSON_GetObjectItemCaseSensitive(schema, "additionalProperties");
    return known ? known : cJSON_IsObject(others) ? others : NULL;
}

static void collect(struct job *job, cJSON *item, cJSON *parent, const cJSON *schema) {
    if (job->n == MOST_PLACES)
        return;
    schema = resolve(job, schema, item);
    job->places[job->n++] = (struct place){item, parent, schema};
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(schema, "items");
    cJSON *child;
    if (cJSON_IsObject(item) || cJSON_IsArray(item))
        cJSON_ArrayForEach(child, item)
            collect(job, child, item,
                    cJSON_IsArray(item) ? items : schema_of_member(schema, child->string));
}

/* ---- new values ---- */

static const double numbers[] = {
    0,      1,          -1,     2,          7,      255,    256,     65535,  65536,  2147483647,
    -1e308, 1e308,      5e-324, 1e-45,      0.5,    -0.5,   0.1,     3.4e38, 3.5e38, -2147483648.0,
    9.3e18, -9.3e18,    1.8e19, -0.0,       100,    4095,   1e-310,  99.99,  8,      16,
    0x1p32, 0x1p32 - 1, 0x1p53, 0x1p53 + 2, 0x1p63, 0x1p64, -0x1p63, 0x1p31, 12,     13};
static const char *const texts[] = {"",
                                    " ",
                                    "NaN",
                                    "-Infinity",
                                    "1e999",
                                    "p0",
                                    "p1",
                                    "p4294967295",
                                    "p4294967296",
                                    "p01",
                                    "\n",
                                    "\x1b[31m",
                                    "../../x",
                                    "%s%n",
                                    "\xc3\xa9",
                                    "\xff\xc0",
                                    "a\342\200\256b",
                                    "0",
                                    "-1",
                                    "18446744073709551615",
                                    "18446744073709551616",
                                    "9007199254740993",
                                    "0x1.8p+3",
                                    "float32",
                                    "int8",
                                    "observed",
                                    "activation",
                                    "symmetric",
                                    "percentile",
                                    "tidemark-profile"};

static cJSON *make_text(struct job *job, const cJSON *schema) {
    static const char hex[] = "0123456789abcdef";
    char text[80];
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(schema, "pattern");
    if (!cJSON_IsString(pattern) || one_in(job, 8)) {
        if (!one_in(job, 12))
            return cJSON_CreateString(texts[draw(job, TMK_COUNT(texts))]);
        char *longer = calloc(1, 3001);
        if (longer)
            memset(longer, 'a', 3000);
        cJSON *item = cJSON_CreateString(longer ? longer : "");
        free(longer);
        return item;
    }
    const char *p = pattern->valuestring;
    const size_t digits = strstr(p, "{16}") ? 16 : strstr(p, "{64}") ? 64 : 1 + draw(job, 20);
    size_t len = 0;
    if (strncmp(p, "^p", 2) == 0) {
        snprintf(text, sizeof text, "p%u", (unsigned)draw(job, one_in(job, 4) ? UINT32_MAX : 12));
        return cJSON_CreateString(text);
    }
    if (strncmp(p, "^0x", 3) == 0) {
        snprintf(text, sizeof text, "%a", numbers[draw(job, TMK_COUNT(numbers))]);
        return cJSON_CreateString(text);
    }
    if (strchr(p, '-') && p[1] == '-' && one_in(job, 2))
        text[len++] = '-';
    for (size_t i = 0; i < digits; i++)
        text[len++] = hex[draw(job, strstr(p, "a-f") ? 16 : 10)];
    text[len] = '\0';
    return cJSON_CreateString(text);
}

static cJSON *make_number(struct job *job, const cJSON *schema) {
    const cJSON *low = cJSON_GetObjectItemCaseSensitive(schema, "minimum"),
                *high = cJSON_GetObjectItemCaseSensitive(schema, "maximum");
    double number = numbers[draw(job, TMK_COUNT(numbers))];
    if (low && one_in(job, 3))
        number = low->valuedouble - (double)one_in(job, 3);
    else if (high && one_in(job, 3))
        number = high->valuedouble + (double)one_in(job, 3);
    else if (one_in(job, 2))
        number = (double)draw(job, 20);
    return cJSON_CreateNumber(number);
}

static cJSON *make_any(struct job *job) {
    switch (draw(job, 7)) {
    case 0:
        return cJSON_CreateNull();
    case 1:
        return cJSON_CreateBool(one_in(job, 2));
    case 2:
        return cJSON_CreateArray();
    case 3:
        return cJSON_CreateObject();
    case 4:
        return make_text(job, NULL);
    default:
        return make_number(job, NULL);
    }
}

static cJSON *make_value(struct job *job, const cJSON *schema, int depth);

static cJSON *make_array(struct job *job, const cJSON *schema, int depth) {
    const cJSON *least = cJSON_GetObjectItemCaseSensitive(schema, "minItems"),
                *items = cJSON_GetObjectItemCaseSensitive(schema, "items");
    cJSON *array = cJSON_CreateArray();
    uint64_t n = (least ? (uint64_t)least->valuedouble : 0) + draw(job, depth ? 2 : 3);
    for (; n; n--)
        cJSON_AddItemToArray(array, make_value(job, items, depth + 1));
    return array;
}

static bool is_required(const cJSON *schema, const char *key) {
    const cJSON *each;
    cJSON_ArrayForEach(each, cJSON_GetObjectItemCaseSensitive(schema, "required")) {
        if (strcmp(each->valuestring, key) == 0)
            return true;
    }
    return false;
}

static cJSON *make_object(struct job *job, const cJSON *schema, int depth) {
    cJSON *object = cJSON_CreateObject();
    const cJSON *each;
    cJSON_ArrayForEach(each, cJSON_GetObjectItemCaseSensitive(schema, "properties")) {
        if (is_required(schema, each->string) ? !one_in(job, 40) : one_in(job, 3))
            cJSON_AddItemToObject(object, each->string, make_value(job, each, depth + 1));
    }
    return object;
}

/* As the schema has it, most often. */
static cJSON *make_value(struct job *job, const cJSON *schema, int depth) {
    schema = resolve(job, schema, NULL);
    const cJSON *constant = cJSON_GetObjectItemCaseSensitive(schema, "const"),
                *names = cJSON_GetObjectItemCaseSensitive(schema, "enum"),
                *type = cJSON_GetObjectItemCaseSensitive(schema, "type");
    if (constant)
        return cJSON_Duplicate(constant, true);
    if (names)
        return cJSON_Duplicate(
            cJSON_GetArrayItem(names, (int)draw(job, (uint64_t)cJSON_GetArraySize(names))), true);
    if (cJSON_IsArray(type))
        type = cJSON_GetArrayItem(type, (int)draw(job, (uint64_t)cJSON_GetArraySize(type)));
    const char *name = cJSON_IsString(type) && depth < DEEPEST ? type->valuestring : "";
    if (strcmp(name, "object") == 0)
        return make_object(job, schema, depth);
    if (strcmp(name, "array") == 0)
        return make_array(job, schema, depth);
    if (strcmp(name, "string") == 0)
        return make_text(job, schema);
    if (strcmp(name, "boolean") == 0)
        return cJSON_CreateBool(one_in(job, 2));
    if (strcmp(name, "null") == 0)
        return cJSON_CreateNull();
    if (strcmp(name, "number") == 0 || strcmp(name, "integer") == 0)
        return make_number(job, schema);
    return make_any(job);
}

/* ---- steps ---- */

static void put_in_place(const struct place *at, cJSON *item, cJSON **root) {
    if (!item)
        return;
    if (!at->parent) {
        cJSON_Delete(*root);
        *root = item;
        return;
    }
    if (at->item->string) { /* which the new item gets */
        char *key = strdup(at->item->string);
        cJSON_Delete(cJSON_DetachItemViaPointer(at->parent, at->item));
        if (key)
            cJSON_AddItemToObject(at->parent, key, item);
        free(key);
        return;
    }
    cJSON_ReplaceItemViaPointer(at->parent, at->item, item);
}

/* A member that the schema knows and the object need not have; an element more. */
static void add_child(struct job *job, const struct place *at) {
    const cJSON *known = cJSON_GetObjectItemCaseSensitive(at->schema, "properties"), *each;
    if (cJSON_IsArray(at->item)) {
        const cJSON *items = cJSON_GetObjectItemCaseSensitive(at->schema, "items");
        cJSON_AddItemToArray(at->item, make_value(job, items, 1));
        return;
    }
    if (!cJSON_IsObject(at->item) || !known || !cJSON_GetArraySize(known))
        return;
    each = cJSON_GetArrayItem(known, (int)draw(job, (uint64_t)cJSON_GetArraySize(known)));
    if (!cJSON_HasObjectItem(at->item, each->string) || one_in(job, 8)) /* else: twice */
        cJSON_AddItemToObject(at->item, each->string, make_value(job, each, 1));
}

static void change_number(struct job *job, const struct place *at, cJSON **root) {
    double x = at->item->valuedouble;
    switch (draw(job, 5)) {
    case 0:
        x += 1;
        break;
    case 1:
        x -= 1;
        break;
    case 2:
        x = -x;
        break;
    case 3:
        x *= 2;
        break;
    default:
        x = numbers[draw(job, TMK_COUNT(numbers))];
    }
    put_in_place(at, cJSON_CreateNumber(x), root);
}

/* One of the same schema elsewhere, or of any. */
static void copy_from_elsewhere(struct job *job, const struct place *at, cJSON **root) {
    size_t from = draw(job, job->n);
    for (size_t i = 0; i < job->n && at->schema; i++) {
        const size_t k = (from + i) % job->n;
        if (job->places[k].schema == at->schema && job->places[k].item != at->item) {
            from = k;
            break;
        }
    }
    put_in_place(at, cJSON_Duplicate(job->places[from].item, true), root);
}

static void repeat(struct job *job, const struct place *at) {
    if (!cJSON_IsArray(at->parent))
        return;
    for (uint64_t n = one_in(job, 6) ? 20 : 1; n; n--)
        cJSON_AddItemToArray(at->parent, cJSON_Duplicate(at->item, true));
}

static void rename_member(struct job *job, const struct place *at) {
    if (!at->parent || !at->item->string)
        return;
    char key[96];
    snprintf(key, sizeof key, "%s%.60s", one_in(job, 2) ? "x-" : "", at->item->string);
    if (one_in(job, 2))
        snprintf(key, sizeof key, "%.60s", texts[draw(job, TMK_COUNT(texts))]);
    cJSON *item = cJSON_DetachItemViaPointer(at->parent, at->item);
    cJSON_AddItemToObject(at->parent, key, item);
}

/* Containers in containers. */
static void wrap(struct job *job, const struct place *at, cJSON **root) {
    cJSON *inner = cJSON_Duplicate(at->item, true);
    for (uint64_t n = one_in(job, 8) ? 990 : 1 + draw(job, 3); n && inner; n--) {
        cJSON *outer = cJSON_CreateArray();
        cJSON_AddItemToArray(outer, inner);
        inner = outer;
    }
    put_in_place(at, inner, root);
}

static void take_step(struct job *job, cJSON **root) {
    job->n = 0;
    collect(job, *root, NULL, job->root_schema);
    const struct place *at = &job->places[draw(job, job->n)];
    switch (draw(job, 14)) {
    case 0:
    case 1:
    case 2:
        put_in_place(at, make_value(job, at->schema, 1), root);
        break;
    case 3:
        put_in_place(at, make_any(job), root);
        break;
    case 4:
    case 5:
        if (at->parent)
            cJSON_Delete(cJSON_DetachItemViaPointer(at->parent, at->item));
        break;
    case 6:
    case 7:
        add_child(job, at);
        break;
    case 8:
        copy_from_elsewhere(job, at, root);
        break;
    case 9:
        repeat(job, at);
        break;
    case 10:
        rename_member(job, at);
        break;
    case 11:
        wrap(job, at, root);
        break;
    default:
        if (cJSON_IsNumber(at->item))
            change_number(job, at, root);
        else if (cJSON_IsString(at->item))
            put_in_place(at, make_text(job, at->schema), root);
        else
            add_child(job, at);
    }
}

static size_t find_kind(const char *target) {
    size_t i = 0;
    while (i < TMK_COUNT(kinds) && strcmp(kinds[i].target, target) != 0)
        i++;
    return i;
}

bool fuzz_has_mutator(const char *target) {
    return find_kind(target) < TMK_COUNT(kinds);
}

size_t fuzz_mutate(const char *target, uint8_t *data, size_t size, size_t most, unsigned seed) {
    static struct job job;
    const size_t kind = find_kind(target), skip = kinds[kind].skip;
    job.random = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    job.root_schema = load_schema(kinds[kind].schema);
    for (int i = 0; i < 4; i++)
        (void)draw(&job, 2);
    cJSON *root =
        size > skip ? cJSON_ParseWithLength((const char *)data + skip, size - skip) : NULL;
    if (!root || (job.root_schema && one_in(&job, 50))) {
        cJSON_Delete(root);
        root = make_value(&job, job.root_schema, 0);
    }
    for (uint64_t n = 1 + (one_in(&job, 3) ? draw(&job, MOST_STEPS) : 0); n && root; n--)
        take_step(&job, &root);
    char *text = root ? cJSON_PrintUnformatted(root) : NULL;
    cJSON_Delete(root);
    const size_t len = text ? strlen(text) : 0;
    const bool fits = text && len + skip <= most && size >= skip;
    if (fits)
        memcpy(data + skip, text, len);
    cJSON_free(text);
    return fits ? len + skip : 0;
}
