# SPDX-License-Identifier: Apache-2.0
"""Consumers that convert a network before they quantize it: converted_run.py CONSUMER STEP JOB.json, with the interpreter that has it.

The job: `model` (ONNX), `calibrate` and `check` (.npz, arrays called "sample/input"), `folder` (of the conversion), and `out`. Steps:
`convert` fills the folder with the consumer's float network, template or names; `float` runs that; `own` lets the consumer calibrate and
quantize, and runs the result; `ours` does so with `file`, which was exported for it. Runs write `out` (.npz, arrays called
"sample/output"); convert and own print what is worth telling.
"""
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from consumer_run import OPENVINO, feeds_of, run_onnxruntime


def call(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        raise RuntimeError(f"{Path(words[0]).name}: status {done.returncode}: {(done.stderr.strip() or done.stdout.strip())[-200:]}")
    return done.stdout + done.stderr


# ---- ncnn: pnnx converts; ncnn2table and ncnn2int8, where they are on the PATH, quantize ----

class Ncnn:
    def convert(self, job, folder):
        import onnx
        model = onnx.load(job["model"])
        stored = {tensor.name for tensor in model.graph.initializer}
        for value in [value for value in model.graph.input if value.name in stored]:  # which pnnx asks for, too
            model.graph.input.remove(value)
        onnx.save(model, folder / "model.onnx")
        shapes = [f"[{','.join(map(str, array.shape))}]{ {'f': 'f', 'i': 'i'}[array.dtype.kind]}{8 * array.itemsize}"
                  for array in feeds_of(job["calibrate"])[0].values()]
        pnnx = Path(importlib.util.find_spec("pnnx").origin).with_name("pnnx")
        call(pnnx, folder / "model.onnx", "inputshape=" + ",".join(shapes))
        kinds = [line.split()[0] for line in (folder / "model.ncnn.param").read_text().splitlines()[2:]]
        import ncnn
        strange = sorted({kind for kind in kinds if not ncnn.layer_to_index(kind) + 1})
        if strange:
            raise RuntimeError(f"pnnx leaves what ncnn does not have: {' '.join(strange)}")

    def run(self, param, feeds, int8):
        import ncnn
        net = ncnn.Net()
        for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):
            setattr(net.opt, "use_" + option, False)
        net.opt.use_int8_inference = int8
        net.opt.num_threads = 1
        if net.load_param(str(param)) or net.load_model(str(param.with_suffix(".bin"))):
            raise RuntimeError("ncnn does not load the model")
        results = []
        for feed in feeds:
            run = net.create_extractor()
            for i, array in enumerate(feed.values()):
                run.input(f"in{i}", ncnn.Mat(np.ascontiguousarray(array[0] if array.ndim > 1 else array)).clone())
            results.append([np.array(run.extract(name)[1]) for name in net.output_names()])
        return results

    def float(self, job, folder, feeds):
        return self.run(folder / "model.ncnn.param", feeds, False)

    def quantized(self, folder, table, feeds):
        model, target = folder / "model.ncnn.param", folder / "quantized.param"
        call("ncnn2int8", model, model.with_suffix(".bin"), target, target.with_suffix(".bin"), table)
        return self.run(target, feeds, True)

    def own(self, job, folder, feeds):
        if not shutil.which("ncnn2table"):
            raise RuntimeError("ncnn2table is not on the PATH")
        calibrate, lists, shapes = feeds_of(job["calibrate"]), [], []
        for key, array in calibrate[0].items():
            one = array[0] if array.ndim > 1 else array
            for i, feed in enumerate(calibrate):
                np.save(folder / f"{len(lists)}-{i}.npy", (feed[key][0] if array.ndim > 1 else feed[key]).astype(np.float32))
            path = folder / f"list{len(lists)}.txt"
            path.write_text("".join(f"{folder}/{len(lists)}-{i}.npy\n" for i in range(len(calibrate))))
            lists.append(str(path))
            shapes.append("[" + ",".join(map(str, reversed(one.shape))) + "]")
        model = folder / "model.ncnn.param"
        call("ncnn2table", model, model.with_suffix(".bin"), ",".join(lists), folder / "own.table", "shape=" + ",".join(shapes),
             "thread=1", "method=kl", "type=1")
        return self.quantized(folder, folder / "own.table", feeds)

    def ours(self, job, folder, feeds):
        if job["file"].endswith(".table"):
            return self.quantized(folder, job["file"], feeds)
        return self.run(Path(job["file"]), feeds, True)


