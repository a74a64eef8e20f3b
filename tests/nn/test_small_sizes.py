"""Recurrent layers at every small size, in both precisions, against a definition in float64.

A wrong loop of the array library shows only for some strides, which small sizes reach.
"""

import itertools

import numpy as np
import pytest
from recurrence import gru_step, lstm_step, read, rnn_step

import minitorch_attn as mt

STEPS = {"RNN": rnn_step, "LSTM": lstm_step, "GRU": gru_step}
RTOL = {"float32": 2e-4, "float64": 1e-9}


def definition(name, layer, x):
    """Outputs (token, batch, hidden), one sequence, one token and one vector at a time."""
    w_ih, w_hh, b_ih, b_hh = (p.numpy().astype("float64") for p in layer.parameters())
    states = [np.zeros(layer.hidden_size)] * (2 if name == "LSTM" else 1)

    def step(token, *states):
        return STEPS[name](token, *states, w_ih, w_hh, b_ih, b_hh)

    return np.stack([np.stack(read(step, row, states)[0]) for row in x.swapaxes(0, 1)], axis=1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", STEPS)
def test_values_and_gradients_at_every_small_size(name, dtype, device):
    rng = np.random.default_rng(3)
    for tokens, batch, size, hidden in itertools.product((1, 2, 3), (1, 2, 4), (1, 2), range(1, 9)):
        layer = getattr(mt.nn, name)(size, hidden).to(device=device, dtype=dtype)
        x = rng.normal(size=(tokens, batch, size)).astype(dtype)
        leaf = mt.tensor(x, device=device, requires_grad=True)
        y = layer(leaf)[0]
        error = f"{name} tokens={tokens} batch={batch} input={size} hidden={hidden}"
        expected = definition(name, layer, x.astype("float64"))
        np.testing.assert_allclose(y.numpy(), expected, RTOL[dtype], RTOL[dtype], err_msg=error)
        cotangent = rng.normal(size=y.shape).astype(dtype)
        y.backward(mt.tensor(cotangent, device=device))
        along = rng.normal(size=x.shape)
        ends = [definition(name, layer, x.astype("float64") + h * along) for h in (1e-5, -1e-5)]
        slope = ((ends[0] - ends[1]) / 2e-5 * cotangent).sum()
        found = (leaf.grad.numpy().astype("float64") * along).sum()
        scale = np.abs(leaf.grad.numpy() * along).sum()
        assert abs(found - slope) <= max(RTOL[dtype], 1e-6) * max(scale, 1e-3), error
