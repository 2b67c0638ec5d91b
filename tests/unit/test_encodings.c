/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidemark/encodings.h>

#include "base/file.h"
#include "base/text.h"
#include "calib/sample.h"
#include "folder.h"
#include "golden.h"

static struct tmk_encodings *sample(void) {
    struct tmk_diag diag = {0};
    struct tmk_encodings *all = NULL;
    assert_ok(sample_encodings(&all, &diag), &diag);
    return all;
}

static void assert_same_file(const char *a, const char *b) {
    size_t n_a, n_b;
    char *x = slurp(a, &n_a), *y = slurp(b, &n_b);
    assert_string_equal(x, y);
    assert_int_equal(n_a, n_b);
    free(x);
    free(y);
}

static void assert_same_item(const struct tmk_encoding *a, const struct tmk_encoding *b) {
    assert_int_equal(a->id, b->id);
    assert_int_equal(a->fingerprint, b->fingerprint);
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->role, b->role);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->symmetric, b->symmetric);
    assert_int_equal(a->narrow, b->narrow);
    assert_int_equal(a->pow2, b->pow2);
    assert_int_equal(a->axis, b->axis);
    assert_int_equal(a->n, b->n);
    const float *const ours[] = {a->scale, a->low, a->high, a->clip_min, a->clip_max};
    const float *const theirs[] = {b->scale, b->low, b->high, b->clip_min, b->clip_max};
    for (int i = 0; i < 5; i++)
        assert_memory_equal(ours[i], theirs[i], a->n * sizeof(float));
    assert_memory_equal(a->zero_point, b->zero_point, a->n * sizeof *a->zero_point);
    assert_memory_equal(&a->observed_min, &b->observed_min, sizeof(float));
    assert_memory_equal(&a->observed_max, &b->observed_max, sizeof(float));
    assert_string_equal(a->method, b->method);
    assert_string_equal(a->rule, b->rule);
    assert_int_equal(a->group, b->group);
    assert_int_equal(a->n_sources, b->n_sources);
    assert_memory_equal(a->sources, b->sources, sizeof a->sources);
    assert_int_equal(a->n_uses, b->n_uses);
    for (uint32_t i = 0; i < a->n_uses; i++) {
        assert_string_equal(a->uses[i].node, b->uses[i].node);
        assert_string_equal(a->uses[i].op, b->uses[i].op);
        assert_int_equal(a->uses[i].input, b->uses[i].input);
    }
    assert_int_equal(a->expected.known, b->expected.known);
    assert_int_equal(a->expected.codes, b->expected.codes);
    assert_int_equal(a->expected.flat, b->expected.flat);
    assert_memory_equal(&a->expected.mse, &b->expected.mse, 7 * sizeof(double));
    assert_memory_equal(&a->expected.flat_low, &b->expected.flat_low, 7 * sizeof(double));
}

TEST(test_everything_reads_back) {
    char one[128], two[128];
    struct tmk_encodings *a = sample(), *b = NULL;
    must(tmk_encodings_write(a, in_folder("one.json", one), DIAG));
    must(tmk_encodings_read(one, &b, DIAG));
    assert_string_equal(a->producer.version, b->producer.version);
    assert_string_equal(a->model.file, b->model.file);
    assert_string_equal(a->model.sha256, b->model.sha256);
    assert_string_equal(a->model.format, b->model.format);
    assert_int_equal(a->model.fingerprint, b->model.fingerprint);
    assert_int_equal(a->samples, b->samples);
    assert_int_equal(a->rounding, b->rounding);
    assert_int_equal(a->n_settings, b->n_settings);
    assert_string_equal(a->settings[0].value, b->settings[0].value);
    assert_int_equal(a->n_items, b->n_items);
    for (uint32_t i = 0; i < a->n_items; i++)
        assert_same_item(&a->items[i], &b->items[i]);
    assert_int_equal(a->n_left, b->n_left);
    for (uint32_t i = 0; i < a->n_left; i++) {
        assert_int_equal(a->left[i].id, b->left[i].id);
        assert_string_equal(a->left[i].reason, b->left[i].reason);
        assert_memory_equal(&a->left[i].observed_min, &b->left[i].observed_min, sizeof(float));
        assert_memory_equal(&a->left[i].observed_max, &b->left[i].observed_max, sizeof(float));
    }
    assert_int_equal(a->n_requants, b->n_requants);
    for (uint32_t i = 0; i < a->n_requants; i++) {
        const struct tmk_requant *r = &a->requants[i], *s = &b->requants[i];
        assert_int_equal(r->operand, s->operand);
        assert_int_equal(r->n, s->n);
        assert_memory_equal(r->real, s->real, r->n * sizeof *r->real);
        assert_memory_equal(r->multiplier, s->multiplier, r->n * sizeof *r->multiplier);
        assert_memory_equal(r->shift, s->shift, r->n * sizeof *r->shift);
        assert_memory_equal(&r->error, &s->error, sizeof r->error);
    }
    must(tmk_encodings_write(b, in_folder("two.json", two), DIAG));
    assert_same_file(one, two);
    tmk_encodings_destroy(&a);
    tmk_encodings_destroy(&b);
}

