"""Readers of sound: WAV files, and folders of WAV files with transcripts."""

import struct

import numpy as np

from minitorch_attn.data import SpeechFolder, read_wav, write_wav
from minitorch_attn.data.audio import log_mel_spectrogram

from .reader import Reader

__all__ = ["SOUND_READERS"]

_GUID = bytes.fromhex("0100000000001000800000aa00389b71")  # marks integer samples (PCM)


def _make_wav(sample_format, channels):
    def make(folder):
        values = np.linspace(-1, 1, 20 * channels).reshape(channels, 20)
        write_wav(folder / "a.wav", values, 8000, sample_format)

    return make


def _make_extensible(folder):
    """Write a WAVE_FORMAT_EXTENSIBLE file with an additional chunk of an odd number of bytes."""
    form = struct.pack("<HHIIHHHHI", 0xFFFE, 2, 8000, 48_000, 6, 24, 22, 20, 3) + _GUID
    chunks = b"fmt " + struct.pack("<I", 40) + form + b"LIST\5\0\0\0INFO!\0"
    chunks += b"data" + struct.pack("<I", 60) + bytes(range(60))
    header = b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE"
    (folder / "a.wav").write_bytes(header + chunks)


def _use_wav(folder):
    """Read a WAV file with and without `allow_truncated`, and check the size of the result."""
    size = (folder / "a.wav").stat().st_size
    for lenient in (True, False):
        samples, rate = read_wav(folder / "a.wav", allow_truncated=lenient)
        if samples.size > size or samples.ndim != 2 or rate < 1:
            raise AssertionError(f"{samples.shape} at {rate} Hz")


def _make_list(folder):
    for name in ("1-2-0", "1-2-1"):
        write_wav(folder / f"{name}.wav", np.zeros((2, 500)), 8000)
    (folder / "1-2.trans.txt").write_text("1-2-0 ONE TWO\n1-2-1 SIX\n", encoding="utf-8")


def _make_table(ending):
    def make(folder):
        _make_list(folder)
        (folder / "1-2.trans.txt").unlink()
        comma = {"csv": ",", "tsv": "\t"}[ending]
        rows = [["file", "speaker", "text"], ["1-2-0.wav", "7", "one"], ["1-2-1.wav", "8", "two"]]
        text = "\n".join(comma.join(row) for row in rows)
        (folder / f"words.{ending}").write_text(text + "\n", encoding="utf-8")

    return make


def _use_speech(folder):
    for waveform, rate, _ in SpeechFolder(folder):
        log_mel_spectrogram(np.nan_to_num(waveform), rate, 4, high=min(rate / 2, 4000))


SOUND_READERS = [
    Reader("read_wav int16", _make_wav("int16", 1), _use_wav, {"a.wav": "wav"}),
    Reader("read_wav uint8", _make_wav("uint8", 3), _use_wav, {"a.wav": "wav"}),
    Reader("read_wav float64", _make_wav("float64", 2), _use_wav, {"a.wav": "wav"}),
    Reader("read_wav extensible", _make_extensible, _use_wav, {"a.wav": "wav"}),
    Reader("SpeechFolder list", _make_list, _use_speech,
           {"1-2.trans.txt": "text", "1-2-0.wav": "wav"}),
    Reader("SpeechFolder CSV", _make_table("csv"), _use_speech, {"words.csv": "text"}),
    Reader("SpeechFolder TSV", _make_table("tsv"), _use_speech, {"words.tsv": "text"}),
]  # fmt: skip
