/* SPDX-License-Identifier: Apache-2.0 */
/* Linear models and support vector machines. */
#include <math.h>
#include <string.h>

#include "ops/ml.h"
#include "ops/functions.h"

/* A list of floats that has `least` or more entries. */
static enum tmk_status want_floats(const struct tmk_node *node, const char *name, size_t least,
                                   const float **out, struct tmk_diag *diag) {
    size_t n;
    *out = tmk_node_floats(node, name, &n);
    if (n >= least)
        return TMK_OK;
    return tmk_fail(diag, TMK_SHAPE, "attribute '%s' has %zu entries; %zu are needed", name, n,
                    least);
}

static size_t floats_in(const struct tmk_node *node, const char *name) {
    size_t n;
    (void)tmk_node_floats(node, name, &n);
    return n;
}

static float dot(const float *a, const float *b, size_t n) {
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* ---- LinearRegressor and LinearClassifier ---- */

struct linear {
    struct tmk_ml_rows rows;
    size_t targets, features;
    const float *weights, *intercepts; /* [targets,features]; [targets] or NULL */
    enum tmk_ml_transform transform;
    struct tmk_ml_labels labels; /* of a classifier */
    bool two;                    /* one target stands for two classes */
};

static enum tmk_status find_linear(const struct tmk_node *node, const struct tmk_tensor *x,
                                   bool classifies, struct linear *l, struct tmk_diag *diag) {
    size_t weights;
    const int64_t targets = tmk_node_int(node, "targets", 1);
    TMK_TRY(tmk_ml_rows_of(x, &l->rows, diag));
    TMK_TRY(tmk_ml_transform_of(node, &l->transform, diag));
    l->intercepts = tmk_node_floats(node, "intercepts", &l->targets);
    l->features = (size_t)l->rows.features;
    if (!classifies) {
        if (targets < 1 || targets > INT32_MAX)
            return tmk_fail(diag, TMK_RANGE, "attribute 'targets' is %lld", (long long)targets);
        if (l->targets != (size_t)targets) /* ONNX Runtime passes them over, too */
            l->intercepts = NULL;
        l->targets = (size_t)targets;
    } else {
        l->labels = tmk_ml_labels_of(node, "classlabels_ints");
        l->two = l->targets == 1 && l->labels.n == 2;
        if (!l->targets || (l->targets > 1 && l->labels.n < l->targets))
            return tmk_fail(diag, TMK_SHAPE, "%zu intercepts and %zu classes do not fit",
                            l->targets, l->labels.n);
    }
    if (!tmk_mul_size(l->targets, l->features, &weights))
        return tmk_fail(diag, TMK_RANGE, "%zu targets are too many", l->targets);
    return want_floats(node, "coefficients", weights, &l->weights, diag);
}

static void score_row(const struct linear *l, const float *x, float *scores) {
    for (size_t t = 0; t < l->targets; t++)
        scores[t] = dot(x, l->weights + t * l->features, l->features) +
                    (l->intercepts ? l->intercepts[t] : 0);
}

static enum tmk_status infer_regressor(struct tmk_infer *infer) {
    struct linear l = {0};
    TMK_TRY(find_linear(infer->node, infer->in[0], false, &l, infer->diag));
    const struct tmk_shape y = {2, {l.rows.n, (int64_t)l.targets}};
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &y);
}

static enum tmk_status run_regressor(struct tmk_run *run) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    struct linear l = {0};
    TMK_TRY(find_linear(run->node, run->in[0], false, &l, run->diag));
    TMK_TRY(tmk_ml_read(run, &l.rows));
    for (size_t r = 0; y && r < (size_t)l.rows.n; r++) {
        float *scores = (float *)y->data + r * l.targets;
        score_row(&l, l.rows.x + r * l.features, scores);
        tmk_ml_scores(scores, l.targets, l.transform, TMK_ML_NO_OTHER);
    }
    return TMK_OK;
}

static enum tmk_status infer_classifier(struct tmk_infer *infer) {
    struct linear l = {0};
    TMK_TRY(find_linear(infer->node, infer->in[0], true, &l, infer->diag));
    return tmk_ml_infer_classes(infer, &l.labels, l.rows.n, l.two ? 2 : (int64_t)l.targets);
}

