/* SPDX-License-Identifier: Apache-2.0 */
/* Damages Relay files and reads them.
 *
 *   relay_damage N FILE...
 *
 * N damaged copies altogether, always the same ones, of texts and of .params files. Each must give
 * a module that prints and reads back equal, and becomes a graph or is refused, or one line that
 * begins with the place; what is held in memory must be a small multiple of the input. Prints what
 * came of them. */
#include <ctype.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "relay/relay.h"
#include "relay_equal.h"

enum { MULTIPLE = 64, SLACK = 1 << 20 };

static uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);

static size_t random_below(size_t n) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return n ? (size_t)(seed % n) : 0;
}

struct bytes {
    char *data;
    size_t len;
};

/* `from` with `n` bytes in place of at most `drop`. */
static struct bytes splice(struct bytes from, size_t at, size_t drop, const char *add, size_t n) {
    if (drop > from.len - at)
        drop = from.len - at;
    struct bytes to = {malloc(from.len - drop + n + 1), from.len - drop + n};
    if (!to.data)
        exit(4);
    memcpy(to.data, from.data, at);
    memcpy(to.data + at, add, n);
    memcpy(to.data + at + n, from.data + at + drop, from.len - at - drop);
    to.data[to.len] = '\0';
    free(from.data);
    return to;
}

/* What can stand in a text, in places where it can't. */
static const char *const words[] = {
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ";",
    ":",
    "=",
    "%0",
    "%x",
    "@main",
    "fn ",
    "let %y = ",
    "if (",
    "def",
    "free_var ",
    "->",
    "\"",
    "/*",
    "*/",
    "//",
    "-",
    "1f",
    "3",
    "99999999999999",
    ".0",
    "meta[relay.Constant][0]",
    "meta[a][1]",
    "#[metadata]",
    "METADATA:",
    "True",
    "Tensor[(1), int8]",
    "\n",
    "\0",
    "\xff",
    "inff",
    "/* ty=int8 */",
    "+",
    "v0.0.4",
    "\\",
    "#[version = \"0.0.5\"]",
};

static struct bytes damage_text(struct bytes text, size_t body) {
    /* the section is mostly base64: look at its first lines more often than at its numbers */
    size_t range = random_below(4) ? body : random_below(2) ? text.len : text.len / 4;
    if (range > text.len)
        range = text.len;
    size_t at = random_below(range + 1);
    const char *word = words[random_below(sizeof words / sizeof words[0])];
    char flipped;
    switch (random_below(6)) {
    case 0:
        return splice(text, at, random_below(8), "", 0);
    case 1:
        return splice(text, at, 0, word, word[0] ? strlen(word) : 1);
    case 2:
        return splice(text, at, 1, word, word[0] ? strlen(word) : 1);
    case 3:
        return splice(text, at, SIZE_MAX, "", 0); /* cut */
    case 4: {
        size_t from = random_below(range + 1), n = random_below(60);
        if (n > text.len - from)
            n = text.len - from;
        char piece[60];
        memcpy(piece, text.data + from, n);
        return splice(text, at, 0, piece, n);
    }
    default:
        flipped = (char)((at < text.len ? text.data[at] : 0) ^ (1 << random_below(8)));
        return splice(text, at, 1, &flipped, 1);
    }
}

/* Half of the damage hits the names and the first headers. */
static struct bytes damage_params(struct bytes bytes) {
    size_t range = random_below(2) || bytes.len < 400 ? bytes.len : 400;
    size_t at = random_below(range);
    char byte = (char)random_below(256);
    static const char extremes[][9] = {"\xff\xff\xff\xff\xff\xff\xff\xff", "\0\0\0\0\0\0\0\0",
                                       "\xff\xff\xff\xff\xff\xff\xff\x7f", "\0\0\0\0\0\0\0\x80",
                                       "\0\0\0\0\1\0\0\0"};
    switch (random_below(5)) {
    case 0:
        return splice(bytes, at, SIZE_MAX, "", 0);
    case 1:
        return splice(bytes, at, 1, "", 0);
    case 2:
        return splice(bytes, at, 0, &byte, 1);
    case 3:
        at = at > 8 ? at - 8 : 0;
        return splice(bytes, at, 8, extremes[random_below(5)], 8);
    default:
        return splice(bytes, at, 1, &byte, 1);
    }
}

