#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The schemas of docs/ have the members that the tables of fields have, and no others.

check_schemas.py FIELD_LIST SOURCE_ROOT
"""
import collections
import json
import pathlib
import subprocess
import sys


def inside(root, node):
    """The object or the list's entry that a schema is of, behind references and alternatives to null."""
    while True:
        if "$ref" in node:
            node = at(root, node["$ref"])
        elif "oneOf" in node:
            node = next(one for one in node["oneOf"] if one.get("type") != "null")
        elif node.get("type") == "array":
            node = node["items"]
        else:
            return node


def at(root, pointer):
    node = root
    for step in pointer.split("/")[1:]:
        node = node[step]
    return node


def main():
    lister, source = sys.argv[1], pathlib.Path(sys.argv[2])
    lines = subprocess.run([lister], check=True, capture_output=True, text=True).stdout.split("\n")
    objects = collections.defaultdict(dict)  # by file, place and path: member -> must, left out, names
    for line in filter(None, lines):
        file, place, path, need, written, *names = line.split()
        parent, _, key = path.rpartition("/")
        objects[file, place, parent][key] = (need == "required", written == "omitted", set("".join(names).split(",")) - {"", "(null)"})
    wrong = []
    for (file, place, path), members in objects.items():
        root = json.loads((source / "docs" / f"{file}.schema.json").read_text())
        node = at(root, place)
        for key in filter(None, path.split("/")):
            node = inside(root, node)["properties"].get(key, {"properties": {}})
        node = inside(root, node)
        where = f"{file}.schema.json {place} {path or '/'}"
        required = set(node.get("required", ()))
        if set(node["properties"]) != set(members):
            wrong.append(f"{where}: members differ: {sorted(set(node['properties']) ^ set(members))}")
        for key, (must, left_out, names) in members.items():
            listed = set(inside(root, node["properties"].get(key, {})).get("enum", names))
            if names and listed != names and not (file == "encodings" and key == "dtype"):  # which has the types that codes can have
                wrong.append(f"{where}: names of '{key}' differ: {sorted(listed ^ names)}")
            if must and key not in required:
                wrong.append(f"{where}: '{key}' is not required, but must be there")
            if left_out and key in required:
                wrong.append(f"{where}: '{key}' is required, but may be left out")
    print(f"{sum(map(len, objects.values()))} fields of {len(objects)} objects")
    if wrong or len(objects) < 20:
        sys.exit("\n".join(wrong) or "too few objects were listed")


main()
