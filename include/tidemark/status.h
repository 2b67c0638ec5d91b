/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes, and the text that goes with a failure.
 *
 * Every fallible function of the library returns enum tmk_status. Results go to out-parameters,
 * which are written only on TMK_OK. The numbers never change meaning between releases. */
#ifndef TIDEMARK_STATUS_H
#define TIDEMARK_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TMK_API __attribute__((visibility("default")))
#define TMK_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define TMK_API
#define TMK_PRINTF(fmt, args)
#endif

/* Of an enum: a call that returns it must be used, which compilers that can warn of it check. */
#if defined(__clang__)
#define TMK_NODISCARD __attribute__((warn_unused_result))
#elif defined(__GNUC__) && __GNUC__ >= 11
#define TMK_NODISCARD [[nodiscard]]
#else
#define TMK_NODISCARD
#endif

/* X(name, number, text) */
#define TMK_STATUS_LIST(X)                                                                         \
    X(OK, 0, "done")                                                                               \
    X(NOMEM, 1, "out of memory")                                                                   \
    X(WRITE, 2, "a file could not be written")                                                     \
    X(READ, 3, "a file could not be read")                                                         \
    X(FORMAT, 4, "malformed input")                                                                \
    X(UNSUPPORTED, 5, "not supported")                                                             \
    X(SHAPE, 6, "shapes do not fit")                                                               \
    X(TYPE, 7, "types do not fit")                                                                 \
    X(RANGE, 8, "a value is out of range")                                                         \
    X(GRAPH, 9, "the graph is not valid")                                                          \
    X(NOTFOUND, 10, "no such thing")                                                               \
    X(ARGUMENT, 11, "an argument is wrong")                                                        \
    X(MISMATCH, 12, "two things that must agree do not")                                           \
    X(GUARD, 13, "a guard observed a value that stops the run")                                    \
    X(INTERRUPTED, 14, "stopped on request")                                                       \
    X(MACHINE, 15, "the system refused (threads, limits)")                                         \
    X(LIMIT, 16, "a limit was exceeded")

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic" /* [[...]] before C23 */
#endif
enum TMK_NODISCARD tmk_status {
#define TMK_STATUS_ENUM(name, number, text) TMK_##name = number,
    TMK_STATUS_LIST(TMK_STATUS_ENUM)
#undef TMK_STATUS_ENUM
};
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* The first error's text: one line, "where: what is wrong; what would help".
 *
 * A diag belongs to its caller and is used by one thread at a time. Zero-initialise it (or
 * tmk_diag_reset) before the first call. The first failure writes the text; later ones leave it
 * alone; callers may put their place in front of it. A diag may be NULL: then
 * there is no text. */
struct tmk_diag {
    enum tmk_status status;
    char text[2048]; /* UTF-8, no control characters, always terminated */
};

/* Never NULL; an unknown number gives "unknown status". Thread-safe. */
TMK_API const char *tmk_status_text(enum tmk_status status);

/* Forgets the failure. */
TMK_API void tmk_diag_reset(struct tmk_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
