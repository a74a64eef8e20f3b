"""ImageProcessor equals transformers' image processors and timm's transforms bit for bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from minitorch_attn.data.images import ImageProcessor

LENGTHS = st.integers(3, 70)
TRIPLES = st.tuples(*[st.floats(0.1, 0.9).map(lambda value: round(value, 3))] * 3).map(list)
EASY = settings(deadline=None, max_examples=150)


@st.composite
def picture(draw):
    """Noise on a slope, so that neither filter nor place can be wrong unnoticed."""
    height, width = draw(LENGTHS), draw(LENGTHS)
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    slope = np.add.outer(np.arange(height), np.arange(width))[..., None] * [1, 2, 3]
    pixels = (slope + rng.integers(128, size=(height, width, 3))) % 256
    return Image.fromarray(pixels.astype(np.uint8))


@st.composite
def preprocessor_config(draw):
    shapes = st.one_of(
        st.integers(2, 40),
        st.fixed_dictionaries({"height": st.integers(2, 40), "width": st.integers(2, 40)}),
        st.fixed_dictionaries({"shortest_edge": st.integers(2, 40)}),
    )
    crops = st.fixed_dictionaries({"height": st.integers(2, 50), "width": st.integers(2, 50)})
    options = {
        "size": shapes,
        "resample": st.integers(0, 5),
        "do_resize": st.booleans(),
        "do_center_crop": st.booleans(),
        "crop_size": crops | st.integers(2, 50),
        "rescale_factor": st.sampled_from([1 / 255, 0.01]),
        "do_rescale": st.booleans(),
        "do_normalize": st.booleans(),
        "image_mean": TRIPLES,
        "image_std": TRIPLES,
    }
    config = draw(st.fixed_dictionaries({}, optional=options))
    if config.get("do_center_crop"):
        config.setdefault("crop_size", 17)
    return config


@EASY
@given(image=picture(), config=preprocessor_config(), kind=st.sampled_from(["ViT", "DeiT", "CLIP"]))
def test_image_processors_of_transformers(image, config, kind):
    transformers = pytest.importorskip("transformers")
    theirs = getattr(transformers, f"{kind}ImageProcessorPil")(**config)
    expected = np.asarray(theirs(image)["pixel_values"][0])
    ours = ImageProcessor.from_config(theirs.to_dict())
    np.testing.assert_array_equal(ours(image).numpy()[0], expected)
    ours = ImageProcessor.from_config({**config, "image_processor_type": f"{kind}ImageProcessor"})
    np.testing.assert_array_equal(ours(image).numpy()[0], expected)


def test_transparent_pictures_and_folders(tmp_path):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.CLIPImageProcessorPil(size={"shortest_edge": 9}, crop_size=7)
    theirs.save_pretrained(tmp_path)
    ours = ImageProcessor.from_pretrained(tmp_path)
    rng = np.random.default_rng(3)
    pixels = rng.integers(256, size=(11, 17, 4)).astype(np.uint8)
    for mode in ("RGBA", "LA", "P", "L", "1"):
        image = Image.fromarray(pixels).convert(mode)
        expected = np.asarray(theirs(image)["pixel_values"][0])
        np.testing.assert_array_equal(ours(image).numpy()[0], expected)


@EASY
@given(
    image=picture(),
    size=st.tuples(st.just(3), st.integers(2, 40), st.integers(2, 40)) | st.integers(2, 40),
    options=st.fixed_dictionaries(
        {},
        optional={
            "crop_pct": st.sampled_from([0.5, 0.875, 0.9, 0.95, 1.0]),
            "crop_mode": st.sampled_from(["center", "squash", "border"]),
            "interpolation": st.sampled_from(["nearest", "bilinear", "bicubic", "lanczos", "box"]),
            "mean": TRIPLES,
            "std": TRIPLES,
        },
    ),
)
def test_transform_of_timm(image, size, options):
    if pytest.importorskip("torchvision").__version__ == "0":
        pytest.skip("needs torchvision itself, not the stand-in of the model tests")
    data = pytest.importorskip("timm.data")
    size = size if isinstance(size, tuple) else (3, size, size)
    config = {"input_size": size, **options}
    transform = data.create_transform(**data.resolve_data_config(pretrained_cfg=config))
    expected = transform(image).numpy()
    found = ImageProcessor.from_pretrained_cfg(config)(image).numpy()[0]
    np.testing.assert_array_equal(found, expected)
