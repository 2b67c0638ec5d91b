# SPDX-License-Identifier: Apache-2.0
"""Fills a folder with networks for last_mile.py: real models, and exports of PyTorch models with random weights.

Nothing is fetched: architectures are made from configurations, small ones, with seeded weights. An export that exists is kept.
"""
import argparse
import contextlib
import inspect
import io
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np
import onnx

import architectures
import cases
import hand_made
from cases import halves, inputs_of, smooth
from torch_parts import MOST, images, made, plain, spread, timm_model



# ---- real models: every folder with a model.onnx, with inputs*.npz, samples_u8.npz or test_data_set_N ----

def stored_feeds(folder, inputs):
    sets = sorted(folder.glob("test_data_set_*"))
    def load(path):
        return onnx.numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))
    return [{key: load(path / f"input_{i}.pb") for i, key in enumerate(inputs)} for path in sets]


def pictures(folder, inputs):
    """Photographs in the model's own layout; only these two have more of them than samples."""
    with np.load(folder / "samples_u8.npz") as arrays:
        pixels = arrays["x"].astype(np.float32)
    pixels = (pixels - 127) / 128 if folder.name.startswith("ultraface") else pixels - np.array([103.94, 116.78, 123.68], np.float32)
    return [{inputs[0]: np.ascontiguousarray(x.transpose(2, 0, 1)[None], np.float32)} for x in pixels]


def shared_feeds(folder):
    inputs = inputs_of(onnx.load(folder / "model.onnx"))
    if folder.name.startswith(("ultraface", "squeezenet")):
        return pictures(folder, inputs)
    for path in sorted(folder.glob("inputs*.npz")):
        with np.load(path) as arrays:
            wanted = {key: arrays[key] for key in inputs}
        count = len(wanted[inputs[0]])
        chosen = np.linspace(0, count - 1, min(count, 2 * MOST)).astype(int)
        return [{key: wanted[key][i] for key in inputs} for i in chosen]
    return stored_feeds(folder, inputs)


# ---- PyTorch ----

def vit():
    return timm_model("vit_tiny_patch16_224", 64, img_size=64, depth=4)


def convnext():
    return timm_model("convnext_atto", 64, depths=(1, 1, 2, 1), dims=(24, 48, 96, 128))


def swin():
    return timm_model("swin_tiny_patch4_window7_224", 64, img_size=64, window_size=4, embed_dim=32, depths=(2, 2), num_heads=(2, 4))


def efficientnet():
    return timm_model("efficientnet_b0", 64)


def mobilenetv3():
    return timm_model("mobilenetv3_small_100", 64)


def resnet():
    return timm_model("resnet18", 64)


def densenet():
    return timm_model("densenet121", 64, growth_rate=8, block_config=(2, 3, 2))


def regnet():
    return timm_model("regnety_002", 64)


def mobilevit():
    return timm_model("mobilevit_xxs", 64)


def mixer():
    import torch
    from timm.models.mlp_mixer import MlpMixer
    torch.manual_seed(7)
    model = MlpMixer(20, 64, patch_size=16, num_blocks=2, embed_dim=64)
    torch.nn.init.normal_(model.head.weight, 0, .1)  # zeros otherwise
    return spread(model, 7), images(np.random.default_rng(7), 64), {}


def bert():
    config = dict(hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=128, vocab_size=200,
                  max_position_embeddings=32)
    model = made("BertConfig", "BertForSequenceClassification", **config, num_labels=6)
    rng, names = np.random.default_rng(7), ["input_ids", "attention_mask", "token_type_ids"]
    feeds = [{"input_ids": rng.integers(0, 200, (1, 24)), "attention_mask": (np.arange(24) < 24 - i % 9).astype(np.int64)[None],
              "token_type_ids": (np.arange(24) > 11).astype(np.int64)[None]} for i in range(2 * MOST)]
    return plain(model, names), feeds, {name: {1: "length"} for name in names}


