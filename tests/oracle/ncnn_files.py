# SPDX-License-Identifier: Apache-2.0
"""Writes float models of ncnn, layer by layer."""
import struct


def ncnn_model(path, layers):
    """NAME.param and its .bin: (line, tagged weights in half precision, plain numbers) of each layer."""
    blobs = len(layers)
    path.write_text(f"7767517\n{len(layers)} {blobs}\n" + "".join(line + "\n" for line, _, _ in layers))
    kept = b""
    for _, weights, plain in layers:
        for part in weights:
            kept += struct.pack("<I", 0x01306b47) + part.astype("<f2").tobytes()
            kept += b"\0" * (-len(kept) % 4)
        kept += plain.astype("<f4").tobytes()
    path.with_suffix(".bin").write_bytes(kept)
