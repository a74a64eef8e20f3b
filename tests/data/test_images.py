"""Image preprocessing: sizes, crops, colors and values."""

import json
import os

import numpy as np
import pytest
from PIL import Image

from minitorch_attn.data.images import ImageProcessor, read_image
from minitorch_attn.errors import ArgumentError, DataError, DTypeError


def picture(rng, height, width, channels=3):
    return rng.integers(256, size=(height, width, channels)).astype(np.uint8).squeeze()


def values(processor, image):
    return processor(image).numpy()[0]


def test_a_picture_of_the_right_size_is_scaled_and_normalised(rng):
    pixels = picture(rng, 5, 7)
    mean, std = [0.1, 0.2, 0.3], [0.5, 0.25, 2.0]
    processor = ImageProcessor(mean, std)
    found = processor([pixels, pixels[::-1].copy()])
    assert found.shape == (2, 3, 5, 7) and found.dtype == np.float32
    for c in range(3):
        expected = (pixels[:, :, c] / 255 - mean[c]) / std[c]
        np.testing.assert_allclose(found.numpy()[0, c], expected, rtol=2e-6, atol=1e-6)
    np.testing.assert_array_equal(found.numpy()[1], found.numpy()[0][:, ::-1])
    plain = ImageProcessor()(pixels).numpy()[0]
    np.testing.assert_array_equal(plain, pixels.transpose(2, 0, 1).astype("f4") / np.float32(255))


@pytest.mark.parametrize(
    ("config", "size", "expected"),
    [
        ({"size": 6}, (11, 17), (6, 6)),
        ({"size": [6, 5]}, (11, 17), (6, 5)),
        ({"size": {"height": 6, "width": 5}}, (11, 17), (6, 5)),
        ({"size": {"shortest_edge": 6}}, (11, 17), (6, 9)),
        ({"size": {"shortest_edge": 6}}, (17, 11), (9, 6)),
        ({"do_resize": False}, (11, 17), (11, 17)),
        ({"do_resize": False, "do_center_crop": True, "crop_size": 5}, (11, 17), (5, 5)),
        ({"image_processor_type": "CLIPImageProcessor"}, (30, 40), (224, 224)),
        (
            {"feature_extractor_type": "CLIPFeatureExtractor", "size": 8, "do_center_crop": False},
            (30, 45),
            (8, 12),
        ),
        ({"image_processor_type": "DeiTImageProcessorFast"}, (30, 40), (224, 224)),
    ],
)
def test_sizes(config, size, expected, rng):
    assert values(ImageProcessor.from_config(config), picture(rng, *size)).shape[1:] == expected


@pytest.mark.parametrize(
    ("config", "size", "expected"),
    [
        ({"input_size": [3, 8, 8], "crop_pct": 0.5}, (30, 60), (8, 8)),
        ({"input_size": [3, 8, 12], "crop_pct": 0.9}, (30, 60), (8, 12)),
        ({"input_size": [3, 8, 8], "crop_mode": "squash", "crop_pct": 1}, (30, 60), (8, 8)),
        ({"input_size": [3, 8, 8], "crop_mode": "border", "crop_pct": 1}, (30, 60), (8, 8)),
        ({}, (30, 60), (224, 224)),
    ],
)
def test_sizes_of_timm(config, size, expected, rng):
    processor = ImageProcessor.from_pretrained_cfg(config)
    assert values(processor, picture(rng, *size)).shape[1:] == expected


def test_what_a_crop_takes_and_what_it_fills_up(rng):
    pixels = picture(rng, 7, 4)
    white = np.pad(pixels, ((0, 0), (1, 2), (0, 0)), constant_values=200)
    processor = ImageProcessor(crop_size=(4, 7), fill=[200, 200, 200])
    expected = white[2:6].transpose(2, 0, 1).astype("f4") / np.float32(255)
    np.testing.assert_array_equal(values(processor, pixels), expected)
    config = {"do_resize": False, "do_center_crop": True, "crop_size": [4, 7]}
    config |= {"do_normalize": False, "do_rescale": False}
    black = np.pad(pixels, ((0, 0), (2, 1), (0, 0)))
    expected = black[1:5].transpose(2, 0, 1)
    np.testing.assert_array_equal(values(ImageProcessor.from_config(config), pixels), expected)


def test_a_border_keeps_the_whole_picture():
    config = {
        "input_size": [3, 8, 8],
        "crop_mode": "border",
        "crop_pct": 1.0,
        "mean": [0.2, 0.4, 0.6],
    }
    red = np.zeros((10, 20, 3), dtype=np.uint8)
    red[:, :, 0] = 255
    found = values(ImageProcessor.from_pretrained_cfg(config), red)
    np.testing.assert_allclose(found[:, :2], 0, atol=1e-6)  # the mean, normalised
    assert (found[0, 2:6] > 3).all() and (found[1, 2:6] < -1).all()


def test_colours(tmp_path):
    grey = np.array([[0, 128, 255]], dtype=np.uint8)
    three = values(ImageProcessor(), grey)
    assert three.shape == (3, 1, 3) and (three == three[0]).all()
    rgb = np.zeros((1, 1, 3), dtype=np.uint8) + np.array([255, 0, 0], dtype=np.uint8)
    one = values(ImageProcessor([0.0], [1.0]), rgb)
    assert one.shape == (1, 1, 1) and 0.25 < one[0, 0, 0] < 0.35  # the luminance of red
    clear = np.array([[[0, 0, 0, 0], [10, 20, 30, 255]]], dtype=np.uint8)
    config = {"do_resize": False, "do_normalize": False, "do_rescale": False}
    on_white = values(ImageProcessor.from_config(config), clear)
    assert on_white[:, 0].T.tolist() == [[255, 255, 255], [10, 20, 30]]
    dropped = values(ImageProcessor(), clear)
    assert dropped[0, 0, 0] == 0


