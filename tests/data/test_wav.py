"""WAV files: byte by byte, those of Python's own module, and headers that lie."""

import struct
import tracemalloc
import wave

import numpy as np
import pytest

from minitorch_attn.data.wav import Sound, read_wav, write_wav
from minitorch_attn.errors import ArgumentError, CheckpointError, DataError, DTypeError, ShapeError

GUID = bytes.fromhex("000000001000800000aa00389b71")
PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE


def chunk(kind, body, size=None):
    """A chunk with its padding byte; `size` is what its header says."""
    size = len(body) if size is None else size
    return kind + struct.pack("<I", size) + body + b"\0" * (len(body) % 2)


def form(tag=PCM, channels=1, rate=8000, bits=16, block=None, byte_rate=None, rest=b""):
    """The chunk "fmt "."""
    block = channels * bits // 8 if block is None else block
    byte_rate = rate * block if byte_rate is None else byte_rate
    return chunk(
        b"fmt ", struct.pack("<HHIIHH", tag, channels, rate, byte_rate, block, bits) + rest
    )


def extensible(subformat, bits, valid=None, channels=1, guid=GUID):
    valid = bits if valid is None else valid
    rest = struct.pack("<HHIH", 22, valid, 0, subformat) + guid
    return form(EXTENSIBLE, channels, bits=bits, rest=rest)


def riff(*chunks, size=None, start=b"RIFF", kind=b"WAVE"):
    body = kind + b"".join(chunks)
    return start + struct.pack("<I", len(body) if size is None else size) + body


@pytest.fixture
def read(tmp_path):
    """read(bytes, ...): write them to a file and read it."""

    def function(content, **settings):
        path = tmp_path / "a.wav"
        path.write_bytes(content)
        return read_wav(path, **settings)

    return function


# bits, bytes of four samples in a file, and their values
INTEGERS = [
    (8, "00 80 ff 81", [-1, 0, 127 / 128, 1 / 128]),
    (16, "0080 0000 ff7f 0100", [-1, 0, 1 - 2**-15, 2**-15]),
    (24, "000080 000000 ffff7f 010000", [-1, 0, 1 - 2**-23, 2**-23]),
    (32, "00000080 00000000 ffffff7f 01000000", [-1, 0, 1 - 2**-31, 2**-31]),
]
FLOATS = [
    (32, "0000803f 000000bf 00000000 00002040", [1, -0.5, 0, 2.5]),
    (64, "000000000000f03f 000000000000e0bf 0000000000000000 0000000000000440", [1, -0.5, 0, 2.5]),
]
KINDS = [(PCM, *row) for row in INTEGERS] + [(FLOAT, *row) for row in FLOATS]


@pytest.mark.parametrize(("tag", "bits", "text", "values"), KINDS)
def test_every_format_byte_by_byte(tag, bits, text, values, read):
    data = chunk(b"data", bytes.fromhex(text))
    for header in (form(tag, bits=bits), extensible(tag, bits), form(tag, bits=bits, rest=b"\0\0")):
        sound = read(riff(header, data), dtype="float64")
        assert isinstance(sound, Sound) and sound.sample_rate == 8000
        assert sound.samples.dtype == np.float64
        np.testing.assert_array_equal(sound.samples, [values])
        single = read(riff(header, data)).samples
        assert single.dtype == np.float32
        np.testing.assert_array_equal(single, np.float32([values]))
    stereo = read(riff(form(tag, 2, 44100, bits), data), dtype="float64")
    np.testing.assert_array_equal(stereo.samples, [values[::2], values[1::2]])
    assert stereo.sample_rate == 44100 and stereo.samples.flags.c_contiguous


def test_container_with_fewer_valid_bits(read):
    """20 bits in 24, as sound cards record them: the high bits are the valid ones."""
    data = chunk(b"data", bytes.fromhex("000040 f0ff7f"))
    sound = read(riff(extensible(PCM, 24, valid=20), data), dtype="float64")
    np.testing.assert_array_equal(sound.samples, [[0.5, 1 - 2**-19]])
    assert read(riff(extensible(PCM, 24, valid=0), data)).samples.shape == (1, 2)


