/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"
#include "dist/team.h"

#include <stdlib.h>
#include <string.h>

#include <tidemark/dist.h>

#include "base/text.h"

static bool number_of(const char *name, uint32_t *out) {
    const char *text = getenv(name);
    uint64_t number;
    if (!text || !tmk_read_digits(text, strlen(text), &number) || number > UINT32_MAX)
        return false;
    *out = (uint32_t)number;
    return true;
}

struct tmk_launch tmk_launch_of_environment(void) {
    /* Open MPI's mpirun; MPICH's, Intel's and Slurm's pmi2; Slurm's and others' PMIx, which leaves
     * the size for MPI to ask. */
    static const struct {
        const char *rank, *size;
    } launchers[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                     {"PMI_RANK", "PMI_SIZE"},
                     {"PMIX_RANK", ""}};
    struct tmk_launch launch = {0};
    for (size_t i = 0; i < TMK_COUNT(launchers); i++)
        if (number_of(launchers[i].rank, &launch.rank)) {
            (void)number_of(launchers[i].size, &launch.size);
            launch.by_launcher = launch.size != 1;
            return launch;
        }
    return launch;
}

uint32_t tmk_team_launched_as(void) {
    return tmk_launch_of_environment().rank;
}
