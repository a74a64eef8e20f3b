"""Speech folder: recordings in WAV files, with their transcripts."""

import csv
import io
import os

from ..errors import DataError
from ..named_errors import NamedErrors
from .download import local_path
from .text import read_text
from .wav import read_wav

__all__ = ["SpeechFolder"]

_FILE = ("file", "file_name", "path", "audio")  # names of the columns of a table
_TEXT = ("text", "transcript", "transcription", "sentence")
_OTHER_SOUND = (".flac", ".mp3", ".ogg", ".m4a", ".opus")


class SpeechFolder(NamedErrors):
    """WAV files with transcripts, found in a folder and its subfolders.

    Transcripts are read from `*.trans.txt` files, as in LibriSpeech. If there are none, they are
    read from tables: `*.csv` or `*.tsv` files. Each line of a `*.trans.txt` file has the name of a
    WAV file in the same folder, without its extension, and the text. The first line of a table
    names its columns. One column is called file, file_name, path or audio, and contains paths
    relative to the table. Another column is called text, transcript, transcription or sentence.

    Parameters
    ----------
    source : str or path
        The folder, an archive of the folder, or the archive's URL.
    sha256 : str, optional
        Checksum of an archive, required for a URL.
    sample_rate : int, optional
        Sample rate that every file must have. Recordings are not resampled.

    Attributes
    ----------
    paths : list of str
    transcripts : list of str

    Raises
    ------
    DataError
        If there are no transcripts, a transcript is empty, its WAV file is missing, or two
        transcripts belong to the same file.

    References
    ----------
    .. [1] Panayotov et al. 2015, "Librispeech: An ASR Corpus Based on Public Domain Audio Books".

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from minitorch_attn.data.wav import write_wav
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_wav(os.path.join(folder, "a.wav"), np.zeros(3), 8000)
    ...     with open(os.path.join(folder, "words.csv"), "w") as file:
    ...         _ = file.write("file,text\\na.wav,one two\\n")
    ...     speech = SpeechFolder(folder, sample_rate=8000)
    ...     speech[0]
    (array([0., 0., 0.], dtype=float32), 8000, 'one two')
    """

    def __init__(self, source, *, sha256=None, sample_rate=None):
        folder = local_path(source, sha256)
        self.sample_rate = sample_rate
        lists = _files(folder, ".trans.txt")
        tables = [] if lists else _files(folder, ".csv") + _files(folder, ".tsv")
        lines = [line for path in lists for line in _list_lines(path)]
        lines += [line for path in tables for line in _table_lines(path)]
        if not lines:
            raise DataError(
                f"{folder} does not contain transcripts",
                got="empty tables" if lists or tables else "no tables",
                expected="a file *.trans.txt, *.csv or *.tsv with at least one transcript",
            )
        self.paths, self.transcripts, seen = [], [], {}
        for place, path, text in lines:
            _check_line(place, path, text, seen)
            self.paths.append(path)
            self.transcripts.append(text)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        """Return one recording: the mean of its channels, its sample rate, and its transcript.

        Returns
        -------
        waveform : float32 array of shape (sample,)
        sample_rate : int
        transcript : str
        """
        path, text = self.paths[index], self.transcripts[index]
        samples, rate = read_wav(path)
        if self.sample_rate not in (None, rate):
            raise DataError(
                f"{path}: the sample rate does not match",
                got=f"{rate} Hz", expected=f"{self.sample_rate} Hz",
                hint=f"convert it: ffmpeg -i INPUT -ar {self.sample_rate} OUTPUT.wav",
            )  # fmt: skip
        return samples.mean(0), rate, text


def _files(folder, ending):
    """Return the sorted paths of all files under a folder whose names end with `ending`."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [
            os.path.join(place, name)
            for name in sorted(names)
            if name.lower().endswith(ending) and not name.startswith(".")
        ]
    return found


def _list_lines(path):
    """Yield (file and line, path of the WAV file, text) for each line of a `*.trans.txt` file."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        name, _, text = line.strip().partition(" ")
        if name:
            place = f"{path}, line {number}"
            yield place, _inside(path, name + ".wav", place), text.strip()


def _table_lines(path):
    """Yield (file and line, path of the WAV file, text) for each row of a table."""
    tabs = path.lower().endswith(".tsv")
    settings = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tabs else {"strict": True}
    rows = csv.reader(io.StringIO(read_text(path)), **settings)
    try:
        names = next(rows, [])
        columns = [_column(path, names, wanted) for wanted in (_FILE, _TEXT)]
        for row in rows:
            place = f"{path}, line {rows.line_num}"
            if not row:
                continue
            if len(row) != len(names):
                raise DataError(
                    f"{place}: the number of columns is wrong",
                    got=f"{len(row)}", expected=f"{len(names)}, as in the first line",
                    hint=None if tabs else "put texts that contain a comma in quotation marks",
                )  # fmt: skip
            file, text = (row[column].strip() for column in columns)
            yield place, _inside(path, file, place), text
    except csv.Error as error:
        raise DataError(f"{path}, line {rows.line_num}: invalid CSV", got=str(error)) from None


def _column(path, names, wanted):
    found = [number for number, name in enumerate(names) if name.strip().lower() in wanted]
    if len(found) != 1:
        raise DataError(
            f"{path}: the first line must name one {wanted[0]} column",
            got=f"{', '.join(names)!r:.80}", expected=f"one of {', '.join(wanted)}",
        )  # fmt: skip
    return found[0]


def _inside(table, name, place):
    """Return the path of the file `name`; raise DataError unless it is in the table's folder."""
    parts = name.replace("\\", "/").split("/")
    if not name or "\0" in name or ".." in parts or os.path.isabs(name) or ":" in name:
        raise DataError(
            f"{place}: the name of the WAV file is invalid",
            got=f"{name!r:.60}", expected="a path relative to this table's folder",
        )  # fmt: skip
    return os.path.join(os.path.dirname(table), *parts)


def _check_line(place, path, text, seen):
    """Raise DataError if a line lacks text or a WAV file, or repeats an earlier line's WAV file."""
    if not text:
        raise DataError(f"{place}: the transcript is empty", hint="remove the line")
    if not os.path.isfile(path):
        stem = os.path.splitext(path)[0]
        other = [stem + ending for ending in _OTHER_SOUND if os.path.isfile(stem + ending)]
        raise DataError(
            f"{place}: {path} is missing",
            got=f"{other[0]}, which is not a WAV file" if other else None,
            hint=f"convert it: ffmpeg -i {other[0]} {path}" if other else None,
        )
    if path in seen:
        raise DataError(
            f"{place}: {path} already has a transcript", got=f"an earlier one in {seen[path]}"
        )
    seen[path] = place