def test_other_chunks_padding_and_trailing_bytes(read):
    odd, data = chunk(b"LIST", b"INFO!"), chunk(b"data", b"\x80\xff\x00")
    head = form(bits=8)
    files = [
        riff(odd, head, odd, data),
        riff(head, data, odd),
        riff(head, data[:-1]),  # without the last padding byte
        riff(head, data) + b"TAG of another program",
        riff(head, data, size=0),  # a program that could not go back
        riff(head, data, size=2**32 - 1),
        riff(head, data, chunk(b"LIST", b"lost", size=400)),  # what is cut off is no sound
        riff(chunk(b"JUNK", b""), head, chunk(b"fact", b"\x03\0\0\0"), data, b"x"),
        riff(form(bits=8, rest=b"\0\0" + bytes(40)), data),
    ]
    for content in files:
        np.testing.assert_array_equal(read(content).samples, [[0, 127 / 128, -1]])


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2, 5])
def test_pythons_own_module(width, channels, rng, tmp_path):
    path = tmp_path / "b.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(11025)
        file.writeframes(rng.bytes(7 * width * channels))
    samples, rate = read_wav(path, dtype="float64")
    assert samples.shape == (channels, 7) and rate == 11025
    name = ["uint8", "int16", "int24", "int32"][width - 1]
    write_wav(tmp_path / "c.wav", samples, rate, name)
    with wave.open(str(path)) as theirs, wave.open(str(tmp_path / "c.wav")) as ours:
        assert theirs.getparams() == ours.getparams()
        assert theirs.readframes(7) == ours.readframes(7)


LIES = {
    "is not a WAV file": [b"", b"R", riff(start=b"RIFZ"), riff(kind=b"AVI "), b"\0" * 50],
    "a FLAC file": [b"fLaC" + bytes(50)],
    "a big-endian WAV file": [riff(form(), start=b"RIFX")],
    "a 64-bit WAV file": [riff(form(), start=b"RF64")],
    "the format chunk is missing": [riff(), riff(chunk(b"LIST", b"abcd"))],
    "the data chunk is missing": [riff(form())],
    "a data chunk before the format": [riff(chunk(b"data", b"1234"), form())],
    "two data chunks": [riff(form(), chunk(b"data", b"1234"), chunk(b"data", b"1234"))],
    "two format chunks": [riff(form(), form())],
    "the format chunk is too short": [riff(chunk(b"fmt ", b"12345678"))],
    "mu-law": [riff(form(7, bits=8))],
    "Microsoft ADPCM": [riff(form(2, bits=4, block=1))],
    "format 0x1234": [riff(form(0x1234))],
    "12-bit integers": [riff(form(bits=12))],
    "64-bit integers": [riff(form(bits=64))],
    "16-bit floats": [riff(form(FLOAT, bits=16))],
    "format chunk is inconsistent": [
        riff(form(channels=0)), riff(form(rate=0)), riff(form(block=3)), riff(form(byte_rate=1)),
        riff(form(channels=2, block=2)), riff(form(channels=65535, bits=8, block=1)),
    ],
    "the extensible format is invalid": [
        riff(form(EXTENSIBLE)), riff(extensible(PCM, 16, valid=17)),
        riff(extensible(PCM, 16, guid=bytes(14))),
    ],
    "A-law": [riff(extensible(6, 8))],
    "is truncated": [riff(form(), chunk(b"data", b"1234", size=6), size=46)],
    "middle of a sample": [riff(form(channels=2), chunk(b"data", b"123456"))],
    "longer than the header": [riff(form(), chunk(b"data", b"123456"), size=40)],
    "was not finished": [
        riff(form(), chunk(b"data", b"1234", size=2**32 - 1)),
        riff(form(), chunk(b"data", b"1234", size=0), size=0),
    ],
    "too many chunks": [riff(*[chunk(b"    ", b"")] * 10_001)],
}  # fmt: skip


@pytest.mark.parametrize("message", LIES)
def test_invalid_files_are_refused_with_their_reason(message, read):
    for content in LIES[message]:
        with pytest.raises(DataError, match=message):
            read(content)