# ---- LiteRT: onnx2tf converts, AI Edge Quantizer quantizes ----

class Litert:
    def convert(self, job, folder):
        shape = [f"{key}:{','.join(map(str, array.shape))}" for key, array in feeds_of(job["calibrate"])[0].items()]
        shutil.copy(job["model"], folder / "model.onnx")  # which onnx2tf writes over
        np.save("calibration_image_sample_data_20x128x128x3_float32.npy", np.zeros((20, 128, 128, 3), np.float32))  # else it fetches that
        call(Path(sys.executable).with_name("onnx2tf"), "-i", folder / "model.onnx", "-o", folder, "-n", "-ois", *shape)
        (folder / "model_float32.tflite").exists() or shutil.copy(next(folder.glob("*_float32.tflite")), folder / "model_float32.tflite")
        names, tensors = self.names(job, folder / "model_float32.tflite")
        (folder / "names.json").write_text(json.dumps(names))
        print(f"{sum(map(len, names.values()))} of {tensors} tensors have a name")

    def interpreter(self, content, keep=False):
        from ai_edge_litert.interpreter import Interpreter
        run = Interpreter(model_content=content, experimental_preserve_all_tensors=keep, num_threads=1)
        run.allocate_tensors()
        return run

    def enter(self, run, feed):
        """Inputs go by their shapes, in the network's order or the last dimension for channels."""
        left = list(run.get_input_details())
        for key, array in feed.items():
            detail = next((d for d in left if key.replace("/", "_").strip("_") in d["name"]), left[0])
            left.remove(detail)
            if list(detail["shape"]) != list(array.shape):
                array = np.moveaxis(array, 1, -1)
            scale, zero = detail["quantization"]
            if detail["dtype"] != array.dtype and scale:
                limits = np.iinfo(detail["dtype"])
                array = np.clip(np.round(array / scale) + zero, limits.min, limits.max)
            run.set_tensor(detail["index"], array.astype(detail["dtype"]))
        run.invoke()

    def run(self, content, feeds):
        run, results = self.interpreter(content), []
        for feed in feeds:
            self.enter(run, feed)
            outputs = []
            for detail in run.get_output_details():
                y, (scale, zero) = run.get_tensor(detail["index"]), detail["quantization"]
                outputs.append((y.astype(np.float32) - zero) * scale if scale else y)
            results.append(outputs)
        return results

    def names(self, job, tflite):
        """{a value's name in ONNX: [those of the .tflite that have the same numbers, in whatever order]}."""
        import onnx
        model, feed = onnx.load(job["model"]), feeds_of(job["calibrate"])[0]
        known = {value.name for value in model.graph.output}
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for node in model.graph.node for name in node.output
                                  if name and name not in known)
        extended = tflite.with_name("all.onnx")
        onnx.save(model, extended)
        values = dict(zip((value.name for value in model.graph.output), run_onnxruntime(extended, [feed])[0])) | feed
        def numbers(array):
            return np.sort(np.asarray(array, np.float64).ravel())
        sorted_values = {name: numbers(array) for name, array in values.items() if getattr(array, "dtype", None) == np.float32}
        run = self.interpreter(tflite.read_bytes(), keep=True)
        self.enter(run, feed)
        names, count, seen = {}, 0, set()
        made = {i for op in run._get_ops_details() for i in op["outputs"]} | {d["index"] for d in run.get_input_details()}
        for detail in run.get_tensor_details():
            if detail["dtype"] != np.float32 or detail["index"] not in made or detail["name"] in seen:
                continue
            seen.add(detail["name"])
            theirs, best = numbers(run.get_tensor(detail["index"])), None
            count += 1
            for name, ours in sorted_values.items():
                if len(ours) == len(theirs) and np.allclose(ours, theirs, rtol=1e-3, atol=1e-4 * np.abs(theirs).max()):
                    best = best or name
            if best:
                names.setdefault(best, []).append(detail["name"])
        return names, count

    def float(self, job, folder, feeds):
        return self.run((folder / "model_float32.tflite").read_bytes(), feeds)

    def calibrated(self, job, folder):
        """The consumer's own ranges, by its own runs of the float network."""
        from ai_edge_quantizer import quantizer, recipe
        made = quantizer.Quantizer(str(folder / "model_float32.tflite"))
        made.load_quantization_recipe(recipe.static_wi8_ai8())
        run, samples = self.interpreter((folder / "model_float32.tflite").read_bytes()), []
        runner = run.get_signature_runner()
        for feed in feeds_of(job["calibrate"]):
            left, sample = dict(runner.get_input_details()), {}
            for key, array in feed.items():
                name = next((n for n in left if key.replace("/", "_").strip("_") in n), next(iter(left)))
                detail = left.pop(name)
                sample[name] = array if list(detail["shape"]) == list(array.shape) else np.moveaxis(array, 1, -1)
                sample[name] = sample[name].astype(detail["dtype"])
            samples.append(sample)
        return made, made.calibrate({next(iter(run.get_signature_list())): samples})

    def own(self, job, folder, feeds):
        made, ranges = self.calibrated(job, folder)
        return self.run(bytes(made.quantize(ranges).quantized_model), feeds)

    def ours(self, job, folder, feeds):
        """A tensor that has no counterpart in the ONNX network keeps the consumer's own range; they are counted."""
        from ai_edge_quantizer.utils import calibration_utils
        made, own = self.calibrated(job, folder)
        loaded = calibration_utils.load_calibration_results(job["file"]) if hasattr(calibration_utils, "load_calibration_results") else None
        ours = loaded[0] if loaded else json.loads(Path(job["file"]).read_text())["model_qsvs"]
        ours = {key: {end: np.asarray(number, np.float32) for end, number in range_.items()} for key, range_ in ours.items()}
        acts = {key for key, range_ in own.items() if np.size(range_["min"]) == 1}
        print(f"{len(acts - set(ours))} of {len(acts)} ranges are the consumer's own")
        return self.run(bytes(made.quantize(own | {key: value for key, value in ours.items() if key in own}).quantized_model), feeds)


