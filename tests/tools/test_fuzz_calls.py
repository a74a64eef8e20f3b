"""tools/fuzz/calls.py: no foreign errors in a sample of calls, and planted ones are found."""

import time
import types

import pytest

import minitorch_attn as mt
from tools.fuzz import calls
from tools.fuzz.arguments import HOSTILE, TENSORS, usual
from tools.fuzz.judge import judge, namespace
from tools.fuzz.programs import MODULES, NOT_CALLED, Program, callables, public_names


@pytest.fixture(autouse=True)
def once(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("the calls choose their devices themselves")


@pytest.mark.slow
def test_invalid_calls_raise_the_errors_of_the_package():
    report = calls.fuzz(seed=11, numbers=range(3000), processes=2)
    assert report.kinds.total() == 3000
    assert report.findings == {}, "\n".join(report.lines(10))
    assert report.kinds["own"] > 1000 and report.kinds["result"] > 600


def test_a_seed_and_a_number_give_one_program():
    found = callables(namespace())
    first = [calls.program(3, number, found).text for number in range(200)]
    assert first == [calls.program(3, number, found).text for number in range(200)]
    assert first != [calls.program(4, number, found).text for number in range(200)]


def public_callables():
    """Yield (name, value) of every public function and class of the modules."""
    for module in MODULES:
        holder = eval(module, namespace())
        for name in public_names(holder):
            value = getattr(holder, name)
            ours = str(getattr(value, "__module__", "")).startswith("minitorch_attn")
            if callable(value) and ours and not isinstance(value, types.ModuleType):
                yield f"{module}.{name}", value


def test_every_public_name_is_called_or_on_the_list_with_a_reason():
    found = {id(value) for group in callables(namespace()).values() for _, value in group}
    skipped = {name for names in NOT_CALLED.values() for name in names.split()}
    public = dict(public_callables())
    elsewhere = {id(public[name]) for name in skipped if name in public}
    missing = [name for name, v in public.items() if id(v) not in found | elsewhere]
    assert missing == []
    unknown = [name for name in skipped if name not in public and name[0].islower()]
    assert unknown == []  # a name on the list that no longer exists


def test_every_module_is_fuzzed():
    """A new public module is added to MODULES."""
    assert {f"mt.{name}" for name in mt._ON_DEMAND} <= {*MODULES}


def test_every_kind_of_callable_is_found():
    found = {name for group in callables(namespace()).values() for name, _ in group}
    for name in (
        "mt.add", "F.hardtanh", "nn.Linear", "nn.init.normal_", "nn.utils.clip_grad_norm_",
        "mt.optim.SGD", "mt.optim.lr_scheduler.StepLR", "mt.masks.causal", "mt.linalg.vector_norm",
        "mt.generation.TopKLogitsWarper", "mt.utils.data.DataLoader", "Tensor.reshape", "mt.Tensor",
        "Module.register_forward_hook", "Optimizer.load_state_dict", "mt.no_grad",
    ):  # fmt: skip
        assert name in found, name


@pytest.mark.parametrize("values", [TENSORS, HOSTILE, usual("dim"), usual("params")])
def test_every_argument_can_be_evaluated(values):
    for text in values:
        eval(text, namespace())


def test_a_planted_error_is_a_finding(monkeypatch):
    source = "def planted(x):\n    return x['no']\n"
    space = {}
    exec(compile(source, mt.__file__, "exec"), space)
    monkeypatch.setattr(mt, "planted", space["planted"], raising=False)
    outcome = judge(Program("mt.planted", "r = mt.planted(3)", ("x",)))
    assert outcome.kind == "foreign" and "not subscriptable" in outcome.message
    assert outcome.place == "mt.planted at __init__.py:2 in planted"
    outcome = judge(Program("mt.planted", "r = mt.planted()", ("x",)))
    assert outcome.kind == "signature"


def test_a_planted_error_without_names_is_counted(monkeypatch):
    def planted(x):
        raise mt.errors.ArgumentError("other: that is wrong")

    monkeypatch.setattr(mt, "planted", planted, raising=False)
    outcome = judge(Program("mt.planted", "r = mt.planted(3)", ("x",)))
    assert (outcome.kind, outcome.named, outcome.parameter) == ("own", False, False)


def test_an_error_of_a_callback_belongs_to_the_caller():
    outcome = judge(Program("mt.checkpoint", "r = mt.checkpoint(lambda x: x.no, 3)", ("fn",)))
    assert outcome.kind == "caller"


def test_a_call_that_takes_too_much_memory_or_dies_is_reported(monkeypatch):
    import os

    monkeypatch.setattr(calls, "write", lambda choice, found: Program("mt.x", "mt.x()", ()))
    monkeypatch.setattr(mt, "x", lambda: os._exit(3), raising=False)
    report = calls.fuzz(0, range(2), processes=1)
    assert report.kinds == {"died": 2}
    monkeypatch.setattr(mt, "x", lambda: bytearray(1 << 40), raising=False)
    report = calls.fuzz(0, range(2), processes=1)
    assert report.kinds == {"foreign": 2}
    assert "MemoryError" in "\n".join(report.lines(10))


@pytest.mark.slow
def test_a_call_that_hangs_is_a_finding(monkeypatch):
    monkeypatch.setattr(calls, "write", lambda choice, found: Program("mt.x", "mt.x()", ()))
    monkeypatch.setattr("tools.fuzz.judge._SECONDS", 0.2)

    def hang():
        while True:
            pass

    monkeypatch.setattr(mt, "x", hang, raising=False)
    assert calls.fuzz(0, range(1), processes=1).kinds == {"slow": 1}
    monkeypatch.setattr(calls, "SILENCE", 0.5)
    monkeypatch.setattr(mt, "x", lambda: time.sleep(60), raising=False)  # no processor time
    report = calls.fuzz(0, range(1), processes=1)
    assert report.kinds == {"died": 1} and len(report.findings) == 1


def test_a_program_that_cannot_be_written_ends_the_run(monkeypatch):
    def fail(choice, found):
        raise KeyError("x")

    monkeypatch.setattr(calls, "write", fail)
    with pytest.raises(RuntimeError, match="call 0 could not be generated"):
        calls.fuzz(0, range(2), processes=1)


def test_a_wrong_call_inside_the_package_is_not_a_wrong_signature(monkeypatch):
    source = "def inner(x):\n    pass\ndef planted(x):\n    return inner()\n"
    space = {}
    exec(compile(source, mt.__file__, "exec"), space)
    monkeypatch.setattr(mt, "inner", space["planted"], raising=False)
    program = Program("mt.inner", "r = mt.inner(3)", ("x",))
    assert judge(program).kind == "foreign"


def test_a_tensor_of_objects_is_a_finding(monkeypatch):
    wrong = mt.ones(2)
    wrong.array = wrong.array.astype(object)
    monkeypatch.setattr(mt, "planted", lambda: wrong, raising=False)
    outcome = judge(Program("mt.planted", "r = mt.planted()"))
    assert outcome.kind == "foreign" and "dtype object" in outcome.message


def test_settings_of_one_call_do_not_change_the_next():
    judge(Program("x", "mt.set_printoptions(precision=1); mt.set_default_dtype('float64')"))
    judge(Program("x", "r = mt.ones(2)"))
    assert mt.get_default_dtype() == "float32"
    assert repr(mt.tensor([0.123])) == "tensor([0.123])"


def test_the_command_prints_one_call(capsys):
    assert calls.main(["--seed", "0", "--only", "5"]) == 0
    text, outcome = capsys.readouterr().out.split("\n", 1)
    assert "r = " in text and outcome.startswith("Outcome(kind=")
