"""Speech recipe: features, batches, sizes, losses, transcripts and what the figures show."""

import numpy as np
import pytest

from minitorch_attn.data.audio import log_mel_spectrogram
from minitorch_attn.models import CTCRecognizer, LSTMEncoder
from minitorch_attn.tensor import tensor
from minitorch_attn.training.recipes import load_recipe
from minitorch_attn.training.recipes import speech_stream as stream
from minitorch_attn.training.recipes.speech import CTC, DECODER, MODELS, lstm_units

SMALL = {
    "layers": 1, "heads": 2, "dim": 8, "batch": 3, "channels": 2, "kernel": 3, "dropout": 0.0,
    "decoder_layers": 1, "decoder": 0.6, "utterances": 29, "test": 7, "dtype": "float64",
}  # fmt: skip


@pytest.fixture(autouse=True)
def once(request):
    if request.config.getoption("--device") != "numpy":
        pytest.skip("recipes have a device of their own and are tested once")


@pytest.fixture(scope="module")
def recipe():
    return load_recipe("speech")(SMALL)


def size(model):
    return sum(p.array.size for p in model.parameters())


def test_features_of_a_batch_are_those_of_each_utterance(rng):
    waveforms = [rng.normal(size=n) for n in (1111, 520, 777)]
    features, lengths = stream.log_mel(waveforms)
    assert lengths.tolist() == [12, 5, 8] and features.shape == (3, 12, 40)
    for rows, length, waveform in zip(features, lengths, waveforms, strict=True):
        alone = log_mel_spectrogram(waveform, 8000, 40, 200, 80, 256)
        centered = alone - alone.mean(0)
        expected = centered / np.sqrt((centered**2).mean(0) + 1e-5)
        np.testing.assert_allclose(rows[:length], expected, rtol=1e-9, atol=1e-9)
        assert (rows[length:] == 0).all()


def test_centers_of_the_encoders_frames(recipe):
    """Frame i of the encoder depends on the frames 4 i to 4 i + 6, whose middle is its center."""
    centers = stream.frame_centers(5)
    for i in range(5):
        first, last = 4 * i * stream.HOP, (4 * i + 6) * stream.HOP + 200
        assert centers[i] == (first + last) / 2
    subsampling = recipe.model.ctc.encoder.subsampling
    assert [subsampling.output_lengths(4 * i + 7) for i in range(5)] == [1, 2, 3, 4, 5]


def test_a_batch_depends_on_seed_and_position(recipe):
    first, other = recipe.batches(), recipe.batches()
    batches = [next(first) for _ in range(3)]
    other.load_state_dict({"position": 2})
    again = next(other)
    for name, value in batches[2].items():
        np.testing.assert_array_equal(value.numpy(), again[name].numpy())
    assert batches[0]["features"].shape != batches[2]["features"].shape or not np.array_equal(
        batches[0]["features"].numpy(), batches[2]["features"].numpy()
    )


