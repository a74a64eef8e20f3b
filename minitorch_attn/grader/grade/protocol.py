"""Protocol between the grader and a submission's process: each message has a header and arrays.

A message consists of frames. A frame is a length (eight bytes), followed by that number of bytes.
The first frame is the header, in JSON. Its field `arrays` names the arrays, which follow as frames
in NumPy's `.npy` format. Nothing is ever unpickled. Data from a submission is untrusted, so the
grader checks the length of a frame before it reads the bytes.

This file is also copied next to the submission, so it imports only NumPy and the standard library.
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
    """The received data is not a valid message, or is larger than allowed."""


def write_message(descriptor, header, arrays, clock=None):
    """Send a header and arrays.

    Parameters
    ----------
    descriptor : int
        File descriptor that is open for writing.
    header : dict
        Header fields that JSON can represent.
    arrays : dict of str to ndarray
    clock : Clock, optional
        Time limit for the other side to read the message. It requires a non-blocking descriptor.

    Raises
    ------
    TimeoutError
        If the time limit is exceeded.
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
        File descriptor that is open for reading.
    max_bytes : int, optional
        Maximum total size of the arrays. A larger message raises an error before it is read.
    clock : Clock, optional
        Time limit for the whole message.

    Returns
    -------
    (dict, dict of str to ndarray) or None
        Header and arrays. None at the end of the stream.

    Raises
    ------
    ProtocolError
        If the data is not a valid message, or is too large.
    TimeoutError
        If the time limit is exceeded.

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
            raise ProtocolError("the data ended before the message was complete")
        left = None if left is None else left - len(frame)
        arrays[name] = _array(frame)
    return header, arrays


def _header(frame):
    try:
        header = json.loads(frame)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the header is not valid JSON: {error}") from None
    names = header.get("arrays") if isinstance(header, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ProtocolError("the header is not an object with a list of names in `arrays`")
    if len(names) > 1000 or len(set(names)) < len(names):
        raise ProtocolError("the header has more than 1000 array names, or a duplicate")
    return header


def _array(frame):
    """Decode an array. The length of the frame must match the shape and dtype in the frame."""
    stream = io.BytesIO(frame)
    try:
        version = np.lib.format.read_magic(stream)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read(stream)
        if dtype.hasobject or dtype.fields is not None or dtype.kind not in "biufc":
            raise ProtocolError(f"arrays of dtype {dtype} are not allowed, only arrays of numbers")
        data = frame[stream.tell() :]
        array = np.frombuffer(data, dtype)
        return array.reshape(shape, order="F" if fortran else "C").copy()
    except ProtocolError:
        raise
    except Exception as error:  # malformed bytes can make NumPy raise anything
        raise ProtocolError(f"malformed array: {type(error).__name__}: {error}") from None


def _read_frame(descriptor, max_bytes, clock):
    start = _read(descriptor, _LENGTH.size, clock)
    if start is None:
        return None
    (length,) = _LENGTH.unpack(start)
    if max_bytes is not None and length > max_bytes:
        raise ProtocolError(f"a frame of {length:,} bytes exceeds the limit of {max_bytes:,}")
    frame = _read(descriptor, length, clock)
    if frame is None:
        raise ProtocolError("the data ended before the message was complete")
    return frame


def _read(descriptor, count, clock):
    """Read exactly `count` bytes. Return None if the stream ends before the first byte."""
    parts, missing = [], count
    while missing:
        if clock is not None:
            clock.wait(descriptor)
        part = os.read(descriptor, min(missing, 1 << 20))
        if not part:
            if missing < count:
                raise ProtocolError("the data ended before the message was complete")
            return None
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