@pytest.mark.parametrize(("tag", "bits", "channels"), [(PCM, 8, 1), (PCM, 24, 2), (FLOAT, 32, 1)])
def test_a_truncated_file_is_read_only_on_request(tag, bits, channels, rng, read):
    data = rng.normal(size=10 * channels).astype("f4").tobytes()[: 10 * channels * bits // 8]
    whole = riff(form(tag, channels, bits=bits), chunk(b"data", data))
    expected, block = read(whole).samples, channels * bits // 8
    for size in range(len(whole)):
        with pytest.raises(DataError):
            read(whole[:size])
        if size >= 44:
            found = read(whole[:size], allow_truncated=True).samples
            assert found.shape == (channels, (size - 44) // block)
            np.testing.assert_array_equal(found, expected[:, : found.shape[1]])
    unfinished = riff(form(), chunk(b"data", b"123456", size=0), size=0)
    assert read(unfinished, allow_truncated=True).samples.shape == (1, 3)


def test_memory_follows_the_file_and_not_its_header(read):
    liars = [
        riff(form(), chunk(b"data", b"1234", size=2**32 - 2)),
        riff(form(channels=32767), chunk(b"data", b"", size=2**31)),
        riff(chunk(b"fmt ", b"", size=2**32 - 1)),
        riff(chunk(b"LIST", b"", size=2**32 - 1), form()),
    ]
    for content in liars:
        tracemalloc.start()
        with pytest.raises(DataError):
            read(content)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()


def test_random_bytes_are_read_or_refused(rng, read):
    """Whatever the bytes are, the answer is an error of the library, or no larger than the file."""
    read_at_all = 0
    for _ in range(300):
        body = form(*rng.choice([1, 3, 1, EXTENSIBLE], 1), *rng.integers(1, 3, 1)) + chunk(
            b"data", rng.bytes(rng.integers(12))
        )
        body = bytearray(riff(body))
        for _ in range(rng.integers(4)):
            body[rng.integers(len(body))] = rng.choice([0, 1, 8, 16, 255, rng.integers(256)])
        content = bytes(body[: len(body) - rng.choice([0, 0, 0, rng.integers(len(body))])])
        for lenient in (False, True):
            try:
                samples, rate = read(content, allow_truncated=lenient)
            except DataError:
                continue
            read_at_all += 1
            assert samples.size <= len(content) and rate > 0 and samples.ndim == 2
    assert read_at_all > 50


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("name", ["uint8", "int16", "int24", "int32", "float32", "float64"])
def test_written_files_are_read_back(count, name, tmp_path):
    values = np.array([[0.5, -0.25], [-1.0, 0.125], [1.0, 0.0]])[:, :count]
    path = tmp_path / "a.wav"
    write_wav(path, values, 16000, name)
    samples, rate = read_wav(path, dtype="float64")
    step = {"uint8": 2**-7, "int16": 2**-15, "int24": 2**-23, "int32": 2**-31}.get(name, 0)
    np.testing.assert_array_equal(samples, np.minimum(values, 1 - step))
    assert rate == 16000 and path.stat().st_size % 2 == 0
    content = path.read_bytes()
    assert struct.unpack("<I", content[4:8])[0] == len(content) - 8
    if name.startswith("float"):  # `fact` states the number of samples
        assert content[36:48] == struct.pack("<4sII", b"fact", 4, count)
    write_wav(path, values[1][::-1].astype("f4"), 8000, name)  # mono, strided, float32
    np.testing.assert_array_equal(read_wav(path, dtype="float64").samples, [values[1][::-1]])


def test_integers_are_rounded_to_the_nearest(tmp_path):
    write_wav(tmp_path / "a.wav", np.array([0.6, -0.6, 1.4, -1.4]) / 2**15, 8000)
    samples = read_wav(tmp_path / "a.wav").samples * 2**15
    np.testing.assert_array_equal(samples, [[1, -1, 1, -1]])


def test_arguments_of_the_writer(tmp_path):
    path, ones = tmp_path / "a.wav", np.ones(3)
    path.write_bytes(b"old")
    for wrong in (ones * 1.001, -ones * 1.001, ones * np.nan, ones * np.inf):
        with pytest.raises(ArgumentError, match="out of range"):
            write_wav(path, wrong, 8000)
    write_wav(tmp_path / "b.wav", ones * -7, 8000, "float32")
    np.testing.assert_array_equal(read_wav(tmp_path / "b.wav").samples, [[-7, -7, -7]])
    for wrong in (ones * np.nan, ones * 1e300):
        with pytest.raises(ArgumentError, match="out of range"):
            write_wav(path, wrong, 8000, "float32")
    for wrong in (ones.astype(int), np.ones((1, 1, 1)), np.float64(1)):
        with pytest.raises(ShapeError, match="samples must be floats"):
            write_wav(path, wrong, 8000)
    for samples, rate in (
        (ones, 0), (ones, 8000.5), (ones, 2**31), (np.ones((0, 3)), 8000), (ones, -1),
        (np.ones((40_000, 1)), 8000), (np.broadcast_to(np.float32(0), (1 << 31,)), 8000),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match="cannot store this sound"):
            write_wav(path, samples, rate)
    with pytest.raises(ArgumentError, match="int16"):
        write_wav(path, ones, 8000, "mp3")
    assert path.read_bytes() == b"old"
    with pytest.raises(CheckpointError):
        write_wav(tmp_path / "none" / "a.wav", ones, 8000)


def test_arguments_of_the_reader(tmp_path):
    with pytest.raises(DTypeError, match="float32 or float64"):
        read_wav(tmp_path / "a.wav", dtype="int16")
    for path in (tmp_path / "missing.wav", tmp_path, "a\0b.wav"):
        with pytest.raises(DataError, match="could not be read"):
            read_wav(path)
