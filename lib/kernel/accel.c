/* SPDX-License-Identifier: Apache-2.0 */
/* Which family prepares a node, and what is the same for all of them. */
#include "kernel/accel.h"

#include <stdio.h>
#include <string.h>

#include <oneapi/dnnl/dnnl_debug.h>

#include "kernel/onednn.h"

/* OpenMP's header comes with the compiler, not with the library that oneDNN runs on; this is all
 * that is needed. */
extern void omp_set_num_threads(int threads);

static const struct tmk_family *const families[] = {
    &tmk_family_conv, &tmk_family_conv_transpose, &tmk_family_matmul,
    &tmk_family_gemm, &tmk_family_pool,
};

static const struct tmk_family *family_of(const struct tmk_node *node) {
    if (strcmp(node->domain, TMK_DOMAIN_ONNX) != 0)
        return NULL;
    for (size_t i = 0; i < TMK_COUNT(families); i++)
        if (families[i]->matches(node))
            return families[i];
    return NULL;
}

/* oneDNN's generated code has 32-bit offsets, in bytes. */
static bool suits(enum tmk_dtype dtype, const struct tmk_shape *shape) {
    size_t count;
    return dtype == TMK_FLOAT32 && tmk_shape_count(shape, &count) && count > 0 &&
           count <= INT32_MAX / sizeof(float);
}

static bool all_suit(const struct tmk_node *node, const struct tmk_tensor *const *in,
                     const struct tmk_infer_result *result) {
    if (!node->n_outputs || !node->outputs[0] || !result->known ||
        !suits(result->dtype, &result->shape))
        return false;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (in[i] && !suits(in[i]->dtype, &in[i]->shape))
            return false;
    return true;
}

/* User scratchpads let threads share a primitive; strict: no bfloat16 or TF32 in between. */
static dnnl_status_t make_attr(dnnl_primitive_attr_t *out) {
    dnnl_status_t status = dnnl_primitive_attr_create(out);
    if (status != dnnl_success)
        return status;
    status = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_fpmath_mode(*out, dnnl_fpmath_mode_strict);
    if (status != dnnl_success)
        dnnl_primitive_attr_destroy(*out);
    return status;
}

enum tmk_status tmk_accel_create(const struct tmk_node *node, const struct tmk_tensor *const *in,
                                 const struct tmk_infer_result *out_types, struct tmk_accel **out,
                                 struct tmk_diag *diag) {
    struct tmk_request request = {.family = family_of(node),
                                  .node = node,
                                  .in = in,
                                  .result = &out_types[0].shape,
                                  .diag = diag};
    struct tmk_accel *accel = NULL;
    enum tmk_status status;
    bool fits = request.family && all_suit(node, in, out_types);
    if (!fits) {
        *out = NULL;
        return TMK_OK;
    }
    status = tmk_dn_fits(dnnl_engine_create(&request.engine, dnnl_cpu, 0), &fits, diag);
    if (status == TMK_OK && fits) {
        status = tmk_dn_fits(make_attr(&request.attr), &fits, diag);
        if (status == TMK_OK && fits) {
            status = request.family->create(&request, &accel);
            dnnl_primitive_attr_destroy(request.attr);
        }
        if (accel)
            accel->owns_engine = true;
        else
            dnnl_engine_destroy(request.engine);
    }
    if (status == TMK_OK)
        *out = accel;
    return status;
}

const char *tmk_accel_name(const struct tmk_accel *accel) {
    return accel->name;
}

size_t tmk_accel_scratch(const struct tmk_accel *accel) {
    return accel->scratch;
}

enum tmk_status tmk_accel_run(const struct tmk_accel *accel, const struct tmk_tensor *const *in,
                              struct tmk_tensor *const *out, void *scratch, struct tmk_diag *diag) {
    return accel->family->run(accel, in, out, scratch, diag);
}

void tmk_kernel_enter_thread(void) {
    omp_set_num_threads(1);
}

const char *tmk_kernel_library(void) {
    static _Thread_local char text[64];
    static const char prefix[] = "cpu_isa_";
    const dnnl_version_t *version = dnnl_version();
    const char *isa = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());
    if (strncmp(isa, prefix, sizeof prefix - 1) == 0)
        isa += sizeof prefix - 1;
    snprintf(text, sizeof text, "oneDNN %d.%d.%d (%s)", version->major, version->minor,
             version->patch, isa);
    return text;
}
