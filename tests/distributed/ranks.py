"""Run a function of a test file on several ranks, in processes that mpiexec starts.

    from distributed.ranks import run_ranks

    def check_sum():
        mt.distributed.init_process_group()
        ...

    def test_sum():
        run_ranks(3, check_sum)

Starting takes about a second, so a check function should check several things.
"""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from minitorch_attn.distributed.launch import mpiexec, rank_environment

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 120  # seconds


def reason_to_skip():
    """Why ranks cannot be started here, or an empty string."""
    if importlib.util.find_spec("mpi4py") is None:
        return "needs mpi4py: python -m pip install 'minitorch-attn[mpi]'"
    return "" if mpiexec() else "needs mpiexec: python -m pip install 'minitorch-attn[mpi]'"


needs_mpi = pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip())


def environment(**more):
    """Environment of the ranks, with the tests' helpers."""
    paths = [str(ROOT), str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return rank_environment(PYTHONPATH=os.pathsep.join(paths), **more)


def command(n, *arguments):
    """The command that starts Python with `arguments` on `n` ranks."""
    return [mpiexec(), "-n", str(n), sys.executable, *map(str, arguments)]


def start_ranks(n, *arguments, **more):
    """Start Python on `n` ranks in a session of its own; return the Popen of mpiexec."""
    return subprocess.Popen(
        command(n, *arguments),
        env=environment(**more),
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def run_python(n, *arguments, limit=LIMIT, **more):
    """Run Python with `arguments` on `n` ranks; return a CompletedProcess."""
    process = start_ranks(n, *arguments, **more)
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"the ranks did not end within {limit} s\n{out}\n{err}", pytrace=False)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def run_ranks(n, function, *args, limit=LIMIT, **more):
    """Call a function of a test file on `n` ranks; a rank that raises makes the test fail.

    Parameters
    ----------
    n : int
    function : function
        Defined at the top of its file. It must call `init_process_group` itself.
    *args
        Arguments that JSON can express.
    limit : float
        Seconds after which the ranks are killed, and the test fails.
    **more : str
        Environment variables.

    Returns
    -------
    list
        What the function returned on each rank (JSON).
    """
    if reason_to_skip():
        pytest.skip(reason_to_skip())
    with tempfile.TemporaryDirectory() as folder:
        call = [function.__code__.co_filename, function.__name__, json.dumps(args), folder]
        done = run_python(n, __file__, *call, limit=limit, **more)
        if done.returncode:
            pytest.fail(
                f"{function.__name__} on {n} ranks: status {done.returncode}\n"
                f"{done.stdout}{done.stderr}",
                pytrace=False,
            )
        files = [Path(folder, f"{rank}.json") for rank in range(n)]
        return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def main(path, name, arguments, folder):
    """Run one rank: import the file, call the function and write its result to a file."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    result = getattr(module, name)(*json.loads(arguments))
    from minitorch_attn.distributed import mpi

    rank = mpi.load().COMM_WORLD.Get_rank()
    Path(folder, f"{rank}.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
