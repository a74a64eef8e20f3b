"""A name of PyTorch that is missing here: the error says so, and an unknown name is not one."""

import pytest

import minitorch_attn as mt
from minitorch_attn import absent_names
from minitorch_attn.errors import MissingNameError


@pytest.mark.parametrize(
    ("owner", "name"),
    [(mt, "det"), (mt, "func"), (mt, "distributions"), (mt.nn, "GaussianNLLLoss"),
     (mt.nn.init, "dirac_"), (mt.nn.functional, "gaussian_nll_loss"),
     (mt.nn.utils, "spectral_norm"), (mt.nn.utils, "prune"), (mt.optim, "Adamax"),
     (mt.optim, "swa_utils"), (mt.autograd, "functional"),
     (mt.utils, "tensorboard"), (mt.utils.data, "StackDataset"), (mt.linalg, "svd"),
     (mt.fft, "hfft")],
)  # fmt: skip
def test_a_name_of_pytorch_is_said_to_be_missing(owner, name):
    with pytest.raises(MissingNameError, match=f"{name}: PyTorch has this name, and this") as e:
        getattr(owner, name)
    assert isinstance(e.value, AttributeError) and not hasattr(owner, name)
    assert "docs/coming_from_pytorch.md" in e.value.hint


@pytest.mark.parametrize("owner", [mt, mt.nn, mt.nn.functional, mt.optim, mt.autograd])
def test_other_names_keep_pythons_error(owner):
    with pytest.raises(AttributeError, match="module 'minitorch_attn.* has no attribute 'dett'"):
        owner.dett  # noqa: B018


def test_the_missing_modules_are_missing():
    for path in absent_names.MODULES:
        parent, _, name = path.removeprefix("torch.").rpartition(".")
        owner = mt
        for part in filter(None, parent.split(".")):
            owner = getattr(owner, part)
        assert not hasattr(owner, name), path
