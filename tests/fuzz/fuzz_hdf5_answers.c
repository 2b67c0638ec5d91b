/* SPDX-License-Identifier: Apache-2.0 */
/* The process that reads an HDF5 file, taken over: whatever it answers, and whatever stands in the
 * shared memory, the calling process is not harmed. The first byte: which answers are failures, or
 * of another length than is expected; the shared memory begins with the input. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/diag.h"
#include "fuzz.h"
#include "hdf5/ahead.h"

enum { MOST_BYTES = 1 << 20, MOST_COLUMNS = 4, MOST_PIECES = 4 };

struct game {
    struct tmk_hdf5 file;
    int other; /* end of the socket */
    const uint8_t *data;
    size_t size;
    uint8_t moods;
};

static void take_bytes(struct game *g, void *to, size_t len) {
    size_t n = len < g->size ? len : g->size;
    memset(to, 0, len);
    memcpy(to, g->data, n);
    g->data += n;
    g->size -= n;
}

/* An answer to what is going to be asked. */
static void say(struct game *g, enum tmk_hdf5_op op, size_t len) {
    struct {
        struct tmk_helper_answer head;
        unsigned char more[TMK_HELPER_MOST_MESSAGE];
    } message = {.head = {.op = op}};
    if (g->moods & 1) {
        message.head.outcome = TMK_HDF5_FAILED;
        take_bytes(g, message.head.why, sizeof message.head.why);
    }
    take_bytes(g, message.more, len);
    len += (g->moods & 2) != 0;
    g->moods = (uint8_t)(g->moods >> 2);
    (void)!send(g->other, &message, sizeof message.head + len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The requests, which are not read. */
static void forget(struct game *g) {
    char bytes[16];
    while (recv(g->other, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
}

static void look_around(struct game *g) {
    struct tmk_diag diag = {0};
    enum tmk_hdf5_kind kind;
    bool linked, found;
    char text[32];
    struct tmk_hdf5_member *members;
    uint32_t n;
    say(g, TMK_HDF5_LOOK, sizeof(struct tmk_hdf5_look));
    if (fuzz_ok(tmk_hdf5_look(&g->file, "/a", &kind, &linked, &diag), &diag))
        fuzz_check(kind < TMK_HDF5_N_KINDS, &diag);
    tmk_diag_reset(&diag);
    say(g, TMK_HDF5_LIST, sizeof(struct tmk_hdf5_count));
    if (fuzz_ok(tmk_hdf5_list(&g->file, "/", &members, &n, &diag), &diag)) {
        size_t len = 0;
        for (uint32_t i = 0; i < n; i++)
            len += strlen(members[i].name);
        fuzz_check(len <= TMK_HDF5_HALF, &diag);
        free(members);
    }
    tmk_diag_reset(&diag);
    say(g, TMK_HDF5_TEXT, sizeof(struct tmk_hdf5_count));
    if (fuzz_ok(tmk_hdf5_text(&g->file, "/a", "b", text, sizeof text, &found, &diag), &diag) &&
        found)
        fuzz_check(strlen(text) < sizeof text, &diag);
    forget(g);
}

static void read_some(struct game *g, struct tmk_hdf5_dataset *set) {
    struct tmk_diag diag = {0};
    uint8_t first, count;
    size_t bytes;
    take_bytes(g, &first, 1);
    take_bytes(g, &count, 1);
    if (!tmk_hdf5_size(set, count, &bytes) || bytes > MOST_BYTES)
        return;
    for (int i = 0; i < MOST_PIECES; i++)
        say(g, TMK_HDF5_READ, 0);
    unsigned char *to = malloc(bytes ? bytes : 1);
    if (to && fuzz_ok(tmk_hdf5_read(&g->file, set, first, count, to, &diag), &diag))
        fuzz_check(!set->rank || first + (uint64_t)count <= set->dim[0], &diag);
    free(to);
}

/* Its elements, then rows of them. */
static void read_set(struct game *g, struct tmk_hdf5_dataset *set) {
    static const struct tmk_hdf5_field field = {"a", TMK_HDF5_F32, 0, 8};
    struct tmk_diag diag = {0};
    say(g, TMK_HDF5_READ_AS, sizeof(struct tmk_hdf5_direct));
    if (!fuzz_ok(tmk_hdf5_read_as(&g->file, set, TMK_HDF5_F32, 0, &diag), &diag))
        return;
    read_some(g, set);
    forget(g);
    say(g, TMK_HDF5_ROWS_AS, 0);
    if (fuzz_ok(tmk_hdf5_rows_as(&g->file, set, &field, 1, 12, &diag), &diag))
        read_some(g, set);
    forget(g);
    tmk_diag_reset(&diag);
    say(g, TMK_HDF5_SHUT, 0);
    (void)fuzz_ok(tmk_hdf5_shut(&g->file, set, &diag), &diag);
}

static void open_sets(struct game *g) {
    struct tmk_diag diag = {0};
    static const char *const names[MOST_COLUMNS] = {"a", "b", "c", "d"};
    struct tmk_hdf5_element is[MOST_COLUMNS];
    struct tmk_hdf5_dataset set;
    say(g, TMK_HDF5_SET, sizeof(struct tmk_hdf5_set));
    if (!fuzz_ok(tmk_hdf5_dataset_open(&g->file, "/a", &set, &diag), &diag))
        return;
    fuzz_check(set.rank <= TMK_HDF5_MAX_RANK && set.element.size > 0, &diag);
    say(g, TMK_HDF5_COLUMNS, MOST_COLUMNS * sizeof(struct tmk_hdf5_type));
    (void)fuzz_ok(tmk_hdf5_columns(&g->file, &set, names, MOST_COLUMNS, is, &diag), &diag);
    read_set(g, &set);
}

FUZZ_TARGET(hdf5_answers) {
    int fd[2];
    struct tmk_diag diag = {0};
    struct game g = {.moods = fuzz_take(&data, &size), .data = data, .size = size};
    g.file.bytes.fd = -1;
    fuzz_check(tmk_infile_open(fuzz_file("x.h5", data, size), &g.file.bytes, &diag) == TMK_OK,
               &diag);
    g.file.process = (struct tmk_helper){
        .kind = &tmk_hdf5_helper, .owner = getpid(), .size = 2 * (size_t)TMK_HDF5_HALF};
    g.file.process.shared = mmap(NULL, 2 * (size_t)TMK_HDF5_HALF, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    fuzz_check(g.file.process.shared != MAP_FAILED, &diag);
    fuzz_check(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd) == 0, &diag);
    g.file.process.fd = fd[0];
    g.other = fd[1];
    memcpy(g.file.process.shared, data, size);
    look_around(&g);
    open_sets(&g);
    tmk_helper_end(&g.file.process);
    tmk_infile_close(&g.file.bytes);
    close(fd[1]);
    return 0;
}
