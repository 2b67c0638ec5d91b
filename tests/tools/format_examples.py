# SPDX-License-Identifier: Apache-2.0
"""Worked examples of the files that consumers read: one network of two convolutions, its ranges, and a file a format with them.

format_examples.write(FOLDER) makes them by the formats' own formulas, none of ours. format_examples.folder() is the folder of recorded
ones, which their consumers have read, where there is one, else a folder made here that goes with this process. What the maker's
packages write (LiteRT's model) is missing where these are not installed.
"""
import atexit
import json
import logging
import os
import shutil
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

RECORDED = Path(os.environ.get("TIDEMARK_SHARED") or Path(__file__).resolve().parents[3] / "shared") / "formats" / "examples"
ACTIVATIONS = ("x", "conv1_out", "relu1_out", "y")
QUANTIZED = ("x", "relu1_out", "y")  # Relu takes conv1_out in
WEIGHTS = ("conv1.weight", "conv2.weight")


def network():
    """The network, whose channels differ widely, its weights by name, and 16 samples."""
    random = np.random.default_rng(7)
    widths = np.array([.2, .5, .05, 1.0])[:, None, None, None]
    weights = {"conv1.weight": random.standard_normal((4, 3, 3, 3)) * widths, "conv1.bias": [.1, -.2, .3, 0],
               "conv2.weight": random.standard_normal((5, 4, 3, 3)) * .3, "conv2.bias": [0, .5, -.5, .25, 1]}
    weights = {name: np.asarray(values, "f4") for name, values in weights.items()}
    samples = (random.random((16, 1, 3, 8, 8)) * 3 - 1).astype("f4")
    nodes = [helper.make_node("Conv", ["x", "conv1.weight", "conv1.bias"], ["conv1_out"], "conv1", kernel_shape=[3, 3], pads=[1] * 4),
             helper.make_node("Relu", ["conv1_out"], ["relu1_out"], "relu1"),
             helper.make_node("Conv", ["relu1_out", "conv2.weight", "conv2.bias"], ["y"], "conv2", kernel_shape=[3, 3], pads=[0] * 4)]
    graph = helper.make_graph(nodes, "twoconv", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5, 6, 6])],
                              [numpy_helper.from_array(values, name) for name, values in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model), weights, samples


