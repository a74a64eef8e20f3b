"""Measure the time of `import minitorch_attn` after NumPy has been imported.

    python -m tools.import_time

The program starts several new interpreters, and prints the median and the minimum of the wall-clock
time and of the processor time. The target is 80 ms on an otherwise idle machine. The test suite
does not check it, because the import takes longer while other programs are running.
"""

import os
import statistics
import subprocess
import sys
import tempfile

CODE = """
import time, numpy
clock, busy = time.perf_counter(), time.process_time()
import minitorch_attn
print(time.perf_counter() - clock, time.process_time() - busy)
"""


def main(runs=21):
    """Measure the import time, and print the results."""
    with tempfile.TemporaryDirectory() as folder:
        # Use cached bytecode, as after an installation, even if PYTHONDONTWRITEBYTECODE is set.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        _, *found = [_once(environment) for _ in range(runs + 1)]  # 1st: write bytecode
    for name, times in zip(("clock", "processor"), zip(*found, strict=True), strict=True):
        print(f"{name:>9}  median {statistics.median(times):5.1f} ms  fastest {min(times):5.1f} ms")


def _once(environment):
    """Return the wall-clock and processor time of one import in milliseconds."""
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, check=True, capture_output=True, env=environment)
    return [1e3 * float(number) for number in done.stdout.split()]


if __name__ == "__main__":
    main()