# ---- OpenVINO: its IR with our FakeQuantize operations, beside NNCF ----

class Openvino:
    def convert(self, job, folder):
        import openvino
        openvino.save_model(openvino.Core().read_model(job["model"]), str(folder / "t.xml"), compress_to_fp16=False)

    def run(self, model, feeds):
        import openvino
        compiled = openvino.Core().compile_model(model, "CPU", OPENVINO)
        return [[compiled(feed)[k] for k in range(len(compiled.outputs))] for feed in feeds]

    def float(self, job, folder, feeds):
        return self.run(str(folder / "t.xml"), feeds)

    def own(self, job, folder, feeds):
        import nncf
        import openvino
        calibrate = feeds_of(job["calibrate"])
        model = openvino.Core().read_model(str(folder / "t.xml"))
        return self.run(nncf.quantize(model, nncf.Dataset(calibrate), subset_size=len(calibrate)), feeds)

    def ours(self, job, folder, feeds):
        return self.run(job["file"], feeds)


CONSUMERS = {"ncnn": Ncnn, "litert": Litert, "openvino": Openvino}


def main():
    consumer, step = CONSUMERS[sys.argv[1]](), sys.argv[2]
    job = json.loads(Path(sys.argv[3]).read_text())
    folder = Path(job["folder"])
    if step == "convert":
        consumer.convert(job, folder)
        return
    results = getattr(consumer, step)(job, folder, feeds_of(job["check"]))
    np.savez(job["out"], **{f"{i}/{k}": array for i, outputs in enumerate(results) for k, array in enumerate(outputs)})


if __name__ == "__main__":
    main()