TEST(test_the_golden_file_is_what_we_write) {
    char path[128], name[64];
    size_t len;
    struct tmk_encodings *all = sample();
    must(tmk_encodings_write(all, in_folder("golden.json", path), DIAG));
    char *text = slurp(path, &len);
    snprintf(name, sizeof name, "encodings-%d.%d.json", TMK_ENCODINGS_MAJOR, TMK_ENCODINGS_MINOR);
    assert_golden(name, text, len);
    free(text);
    tmk_encodings_destroy(&all);
}

static const char header[] =
    "{\"format\":\"tidemark-encodings\",\"version\":{\"major\":1,\"minor\":0},"
    "\"producer\":{\"name\":\"me\"},\"model\":{\"file\":\"m\",\"graph_fingerprint\":"
    "\"0000000000000007\"},";

static enum tmk_status read_text(const char *text, struct tmk_encodings **out,
                                 struct tmk_diag *diag) {
    char path[128];
    assert_int_equal(tmk_file_write(in_folder("text.json", path), text, strlen(text), NULL),
                     TMK_OK);
    return tmk_encodings_read(path, out, diag);
}

TEST(test_by_hand_little_needs_to_be_said) {
    struct tmk_text text = {0};
    struct tmk_encodings *all = NULL;
    tmk_text_puts(&text, header);
    tmk_text_puts(&text, "\"encodings\":[{\"id\":\"p3\",\"fingerprint\":\"00000000000000ff\","
                         "\"name\":\"x\",\"role\":\"activation\",\"dtype\":\"uint8\",\"scheme\":"
                         "\"asymmetric\",\"scale\":[0.5],\"zero_point\":[3]}]}");
    must(read_text(text.data, &all, DIAG));
    const struct tmk_encoding *e = &all->items[0];
    assert_int_equal(all->n_items, 1);
    assert_int_equal(e->axis, -1);
    assert_true(e->clip_min[0] == -1.5f && e->clip_max[0] == 126.0f);
    assert_true(e->low[0] == -1.5f && e->high[0] == 126.0f);
    assert_true(e->observed_min == -1.5f && e->observed_max == 126.0f);
    assert_string_equal(e->method, "given");
    assert_string_equal(e->rule, "");
    assert_false(e->expected.known);
    assert_int_equal(all->n_left + all->n_requants + all->n_settings, 0);
    tmk_encodings_destroy(&all);
    tmk_text_finish(&text);
}

TEST(test_found_by_reader) {
    struct tmk_encodings *all = sample();
    assert_ptr_equal(tmk_encodings_find(all, 5, "add", 1), &all->items[3]);
    assert_ptr_equal(tmk_encodings_find(all, 5, "", 0), &all->items[3]);
    assert_ptr_equal(tmk_encodings_find(all, 5, "add", 0), &all->items[4]);
    assert_ptr_equal(tmk_encodings_find(all, 5, NULL, 0), &all->items[4]);
    assert_ptr_equal(tmk_encodings_find(all, 4294967295u, "add", 0), &all->items[6]);
    assert_null(tmk_encodings_find(all, 3, NULL, 0));
    tmk_encodings_destroy(&all);
}

