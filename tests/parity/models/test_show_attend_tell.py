"""Show, attend and tell against PyTorch's LSTMCell and a distribution: outputs, all gradients."""

import numpy as np
import pytest
import torch

import minitorch_attn as mt
from minitorch_attn.models.show_attend_tell import (
    ShowAttendTell,
    caption_log_p,
    caption_loss,
    reinforce_loss,
)

pytestmark = pytest.mark.parity
TOLERANCE = 1e-9


class Peer:
    """The same model around `torch.nn.LSTMCell`, on the parameters of ours."""

    def __init__(self, model):
        self.p = {
            name: torch.tensor(p.detach().numpy(), requires_grad=True)
            for name, p in model.named_parameters()
        }
        self.cell = torch.nn.LSTMCell(model.cell.input_size, model.cell.hidden_size).double()

    def linear(self, name, x):
        return torch.nn.functional.linear(x, self.p[f"{name}.weight"], self.p.get(f"{name}.bias"))

    def __call__(self, annotations, words, samples=None):
        """Return logits, alphas, and the log probability and entropy of the samples."""
        mean = annotations.mean(1)
        state = tuple(torch.tanh(self.linear(f"init_{s}", mean)) for s in "hc")
        mine = {n: self.p[f"cell.{n}"] for n, _ in self.cell.named_parameters()}
        found, rows = [], torch.arange(len(words))
        for t in range(words.shape[1]):
            h = state[0]
            inner = self.linear("attention.W_a", annotations)
            inner = inner + self.linear("attention.W_h", h)[:, None]
            scores = self.linear("attention.v", torch.tanh(inner))[..., 0]
            choice = torch.distributions.Categorical(logits=scores)
            if samples is None:
                log_p_s, context = None, torch.einsum("bl,bld->bd", choice.probs, annotations)
            else:
                context = annotations[rows, samples[:, t]]
                log_p_s = choice.log_prob(samples[:, t])
            context = torch.sigmoid(self.linear("attention.f_beta", h)) * context
            e_y = self.p["embedding.weight"][words[:, t]]
            x = torch.cat([e_y, context], 1)
            state = torch.func.functional_call(self.cell, mine, (x, state))
            deep = e_y + self.linear("L_h", state[0]) + self.linear("L_z", context)
            found.append((self.linear("L_o", deep), choice.probs, log_p_s, choice.entropy()))
        return [None if part[0] is None else torch.stack(part, 1)
                for part in zip(*found, strict=True)]  # fmt: skip


def drawn(rng, device):
    """A model of drawn sizes, its peer, annotations, words and targets for both."""
    vocab, *sizes = (int(n) for n in rng.integers(2, 8, 5))
    batch, length, words = (int(n) for n in rng.integers(1, 6, 3))
    model = ShowAttendTell(vocab, *sizes).double().to(device)
    for p in model.parameters():
        p.data = mt.tensor(rng.uniform(-0.9, 0.9, p.shape), device=device)
    values = rng.uniform(-1, 1, (batch, length, sizes[0]))
    ids = rng.integers(0, vocab, (batch, words + 1))
    samples = rng.integers(0, length, (batch, words))
    ours = mt.tensor(values, requires_grad=True, device=device)
    theirs = torch.tensor(values, requires_grad=True)
    return model, Peer(model), (ours, theirs), ids, samples


def same(got, wanted, message=""):
    np.testing.assert_allclose(
        got.detach().numpy(), wanted.detach().numpy(), TOLERANCE, TOLERANCE, err_msg=message
    )


def same_gradients(model, peer, ours, theirs):
    same(ours.grad, theirs.grad)
    for name, p in model.named_parameters():
        wanted = peer.p[name].grad
        wanted = np.zeros(p.shape) if wanted is None else wanted.numpy()
        have = np.zeros(p.shape) if p.grad is None else p.grad.numpy()
        np.testing.assert_allclose(have, wanted, TOLERANCE, TOLERANCE, err_msg=name)


@pytest.mark.parametrize("case", range(12))
def test_soft_attention(case, device):
    model, peer, (ours, theirs), ids, _ = drawn(np.random.default_rng(case), device)
    words, targets = (mt.tensor(x, device=device) for x in (ids[:, :-1], ids[:, 1:]))
    logits, alphas = model(ours, words)
    wanted, weights, _, _ = peer(theirs, torch.tensor(ids[:, :-1]))
    same(logits, wanted)
    same(alphas, weights)
    loss = caption_loss(logits, targets, alphas, penalty=0.7, ignore_index=1)
    right = torch.tensor(ids[:, 1:])
    each = torch.nn.functional.cross_entropy(
        wanted.swapaxes(1, 2), right, ignore_index=1, reduction="none"
    )
    read = (weights * (right != 1)[..., None]).sum(1)
    total = each.sum(1) + 0.7 * ((1 - read) ** 2).sum(1)
    same(loss, total.mean())
    loss.backward()
    total.mean().backward()
    same_gradients(model, peer, ours, theirs)


@pytest.mark.parametrize("case", range(12))
def test_hard_attention(case, device):
    """The surrogate loss of REINFORCE, with the log probabilities of PyTorch's Categorical."""
    model, peer, (ours, theirs), ids, samples = drawn(np.random.default_rng(case), device)
    words, targets = (mt.tensor(x, device=device) for x in (ids[:, :-1], ids[:, 1:]))
    chosen = mt.tensor(samples[None], device=device)
    found = model.sample(ours, words, samples=chosen)
    wanted, weights, log_p_s, entropy = peer(
        theirs, torch.tensor(ids[:, :-1]), torch.tensor(samples)
    )
    same(found.logits[0], wanted)
    same(found.alphas[0], weights)
    same(found.entropy[0], entropy)
    log_p_y = caption_log_p(found.logits[0], targets).sum(-1)
    loss = reinforce_loss(
        log_p_y, found.log_p_s[0].sum(-1), found.entropy[0].sum(-1), -3.0, 0.6, 0.2
    )
    right = -torch.nn.functional.cross_entropy(
        wanted.swapaxes(1, 2), torch.tensor(ids[:, 1:]), reduction="none"
    ).sum(1)
    objective = right + 0.6 * (right.detach() + 3.0) * log_p_s.sum(1) + 0.2 * entropy.sum(1)
    same(loss, -objective.mean())
    loss.backward()
    (-objective.mean()).backward()
    same_gradients(model, peer, ours, theirs)
