# SPDX-License-Identifier: Apache-2.0
"""Fills a folder with small networks of twelve kinds, trained for a minute each on data that is made here: for test_methods.py.

    trained.py FOLDER [--only NAMES] [--steps 300]

FOLDER/NAME has model.onnx and inputs.npz, whose arrays are named as the inputs are; inputs.npz of networks that classify also has `labels`.
Trained weights matter: those that are drawn at random have neither channels of unlike size nor tails. Needs torch and onnxscript.
"""
import argparse
import io
import time
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional

SAMPLES = 192  # that a folder keeps; none of them was trained on


# ---- data ----

def pictures(rng, n, size=32):
    """Eight kinds of shape and texture, on uneven backgrounds, with light and contrast that differ from one to the next."""
    y, x = np.mgrid[:size, :size] / size
    out, labels = np.empty((n, 3, size, size), np.float32), rng.integers(0, 8, n)
    for i, kind in enumerate(labels):
        cy, cx, r = rng.uniform(.3, .7, 2).tolist() + [rng.uniform(.12, .3)]
        d, wave = np.hypot(y - cy, x - cx), 2 * np.pi * rng.uniform(3, 6)
        mask = [d < r, np.abs(d - r) < .06, np.maximum(abs(y - cy), abs(x - cx)) < r, abs(y - cy) + abs(x - cx) < r,
                np.minimum(abs(y - cy), abs(x - cx)) < .06, np.sin(wave * x) > .3, np.sin(wave * y) > .3,
                np.sin(wave * x) * np.sin(wave * y) > .2][kind]
        slope = rng.normal(0, .3, (3, 2)) @ np.stack([y.ravel(), x.ravel()])
        picture = rng.uniform(.1, .6, (3, 1, 1)) + slope.reshape(3, size, size) + mask * rng.uniform(-.6, .6, (3, 1, 1))
        out[i] = picture + rng.lognormal(-3.5, .6) * rng.standard_normal((3, size, size))
    return np.clip(out, 0, 1), labels


