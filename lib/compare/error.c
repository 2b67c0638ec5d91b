/* SPDX-License-Identifier: Apache-2.0 */
/* How far two tensors differ. Sums are made in the order of the elements, so that they do not
 * depend on threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/text.h"
#include "calib/encodings.h"
#include "compare/compare.h"
#include "compare/simulate.h"
#include "data/source.h"
#include "ops/ops.h"
#include "ops/quantized.h"
#include "tensor/shape.h"
#include "transform/model.h"

enum { BLOCK = 512 };

/* Float, or codes that an encoding turns into numbers. */
static bool has_numbers(const struct tmk_tensor *t, const struct tmk_encoding *e) {
    return t->dtype == TMK_FLOAT32 || (e && tmk_is_quantized(t->dtype));
}

/* Elements [first, first + n) of float32 or of codes: as numbers, and codes as integers. */
static void read_block(const struct tmk_tensor *t, const struct tmk_encoding *e,
                       const struct tmk_scale_layout *layout, size_t first, size_t n,
                       float *numbers, int32_t *codes) {
    if (t->dtype == TMK_FLOAT32) {
        for (size_t i = 0; i < n; i++)
            numbers[i] = ((const float *)t->data)[first + i];
        return;
    }
    tmk_quantized_widen(t, first, n, 0, codes);
    for (size_t i = 0; i < n; i++) {
        if (!e) {
            numbers[i] = (float)codes[i];
            continue;
        }
        const size_t c = tmk_scale_index(layout, first + i);
        numbers[i] = e->scale[c] * (float)((int64_t)codes[i] - e->zero_point[c]);
    }
}

static bool find_layout(const struct tmk_tensor *t, const struct tmk_encoding *e,
                        struct tmk_scale_layout *out) {
    *out = (struct tmk_scale_layout){.inner = 1, .dim = 1};
    return !e || tmk_scale_layout_init(out, e, &t->shape);
}

static void add_number(struct tmk_error_sums *sum, float x, float y) {
    const double a = (double)x, b = (double)y, error = fabs(a - b);
    if (!isfinite(x) || !isfinite(y))
        return;
    sum->n++;
    sum->left += a * a;
    sum->right += b * b;
    sum->product += a * b;
    sum->error += error * error;
    sum->most = error > sum->most ? error : sum->most;
}

static void add_code(struct tmk_error_sums *sum, int32_t x, int32_t y) {
    const int64_t difference = llabs((int64_t)x - y);
    sum->codes++;
    sum->equal += difference == 0;
    sum->code_error = difference > sum->code_error ? difference : sum->code_error;
}

/* But for leading axes of size 1, which QDQ files give to biases. */
static bool same_shape(const struct tmk_shape *a, const struct tmk_shape *b) {
    for (int32_t i = 1; i <= a->rank || i <= b->rank; i++)
        if ((i <= a->rank ? a->dim[a->rank - i] : 1) != (i <= b->rank ? b->dim[b->rank - i] : 1))
            return false;
    return true;
}

void tmk_error_add(struct tmk_error_sums *sum, const struct tmk_tensor *left,
                   const struct tmk_encoding *left_encoding, const struct tmk_tensor *right,
                   const struct tmk_encoding *right_encoding) {
    const bool codes = tmk_is_quantized(left->dtype) && tmk_is_quantized(right->dtype),
               numbers = has_numbers(left, left_encoding) && has_numbers(right, right_encoding);
    if (left->kind != TMK_TYPE_TENSOR || right->kind != TMK_TYPE_TENSOR || (!codes && !numbers))
        return;
    sum->numbers = sum->numbers || numbers;
    struct tmk_scale_layout left_scales, right_scales;
    if (!same_shape(&left->shape, &right->shape) ||
        !find_layout(left, left_encoding, &left_scales) ||
        !find_layout(right, right_encoding, &right_scales)) {
        sum->reshaped++;
        return;
    }
    const size_t count = tmk_tensor_count(left);
    float x[BLOCK], y[BLOCK];
    int32_t p[BLOCK], q[BLOCK];
    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t n = count - first < BLOCK ? count - first : BLOCK;
        read_block(left, left_encoding, &left_scales, first, n, x, p);
        read_block(right, right_encoding, &right_scales, first, n, y, q);
        for (size_t i = 0; i < n; i++) {
            const size_t c = tmk_scale_index(&right_scales, first + i);
            add_number(sum, x[i], y[i]);
            if (right_encoding)
                sum->clipped +=
                    x[i] < right_encoding->clip_min[c] || x[i] > right_encoding->clip_max[c];
            if (codes)
                add_code(sum, p[i], q[i]);
        }
    }
}

