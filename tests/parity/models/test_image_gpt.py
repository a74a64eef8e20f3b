"""Image GPT against transformers: random configurations, every class, padding, caches."""

import numpy as np
import pytest
import torch
from parity.models.decoders import BATCH, TOKENS, check_peer_opens, padding, pair
from parity.models.peers import check_same_tensors, compare, randomise

import minitorch_attn as mt
from minitorch_attn.models import image_gpt

transformers = pytest.importorskip("transformers", reason="needs the parity extra")

CLASSES = ["ImageGPTModel", "ImageGPTForCausalImageModeling", "ImageGPTForImageClassification"]
ACTIVATIONS = ["quick_gelu", "gelu_new", "gelu", "relu"]
CLUSTERS = 28


@pytest.fixture(autouse=True)
def no_float32_losses(monkeypatch):
    """The peer computes losses of a float64 model in float32; here it stays in float64."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


def draw_config(rng, **fixed):
    heads = int(rng.choice([1, 2, 3]))
    config = dict(
        vocab_size=CLUSTERS + 1, n_positions=13, n_embd=heads * int(rng.choice([4, 6])),
        n_head=heads, n_layer=int(rng.choice([1, 2, 3])), n_inner=rng.choice([None, 10]),
        activation_function=str(rng.choice(ACTIVATIONS)),
        layer_norm_epsilon=float(rng.choice([1e-5, 1e-2])),
        scale_attn_weights=bool(rng.random() < 0.7),
        scale_attn_by_inverse_layer_idx=bool(rng.random() < 0.5), num_labels=5,
        attn_implementation="eager",
    )  # fmt: skip
    return transformers.ImageGPTConfig(**{**config, **fixed})


def ids_of(rng, *shape):
    return rng.integers(0, CLUSTERS, shape)


def with_labels(name, rng, inputs):
    if name == "ImageGPTForCausalImageModeling":
        labels = inputs["input_ids"].copy()
        labels[:, 2] = -100
        return {**inputs, "labels": labels}
    if name == "ImageGPTForImageClassification":
        return {**inputs, "labels": rng.integers(0, 5, BATCH)}
    return inputs


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("seed", range(4))
def test_every_class(name, seed, tmp_path):
    rng = np.random.default_rng(seed)
    peer, ours = pair(name, draw_config(rng), seed, tmp_path)
    inputs = with_labels(name, rng, {"input_ids": ids_of(rng, BATCH, TOKENS)})
    inputs["input_ids"][:, 0] = CLUSTERS  # the start token
    if seed == 1:
        inputs["token_type_ids"] = ids_of(rng, BATCH, TOKENS)
    if seed == 2:
        inputs["attention_mask"] = padding("right")
    if seed == 3:  # unlike in GPT-2, positions do not divide a row into texts
        inputs["position_ids"] = np.array([[0, 1, 2, 0, 1, 2, 3], [5, 4, 3, 2, 1, 0, 0], [2] * 7])
    compared = compare(peer, ours, inputs, output_hidden_states=True, output_attentions=True)
    assert compared >= 15


@pytest.mark.parametrize("name", CLASSES)
def test_embeddings_as_input(name, tmp_path):
    rng = np.random.default_rng(5)
    peer, ours = pair(name, draw_config(rng), 5, tmp_path)
    vectors = rng.normal(size=(BATCH, TOKENS, peer.config.n_embd))
    compare(peer, ours, {"inputs_embeds": vectors}, output_hidden_states=True)


@pytest.mark.parametrize("padded", [False, True])
def test_chunks_through_the_cache(padded, tmp_path):
    """The logits, and the gradients that flow back through cached keys and values."""
    rng = np.random.default_rng(40 + padded)
    peer, ours = pair("ImageGPTForCausalImageModeling", draw_config(rng), 1, tmp_path)
    mask = padding("right")

    def call(model, input_ids):
        torch_side = isinstance(input_ids, torch.Tensor)
        cat, tensor = (torch.cat, torch.tensor) if torch_side else (mt.cat, mt.tensor)
        past, parts, start = None, [], 0
        for size in (3, 1, 2, 1):
            more = {"attention_mask": tensor(mask[:, : start + size])} if padded else {}
            piece = input_ids[:, start : start + size]
            output = model(input_ids=piece, past_key_values=past, use_cache=True, **more)
            past, start = output["past_key_values"], start + size
            parts.append(output["logits"])
        return {"logits": cat(parts, 1)}

    compare(peer, ours, {"input_ids": ids_of(rng, BATCH, TOKENS)}, call=call)


def test_generation(tmp_path):
    rng = np.random.default_rng(9)
    peer, ours = pair("ImageGPTForCausalImageModeling", draw_config(rng), 9, tmp_path)
    start = np.full((2, 1), CLUSTERS)
    options = {"max_new_tokens": 11, "do_sample": False}
    expected = peer.generate(torch.tensor(start), **options).numpy()
    for use_cache in (True, False):
        got = ours.generate(mt.tensor(start), use_cache=use_cache, **options)
        np.testing.assert_array_equal(got.numpy(), expected)


def test_tied_weights(tmp_path):
    """Then the start token has a logit, too."""
    rng = np.random.default_rng(10)
    config = draw_config(rng, tie_word_embeddings=True)
    peer, ours = pair("ImageGPTForCausalImageModeling", config, 10, tmp_path)
    assert compare(peer, ours, {"input_ids": ids_of(rng, BATCH, TOKENS)}) >= 10


@pytest.mark.parametrize("name", CLASSES)
def test_the_peer_opens_what_we_save(name, tmp_path):
    rng = np.random.default_rng(80)
    peer, ours = pair(name, draw_config(rng), 4, tmp_path / "theirs")
    check_peer_opens(peer, ours, tmp_path / "ours")
    ours.save_pretrained(tmp_path / "again")
    check_same_tensors(tmp_path / "theirs", tmp_path / "again")


def test_the_peer_reads_what_a_new_model_writes(tmp_path):
    rng = np.random.default_rng(6)
    config = draw_config(rng)
    ours = mt.models.pretrained.ImageGPTForCausalImageModeling(config.to_dict()).double().eval()
    ours.save_pretrained(tmp_path)
    peer = transformers.ImageGPTForCausalImageModeling.from_pretrained(
        tmp_path, attn_implementation="eager"
    )
    compare(peer.double().eval(), ours, {"input_ids": ids_of(rng, BATCH, TOKENS)})


def test_the_model_of_the_paper_is_the_same(tmp_path):
    """`models/image_gpt.py` and the peer, with the same parameters."""
    rng = np.random.default_rng(7)
    config = draw_config(rng, scale_attn_by_inverse_layer_idx=False, scale_attn_weights=True,
                         activation_function="quick_gelu", n_inner=None)  # fmt: skip
    peer, ours = pair("ImageGPTForCausalImageModeling", config, 7, tmp_path)
    plain = image_gpt.ImageGPT(
        CLUSTERS, 13, config.n_embd, config.n_head, config.n_layer,
        norm_eps=config.layer_norm_epsilon,
    ).double()  # fmt: skip
    plain.load_state_dict(ours.body.state_dict())
    pixels = mt.tensor(ids_of(rng, BATCH, 13))
    ids = plain.shifted(pixels)
    logits = peer(torch.tensor(ids.numpy())).logits
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), torch.tensor(pixels.numpy()).flatten()
    )
    assert abs(plain.next_pixel_loss(pixels).item() - loss.item()) < 1e-10


@pytest.mark.parametrize("size, width, layers, heads",
                         [("s", 512, 24, 8), ("m", 1024, 36, 8), ("l", 1536, 48, 16)])  # fmt: skip
def test_published_sizes(size, width, layers, heads):
    with torch.device("meta"):
        config = transformers.ImageGPTConfig(n_embd=width, n_layer=layers, n_head=heads)
        peer = transformers.ImageGPTForCausalImageModeling(config)
    with mt.nn.init.skip_init():
        ours = getattr(image_gpt, f"image_gpt_{size}")()
    assert ours.blocks[0].attention.num_heads == heads
    expected = sum(p.numel() for p in peer.parameters())
    assert sum(p.numel() for p in ours.parameters()) == expected


def test_the_output_layer_is_not_read_as_the_embedding():
    peer = randomise(transformers.ImageGPTForCausalImageModeling(
        draw_config(np.random.default_rng(1))), 1)  # fmt: skip
    assert peer.lm_head.weight.shape[0] == peer.transformer.wte.weight.shape[0] - 1
