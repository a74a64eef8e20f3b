"""Fixtures: recordings as pages, and a browser that opens them."""

from itertools import count
from types import SimpleNamespace

import pytest
from browsing import visits

import minitorch_attn as mt
from minitorch_attn.tracing.page import page as page_of


@pytest.fixture
def visit(browser, request, tmp_path):
    """visit(html, "#step=3", width=400): the page, opened by file://.

    At the end no page may have asked for anything but its own file, nor complained.
    """
    if request.config.getoption("--device") != "numpy":
        pytest.skip("a page is the same for every device")
    numbers = count()
    with visits(browser) as visit_page:

        def opened(html, address="", **settings):
            path = tmp_path / f"page{next(numbers)}.html"
            path.write_text(html, encoding="utf-8")
            return visit_page(path.as_uri() + address, **settings)

        yield opened


def _as_page(recording):
    document = recording.document()
    return SimpleNamespace(document=document, html=page_of(document))


@pytest.fixture(scope="session")
def head():
    """One attention head with a look-ahead mask, its loss and its gradients."""
    mt.manual_seed(0)
    x = mt.randn(5, 8)
    w_q, w_k, w_out = (mt.randn(8, 8, requires_grad=True) for _ in range(3))
    mask = mt.ones(5, 5).tril().bool()
    with mt.trace(title="One head", labels=list("abc d")) as t:
        query, key = x @ w_q, x @ w_k
        scores = query @ key.transpose(-2, -1) / 8**0.5
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        logits = (x + weights @ x) @ w_out
        mt.nn.functional.cross_entropy(logits, mt.tensor([1, 0, 3, 7, 2])).backward()
    return _as_page(t)


@pytest.fixture(scope="session")
def transformer():
    """Two layers of a GPT, forward and backward: fewer than 300 steps."""
    mt.manual_seed(0)
    model = mt.models.GPT(vocab_size=29, context_length=16, embed_dim=24, num_heads=3, num_layers=2)
    ids = mt.tensor([[1, 2, 2, 5, 6, 2, 8], [3, 4, 5, 6, 7, 8, 9]])
    with mt.trace(title="GPT with two layers", labels=list("atten ")) as t:
        logits = model(ids[:, :-1])
        loss = mt.nn.functional.cross_entropy(logits.reshape(-1, 29), ids[:, 1:].reshape(-1))
        loss.backward()
    return _as_page(t)


@pytest.fixture(scope="session")
def swin():
    """Windows of 4 by 4 on a map of 8 by 8, shifted in every second block: more than 300 steps."""
    mt.manual_seed(0)
    model = mt.models.Swin(
        image_size=8, patch_size=1, in_channels=1, num_classes=10, embed_dim=6, depths=(2, 1),
        num_heads=(1, 2), window_size=4,
    )  # fmt: skip
    images = mt.randn(1, 1, 8, 8)
    with mt.trace(title="Swin") as t:
        mt.nn.functional.cross_entropy(model(images), mt.tensor([3])).backward()
    return _as_page(t)