def sounds(rng, n, frames=32, bins=40):
    """Magnitudes of spectra: harmonics that glide, behind noise; the label is the direction and the spacing."""
    labels, t, f = rng.integers(0, 6, n), np.arange(frames)[:, None], np.arange(bins)[None]
    clean = np.empty((n, frames, bins), np.float32)
    for i, kind in enumerate(labels):
        base = rng.uniform(4, 7) * (1 + kind // 3) + (kind % 3 - 1) * t * .08
        level = rng.lognormal(0, .7) * np.clip(np.sin(np.pi * (t + rng.uniform(0, 12)) / frames), 0, 1)
        clean[i] = level * sum(np.exp(-(f - base * h) ** 2) / h for h in range(1, 5))
    noise = rng.gamma(1, 1, clean.shape) * rng.lognormal(-2.5, .5, (n, 1, 1)) * (1 + 3 * np.exp(-f / 6))
    return (clean + noise).astype(np.float32), clean, labels


def sentences(rng, n, length=32, words=48):
    """A chain of the second order: what comes next follows from the last two words, seven times of ten."""
    table = np.random.default_rng(5).integers(0, words, (words, words))
    out = rng.integers(0, words, (n, length + 1))
    for i in range(2, length + 1):
        known = rng.random(n) < .7
        out[known, i] = table[out[known, i - 1] % 8, out[known, i - 2] % 8]
    return out


# ---- networks ----

def conv(into, out, k=3, stride=1, groups=1, act=nn.ReLU):
    return nn.Sequential(nn.Conv2d(into, out, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(out), act())


class Classifier(nn.Module):
    def __init__(self, body, width, kinds=8, softmax=False):
        super().__init__()
        self.body, self.head, self.softmax = body, nn.Linear(width, kinds), softmax

    def forward(self, x):
        y = self.body(x)
        y = self.head(y.mean((2, 3)) if y.dim() == 4 else y.mean(1))
        return y.softmax(-1) if self.softmax and not self.training else y


class Residual(nn.Module):
    def __init__(self, into, out, stride=1):
        super().__init__()
        self.a, self.b = conv(into, out, 3, stride), nn.Sequential(nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out))
        self.skip = nn.Identity() if into == out and stride == 1 else nn.Conv2d(into, out, 1, stride)

    def forward(self, x):
        return functional.relu(self.b(self.a(x)) + self.skip(x))


class Fire(nn.Module):
    def __init__(self, into, thin, out):
        super().__init__()
        self.thin, self.one, self.three = nn.Conv2d(into, thin, 1), nn.Conv2d(thin, out, 1), nn.Conv2d(thin, out, 3, padding=1)

    def forward(self, x):
        x = functional.relu(self.thin(x))
        return torch.cat([functional.relu(self.one(x)), functional.relu(self.three(x))], 1)


class Attention(nn.Module):
    def __init__(self, width, heads, causal=False, act=functional.gelu):
        super().__init__()
        self.heads, self.causal, self.act = heads, causal, act
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out, self.up, self.down = (nn.Linear(width, n * width) for n in (3, 1, 3, 1))
        self.down = nn.Linear(3 * width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(2, 3) / (width // self.heads) ** .5
        if self.causal:
            scores = scores + torch.full((length, length), -1e9).triu(1)
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, length, width))
        return x + self.down(self.act(self.up(self.norm2(x))))


class Patches(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.cut, self.place = nn.Conv2d(3, width, 4, 4), nn.Parameter(.02 * torch.randn(1, 64, width))
        self.layers = nn.Sequential(Attention(width, 4), Attention(width, 4), nn.LayerNorm(width))

    def forward(self, x):
        return self.layers(self.cut(x).flatten(2).transpose(1, 2) + self.place)


class Language(nn.Module):
    def __init__(self, words=48, width=64):
        super().__init__()
        self.table, self.place = nn.Embedding(words, width), nn.Parameter(.02 * torch.randn(1, 32, width))
        self.layers = nn.Sequential(Attention(width, 4, True), Attention(width, 4, True), nn.LayerNorm(width))
        self.out = nn.Linear(width, words)

    def forward(self, ids):
        return self.out(self.layers(self.table(ids) + self.place))


class Recurrent(nn.Module):
    """A mask for each bin of noisy spectra."""

    def __init__(self, kind, bins=40, width=64):
        super().__init__()
        self.into, self.cells, self.out = nn.Linear(bins, width), kind(width, width, batch_first=True), nn.Linear(width, bins)

    def forward(self, x):
        return x * self.out(self.cells(torch.relu(self.into(torch.log1p(x))))[0]).sigmoid()


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = conv(3, 16), conv(16, 32, 3, 2), conv(32, 48, 3, 2)
        self.d, self.e, self.out = conv(80, 32), conv(48, 16, act=nn.SiLU), nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, x):
        a, up = self.a(x), lambda y: functional.interpolate(y, scale_factor=2, mode="nearest")
        b = self.b(a)
        return x + self.out(self.e(torch.cat([up(self.d(torch.cat([up(self.c(b)), b], 1))), a], 1)))


def dense():
    layers = [nn.Flatten()]
    for into, out in ((1280, 128), (128, 128), (128, 16), (16, 128)):
        layers += [nn.Linear(into, out), nn.BatchNorm1d(out), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(128, 1280))


def depthwise(act):
    layers, into = [conv(3, 16, act=act)], 16
    for out, stride in ((32, 2), (32, 1), (64, 2), (64, 1), (64, 1)):
        layers += [conv(into, into, 3, stride, into, act), conv(into, out, 1, act=act)]
        into = out
    return nn.Sequential(*layers)


class Inverted(nn.Module):
    def __init__(self, into, out, stride=1):
        super().__init__()
        self.adds = into == out and stride == 1
        self.body = nn.Sequential(conv(into, 4 * into, 1, act=nn.Hardswish), conv(4 * into, 4 * into, 3, stride, 4 * into, nn.Hardswish),
                                  nn.Conv2d(4 * into, out, 1, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


# ---- training ----

def classes(output, labels, _):
    return functional.cross_entropy(output.reshape(-1, output.shape[-1]), labels.reshape(-1))


def likeness(output, _, wanted):
    return functional.mse_loss(output, wanted.reshape(output.shape))


def see(scale=1., shift=0.):
    def draw(rng, n):
        x, labels = pictures(rng, n)
        return x * np.float32(scale) - np.float32(shift), labels, None
    return draw


def listen(rng, n):
    x, clean, labels = sounds(rng, n)
    return x, labels, clean


def rebuild(rng, n):
    x, _, labels = sounds(rng, n)
    return 10 * np.log10(x + 1e-3, dtype=np.float32), labels, 10 * np.log10(x + 1e-3, dtype=np.float32)


def denoise(rng, n):
    clean, labels = pictures(rng, n)
    return np.clip(clean + rng.normal(0, .1, clean.shape), 0, 1).astype(np.float32), labels, clean


def read(rng, n):
    both = sentences(rng, n)
    return both[:, :-1], both[:, 1:], None


def seq(*parts):
    return nn.Sequential(*parts)


# name: (network, data, loss, rate)
NETWORKS = {
    "plain": (lambda: Classifier(seq(conv(3, 16), conv(16, 32, 3, 2), conv(32, 32), conv(32, 64, 3, 2)), 64), see(), classes, 3e-3),
    "pixels": (lambda: Classifier(seq(conv(3, 16), conv(16, 32, 3, 2), conv(32, 64, 3, 2)), 64, softmax=True), see(255.), classes, 3e-3),
    "residual": (lambda: Classifier(seq(conv(3, 16), Residual(16, 16), Residual(16, 32, 2), Residual(32, 64, 2)), 64, softmax=True),
                 see(2., 1.), classes, 3e-3),
    "fire": (lambda: Classifier(seq(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), Fire(32, 8, 16), nn.MaxPool2d(2), Fire(32, 16, 32),
                                    Fire(64, 16, 32)), 64, softmax=True), see(255., 118.), classes, 1e-3),
    "depthwise": (lambda: Classifier(depthwise(nn.ReLU6), 64), see(2., 1.), classes, 3e-3),
    "inverted": (lambda: Classifier(seq(conv(3, 16, 3, 2, act=nn.Hardswish), Inverted(16, 16), Inverted(16, 24, 2), Inverted(24, 24)), 24),
                 see(2., 1.), classes, 3e-3),
    "patches": (lambda: Classifier(Patches(48), 48), see(2., 1.), classes, 1e-3),
    "language": (Language, read, classes, 1e-3),
    "lstm": (lambda: Recurrent(nn.LSTM), listen, likeness, 3e-3),
    "gru": (lambda: Recurrent(nn.GRU), listen, likeness, 3e-3),
    "dense": (dense, rebuild, likeness, 3e-3),
    "unet": (Unet, denoise, likeness, 3e-3),
}


def train(name, steps):
    make, draw, loss_of, rate = NETWORKS[name]
    torch.manual_seed(3)
    rng, model = np.random.default_rng(3), make()
    optimizer = torch.optim.AdamW(model.parameters(), rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    x, labels, wanted = (array if array is None else torch.from_numpy(array) for array in draw(rng, 4096))
    for _ in range(steps):
        some = torch.from_numpy(rng.integers(0, len(x), 32))
        loss = loss_of(model(x[some]), labels[some], wanted if wanted is None else wanted[some])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval(), draw(np.random.default_rng(4), SAMPLES), loss.item()


def write(folder, name, steps):
    model, (x, labels, _), loss = train(name, steps)
    out = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (torch.from_numpy(x[:1]),), out, input_names=["x"], output_names=["y"], opset_version=17,
                          dynamic_axes={"x": {0: "N"}, "y": {0: "N"}}, dynamo=False)
        made = model(torch.from_numpy(x))
    right = (made.argmax(-1).numpy() == labels).mean() if NETWORKS[name][2] is classes else float("nan")
    target = folder / name
    target.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(target / "inputs.npz", x=x[:, None], **({} if np.isnan(right) else {"labels": labels}))
    onnx.save(onnx.load_from_string(out.getvalue()), target / "model.onnx")
    return loss, right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(NETWORKS), metavar="NAMES")
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    for name in options.only.split(","):
        if not (options.folder / name / "model.onnx").exists():
            start = time.monotonic()
            loss, right = write(options.folder, name, options.steps)
            print(f"{name}: loss {loss:.4f}, right {right:.3f}, {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