static size_t largest(const float *x, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

static enum tmk_status run_classifier(struct tmk_run *run) {
    struct tmk_tensor *y = tmk_run_out(run, 0), *z = tmk_run_out(run, 1);
    struct linear l = {0};
    float *scores;
    TMK_TRY(find_linear(run->node, run->in[0], true, &l, run->diag));
    TMK_TRY(tmk_ml_read(run, &l.rows));
    TMK_TRY(tmk_scratch_floats(run, l.targets + 1, 1, 1, &scores));
    const size_t width = l.two ? 2 : l.targets;
    for (size_t r = 0; r < (size_t)l.rows.n; r++) {
        score_row(&l, l.rows.x + r * l.features, scores);
        const bool positive = scores[0] > 0;
        if (y)
            ((int64_t *)y->data)[r] = l.targets > 1 ? l.labels.ints[largest(scores, l.targets)]
                                      : l.two       ? l.labels.ints[positive]
                                                    : positive;
        if (!z)
            continue;
        tmk_ml_scores(scores, l.targets, l.transform, l.two ? TMK_ML_COMPLEMENT : TMK_ML_NO_OTHER);
        memcpy((float *)z->data + r * width, scores, width * sizeof *scores);
    }
    return TMK_OK;
}

/* ---- SVMRegressor and SVMClassifier ---- */

enum kernel { KERNEL_LINEAR, KERNEL_POLY, KERNEL_RBF, KERNEL_SIGMOID };

struct svm {
    struct tmk_ml_rows rows;
    enum kernel kernel;
    float gamma, coef0, degree;
    size_t features, vectors; /* vectors 0: a linear model */
    const float *support, *coefficients, *rho;
    /* Of a classifier. */
    struct tmk_ml_labels labels;
    enum tmk_ml_transform transform;
    size_t pairs;                 /* of classes */
    const int64_t *per_class;     /* [classes] vectors */
    const float *prob_a, *prob_b; /* [pairs], or NULL */
};

static enum tmk_status find_kernel(const struct tmk_node *node, const struct tmk_tensor *x,
                                   struct svm *s, struct tmk_diag *diag) {
    size_t n;
    int kernel;
    const float *params = tmk_node_floats(node, "kernel_params", &n);
    TMK_TRY(tmk_ml_rows_of(x, &s->rows, diag));
    TMK_TRY(tmk_choice(node, "kernel_type", "LINEAR POLY RBF SIGMOID", &kernel, diag));
    s->kernel = (enum kernel)kernel;
    s->gamma = n > 0 ? params[0] : 0;
    s->coef0 = n > 1 ? params[1] : 0;
    s->degree = n > 2 ? params[2] : 0;
    s->features = (size_t)s->rows.features;
    return TMK_OK;
}

/* Support vectors and coefficients: `rows` rows of one a vector, or, without vectors, of one a
 * feature. */
static enum tmk_status find_vectors(const struct tmk_node *node, struct svm *s, size_t rows,
                                    size_t rho, struct tmk_diag *diag) {
    size_t elements, weights;
    if (!tmk_mul_size(s->vectors, s->features, &elements) ||
        !tmk_mul_size(rows, s->vectors ? s->vectors : s->features, &weights))
        return tmk_fail(diag, TMK_RANGE, "%zu support vectors are too many", s->vectors);
    if (s->vectors && floats_in(node, "support_vectors") != elements)
        return tmk_fail(diag, TMK_SHAPE, "%zu numbers are not %zu support vectors of %zu features",
                        floats_in(node, "support_vectors"), s->vectors, s->features);
    TMK_TRY(want_floats(node, "support_vectors", elements, &s->support, diag));
    TMK_TRY(want_floats(node, "coefficients", weights ? weights : 1, &s->coefficients, diag));
    return want_floats(node, "rho", rho, &s->rho, diag);
}

static enum tmk_status find_svr(const struct tmk_node *node, const struct tmk_tensor *x,
                                struct svm *s, struct tmk_diag *diag) {
    const int64_t vectors = tmk_node_int(node, "n_supports", 0);
    TMK_TRY(find_kernel(node, x, s, diag));
    if (vectors < 0)
        return tmk_fail(diag, TMK_RANGE, "attribute 'n_supports' is %lld", (long long)vectors);
    s->vectors = (size_t)vectors;
    return find_vectors(node, s, 1, 1, diag);
}

static float apply_kernel(const struct svm *s, const float *a, const float *b) {
    float sum = 0;
    if (s->kernel == KERNEL_RBF) {
        for (size_t i = 0; i < s->features; i++)
            sum += (a[i] - b[i]) * (a[i] - b[i]);
        return tmk_expf(-s->gamma * sum);
    }
    sum = dot(a, b, s->features);
    if (s->kernel == KERNEL_LINEAR)
        return sum;
    sum = s->gamma * sum + s->coef0;
    return s->kernel == KERNEL_POLY ? (float)pow((double)sum, (double)s->degree) : tmk_tanhf(sum);
}

static enum tmk_status infer_svr(struct tmk_infer *infer) {
    struct svm s = {0};
    TMK_TRY(find_svr(infer->node, infer->in[0], &s, infer->diag));
    const struct tmk_shape y = {2, {s.rows.n, 1}};
    return tmk_infer_set(infer, 0, TMK_FLOAT32, &y);
}

static enum tmk_status run_svr(struct tmk_run *run) {
    struct tmk_tensor *y = tmk_run_out(run, 0);
    const bool one_class = tmk_node_int(run->node, "one_class", 0) != 0;
    struct svm s = {0};
    TMK_TRY(find_svr(run->node, run->in[0], &s, run->diag));
    TMK_TRY(tmk_ml_read(run, &s.rows));
    for (size_t r = 0; y && r < (size_t)s.rows.n; r++) {
        const float *x = s.rows.x + r * s.features;
        float sum = s.vectors ? 0 : dot(x, s.coefficients, s.features);
        for (size_t v = 0; v < s.vectors; v++)
            sum += s.coefficients[v] * apply_kernel(&s, x, s.support + v * s.features);
        sum += s.rho[0];
        ((float *)y->data)[r] = !one_class ? sum : sum > 0 ? 1.0f : -1.0f;
    }
    return TMK_OK;
}

static enum tmk_status find_svc(const struct tmk_node *node, const struct tmk_tensor *x,
                                struct svm *s, struct tmk_diag *diag) {
    size_t n;
    TMK_TRY(find_kernel(node, x, s, diag));
    TMK_TRY(tmk_ml_transform_of(node, &s->transform, diag));
    s->labels = tmk_ml_labels_of(node, "classlabels_ints");
    s->per_class = tmk_node_ints(node, "vectors_per_class", &n);
    if (!s->labels.n || s->labels.n > UINT16_MAX || (n && n != s->labels.n))
        return tmk_fail(diag, TMK_SHAPE, "%zu classes, and 'vectors_per_class' has %zu entries",
                        s->labels.n, n);
    for (size_t i = 0; i < n; i++) {
        if (s->per_class[i] < 0 || s->per_class[i] > INT32_MAX)
            return tmk_fail(diag, TMK_RANGE, "'vectors_per_class' holds %lld",
                            (long long)s->per_class[i]);
        s->vectors += (size_t)s->per_class[i];
    }
    if (!s->vectors)
        return find_vectors(node, s, s->labels.n, 1, diag);
    s->pairs = s->labels.n * (s->labels.n - 1) / 2;
    TMK_TRY(find_vectors(node, s, s->labels.n - 1, s->pairs, diag));
    if (!floats_in(node, "prob_a") && !floats_in(node, "prob_b"))
        return TMK_OK;
    TMK_TRY(want_floats(node, "prob_a", s->pairs, &s->prob_a, diag));
    return want_floats(node, "prob_b", s->pairs, &s->prob_b, diag);
}

static size_t scores_of(const struct svm *s) {
    return !s->vectors || s->prob_a || s->labels.n == 1 ? s->labels.n
           : s->labels.n == 2                           ? 2
                                                        : s->pairs;
}

static enum tmk_status infer_svc(struct tmk_infer *infer) {
    struct svm s = {0};
    TMK_TRY(find_svc(infer->node, infer->in[0], &s, infer->diag));
    return tmk_ml_infer_classes(infer, &s.labels, s.rows.n, (int64_t)scores_of(&s));
}

struct voting {
    float *kernels, *decisions; /* [vectors], [pairs] */
    float *r, *q, *qp;          /* [classes,classes] twice, and [classes] */
    uint32_t *votes;            /* [classes] */
};

/* The decision of every pair of classes, by those vectors that are of one of them. */
static void decide_pairs(const struct svm *s, const float *x, const struct voting *v) {
    const size_t n = s->labels.n;
    size_t pair = 0, first = 0;
    for (size_t i = 0; i < s->vectors; i++)
        v->kernels[i] = apply_kernel(s, x, s->support + i * s->features);
    memset(v->votes, 0, n * sizeof *v->votes);
    for (size_t i = 0; i + 1 < n; first += (size_t)s->per_class[i++]) {
        size_t second = first + (size_t)s->per_class[i];
        for (size_t j = i + 1; j < n; second += (size_t)s->per_class[j++], pair++) {
            const float *of_i = s->coefficients + s->vectors * (j - 1) + first,
                        *of_j = s->coefficients + s->vectors * i + second;
            double sum = 0;
            for (size_t k = 0; k < (size_t)s->per_class[i]; k++)
                sum += (double)(of_i[k] * v->kernels[first + k]);
            for (size_t k = 0; k < (size_t)s->per_class[j]; k++)
                sum += (double)(of_j[k] * v->kernels[second + k]);
            sum += (double)s->rho[pair];
            v->decisions[pair] = (float)sum;
            v->votes[sum > 0 ? i : j]++;
        }
    }
}

/* Probabilities p [n] of classes from those of pairs, r[i,j] that it is i of the two: the second
 * method of Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise
 * coupling", with LIBSVM's limits. */
static void couple_pairs(size_t n, const struct voting *v, float *p) {
    enum { ROUNDS = 100 };
    const float *r = v->r;
    float *q = v->q, *qp = v->qp;
    const float close = 0.005f / (float)n;
    for (size_t i = 0; i < n; i++) {
        p[i] = 1 / (float)n;
        q[i * n + i] = 0;
        for (size_t j = 0; j < n; j++)
            if (j != i) {
                q[i * n + i] += r[j * n + i] * r[j * n + i];
                q[i * n + j] = -r[j * n + i] * r[i * n + j];
            }
    }
    for (int round = 0; round < ROUNDS; round++) {
        float pqp = 0, most = 0;
        for (size_t i = 0; i < n; i++) {
            qp[i] = dot(q + i * n, p, n);
            pqp += p[i] * qp[i];
        }
        for (size_t i = 0; i < n; i++)
            most = fabsf(qp[i] - pqp) > most ? fabsf(qp[i] - pqp) : most;
        if (most < close)
            return;
        for (size_t i = 0; i < n; i++) {
            const float step = (pqp - qp[i]) / q[i * n + i], whole = 1 + step;
            p[i] += step;
            pqp = (pqp + step * (step * q[i * n + i] + 2 * qp[i])) / whole / whole;
            for (size_t j = 0; j < n; j++) {
                qp[j] = (qp[j] + step * q[i * n + j]) / whole;
                p[j] /= whole;
            }
        }
    }
}

static void find_probabilities(const struct svm *s, const struct voting *v, float *p) {
    const size_t n = s->labels.n;
    size_t pair = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++, pair++) {
            float of = 1 - tmk_ml_logistic(v->decisions[pair] * s->prob_a[pair] + s->prob_b[pair]);
            of = of < 1e-7f ? 1e-7f : of > 1 - 1e-7f ? 1 - 1e-7f : of;
            v->r[i * n + j] = of;
            v->r[j * n + i] = 1 - of;
        }
    couple_pairs(n, v, p);
}

