"""Model folders: read and write `config.json` and the tensors in one file or in shards."""

import contextlib
import os
import re
from pathlib import Path

from ...errors import ArgumentError, CheckpointError
from ...files import temporary_path, write_error
from ...schema import TEXT, check, map_of, read_json, record
from ...serialization import read_safetensors, write_safetensors
from .config import write_json

__all__ = ["check_tensors", "read_config", "read_tensors", "saved_tensors"]

_FILE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_SHARD = re.compile(r"model-\d{5,}-of-\d{5,}\.safetensors")
_INDEX_TABLE = record({"weight_map": map_of(TEXT)})
_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_CONVERT = (
    'python -c "import torch, safetensors.torch as s; s.save_file({k: v.clone() for k, v in '
    "torch.load('pytorch_model.bin', weights_only=True).items()}, 'model.safetensors')\""
)


def read_config(folder):
    """Read the fields of `config.json` in `folder`."""
    folder = Path(folder)
    if not folder.is_dir():
        raise CheckpointError(
            f"{folder} is not a folder",
            expected="a folder with config.json and model.safetensors, as on the Hugging Face Hub",
            hint="download the folder first; from_pretrained does not use the network",
        )
    return read_json(folder / "config.json", CheckpointError)


def read_tensors(folder):
    """Read a folder's tensors from one file or, if the folder has an index, from its shards.

    Parameters
    ----------
    folder : str or path

    Returns
    -------
    dict of numpy.ndarray

    Raises
    ------
    CheckpointError
        If the safetensors file or a shard is missing or damaged, or a shard's tensors do not
        match the index.
    """
    folder = Path(folder)
    if (folder / _INDEX).exists():
        return _read_shards(folder)
    if (folder / _FILE).exists():
        return read_safetensors(folder / _FILE)[1]
    found = sorted(path.name for path in folder.iterdir())
    pickles = [name for name in found if name.endswith((".bin", ".pt", ".pth", ".ckpt"))]
    if pickles:
        raise CheckpointError(
            f"{folder}: pickle files are not supported, because reading one could execute code",
            got=", ".join(pickles), expected=_FILE,
            hint=f"convert the file with PyTorch, in its folder:\n            {_CONVERT}",
        )  # fmt: skip
    raise CheckpointError(
        f"{folder}: {_FILE} is missing",
        got=", ".join(found) or "an empty folder", expected=_FILE,
        hint=f"download {_FILE}, or its shards and {_INDEX}, into this folder",
    )  # fmt: skip


def _read_shards(folder):
    path = folder / _INDEX
    index = read_json(path, CheckpointError)
    check(index, _INDEX_TABLE, path, CheckpointError, hint="download the index again")
    index = index["weight_map"]
    tensors, problems = {}, []
    for file in sorted(set(index.values())):
        if Path(file).name != file or "\0" in file:
            problems.append(f"{file!r} is not the name of a file in the folder")
            continue
        try:
            shard = read_safetensors(folder / file)[1]
        except CheckpointError as error:
            problems.append(str(error).replace("\n", " "))
            continue
        named = {name for name, where in index.items() if where == file}
        problems += [f"{name} is not in {file}" for name in sorted(named - set(shard))]
        problems += [f"{name} in {file} is not in the index" for name in sorted(set(shard) - named)]
        tensors.update(shard)
    if problems:
        raise CheckpointError(
            f"{folder}: the shards do not match their index",
            got="\n            ".join(problems),
            hint="download the shards and the index again, all from the same revision",
        )
    return tensors


def check_tensors(folder, name, arrays, shapes, allowed=()):
    """Raise one error that lists all tensors that are missing, extra or of the wrong shape.

    Parameters
    ----------
    folder : path
    name : str
        Name of the model's class.
    arrays : dict of array
        Arrays in the folder.
    shapes : dict of tuple
        Expected shapes, with stored names as keys.
    allowed : collection of str
        Stored names of the tensors that may be missing.
    """
    problems = [f"missing      {key}" for key in shapes if key not in arrays and key not in allowed]
    problems += [f"extra        {key}" for key in arrays if key not in shapes]
    for key, shape in shapes.items():
        if key in arrays and tuple(arrays[key].shape) != shape:
            problems.append(f"wrong shape  {key}: {tuple(arrays[key].shape)}, expected {shape}")
    if problems:
        raise CheckpointError(
            f"{folder}: the tensors do not match those of {name} with this config.json",
            got="\n            ".join(problems),
            hint="use config.json and weights from the same download, or pass strict=False to "
            f"{name}.from_pretrained to accept missing and extra tensors",
        )


