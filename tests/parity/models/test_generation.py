"""generate against transformers on small random models: random settings, equal ids and scores."""

import numpy as np
import pytest
import torch
from parity.models.peers import check, flattened, opened, randomise

import minitorch_attn as mt

transformers = pytest.importorskip("transformers", reason="needs the parity extra")

VOCABULARY, BATCH, TOKENS = 23, 3, 5
PAD, START = 21, 0
BOOLEANS = (True, False)


class Float64:
    """`torch` for the peer, which otherwise rounds logits, norms and weights to float32."""

    float = float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@pytest.fixture(autouse=True)
def float64_scores(monkeypatch):
    for module in (
        transformers.generation.utils,
        transformers.generation.logits_process,
        transformers.models.t5.modeling_t5,
        transformers.models.llama.modeling_llama,
    ):
        monkeypatch.setattr(module, "torch", Float64())
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=40, n_embd=12, n_layer=2, n_head=3, pad_token_id=PAD,
        bos_token_id=START, eos_token_id=7, tie_word_embeddings=False,
        attn_implementation="eager",
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def llama():
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=12, intermediate_size=10, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=40,
        pad_token_id=PAD, bos_token_id=START, eos_token_id=7, attn_implementation="eager",
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def t5():
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=12, d_kv=4, d_ff=10, num_layers=2, num_heads=3,
        relative_attention_num_buckets=8, relative_attention_max_distance=13, pad_token_id=PAD,
        eos_token_id=7, decoder_start_token_id=START, tie_word_embeddings=False,
        attn_implementation="eager",
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config)


def bart():
    config = transformers.BartConfig(
        vocab_size=VOCABULARY, d_model=12, encoder_layers=1, decoder_layers=2,
        encoder_attention_heads=3, decoder_attention_heads=2, encoder_ffn_dim=10,
        decoder_ffn_dim=14, max_position_embeddings=40, pad_token_id=PAD, bos_token_id=2,
        eos_token_id=7, decoder_start_token_id=START, forced_eos_token_id=None,
        tie_word_embeddings=False, attn_implementation="eager",
    )  # fmt: skip
    return transformers.BartForConditionalGeneration(config)


FAMILIES = {"gpt2": gpt2, "llama": llama, "t5": t5, "bart": bart}


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request, tmp_path_factory):
    """(the peer's model, ours) with the same weights, large enough for uneven distributions."""
    peer = randomise(FAMILIES[request.param](), seed=5, scale=0.5)
    return peer, opened(peer, tmp_path_factory.mktemp(request.param))


def prompts(rng, has_encoder):
    """Ids and a mask with padding on the left of a prompt, on the right of an encoder's input."""
    ids = rng.integers(1, VOCABULARY - 2, (BATCH, TOKENS))
    mask = np.ones_like(ids)
    if rng.random() < 0.6:
        for row, count in enumerate(rng.integers(0, 4, BATCH)):
            cut = slice(TOKENS - count, None) if has_encoder else slice(0, count)
            ids[row, cut], mask[row, cut] = PAD, 0
    return {"input_ids": ids, "attention_mask": mask}


def tokens_of(rng, count):
    return [int(i) for i in rng.choice(np.arange(1, VOCABULARY - 2), count, replace=False)]


MENU = {
    "repetition_penalty": lambda rng: float(rng.choice([0.6, 1.3, 2.5])),
    "encoder_repetition_penalty": lambda rng: float(rng.choice([0.7, 1.6])),
    "no_repeat_ngram_size": lambda rng: int(rng.integers(1, 4)),
    "encoder_no_repeat_ngram_size": lambda rng: int(rng.integers(1, 3)),
    "bad_words_ids": lambda rng: [tokens_of(rng, int(n)) for n in rng.integers(1, 4, 5)],
    "sequence_bias": lambda rng: {
        tuple(tokens_of(rng, int(n))): float(rng.normal() * 5) for n in rng.integers(1, 3, 6)
    },
    "suppress_tokens": lambda rng: tokens_of(rng, 4),
    "begin_suppress_tokens": lambda rng: tokens_of(rng, 9),
    "min_length": lambda rng: int(rng.integers(1, 12)),
    "min_new_tokens": lambda rng: int(rng.integers(1, 7)),
    "forced_bos_token_id": lambda rng: tokens_of(rng, 1)[0],
    "forced_eos_token_id": lambda rng: tokens_of(rng, int(rng.integers(1, 3))),
    "exponential_decay_length_penalty": lambda rng: (int(rng.integers(0, 4)), 1.4),
    "renormalize_logits": lambda rng: True,
    "remove_invalid_values": lambda rng: True,
    "pad_token_id": lambda rng: int(rng.choice([0, 4, 22])),
}


