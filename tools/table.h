/* SPDX-License-Identifier: Apache-2.0 */
/* Tables on stdout: columns that fit the terminal, cells that keep to their columns, colours. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum hue { HUE_NONE, HUE_BOLD, HUE_RED, HUE_YELLOW };

/* What is printed from here to hue_off has the hue, if stdout is a terminal, NO_COLOR is not set
 * and TERM is not "dumb"; else these print nothing. */
void hue_on(enum hue hue);
void hue_off(enum hue hue);

/* Of a terminal whose lines can be rewritten and coloured: TERM is not "dumb". */
bool takes_escapes(int fd);
/* Characters a line, of COLUMNS or of the terminal; 80: not known. */
int terminal_width(int fd);

enum { TABLE_MOST_COLUMNS = 16 };

struct table_column {
    const char *title;
    int width;  /* in characters; 0: any, for the last column; else it has a line of its own */
    int min;    /* 1 to width: may become as narrow on a narrow terminal; 0: may not */
    int leaves; /* where that is not enough, columns with 1 are left out, then 2...; 0: never */
    bool right; /* aligned to the right */
};

struct table {
    const struct table_column *columns;
    size_t n;
    int line_width;                 /* characters a line; 0: no end */
    int widths[TABLE_MOST_COLUMNS]; /* 0: left out */
};

/* Fits the columns (at most TABLE_MOST_COLUMNS, borrowed) into the line and prints their titles. */
void table_begin(struct table *table, const struct table_column *columns, size_t n);
/* One line: a text for each column, "" for an empty cell. */
void table_row(const struct table *table, const char *const *cells, enum hue hue);

/* From now on lines may be of any length, and cells are whole: --wide. */
void table_widen(void);
/* Characters a line: COLUMNS, or the terminal's, or 80 where stdout is none; 0: any number. */
int table_width(void);
#define WIDE_OPTION_ROW(target)                                                                    \
    {                                                                                              \
        "wide", 0, OPTION_FLAG, NULL, "tables with all columns and whole names, however wide",     \
            &(target)                                                                              \
    }

/* Prints a text in lines of at most 80 characters that begin with `indent` blanks; the first goes
 * on behind `used` characters. Blanks and single line ends of the text are one blank; an empty line
 * stays one. */
void print_wrapped(const char *text, int used, int indent);

/* Characters of a UTF-8 text. */
int text_cells(const char *text);
/* A name without control characters, in so many cells, its middle left out where it is too long. */
void print_name(const char *name, int cells);
