"""CIFAR-10: the binary release is read, and the pickled release is rejected."""

import io
import tarfile

import numpy as np
import pytest

from minitorch_attn.data.cifar import cifar10, read_cifar10
from minitorch_attn.errors import DataError


def record_file(rng, count):
    images = rng.integers(256, size=(count, 3, 32, 32)).astype("u1")
    labels = rng.integers(10, size=count).astype("u1")
    return images, labels, np.hstack([labels[:, None], images.reshape(count, -1)]).tobytes()


def test_one_file(tmp_path, rng):
    images, labels, content = record_file(rng, 3)
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(content)
    found_images, found_labels = read_cifar10(path)
    np.testing.assert_array_equal(found_images, images)
    assert found_labels.tolist() == labels.tolist() and found_labels.dtype == np.int64


@pytest.mark.parametrize("packed", [False, True])
def test_the_whole_release(packed, tmp_path, rng, monkeypatch):
    monkeypatch.setenv("MINITORCH_ATTN_CACHE", str(tmp_path / "cache"))
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]
    parts = {name: record_file(rng, 2) for name in names}
    (tmp_path / "cifar-10-batches-bin").mkdir()
    for name, (_, _, content) in parts.items():
        (tmp_path / "cifar-10-batches-bin" / name).write_bytes(content)
    source = tmp_path
    if packed:
        source = tmp_path / "cifar-10-binary.tar.gz"
        with tarfile.open(source, "w:gz") as archive:
            archive.add(tmp_path / "cifar-10-batches-bin", "cifar-10-batches-bin")
    images, labels, test_images, test_labels = cifar10(source)
    assert images.shape == (10, 3, 32, 32) and images.dtype == np.float32
    np.testing.assert_array_equal(images[8:], parts[names[4]][0].astype("f4") / np.float32(255))
    assert labels[2:4].tolist() == parts[names[1]][1].tolist()
    np.testing.assert_array_equal(cifar10(source, dtype="uint8")[2], parts[names[5]][0])
    assert test_labels.tolist() == parts[names[5]][1].tolist()


def test_broken_files(tmp_path, rng):
    _, _, content = record_file(rng, 2)
    path = tmp_path / "x.bin"
    wrong_label = bytearray(content)
    wrong_label[3073] = 10
    cases = {
        b"": "truncated",
        content[:-1]: "truncated",
        content + b"x": "truncated",
        bytes(wrong_label): "label 10 in record 1",
        b"\x80\x02" + content: "can execute code",
    }
    for broken, message in cases.items():
        path.write_bytes(broken)
        with pytest.raises(DataError, match=message) as caught:
            read_cifar10(path)
        assert str(path) in str(caught.value)
    with pytest.raises(DataError, match="could not be read"):
        read_cifar10(tmp_path / "nowhere.bin")


def test_the_pickled_release_is_refused_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITORCH_ATTN_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "cifar-10-python.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("cifar-10-batches-py/test_batch")
        info.size = 4
        archive.addfile(info, io.BytesIO(b"\x80\x02}q"))
    with pytest.raises(DataError, match="can execute code") as caught:
        cifar10(path)
    assert "cifar-10-binary.tar.gz" in str(caught.value)


def test_other_folders(tmp_path):
    with pytest.raises(DataError, match="test_batch.bin is missing"):
        cifar10(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="neither a folder nor an archive"):
        cifar10(tmp_path / "file")
    (tmp_path / "test_batch.bin").write_bytes(bytes(3073))
    with pytest.raises(DataError, match="data_batch_1.bin could not be read"):
        cifar10(tmp_path)
