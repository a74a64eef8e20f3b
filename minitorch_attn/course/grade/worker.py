"""The program in whose process a submission computes; copied beside it, never imported here.

    python -I -S worker.py READ WRITE

It reads messages from the descriptor READ and answers each on WRITE. A message brings the source
of a driver, `def run(inputs, settings)`, and arrays; the answer is what `run` returns, or the text
of its error. Nothing that happens here is trusted: the arrays are judged by the grader. A message
with `steps` asks for the steps of a computation instead (see `steps`); they are feedback only.
"""

import os
import sys
import traceback

FOLDER = os.path.dirname(os.path.abspath(__file__))
MESSAGE_CHARACTERS = 20_000


def main():
    """Answer messages until there are no more."""
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
        except BaseException:  # SystemExit and KeyboardInterrupt are answers, too
            arrays, answer = {}, {"status": "error", "text": _error_text()}
        sys.stdout.flush()
        write_message(writing, answer, arrays)


def run(header, inputs):
    """What the driver returns, each entry as an array of numbers."""
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
    """The steps of the driver, as far as it gets."""
    from steps import Steps

    driver, recorder = _driver(header), Steps(FOLDER, header["steps"])
    try:
        with recorder:
            driver(inputs, header["settings"])
    except BaseException:  # what came before is of use, too
        pass
    return recorder.message()


def _driver(header):
    namespace = {"__name__": "driver"}
    exec(compile(header["driver"], "<check>", "exec"), namespace)
    return namespace["run"]


def _error_text():
    """The end of the traceback, without the folders of this machine."""
    text = "".join(traceback.format_exc())[-MESSAGE_CHARACTERS:]
    return text.replace(FOLDER + os.sep, "")


if __name__ == "__main__":
    main()