def draw_settings(rng, beams):
    settings = {
        "max_new_tokens": int(rng.integers(3, 11)),
        "eos_token_id": tokens_of(rng, int(rng.choice([1, 2, 3]))),
    }
    for name in rng.choice(list(MENU), rng.integers(0, 4), replace=False):
        settings[str(name)] = MENU[name](rng)
    if set(settings.get("suppress_tokens", ())) >= set(settings.get("forced_eos_token_id", [-1])):
        del settings["suppress_tokens"]
    excluded = [*settings["eos_token_id"], *settings.get("suppress_tokens", ())]
    if settings.get("forced_bos_token_id") in excluded:
        del settings["forced_bos_token_id"]  # all beams but one would end in a tie
    if beams > 1:
        if "forced_eos_token_id" in settings:  # two forced tokens would be equally good
            settings["forced_eos_token_id"] = settings["forced_eos_token_id"][0]
        settings["num_beams"] = beams
        settings["length_penalty"] = float(rng.choice([-0.7, 0.0, 0.6, 1.0, 2.0]))
        settings["early_stopping"] = [False, True, "never"][rng.integers(3)]
        settings["num_return_sequences"] = int(rng.integers(1, beams + 1))
    return settings


def generated(model, tensor, inputs, **settings):
    inputs = {name: tensor(value) for name, value in inputs.items()}
    return model.generate(
        **inputs, **settings, return_dict_in_generate=True, output_scores=True, output_logits=True
    )


def compare(pair, inputs, **settings):
    """Equal ids; scores and logits of every step, and the beams' scores, equal to round-off."""
    peer, ours = pair
    theirs = generated(peer, torch.tensor, inputs, **settings)
    mine = generated(ours, mt.tensor, inputs, **settings)
    np.testing.assert_array_equal(mine.sequences.numpy(), theirs.sequences.numpy())
    names = ("scores", "logits", "sequences_scores", "beam_indices")
    expected, got = flattened(theirs, names), flattened(mine, names)
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        value = value.numpy()
        check(name, got[name].numpy(), value.astype("int64") if "ind" in name else value, 1e-8)
    inputs = {name: mt.tensor(value) for name, value in inputs.items()}
    again = ours.generate(**inputs, **settings, use_cache=False)
    np.testing.assert_array_equal(again.numpy(), theirs.sequences.numpy())
    return theirs.sequences.numpy()


