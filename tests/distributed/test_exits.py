"""The end of a rank: an exception, an exit status or kill -9 ends all ranks, and none is left."""

import os
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from distributed.ranks import environment, needs_mpi, run_python, run_ranks, start_ranks

import minitorch_attn as mt

pytestmark = needs_mpi
START = "import os, sys, time, minitorch_attn as mt; d = mt.distributed; d.init_process_group()\n"
SLEEP = "os.write(1, f'{os.getpid()}\\n'.encode()); time.sleep(300)"  # one write per line
WAIT = "d.all_reduce(mt.ones(2))  # waits for the rank that ends\n"


def wait_until(condition, limit):
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def is_running(pid):
    """Does the process run? A zombie, which nobody has waited for, does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ended(code, n=3, limit=60):
    """Run `code` on n ranks, each of which writes its process id; none of them may be left."""
    note = (
        "from pathlib import Path\n"
        "Path(os.environ['PIDS'], str(os.getpid())).touch()\n"
        "d.barrier()\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        done = run_python(n, "-c", START + note + code, limit=limit, PIDS=folder)
        seconds = time.monotonic() - begun
        pids = [int(name) for name in os.listdir(folder)]
    assert len(pids) == n, done.stdout + done.stderr
    assert wait_until(lambda: not any(map(is_running, pids)), 10), "a rank is left"
    return done, seconds


def test_an_exception_ends_all_ranks_with_its_traceback_and_rank():
    code = "if d.get_rank() == 1: raise KeyError('a planted error')\n" + WAIT
    done, seconds = ended(code)
    assert done.returncode != 0 and seconds < 30
    lines = [line for line in done.stderr.splitlines() if line.startswith("[rank")]
    assert lines[0] == "[rank 1 of 3] Traceback (most recent call last):"
    assert lines[-1] == "[rank 1 of 3] KeyError: 'a planted error'"
    assert not any(line.startswith(("[rank 0", "[rank 2")) for line in lines)


@pytest.mark.parametrize(
    ("leave", "text"),
    [("sys.exit(3)", ""), ("sys.exit('no data')", "[rank 2 of 3] no data"),
     ("import click; click.command()(lambda: 1 / 0)()", "ZeroDivisionError"),
     ("import click; click.command()(click.Abort)(['--nothing'])", "No such option")],
)  # fmt: skip
@pytest.mark.slow
def test_an_exit_status_ends_all_ranks(leave, text):
    done, _ = ended(f"if d.get_rank() == 2: {leave}\n" + WAIT)
    assert done.returncode != 0 and text in done.stderr


@pytest.mark.slow
def test_a_clean_exit_waits_for_the_others_and_is_silent():
    code = (
        "if d.get_rank() == 0: sys.exit()\n"
        "time.sleep(1)\n"
        "if d.get_rank() == 1: d.send(mt.ones(2), 2)\n"
        "else: d.recv(mt.ones(2), 1); print('received'); sys.exit(0)\n"
    )
    done, _ = ended(code)
    assert done.returncode == 0 and done.stderr == "" and done.stdout.count("received") == 1


@pytest.mark.slow
def test_a_killed_rank_ends_the_run():
    code = "if d.get_rank() == 2: time.sleep(1); os.kill(os.getpid(), 9)\n" + WAIT
    done, seconds = ended(code)
    assert done.returncode != 0 and seconds < 30


def test_a_killed_mpiexec_ends_the_ranks():
    process = start_ranks(2, "-c", START + SLEEP)
    pids = [int(process.stdout.readline()) for _ in range(2)]
    assert all(map(is_running, pids))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    left = [pid for pid in pids if not wait_until(lambda pid=pid: not is_running(pid), 20)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def test_ctrl_c_ends_the_run():
    process = start_ranks(2, "-c", START + SLEEP)
    pids = [int(process.stdout.readline()) for _ in range(2)]
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode != 0
    assert wait_until(lambda: not any(map(is_running, pids)), 20)


def test_a_forked_child_that_fails_does_not_abort_the_run():
    code = (
        "pid = os.fork()\n"
        "if not pid: raise ValueError('in a child')\n"
        "os.waitpid(pid, 0)\n"
        "x = mt.ones(2); d.all_reduce(x); print('sum', x.tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", START + code], capture_output=True, text=True,
                          timeout=60, env=environment())  # fmt: skip
    assert done.returncode == 0 and "sum [1.0, 1.0]" in done.stdout
    assert "in a child" in done.stderr and "[rank" not in done.stderr


def check_that_raises():
    mt.distributed.init_process_group()
    if mt.distributed.get_rank() == 1:
        raise ZeroDivisionError("in the function of a test")
    mt.distributed.barrier()


def check_that_hangs():
    mt.distributed.init_process_group()
    print("before the wait", flush=True)
    time.sleep(60 if mt.distributed.get_rank() == 1 else 0)


def processes():
    mt.distributed.init_process_group()
    return os.getpid()


@pytest.mark.slow
def test_run_ranks_fails_with_the_traceback_of_the_rank():
    before = run_ranks(2, processes)
    assert run_ranks(2, processes) == before
    with pytest.raises(pytest.fail.Exception) as failure:
        run_ranks(2, check_that_raises)
    assert "[rank 1 of 2] ZeroDivisionError: in the function of a test" in str(failure.value)
    with pytest.raises(pytest.fail.Exception) as failure:
        run_ranks(2, check_that_hangs, limit=1)
    assert "did not end within 1 s" in str(failure.value) and "the wait" in str(failure.value)
    after = run_ranks(2, processes)
    assert not {*before} & {*after} and not any(map(is_running, before))
    with pytest.raises(pytest.fail.Exception, match="did not end within 1 s"):
        run_python(1, "-c", "import time; time.sleep(60)", limit=1)