def measure(model, weights, samples):
    """Each tensor's values over the samples, by ONNX Runtime without optimizing."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    whole.graph.output.extend(info for info in model.graph.value_info if info.name in ACTIVATIONS)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(whole.SerializeToString(), options, providers=["CPUExecutionProvider"])
    runs = [session.run(ACTIVATIONS[1:], {"x": x}) for x in samples]
    values = {"x": samples, **{name: np.stack([run[i] for run in runs]) for i, name in enumerate(ACTIVATIONS[1:])}}
    return {**values, **weights}


def end_values(values):
    return {"min": float(values.min()), "max": float(values.max()), "count": int(values.size)}


class Ranges:
    """The ranges, and the grids that they make: symmetric of 127 codes a side, asymmetric of 256."""

    def __init__(self, values):
        self.values = values
        self.ends = {name: end_values(array) for name, array in values.items()}
        for name in WEIGHTS:
            self.ends[name]["channel_absmax"] = [float(v) for v in np.abs(values[name]).max((1, 2, 3))]

    def pair(self, name):
        return self.ends[name]["min"], self.ends[name]["max"]

    def most(self, name):
        return max(map(abs, self.pair(name)))

    def channel_scales(self, name):
        return [most / 127 for most in self.ends[name]["channel_absmax"]]

    def asymmetric(self, name):
        """Scale and the code of 0 among 0 to 255."""
        low, high = min(self.pair(name)[0], 0.0), max(self.pair(name)[1], 0.0)
        return (high - low) / 255, int(np.rint(-low * 255 / (high - low)))


def write_json(path, document):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=1))


def write_text(path, *lines):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def digits(value):
    return f"{value:.9g}"  # enough for float32


def write_onnxruntime(folder, ranges, model):
    """The calibration cache in its short and its whole form; models that ONNX Runtime quantizes with it."""
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.calibrate import CalibrationDataReader

    class Reader(CalibrationDataReader):
        rest = iter([{"x": x} for x in ranges.values["x"]])

        def get_next(self):
            return next(self.rest, None)

    for name, form in (("min", float), ("full", lambda v: {"data": v, "dtype": "float32", "CLS": "numpy.array"})):
        data = {value: {"CLS": "TensorData", "lowest": form(ranges.pair(value)[0]), "highest": form(ranges.pair(value)[1])}
                for value in ACTIVATIONS}
        write_json(folder / "ort" / f"calib_cache.{name}.json",
                   {"CLS": "TensorsData", "data": data, "smooth_quant": False,
                    "calibration_method": {"CLS": "CalibrationMethod", "value": "CalibrationMethod.MinMax"}})
    logging.disable(logging.WARNING)  # it recommends a preprocessing that these convolutions have no use for
    for name, activations, symmetric in (("u8s8", QuantType.QUInt8, False), ("s8s8sym", QuantType.QInt8, True)):
        Reader.rest = iter([{"x": x} for x in ranges.values["x"]])
        quantize_static(model, folder / "ort" / f"twoconv.qdq.{name}.onnx", Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
                        activation_type=activations, weight_type=QuantType.QInt8, calibrate_method=CalibrationMethod.MinMax,
                        extra_options={"ActivationSymmetric": symmetric})
    logging.disable(logging.NOTSET)


def write_aimet(folder, ranges):
    """The three versions. Before 2.0.0 the offset is that of code 0, so -128 for symmetric int8."""
    grids = {name: ranges.asymmetric(name) for name in QUANTIZED}
    channels = {name: ranges.channel_scales(name) for name in WEIGHTS}

    def grid(scale, offset, symmetric):
        return {"bitwidth": 8, "dtype": "int", "is_symmetric": str(symmetric), "scale": scale, "offset": offset,
                "min": offset * scale, "max": (offset + 255) * scale}

    settings = {"activation_bitwidth": 8, "dtype": "int", "is_symmetric": True, "param_bitwidth": 8, "per_channel_quantization": True,
                "quant_scheme": "min_max"}

    def entry(name, scales, offset, symmetric):
        return {"name": name, "dtype": "INT", "bw": 8, "is_sym": symmetric, "scale": scales, "offset": [offset] * len(scales),
                "enc_type": "PER_CHANNEL" if symmetric else "PER_TENSOR"}

    documents = [
        {"version": "0.6.1", "activation_encodings": {name: [grid(scale, -zero, False)] for name, (scale, zero) in grids.items()},
         "param_encodings": {name: [grid(scale, -128, True) for scale in scales] for name, scales in channels.items()}},
        {"version": "1.0.0", "activation_encodings": [entry(name, [scale], -zero, False) for name, (scale, zero) in grids.items()],
         "param_encodings": [entry(name, scales, -128, True) for name, scales in channels.items()]}]
    for document in documents:
        write_json(folder / "qnn_aimet" / f"twoconv.v{document['version']}.encodings",
                   {**document, "excluded_layers": [], "quantizer_args": settings})
    entries = [{"name": name, "output_dtype": "uint8", "y_scale": scale, **({"y_zero_point": zero} if zero else {})}
               for name, (scale, zero) in grids.items()]
    entries += [{"name": name, "output_dtype": "int8", "y_scale": scales, "axis": 0} for name, scales in channels.items()]
    write_json(folder / "qnn_aimet" / "twoconv.v2.0.0.encodings", {"version": "2.0.0", "encodings": entries})


def write_ranges(folder, ranges):
    """Formats that hold ranges, or the largest magnitude."""
    write_json(folder / "litert" / "calibration_result.json",
               {"model_qsvs": {name: {"min": [ranges.pair(name)[0]], "max": [ranges.pair(name)[1]]} for name in QUANTIZED},
                "metadata": {"producer": "tidemark"}})
    write_json(folder / "quark" / "save_and_restore.json", {"tensors_range": {name: ranges.pair(name) for name in ACTIVATIONS}})
    write_text(folder / "tensorrt" / "twoconv.calib.cache", "TRT-8601-EntropyCalibration2",
               *(f"{name}: {struct.pack('>f', ranges.most(name) / 127).hex()}" for name in ACTIVATIONS))
    write_text(folder / "tensorrt" / "twoconv.dynamic_range.txt", *(f"{name}: {digits(ranges.most(name))}" for name in ACTIVATIONS))
    write_text(folder / "tpu_mlir" / "twoconv_cali_table", "# op_name    threshold    min    max",
               *(f"{name} {ranges.most(name):.7f} {ranges.pair(name)[0]:.7f} {ranges.pair(name)[1]:.7f}" for name in ACTIVATIONS))
    document = ["---", "GlowToolsVersion: ''", "...", "---", "GraphPreLowerHash: 0x0000000000000000", "...", "---"]
    for name in ACTIVATIONS:
        low, high = ranges.pair(name)
        counts = np.histogram(ranges.values[name], 10, (low, high))[0]
        document += [f"- NodeOutputName:  '{name}:0'", f"  Min:             {low!r}", f"  Max:             {high!r}",
                     f"  Histogram:       [ {', '.join(map(str, counts))} ]"]
    write_text(folder / "glow" / "twoconv.profile.yaml", *document, "...")


def write_onert(folder, ranges):
    """Min and max of each run."""
    try:
        import h5py
    except ImportError:
        return
    (folder / "onert").mkdir()
    with h5py.File(folder / "onert" / "twoconv.minmax.h5", "w") as file:
        names = file.create_group("name/model_0/subg_0")
        for key, name in zip(("input_0", "op_0", "op_1"), QUANTIZED):
            names.attrs[key] = name
            for run, values in enumerate(ranges.values[name]):
                file[f"value/run_{run}/model_0/subg_0/{key}"] = np.array([values.min(), values.max()], "<f4")


def write_ncnn(folder, ranges):
    write_text(folder / "ncnn" / "twoconv.table",
               *(f"{name[:5]}_param_0 " + " ".join(digits(127 / most) for most in ranges.ends[name]["channel_absmax"]) for name in WEIGHTS),
               *(f"{name} {digits(127 / ranges.most(source))}" for name, source in (("conv1", "x"), ("conv2", "relu1_out"))))
    write_text(folder / "ncnn" / "twoconv.param", "7767517", "4 4", "Input x 0 1 x 0=8 1=8 2=3",
               "Convolution conv1 1 1 x conv1_out 0=4 1=3 4=1 5=1 6=108", "ReLU relu1 1 1 conv1_out relu1_out",
               "Convolution conv2 1 1 relu1_out y 0=5 1=3 5=1 6=180")
    parts = [b"\0\0\0\0" * name.endswith(".weight") + ranges.values[name].tobytes()  # a flag of 0: float32 weights
             for name in ("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias")]
    (folder / "ncnn" / "twoconv.bin").write_bytes(b"".join(parts))


def write_rknn(folder, ranges):
    """The toolkit's template: conv1_out has the range behind its Relu."""
    def block(key, name, dtype):
        scale, zero = ranges.asymmetric(name)
        low, high = ranges.pair(name)
        numbers = [f"    scale:\n    - {scale}", f"    zero_point:\n    - {zero - 128}"]
        if dtype != "int8":
            numbers = ["    scale: []", "    zero_point: []"]
        ends = [f"    {end}:\n    - {value}" for end, value in (("min", low), ("max", high))]
        return [f"  {key}:", "    qtype: asym", "    qmethod: layer", f"    dtype: {dtype}", *ends, *numbers,
                *(line.replace("min", "ori_min").replace("max", "ori_max") for line in ends)]

    lines = ["custom_quantize_layers: {}", "quantize_parameters:"]
    for key, name, dtype in (("x", "x", "float32"), ("conv1_out", "relu1_out", "int8"), ("relu1_out", "relu1_out", "int8"),
                             ("y", "y", "float32"), ("x_int8", "x", "int8"), ("y_int8", "y", "int8")):
        lines += block(key, name, dtype)
    write_text(folder / "rknn" / "twoconv.quantization.cfg", *lines)


