# SPDX-License-Identifier: Apache-2.0
"""The operator table, as tests/tools/list_ops prints it. Only Python's standard library."""
import subprocess
from collections import namedtuple

Row = namedtuple("Row", "domain name since until inputs outputs flags channels inner attributes")


def names_of(field):
    return [] if field == "-" else [one.split(":")[0] for one in field.split()]


def read_rows(list_ops):
    """Every row; `until` is None where the row still holds."""
    text = subprocess.run([list_ops], check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = []
    for line in text.splitlines():
        domain, name, since, until, inputs, outputs, flags, channels, inner, attributes = line.split("\t")
        rows.append(Row(domain, name, int(since), None if until == "-" else int(until), inputs, outputs,
                        [] if flags == "-" else flags.split(","), channels, names_of(inner), names_of(attributes)))
    return rows


def has_row(rows, domain, name, version):
    return any((row.domain, row.name) == (domain, name) and row.since <= version
               and (row.until is None or version <= row.until) for row in rows)