@contextlib.contextmanager
def saved_tensors(folder, arrays, max_shard_size="50GB"):
    """Context manager that saves the tensors to one file, or to several shards and an index.

    The tensors are written to temporary files before the block starts. The block can write the
    other files. When the block ends, the temporary files replace the old files, and the index is
    written last. If the process is killed, the folder contains the old model, the new model, or
    files that `read_tensors` rejects. `read_tensors` never accepts a mixture of old and new files.

    Parameters
    ----------
    folder : path
    arrays : dict of numpy.ndarray
    max_shard_size : int or str
        Maximum shard size in bytes, or a string such as "5GB". A larger tensor gets its own shard.
    """
    shards = _shards(arrays, _bytes(max_shard_size))
    old = _old_shards(folder)
    beside = {file: Path(temporary_path(folder, file)) for file in shards}
    try:
        for file, shard in shards.items():
            write_safetensors(beside[file], shard, {"format": "pt"})
        yield
        if old & shards.keys():  # remove the old index first: it does not match the new shards
            _remove([folder / _INDEX])
        for file, temporary in beside.items():
            _replace(temporary, folder / file)
    finally:
        _remove(beside.values())
    if list(shards) == [_FILE]:
        _remove([folder / _INDEX])
    else:
        index = {name: file for file, shard in shards.items() for name in shard}
        whole = sum(array.nbytes for array in arrays.values())
        write_json(folder / _INDEX, {"metadata": {"total_size": whole}, "weight_map": index})
        _remove([folder / _FILE])
    _remove(folder / file for file in old - shards.keys())


def _shards(arrays, limit):
    """Divide the tensors into files of at most `limit` bytes: {file name: {tensor name: array}}.

    A tensor larger than `limit` gets its own file.
    """
    shards, size = [{}], 0
    for name, array in arrays.items():
        if shards[-1] and size + array.nbytes > limit:
            shards.append({})
            size = 0
        shards[-1][name] = array
        size += array.nbytes
    total = len(shards)
    files = [f"model-{i + 1:05d}-of-{total:05d}.safetensors" for i in range(total)]
    return dict(zip(files if total > 1 else [_FILE], shards, strict=True))


def _old_shards(folder):
    """Return the shard names in the index of an earlier save, so that the shards can be removed.

    The result contains only names that `saved_tensors` could have written, such as
    "model-00001-of-00002.safetensors". Other files are never removed.
    """
    try:
        index = read_json(folder / _INDEX, CheckpointError).get("weight_map")
    except CheckpointError:
        return set()
    names = index.values() if isinstance(index, dict) else ()
    return {name for name in names if isinstance(name, str) and _SHARD.fullmatch(name)}


def _replace(source, target):
    try:
        os.replace(source, target)
    except OSError as error:
        raise write_error(target, error) from error


def _remove(paths):
    """Remove files, if they exist."""
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise write_error(path, error) from error


def _bytes(size):
    if isinstance(size, int) and size > 0:
        return size
    text = str(size).strip().upper()
    for unit, factor in _UNITS.items():
        number = text.removesuffix(unit)
        if number != text and number.strip().replace(".", "", 1).isdigit():
            return max(1, int(float(number) * factor))
    raise ArgumentError(
        "save_pretrained: max_shard_size must be a positive size",
        got=repr(size), expected="a number of bytes, or a string such as '5GB'",
    )  # fmt: skip


def make_folder(folder):
    """Return `folder` as a path. Create the folder if it does not exist."""
    folder = Path(folder)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise CheckpointError(
            f"{folder} could not be created", got=error.strerror or str(error)
        ) from error
    return folder
