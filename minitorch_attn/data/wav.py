"""WAV files: read and write sound with NumPy and the standard library only."""

import os
import struct
from typing import NamedTuple

import numpy as np

from ..errors import ArgumentError, DataError, DTypeError, ShapeError
from ..files import atomic_file, read_up_to
from ..named_errors import names_arguments
from .download import shown_path

__all__ = ["Sound", "read_wav", "write_wav"]

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_GUID = bytes.fromhex("000000001000800000aa00389b71")  # last 14 bytes of a standard subformat
_UNKNOWN = 0xFFFFFFFF  # size written by a program that cannot correct the header afterwards
_MAX_CHUNKS = 10_000
_NAMES = {
    2: "Microsoft ADPCM", 6: "A-law", 7: "mu-law", 17: "IMA ADPCM", 49: "GSM 6.10", 80: "MPEG",
    85: "MP3", 255: "AAC",
}  # fmt: skip
_OTHER_FILES = {
    b"RIFX": "a big-endian WAV file", b"RF64": "a 64-bit WAV file (RF64)",
    b"BW64": "a 64-bit WAV file (BW64)", b"fLaC": "a FLAC file", b"OggS": "an Ogg file",
    b"FORM": "an AIFF file", b"ID3\x03": "an MP3 file", b"ID3\x04": "an MP3 file",
}  # fmt: skip
_WIDTHS = {_PCM: (8, 16, 24, 32), _FLOAT: (32, 64)}  # supported bits per sample
_FORMATS = {
    "uint8": (_PCM, 8), "int16": (_PCM, 16), "int24": (_PCM, 24), "int32": (_PCM, 32),
    "float32": (_FLOAT, 32), "float64": (_FLOAT, 64),
}  # fmt: skip


class Sound(NamedTuple):
    """Samples of a sound.

    Attributes
    ----------
    samples : float array of shape (channel, sample)
    sample_rate : int
        Samples per second.
    """

    samples: np.ndarray
    sample_rate: int


class _Format(NamedTuple):
    """Contents of the "fmt " chunk of a WAV file."""

    kind: int  # _PCM or _FLOAT
    channels: int
    rate: int
    bits: int  # per sample, including padding