@pytest.mark.parametrize("beams", [1, 2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_drawn_settings(pair, beams, seed):
    rng = np.random.default_rng([seed, beams])
    inputs = prompts(rng, pair[0].config.is_encoder_decoder)
    compare(pair, inputs, **draw_settings(rng, beams))


WARPERS = {
    "temperature": lambda rng: float(rng.choice([0.5, 1.7])),
    "top_k": lambda rng: int(rng.integers(0, 12)),
    "top_p": lambda rng: float(rng.uniform(0.1, 1)),
    "min_p": lambda rng: float(rng.uniform(0, 0.5)),
    "typical_p": lambda rng: float(rng.uniform(0.1, 0.95)),
    "epsilon_cutoff": lambda rng: float(rng.uniform(0.01, 0.2)),
    "eta_cutoff": lambda rng: float(rng.uniform(0.01, 0.2)),
    "top_h": lambda rng: float(rng.uniform(0.1, 0.9)),
    "renormalize_logits": lambda rng: True,
}


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_drawn_from(pair, beams, seed):
    """The scores that the first token is drawn by."""
    rng = np.random.default_rng([seed, beams])
    inputs = prompts(rng, pair[0].config.is_encoder_decoder)
    settings = {"do_sample": True, "num_beams": beams, "max_new_tokens": 2, "eos_token_id": [5, 9]}
    for name in rng.choice(list(WARPERS), rng.integers(1, 4), replace=False):
        settings[str(name)] = WARPERS[name](rng)
    theirs = generated(pair[0], torch.tensor, inputs, **settings)
    mine = generated(pair[1], mt.tensor, inputs, **settings)
    check("scores", mine.scores[0].numpy(), theirs.scores[0].numpy(), 1e-8)
    assert mine.sequences.shape[0] == theirs.sequences.shape[0]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_length": 9},
        {"num_beams": 2, "max_length": 8, "eos_token_id": None},
        {"num_beams": 3, "pad_token_id": 0, "max_new_tokens": 9},
        {"max_new_tokens": 4, "max_length": 7, "min_new_tokens": 4, "min_length": 2},
        {"generation_config": "object", "max_new_tokens": 3},
    ],
)
def test_lengths_and_defaults(pair, settings):
    inputs = prompts(np.random.default_rng(0), pair[0].config.is_encoder_decoder)
    peer, ours = pair
    results = []
    for model, tensor, config in (
        (peer, torch.tensor, transformers.GenerationConfig),
        (ours, mt.tensor, mt.generation.GenerationConfig),
    ):
        given = dict(settings)
        if "generation_config" in given:
            given["generation_config"] = config(eos_token_id=[7, 3], num_beams=2, max_length=6)
        results.append(model.generate(**{k: tensor(v) for k, v in inputs.items()}, **given))
    np.testing.assert_array_equal(results[1].numpy(), results[0].numpy())


def _flat(steps):
    """The tensors of every step and layer; the encoder has no steps."""
    return [x for step in steps for x in step] if isinstance(steps[0], tuple) else steps


@pytest.mark.parametrize("beams", [1, 2])
def test_what_the_model_looked_at(pair, beams):
    """Attention weights and hidden states of every step, and the cache."""
    inputs = prompts(np.random.default_rng(3), pair[0].config.is_encoder_decoder)
    flags = {"output_attentions": True, "output_hidden_states": True, "eos_token_id": 99}
    theirs = generated(pair[0], torch.tensor, inputs, max_new_tokens=3, num_beams=beams, **flags)
    mine = generated(pair[1], mt.tensor, inputs, max_new_tokens=3, num_beams=beams, **flags)
    for name, steps in theirs.items():
        if "attentions" in name or "hidden" in name:
            assert len(mine[name]) == len(steps)
            expected, got = flattened({name: _flat(steps)}), flattened({name: _flat(mine[name])})
            assert got.keys() == expected.keys()
            for place, value in expected.items():
                check(place, got[place].numpy(), value.numpy(), 1e-8)
    assert mine.past_key_values.length == theirs.past_key_values.get_seq_length()


@pytest.fixture(scope="module")
def gpt2_pair(tmp_path_factory):
    peer = randomise(gpt2(), seed=5, scale=0.5)
    return peer, opened(peer, tmp_path_factory.mktemp("gpt2_alone"))


@pytest.mark.parametrize("beams", [1, 2])
def test_a_prompt_of_vectors(gpt2_pair, beams):
    peer, ours = gpt2_pair
    ids = np.random.default_rng(1).integers(1, 20, (2, 4))
    settings = {"max_new_tokens": 5, "num_beams": beams, "repetition_penalty": 1.5}
    theirs = peer.generate(inputs_embeds=peer.transformer.wte(torch.tensor(ids)), **settings)
    vectors = ours.body.token_embedding(mt.tensor(ids))
    mine = ours.generate(inputs_embeds=vectors, **settings)
    np.testing.assert_array_equal(mine.numpy(), theirs.numpy())
    both = ours.generate(mt.tensor(ids), inputs_embeds=vectors, **settings)
    other = peer.generate(
        torch.tensor(ids), inputs_embeds=peer.transformer.wte(torch.tensor(ids)), **settings
    )
    np.testing.assert_array_equal(both.numpy(), other.numpy())


