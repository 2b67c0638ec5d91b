/* SPDX-License-Identifier: Apache-2.0 */
/* Files that appear whole or not at all, one or several at a time. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/inputs.h"
#include "base/text.h"

enum {
    MOST_LINKS = 40, /* from link to link: more is a circle */
    MOST_NAMES = 100,
    OLD_SECONDS = 24 * 60 * 60,
    ALL_MODES = 0666
};

static enum tmk_status cannot_write(const struct tmk_outfile *out, struct tmk_diag *diag) {
    return tmk_fail(diag, TMK_WRITE, "%s: cannot be written: %s", out->path, strerror(errno));
}

/* ---- where it goes ---- */

/* The number of /dev/fd/NUMBER and its other names; -1: it is none of them. */
static int own_descriptor(const char *path) {
    static const char *const names[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    for (int i = 0; i < 3; i++)
        if (strcmp(path, names[i]) == 0)
            return i;
    for (int i = 0; i < 2; i++) {
        size_t len = strlen(folders[i]);
        char *end;
        if (strncmp(path, folders[i], len) != 0 || path[len] < '0' || path[len] > '9')
            continue;
        long number = strtol(path + len, &end, 10);
        if (!*end && number <= 0xffff)
            return (int)number;
    }
    return -1;
}

/* Signals and some network file systems interrupt any call. */
#define AGAIN(answer, call)                                                                        \
    do                                                                                             \
        (answer) = (call);                                                                         \
    while ((answer) < 0 && errno == EINTR)

static int open_again(int folder, const char *name, int flags, mode_t mode) {
    int fd;
    AGAIN(fd, openat(folder, name, flags | O_CLOEXEC, mode));
    return fd;
}

/* What the link `name` in the folder says. -1 with errno: EINVAL means that it is no link, EACCES
 * that another user put it into a folder where all may write, such as /tmp (as the system refuses
 * to follow it, with fs.protected_symlinks). */
static ssize_t read_link_in(int folder, const char *name, char *text, size_t size) {
    struct stat of_folder, of_link;
    const int fd = open_again(folder, name, O_PATH | O_NOFOLLOW, 0);
    if (fd < 0)
        return -1;
    ssize_t n = -1;
    if (fstat(fd, &of_link) != 0 || fstat(folder, &of_folder) != 0)
        n = -1;
    else if (!S_ISLNK(of_link.st_mode))
        errno = EINVAL;
    else if ((of_folder.st_mode & S_ISVTX) && (of_folder.st_mode & S_IWOTH) &&
             of_link.st_uid != geteuid() && of_link.st_uid != of_folder.st_uid)
        errno = EACCES;
    else
        n = readlinkat(fd, "", text, size);
    const int error = errno;
    close(fd);
    errno = error;
    return n;
}

/* What the link at `path` says, seen from here. NULL with errno.
 *
 * Links are read one by one, and not followed by openat2: the folder of what the last one leads to
 * is wanted, where the name may not exist yet. The new file then replaces that name in the folder
 * that was opened, and follows no link that is put there meanwhile. */
static char *read_link(const char *path) {
    char text[4096];
    const char *last = strrchr(path, '/');
    char *stem_text = last ? strndup(path, (size_t)(last - path) + 1) : strdup(".");
    const int folder = stem_text ? open_again(AT_FDCWD, stem_text, O_PATH | O_DIRECTORY, 0) : -1;
    free(stem_text);
    if (folder < 0)
        return NULL;
    ssize_t n = read_link_in(folder,
                             last && last[1] ? last + 1
                             : last          ? "."
                                             : path,
                             text, sizeof text);
    const int error = errno;
    close(folder);
    errno = error;
    if (n < 0)
        return NULL;
    if (n == (ssize_t)sizeof text) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    const char *slash = text[0] == '/' ? NULL : last;
    size_t stem = slash ? (size_t)(slash - path) + 1 : 0;
    char *to = malloc(stem + (size_t)n + 1);
    if (!to)
        return NULL;
    memcpy(to, path, stem);
    memcpy(to + stem, text, (size_t)n);
    to[stem + (size_t)n] = '\0';
    return to;
}

/* The path behind all links; there need be nothing. NULL with errno. */
static char *follow_links(const char *path) {
    char *at = strdup(path);
    for (int links = 0; at && own_descriptor(at) < 0; links++) {
        char *next = links < MOST_LINKS ? read_link(at) : NULL;
        if (!next && links < MOST_LINKS && (errno == EINVAL || errno == ENOENT))
            return at;
        if (!next && links == MOST_LINKS)
            errno = ELOOP;
        int error = errno;
        free(at);
        errno = error;
        at = next;
    }
    return at;
}

static bool remove_name(int folder, const char *name) {
    int answer;
    AGAIN(answer, unlinkat(folder, name, 0));
    return answer == 0;
}

/* ---- names for the meantime ---- */

static bool choose_name(char name[TMK_TEMPORARY_SIZE]) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    unsigned char random[TMK_TEMPORARY_SIZE - sizeof TMK_TEMPORARY];
    size_t stem = sizeof TMK_TEMPORARY - 1;
    ssize_t n;
    AGAIN(n, getrandom(random, sizeof random, 0));
    if (n != (ssize_t)sizeof random)
        return false;
    memcpy(name, TMK_TEMPORARY, stem);
    for (size_t i = 0; i < sizeof random; i++)
        name[stem + i] = letters[random[i] % 32];
    name[stem + sizeof random] = '\0';
    return true;
}

