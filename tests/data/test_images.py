# SPDX-License-Identifier: Apache-2.0
"""Holds the reading of images against Pillow.

usage: test_images.py DUMP_SOURCE

DUMP_SOURCE is tests/tools/dump_source. Exit status 77 when NumPy or Pillow is missing.
"""
import io
import itertools
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

try:
    import numpy as np
    from PIL import Image
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

DUMP = sys.argv.pop(1)
RANDOM = np.random.default_rng(5)


def picture(height, width, channels=3):
    """Smooth, with noise: like photographs, and with edges that resampling shows."""
    y, x = np.mgrid[0:height, 0:width]
    smooth = np.stack([x * 255 / width, y * 255 / height, (x + y) * 255 / (height + width), 255 - x * 255 / width], -1)
    noisy = (smooth + RANDOM.normal(0, 25, smooth.shape)).clip(0, 255).astype(np.uint8)
    return noisy[..., 0] if channels == 1 else noisy[..., :channels]


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width, height, depth, color, rows, *more, interlace=0):
    """A PNG as Pillow does not write it; `rows` without filter bytes."""
    packed = zlib.compress(b"".join(b"\0" + row for row in rows))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlace)) +
            b"".join(chunk(*one) for one in more) + chunk(b"IDAT", packed) + chunk(b"IEND", b""))