def test_pictures_from_files(tmp_path, rng):
    pixels = picture(rng, 4, 6)
    processor = ImageProcessor()
    for name in ("a.png", "a.bmp", "a.tiff", "a.webp", "a.ppm"):
        options = {"lossless": True} if name == "a.webp" else {}
        Image.fromarray(pixels).save(tmp_path / name, **options)
        np.testing.assert_array_equal(values(processor, tmp_path / name), values(processor, pixels))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright
    Image.fromarray(pixels).save(tmp_path / "turned.png", exif=exif)
    turned = np.rot90(pixels, -1).copy()
    np.testing.assert_array_equal(
        values(processor, tmp_path / "turned.png"), values(processor, turned)
    )


def test_what_is_no_picture(tmp_path, rng, monkeypatch):
    path = tmp_path / "a.png"
    Image.fromarray(picture(rng, 40, 60)).save(path)
    whole = path.read_bytes()
    for content in (b"", b"text", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"):
        path.write_bytes(content)
        with pytest.raises(DataError, match="is not an image"):
            read_image(path)
    path.write_bytes(whole[:500])
    with pytest.raises(DataError, match="could not be read as an image"):
        read_image(path)
    with pytest.raises(DataError, match="nowhere.png could not be read"):
        read_image(tmp_path / "nowhere.png")
    path.write_bytes(whole)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(DataError, match="too large"):
        read_image(path)


def test_wrong_arguments(rng):
    processor = ImageProcessor()
    for wrong in (np.zeros((4, 4)), np.zeros((4, 4, 5), np.uint8), 3.5, np.zeros(4, np.uint8)):
        with pytest.raises(DTypeError, match="image"):
            processor([wrong])
    with pytest.raises(DataError, match=r"\(4, 5\), \(5, 4\)"):
        processor([picture(rng, 5, 4), picture(rng, 4, 5)])
    with pytest.raises(ArgumentError, match="must not be empty"):
        processor([])
    with pytest.raises(ArgumentError, match="'cubic'"):
        ImageProcessor(resample="cubic")
    with pytest.raises(ArgumentError, match="2 channels"):
        ImageProcessor([0.5, 0.5], [1, 1])
    for config in (
        {"image_processor_type": "LevitImageProcessor"},
        {"do_pad": True},
        {"size": {"shortest_edge": 3, "longest_edge": 9}},
    ):
        with pytest.raises(DataError, match="not supported"):
            ImageProcessor.from_config(config)
    with pytest.raises(DataError, match="crop_mode"):
        ImageProcessor.from_pretrained_cfg({"crop_mode": "corner"})


def test_folders(tmp_path, rng):
    pixels = picture(rng, 9, 9)
    with pytest.raises(DataError, match="configuration is missing"):
        ImageProcessor.from_pretrained(tmp_path)
    cfg = {"input_size": [3, 4, 4], "mean": [0.0, 0.0, 0.0], "std": [1.0, 1.0, 1.0]}
    (tmp_path / "config.json").write_text(json.dumps({"pretrained_cfg": cfg}))
    assert values(ImageProcessor.from_pretrained(tmp_path), pixels).min() >= 0
    path = os.path.join(tmp_path, "preprocessor_config.json")
    with open(path, "w") as file:
        json.dump({"size": 5}, file)
    found = values(ImageProcessor.from_pretrained(tmp_path), pixels)
    assert found.shape == (3, 5, 5) and found.min() < 0


def test_the_device(rng, device):
    assert ImageProcessor()(picture(rng, 2, 3), device=device).device.type == device


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("size", "x"), ("size", {"x": 1}), ("size", {"height": 8}), ("size", {"height": True}),
        ("size", {"shortest_edge": None}), ("size", 2**31), ("size", [8, 8, 8]),
        ("image_mean", [0.5, float("nan"), 0.5]), ("image_mean", 10**400), ("image_std", [0, 0, 0]),
        ("image_std", [0.5]), ("rescale_factor", "x"), ("resample", True), ("resample", [2]),
        ("do_resize", "false"), ("image_processor_type", 5),
    ],
)  # fmt: skip
def test_wrong_fields_are_refused(name, value, tmp_path, rng):
    config = {"size": 8, name: value}
    with pytest.raises((DataError, ArgumentError)):
        ImageProcessor.from_config(config)(picture(rng, 5, 7))


@pytest.mark.parametrize(
    "config",
    [5, [], {"input_size": [3, 8]}, {"input_size": {"x": 1}}, {"crop_pct": 1e-300},
     {"mean": "x"}, {"std": [0.5, 0.5]}, {"interpolation": [1]}, {"crop_mode": 5}],
    ids=str,
)  # fmt: skip
def test_wrong_fields_of_timm_are_refused(config, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"pretrained_cfg": config}))
    with pytest.raises((DataError, ArgumentError)):
        ImageProcessor.from_pretrained(tmp_path)


@pytest.mark.parametrize("missing", [{}, {"crop_size": None}])
def test_a_center_crop_without_its_size_is_refused(missing):
    for kind in ({}, {"image_processor_type": "ViTImageProcessor"}):
        with pytest.raises(DataError, match="crop_size is missing"):
            ImageProcessor.from_config({**kind, "do_center_crop": True, **missing})
    ImageProcessor.from_config({"do_center_crop": False, **missing})  # needs none
    clip = ImageProcessor.from_config({"image_processor_type": "CLIPImageProcessor", **missing})
    assert clip.crop_size == (224, 224)  # CLIP has a default
