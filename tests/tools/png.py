# SPDX-License-Identifier: Apache-2.0
"""Writes PNG files chunk by chunk, so that a test can write unusual and wrong ones. Python's standard library only."""
import struct
import zlib


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_of_chunks(width, height, *chunks, bits=8, color=0, interlace=0):
    """A header with these numbers, the chunks, and the end."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, interlace))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(chunks) + chunk(b"IEND", b"")


def png(width, height, rows, *chunks, **header):
    """Pixels from rows of bytes, behind further chunks; `header` as of png_of_chunks."""
    pixels = chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows)))
    return png_of_chunks(width, height, *chunks, pixels, **header)
