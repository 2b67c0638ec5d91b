# SPDX-License-Identifier: Apache-2.0
"""Runs a model on Qualcomm's HTP simulation: MODEL.onnx IN.npz OUT.npz, arrays called "sample/input" and "sample/output".

Needs onnxruntime-qnn. No node may fall back to the CPU, and the graph that is compiled must have 8- or 16-bit fixed point tensors:
the float model would run too. Prints how many.
"""
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import onnxruntime_qnn

PROVIDER = "QNNExecutionProvider"


def session_of(model, dump):
    onnxruntime.register_execution_provider_library(PROVIDER, onnxruntime_qnn.get_library_path())
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == PROVIDER]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    backend = str(Path(onnxruntime_qnn.get_library_path()).with_name("libQnnHtp.so"))
    options.add_provider_for_devices(devices[:1], {"backend_path": backend, "dump_json_qnn_graph": "1",
                                                   "json_qnn_graph_dir": dump})
    return onnxruntime.InferenceSession(model, options)


def fixed_point_tensors(dump):
    """Of the types that QNN numbers 0x0300 (signed) and 0x0400 (unsigned fixed point)."""
    count = 0
    for path in Path(dump).rglob("*.json"):
        for tensor in json.loads(path.read_text()).get("graph", {}).get("tensors", {}).values():
            count += tensor.get("data_type", 0) >> 8 in (3, 4)
    return count


def main():
    model, source, target = sys.argv[1:]
    with tempfile.TemporaryDirectory() as dump:
        session = session_of(model, dump)
        found = fixed_point_tensors(dump)
        assert found, f"no fixed point tensors in {os.listdir(dump)}"
        print(f"{found} fixed point tensors")
        feeds = {}
        with np.load(source) as arrays:
            for key in arrays.files:
                sample, name = key.split("/", 1)
                feeds.setdefault(sample, {})[name] = arrays[key]
        np.savez(target, **{f"{sample}/{k}": array for sample, feed in feeds.items()
                            for k, array in enumerate(session.run(None, feed))})


main()
