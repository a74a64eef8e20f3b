"""Image folders with one subfolder for each class."""

import zipfile

import numpy as np
import pytest
from PIL import Image

from minitorch_attn.data.image_folder import ImageFolder
from minitorch_attn.data.images import ImageProcessor
from minitorch_attn.errors import DataError

PICTURES = {"cat/b.png": 10, "cat/a.JPG": 20, "ant/x/y.png": 30, "dog/z.bmp": 40}


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "pictures"
    for name, value in PICTURES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 6), (value, value, value)).save(root / name)
    (root / "cat" / "notes.txt").write_text("no picture")
    (root / ".hidden").mkdir()
    (root / "cat" / ".b.png").write_text("no picture")
    (root / "readme.md").write_text("beside the classes")
    return root


def test_classes_and_pictures(folder):
    found = ImageFolder(folder)
    assert found.classes == ["ant", "cat", "dog"]
    assert found.labels.tolist() == [0, 1, 1, 2] and found.labels.dtype == np.int64
    names = [path.replace("\\", "/").split("pictures/")[1] for path in found.paths]
    assert names == ["ant/x/y.png", "cat/a.JPG", "cat/b.png", "dog/z.bmp"]
    picture, label = found[3]
    assert len(found) == 4 and picture.size == (8, 6) and label == 2
    images, labels = found.arrays(ImageProcessor())
    assert images.shape == (4, 3, 6, 8) and images.dtype == np.float32
    np.testing.assert_allclose(images.mean(axis=(1, 2, 3)) * 255, [30, 20, 10, 40], atol=1.5)
    assert labels.tolist() == [0, 1, 1, 2]


def test_an_archive_with_one_folder_in_it(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MINITORCH_ATTN_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "pictures.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in PICTURES:
            archive.write(folder / name, f"pictures/{name}")
    assert ImageFolder(path).classes == ["ant", "cat", "dog"]


def test_other_folders(folder, tmp_path):
    (folder / "eel").mkdir()
    with pytest.raises(DataError, match="no images in eel"):
        ImageFolder(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no subfolders"):
        ImageFolder(tmp_path / "empty")
    with pytest.raises(DataError, match="is not a folder"):
        ImageFolder(folder / "readme.md")
    (folder / "eel" / "a.png").write_text("no picture")
    broken = ImageFolder(folder)
    with pytest.raises(DataError, match="a.png is not an image"):
        broken[4]
