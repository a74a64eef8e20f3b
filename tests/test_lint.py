"""Lint rules for the package's syntax trees; each rule finds planted violations."""

import ast
import functools
from pathlib import Path

import lint_rules
import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / lint_rules.PACKAGE).rglob("*.py"))


@functools.cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def complaints(rule, folders=None, without=(), **kwargs):
    """What `rule` finds in the files of the package, in `folders` of it or outside `without`."""
    found = []
    for path in FILES:
        module = lint_rules.module_name(path, ROOT)
        top = module.split(".")[1]
        if (folders is None or top in folders) and top not in without:
            tree = parsed(path)
            arguments = (tree, module) if rule is lint_rules.upward_imports else (tree,)
            found += [f"{path.relative_to(ROOT)} {text}" for text in rule(*arguments)]
    return found


def test_there_is_something_to_check():
    assert len(FILES) > 5


def test_imports_go_down_the_floors():
    assert complaints(lint_rules.upward_imports) == []


def test_ops_layers_and_models_leave_the_array_library_to_the_backend():
    assert complaints(lint_rules.array_library_uses, folders=("ops", "nn", "models")) == []


def test_only_the_backend_imports_cupy():
    assert complaints(lint_rules.cupy_imports, without=("backend",)) == []


def test_no_pickle():
    assert complaints(lint_rules.pickle_uses) == []


def test_no_asserts():
    assert complaints(lint_rules.asserts) == []


def test_no_negative_in_place():
    assert complaints(lint_rules.negatives_in_place) == []


def test_backward_stands_under_forward():
    assert complaints(lint_rules.function_layout) == []


def test_backward_uses_what_arrays_and_tensors_share():
    assert complaints(lint_rules.backward_vocabulary) == []


FUNCTION = '''
class Square(Function):
    """y = x^2."""

    @staticmethod
    def forward(ctx, x):
        ctx.save(x)
        {forward}
        return x * x

    @staticmethod
    def backward(ctx, grad_y):
        (x,) = ctx.saved
        (mask,) = ctx.constant
        {backward}
        return grad_y * 2 * x
'''


def vocabulary(backward, forward="pass", more=""):
    source = FUNCTION.format(forward=forward, backward=backward) + more
    return list(lint_rules.backward_vocabulary(ast.parse(source)))


@pytest.mark.parametrize(
    "line",
    [
        "xp = array_module(x)",
        "return xp.exp(x)",
        "return np.exp(x)",
        "grad_y *= 2",
        "grad_y[0] = 0",
        "return x.max(axis=0)",
        "return x.transpose(0, 1)",
        "return x.sum(0)",
        "return x.sum(axis=0, dtype=x.dtype)",
        "return ctx.saved[0].copy()",
        "return (x * x).astype(x.dtype)",
        "return x.T",
        "return helper(x)",
    ],
)
def test_a_line_that_only_arrays_understand_is_found(line):
    helper = "\ndef helper(x):\n    return x.clip(0, 1)\n"
    assert vocabulary(line, more=helper)
    assert not vocabulary(line, forward="ctx.save_intermediate(x)", more=helper)  # fused: free


@pytest.mark.parametrize(
    "line",
    [
        "return sum_to_shape(grad_y, ctx.shapes[0])",
        "return Cos.call(x) * grad_y",
        "return grad_y.sum(axis=ctx.dim, keepdims=True).reshape(x.shape).swapaxes(-1, -2)",
        "return grad_y * mask.astype(x.dtype)",
        "return grad_y / math.sqrt(x.shape[-1])",
        "sizes = [0] * 3; sizes[0] = 2; count = 1; count *= 2",
        "return helper(x)",
    ],
)
def test_the_common_vocabulary_is_allowed(line):
    assert vocabulary(line, more="\ndef helper(x):\n    return x[..., None] * 2\n") == []


def test_a_helper_may_ask_which_of_the_two_it_has():
    helper = "\ndef helper(x):\n    return x.clamp(0) if isinstance(x, Tensor) else x.clip(0)\n"
    assert vocabulary("return helper(x)", more=helper) == []


@pytest.mark.parametrize(
    ("module", "line", "good"),
    [
        ("ops.softmax", "from minitorch_attn.nn import Module", False),
        ("ops.softmax", "from ..nn.module import Module", False),
        ("ops.softmax", "from minitorch_attn import softmax", False),
        ("ops.softmax", "import minitorch_attn as mt", False),
        ("ops.softmax", "def f():\n    from ..training import loop", False),
        ("backend.gemm", "from ..tensor import Tensor", False),
        ("tensor", "from .nn import Module", False),
        ("autograd.__init__", "from .. import nn", False),
        ("unheard_of", "import math", False),
        ("ops.softmax", "from ..backend import array_module", True),
        ("ops.softmax", "from . import reduce", True),
        ("ops.__init__", "from .softmax import softmax", True),
        ("tensor", "from . import ops", True),
        ("nn.attention", "from minitorch_attn.ops import softmax", True),
        ("cli.__init__", "from ..viz import figure", True),
        ("cli.app", "from minitorch_attn import __version__", True),
    ],
)
def test_upward_imports_are_found(module, line, good):
    found = list(lint_rules.upward_imports(ast.parse(line), f"minitorch_attn.{module}"))
    assert (found == []) is good


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (lint_rules.array_library_uses, "import numpy as np"),
        (lint_rules.array_library_uses, "from numpy import exp"),
        (lint_rules.array_library_uses, "def f(x):\n    return np.exp(x)"),
        (lint_rules.cupy_imports, "def f():\n    import cupy.cuda"),
        (lint_rules.pickle_uses, "import pickle"),
        (lint_rules.pickle_uses, "from pickle import loads"),
        (lint_rules.pickle_uses, "np.load(path, allow_pickle=True)"),
        (lint_rules.asserts, "assert x"),
        (lint_rules.negatives_in_place, "xp.negative(x, out=x)"),
        (lint_rules.negatives_in_place, "np.negative(x, y)"),
        (
            lint_rules.function_layout,
            FUNCTION.format(forward="ctx.save_intermediate(x)", backward="pass"),
        ),
    ],
)
def test_each_rule_bites(rule, source):
    assert list(rule(ast.parse(source)))