static enum tmk_status take_voting(struct tmk_run *run, const struct svm *s, struct voting *v) {
    const size_t n = s->labels.n, square = s->prob_a ? n : 1;
    v->votes = tmk_scratch(run, n, sizeof *v->votes);
    TMK_TRY_ALLOC(v->votes, run->diag);
    TMK_TRY(tmk_scratch_floats(run, s->vectors, 1, 1, &v->kernels));
    TMK_TRY(tmk_scratch_floats(run, s->pairs, 1, 1, &v->decisions));
    TMK_TRY(tmk_scratch_floats(run, square, n, 1, &v->r));
    TMK_TRY(tmk_scratch_floats(run, square, n, 1, &v->q));
    return tmk_scratch_floats(run, n, 1, 1, &v->qp);
}

/* The class of a linear machine; of two, by the sign or the half of the larger score. */
static size_t linear_class(const struct svm *s, const float *scores, bool positive) {
    const size_t best = largest(scores, s->labels.n);
    if (s->labels.n == 2 && (positive ? scores[best] >= 0.5f : scores[best] > 0))
        return 1;
    return best;
}

static enum tmk_status run_svc(struct tmk_run *run) {
    struct tmk_tensor *y = tmk_run_out(run, 0), *z = tmk_run_out(run, 1);
    struct svm s = {0};
    struct voting v = {0};
    float *scores;
    TMK_TRY(find_svc(run->node, run->in[0], &s, run->diag));
    TMK_TRY(tmk_ml_read(run, &s.rows));
    TMK_TRY(take_voting(run, &s, &v));
    const size_t n = s.labels.n, width = scores_of(&s);
    TMK_TRY(tmk_scratch_floats(run, width + 1, 1, 1, &scores));
    bool positive = true;
    for (size_t i = 0; i < floats_in(run->node, "coefficients"); i++)
        positive = positive && s.coefficients[i] >= 0;
    for (size_t r = 0; r < (size_t)s.rows.n; r++) {
        const float *x = s.rows.x + r * s.features;
        size_t class = 0, given = width;
        enum tmk_ml_other other = TMK_ML_NO_OTHER;
        if (!s.vectors) {
            for (size_t i = 0; i < n; i++)
                scores[i] = dot(x, s.coefficients + i * s.features, s.features) + s.rho[0];
            class = linear_class(&s, scores, positive);
        } else {
            decide_pairs(&s, x, &v);
            for (size_t i = 1; i < n; i++)
                class = v.votes[i] > v.votes[class] ? i : class;
            if (s.prob_a)
                find_probabilities(&s, &v, scores);
            else if (n == 1)
                scores[0] = 0;
            else
                memcpy(scores, v.decisions, s.pairs * sizeof *scores);
            if (!s.prob_a && n == 2) {
                given = 1;
                other = s.transform == TMK_ML_NONE ? TMK_ML_NEGATION : TMK_ML_COMPLEMENT;
            }
        }
        if (y)
            ((int64_t *)y->data)[r] = s.labels.ints[class];
        if (!z)
            continue;
        tmk_ml_scores(scores, given, s.transform, other);
        memcpy((float *)z->data + r * width, scores, width * sizeof *scores);
    }
    return TMK_OK;
}

