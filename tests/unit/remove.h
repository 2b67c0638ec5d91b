/* SPDX-License-Identifier: Apache-2.0 */
/* Removes a test's folder and the files in it. */
#pragma once

#include <dirent.h>
#include <unistd.h>

/* 0, or -1 where it is still there. */
static inline int remove_with_files(const char *folder) {
    DIR *d = opendir(folder);
    const struct dirent *entry;
    while (d && (entry = readdir(d)))
        unlinkat(dirfd(d), entry->d_name, 0);
    if (d)
        closedir(d);
    return rmdir(folder);
}
