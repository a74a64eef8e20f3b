"""`mta doctor`: every check can pass and can fail, and says what to do."""

import json
import shutil
import sys
import types

import numpy as np
import pytest

from minitorch_attn.cli import doctor_checks as doctor
from minitorch_attn.grader.grade.sandbox import Sandbox
from minitorch_attn.grader.grade.sandbox_folders import new_folder
from minitorch_attn.grader.grade.sandbox_users import FIRST


def test_a_table_with_an_exit_code(mta):
    code, out, err = mta("doctor")
    assert err == "" and code == 0, out
    names = ("Python", "NumPy", "BLAS", "GPU", "working folder", "sandbox", "[lessons]")
    lines = out.splitlines()
    for name in names:
        assert any(name in line and line[:7].strip() in ("ok", "without") for line in lines), name
    assert "everything required is available" in out and max(map(len, lines)) <= 160


def test_as_json(mta):
    fields = json.loads(mta("doctor", "--json")[1])
    assert fields["ok"] is True
    for check in fields["checks"]:
        assert set(check) == {"name", "state", "text", "remedy"}
        assert (check["state"] == "ok") == (check["remedy"] == ""), check


def test_what_is_missing_fails_the_command(mta, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MTA_STATE", str(tmp_path / "file" / "below"))
    code, out, _ = mta("doctor")
    assert code == 1 and "1 missing" in out and "set MTA_STATE" in out
    code, out, _ = mta("doctor", "--json")
    assert code == 1 and json.loads(out)["ok"] is False


def test_lessons_that_are_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("MTA_LESSONS", str(tmp_path))
    assert doctor.lesson_files().state == "missing"


def test_an_old_python_and_an_old_numpy(monkeypatch):
    assert doctor.python().state == doctor.numpy().state == "ok"
    monkeypatch.setattr(doctor, "_OLDEST", (99, 0))
    monkeypatch.setattr("numpy.__version__", "1.26.4")
    assert doctor.python().state == doctor.numpy().state == "missing"


def test_a_gpu_that_is_there_and_one_that_does_not_answer(monkeypatch):
    from minitorch_attn.backend import cuda

    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    assert "not installed" in doctor.cupy().text
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(cuda, "load", lambda: None)
    monkeypatch.setattr(cuda, "get_device_name", lambda: "a card")
    assert doctor.cupy().state == "ok" and "a card" in doctor.cupy().text

    def refuse():
        raise RuntimeError("the driver is too old\nsecond line")

    monkeypatch.setattr(cuda, "load", refuse)
    result = doctor.cupy()
    assert result.state == "optional" and result.text == "the driver is too old"


def test_the_threads_of_the_blas(monkeypatch):
    monkeypatch.setattr("minitorch_attn.backend.blas.blas_threads", lambda: None)
    assert "unknown number of threads" in doctor.blas().text
    monkeypatch.setattr("minitorch_attn.backend.blas.blas_threads", lambda: 1)
    assert "1 of" in doctor.blas().text


@pytest.mark.parametrize("setting", [None, "Haswell"])
def test_the_kernels_of_the_blas(monkeypatch, setting):
    built = {"Build Dependencies": {"blas": {"name": "scipy-openblas", "version": "0.3.31"}}}
    monkeypatch.setattr(np, "show_config", lambda mode: built)
    monkeypatch.setattr("minitorch_attn.backend.blas.blas_kernels", lambda: "Haswell")
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    if setting:
        monkeypatch.setenv("OPENBLAS_CORETYPE", setting)
    forced = " (OPENBLAS_CORETYPE is set)" if setting else ""
    assert doctor.blas().text.startswith(f"scipy-openblas 0.3.31, Haswell kernels{forced}, ")
    built["Build Dependencies"]["blas"]["name"] = "mkl-sdl"
    assert "kernels" not in doctor.blas().text


@pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap")
def test_the_sandbox_is_probed_not_guessed(monkeypatch):
    works = Sandbox(3).works() is None
    assert doctor.sandbox().text.startswith("level 3") == works
    place = new_folder(user=FIRST)  # where another user can get to
    place.chmod(0o755)
    refuses = place / "bwrap"
    refuses.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    refuses.chmod(0o755)
    which = shutil.which
    monkeypatch.setattr(
        doctor.shutil, "which", lambda name: str(refuses) if name == "bwrap" else which(name)
    )
    level, why = Sandbox.probe()
    assert level < 3 and "namespace" in why and "namespace" in doctor.sandbox().remedy
    shutil.rmtree(place)


@pytest.mark.parametrize("level", [1, 2])
def test_the_levels_without_bubblewrap(monkeypatch, level):
    whys = {3: "bubblewrap is not installed", 2: None if level == 2 else "needs root"}
    monkeypatch.setattr(Sandbox, "works", lambda self: whys[self.level])
    which = shutil.which
    monkeypatch.setattr(
        doctor.shutil, "which", lambda name: None if name == "bwrap" else which(name)
    )
    assert Sandbox.probe() == (level, whys[3]) and Sandbox.best() == level
    result = doctor.sandbox()
    assert result.text.startswith(f"level {level}") and result.state == "optional"
    assert "apt install bubblewrap" in result.remedy


def test_the_doctor_and_the_grader_say_the_same(monkeypatch):
    for level in (1, 2, 3):
        found = (level, None if level == 3 else "a reason")
        monkeypatch.setattr(Sandbox, "probe", staticmethod(lambda found=found: found))
        assert Sandbox.best() == level and doctor.sandbox().text.startswith(f"level {level}")


def test_an_encoding_without_letters(monkeypatch):
    monkeypatch.setattr(sys, "stdout", types.SimpleNamespace(encoding="latin-1"))
    assert doctor.letters().state == "optional"
    monkeypatch.setattr(sys, "stdout", types.SimpleNamespace(encoding="utf-8"))
    assert doctor.letters().state == "ok"


def test_an_extra_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    result = doctor.extra("lessons")
    assert result.state == "optional" and "'minitorch-attn[lessons]'" in result.remedy