def write_mnn(folder, ranges):
    def row(name, scales, **more):
        return [{"name": name, "bits": 8, "scales": scales, **more, "clampMin": -127, "clampMax": 127}]

    def layer(source, weight, result, name):
        return {"input": row(source, [ranges.most(source) / 127], zeroPoint=0), "weight": row(weight, ranges.channel_scales(weight)),
                "output": row(name, [ranges.most(result) / 127], zeroPoint=0)}

    layers = [layer("x", "conv1.weight", "relu1_out", "relu1_out"), layer("relu1_out", "conv2.weight", "y", "y__before_tr")]
    write_json(folder / "mnn" / "twoconv.compress.json",
               {"version": "0.0.0",
                "algo": [{"type": "QUANTIZE", "quantParams": {"roundMode": "ROUND_HALF_TO_EVEN", "layer": layers}}]})


def write_tidl(folder, ranges):
    def block(label, name, values=()):
        low, high = ranges.pair(name)
        return [f"  {label} {{", f"    min: {digits(low)}", f"    max: {digits(high)}",
                f"    size: {len(values) or 1}", "    element_type: 0", f"    scale: {127 / ranges.most(name):.17g}", "    zero_point: 0",
                *(f"    value: {digits(value)}" for value in values), "  }"]

    lines = ["num_layers: 3", "quant_type: SYMMETRIC", "calib_type: PERTENSOR"]
    for name, kind, conv in (("x", "Data", ""), ("relu1_out", "Convolution", "conv1"), ("y", "Convolution", "conv2")):
        lines += ["layers {", f'  layer_name: "{name}"', f'  layer_type: "TIDL_{kind}Layer"', "  bit_depth: 8", *block("outputs", name)]
        if conv:
            lines += block("weights", f"{conv}.weight") + block("bias", f"{conv}.bias", ranges.values[f"{conv}.bias"])
        lines.append("}")
    write_text(folder / "tidl" / "twoconv.quant.prototxt", *lines)