static bool is_temporary(const char *name) {
    return strlen(name) + 1 == TMK_TEMPORARY_SIZE &&
           strncmp(name, TMK_TEMPORARY, sizeof TMK_TEMPORARY - 1) == 0;
}

/* What processes left that died; no output takes a day from begin to commit. */
static void remove_old(int folder) {
    struct stat st;
    struct dirent *entry;
    int fd = open_again(folder, ".", O_RDONLY | O_DIRECTORY, 0);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0)
        close(fd);
    while (dir && (entry = readdir(dir)))
        if (is_temporary(entry->d_name) &&
            fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            time(NULL) - st.st_mtime > OLD_SECONDS)
            (void)remove_name(folder, entry->d_name);
    if (dir)
        closedir(dir);
}

/* Gives the bytes without a name one. False with errno. */
static bool give_name(const struct tmk_outfile *out, const char *name) {
    char bytes[32];
    int answer;
    snprintf(bytes, sizeof bytes, "/proc/self/fd/%d", out->fd);
    AGAIN(answer, linkat(AT_FDCWD, bytes, out->folder, name, AT_SYMLINK_FOLLOW));
    return answer == 0;
}

static bool give_temporary_name(struct tmk_outfile *out) {
    char name[TMK_TEMPORARY_SIZE];
    remove_old(out->folder);
    for (int i = 0; i < MOST_NAMES; i++) {
        if (!choose_name(name))
            return false;
        if (give_name(out, name)) {
            memcpy(out->temporary, name, sizeof name);
            return true;
        }
        if (errno != EEXIST)
            return false;
    }
    return false;
}

static bool create_named(struct tmk_outfile *out, mode_t mode) {
    remove_old(out->folder);
    for (int i = 0; i < MOST_NAMES; i++) {
        if (!choose_name(out->temporary))
            break;
        out->fd = open_again(out->folder, out->temporary, O_WRONLY | O_CREAT | O_EXCL, mode);
        if (out->fd >= 0)
            return true;
        if (errno != EEXIST)
            break;
    }
    out->temporary[0] = '\0';
    return false;
}

/* Can bytes without a name be given one later? It takes /proc. */
static bool is_shown(int fd) {
    char bytes[32];
    snprintf(bytes, sizeof bytes, "/proc/self/fd/%d", fd);
    return access(bytes, F_OK) == 0;
}

static bool create_temporary(struct tmk_outfile *out, mode_t mode) {
    out->fd = open_again(out->folder, ".", O_TMPFILE | O_WRONLY, mode);
    if (out->fd >= 0 && is_shown(out->fd))
        return true;
    if (out->fd >= 0)
        close(out->fd);
    else if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT)
        return false; /* it supports such files, and has no space for one */
    return create_named(out, mode);
}

/* ---- begin ---- */

