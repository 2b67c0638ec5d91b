/* SPDX-License-Identifier: Apache-2.0 */
#include "dist/team.h"

#include <errno.h>
#include <stdlib.h>

#include <tidemark/dist.h>

static bool number_of(const char *name, uint32_t *out) {
    const char *text = getenv(name);
    char *end;
    if (!text || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    unsigned long number = strtoul(text, &end, 10);
    if (errno || *end || number > UINT32_MAX)
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
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
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
