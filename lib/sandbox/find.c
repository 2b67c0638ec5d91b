/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/size.h"
#include "sandbox/helper.h"
#include "tmk_version.h"

/* Seen from the folder that this code is in: build folders; installed as TMK_HELPER_FOLDERS has it
 * (lib/meson.build). */
static const char *const folders[] = {"", "../lib/", "../../lib/", TMK_HELPER_FOLDERS};

/* The file that has this code: the shared library, or what the static one is linked into. */
static bool find_own_file(char path[PATH_MAX], FILE *maps) {
    const uintptr_t here = (uintptr_t)&tmk_helper_find;
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    while (!found && getline(&line, &size, maps) > 0) {
        uintptr_t begin, end;
        const char *name = strchr(line, '/');
        found = sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2 && begin <= here &&
                here < end;
        if (found) {
            if (!name || strlen(name) >= PATH_MAX)
                break;
            snprintf(path, PATH_MAX, "%.*s", (int)strcspn(name, "\n"), name);
        }
    }
    const bool named = found && path[0] == '/';
    free(line);
    return named;
}

static bool is_safe(const char *path, uid_t owner) {
    struct stat is;
    return stat(path, &is) == 0 && S_ISREG(is.st_mode) && !(is.st_mode & S_IWOTH) &&
           (is.st_uid == 0 || is.st_uid == owner);
}

enum tmk_status tmk_helper_find(const char *program, char path[PATH_MAX], struct tmk_diag *diag) {
    char own[PATH_MAX] = "";
    struct stat is;
    const char *folder = secure_getenv("TIDEMARK_LIBEXEC");
    if (folder && *folder) {
        if (snprintf(path, PATH_MAX, "%s/%s", folder, program) < PATH_MAX &&
            access(path, X_OK) == 0)
            return TMK_OK;
        return tmk_fail(diag, TMK_MACHINE, "%s is not in '%s', which TIDEMARK_LIBEXEC names",
                        program, folder);
    }
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return tmk_fail(diag, TMK_MACHINE, "no process for %s: /proc/self/maps: %s", program,
                        strerror(errno));
    const bool known = find_own_file(own, maps);
    fclose(maps);
    if (known && stat(own, &is) == 0) {
        *strrchr(own, '/') = '\0';
        for (size_t i = 0; i < TMK_COUNT(folders); i++) {
            const char *base = folders[i][0] == '/' ? "" : own,
                       *slash = folders[i][0] == '/' ? "" : "/";
            if (snprintf(path, PATH_MAX, "%s%s%s%s", base, slash, folders[i], program) < PATH_MAX &&
                is_safe(path, is.st_uid))
                return TMK_OK;
        }
    }
    return tmk_fail(diag, TMK_MACHINE,
                    "%s is not found beside the library; TIDEMARK_LIBEXEC may name its folder",
                    program);
}