def test_going_on_from_a_cache(gpt2_pair):
    """Either with all the ids or, with a mask that covers all, with the new ones."""
    peer, ours = gpt2_pair
    ids = np.random.default_rng(1).integers(1, 20, (2, 6))
    settings = {"max_new_tokens": 5, "eos_token_id": 99}
    expected = peer.generate(torch.tensor(ids), **settings).numpy()
    for mask, given in ((None, ids), (np.ones_like(ids), ids[:, 4:])):
        begun = ours(mt.tensor(ids[:, :4]), use_cache=True)
        more = {} if mask is None else {"attention_mask": mt.tensor(mask)}
        mine = ours.generate(
            mt.tensor(given), past_key_values=begun.past_key_values, **more, **settings
        )
        np.testing.assert_array_equal(mine.numpy()[:, given.shape[1] :], expected[:, 6:])


def test_nothing_to_begin_with(gpt2_pair):
    peer, ours = gpt2_pair
    theirs = peer.generate(max_new_tokens=5, bos_token_id=4)
    np.testing.assert_array_equal(
        ours.generate(max_new_tokens=5, bos_token_id=4).numpy(), theirs.numpy()
    )


def test_callables_of_the_caller(gpt2_pair):
    """Processors, criteria and allowed tokens; one of a known class replaces the built one."""
    peer, ours = gpt2_pair
    ids = np.random.default_rng(2).integers(1, 20, (2, 4))
    theirs_processors = transformers.generation.logits_process
    settings = {"max_new_tokens": 8, "temperature": 1.0, "no_repeat_ngram_size": 3}

    def allowed(batch, row):
        return [(int(row[-1]) * 3 + k + batch) % VOCABULARY for k in range(6)]

    results = []
    for model, tensor, library in (
        (peer, torch.tensor, theirs_processors),
        (ours, mt.tensor, mt.generation),
    ):
        own = [library.NoRepeatNGramLogitsProcessor(1), lambda ids, scores: scores * 0.5]
        stop = [lambda ids, scores: ids[:, -1] == 11]
        for more in (
            {"logits_processor": own},
            {"stopping_criteria": stop},
            {"prefix_allowed_tokens_fn": allowed, "num_beams": 2},
        ):
            results.append(model.generate(tensor(ids), **settings, **more).numpy())
    for mine, expected in zip(results[3:], results[:3], strict=True):
        np.testing.assert_array_equal(mine, expected)


@pytest.mark.parametrize("name", ["t5", "bart"])
@pytest.mark.parametrize("beams", [1, 2])
def test_what_the_decoder_begins_with(name, beams, tmp_path):
    peer = randomise(FAMILIES[name](), seed=2, scale=0.5)
    ours = opened(peer, tmp_path)
    rng = np.random.default_rng(beams)
    inputs = prompts(rng, True)
    begun = rng.integers(1, 20, (BATCH, 3))
    encoded = ours.get_encoder()(**{k: mt.tensor(v) for k, v in inputs.items()})
    mask = {"attention_mask": inputs["attention_mask"]}
    for arrays, more in (
        ({**inputs, "decoder_input_ids": begun}, {}),
        (inputs, {"decoder_start_token_id": [3, 4, 5]}),
        ({**inputs, "decoder_input_ids": begun, "decoder_attention_mask": begun % 4 != 0}, {}),
        ({**mask, "decoder_input_ids": begun}, {"encoder_outputs": encoded}),
    ):
        settings = {"max_new_tokens": 5, "num_beams": beams, **more}
        mine = ours.generate(**{k: mt.tensor(v) for k, v in arrays.items()}, **settings)
        if "encoder_outputs" in settings:
            arrays = {**inputs, "decoder_input_ids": begun}
            del settings["encoder_outputs"]
        theirs = peer.generate(**{k: torch.tensor(v).long() for k, v in arrays.items()}, **settings)
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())
