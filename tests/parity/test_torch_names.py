"""The stored list of PyTorch's names is that of the installed PyTorch."""

import pytest

from tools import torch_names

pytest.importorskip("torch")
pytestmark = pytest.mark.parity


def test_the_list_is_current():
    version, names = torch_names.stored()
    installed, found = torch_names.collect()
    assert version == installed, "python -m tools.torch_names --list"
    for namespace in torch_names.NAMESPACES:
        assert names[namespace] == found[namespace], "python -m tools.torch_names --list"
