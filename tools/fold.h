/* SPDX-License-Identifier: Apache-2.0 */
/* BatchNormalization into the convolutions before it, as runtimes do before they quantize. */
#ifndef TMK_TOOLS_FOLD_H
#define TMK_TOOLS_FOLD_H

#include <tidemark/model.h>

/* The file of the folded model; zero-initialised: there is none. */
struct folded {
    const char *path; /* NULL: the model was not changed */
    char folder[512], file[1024];
    uint32_t before, after; /* BatchNormalizations */
};
/* Replaces *model, read from `path`, by one that computes the same with less nodes, and writes that
 * to `keep` (NULL: a folder for temporary files). Without a BatchNormalization, or where none can
 * be folded, *model stays. */
TMK_NODISCARD enum tmk_status fold_model(struct tmk_model **model, const char *path,
                                         const char *params, const char *keep, struct folded *out,
                                         struct tmk_diag *diag);
/* Errors of the temporary file become those of the file that it was made of. */
void name_original(const struct folded *folded, const char *path, struct tmk_diag *diag);
/* Removes the temporary file. */
void finish_folded(struct folded *folded);

#endif