static size_t held(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* One line that begins with this and a digit. */
static bool has_place(const char *text, const char *place) {
    return !strncmp(text, place, strlen(place)) && isdigit((unsigned char)text[strlen(place)]) &&
           !strchr(text, '\n');
}

/* The graph executor's JSON has no lines: a message has the file, and mostly a node. */
static bool has_file(const char *text) {
    return has_place(text, "damaged:") || (!strncmp(text, "damaged: ", 9) && !strchr(text, '\n'));
}

/* A damaged module becomes a graph, or is refused with a reason; with what is not known kept, or
 * not. */
static const char *check_graph(struct tmk_relay_module *module, struct tmk_diag *diag) {
    for (int keep = 0; keep < 2; keep++) {
        struct tmk_graph *graph = NULL;
        tmk_diag_reset(diag);
        if (tmk_relay_lower(module, NULL, keep, &graph, diag) != TMK_OK && !diag->text[0])
            return "no reason";
        tmk_graph_destroy(&graph);
    }
    return NULL;
}

static const char *check_text(struct bytes text, bool *good, struct tmk_diag *diag) {
    struct tmk_relay_module *module = NULL, *again = NULL;
    struct tmk_text printed = {0};
    size_t before = held();
    enum tmk_status status = tmk_relay_parse(text.data, text.len, "damaged", &module, diag);
    bool much = held() > before + MULTIPLE * text.len + SLACK;
    bool json = text.data[strspn(text.data, " \t\r\n")] == '{';
    const char *wrong = NULL;
    *good = status == TMK_OK;
    if (much)
        wrong = "too much memory";
    else if (json && (status == TMK_FORMAT || status == TMK_UNSUPPORTED))
        wrong = has_file(diag->text) ? NULL : "no place";
    else if (status != TMK_OK)
        wrong = status == TMK_FORMAT && has_place(diag->text, "damaged:") ? NULL : "no place";
    else if (json)
        wrong = NULL; /* its names may be none of Relay text */
    else if (tmk_relay_print(module, &printed, diag) != TMK_OK)
        wrong = "does not print";
    else if (tmk_relay_parse(printed.data, printed.len, "printed", &again, diag) != TMK_OK)
        wrong = "does not read back";
    else if (!relay_equal(module, again, true, diag))
        wrong = "reads back as something else";
    if (status == TMK_OK && !wrong)
        wrong = check_graph(module, diag);
    tmk_text_finish(&printed);
    tmk_relay_module_destroy(&module);
    tmk_relay_module_destroy(&again);
    return wrong;
}

static const char *check_params(struct bytes bytes, bool *good, struct tmk_diag *diag) {
    struct tmk_relay_params *params = NULL;
    struct tmk_text printed = {0};
    size_t before = held();
    enum tmk_status status =
        tmk_relay_params_parse(bytes.data, bytes.len, "damaged", &params, diag);
    bool much = held() > before + MULTIPLE * bytes.len + SLACK;
    const char *wrong = NULL;
    *good = status == TMK_OK;
    if (much)
        wrong = "too much memory";
    else if (status != TMK_OK)
        wrong = status == TMK_FORMAT && has_place(diag->text, "damaged: byte ") ? NULL : "no place";
    else if (tmk_relay_params_print(params, &printed, diag) != TMK_OK || printed.len != bytes.len ||
             memcmp(printed.data, bytes.data, bytes.len) != 0)
        wrong = "prints other bytes";
    tmk_text_finish(&printed);
    tmk_relay_params_destroy(&params);
    return wrong;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    long n = strtol(argv[1], NULL, 10);
    unsigned good = 0, bad = 0;
    for (long i = 0; i < n; i++) {
        const char *path = argv[2 + i % (argc - 2)], *dot = strrchr(path, '.');
        bool params = dot && !strcmp(dot, ".params"), reads = false;
        struct tmk_buf *file = NULL;
        struct tmk_diag diag = {0};
        if (tmk_file_map(path, &file, &diag) != TMK_OK) {
            printf("%s\n", diag.text);
            return 3;
        }
        struct bytes copy =
            splice((struct bytes){calloc(1, 1), 0}, 0, 0, tmk_buf_data(file), tmk_buf_size(file));
        tmk_buf_unref(&file);
        const char *section = memmem(copy.data, copy.len, "\n#[metadata]", 12);
        size_t body = section ? (size_t)(section - copy.data) : copy.len;
        for (size_t times = 1 + random_below(3); times; times--)
            copy = params ? damage_params(copy) : damage_text(copy, body);
        const char *wrong = (params ? check_params : check_text)(copy, &reads, &diag);
        if (wrong) {
            printf("%s, copy %ld: %s: %s\n", path, i, wrong, diag.text);
            bad++;
        }
        good += reads;
        free(copy.data);
    }
    printf("%ld damaged, %u of them read, %u wrong\n", n, good, bad);
    return bad > 0;
}
