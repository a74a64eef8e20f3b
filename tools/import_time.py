"""How long `import minitorch_attn` takes when NumPy is there already.

    python -m tools.import_time

Prints the median and the fastest of several fresh interpreters, by the clock and by processor
time. The target is 80 ms on a quiet machine; it is measured here and not in a test, because other
programs make it longer.
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
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        # As installed, with bytecode, also where Python is told to write none.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        _, *found = [_once(environment) for _ in range(runs + 1)]  # the first one writes it
    for name, times in zip(("clock", "processor"), zip(*found, strict=True), strict=True):
        print(f"{name:>9}  median {statistics.median(times):5.1f} ms  fastest {min(times):5.1f} ms")


def _once(environment):
    """Milliseconds by the clock and of the processor, in a fresh interpreter."""
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, check=True, capture_output=True, env=environment)
    return [1e3 * float(number) for number in done.stdout.split()]


if __name__ == "__main__":
    main()