def t5():
    config = dict(d_model=64, d_ff=128, d_kv=16, num_layers=2, num_decoder_layers=2, num_heads=4, vocab_size=200,
                  decoder_start_token_id=0, use_cache=False)
    model = made("T5Config", "T5ForConditionalGeneration", **config)
    rng, names = np.random.default_rng(7), ["input_ids", "attention_mask", "decoder_input_ids"]
    feeds = [{"input_ids": rng.integers(0, 200, (1, 20)), "attention_mask": (np.arange(20) < 20 - i % 7).astype(np.int64)[None],
              "decoder_input_ids": rng.integers(0, 200, (1, 8))} for i in range(2 * MOST)]
    return plain(model, names), feeds, {}


def whisper_config():
    import transformers
    return transformers.WhisperConfig(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                                      encoder_ffn_dim=128, decoder_ffn_dim=128, vocab_size=200, num_mel_bins=40, max_source_positions=50,
                                      max_target_positions=32, use_cache=False, pad_token_id=0, bos_token_id=1,
                                      eos_token_id=2, decoder_start_token_id=1)


def whisper_encoder():
    model = made(whisper_config(), "WhisperModel").encoder
    rng = np.random.default_rng(7)
    feeds = [{"input_features": smooth(rng, 1, 1, 40, 100)[0]} for _ in range(2 * MOST)]
    return plain(model, ["input_features"]), feeds, {}


def whisper_decoder():
    model = made(whisper_config(), "WhisperModel").decoder
    rng, names = np.random.default_rng(7), ["input_ids", "encoder_hidden_states"]
    feeds = [{"input_ids": rng.integers(0, 200, (1, 10)), "encoder_hidden_states": rng.standard_normal((1, 50, 64)).astype(np.float32)}
             for _ in range(2 * MOST)]
    return plain(model, names), feeds, {}


def gpt2():
    model = made("GPT2Config", "GPT2LMHeadModel", n_embd=64, n_layer=2, n_head=4, vocab_size=200, n_positions=32, bos_token_id=1,
                 eos_token_id=2, use_cache=False)
    rng, names = np.random.default_rng(7), ["input_ids", "attention_mask"]
    feeds = [{"input_ids": rng.integers(0, 200, (1, 16)), "attention_mask": np.ones((1, 16), np.int64)} for _ in range(2 * MOST)]
    return plain(model, names), feeds, {}


def llama_model():
    config = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=200,
                  max_position_embeddings=64)
    return made("LlamaConfig", "LlamaForCausalLM", **config)


def llama():
    import torch
    model, rng = llama_model(), np.random.default_rng(7)

    class Prompt(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, input_ids, attention_mask):
            return self.inner(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits
    feeds = [{"input_ids": rng.integers(0, 200, (1, 16)), "attention_mask": np.ones((1, 16), np.int64)} for _ in range(2 * MOST)]
    return Prompt().eval(), feeds, {"input_ids": {1: "length"}, "attention_mask": {1: "length"}}


def llama_with_cache():
    """One token behind a cache; every fourth sample is a prompt, whose cache is empty."""
    import torch
    from transformers.cache_utils import DynamicCache
    model, rng = llama_model(), np.random.default_rng(7)

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, input_ids, attention_mask, position_ids, *cache):
            kept = DynamicCache()
            for layer in range(2):
                kept.update(cache[2 * layer], cache[2 * layer + 1], layer)
            out = self.inner(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=kept,
                             use_cache=True)
            return (out.logits, *(tensor for layer in out.past_key_values.layers for tensor in (layer.keys, layer.values)))
    def feed(past, new):
        cache = {f"past_{layer}_{part}": rng.standard_normal((1, 2, past, 16)).astype(np.float32)
                 for layer in range(2) for part in ("key", "value")}
        return {"input_ids": rng.integers(0, 200, (1, new)), "attention_mask": np.ones((1, past + new), np.int64),
                "position_ids": np.arange(past, past + new)[None], **cache}
    feeds = [feed(0, 8) if i % 8 in (2, 3) else feed(6 + i % 5, 1) for i in range(2 * MOST)]
    axes = {"input_ids": {1: "new"}, "attention_mask": {1: "all"}, "position_ids": {1: "new"},
            **{f"past_{layer}_{part}": {2: "past"} for layer in range(2) for part in ("key", "value")}}
    return Step().eval(), feeds, axes, feed(6, 3)


