"""Worker program that runs a submission. It is copied next to the submission, never imported.

    python -I -S worker.py READ WRITE

The worker reads messages from the descriptor READ and answers each message on WRITE. A message
contains arrays and the source of a driver, `def run(inputs, settings)`. The answer contains the
results of `run`, or the text of the error that it raised. The grader does not trust this process,
and judges the arrays itself. If a message has the field `steps`, the answer contains the steps of
the computation instead of the results (see the file `steps.py`). The steps are used only for
feedback.
"""

import os
import signal
import sys
import traceback

FOLDER = os.path.dirname(os.path.abspath(__file__))
MESSAGE_CHARACTERS, SHOWN_FRAMES = 2_000, 10
_PR_SET_PDEATHSIG = 1


def main():
    """Answer the grader's requests until it closes the pipe."""
    reading, writing = map(int, sys.argv[1:3])
    _die_with_parent()
    sys.path[:0] = [FOLDER, os.path.join(FOLDER, "site")]
    from protocol import read_message, write_message

    while (message := read_message(reading)) is not None:
        header, inputs = message
        try:
            if "steps" in header:
                found, numbers = traced(header, inputs)
                arrays, answer = {"numbers": numbers}, {"status": "done", "steps": found}
            else:
                arrays, answer = run(header, inputs), {"status": "done"}
        except BaseException:  # SystemExit and KeyboardInterrupt are also reported
            arrays, answer = {}, {"status": "error", "text": _error_text()}
        sys.stdout.flush()
        write_message(writing, answer, arrays)


def _die_with_parent():
    """Ask Linux to kill this process when the grader ends, however it ends."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (ImportError, OSError, AttributeError):  # not Linux: the end of the pipe stops it
        pass


def run(header, inputs):
    """Run the driver code of a request. Return its results, which must be arrays of numbers."""
    import numpy as np

    found = _driver(header)(inputs, header["settings"])
    arrays = {}
    for name in header["wanted"]:
        value = found[name]
        if type(value) is np.ndarray and value.dtype == object and value.shape == ():
            value = value.item()  # the driver converts what a function returns to an array
        if value is None:
            raise TypeError(f"{name} is None: the function returned nothing")
        if type(value) is not np.ndarray:
            raise TypeError(f"{name} is {type(value).__name__}, not a NumPy array")
        if value.dtype.kind not in "biufc":
            raise TypeError(f"{name} is an array of {value.dtype}, not of numbers")
        arrays[name] = value
    return arrays


def traced(header, inputs):
    """Run the driver code of a request. Return its steps, even if it raises an error."""
    from steps import Steps

    driver, recorder = _driver(header), Steps(FOLDER, header["steps"])
    try:
        with recorder:
            driver(inputs, header["settings"])
    except BaseException:  # the steps before an error are also useful
        pass
    return recorder.message()


def _driver(header):
    namespace = {"__name__": "driver"}
    exec(compile(header["driver"], "<check>", "exec"), namespace)
    return namespace["run"]


def _error_text():
    """Return the current error's message and the last entries of its traceback.

    Entries for this file, and for files outside its folder, are left out.
    """
    error = sys.exc_info()[1]
    raised = traceback.format_exception_only(error)
    if isinstance(error, SyntaxError):
        raised = [raised[-1], *raised[:-1]]  # the line of code comes before the error
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(FOLDER) and frame.filename != __file__
    ]  # fmt: skip
    if len(frames) > SHOWN_FRAMES:  # the innermost calls are the most helpful
        frames = frames[-SHOWN_FRAMES:]
    lines = ["".join(raised).rstrip()[:MESSAGE_CHARACTERS]]
    for frame in frames:
        place = frame.filename.removeprefix(FOLDER + os.sep).replace(os.sep, "/")
        lines.append(f"  {place}, line {frame.lineno}, in {frame.name}\n    {frame.line}")
    return "\n".join(lines).replace(FOLDER + os.sep, "")


if __name__ == "__main__":
    main()