/* `target` is no link. `st` is what is there, or NULL. */
static bool begin_file(const char *target, const struct stat *st, struct tmk_outfile *out) {
    const char *slash = strrchr(target, '/'), *name = slash ? slash + 1 : target;
    if (st && S_ISDIR(st->st_mode))
        errno = EISDIR;
    else if (!*name)
        errno = *target ? EISDIR : ENOENT;
    else if (strlen(name) > 255)
        errno = ENAMETOOLONG; /* reported now, not at the end */
    else
        errno = 0;
    if (errno)
        return false;
    char *folder = slash ? strndup(target, (size_t)(slash - target) + 1) : strdup(".");
    out->name = strdup(name);
    out->folder = folder && out->name ? open_again(AT_FDCWD, folder, O_PATH | O_DIRECTORY, 0) : -1;
    free(folder);
    const mode_t mode = st ? st->st_mode & 0777 : ALL_MODES;
    struct stat made;
    if (out->folder < 0 || !create_temporary(out, mode))
        return false;
    if (fstat(out->fd, &made) == 0)
        tmk_input_forget(&made);
    int answer = 0;
    if (st)
        AGAIN(answer, fchmod(out->fd, mode));
    (void)answer; /* a file system without modes keeps its own */
    return true;
}

static bool begin_stream(const char *target, const struct stat *st, struct tmk_outfile *out) {
    if (!S_ISFIFO(st->st_mode) && !S_ISCHR(st->st_mode)) {
        errno = ENXIO; /* a disk is never the intended output */
        return false;
    }
    out->fd = open_again(AT_FDCWD, target, O_WRONLY | O_NOCTTY, 0);
    return out->fd >= 0;
}

/* No file replaces one that is read, or is written into it. */
static const int IS_INPUT = -1;

/* False with errno, or IS_INPUT for errno. */
static bool begin_temporary(const char *path, struct tmk_outfile *out) {
    struct stat st;
    char *target = follow_links(path);
    if (!target)
        return false;
    const int own = own_descriptor(target);
    const bool there = (own >= 0 ? fstat(own, &st) : stat(target, &st)) == 0;
    bool done = false;
    if (there && tmk_input_is(&st)) {
        errno = IS_INPUT;
    } else if (own >= 0) {
        out->fd = fcntl(own, F_DUPFD_CLOEXEC, 0);
        done = out->fd >= 0;
    } else if (there || errno == ENOENT) {
        done = there && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)
                   ? begin_stream(target, &st, out)
                   : begin_file(target, there ? &st : NULL, out);
    }
    free(target);
    return done;
}

static void end_temporary(struct tmk_outfile *out) {
    int error = errno;
    if (out->fd >= 0)
        close(out->fd);
    if (out->folder >= 0)
        close(out->folder);
    free(out->path);
    free(out->name);
    *out = (struct tmk_outfile){.fd = -1, .folder = -1};
    errno = error;
}

enum tmk_status tmk_outfile_begin(const char *path, struct tmk_outfile *out,
                                  struct tmk_diag *diag) {
    struct tmk_outfile file = {.path = strdup(path), .fd = -1, .folder = -1};
    TMK_TRY_ALLOC(file.path, diag);
    if (begin_temporary(path, &file)) {
        *out = file;
        return TMK_OK;
    }
    enum tmk_status status =
        errno == ENOMEM ? tmk_nomem(diag)
        : errno == IS_INPUT
            ? tmk_fail(diag, TMK_ARGUMENT, "%s is an input, and is not written over", path)
            : cannot_write(&file, diag);
    end_temporary(&file);
    return status;
}

/* ---- write ---- */

/* A pipe that does not wait has no reader: this process is one. */
static void wait_for_room(int fd) {
    struct pollfd one = {.fd = fd, .events = POLLOUT};
    (void)poll(&one, 1, -1);
}

enum tmk_status tmk_outfile_write(struct tmk_outfile *out, const void *bytes, size_t len,
                                  struct tmk_diag *diag) {
    const char *p = bytes;
    while (len > 0) {
        ssize_t n = write(out->fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            wait_for_room(out->fd);
            continue;
        }
        if (n == 0)
            errno = ENOSPC; /* it takes no more, and gives no reason */
        if (n <= 0)
            return cannot_write(out, diag);
        p += n;
        len -= (size_t)n;
    }
    return TMK_OK;
}

/* ---- commit ---- */

/* A refusal is none of the disk's: what can't be flushed was never late. */
static bool flush_bytes(const struct tmk_outfile *out) {
    int answer;
    AGAIN(answer, fsync(out->fd));
    return answer == 0 || errno == EINVAL || errno == ENOTSUP ||
           (errno == EROFS && out->folder < 0);
}

