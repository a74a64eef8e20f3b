"""Compare a model with its reference: same folder, same inputs; outputs and gradients."""

import json

import numpy as np
import torch
from safetensors.torch import save_file

import minitorch_attn as mt
from minitorch_attn.serialization import read_safetensors

TOLERANCE = 1e-9  # of the largest entry of an array, in float64
GRADIENT_FLOOR = 1e-6  # gradients below this share of the largest one are round-off


def randomise(peer, seed, scale=0.3):
    """Every parameter at random, norms and biases too, so that none can be left out unnoticed."""
    generator = torch.Generator().manual_seed(seed)
    peer.double().eval()
    with torch.no_grad():
        for name, p in peer.named_parameters():
            noise = torch.randn(p.shape, generator=generator, dtype=p.dtype) * scale
            p.copy_(noise + 1 if "norm" in name.lower() and name.endswith("weight") else noise)
            p.requires_grad_(True)
    return peer


def opened(peer, folder, **config):
    """Our model from the folder that the peer writes; fields of `config` are added to its file."""
    if hasattr(peer, "save_pretrained"):
        peer.save_pretrained(folder)
    else:  # timm
        save_file({k: v.contiguous() for k, v in peer.state_dict().items()},
                  str(folder / "model.safetensors"))  # fmt: skip
        (folder / "config.json").write_text("{}")
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    return mt.models.from_pretrained(folder)


def compare(peer, ours, inputs, names=None, tolerance=TOLERANCE, call=None, **flags):
    """Run both on the same inputs; compare outputs, then all gradients of a random projection.

    Parameters
    ----------
    peer, ours : models
    inputs : dict of ndarray
        Floats get a gradient, which is compared too.
    names : list of str, optional
        Which outputs; by default all that the peer returns, tuples entry by entry.
    call : callable, optional
        `call(model, **inputs, **flags)`, by default the model itself.
    **flags
        Settings of both calls.

    Returns
    -------
    int
        How many arrays were compared.
    """
    call = call or (lambda model, **kwargs: model(**kwargs))
    theirs_in = {k: torch.tensor(v, requires_grad=v.dtype.kind == "f") for k, v in inputs.items()}
    ours_in = {k: mt.tensor(v, requires_grad=v.dtype.kind == "f") for k, v in inputs.items()}
    theirs = flattened(call(peer, **theirs_in, **flags), names)
    mine = flattened(call(ours, **ours_in, **flags), names)
    assert set(theirs) <= set(mine), f"missing outputs: {sorted(set(theirs) - set(mine))}"
    count = 0
    rng = np.random.default_rng(0)
    loss_theirs, loss_mine = 0, 0
    for name, expected in theirs.items():
        got = mine[name]
        check(name, got.numpy(), expected.detach().numpy(), tolerance)
        count += 1
        if expected.requires_grad:
            weight = rng.normal(size=tuple(expected.shape))
            loss_theirs = loss_theirs + (expected * torch.tensor(weight)).sum()
            loss_mine = loss_mine + (got * mt.tensor(weight)).sum()
    peer.zero_grad()
    ours.zero_grad()
    loss_theirs.backward()
    loss_mine.backward()
    return count + compare_gradients(peer, ours, theirs_in, ours_in, tolerance)


def timm_outputs(model, x):
    """What a timm model returns, in one call and by its parts."""
    features = model.forward_features(x)
    return {
        "features": features,
        "pooled": model.forward_head(features, pre_logits=True),
        "logits": model.forward_head(features),
        "whole": model(x),
    }


def check_same_tensors(first, second):
    """Both folders have the same tensors, bit by bit, under the same names."""
    _, expected = read_safetensors(first / "model.safetensors")
    _, found = read_safetensors(second / "model.safetensors")
    assert set(expected) == set(found)
    for key, value in expected.items():
        assert value.dtype == found[key].dtype, key
        np.testing.assert_array_equal(found[key], value, err_msg=key)


def flattened(outputs, names=None):
    """name -> tensor, the entries of tuples as name.0, name.1 ..."""
    if not hasattr(outputs, "items"):
        outputs = {"output": outputs}
    flat = {}
    for name, value in outputs.items():
        if names is not None and name not in names:
            continue
        if isinstance(value, (tuple, list)):
            flat.update((f"{name}.{i}", v) for i, v in enumerate(value) if hasattr(v, "shape"))
        elif hasattr(value, "shape"):
            flat[name] = value
    return flat


def compare_gradients(peer, ours, theirs_in, ours_in, tolerance):
    """Of every parameter, under the peer's names, and of every input that has one."""
    own = ours._own_tensors()
    grads = {k: np.zeros(t.shape) if t.grad is None else t.grad.numpy() for k, t in own.items()}
    mine = ours.names().to_stored(grads)
    aliases = ours.tied()
    theirs = {
        name: np.zeros(tuple(p.shape)) if p.grad is None else p.grad.numpy()
        for name, p in peer.named_parameters()
    }
    largest = max(np.abs(g).max(initial=0) for g in theirs.values())
    for name, expected in theirs.items():
        primary = name if name in mine else aliases.get(name, name)
        if primary not in mine:  # the peer may list a tied parameter under the alias
            primary = next(a for a, p in aliases.items() if p == name)
        check(f"gradient of {name}", mine[primary], expected, tolerance, largest * GRADIENT_FLOOR)
    for name, tensor in theirs_in.items():
        if tensor.grad is not None:
            got = ours_in[name].grad.numpy()
            check(f"gradient of {name}", got, tensor.grad.numpy(), tolerance)
    return len(theirs)


def check(name, got, expected, tolerance, floor=1e-12):
    """Equal shapes, and a difference that is small beside the largest entry."""
    assert got.shape == expected.shape, f"{name}: {got.shape}, the peer has {expected.shape}"
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected, err_msg=name)
        return
    assert str(got.dtype) == str(expected.dtype), f"{name}: {got.dtype} for {expected.dtype}"
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(got), finite, err_msg=name)
    error = np.abs(got[finite] - expected[finite]).max(initial=0)
    scale = max(np.abs(expected[finite]).max(initial=0), floor)
    assert error <= tolerance * scale, f"{name}: off by {error:.3g}, largest entry {scale:.3g}"