/* What the first occurrence of a text becomes, and what the message must hold. */
static const struct {
    const char *old, *new, *says;
} wrong[] = {
    {"tidemark-encodings", "tidemark-profile", "is a profile, not a file of encodings"},
    {"\"major\":1", "\"major\":2", "version 2.0"},
    {"\"minor\":0", "\"minor\":-1", "'minor'"},
    {"\"rounding\":\"gemmlowp", "\"rounding\":\"gemm", "no rounding 'gemm_double'"},
    {"\"pow2_requant\":false", "\"pow2_requant\":0", "'pow2_requant'"},
    {"\"pow2_requant\":false", "\"pow2_requant\":true", "a power of two"},
    {"\"pow2_requant\":false", "\"pow2requant\":false", "unknown key 'pow2requant'"},
    {"\"x\":\"\"", "\"method\":\"\"", "'method' stands twice"},
    {"\"x\":\"\"", "\"x\":1", "'x' is not a string"},
    {"\"id\":\"p0\"", "\"id\":\"0\"", "encodings[0]: 'id'"},
    {"\"id\":\"p0\"", "\"id\":\"p2\"", "encodings[1]: 'id' is p1 behind p2"},
    {"\"id\":\"p2\"", "\"id\":\"p1\"", "encodings[2]: a second of p1"},
    {"\"id\":\"p3\"", "\"id\":\"p4\"", "left[1]: 'id' is p4 behind p4"},
    {"\"id\":\"p3\"", "\"id\":\"p0\"", "left[0]: p0 has an encoding"},
    {"\"role\":\"activation\"", "\"role\":\"act\"", "no role 'act'"},
    {"\"dtype\":\"uint8\"", "\"dtype\":\"uint9\"", "no type 'uint9'"},
    {"\"dtype\":\"uint8\"", "\"dtype\":\"float32\"", "nothing is quantized to float32"},
    {"\"scheme\":\"asymmetric\"", "\"scheme\":\"symmetric\"", "is 85, but symmetric uint8 has 128"},
    {"\"scheme\":\"asymmetric\"", "\"scheme\":\"none\"", "'scheme'"},
    {"\"narrow\":false", "\"narrow\":true", "'narrow': uint8"},
    {"\"pow2\":false", "\"pow2\":true", "no power of two"},
    {"\"scale\":[0.33333334]", "\"scale\":[0]", "'scale': entry 0 is not above 0"},
    {"\"scale\":[0.33333334]", "\"scale\":[-1]", "'scale': entry 0 is not above 0"},
    {"\"scale\":[0.33333334]", "\"scale\":[1e39]", "'scale': entry 0"},
    {"\"scale\":[0.33333334]", "\"scale\":[null]", "'scale': entry 0"},
    {"\"scale\":[0.33333334]", "\"scale\":[]", "'scale'"},
    {"\"scale\":[0.33333334]", "\"scale\":[1,1]", "'zero_point'"},
    {"\"scale\":[0.33333334]", "\"scale\":[1]", "'clip_min': entry 0 is not what"},
    {"\"zero_point\":[85]", "\"zero_point\":[256]", "is no code of uint8 (0 to 255)"},
    {"\"zero_point\":[85]", "\"zero_point\":[0.5]", "'zero_point': entry 0"},
    {"\"zero_point\":[85]", "\"zero_point\":[85,85]", "'zero_point'"},
    {"\"axis\":0", "\"axis\":null", "there are 3 scales"},
    {"\"axis\":0", "\"axis\":12", "'axis'"},
    {"\"low\":[-28.125]", "\"low\":[100]", "'low': entry 0 is above"},
    {"\"observed_min\":", "\"observed_max\":1,\"observed_min\":", "'observed_max' stands twice"},
    {"\"rule\":\"\",\"uses\"", "\"rule\":\"\",\"group\":7,\"uses\"",
     "'group' 7: p5 and p5 do not share"},
    {"\"zero_point\":[-3],", "\"zero_point\":[-3],\"pow2\":false,", "'pow2' stands twice"},
    {"\"sources\":[\"p0\",\"p1\"]", "\"sources\":[\"p0\"]", "'sources'"},
    {"\"sources\":[\"p0\",\"p1\"]", "\"sources\":[\"p0\",\"p1\",\"p2\"]", "'sources'"},
    {"\"uses\":[{\"node\":\"add\"", "\"uses\":[{\"node\":7", "uses[0]: 'node'"},
    {"\"codes\":255", "\"codes\":-1", "'codes'"},
    {"\"clipped\":1e-06", "\"clipped\":null", "'clipped'"},
    {"\"low_from\":-30", "\"low_from\":-27", "'low_from' is above"},
    {"\"low_from\":-30,", "", "'low_to' is missing or is not"},
    {"\"mse\":", "\"rms\":", "unknown key 'rms'"},
    {"\"operand\":0", "\"operand\":-2", "'operand'"},
    {"\"multiplier\":[2147483647", "\"multiplier\":[7", "'multiplier': entry 0"},
    {"\"shift\":[30,", "\"shift\":[31,", "'shift': entry 0"},
    {"\"shift\":[30,", "\"shift\":[", "'shift'"},
    {"\"real\":[\"0x", "\"real\":[\"-0x", "'real': entry 0"},
    {"\"real\":[\"0x1", "\"real\":[\"0x1z", "'real': entry 0"},
    {"\"error\":0.5", "\"error\":-0.5", "'error'"},
    {"\"left\":[", "\"left\":[7,", "left[0]: not an object"},
    {"\"observed_min\":null", "\"observed_min\":3", "left[0]: 'observed_min'"},
    {"{", "[", "not a JSON object"},
    {"\"encodings\":[", "\"encodings\":[[[", ""},
};