def llama_prompt():
    """The same network, and prompts alone."""
    model, feeds, axes, example = llama_with_cache()
    prompts = [feed for feed in feeds if not feed["past_0_key"].size]
    return model, prompts, axes, example


def detr():
    """DETR's transformer over a small backbone: the released one needs a backbone of timm's by name."""
    import torch
    import timm
    torch.manual_seed(7)

    class Detr(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone = timm.create_model("resnet10t", pretrained=False, features_only=True, out_indices=(4,))
            self.project = torch.nn.Conv2d(512, 64, 1)
            self.transformer = torch.nn.Transformer(64, 4, 2, 2, 128, dropout=0.)
            self.queries = torch.nn.Parameter(torch.randn(10, 64))
            self.rows, self.columns = (torch.nn.Parameter(torch.rand(4, 32)) for _ in range(2))
            self.classes, self.boxes = torch.nn.Linear(64, 12), torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(),
                                                                                    torch.nn.Linear(64, 4))

        def forward(self, x):
            x = self.project(self.backbone(x)[-1])
            h, w = x.shape[-2:]
            places = torch.cat([self.columns[:w].unsqueeze(0).repeat(h, 1, 1), self.rows[:h].unsqueeze(1).repeat(1, w, 1)], -1)
            out = self.transformer((places.flatten(0, 1).unsqueeze(1) + x.flatten(2).permute(2, 0, 1)), self.queries.unsqueeze(1))
            out = out.transpose(0, 1)
            return self.classes(out), self.boxes(out).sigmoid()
    return spread(Detr(), 7), images(np.random.default_rng(7), 128), {}


def unet():
    """With skip connections, transposed convolutions and GroupNorm."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    def block(into, out):
        return nn.Sequential(nn.Conv2d(into, out, 3, padding=1), nn.GroupNorm(4, out), nn.SiLU(), nn.Conv2d(out, out, 3, padding=1),
                             nn.BatchNorm2d(out), nn.ReLU())

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.ModuleList([block(3, 8), block(8, 16), block(16, 32)])
            self.up = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)])
            self.merge = nn.ModuleList([block(32, 16), block(16, 8)])
            self.out = nn.Conv2d(8, 4, 1)

        def forward(self, x):
            kept = []
            for i, part in enumerate(self.down):
                x = part(x if i == 0 else nn.functional.max_pool2d(x, 2))
                kept.append(x)
            for i, (up, merge) in enumerate(zip(self.up, self.merge)):
                x = merge(torch.cat([up(x), kept[1 - i]], 1))
            return nn.functional.interpolate(self.out(x), scale_factor=2, mode="bilinear", align_corners=False)
    return spread(UNet(), 7), images(np.random.default_rng(7), 64), {}


def detector():
    """One-stage detection with NonMaxSuppression at its end; its raw boxes and scores are outputs, too."""
    import torch
    import torchvision
    nn = torch.nn
    torch.manual_seed(7)

    def layer(into, out, stride=1):
        return nn.Sequential(nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.Hardswish())

    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(layer(3, 8, 2), layer(8, 16, 2), layer(16, 32, 2))
            self.deep = layer(32, 32, 2)
            self.heads = nn.ModuleList([nn.Conv2d(32, 4 + 3, 1) for _ in range(2)])

        def forward(self, x):
            fine = self.stem(x)
            coarse = self.deep(fine)
            boxes, scores = [], []
            for stride, level, head in zip((8, 16), (fine, coarse), self.heads):
                out = head(level).flatten(2).permute(0, 2, 1)[0]
                h, w = level.shape[-2:]
                ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
                centre = torch.stack([xs, ys], -1).reshape(-1, 2).float() * stride + out[:, :2].sigmoid() * stride
                size = out[:, 2:4].exp().clamp(max=8.) * stride
                boxes.append(torch.cat([centre - size / 2, centre + size / 2], -1))
                scores.append(out[:, 4:].sigmoid())
            boxes, scores = torch.cat(boxes), torch.cat(scores)
            best, label = scores.max(1)
            return boxes, scores, torchvision.ops.batched_nms(boxes, best, label, .5)
    return spread(Detector(), 7), images(np.random.default_rng(7), 64), {}


def shufflenet():
    import torch
    import torchvision
    torch.manual_seed(7)
    model = torchvision.models.ShuffleNetV2([2, 3, 2], [16, 24, 48, 96, 128], num_classes=20)
    return spread(model, 7), images(np.random.default_rng(7), 64), {}


def video():
    """Convolutions of three dimensions, some in groups."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    def layer(into, out, **more):
        return nn.Sequential(nn.Conv3d(into, out, 3, padding=1, bias=False, **more), nn.BatchNorm3d(out), nn.ReLU())
    model = nn.Sequential(layer(3, 8), nn.MaxPool3d(2), layer(8, 16, stride=(1, 2, 2)), layer(16, 16, groups=4), nn.AdaptiveAvgPool3d(1),
                          nn.Flatten(), nn.Linear(16, 10))
    rng = np.random.default_rng(7)
    return spread(model, 7), [{"x": smooth(rng, 3, 8, 32)[None]} for _ in range(2 * MOST)], {}


