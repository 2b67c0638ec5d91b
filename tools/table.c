/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "command.h"

/* ---- colours ---- */

bool takes_escapes(int fd) {
    const char *term = getenv("TERM");
    return isatty(fd) && !(term && strcmp(term, "dumb") == 0);
}

static bool has_colours(void) {
    const char *no = getenv("NO_COLOR");
    return takes_escapes(STDOUT_FILENO) && !(no && *no);
}

void hue_on(enum hue hue) {
    static const char *const codes[] = {"", "\033[1m", "\033[31m", "\033[33m"};
    if (hue != HUE_NONE && has_colours())
        fputs(codes[hue], stdout);
}

void hue_off(enum hue hue) {
    if (hue != HUE_NONE && has_colours())
        fputs("\033[0m", stdout);
}

/* ---- texts ---- */

enum { LINE = 80 };

void print_wrapped(const char *text, int used, int indent) {
    const char *sep = "";
    while (*text) {
        const size_t len = strcspn(text, " \n");
        if (len && used + (int)strlen(sep) + (int)len > LINE && used > indent) {
            print_out("\n%*s", indent, "");
            used = indent;
            sep = "";
        }
        if (len)
            used += print_out("%s%.*s", sep, (int)len, text);
        sep = len ? " " : sep;
        text += len;
        if (text[0] == '\n' && text[1] == '\n') {
            print_out("\n\n%*s", indent, "");
            used = indent;
            sep = "";
            text++;
        }
        text += *text != '\0';
    }
    putchar('\n');
}

/* ---- cells ---- */

/* Bytes that don't continue a character. */
int text_cells(const char *text) {
    int n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* Leaves *c at the character's last byte. */
static void print_character(const char **c) {
    bool harmless;
    size_t n = text_character(*c, &harmless);
    if (harmless)
        fwrite(*c, 1, n, stdout);
    else
        putchar('?');
    *c += n - 1;
}

void print_name(const char *name, int cells) {
    int n = text_cells(name), skipped_from = cells / 2, skipped_to = n - (cells - cells / 2 - 1),
        at = -1;
    for (const char *c = name; *c; c++) {
        at += ((unsigned char)*c & 0xc0) != 0x80;
        if (n > cells && at >= skipped_from && at < skipped_to) {
            if (at == skipped_from && ((unsigned char)*c & 0xc0) != 0x80)
                fputs("…", stdout);
            continue;
        }
        print_character(&c);
    }
    for (; n < cells; n++)
        putchar(' ');
}

/* ---- columns ---- */

static int line_width(const struct table *table) {
    int width = -1;
    for (size_t i = 0; i < table->n; i++)
        width += table->widths[i] ? table->widths[i] + 1 : 0;
    return width;
}

static void shrink_columns(struct table *table) {
    for (size_t i = 0; i < table->n; i++) {
        const struct table_column *column = &table->columns[i];
        const int excess = line_width(table) - table->line_width;
        const int most = column->min ? column->width - column->min : 0;
        if (excess > 0)
            table->widths[i] -= excess < most ? excess : most;
    }
}

static void leave_out(struct table *table) {
    for (int turn = 1; turn <= (int)table->n; turn++)
        for (size_t i = 0; i < table->n && line_width(table) > table->line_width; i++)
            if (table->columns[i].leaves == turn)
                table->widths[i] = 0;
}

static void grow_columns(struct table *table) {
    for (size_t i = 0; i < table->n; i++) {
        const int spare = table->line_width - line_width(table);
        const int most = table->columns[i].width - table->widths[i];
        if (table->widths[i] && spare > 0)
            table->widths[i] += spare < most ? spare : most;
    }
}

static bool wide;

void table_widen(void) {
    wide = true;
}

int terminal_width(int fd) {
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    const int said = columns ? atoi(columns) : 0;
    if (said > 0)
        return said;
    return isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : LINE;
}

int table_width(void) {
    return wide ? 0 : terminal_width(STDOUT_FILENO);
}

void table_begin(struct table *table, const struct table_column *columns, size_t n) {
    const char *titles[TABLE_MOST_COLUMNS];
    *table = (struct table){columns, n, table_width(), {0}};
    for (size_t i = 0; i < TABLE_MOST_COLUMNS; i++) {
        table->widths[i] = i < n ? columns[i].width : 0;
        titles[i] = i < n ? columns[i].title : "";
    }
    if (table->line_width) {
        shrink_columns(table);
        leave_out(table);
        grow_columns(table);
    }
    table_row(table, titles, HUE_BOLD);
}

/* How wide the cell may be; 0: it is not there, or behind all columns. */
static int cell_width(const struct table *table, size_t i, const char *text) {
    const int cells = text_cells(text);
    return table->line_width || cells < table->widths[i] ? table->widths[i] : cells;
}

/* The text behind all columns: where it belongs, or further left in empty cells, or in a line of
 * its own; it is never lost. */
static void put_rest(const struct table *table, const char *text, int at, int blanks) {
    enum { INDENT = 2 };
    const int used = text_cells(text), line = table->line_width;
    if (!used)
        return;
    if (line && at + blanks + used > line)
        blanks = line - at - used;
    if (blanks < 1) {
        putchar('\n');
        blanks = INDENT;
    }
    print_out("%*s", blanks, "");
    print_name(text, line && used > line - INDENT ? line - INDENT : used);
}

void table_row(const struct table *table, const char *const *cells, enum hue hue) {
    int at = 0, blanks = 0; /* owed before the next text: none are left at the end of a line */
    hue_on(hue);
    for (size_t i = 0; i < table->n; i++) {
        const int width = cell_width(table, i, cells[i]), used = text_cells(cells[i]);
        if (!table->columns[i].width)
            put_rest(table, cells[i], at, blanks);
        if (!width)
            continue;
        const int shown = used < width ? used : width, pad = width - shown;
        if (shown) {
            const int before = blanks + (table->columns[i].right ? pad : 0);
            print_out("%*s", before, "");
            print_name(cells[i], shown);
            at += before + shown;
            blanks = 0;
        }
        blanks += (shown && table->columns[i].right ? 0 : pad) + 1;
    }
    hue_off(hue);
    putchar('\n');
}
