"""Run the public checks of this assignment.

    python check.py                     all checks
    python check.py backward            this check, or all checks whose names contain this word
    python check.py Softmax.backward    the checks of one function
    python check.py --json              JSON output for programs

The folder `public` contains the inputs and the expected results. The grader uses other inputs and
more checks. As in the grader, your code runs in a separate process. It can import only NumPy, the
standard library and this package. Files of the package that you do not submit are the originals.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from importlib.machinery import PathFinder
from pathlib import Path

HERE = Path(__file__).resolve().parent
INSIDE = "--inside"


def main(words):
    """Run the checks in a separate process, on the files to submit; return its exit status."""
    numpy = importlib.util.find_spec("numpy")
    if numpy is None:
        print("NumPy is missing: python -m pip install numpy", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="check-") as folder:
        with zipfile.ZipFile(HERE / "public" / "package.zip") as package:
            package.extractall(folder)
        for name in json.loads((HERE / "public" / "files.json").read_text(encoding="utf-8")):
            if (HERE / name).is_file():
                (Path(folder) / name).write_bytes((HERE / name).read_bytes())
            else:
                print(f"{name} is missing", file=sys.stderr)
        where = [folder, str(Path(numpy.origin).parent.parent)]
        command = [sys.executable, "-u", "-I", "-S", "-B", str(HERE / "check.py"), INSIDE]
        return subprocess.run([*command, *where, *words], check=False).returncode


class OnlyNumpy:
    """Import finder that finds NumPy, but no other installed package, as in the grader."""

    def __init__(self, folder):
        self.folder = folder

    def find_spec(self, name, path=None, target=None):
        """Find a module of NumPy."""
        is_numpy = name.partition(".")[0] == "numpy"
        return PathFinder.find_spec(name, path or [self.folder], target) if is_numpy else None


def inside(folder, site, *words):
    """Run the checks and print a line for each; return 0 if all pass."""
    sys.path.insert(0, folder)
    sys.meta_path.append(OnlyNumpy(site))
    as_json = "--json" in words
    words = [word for word in words if word != "--json"]
    table = json.loads((HERE / "public" / "checks.json").read_text(encoding="utf-8"))
    chosen = [e for e in table if not words or any(e in named(table, word) for word in words)]
    if not chosen:
        print(f"no check has {' or '.join(words)} in its name", file=sys.stderr)
        return 2
    spec = importlib.util.spec_from_file_location("judging", HERE / "judging.py")
    judging = importlib.util.module_from_spec(spec)
    sys.modules["judging"] = judging  # @dataclass looks for the module here
    spec.loader.exec_module(judging)
    results = [{**entry, **outcome(entry, judging, Path(folder))} for entry in chosen]
    if as_json:
        keys = ("name", "of", "points", "status", "message", "seconds")
        print(json.dumps([{key: result[key] for key in keys} for result in results], indent=1))
    else:
        show(results)
    return 0 if all(result["status"] == "passed" for result in results) else 1


def named(table, word):
    """Return the checks of the function `word`, or those whose name equals or contains `word`."""
    for chosen in (
        [entry for entry in table if entry["of"] == word],
        [entry for entry in table if entry["name"] == word],
    ):
        if chosen:
            return chosen
    return [entry for entry in table if word in entry["name"]]


def outcome(entry, judging, folder):
    """Run the parts of one check; all parts must pass."""
    start = time.perf_counter()
    for part in entry["parts"]:
        status, message = run(part, judging, folder)
        if status != "passed":
            return {
                "status": status, "message": f"{part['name']}: {message}",
                "seconds": round(time.perf_counter() - start, 2),
            }  # fmt: skip
    return {"status": "passed", "message": "", "seconds": round(time.perf_counter() - start, 2)}


def run(part, judging, folder):
    """Run one part and compare its results with the expected results."""
    import numpy as np

    with np.load(HERE / "public" / part["file"], allow_pickle=False) as arrays:
        inputs = {key[3:]: arrays[key] for key in arrays if key.startswith("in ")}
        expected = {key[4:]: arrays[key] for key in arrays if key.startswith("out ")}
    space = {"__name__": "driver"}
    try:
        exec(compile(part["driver"], "<check>", "exec"), space)
        found = space["run"](inputs, part["settings"])
    except Exception as error:
        return "error", f"{type(error).__name__}: {error}{place(error, folder)}"
    verdict = judging.judge(
        judging.Check(part["name"], None, inputs, expected, rtol=part["rtol"]), found
    )
    return verdict.status, verdict.message


def place(error, folder):
    """Return the innermost line of the traceback that is in the package."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(str(folder / "minitorch_attn"))]
    if not own:
        return ""
    file = Path(own[-1].filename).relative_to(folder).as_posix()
    return f"\n    {file}:{own[-1].lineno}: {own[-1].line}"


def show(results):
    """Print a line for each check, and the reason if it failed."""
    width = max((len(result["name"]) for result in results), default=0)
    for result in results:
        passed = result["status"] == "passed"
        earned = f"{result['points'] if passed else 0}/{result['points']}"
        print(f"{result['name']:<{width}}  {earned:>5}  {result['status']}")
        if not passed:
            print(f"    {result['message']}")
    earned = sum(result["points"] for result in results if result["status"] == "passed")
    print(f"\n{earned} of {sum(result['points'] for result in results)} points for these checks")


if __name__ == "__main__":
    if sys.argv[1:2] == [INSIDE]:
        sys.exit(inside(*sys.argv[2:]))
    sys.exit(main(sys.argv[1:]))