def wavenet():
    """Dilated convolutions of one dimension, gates, sums of all layers."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    class WaveNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.out = nn.Conv1d(4, 16, 1), nn.Conv1d(16, 6, 1)
            self.gated = nn.ModuleList([nn.Conv1d(16, 32, 3, padding=2 ** i, dilation=2 ** i) for i in range(4)])
            self.back = nn.ModuleList([nn.Conv1d(16, 16, 1) for _ in range(4)])

        def forward(self, x):
            x, total = self.into(x), 0
            for gated, back in zip(self.gated, self.back):
                a, b = gated(x).chunk(2, 1)
                part = back(torch.tanh(a) * torch.sigmoid(b))
                x, total = x + part, total + part
            return self.out(torch.relu(total))
    rng = np.random.default_rng(7)
    return WaveNet().eval(), [{"x": smooth(rng, 1, 1, 4, 64)[0]} for _ in range(2 * MOST)], {}


def generator():
    """Transposed convolutions, InstanceNorm, PReLU and a pixel shuffle."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, padding_mode="reflect"), nn.InstanceNorm2d(16, affine=True), nn.PReLU(16),
                          nn.Conv2d(16, 16, 3, 2, 1), nn.LeakyReLU(.2), nn.ConvTranspose2d(16, 16, 4, 2, 1, groups=2), nn.PReLU(),
                          nn.Conv2d(16, 12, 3, padding=2, dilation=2), nn.PixelShuffle(2), nn.Tanh())
    return spread(model, 7), images(np.random.default_rng(7), 32), {}


def clip():
    """Both towers, and the similarity of their normalized ends."""
    import torch
    text = dict(hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, vocab_size=100, max_position_embeddings=16,
                eos_token_id=99)
    vision = dict(hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8)
    model = made("CLIPConfig", "CLIPModel", text_config=text, vision_config=vision, projection_dim=32)

    class Towers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, ids, pixels):
            return self.inner(input_ids=ids, pixel_values=pixels).logits_per_image
    rng = np.random.default_rng(7)
    feeds = [{"ids": np.concatenate([rng.integers(0, 99, (3, 9)), np.full((3, 1), 99)], 1), "pixels": smooth(rng, 1, 3, 32)}
             for _ in range(2 * MOST)]
    return Towers().eval(), feeds, {}