def test_labels_and_lengths_belong_to_the_same_utterance(recipe):
    """Each row has the length and the digits of one training utterance."""
    known = {
        (1 + (len(one.waveform) - 200) // 80, tuple(one.digits + 1)) for one in recipe.training
    }
    batches = recipe.batches()
    for _ in range(5):
        _, lengths, labels, counts = [value.numpy() for value in next(batches).values()]
        for length, row, count in zip(lengths, labels, counts, strict=True):
            assert (length, tuple(row[:count])) in known and (row[count:] == 0).all()


def test_training_speakers_are_not_in_the_test_set(recipe):
    """Equal speakers would have equal voices; the sounds of both sets differ anyway."""
    sounds = {one.waveform.tobytes() for one in recipe.training}
    assert len(sounds) == 29 and not sounds & {one.waveform.tobytes() for one in recipe.test}
    assert (
        max(one.speaker for one in recipe.training) > 20 > max(one.speaker for one in recipe.test)
    )


def test_models_of_equal_size(recipe):
    """The LSTM has as many parameters as the Conformer, within 5 %."""
    full = load_recipe("speech")({"utterances": 3, "test": 3}).model
    assert abs(size(full.lstm) / size(full.ctc) - 1) < 0.01
    for dim, classes, units in ((8, 11, 5), (6, 3, 7), (64, 11, 70)):
        model = CTCRecognizer(LSTMEncoder(12, dim, units, 2, channels=3), classes)
        rest = size(model) - size(model.encoder.subsampling)
        assert lstm_units(rest, dim, classes) == units
    assert lstm_units(0, 8, 11) == 1


def reached(recipe, batch):
    """The parts of the model that a batch trains."""
    recipe.model.zero_grad()
    recipe.loss(recipe.model, batch).backward()
    named = recipe.model.named_parameters()
    return {path.split(".")[0] for path, p in named if p.grad is not None}


def test_each_phase_trains_its_models(recipe):
    batches = recipe.batches()
    assert reached(recipe, next(batches)) == {"ctc", "lstm"}
    batches.load_state_dict({"position": recipe.ctc_steps - 1})
    assert reached(recipe, next(batches)) == {"ctc", "lstm"}
    assert reached(recipe, next(batches)) == {"decoder", "helper", "lstm"}


def test_loss_is_the_sum_of_the_losses_of_the_models(recipe):
    """In the second phase: LSTM, cross-entropy of each digit and of the end, and CTC's helper."""
    model = recipe.model.eval()
    (batch,) = recipe.parts(recipe.test[:2], decoding=True)
    features, lengths, labels, counts, written = batch.values()
    arguments = (features, lengths, labels, counts)
    terms = []
    for i, count in enumerate(counts.tolist()):
        said, frames = labels[i, :count].tolist(), int(lengths[i].item())
        assert written[i].tolist() == [*said, stream.END] + [0] * (stream.MOST - count)
        ids = labels[i : i + 1, : count + 1] * 0 + stream.START
        ids[:, 1:] = labels[i, :count]
        logits = model.decoder(features[i : i + 1, :frames], ids, lengths[i : i + 1])
        log_p = logits.log_softmax(-1).numpy()[0]
        terms += [-log_p[place, label] for place, label in enumerate([*said, stream.END])]
    helped = CTCRecognizer(model.decoder.encoder, stream.CLASSES)
    helped.head = model.helper
    expected = (
        model.lstm.loss(*arguments).item()
        + np.mean(terms)
        + recipe.options["helper"] * helped.eval().loss(*arguments).item()
    )
    assert recipe.loss(model, batch).item() == pytest.approx(expected, rel=1e-6)
    del batch["written"]
    both = model.lstm.loss(*arguments).item() + model.ctc.loss(*arguments).item()
    assert recipe.loss(model, batch).item() == pytest.approx(both, rel=1e-9)


def test_the_decoder_starts_from_what_ctc_has_learned():
    recipe = load_recipe("speech")({**SMALL, "steps": 20, "eval_every": 50})
    first = recipe.ctc_steps
    assert first == 8
    encoders = recipe.model.ctc.encoder, recipe.model.decoder.encoder

    def equal():
        pairs = [*zip(*[one.parameters() for one in encoders], strict=True)]
        pairs += [
            *zip(recipe.model.ctc.head.parameters(), recipe.model.helper.parameters(), strict=True)
        ]
        return {bool((a.numpy() == b.numpy()).all()) for a, b in pairs}

    recipe.after_step(first - 1)
    assert False in equal() and DECODER not in recipe.evaluate(recipe.model.eval())
    recipe.after_step(first)
    assert equal() == {True} and DECODER not in recipe.evaluate(recipe.model)
    norms = [one.blocks[0].convolution.batch_norm.running_mean.numpy() for one in encoders]
    np.testing.assert_array_equal(*norms)
    recipe.after_step(first + 1)
    assert DECODER in recipe.evaluate(recipe.model)


def test_each_phase_has_its_own_learning_rates(recipe):
    """Up in the warm-up, down to about 0 at the end of each phase."""
    full = load_recipe("speech")({**SMALL, "steps": 100, "warmup": 10})
    factors = [full.learning_rate_factor(step) for step in range(101)]
    assert full.ctc_steps == 40 and full.phase(39) == (0, 40) and full.phase(40) == (40, 100)
    for start, end in ((0, 40), (40, 100)):
        assert factors[start] == pytest.approx(1 / 11) and factors[start + 10] == 1
        assert factors[end - 1] < 0.01 and np.argmax(factors[start:end]) == 10
    assert factors[100] == 0


def test_what_is_compared_with_what(recipe):
    """A model that writes what was said has no errors; the guess has about nine in ten."""
    model = recipe.model.eval()
    said, found = recipe.transcripts(model, recipe.test)
    assert said == [[d + 1 for d in one.digits] for one in recipe.test]
    assert set(found) == set(MODELS) and all(len(rows) == len(said) for rows in found.values())
    assert all(END not in row for row in found[DECODER] for END in [stream.END])
    whole = recipe.measure([])
    assert whole["worse Conformer"] == max(whole[CTC], whole[DECODER])
    (label,) = {label for row in recipe.guesses() for label in row}
    frequent = np.bincount(np.concatenate([one.digits for one in recipe.training])).argmax()
    assert label == frequent + 1 and 0.6 < whole["guess"] <= 1
    counts = [len(row) for row in recipe.guesses()]
    real = [len(row) for row in said]
    assert np.corrcoef(counts, real)[0, 1] > 0.6


def test_focus_is_the_attention_between_the_first_and_the_last_sample(recipe, monkeypatch):
    """With equal attention everywhere, the words have exactly their share."""

    def equal(batch):
        frames = recipe.model.ctc.encoder.subsampling.output_lengths(batch["lengths"]).tolist()
        rows = np.zeros((len(frames), stream.MOST, max(frames)))
        for row, count in zip(rows, frames, strict=True):
            row[:, :count] = 1 / count
        return rows

    monkeypatch.setattr(recipe, "attention", equal)
    attention, share = recipe.focus()
    assert attention == pytest.approx(share, rel=0.05)

    def on_the_first_word(batch):
        rows = equal(batch) * 0
        for row, one in zip(rows, recipe.some, strict=True):
            centers = stream.frame_centers(row.shape[1])
            row[:, np.abs(centers - one.spans[0].mean()).argmin()] = 1
        return rows

    monkeypatch.setattr(recipe, "attention", on_the_first_word)
    words = sum(len(one.digits) for one in recipe.some)
    assert recipe.focus()[0] == pytest.approx(len(recipe.some) / words)


def test_attention_rows_are_distributions_over_the_sound(recipe):
    (batch,) = recipe.parts(recipe.test)
    rows = recipe.attention(batch)
    frames = recipe.model.ctc.encoder.subsampling.output_lengths(batch["lengths"]).tolist()
    assert rows.shape == (7, stream.MOST, max(frames))
    np.testing.assert_allclose(rows.sum(-1), 1, rtol=1e-9)
    for row, count in zip(rows, frames, strict=True):
        assert (row[:, count:] == 0).all()


def test_attention_before_a_word_depends_on_the_words_before_it(recipe):
    (batch,) = recipe.parts(recipe.test)
    rows = recipe.attention(batch)
    labels = batch["labels"].numpy().copy()
    labels[:, 2] = labels[:, 2] % 10 + 1
    other = recipe.attention({**batch, "labels": tensor(labels)})
    np.testing.assert_array_equal(rows[:, :3], other[:, :3])
    assert (abs(rows[:, 3] - other[:, 3]).max(-1) > 1e-6).all()


def test_equal_words_have_different_frames_for_the_decoder(recipe):
    """The positions are added to the encoder's output, and only for the decoder."""
    model = recipe.model.eval()
    (batch,) = recipe.parts(recipe.test[:1])
    encoder = model.decoder.encoder
    table = encoder.positions.table.numpy()
    with_positions = encoder.encode(batch["features"]).numpy()[0]
    plain = super(type(encoder), encoder).encode(batch["features"]).numpy()[0]
    np.testing.assert_allclose(with_positions - plain, table[: len(plain)], atol=1e-12)


def test_utterances_grow_longer_in_each_phase():
    recipe = load_recipe("speech")({**SMALL, "batch": 16, "steps": 400, "utterances": 61})
    middle = np.median([len(one.waveform) for one in recipe.training]) // 80

    def shares(position):
        """How many utterances of batches from a position on are longer than the middle one."""
        batches = recipe.batches()
        batches.load_state_dict({"position": position})
        lengths = np.concatenate([next(batches)["lengths"].numpy() for _ in range(8)])
        return (lengths > middle).mean()

    first = recipe.ctc_steps
    for start, later in ((0, first // 2), (first, first + (400 - first) // 2)):
        assert shares(start) < 0.1 and 0.25 < shares(later) < 0.75
