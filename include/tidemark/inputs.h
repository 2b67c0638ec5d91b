/* SPDX-License-Identifier: Apache-2.0 */
/* No output replaces an input.
 *
 * The library remembers which files it reads, by device and inode, so that links and other names
 * of a file make no difference. Whatever writes a file fails with TMK_ARGUMENT, and writes nothing,
 * where the file that it would replace is one of them. A file is remembered
 *
 * - as long as it is open or mapped (a model's file and its external data until tmk_model_close);
 * - during a call of the library that both reads and writes files;
 * - from tmk_inputs_begin to tmk_inputs_end.
 *
 * The memory of files is global, for all objects of the library together. All calls are
 * thread-safe. */
#ifndef TIDEMARK_INPUTS_H
#define TIDEMARK_INPUTS_H

#include <stdbool.h>

#include <tidemark/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From now on all files that are read are remembered; after as many ends as begins only those that
 * are open. */
TMK_API void tmk_inputs_begin(void);
TMK_API void tmk_inputs_end(void);

/* Do both paths lead to one file, through links and descriptors (/dev/stdin, /proc/self/fd/3)?
 * Where there is no file yet: to one name in one folder. NULL leads nowhere. Pipes, devices and
 * folders are no files here. */
TMK_API bool tmk_same_file(const char *a, const char *b);

/* Could a file be written there? To be asked before what takes long. Status as of writing it.
 * endings: of the names of such files, with spaces between them ("json"); another format's is
 * TMK_ARGUMENT. NULL: any will do. */
TMK_API enum tmk_status tmk_can_write(const char *path, const char *endings, struct tmk_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
