/* SPDX-License-Identifier: Apache-2.0 */
/* The tags of an XML file, one after another, with their places: for changing single tags of a file
 * whose other bytes stay. No DOCTYPE, no CDATA: machines that write IRs use neither. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <tidemark/status.h>

#include "base/arena.h"

struct tmk_xml_tag {
    const char *name; /* `len` bytes */
    size_t len;
    const char *begin, *end; /* from '<' to behind '>' */
    bool opens, closes;      /* <a>: opens; </a>: closes; <a/>: both */
};

struct tmk_xml {
    const char *begin, *at, *end;
    int depth; /* of the tag that came last: 1 for the root's, opening and closing alike */
    int open;  /* how many are open behind it */
};

struct tmk_xml tmk_xml_begin(const char *text, size_t len);
/* TMK_NOTFOUND at the end, without a text; TMK_FORMAT with the byte, where it is no XML of this
 * kind. Closing tags are not checked by name. */
enum tmk_status tmk_xml_next(struct tmk_xml *xml, struct tmk_xml_tag *tag, struct tmk_diag *diag);
bool tmk_xml_is(const struct tmk_xml_tag *tag, const char *name);
/* The value of an attribute as it stands in the file: *value and *len; false: there is none. */
bool tmk_xml_raw(const struct tmk_xml_tag *tag, const char *name, const char **value, size_t *len);
/* The text that such bytes mean (&amp; and the like); NULL when memory ran out. */
char *tmk_xml_text(const char *raw, size_t len, struct tmk_arena *arena);
