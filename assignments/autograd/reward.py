"""The reward: your engine trains a network on two spirals, then a GPT (about 30 seconds)."""

import sys

import numpy as np
from training import learn_to_write, run

import minitorch_attn as mt

POINTS, ROWS, COLUMNS, EDGE = 120, 17, 37, 1.1
SHOWN = (1, 60, 800)


def spirals():
    """Return points on two intertwined spirals, and the spiral (0 or 1) of each point."""
    along = np.linspace(0.12, 1, POINTS)
    turn = 2.9 * np.pi * along
    arm = np.stack([along * np.cos(turn), along * np.sin(turn)], axis=1)
    return np.concatenate([arm, -arm]).astype("float32"), np.repeat([0, 1], POINTS)


def view(model, points, kinds):
    """Return a text plot: the points as o and x, and dots where the network predicts x."""
    x, y = np.meshgrid(np.linspace(-EDGE, EDGE, COLUMNS), np.linspace(EDGE, -EDGE, ROWS))
    plane = np.stack([x.ravel(), y.ravel()], axis=1).astype("float32")
    with mt.no_grad():
        says = model(mt.tensor(plane)).argmax(-1).numpy().reshape(x.shape)
    cells = np.where(says == 1, ".", " ")
    column = np.round((points[:, 0] + EDGE) / (2 * EDGE) * (COLUMNS - 1)).astype(int)
    row = np.round((EDGE - points[:, 1]) / (2 * EDGE) * (ROWS - 1)).astype(int)
    cells[row, column] = np.where(kinds == 1, "x", "o")
    return ["".join(line) for line in cells]


def two_spirals():
    """Train a three-layer network and show its predictions. Return whether it has learned."""
    mt.manual_seed(0)
    points, kinds = spirals()
    linear, tanh = mt.nn.Linear, mt.nn.Tanh
    model = mt.nn.Sequential(linear(2, 32), tanh(), linear(32, 32), tanh(), linear(32, 2))
    optimizer = mt.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    print("A network learns to separate two spirals, o and x. Dots show where it predicts x.\n")
    for step in range(1, SHOWN[-1] + 1):
        logits = model(mt.tensor(points))  # (point, kind)
        loss = mt.nn.functional.cross_entropy(logits, mt.tensor(kinds))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in SHOWN:
            right = (logits.argmax(-1).numpy() == kinds).mean()
            print(f"step {step}, {right:.0%} of the points are classified correctly")
            print("\n".join("    " + line.rstrip() for line in view(model, points, kinds)) + "\n")
    return right > 0.95


def main():
    """Train on the spirals, then train a GPT."""
    if not two_spirals():
        return 1
    print("Now your engine computes every gradient of a GPT.\n")
    return learn_to_write(steps=1000)


if __name__ == "__main__":
    sys.exit(run(main))
