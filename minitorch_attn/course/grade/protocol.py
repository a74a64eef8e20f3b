"""Messages between the grader and the process of a submission: a header and arrays, as frames.

A frame is eight bytes of length and so many bytes. A message is a frame of JSON, the header,
whose `arrays` lists the names of the arrays that follow, each as one frame in NumPy's `.npy`
format. Nothing is ever unpickled. The grader says how many bytes it will accept before it reads
them: what arrives from a submission is data of an unknown sender.

This file is also copied beside the submission, so it imports NumPy and the standard library only.
"""

import io
import json
import os
import struct

import numpy as np

__all__ = ["ProtocolError", "read_message", "write_message"]

HEADER_BYTES = 1 << 20
_LENGTH = struct.Struct("<Q")


class ProtocolError(Exception):
    """What arrived is no message, or more than was allowed."""


def write_message(descriptor, header, arrays, clock=None):
    """Send a header and arrays.

    Parameters
    ----------
    descriptor : int
        A file descriptor open for writing.
    header : dict
        What JSON can hold.
    arrays : dict of str to ndarray
    clock : Clock, optional
        Says when the other side has taken too long to read them; the descriptor must not block
        then.

    Raises
    ------
    TimeoutError
        If the time is over first.
    """
    frames = [json.dumps({**header, "arrays": list(arrays)}).encode()]
    for array in arrays.values():
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.asanyarray(array), allow_pickle=False)
        frames.append(buffer.getvalue())
    data = memoryview(b"".join(part for frame in frames for part in (_pack(frame), frame)))
    while data:
        if clock is not None:
            clock.wait(descriptor, writing=True)
        data = data[os.write(descriptor, data) :]


def _pack(frame):
    return _LENGTH.pack(len(frame))


def read_message(descriptor, max_bytes=None, clock=None):
    """Receive a header and arrays.

    Parameters
    ----------
    descriptor : int
        A file descriptor open for reading.
    max_bytes : int, optional
        For all arrays together; more is refused unread.
    clock : Clock, optional
        Says when the whole message has taken too long.

    Returns
    -------
    (dict, dict of str to ndarray), or None at the end of the stream

    Raises
    ------
    ProtocolError
        If it is no message, or too large.
    TimeoutError
        If the time is over first.

    Examples
    --------
    >>> reading, writing = os.pipe()
    >>> write_message(writing, {"do": "add"}, {"x": np.ones(2)})
    >>> read_message(reading, max_bytes=1000)
    ({'do': 'add', 'arrays': ['x']}, {'x': array([1., 1.])})
    """
    frame = _read_frame(descriptor, HEADER_BYTES, clock)
    if frame is None:
        return None
    header = _header(frame)
    left = max_bytes
    arrays = {}
    for name in header["arrays"]:
        frame = _read_frame(descriptor, left, clock)
        if frame is None:
            raise ProtocolError("the message ends in the middle")
        left = None if left is None else left - len(frame)
        arrays[name] = _array(frame)
    return header, arrays


def _header(frame):
    try:
        header = json.loads(frame)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the header is no JSON: {error}") from None
    names = header.get("arrays") if isinstance(header, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ProtocolError("the header is no object with a list of names")
    if len(names) > 1000 or len(set(names)) < len(names):
        raise ProtocolError("the names of the arrays are too many, or not all different")
    return header


def _array(frame):
    """The array in a frame whose length is exactly what its header says."""
    stream = io.BytesIO(frame)
    try:
        version = np.lib.format.read_magic(stream)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read(stream)
        if dtype.hasobject or dtype.fields is not None or dtype.kind not in "biufc":
            raise ProtocolError(f"an array of {dtype}")
        data = frame[stream.tell() :]
        array = np.frombuffer(data, dtype)
        return array.reshape(shape, order="F" if fortran else "C").copy()
    except ProtocolError:
        raise
    except Exception as error:  # whatever malformed bytes bring NumPy to raise
        raise ProtocolError(f"no array: {type(error).__name__}: {error}") from None


def _read_frame(descriptor, max_bytes, clock):
    start = _read(descriptor, _LENGTH.size, clock)
    if start is None:
        return None
    (length,) = _LENGTH.unpack(start)
    if max_bytes is not None and length > max_bytes:
        raise ProtocolError(f"{length:,} bytes, where {max_bytes:,} are allowed")
    frame = _read(descriptor, length, clock)
    if frame is None:
        raise ProtocolError("the message ends in the middle")
    return frame


def _read(descriptor, count, clock):
    """Exactly `count` bytes; None if the stream ends before the first of them."""
    parts, missing = [], count
    while missing:
        if clock is not None:
            clock.wait(descriptor)
        part = os.read(descriptor, min(missing, 1 << 20))
        if not part:
            if missing < count:
                raise ProtocolError("the message ends in the middle")
            return None
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