@names_arguments
def read_wav(path, *, dtype="float32", allow_truncated=False):
    """Read a WAV file with 8-, 16-, 24- or 32-bit integers, or 32- or 64-bit floats.

    Parameters
    ----------
    path : str or path
    dtype : {"float32", "float64"}
        Dtype of the samples. float32 rounds 32-bit integers and 64-bit floats.
    allow_truncated : bool, default False
        Whether to read the complete samples of a file that ends early, or whose header has
        wrong or missing sizes, for example after an interrupted recording. By default, reading
        such a file raises an error.

    Returns
    -------
    Sound
        Samples of shape (channel, sample), and the sample rate. Integers are divided by the
        magnitude of the most negative integer, so the samples are between -1 and 1. Floats are
        unchanged and may exceed this range.

    Raises
    ------
    DataError
        If the file is not a WAV file, is compressed or truncated, or its header is inconsistent.

    Notes
    -----
    Memory use is proportional to the length of the file, even if the header declares a larger size.

    References
    ----------
    .. [1] IBM and Microsoft 1991, "Multimedia Programming Interface and Data Specifications 1.0",
       pages 56 to 65.
    .. [2] Microsoft 2001, "Multiple Channel Audio Data and WAVE Files" (WAVE_FORMAT_EXTENSIBLE).

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tone.wav")
    ...     write_wav(path, np.array([0.0, 0.5, -1.0]), 8000)
    ...     read_wav(path)
    Sound(samples=array([[ 0. ,  0.5, -1. ]], dtype=float32), sample_rate=8000)
    """
    dtype, name = np.dtype(dtype), shown_path(path)
    if dtype not in (np.float32, np.float64):
        raise DTypeError("read_wav: dtype must be float32 or float64", got=str(dtype))
    try:
        with open(path, "rb") as file:
            form, data = _read(file, name, os.fstat(file.fileno()).st_size, allow_truncated)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        if isinstance(error, DataError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{name} could not be read", got=reason) from None
    samples = _decoded(data, form, dtype).reshape(-1, form.channels)  # (sample, channel)
    return Sound(np.ascontiguousarray(samples.T), form.rate)


def _read(file, name, file_size, lenient):
    """Find a WAV file's chunks "fmt " and "data". Return (_Format, bytes of the samples)."""
    start = file.read(12)
    if start[:4] != b"RIFF" or start[8:] != b"WAVE":
        found = _OTHER_FILES.get(start[:4])
        raise DataError(
            f"{name} is not a WAV file",
            got=found or f"it starts with {start.hex(' ') or 'nothing'}", expected="RIFF....WAVE",
            hint="convert it: ffmpeg -i INPUT -c:a pcm_s16le OUTPUT.wav" if found else None,
        )  # fmt: skip
    riff = struct.unpack("<I", start[4:8])[0]
    form = span = None
    for kind, position, size in _chunks(file, name, file_size):
        if kind == b"fmt ":
            if form is not None:
                raise DataError(f"{name} has two format chunks", expected="one chunk 'fmt '")
            form = _format(file.read(min(size, 40)), name)
        elif kind == b"data":
            if form is None or span is not None:
                raise DataError(
                    f"{name}: the order of the chunks is invalid",
                    got="a data chunk before the format" if span is None else "two data chunks",
                    expected="one chunk 'fmt ', then one chunk 'data'",
                )
            span = position, size
    if span is None:
        missing = "data" if form else "format"
        raise DataError(f"{name}: the {missing} chunk is missing", hint="the file may be truncated")
    return form, _data(file, name, form, *span, riff, file_size, lenient)


def _chunks(file, name, file_size):
    """Yield the kind, position and declared size of each chunk that begins inside the file."""
    position = 12
    for _ in range(_MAX_CHUNKS):
        file.seek(position)
        header = file.read(8)
        if len(header) < 8:  # a padding byte, or an incomplete chunk
            return
        kind, size = struct.unpack("<4sI", header)
        yield kind, position + 8, size
        position += 8 + size + size % 2  # chunks begin at even positions
        if position >= file_size:
            return
    raise DataError(f"{name} has too many chunks", expected=f"at most {_MAX_CHUNKS:,}")


def _format(chunk, name):
    """Check the chunk "fmt ", and return a _Format."""
    if len(chunk) < 16:
        raise DataError(
            f"{name}: the format chunk is too short",
            got=f"{len(chunk)} bytes", expected="at least 16",
        )  # fmt: skip
    tag, channels, rate, byte_rate, block, bits = struct.unpack("<HHIIHH", chunk[:16])
    if tag == _EXTENSIBLE:
        tag = _subformat(chunk, bits, name)
    if tag not in _WIDTHS or bits not in _WIDTHS[tag]:
        kind = {_PCM: "integers", _FLOAT: "floats"}.get(tag)
        raise DataError(
            f"{name}: the sample format is not supported",
            got=f"{bits}-bit {kind}" if kind else _NAMES.get(tag, f"format {tag:#06x}"),
            expected="8-, 16-, 24- or 32-bit integers, or 32- or 64-bit floats",
            hint="convert it: ffmpeg -i INPUT -c:a pcm_s16le OUTPUT.wav",
        )
    expected = channels * bits // 8
    if not channels or not rate or block != expected or byte_rate != rate * block:
        raise DataError(
            f"{name}: the format chunk is inconsistent",
            got=f"{channels} channels of {bits} bits at {rate} Hz, {block} bytes per sample of all "
            f"channels, {byte_rate} bytes per second",
            expected=f"at least 1 channel and 1 Hz, {expected} bytes per sample of all channels, "
            f"and {rate * expected} bytes per second",
        )
    return _Format(tag, channels, rate, bits)


def _subformat(chunk, bits, name):
    """Return the format tag in the extension of a WAVE_FORMAT_EXTENSIBLE chunk."""
    valid = struct.unpack("<HHI", chunk[16:24])[1] if len(chunk) >= 40 else None
    if valid is None or chunk[26:40] != _GUID or valid > bits:
        raise DataError(
            f"{name}: the extensible format is invalid",
            got=f"{len(chunk)} bytes"
            if valid is None
            else f"{valid} valid bits of {bits}, subformat {chunk[24:40].hex()}",
            expected="40 bytes, with a standard subformat",
        )
    return struct.unpack("<H", chunk[24:26])[0]


def _data(file, name, form, position, size, riff, file_size, lenient):
    """Check the size of the data chunk against the file, and return its bytes."""
    block, present = form.channels * form.bits // 8, max(file_size - position, 0)
    unfinished = size == _UNKNOWN or (size == 0 and riff in (0, _UNKNOWN) and present > 0)
    reason = None
    if unfinished:
        reason = "the length of the data is unknown: the recording was not finished"
    elif size > present:
        reason = "the file is truncated"
    elif size % block:
        reason = f"the data ends in the middle of a sample of {block} bytes"
    elif riff not in (0, _UNKNOWN) and position + size > riff + 8:
        reason = "the data is longer than the header of the file says"
    if reason and not lenient:
        raise DataError(
            f"{name}: {reason}",
            got=f"a file of {file_size:,} bytes; its header declares {riff + 8:,} bytes, "
            f"and {size:,} bytes of data from byte {position:,} on",
            hint="allow_truncated=True reads the complete samples",
        )
    size = present if unfinished else min(size, present)
    file.seek(position)
    data = read_up_to(file, size - size % block)
    return data[: len(data) - len(data) % block]  # the file may be shorter by now


def _decoded(data, form, dtype):
    """Convert the bytes of a WAV file's data chunk to samples."""
    if form.kind == _FLOAT:
        with np.errstate(over="ignore", invalid="ignore"):  # float64 beyond the range of float32
            return np.frombuffer(data, f"<f{form.bits // 8}").astype(dtype)
    if form.bits == 8:  # the only unsigned format
        return (np.frombuffer(data, np.uint8).astype(dtype) - 128) / 128
    if form.bits == 24:
        words = np.zeros((len(data) // 3, 4), np.uint8)
        words[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)  # times 256
        return words.view("<i4").ravel().astype(dtype) / 2**31
    return np.frombuffer(data, f"<i{form.bits // 8}").astype(dtype) / 2 ** (form.bits - 1)


@names_arguments
def write_wav(path, samples, sample_rate, sample_format="int16"):
    """Write a WAV file atomically.

    Parameters
    ----------
    path : str or path
    samples : float array of shape (sample,) or (channel, sample)
        Finite numbers. For integer formats they must be between -1 and 1.
    sample_rate : int
        Samples per second.
    sample_format : {"int16", "uint8", "int24", "int32", "float32", "float64"}
        Integer formats round to the nearest integer; 1.0 becomes the largest integer.

    Raises
    ------
    ShapeError
        If `samples` are not floats of shape (sample,) or (channel, sample).
    ArgumentError
        If samples are out of range, or an argument does not fit a WAV file.
    CheckpointError
        If the file cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "silence.wav")
    ...     write_wav(path, np.zeros((2, 100)), 16000, "int24")
    ...     os.path.getsize(path), read_wav(path).samples.shape
    (644, (2, 100))
    """
    samples = np.asarray(samples)
    if samples.ndim not in (1, 2) or samples.dtype.kind != "f":
        raise ShapeError(
            "write_wav: samples must be floats of shape (sample,) or (channel, sample)",
            got=f"{samples.dtype} of shape {samples.shape}",
        )
    if sample_format not in _FORMATS:
        raise ArgumentError(
            "write_wav: sample_format is unknown",
            got=repr(sample_format), expected=", ".join(_FORMATS),
        )  # fmt: skip
    kind, bits = _FORMATS[sample_format]
    channels = 1 if samples.ndim == 1 else len(samples)
    header = _header(kind, bits, channels, sample_rate, samples.shape[-1])
    data = _encoded(samples.T, kind, bits)  # the channels are interleaved
    with atomic_file(path) as file:
        file.write(header + data + b"\0" * (len(data) % 2))


def _header(kind, bits, channels, rate, count):
    """Return the header of a WAV file. Raise ArgumentError if the sound does not fit the format."""
    block = channels * bits // 8
    size = count * block
    more = b""
    if kind == _FLOAT:  # formats other than integers also state the number of samples
        more = struct.pack("<4sII", b"fact", 4, min(count, _UNKNOWN))
    whole = 36 + len(more) + size + size % 2
    fits = 0 < block < 1 << 16 and 0 < rate * block < 1 << 32 and whole < _UNKNOWN
    if not fits or rate != int(rate):
        raise ArgumentError(
            "write_wav: a WAV file cannot store this sound",
            got=f"{channels} channels, {count:,} samples, {rate} Hz",
            expected="at least one channel, an integer sample rate, and less than 4 GiB",
        )
    values = kind, channels, int(rate), int(rate) * block, block, bits
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, *values)
    start = struct.pack("<4sI4s", b"RIFF", whole, b"WAVE")
    return start + form + more + struct.pack("<4sI", b"data", size)


def _encoded(samples, kind, bits):
    """Convert samples to the bytes of a WAV file's data chunk."""
    largest = np.abs(samples).max(initial=0)
    if not largest <= (1 if kind == _PCM else np.finfo(f"f{bits // 8}").max):
        raise ArgumentError(
            "write_wav: samples are out of range",
            got=f"largest magnitude {largest}", expected="finite numbers, from -1 to 1 "
            "for integer formats", hint="samples / np.abs(samples).max()",
        )  # fmt: skip
    if kind == _FLOAT:
        return samples.astype(f"<f{bits // 8}").tobytes()
    half = 2 ** (bits - 1)
    whole = np.clip(np.rint(samples.astype(np.float64) * half), -half, half - 1).astype("<i4")
    if bits == 8:
        return (whole + 128).astype(np.uint8).tobytes()
    if bits == 16:
        return whole.astype("<i2").tobytes()
    octets = np.ascontiguousarray(whole).view(np.uint8).reshape(*whole.shape, 4)
    return octets[..., : bits // 8].tobytes()  # little-endian: the first bytes are the lowest