void tmk_error_merge(struct tmk_error_sums *sum, const struct tmk_error_sums *more) {
    sum->numbers = sum->numbers || more->numbers;
    sum->reshaped += more->reshaped;
    sum->n += more->n;
    sum->left += more->left;
    sum->right += more->right;
    sum->product += more->product;
    sum->error += more->error;
    sum->most = more->most > sum->most ? more->most : sum->most;
    sum->clipped += more->clipped;
    sum->codes += more->codes;
    sum->equal += more->equal;
    sum->code_error = more->code_error > sum->code_error ? more->code_error : sum->code_error;
}

double tmk_error_sqnr(const struct tmk_error_sums *errors) {
    return errors->error > 0 ? 10 * log10(errors->left / errors->error) : HUGE_VAL;
}

double tmk_error_cosine(const struct tmk_error_sums *errors) {
    const double lengths = sqrt(errors->left) * sqrt(errors->right);
    return lengths > 0 ? errors->product / lengths : errors->left == errors->right;
}

/* Predicted classes and right ones. */

/* ---- labels ---- */

enum { MOST_LABELS = 1 << 28 };

/* Whose elements class_at gives. */
static bool is_class_type(enum tmk_dtype dtype) {
    return tmk_dtype_is_integer(dtype) && tmk_dtype_size(dtype) && dtype != TMK_UINT64;
}

static int64_t class_at(const struct tmk_tensor *t, size_t i) {
    switch (t->dtype) {
    case TMK_UINT8:
        return ((const uint8_t *)t->data)[i];
    case TMK_INT8:
        return ((const int8_t *)t->data)[i];
    case TMK_UINT16:
        return ((const uint16_t *)t->data)[i];
    case TMK_INT16:
        return ((const int16_t *)t->data)[i];
    case TMK_UINT32:
        return ((const uint32_t *)t->data)[i];
    case TMK_INT32:
        return ((const int32_t *)t->data)[i];
    default:
        return ((const int64_t *)t->data)[i];
    }
}

static enum tmk_status read_array(struct tmk_source *source, uint32_t array, const char *what,
                                  struct tmk_labels *out, struct tmk_diag *diag) {
    const struct tmk_source_array *a = &tmk_source_info(source)->arrays[array];
    struct tmk_tensor t = {0};
    if (a->whole || !a->n_entries || a->n_entries > MOST_LABELS)
        return tmk_fail(diag, TMK_FORMAT, "%s: is no array of labels, one entry a sample", what);
    TMK_TRY(tmk_source_read(source, array, 0, a->n_entries, &t, diag));
    const size_t count = tmk_tensor_count(&t);
    enum tmk_status status = TMK_OK;
    int64_t *classes = malloc((count + 1) * sizeof *classes);
    if (!classes)
        status = tmk_nomem(diag);
    else if (!is_class_type(t.dtype) || !t.shape.rank || t.shape.dim[0] <= 0)
        status = tmk_fail(diag, TMK_TYPE, "%s: labels are integers, and these are %s", what,
                          tmk_dtype_name(t.dtype));
    if (status == TMK_OK) {
        for (size_t i = 0; i < count; i++)
            classes[i] = class_at(&t, i);
        out->classes = classes;
        out->n = (uint64_t)t.shape.dim[0];
        out->each = count / out->n;
    } else {
        free(classes);
    }
    tmk_tensor_finish(&t);
    return status;
}

/* Of integers, one entry a sample. */
static bool is_labels(const struct tmk_source_array *a) {
    return !a->whole && a->n_entries && a->n_entries <= MOST_LABELS && is_class_type(a->dtype);
}

/* The array of this name in a source of the data; *found: there was one. One that was not asked for
 * must look like labels. */
static enum tmk_status read_named(const char *path, const char *name, bool asked,
                                  struct tmk_labels *out, bool *found, struct tmk_diag *diag) {
    struct tmk_source *source = NULL;
    enum tmk_status status = TMK_OK;
    if (!tmk_ends_in(path, ".npz"))
        return TMK_OK;
    TMK_TRY(tmk_source_open(path, NULL, &source, diag));
    const struct tmk_source_info *info = tmk_source_info(source);
    for (uint32_t i = 0; !*found && status == TMK_OK && i < info->n_arrays; i++)
        if (strcmp(info->arrays[i].name, name) == 0 && (asked || is_labels(&info->arrays[i]))) {
            *found = true;
            status = read_array(source, i, name, out, diag);
        }
    tmk_source_close(&source);
    return status;
}

