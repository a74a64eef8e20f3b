"""How long `import minitorch_attn` takes when NumPy is there already.

    python -m tools.import_time

Prints the median and the fastest of several fresh interpreters, by the clock and by processor
time. The target is 80 ms on a quiet machine; it is measured here and not in a test, because other
programs make it longer.
"""

import statistics
import subprocess
import sys

CODE = """
import time, numpy
clock, busy = time.perf_counter(), time.process_time()
import minitorch_attn
print(time.perf_counter() - clock, time.process_time() - busy)
"""


def main(runs=21):
    """Measure and print."""
    subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True)  # bytecode
    found = []
    for _ in range(runs):
        done = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True)
        found.append([1e3 * float(number) for number in done.stdout.split()])
    for name, times in zip(("clock", "processor"), zip(*found, strict=True), strict=True):
        print(f"{name:>9}  median {statistics.median(times):5.1f} ms  fastest {min(times):5.1f} ms")


if __name__ == "__main__":
    main()
