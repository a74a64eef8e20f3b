"""Folders of WAV files with transcripts: LibriSpeech's lists and tables."""

import zipfile

import numpy as np
import pytest

from minitorch_attn.data.speech_folder import SpeechFolder
from minitorch_attn.data.wav import write_wav
from minitorch_attn.errors import DataError


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "speech"
    for place, name in enumerate(["84/121/84-121-0000", "84/121/84-121-0001", "7/2/7-2-0000"]):
        path = root / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_wav(path, np.full((2, 3 + place), [[0.5], [0.25]]), 16000)
    (root / "84/121/84-121.trans.txt").write_text("84-121-0000 GO ON\n\n84-121-0001  STOP  \n")
    (root / "7/2/7-2.trans.txt").write_text("7-2-0000 A B'C\r\n")
    (root / ".hidden").mkdir()
    (root / ".hidden" / "x.trans.txt").write_text("x Y")
    return root


def test_librispeech(folder):
    speech = SpeechFolder(folder, sample_rate=16000)
    assert len(speech) == 3 and speech.transcripts == ["A B'C", "GO ON", "STOP"]
    waveform, rate, text = speech[0]
    assert waveform.dtype == np.float32 and (rate, text) == (16000, "A B'C")
    np.testing.assert_array_equal(waveform, np.full(5, 0.375))
    assert [len(wave) for wave, _, _ in speech] == [5, 3, 4]
    with pytest.raises(DataError, match="16000 Hz"):
        SpeechFolder(folder, sample_rate=8000)[1]


def test_an_archive(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MINITORCH_ATTN_CACHE", str(tmp_path / "cache"))
    with zipfile.ZipFile(tmp_path / "speech.zip", "w") as archive:
        for path in folder.rglob("*"):
            archive.write(path, path.relative_to(folder.parent))
    assert SpeechFolder(tmp_path / "speech.zip").transcripts == ["A B'C", "GO ON", "STOP"]


def table(tmp_path, name, text, files=("a.wav", "b/c d.wav")):
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        write_wav(tmp_path / file, np.zeros(2), 8000)
    (tmp_path / name).write_bytes(text.encode())
    return SpeechFolder(tmp_path)


def test_tables(tmp_path):
    text = '\ufefffile,speaker,text\r\na.wav,7,"one, two"\r\n\r\nb/c d.wav,8,"say ""no"""\r\n'
    assert table(tmp_path, "a.csv", text).transcripts == ["one, two", 'say "no"']
    (tmp_path / "a.csv").unlink()
    text = 'Sentence\tPATH\nsay "no\ta.wav\ntwo\tb\\c d.wav\n'
    speech = table(tmp_path, "a.tsv", text)
    assert speech.transcripts == ['say "no', "two"]
    assert speech[1][0].shape == (2,)


WRONG = {
    "a.csv": {
        "line 2: .*x.wav is missing": "file,text\nx.wav,one",
        "line 3: the transcript is empty": "file,text\na.wav,one\nb/c d.wav, ",
        "line 3: .*already has a transcript": "file,text\na.wav,one\na.wav,two",
        "line 2: the number of columns": "file,text\na.wav,one,two",
        "must name one file column": "name,text\na.wav,one",
        "expected  one of text": "file,words\na.wav,one",
        "one of file": "file,path,text\na.wav,a.wav,one",
        "line 2: the name of the WAV file": "file,text\n../a.wav,one",
        "the name of the WAV file is invalid": "file,text\n/etc/a.wav,one",
        "name of the WAV file": "file,text\nC:\\a.wav,one",
        "line 2: the name": "file,text\n,one",
        "invalid CSV": 'file,text\na.wav,"one',
        "empty tables": "file,text\n",
        "is empty": "",
        "field larger than": "file,text\na.wav," + "x" * 200_000,
    },
    "a.trans.txt": {
        "line 1: .*x.wav is missing": "x ONE",
        "line 2: the transcript is empty": "a ONE\na",
        "line 2: .*already has a transcript": "a ONE\na TWO",
        "line 1: the name": "../a ONE",
        "binary file": "a ONE\0",
        "empty tables": "\n\n",
    },
}


@pytest.mark.parametrize(("name", "message"), [(n, m) for n, rows in WRONG.items() for m in rows])
def test_mistakes_are_named(name, message, tmp_path):
    with pytest.raises(DataError, match=message):
        table(tmp_path, name, WRONG[name][message])


def test_other_folders(tmp_path):
    with pytest.raises(DataError, match="no tables"):
        SpeechFolder(tmp_path)
    (tmp_path / "a.trans.txt").write_text("a ONE")
    (tmp_path / "a.flac").write_bytes(b"fLaC")
    with pytest.raises(DataError, match="a.flac, which is not a WAV file") as error:
        SpeechFolder(tmp_path)
    assert "ffmpeg -i" in str(error.value)
    with pytest.raises(DataError):
        SpeechFolder(tmp_path / "missing")