enum tmk_status tmk_labels_read(const struct tmk_run_options *run, const char *labels,
                                struct tmk_labels *out, struct tmk_diag *diag) {
    bool found = false;
    if (labels && tmk_ends_in(labels, ".npy")) {
        struct tmk_source *source = NULL;
        TMK_TRY(tmk_source_open(labels, NULL, &source, diag));
        enum tmk_status status = read_array(source, 0, labels, out, diag);
        tmk_source_close(&source);
        out->asked = true;
        return status;
    }
    for (size_t i = 0; !found && i < run->data.n_sources; i++) {
        const char *equals = strchr(run->data.sources[i], '=');
        TMK_TRY(read_named(equals ? equals + 1 : run->data.sources[i], labels ? labels : "labels",
                           labels != NULL, out, &found, diag));
    }
    out->asked = labels != NULL;
    return found || !labels
               ? TMK_OK
               : tmk_fail(diag, TMK_NOTFOUND,
                          "labels are a .npy file or the name of an array in an .npz of "
                          "the data; '%s' is neither",
                          labels);
}

void tmk_labels_finish(struct tmk_labels *labels) {
    free(labels->classes);
    *labels = (struct tmk_labels){0};
}

/* ---- predictions ---- */

/* Hidden states, which a normalization or a sum of results makes, compete with none: what does is
 * made by a product, be it with a bias, scaled, bounded or behind Softmax. */
static bool are_scores(const struct tmk_value *value) {
    while (value && value->producer) {
        const struct tmk_node *node = value->producer;
        const struct tmk_traits *traits = tmk_node_traits(node);
        const bool pointwise = traits->batch == TMK_BATCH_POINTWISE,
                   passes = tmk_traits_are(traits, TMK_TRAIT_MOVES | TMK_TRAIT_RECODES) &&
                            traits->class != TMK_OP_CONCAT;
        if (traits->product != TMK_PRODUCT_NONE)
            return true;
        if (!pointwise && !passes && traits->batch != TMK_BATCH_SOFTMAX)
            return false;
        value = NULL;
        for (uint32_t i = 0; i < node->n_inputs && (pointwise || i == 0); i++) {
            struct tmk_value *input = node->inputs[i];
            if (!input || tmk_is_weight(input))
                continue;
            if (value)
                return false;
            value = input;
        }
    }
    return false;
}

/* Where the classes of an output are. */
struct class_form {
    size_t classes; /* numbers of which the largest is the class; 1: the class itself; 0: none */
    size_t stride;  /* from one of them to the next */
    uint64_t positions;
};

static struct class_form form_along(const struct tmk_tensor *output, int32_t axis) {
    const size_t classes = (size_t)output->shape.dim[axis], count = tmk_tensor_count(output);
    struct class_form form = {classes, 1, classes ? count / classes : 0};
    for (int32_t i = axis + 1; i < output->shape.rank; i++)
        form.stride *= (size_t)output->shape.dim[i];
    return form;
}

static bool fits_labels(const struct tmk_labels *labels, uint64_t samples,
                        const struct class_form *form) {
    return labels->n && form->positions == labels->each * samples;
}

/* Integers are classes, as behind ArgMax. Floats have them along the last axis that is not 1, or,
 * where that many labels there are, along axis 1, as networks that classify pixels have them. Of
 * pictures only labels tell which axis is meant; of rows, how they are made. */
static struct class_form find_classes(const struct tmk_value *made, const struct tmk_tensor *output,
                                      const struct tmk_labels *labels, uint64_t samples) {
    const struct class_form none = {0};
    const struct tmk_shape *shape = &output->shape;
    if (is_class_type(output->dtype) && shape->rank > 0)
        return (struct class_form){1, 1, tmk_tensor_count(output)};
    int32_t axis = shape->rank - 1, wide = 0;
    while (axis > 0 && shape->dim[axis] == 1)
        axis--;
    for (int32_t i = 1; i < shape->rank; i++)
        wide += shape->dim[i] > 1;
    if (axis <= 0 || output->dtype != TMK_FLOAT32)
        return none;
    const struct class_form last = form_along(output, axis), first = form_along(output, 1);
    if (last.classes > 1 && fits_labels(labels, samples, &last))
        return last;
    if (first.classes > 1 && fits_labels(labels, samples, &first))
        return first;
    return (wide > 1 && (shape->rank > 3 || !are_scores(made))) || last.classes < 2 ? none : last;
}

static int64_t predicted_class(const struct tmk_tensor *output, uint64_t position,
                               const struct class_form *form) {
    if (form->classes == 1)
        return class_at(output, position);
    const float *x = (const float *)output->data +
                     position / form->stride * form->stride * form->classes +
                     position % form->stride;
    size_t best = 0;
    for (size_t i = 1; i < form->classes; i++)
        if (x[i * form->stride] > x[best * form->stride])
            best = i;
    return (int64_t)best;
}

