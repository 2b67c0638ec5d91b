/* SPDX-License-Identifier: Apache-2.0 */
/* The files that are read; see <tidemark/inputs.h>. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include <tidemark/inputs.h>

/* A file while it is open or mapped; zeroed: none. */
struct tmk_input {
    dev_t device;
    ino_t inode;
};

/* Remembers a regular file that was opened; false when memory ran out. */
bool tmk_input_add(const struct stat *st, struct tmk_input *out);
/* It is closed. Harmless on a zeroed one. */
void tmk_input_drop(struct tmk_input *input);
/* It was read to be replaced (a checkpoint), or it is a new file, whose inode a removed input may
 * have had. */
void tmk_input_forget(const struct stat *st);
/* Is this one of the files that are remembered? */
bool tmk_input_is(const struct stat *st);
