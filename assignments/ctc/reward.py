"""The reward: a network learns to read spoken numbers without knowing when a digit is said."""

import sys
import time

import numpy as np
from training import run

import minitorch_attn as mt
from minitorch_attn.data.audio import log_mel_spectrogram
from minitorch_attn.data.spoken_digits import SAMPLE_RATE, draw_speakers, draw_utterances

BANDS, HOP, STACK = 20, 160, 2  # mel bands, samples between frames, frames in one time step
STEPS, BATCH, WIDTH, RATE = 250, 32, 64, 4e-3


class Reader(mt.nn.Module):
    """Recognizer that reads the sound in both directions and predicts a digit or blank per step."""

    def __init__(self):
        super().__init__()
        self.input = mt.nn.Linear(BANDS * STACK, WIDTH)
        self.rnn = mt.nn.GRU(WIDTH, WIDTH, bidirectional=True)
        self.output = mt.nn.Linear(2 * WIDTH, 11)  # 0 is the blank, d + 1 is the digit d

    def forward(self, x):
        """Return log-probabilities (time, batch, class) of sounds (time, batch, feature)."""
        return self.output(self.rnn(self.input(x).relu())[0]).log_softmax(-1)


def features(utterance):
    """Return the log-mel spectrogram with `STACK` frames side by side, (time, feature)."""
    mel = log_mel_spectrogram(utterance.waveform, SAMPLE_RATE, BANDS, 256, HOP, floor=1e-6)
    mel = (mel - mel.mean()) / mel.std()
    return mel[: len(mel) // STACK * STACK].reshape(-1, BANDS * STACK)


def batch(utterances):
    """Return padded sounds, their lengths, padded labels, and their lengths."""
    sounds = [features(u) for u in utterances]
    lengths, counts = [len(s) for s in sounds], [len(u.digits) for u in utterances]
    x = np.zeros((max(lengths), len(sounds), BANDS * STACK), np.float32)
    labels = np.zeros((len(sounds), max(counts)), np.int64)
    for i, (sound, u) in enumerate(zip(sounds, utterances, strict=True)):
        x[: len(sound), i] = sound
        labels[i, : len(u.digits)] = u.digits + 1
    return mt.tensor(x), tuple(lengths), mt.tensor(labels), tuple(counts)


def edits(found, wanted):
    """Return the edit distance: how many digits to insert, delete or replace in `found`."""
    row = list(range(len(wanted) + 1))
    for i, a in enumerate(found, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(wanted, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def error_rate(model, test, wanted, **decoding):
    """Decode the test utterances with your code. Return the number of edits per digit."""
    with mt.no_grad():
        found = mt.ctc_decode(model(test[0]), test[1], **decoding)
    wrong = sum(edits(ids.tolist(), w) for (ids, _), w in zip(found, wanted, strict=True))
    return wrong / sum(map(len, wanted))


def train(model, speakers):
    """Train with your loss. Ten times in all, yield the step and the mean of the latest losses."""
    rng = np.random.default_rng(0)
    utterances = draw_utterances(500, speakers, rng, 2, 5, snr=(5, 20))
    optimizer, losses = mt.optim.AdamW(model.parameters(), lr=RATE), []
    for step in range(1, STEPS + 1):
        chosen = [utterances[i] for i in rng.integers(len(utterances), size=BATCH)]
        x, lengths, labels, counts = batch(chosen)
        optimizer.param_groups[0]["lr"] = RATE * min(step / 30, 1.02 - step / STEPS)
        loss = mt.nn.functional.ctc_loss(model(x), labels, lengths, counts)
        optimizer.zero_grad()
        loss.backward()
        mt.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % (STEPS // 10) == 0:
            yield step, np.mean(losses[-20:])


def picture(model, test, i):
    """Return the best class of each time step as text: a dot for the blank, or the digit."""
    with mt.no_grad():
        path = model(test[0]).argmax(-1).numpy()[: test[1][i], i]
    return "".join("." if k == 0 else str(k - 1) for k in path)


def main():
    """Train on 20 speakers, and recognize the numbers that 10 other speakers say."""
    mt.manual_seed(0)
    speakers = draw_speakers(30, np.random.default_rng(1))
    spoken = draw_utterances(60, speakers[20:], np.random.default_rng(2), 2, 5, snr=10)
    test, wanted = batch(spoken), [(u.digits + 1).tolist() for u in spoken]
    model, start = Reader(), time.perf_counter()
    print("Numbers of two to five digits, spoken by 20 synthetic speakers. The network knows which")
    print("digits were said, but not when. Digits wrong: the error rate for 10 other speakers.\n")
    for step, loss in train(model, speakers[:20]):
        wrong = error_rate(model, test, wanted)
        bar = "#" * round(40 * (1 - min(wrong, 1)))
        print(f"step {step:>4}  loss {loss:6.3f}  digits wrong {wrong:4.0%}  {bar}", flush=True)
    beam = error_rate(model, test, wanted, beam_width=8)
    print(f"with your prefix beam search: {beam:.0%}")
    print(f"\n{time.perf_counter() - start:.0f} s. One character is 40 ms; a dot is the blank:\n")
    for i in range(6):
        print(f"  {''.join(map(str, spoken[i].digits)):<5}  {picture(model, test, i)}")
    return 0 if max(wrong, beam) < 0.2 else 1


if __name__ == "__main__":
    sys.exit(run(main))