def masks_of_points():
    """SAM's decoder in small: sines of point coordinates, attention both ways between tokens and picture, masks by products."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    class Decoder(nn.Module):
        def __init__(self, width=32):
            super().__init__()
            self.encoder = nn.Sequential(nn.Conv2d(3, width, 8, 8), nn.GELU(), nn.Conv2d(width, width, 3, padding=1))
            self.gaussian, self.mask_tokens = nn.Parameter(torch.randn(2, width // 2)), nn.Embedding(3, width)
            self.there, self.back = (nn.MultiheadAttention(width, 4, batch_first=True) for _ in range(2))
            self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
            self.larger = nn.Sequential(nn.ConvTranspose2d(width, 16, 2, 2), nn.GELU(), nn.ConvTranspose2d(16, 8, 2, 2), nn.GELU())
            self.hyper = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 8))

        def forward(self, x, points):
            angles = 2 * torch.pi * ((2 * points - 1) @ self.gaussian)
            tokens = torch.cat([self.mask_tokens.weight[None], torch.cat([angles.sin(), angles.cos()], -1)], 1)
            picture = self.encoder(x)
            flat = picture.flatten(2).transpose(1, 2)
            tokens = self.norms[0](tokens + self.there(tokens, flat, flat)[0])
            flat = self.norms[1](flat + self.back(flat, tokens, tokens)[0])
            larger = self.larger(flat.transpose(1, 2).reshape(picture.shape))
            masks = self.hyper(tokens[:, :3]) @ larger.flatten(2)
            return masks.reshape(1, 3, larger.shape[2], larger.shape[3])
    rng = np.random.default_rng(7)
    feeds = [{"x": smooth(rng, 1, 3, 64), "points": rng.uniform(0, 1, (1, 4, 2)).astype(np.float32)} for _ in range(2 * MOST)]
    return spread(Decoder(), 7).eval(), feeds, {}


def selective_scan():
    """Mamba's block: a gate, a causal depthwise convolution, and a recurrence whose rates depend on the input."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    class Scan(nn.Module):
        def __init__(self, width=32, states=8):
            super().__init__()
            self.into, self.out = nn.Linear(16, 2 * width), nn.Linear(width, 16)
            self.conv = nn.Conv1d(width, width, 4, groups=width, padding=3)
            self.rates, self.forms = nn.Linear(width, width), nn.Linear(width, 2 * states)
            self.log_a, self.skip = nn.Parameter(torch.rand(width, states)), nn.Parameter(torch.ones(width))

        def forward(self, x):
            x, gate = self.into(x).chunk(2, -1)
            x = nn.functional.silu(self.conv(x.transpose(1, 2))[..., :12].transpose(1, 2))
            rate, (b, c) = nn.functional.softplus(self.rates(x)), self.forms(x).chunk(2, -1)
            decay, step = torch.exp(-rate[..., None] * self.log_a.exp()), (rate * x)[..., None] * b[:, :, None]
            state, ends = torch.zeros_like(step[:, 0]), []
            for i in range(12):
                state = decay[:, i] * state + step[:, i]
                ends.append((state * c[:, i, None]).sum(-1))
            return self.out((torch.stack(ends, 1) + self.skip * x) * nn.functional.silu(gate))
    rng = np.random.default_rng(7)
    return Scan().eval(), [{"x": smooth(rng, 1, 1, 12, 16)[0]} for _ in range(2 * MOST)], {}


def conditional():
    """If, with weights in both branches and a value around them that both read."""
    import torch
    nn = torch.nn
    torch.manual_seed(7)

    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 1)
            self.one, self.other = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)

        def forward(self, x):
            x = torch.relu(self.stem(x))
            y = torch.cond(x.mean() > .4, lambda t: torch.relu(self.one(t)), lambda t: self.other(t) * 2., (x,))
            return self.head(x + y)
    return Branches().eval(), images(np.random.default_rng(7), 32), {}


def lstm():
    return recurrent("LSTM")


def gru():
    return recurrent("GRU")


def recurrent(kind):
    import torch
    torch.manual_seed(7)

    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.into = torch.nn.Linear(20, 32)
            self.cell = getattr(torch.nn, kind)(32, 32, 2, bidirectional=True, batch_first=True)
            self.out = torch.nn.Linear(64, 10)

        def forward(self, x):
            return self.out(self.cell(torch.tanh(self.into(x)))[0])
    rng = np.random.default_rng(7)
    return Recurrent().eval(), [{"x": smooth(rng, 1, 1, 24, 20)[0]} for _ in range(2 * MOST)], {}


EXPORTS = {maker.__name__: maker for maker in (vit, convnext, swin, efficientnet, mobilenetv3, resnet, bert, t5, whisper_encoder,
                                               whisper_decoder, llama, llama_with_cache, llama_prompt, detr, unet, detector, lstm, gru,
                                               densenet, regnet, mobilevit, mixer, shufflenet, gpt2, video, wavenet, generator, clip, masks_of_points,
                                               selective_scan, conditional)}