/* Some file systems refuse; the renaming itself has happened. */
static void flush_folder(const struct tmk_outfile *out) {
    int fd = open_again(out->folder, ".", O_RDONLY | O_DIRECTORY, 0);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

/* What was there before, and so how to take it back. */
enum before { NOTHING, ASIDE, LOST };

static bool rename_it(const struct tmk_outfile *out, unsigned flags) {
    int answer;
    AGAIN(answer, renameat2(out->folder, out->temporary, out->folder, out->name, flags));
    return answer == 0;
}

/* `back`: what is there may be wanted back; it keeps the temporary name. */
static bool put_in_place(struct tmk_outfile *out, bool back, enum before *before) {
    *before = NOTHING;
    if (out->folder < 0)
        return true;
    if (!out->temporary[0]) {
        if (give_name(out, out->name))
            return true;
        if (errno != EEXIST || !give_temporary_name(out))
            return false;
    }
    if (back && rename_it(out, RENAME_EXCHANGE)) {
        *before = ASIDE;
        return true;
    }
    if (back && errno != ENOENT && errno != EINVAL && errno != ENOSYS)
        return false;
    *before = back && errno != ENOENT ? LOST : NOTHING;
    if (!rename_it(out, 0))
        return false;
    out->temporary[0] = '\0';
    return true;
}

/* False: it can't be. */
static bool take_back(struct tmk_outfile *out, enum before before) {
    if (out->folder < 0)
        return false;
    if (before == ASIDE)
        return rename_it(out, RENAME_EXCHANGE);
    return before == NOTHING && remove_name(out->folder, out->name);
}

/* The first n are in their places, the next could not be put there (errno). */
static enum tmk_status take_all_back(struct tmk_outfile *files, const enum before *before, size_t n,
                                     struct tmk_diag *diag) {
    const int error = errno;
    struct tmk_text kept = {0};
    for (size_t i = n; i-- > 0;)
        if (!take_back(&files[i], before[i]))
            tmk_text_printf(&kept, "%s%s", kept.len ? ", " : "; already written: ", files[i].path);
    enum tmk_status status = tmk_fail(diag, TMK_WRITE, "%s: cannot be written: %s%s", files[n].path,
                                      strerror(error), kept.data ? kept.data : "");
    tmk_text_finish(&kept);
    return status;
}

static void forget_names(struct tmk_outfile *out) {
    if (out->temporary[0])
        (void)remove_name(out->folder, out->temporary);
    out->temporary[0] = '\0';
}

/* A signal that ends the program waits until all are there. */
static enum tmk_status put_all_in_place(struct tmk_outfile *files, enum before *before, size_t n,
                                        struct tmk_diag *diag) {
    enum tmk_status status = TMK_OK;
    sigset_t all, kept;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &kept);
    for (size_t i = 0; status == TMK_OK && i < n; i++)
        if (!put_in_place(&files[i], n > 1, &before[i]))
            status = take_all_back(files, before, i, diag);
    for (size_t i = 0; i < n; i++)
        forget_names(&files[i]); /* what keeps a temporary name now is not wanted */
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    return status;
}

void tmk_outfile_abort(struct tmk_outfile *out) {
    if (!out->path)
        return;
    forget_names(out);
    end_temporary(out);
}

enum tmk_status tmk_outfiles_commit(struct tmk_outfile *files, size_t n, struct tmk_diag *diag) {
    enum tmk_status status = TMK_OK;
    enum before *before = calloc(n + 1, sizeof *before);
    if (!before)
        status = tmk_nomem(diag);
    for (size_t i = 0; status == TMK_OK && i < n; i++)
        if (!flush_bytes(&files[i]))
            status = cannot_write(&files[i], diag);
    TMK_THEN(status, put_all_in_place(files, before, n, diag));
    free(before);
    for (size_t i = 0; i < n; i++) {
        if (status == TMK_OK && files[i].folder >= 0)
            flush_folder(&files[i]);
        tmk_outfile_abort(&files[i]);
    }
    return status;
}

enum tmk_status tmk_outfile_commit(struct tmk_outfile *out, struct tmk_diag *diag) {
    return tmk_outfiles_commit(out, 1, diag);
}

/* ---- the rest ---- */