/* TMK_MISMATCH: labels that were asked for cannot be compared with the output. */
static enum tmk_status check_labels(const struct tmk_labels *labels,
                                    const struct tmk_tensor *output, const struct class_form *form,
                                    uint64_t sample, uint64_t samples, struct tmk_diag *diag) {
    if (!labels->asked || !tmk_tensor_count(output))
        return TMK_OK;
    if (!form->classes)
        return tmk_fail(diag, TMK_MISMATCH,
                        "the first output, %s%s, has no classes that labels could be compared with "
                        "(%llu a sample)",
                        tmk_dtype_name(output->dtype), TMK_SHAPE_TEXT(&output->shape),
                        (unsigned long long)labels->each);
    if (!fits_labels(labels, samples, form))
        return tmk_fail(diag, TMK_MISMATCH,
                        "there are %llu labels a sample, and %llu predictions for %llu samples",
                        (unsigned long long)labels->each, (unsigned long long)form->positions,
                        (unsigned long long)samples);
    if (sample + samples > labels->n)
        return tmk_fail(diag, TMK_MISMATCH, "there are labels for %llu samples only",
                        (unsigned long long)labels->n);
    return TMK_OK;
}

enum tmk_status tmk_predictions_add(struct tmk_predictions *sum, const struct tmk_labels *labels,
                                    uint64_t sample, uint64_t samples, const struct tmk_value *made,
                                    const struct tmk_tensor *left, const struct tmk_tensor *right,
                                    struct tmk_diag *diag) {
    const struct class_form form = find_classes(made, left, labels, samples);
    const bool fits = fits_labels(labels, samples, &form) && sample + samples <= labels->n;
    TMK_TRY(check_labels(labels, left, &form, sample, samples, diag));
    if (!form.classes || left->dtype != right->dtype ||
        !tmk_shape_equal(&left->shape, &right->shape))
        return TMK_OK;
    for (uint64_t i = 0; i < form.positions; i++) {
        const int64_t a = predicted_class(left, i, &form), b = predicted_class(right, i, &form);
        sum->n++;
        sum->agree += a == b;
        if (!fits)
            continue;
        sum->labelled++;
        const int64_t right_one = labels->classes[sample * labels->each + i];
        sum->right_left += right_one == a;
        sum->right_right += right_one == b;
        sum->one_right += (right_one == a) != (right_one == b);
    }
    return TMK_OK;
}

void tmk_predictions_merge(struct tmk_predictions *sum, const struct tmk_predictions *more) {
    sum->n += more->n;
    sum->agree += more->agree;
    sum->labelled += more->labelled;
    sum->right_left += more->right_left;
    sum->right_right += more->right_right;
    sum->one_right += more->one_right;
}

/* ---- what they tell of other samples ---- */

/* Wilson's score interval. */
static struct tmk_share_interval interval_of(double part, double n) {
    static const double z2 = 1.959964 * 1.959964;
    const double share = part / n, middle = share + z2 / (2 * n),
                 half = sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n)));
    return (struct tmk_share_interval){fmax(0, (middle - half) / (1 + z2 / n)),
                                       fmin(1, (middle + half) / (1 + z2 / n))};
}

struct tmk_share_interval tmk_predictions_agreement(const struct tmk_predictions *p) {
    return p->n ? interval_of((double)p->agree, (double)p->n) : (struct tmk_share_interval){0, 1};
}

/* Newcombe (1998), method 10: Wilson's intervals of both shares, joined by the correlation of the
 * pairs. It is not 0 wide where no pair differs. */
struct tmk_share_interval tmk_predictions_change(const struct tmk_predictions *p) {
    const double n = (double)p->labelled, left = (double)p->right_left,
                 right = (double)p->right_right,
                 both = (left + right - (double)p->one_right) / 2, /* are right */
        spread = left * right * (n - left) * (n - right);
    if (!p->labelled)
        return (struct tmk_share_interval){-1, 1};
    double joint = both * (n - left - right + both) - (left - both) * (right - both);
    joint = joint > n / 2 ? joint - n / 2 : fmin(joint, 0);
    const double correlation = spread > 0 ? joint / sqrt(spread) : 0, change = (right - left) / n;
    const struct tmk_share_interval l = interval_of(left, n), r = interval_of(right, n);
    const double below[2] = {right / n - r.low, l.high - left / n},
                 above[2] = {r.high - right / n, left / n - l.low};
    return (struct tmk_share_interval){
        change - sqrt(fmax(0, below[0] * below[0] - 2 * correlation * below[0] * below[1] +
                                  below[1] * below[1])),
        change + sqrt(fmax(0, above[0] * above[0] - 2 * correlation * above[0] * above[1] +
                                  above[1] * above[1]))};
}
