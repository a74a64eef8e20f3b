"""Recurrences as a textbook writes them: one sequence, one token and one vector at a time."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rnn_step(x, h, w_ih, w_hh, b_ih=0, b_hh=0, *, nonlinearity="tanh"):
    a = w_ih @ x + b_ih + w_hh @ h + b_hh
    return (np.tanh(a) if nonlinearity == "tanh" else np.where(a > 0, a, 0),)


def lstm_step(x, h, c, w_ih, w_hh, b_ih=0, b_hh=0, w_hr=None):
    i, f, g, o = np.split(w_ih @ x + b_ih + w_hh @ h + b_hh, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return (h if w_hr is None else w_hr @ h), c


def gru_step(x, h, w_ih, w_hh, b_ih=0, b_hh=0):
    a_r, a_z, a_n = np.split(w_ih @ x + b_ih, 3)
    e_r, e_z, e_n = np.split(w_hh @ h + b_hh, 3)
    z = sigmoid(a_z + e_z)
    return ((1 - z) * np.tanh(a_n + sigmoid(a_r + e_r) * e_n) + z * h,)


def read(step, tokens, states, reverse=False):
    """The first state at every token of one sequence, and all states after the last."""
    outputs = [None] * len(tokens)
    for t in reversed(range(len(tokens))) if reverse else range(len(tokens)):
        states = step(tokens[t], *states)
        outputs[t] = states[0]
    return outputs, states


def read_packed(step, x, states, batch_sizes, reverse=False):
    """The same for rows packed step by step: all outputs, then the last states."""
    starts = np.cumsum([0, *batch_sizes])
    output, last = [None] * len(x), []
    for b in range(batch_sizes[0]):
        rows = [starts[t] + b for t, n in enumerate(batch_sizes) if b < n]
        outputs, final = read(step, x[rows], [s[b] for s in states], reverse)
        for row, h in zip(rows, outputs, strict=True):
            output[row] = h
        last.append(final)
    return (np.stack(output), *(np.stack(each) for each in zip(*last, strict=True)))