static char *replaced(const char *text, const char *old, const char *new) {
    const char *at = strstr(text, old);
    if (!at)
        fail_msg("the sample has no %s", old);
    struct tmk_text out = {0};
    tmk_text_append(&out, text, (size_t)(at - text));
    tmk_text_puts(&out, new);
    tmk_text_puts(&out, at + strlen(old));
    return out.data;
}

TEST(test_what_is_wrong_is_told) {
    char path[128];
    size_t len;
    struct tmk_encodings *all = sample();
    assert_int_equal(tmk_encodings_write(all, in_folder("sample.json", path), NULL), TMK_OK);
    tmk_encodings_destroy(&all);
    char *text = slurp(path, &len);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *bad = replaced(text, wrong[i].old, wrong[i].new);
        enum tmk_status status = read_text(bad, &all, DIAG);
        if (status != TMK_FORMAT && status != TMK_UNSUPPORTED)
            fail_msg("%s -> %s: %d", wrong[i].old, wrong[i].new, status);
        if (!strstr(test_diag.text, wrong[i].says) || !strstr(test_diag.text, "text.json: "))
            fail_msg("%s -> %s says: %s", wrong[i].old, wrong[i].new, test_diag.text);
        assert_null(all);
        free(bad);
    }
    free(text);
}

TEST(test_damaged_files_do_no_harm) {
    char path[128];
    size_t len, refused = 0;
    struct tmk_encodings *all = sample();
    assert_int_equal(tmk_encodings_write(all, in_folder("sample.json", path), NULL), TMK_OK);
    tmk_encodings_destroy(&all);
    char *text = slurp(path, &len);
    uint32_t random = 1;
    for (int i = 0; i < 1000; i++) {
        random = random * 1664525u + 1013904223u;
        size_t at = random % len;
        char was = text[at];
        text[at] = "\0 \"x9-[]{},:eE.\x80"[random >> 28];
        int rc = tmk_file_write(in_folder("text.json", path), text, i % 7 ? len : at, NULL);
        assert_int_equal(rc, TMK_OK);
        if (tmk_encodings_read(path, &all, DIAG) == TMK_OK) {
            tmk_encodings_destroy(&all);
        } else {
            refused++;
            assert_true(test_diag.text[0] && !strchr(test_diag.text, '\n'));
        }
        text[at] = was;
    }
    assert_true(refused > 500);
    free(text);
}

TEST(test_any_locale_writes_the_same) {
    char one[128], two[128];
    struct tmk_encodings *all = sample();
    must(tmk_encodings_write(all, in_folder("one.json", one), DIAG));
    const char *locale = setlocale(LC_ALL, "de_DE.UTF-8");
    must(tmk_encodings_write(all, in_folder("two.json", two), DIAG));
    tmk_encodings_destroy(&all);
    must(tmk_encodings_read(two, &all, DIAG));
    if (locale)
        setlocale(LC_ALL, "C");
    assert_same_file(one, two);
    tmk_encodings_destroy(&all);
}

GROUP_FIXTURE(make_folder, remove_folder)