class Images(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def dump(self, source, spec="", step=1):
        """The array, with as many first entries as there are; a RuntimeError with the message when refused."""
        done = subprocess.run([DUMP, str(source), str(step), spec], capture_output=True, timeout=60, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        if done.returncode:
            raise RuntimeError(done.stderr.decode().strip())
        line, self.digest = done.stdout.decode().splitlines()
        _, dtype, origin, shape, elements = line.split("\t")
        self.assertEqual(dtype, origin)
        dims = [-1 if dim == "?" else int(dim) for dim in shape[1:-1].split(",")]
        flat = np.frombuffer(bytes.fromhex(elements), dtype)
        return flat.reshape(dims) if dims.count(-1) < 2 else flat

    def pixels(self, path, like, more=""):
        """The pixels of one file, in the shape of `like`."""
        flat = self.dump(path, "type=uint8,layout=nhwc" + more)
        self.assertEqual(flat.size, like.size)
        return flat.reshape(like.shape)

    def assert_near(self, got, want, most=1):
        self.assertEqual(got.shape, want.shape)
        self.assertLessEqual(int(np.abs(got.astype(int) - want.astype(int)).max()), most)

    def assert_as_pillow(self, path, most=0):
        with Image.open(path) as image:
            for color, mode in [("rgb", "RGB"), ("grey", "L")]:
                want = np.asarray(image.convert(mode))
                self.assert_near(self.pixels(path, want, f",color={color}"), want, most)

    def test_every_kind_of_png(self):
        path = self.folder / "a.png"
        rgb, grey = Image.fromarray(picture(37, 53)), Image.fromarray(picture(37, 53, 1))
        alpha = Image.fromarray(picture(37, 53, 4))
        kinds = {
            "rgb": rgb, "grey": grey, "rgba": alpha, "grey-alpha": alpha.convert("LA"), "bilevel": grey.convert("1"),
            "palette": rgb.quantize(200), "small-palette": rgb.quantize(3), "16-colours": rgb.quantize(16)}
        for name, image in kinds.items():
            with self.subTest(name):
                image.save(path)
                self.assert_as_pillow(path)
        with self.subTest("transparent palette"):
            rgb.quantize(7).save(path, transparency=3)
            self.assert_as_pillow(path)

    def test_rare_bit_depths(self):
        path = self.folder / "a.png"
        for depth in (1, 2, 4):
            rows = [RANDOM.bytes((13 * depth + 7) // 8) for _ in range(9)]
            path.write_bytes(png(13, 9, depth, 0, rows))
            with self.subTest(depth=depth):
                self.assert_as_pillow(path)
            palette = RANDOM.bytes(3 << depth)
            path.write_bytes(png(13, 9, depth, 3, rows, (b"PLTE", palette)))
            with self.subTest(palette=depth):
                self.assert_as_pillow(path)
        for color, channels in [(0, 1), (2, 3), (4, 2), (6, 4)]:
            deep = RANDOM.integers(0, 65536, (9, 13, channels)).astype(">u2")
            path.write_bytes(png(13, 9, 16, color, [row.tobytes() for row in deep]))
            want = (deep >> 8).astype(np.uint8)[..., :3 if channels > 2 else 1]
            want = np.broadcast_to(want, (9, 13, 3))
            with self.subTest(color=color, depth=16):
                np.testing.assert_array_equal(self.pixels(path, want), want)

    def test_interlaced_rows_are_put_in_order(self):
        path = self.folder / "a.png"
        grey = picture(8, 8, 1)
        passes = [(0, 8, 0, 8), (0, 8, 4, 8), (4, 8, 0, 4), (0, 4, 2, 4), (2, 4, 0, 2), (0, 2, 1, 2), (1, 2, 0, 1)]
        rows = [row.tobytes() for y, dy, x, dx in passes for row in grey[y::dy, x::dx]]
        path.write_bytes(png(8, 8, 8, 0, rows, interlace=1))
        want = np.repeat(grey[..., None], 3, -1)
        np.testing.assert_array_equal(self.pixels(path, want), want)

    def test_every_kind_of_jpeg(self):
        path = self.folder / "a.jpg"
        rgb = Image.fromarray(picture(45, 67))
        for name, image in {"rgb": rgb, "grey": rgb.convert("L"), "cmyk": rgb.convert("CMYK")}.items():
            for options in [{"quality": 95}, {"quality": 30}, {"progressive": True}, {"subsampling": 0}]:
                if name == "cmyk" and "subsampling" in options:
                    continue
                with self.subTest(name, **options):
                    image.save(path, **options)
                    self.assert_as_pillow(path, 2)  # decoders of different releases may round differently

    def test_pixels_beyond_the_first_shared_memory(self):
        path = self.folder / "a.png"
        for side in (4096, 4200):
            want = np.add.outer(np.arange(side), np.arange(side)).astype(np.uint8)
            Image.fromarray(want).save(path)
            np.testing.assert_array_equal(self.pixels(path, want, ",color=grey"), want)

    def test_exif_orientation_is_ignored(self):
        path = self.folder / "a.jpg"
        exif = Image.Exif()
        exif[0x112] = 6
        Image.fromarray(picture(20, 30)).save(path, exif=exif)
        self.assert_as_pillow(path, 2)

    def test_resizing_is_pillows_bilinear(self):
        path = self.folder / "a.png"
        for height, width in [(1, 1), (7, 5), (64, 48), (100, 333), (241, 120)]:
            image = Image.fromarray(picture(height, width))
            image.save(path)
            for to in [(1, 1), (3, 2), (32, 32), (48, 64), (200, 90), (500, 9)]:
                want = np.asarray(image.resize(to, Image.Resampling.BILINEAR))
                with self.subTest(size=(width, height), to=to):
                    self.assert_near(self.pixels(path, want, f",resize={to[0]}x{to[1]}"), want)

    def test_the_shorter_side_and_the_middle(self):
        path = self.folder / "a.png"
        for height, width in [(60, 91), (91, 60), (50, 50), (31, 40), (333, 100)]:
            image = Image.fromarray(picture(height, width))
            image.save(path)
            short, long = min(height, width), max(height, width)
            longer = int(32 * long / short)
            size = (32, longer) if width <= height else (longer, 32)
            resized = image.resize(size, Image.Resampling.BILINEAR)
            self.assert_near(self.pixels(path, np.asarray(resized), ",resize=32"), np.asarray(resized))
            for crop in (32, 31, 27, 24):
                left, top = round((size[0] - crop) / 2), round((size[1] - crop) / 2)
                want = np.asarray(resized.crop((left, top, left + crop, top + crop)))
                with self.subTest(size=(width, height), crop=crop):
                    self.assert_near(self.pixels(path, want, f",resize=32,crop={crop}"), want)
            want = np.asarray(image)[round((height - 9) / 2):, round((width - 20) / 2):][:9, :20]
            np.testing.assert_array_equal(self.pixels(path, want, ",crop=20x9"), want)

    def test_numbers_and_layouts(self):
        path = self.folder / "a.png"
        rgb = picture(6, 8)
        Image.fromarray(rgb).save(path)
        mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
        words = "mean=0.485:0.456:0.406,std=0.229:0.224:0.225"
        plain = rgb / 255.0

        def check(spec, want):
            with self.subTest(spec):
                got = self.dump(path, spec)
                self.assertEqual(got.dtype, np.float32)
                np.testing.assert_allclose(got, want.astype(np.float32)[None].ravel(), rtol=2e-7, atol=0)
        check("", plain.transpose(2, 0, 1))
        check("layout=nhwc", plain)
        check(words, ((plain - mean) / std).transpose(2, 0, 1))
        check("color=bgr," + words, ((plain[..., ::-1] - mean) / std).transpose(2, 0, 1))
        check("scale=1,mean=127.5,std=127.5", ((rgb - 127.5) / 127.5).transpose(2, 0, 1))
        check("scale=1/128,layout=nhwc", rgb / 128.0)
        check("color=grey,scale=1", np.asarray(Image.fromarray(rgb).convert("L")).astype(float))

    def test_the_order_of_a_folder_and_of_a_list(self):
        names = ["b.png", "a.PNG", "Z.jpeg", "sub/c.png", "a.b.png", "10.png", "9.png"]
        (self.folder / "sub").mkdir()
        for i, name in enumerate(names):
            kind = "JPEG" if name.endswith("jpeg") else "PNG"
            Image.fromarray(np.full((2, 2), 10 * i, np.uint8)).save(self.folder / name, kind)
        (self.folder / "notes.md").write_text("no image")
        (self.folder / ".hidden.png").write_text("no image")
        spec = "color=grey,type=uint8,resize=2x2"
        want = [10 * names.index(name) for name in sorted(names, key=str.encode)]
        got = self.dump(self.folder, spec)
        self.assertEqual(got.shape, (7, 1, 2, 2))
        self.assertEqual(got[:, 0, 0, 0].tolist(), want)
        digest = self.digest
        for step in (2, 3, 7):
            np.testing.assert_array_equal(self.dump(self.folder, spec, step), got)
        (self.folder / "list.txt").write_text("\n".join(names) + "\r\n\n" + str(self.folder / "b.png"))
        listed = self.dump(self.folder / "list.txt", spec, 8)
        self.assertEqual(listed[:, 0, 0, 0].tolist(), [10 * i for i in range(7)] + [0])
        self.assertEqual(self.dump(self.folder / "9.png", spec).ravel().tolist(), [60] * 4)
        (self.folder / "9.png").rename(self.folder / "99.png")
        self.dump(self.folder, spec)
        self.assertNotEqual(self.digest, digest)

    def test_images_of_different_sizes_are_separate_entries(self):
        for i, size in enumerate([(4, 4), (4, 4), (5, 4), (5, 4), (4, 4)]):
            Image.fromarray(picture(*size)).save(self.folder / f"{i}.png")
        self.assertEqual(self.dump(self.folder, "", 5).size, 3 * (3 * 16 + 2 * 20))

    def assert_refused(self, path, *texts, spec=""):
        with self.assertRaises(RuntimeError) as caught:
            self.dump(path, spec)
        for text in (str(path), *texts):
            self.assertIn(text, str(caught.exception))

    def test_damaged_files_are_refused_by_name(self):
        streams = {}
        for kind, options in [("png", {}), ("jpg", {}), ("jpg", {"progressive": True})]:
            stream = io.BytesIO()
            Image.fromarray(picture(40, 40)).save(stream, {"jpg": "jpeg"}.get(kind, kind), **options)
            streams[kind, bool(options)] = stream.getvalue()
        for (kind, progressive), whole in streams.items():
            path = self.folder / f"a.{kind}"
            for end in (0, 1, 3, 8, 20, 33, 60, len(whole) // 2, len(whole) - 20, len(whole) - 3):
                path.write_bytes(whole[:end])
                with self.subTest(kind=kind, progressive=progressive, end=end):
                    self.assert_refused(path)
        path = self.folder / "a.png"
        flipped = bytearray(streams["png", False])
        flipped[len(flipped) // 2] ^= 0xff
        path.write_bytes(flipped)
        self.assert_refused(path)
        for content in (b"", b"GIF89a" + bytes(99), b"\x89PNG\r\n\x1a\n" + bytes(99), b"\xff\xd8\xff" + bytes(99)):
            path.write_bytes(content)
            self.assert_refused(path)

    def test_damaged_images_do_not_crash_the_decoders(self):
        refusals = 0
        for kind, seed in itertools.product(("png", "jpeg"), range(60)):
            random = np.random.default_rng(seed)
            stream = io.BytesIO()
            image = Image.fromarray(picture(24, 24, 1 + 2 * (seed % 2)))
            image.save(stream, kind, **({"progressive": seed % 3 == 0} if kind == "jpeg" else {}))
            damaged = bytearray(stream.getvalue())
            for at in random.integers(0, len(damaged), 1 + seed % 5):
                damaged[at] = random.integers(0, 256)
            path = self.folder / f"a.{kind}"
            path.write_bytes(damaged)
            try:
                self.dump(path, "resize=8x8")
            except RuntimeError as error:
                self.assertIn(str(path), str(error))
                refusals += 1
        self.assertGreater(refusals, 40)

    def test_bombs_are_refused_before_they_are_unpacked(self):
        path = self.folder / "bomb.png"
        for width, height in [(100000, 100000), (1 << 30, 1), (1, 1 << 30), (20000, 5000)]:
            path.write_bytes(png(width, height, 1, 0, []))
            self.assert_refused(path, "pixels")
        path = self.folder / "bomb.jpg"
        stream = io.BytesIO()
        Image.fromarray(picture(16, 16)).save(stream, "jpeg")
        whole = bytearray(stream.getvalue())
        frame = whole.index(b"\xff\xc0")
        whole[frame + 5:frame + 9] = struct.pack(">HH", 65000, 65000)
        path.write_bytes(whole)
        self.assert_refused(path, "pixels")
        path = self.folder / "thin.png"
        Image.fromarray(picture(1, 3000)).save(path)
        self.assert_refused(path, "pixels", spec="resize=60000")

    def test_a_crop_larger_than_the_picture_is_refused(self):
        path = self.folder / "a.png"
        Image.fromarray(picture(20, 30)).save(path)
        self.assert_refused(path, "30 x 20", "21 x 21", spec="crop=21")

    def test_invalid_options_are_refused(self):
        path = self.folder / "a.png"
        Image.fromarray(picture(2, 2)).save(path)
        for spec in ["resize", "resize=", "resize=0", "resize=-4", "resize=4x", "resize=4x4x4", "crop=70000", "size=4", "=",
                     "layout=hwc", "color=red", "scale=", "scale=1/0", "scale=0", "scale=1/2/3", "scale=nan", "mean=1:2",
                     "mean=1:2:3:4", "mean=1:2:", "std=0", "std=1:0:1", "mean=x", "resize=4,", ",", "resize=4,resize=5",
                     "type=float16", "type=uint8,mean=1", "color=grey,mean=1:2:3", "layout=" + "n" * 300]:
            with self.subTest(spec), self.assertRaisesRegex(RuntimeError, "--image"):
                self.dump(path, spec)


if __name__ == "__main__":
    unittest.main()