def write_litert_model(folder, values):
    """The network as LiteRT has it: channels last, Relu inside of the first convolution."""
    try:
        import flatbuffers
        from ai_edge_litert import schema_py_generated as schema
    except ImportError:
        return
    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.buffers, graph.tensors, graph.operators = 3, [schema.BufferT()], [], []

    def tensor(name, shape, data=None):
        made = schema.TensorT()
        made.name, made.shape, made.type, made.buffer = name, list(shape), schema.TensorType.FLOAT32, 0
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            made.buffer = len(model.buffers)
            model.buffers.append(buffer)
        graph.tensors.append(made)
        return len(graph.tensors) - 1

    def convolution(source, name, result, padding, activation):
        weight, bias = (values[f"{name}.{part}"] for part in ("weight", "bias"))
        weight = weight.transpose(0, 2, 3, 1)
        made, options = schema.OperatorT(), schema.Conv2DOptionsT()
        made.opcodeIndex, made.builtinOptionsType, made.builtinOptions = 0, schema.BuiltinOptions.Conv2DOptions, options
        made.inputs = [source, tensor(f"{name}.weight", weight.shape, weight), tensor(f"{name}.bias", bias.shape, bias)]
        made.outputs = [result]
        options.padding, options.fusedActivationFunction = padding, activation
        options.strideW = options.strideH = options.dilationWFactor = options.dilationHFactor = 1
        graph.operators.append(made)

    def named(name, index):
        made = schema.TensorMapT()
        made.name, made.tensorIndex = name, index
        return [made]

    code = schema.OperatorCodeT()
    code.deprecatedBuiltinCode = code.builtinCode = schema.BuiltinOperator.CONV_2D
    code.version, model.operatorCodes = 1, [code]
    x, middle, y = tensor("x", [1, 8, 8, 3]), tensor("relu1_out", [1, 8, 8, 4]), tensor("y", [1, 6, 6, 5])
    convolution(x, "conv1", middle, schema.Padding.SAME, schema.ActivationFunctionType.RELU)
    convolution(middle, "conv2", y, schema.Padding.VALID, schema.ActivationFunctionType.NONE)
    signature = schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = "serving_default", 0
    signature.inputs, signature.outputs, model.signatureDefs = named("x", x), named("y", y), [signature]
    graph.name, graph.inputs, graph.outputs, model.subgraphs = "main", [x], [y], [graph]
    builder = flatbuffers.Builder(4096)
    builder.Finish(model.Pack(builder), b"TFL3")
    (folder / "litert" / "twoconv.tflite").write_bytes(bytes(builder.Output()))


def write(folder):
    """All of them, under the names of the recorded ones."""
    folder = Path(folder)
    model, weights, samples = network()
    ranges = Ranges(measure(model, weights, samples))
    onnx.save(model, folder / "twoconv.onnx")
    np.save(folder / "calib_x.npy", samples)
    write_json(folder / "ranges.json", ranges.ends)
    write_onnxruntime(folder, ranges, folder / "twoconv.onnx")
    for writer in (write_aimet, write_ranges, write_onert, write_ncnn, write_rknn, write_mnn, write_tidl):
        writer(folder, ranges)
    write_litert_model(folder, weights)


def folder():
    if RECORDED.is_dir():
        return RECORDED
    made, owner = tempfile.mkdtemp(prefix="tidemark-examples-"), os.getpid()
    # not where a package's forked process ends
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(made))
    write(made)
    return Path(made)


if __name__ == "__main__":
    write(sys.argv[1])