def halved(feed):
    return {key: array.astype(np.float16) if array.dtype == np.float32 else array for key, array in feed.items()}


def export(maker, dynamo, opset=None, half=False):
    """opset: None is 17 of the older exporter, and the other one's own choice. half: float16 throughout."""
    import torch
    model, feeds, axes, *example = maker()
    if half:
        model, feeds, example = model.half(), list(map(halved, feeds)), list(map(halved, example))
    sample = example[0] if example else feeds[0]
    names = list(sample)
    axes = {key: value for key, value in axes.items() if key in names and value}
    words = dict(input_names=names, dynamo=dynamo)
    if not dynamo:
        words |= dict(opset_version=opset or 17, dynamic_axes=axes, do_constant_folding=True)
    elif opset:
        words["opset_version"] = opset
    if dynamo and axes:
        shapes = [{axis: torch.export.Dim.DYNAMIC for axis in axes.get(key, {})} for key in names]
        kinds = [value.kind for value in inspect.signature(model.forward).parameters.values()]
        at = kinds.index(inspect.Parameter.VAR_POSITIONAL) if inspect.Parameter.VAR_POSITIONAL in kinds else None
        words["dynamic_shapes"] = tuple(shapes) if at is None else (*shapes[:at], tuple(shapes[at:]))
    with torch.no_grad(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        out = io.BytesIO()
        if dynamo:
            made = torch.onnx.export(model, tuple(torch.from_numpy(sample[key]) for key in names), **words).model_proto
        else:
            torch.onnx.export(model, tuple(torch.from_numpy(sample[key]) for key in names), out, **words)
            made = onnx.load_from_string(out.getvalue())
    taken = set(inputs_of(made))
    return made, [{key: array for key, array in feed.items() if key in taken} for feed in feeds]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shared", type=Path, help="a folder of real models, one a folder")
    parser.add_argument("--hand-made", action="store_true", help="the small ones of hand_made.py")
    parser.add_argument("--exports", action="store_true", help="the exports; needs torch, torchvision, timm, transformers, onnxscript")
    parser.add_argument("--architectures", action="store_true", help="those of architectures.py, which need the same")
    parser.add_argument("--way", action="append", choices=("torchscript", "dynamo"), help="exports of this exporter only")
    parser.add_argument("--opset", type=int, help="exports of this operator set; their names end with it")
    parser.add_argument("--half", action="store_true", help="exports in float16; their names end so")
    parser.add_argument("--samples", type=int, default=MOST, help="to calibrate on, and as many to check with, at most (default: %(default)s)")
    parser.add_argument("--only", action="append", help="only these")
    parser.add_argument("--again", action="store_true", help="make those again that exist")
    options = parser.parse_args()
    failed = 0
    def wanted(name):
        exists = (options.folder / name / "model.onnx").exists() and not options.again
        return not exists and (not options.only or any(word in name for word in options.only))
    jobs = {}
    for path in sorted(options.shared.glob("*/model.onnx")) if options.shared else []:
        jobs[path.parent.name] = lambda path=path: (path, shared_feeds(path.parent))
    for name in hand_made.NETWORKS if options.hand_made else []:
        jobs[name] = lambda name=name: hand_made.make(name)
    for name, maker in {**(EXPORTS if options.exports else {}), **(architectures.MAKERS if options.architectures else {})}.items():
        for way in options.way or ("torchscript", "dynamo"):
            end = (str(options.opset) if options.opset else "") + ("_half" if options.half else "")
            jobs[f"{name}_{way}{end}"] = lambda maker=maker, way=way: export(maker, way == "dynamo", options.opset, options.half)
    for name, job in jobs.items():
        if not wanted(name):
            continue
        try:
            model, feeds = job()
            cases.write(options.folder, name, model, *halves(feeds[:2 * options.samples]))
            print(f"made {name}", flush=True)
        except Exception as error:
            failed += 1
            print(f"not made: {name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)
            if options.only:
                traceback.print_exc()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