static double cost_vectors(const struct tmk_node *node, const struct tmk_tensor *const *in,
                           const struct tmk_tensor *out) {
    size_t vectors, weights;
    (void)out;
    (void)tmk_node_floats(node, "support_vectors", &vectors);
    (void)tmk_node_floats(node, "coefficients", &weights);
    const double rows = in[0]->shape.rank == 2 ? (double)in[0]->shape.dim[0] : 1;
    return rows * 2 * ((double)vectors + (double)weights);
}

#define SVM_ATTRS                                                                                  \
    "coefficients:floats kernel_params:floats kernel_type:string post_transform:string "           \
    "rho:floats "                                                                                  \
    "support_vectors:floats"

const struct tmk_op tmk_ops_ml_linear[] = {
    {TMK_OP_KEY(TMK_DOMAIN_ML, "LinearRegressor", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .channel = TMK_CHANNEL_LAST,
     .attrs = "coefficients:floats intercepts:floats post_transform:string targets:int",
     .infer = infer_regressor, .run = run_regressor, .cost = cost_vectors},
    {TMK_OP_KEY(TMK_DOMAIN_ML, "LinearClassifier", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 2),
     .attrs = "classlabels_ints:ints classlabels_strings:strings coefficients:floats! "
              "intercepts:floats multi_class:int post_transform:string",
     .infer = infer_classifier, .run = run_classifier, .cost = cost_vectors},
    {TMK_OP_KEY(TMK_DOMAIN_ML, "SVMRegressor", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 1),
     .channel = TMK_CHANNEL_LAST, .attrs = SVM_ATTRS " n_supports:int one_class:int",
     .infer = infer_svr, .run = run_svr, .cost = cost_vectors},
    {TMK_OP_KEY(TMK_DOMAIN_ML, "SVMClassifier", 1, INT32_MAX), TMK_OP_COUNTS(1, 1, 1, 2),
     .attrs = SVM_ATTRS " classlabels_ints:ints classlabels_strings:strings prob_a:floats "
                        "prob_b:floats vectors_per_class:ints",
     .infer = infer_svc, .run = run_svc, .cost = cost_vectors},
    {NULL}};