/* Which file a path leads to; where there is none, of which folder and name it would be. */
struct place {
    struct stat st;
    char *name; /* NULL: there is a file */
};

static bool find_place(const char *path, struct place *out) {
    char *target = path ? follow_links(path) : NULL;
    *out = (struct place){0};
    if (!target)
        return false;
    const int own = own_descriptor(target);
    bool found = (own >= 0 ? fstat(own, &out->st) : stat(target, &out->st)) == 0;
    if (found) {
        found = S_ISREG(out->st.st_mode);
    } else if (own < 0 && errno == ENOENT) {
        char *slash = strrchr(target, '/');
        out->name = strdup(slash ? slash + 1 : target);
        if (slash)
            slash[1] = '\0';
        found = out->name && stat(slash ? target : ".", &out->st) == 0;
    }
    free(target);
    return found;
}

bool tmk_same_file(const char *a, const char *b) {
    struct place x, y = {0};
    const bool same = find_place(a, &x) && find_place(b, &y) && x.st.st_dev == y.st.st_dev &&
                      x.st.st_ino == y.st.st_ino && !x.name == !y.name &&
                      (!x.name || strcmp(x.name, y.name) == 0);
    free(x.name);
    free(y.name);
    return same;
}

bool tmk_path_is_stream(const char *path) {
    struct stat st;
    char *target = follow_links(path);
    const bool own = target && own_descriptor(target) >= 0;
    free(target);
    return own || (stat(path, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)));
}

enum tmk_status tmk_outfile_check(const char *path, struct tmk_diag *diag) {
    struct tmk_outfile out = {.path = (char *)(uintptr_t)path};
    struct stat st;
    if (stat(path, &st) == 0 && S_ISFIFO(st.st_mode)) /* opened twice, it ends for its reader */
        return access(path, W_OK) == 0 ? TMK_OK : cannot_write(&out, diag);
    TMK_TRY(tmk_outfile_begin(path, &out, diag));
    tmk_outfile_abort(&out);
    return TMK_OK;
}

static bool has_word(const char *words, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = words; *at; at += strspn(at, " ")) {
        const size_t len = strcspn(at, " ");
        if (len == n && strncasecmp(at, word, n) == 0)
            return true;
        at += len;
    }
    return false;
}

enum tmk_status tmk_check_ending(const char *path, const char *endings, struct tmk_diag *diag) {
    static const char formats[] =
        "bin csv engine gguf h5 hdf5 htm html jpeg jpg json jsonl keras md mlmodel npy npz onnx "
        "param params pb pdf pkl png pt pt2 pth relay safetensors svg tflite trt txt xml yaml yml "
        "zip";
    const char *name = tmk_base_name(path), *dot = strrchr(name, '.');
    if (!dot || dot == name || has_word(endings, dot + 1) || !has_word(formats, dot + 1))
        return TMK_OK;
    return tmk_fail(diag, TMK_ARGUMENT, "%s: this output is not written as %s; name it .%.*s", path,
                    dot, (int)strcspn(endings, " "), endings);
}

enum tmk_status tmk_can_write(const char *path, const char *endings, struct tmk_diag *diag) {
    if (endings)
        TMK_TRY(tmk_check_ending(path, endings, diag));
    return tmk_outfile_check(path, diag);
}

enum tmk_status tmk_files_write(const struct tmk_file_content *files, size_t n,
                                struct tmk_diag *diag) {
    struct tmk_outfile *outs = calloc(n + 1, sizeof *outs);
    enum tmk_status status = outs ? TMK_OK : tmk_nomem(diag);
    for (size_t i = 0; status == TMK_OK && i < n; i++)
        status = tmk_outfile_begin(files[i].path, &outs[i], diag);
    for (size_t i = 0; status == TMK_OK && i < n; i++)
        status = tmk_outfile_write(&outs[i], files[i].bytes, files[i].len, diag);
    TMK_THEN(status, tmk_outfiles_commit(outs, n, diag));
    for (size_t i = 0; outs && i < n; i++)
        tmk_outfile_abort(&outs[i]);
    free(outs);
    return status;
}

enum tmk_status tmk_file_write(const char *path, const void *bytes, size_t len,
                               struct tmk_diag *diag) {
    return tmk_files_write(&(struct tmk_file_content){path, bytes, len}, 1, diag);
}
