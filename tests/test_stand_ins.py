"""Stand-ins for PyTorch's compiler and settings: they exist and change nothing."""

import subprocess
import sys

import numpy as np
import pytest

import minitorch_attn as mt
from minitorch_attn.errors import ArgumentError
from minitorch_attn.nn.attention import SDPBackend, sdpa_kernel

PROGRAM = """
import minitorch_attn as torch
import minitorch_attn.backends.cudnn as cudnn
from minitorch_attn.jit import Final

cudnn.benchmark = torch.backends.cudnn.deterministic = True
torch.backends.cuda.matmul.allow_tf32 = True
torch.set_float32_matmul_precision("high")
torch.use_deterministic_algorithms(True, warn_only=True)
device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else ""

class Scale(torch.nn.Module):
    factor: Final[int]

    def __init__(self):
        super().__init__()
        self.factor = 3

    @torch.jit.ignore
    @torch.compile
    @torch.compile(mode="max-autotune")
    def forward(self, x):
        return self.factor * x

scale = torch.jit.script(torch.compile(Scale()))
with cudnn.flags(enabled=False):
    print(scale(torch.ones(2)), cudnn.benchmark)
"""


def test_a_program_with_every_stand_in_runs():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("tensor([3., 3.]) True\n", "")


def test_sdpa_kernel_changes_nothing(make):
    query = make(2, 3, 5, 7)
    attend = mt.nn.functional.scaled_dot_product_attention
    expected = attend(query, query, query).detach().numpy()
    for backends in (SDPBackend.MATH, [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        with sdpa_kernel(backends):
            got = attend(query, query, query).detach().numpy()
        np.testing.assert_array_equal(got, expected)


def test_an_unknown_precision_is_refused():
    with pytest.raises(ArgumentError, match="precision is not supported"):
        mt.set_float32_matmul_precision("higher")


def test_the_precision_of_products_allows_tf32():
    settings = mt.backends.cuda.matmul
    try:
        mt.set_float32_matmul_precision("medium")
        assert settings.allow_tf32 and mt.get_float32_matmul_precision() == "medium"
        settings.allow_tf32 = False
        assert mt.get_float32_matmul_precision() == "highest"
        settings.allow_tf32 = True
        assert mt.get_float32_matmul_precision() == "high"
    finally:
        mt.set_float32_matmul_precision("highest")
    assert not settings.allow_tf32


@pytest.mark.parametrize("works", [True, False])
def test_a_seed_for_cuda_counts_where_cuda_works(monkeypatch, works):
    monkeypatch.setattr(mt.cuda, "is_available", lambda: works)
    mt.manual_seed(3)
    first = mt.rand(2).numpy()
    mt.cuda.manual_seed_all(3)
    assert np.array_equal(mt.rand(2).numpy(), first) == works
