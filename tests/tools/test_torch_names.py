"""The page for users of PyTorch lists the names that are missing, and no others."""

import re

import pytest

import minitorch_attn as mt
from tools import torch_names


def test_the_page_is_current():
    again = "docs/coming_from_pytorch.md is old: python -m tools.torch_names"
    assert torch_names.PAGE.read_text(encoding="utf-8") == torch_names.page(), again


def test_the_list_is_read_as_it_is_written():
    version, names = torch_names.stored()
    text = torch_names.LIST.read_text(encoding="utf-8")
    assert torch_names.as_list(version, names) == text
    assert list(names) == list(torch_names.NAMESPACES)
    assert {"matmul", "set_default_dtype"} <= set(names["torch"])
    assert {"T", "normal_", "softmax"} <= set(names["torch.Tensor"])
    assert not {"ger", "sym_int", "slice_copy"} & set(names["torch"])


@pytest.mark.parametrize("count", [3, 60])
def test_every_missing_name_is_shown_once(count):
    missing = ["conj", "det", *(f"name{number}" for number in range(count))]
    names = {"torch": ["matmul", *missing], "torch.optim": ["SGD"], "torch.fft": ["hfft"]}
    text = torch_names.tables("9.9", names)
    shown, fft = text.split("<details>")[1:]
    assert sorted(re.findall(r"`(\w+)`", shown)) == sorted(missing)
    assert f"| `torch` | tensors and operations | 1 of {len(missing) + 1} |" in text
    assert "| `torch.optim` | optimizers | 1 of 1 |" in text and "`hfft`" in fft
    assert ("complex numbers: `conj`" in shown) == (count > 50)


def test_a_new_name_makes_the_page_old(monkeypatch):
    before = torch_names.page()
    monkeypatch.setattr(mt.Tensor, "sparse_mask", None, raising=False)
    after = torch_names.page()
    assert "`sparse_mask`" in before and "`sparse_mask`" not in after


def test_the_rest_of_the_page_stays(tmp_path, monkeypatch):
    new = tmp_path / "page.md"
    new.write_text(f"before\n{torch_names.START}\nold\n{torch_names.END}\nafter\n")
    monkeypatch.setattr(torch_names, "PAGE", new)
    monkeypatch.setattr("sys.argv", ["torch_names"])
    torch_names.main()
    text = new.read_text(encoding="utf-8")
    assert text.startswith("before\n<!--") and text.endswith("-->\nafter\n")
    assert "old" not in text.split("\n") and "<details>" in text
