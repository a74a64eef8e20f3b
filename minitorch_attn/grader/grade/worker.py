"""Worker program that runs a submission. It is copied next to the submission, never imported.

    python -I -S worker.py READ WRITE

It reads messages from the descriptor READ and answers each message on WRITE. A message contains
arrays and the source of a driver, `def run(inputs, settings)`. The answer contains the results of
`run` or the text of its error. This process is not trusted: the grader judges the arrays. A message
with `steps` requests the steps of a computation instead (see `steps`), which are only feedback.
"""

import os
import sys
import traceback

FOLDER = os.path.dirname(os.path.abspath(__file__))
MESSAGE_CHARACTERS = 20_000


def main():
    """Answer the grader's requests until it closes the pipe."""
    reading, writing = map(int, sys.argv[1:3])
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


def run(header, inputs):
    """Run the driver code of a request. Return its results, which must be arrays of numbers."""
    import numpy as np

    found = _driver(header)(inputs, header["settings"])
    arrays = {}
    for name in header["wanted"]:
        value = found[name]
        if type(value) is not np.ndarray:
            raise TypeError(f"{name} is {type(value).__name__}, not a NumPy array")
        if value.dtype.kind not in "biufc":
            raise TypeError(f"{name} is an array of {value.dtype}, not of numbers")
        arrays[name] = value
    return arrays


def traced(header, inputs):
    """Record the steps of the driver until it ends or raises an error."""
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
    """Return the end of the traceback, with the path of this folder removed."""
    text = "".join(traceback.format_exc())[-MESSAGE_CHARACTERS:]
    return text.replace(FOLDER + os.sep, "")


if __name__ == "__main__":
    main()
