"""Declarations of what a function computes, and how building an assignment uses them."""

import ast
import shutil

import pytest

from minitorch_attn.errors import DataError
from minitorch_attn.grader.build import assignment as reading
from minitorch_attn.grader.build import leaks as leaking
from minitorch_attn.grader.build import package as packing
from minitorch_attn.grader.build.assignment import assignments, find_assignment, package_root
from minitorch_attn.grader.build.blank import Target, blank, functions
from minitorch_attn.grader.build.declared import alike, declarations

NEW = '''"""A new fused attention."""

from ...autograd.function import Function
from ...computes import computes


@computes("attention", reveals=("softmax",))
class QuickAttention(Function):
    """A new kernel."""

    @staticmethod
    def forward(ctx, query, key, value, mask):
        return _quick(query, key) @ value

    @staticmethod
    def backward(ctx, grad_context):
        return grad_context * 3, None, None, None


@computes("attention")
def _quick(query, key):
    return query @ key


def helper(query):
    return query * 7
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package with a new fused op, from which assignments are built."""
    shutil.copytree(
        package_root() / "minitorch_attn", tmp_path / "minitorch_attn",
        ignore=shutil.ignore_patterns("__pycache__", "web"),
    )  # fmt: skip
    (tmp_path / "minitorch_attn/ops/attention/quick.py").write_text(NEW)
    for module in (reading, packing, leaking):
        monkeypatch.setattr(module, "package_root", lambda: tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["attention", "softmax"])
def test_a_new_fused_op_that_declares_itself_is_taken_out(package, name):
    text = packing.changed_files(find_assignment(name))["minitorch_attn/ops/attention/quick.py"]
    for function in ("QuickAttention.forward", "QuickAttention.backward"):
        assert f'raise NotYetWritten("{function}")' in text
    assert ('raise NotYetWritten("_quick")' in text) == (name == "attention")
    assert "grad_context * 3" not in text and "query * 7" in text


def test_a_new_fused_op_stays_where_something_else_is_written(package):
    assert "minitorch_attn/ops/attention/quick.py" not in packing.changed_files(
        find_assignment("vit")
    )


@pytest.mark.parametrize("made", assignments(), ids=lambda made: made.name)
def test_all_that_is_declared_alike_is_taken_out(made, tmp_path):
    packing.write_package(made, tmp_path)
    bodies = {group.target: group.body for group in made.groups}
    for target in alike({entry.target for entry in made.blanks}, package_root()):
        source = (tmp_path / target.path).read_text()
        body = ast.unparse(functions(source)[target.name])
        if bodies[target] is None:
            assert f"raise NotYetWritten('{target.name}')" in body
        else:
            whole = (package_root() / target.path).read_text()
            expected = blank(whole, target.module, {target.name: bodies[target]})
            assert body == ast.unparse(functions(expected)[target.name])


def test_every_fused_op_declares_what_it_computes():
    """Without its declaration a fused op would stay in an assignment as the answer."""
    declared = {str(entry.target) for entry in declarations(package_root())}
    fused = []
    for path in sorted((package_root() / "minitorch_attn/ops").rglob("*.py")):
        module = ".".join(path.relative_to(package_root()).with_suffix("").parts)
        known = functions(path.read_text())
        classes = {n.rpartition(".")[0] for n in known if n.endswith(".composed")}
        fused += [f"{module}:{name}.{m}" for name in classes for m in ("forward", "backward")]
    assert len(fused) > 10
    assert [name for name in fused if name not in declared] == []


def test_declarations_of_methods_and_classes(tmp_path):
    folder = tmp_path / "minitorch_attn"
    folder.mkdir()
    (folder / "a.py").write_text(
        '@computes("x")\nclass A:\n    def f(self): ...\n\n    @computes("y", reveals=("z",))\n'
        '    def g(self): ...\n\n\n@computes("z")\ndef h(): ...\n\n\ndef k(): ...\n'
    )
    found = {entry.target.name: (entry.computes, entry.reveals) for entry in declarations(tmp_path)}
    assert found == {"A.f": (("x",), ()), "A.g": (("y",), ("z",)), "h": (("z",), ())}
    written = {Target("minitorch_attn.a", "h")}
    assert alike(written, tmp_path) == {Target("minitorch_attn.a", "A.g"): "z"}
    assert alike({Target("minitorch_attn.a", "A.g")}, tmp_path) == {}


def test_a_declaration_that_cannot_be_read_is_refused(tmp_path):
    folder = tmp_path / "minitorch_attn"
    folder.mkdir()
    (folder / "a.py").write_text("@computes(NAME)\ndef f(): ...\n")
    with pytest.raises(DataError, match="must be literal strings"):
        declarations(tmp_path)


def test_a_group_that_a_declaration_makes_superfluous_is_refused(change):
    with pytest.raises(DataError, match="is not needed"):
        change('function = "minitorch_attn.ops.softmax:MaskedSoftmax.backward"',
               'function = "minitorch_attn.ops.softmax:LogSumExp.backward"')  # fmt: skip
