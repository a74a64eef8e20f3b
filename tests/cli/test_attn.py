"""`mta attn`: attention weights of runs and of published folders, with labels that fit."""

import json
import math
import re

import numpy as np
import pytest
from PIL import Image

import minitorch_attn as mt
from minitorch_attn.cli.attn import _grid, head_figures
from minitorch_attn.cli.attn_page import attention_page, opening
from minitorch_attn.cli.attn_weights import Look, Part, look_at_image, look_at_text
from minitorch_attn.data.tokenizers import ByteBPE
from minitorch_attn.models import pretrained

SMALL = "--layers 1 --heads 2 --dim 8 --batch 4 --steps 4 --eval-every 4".split()
TEXT_SIZES = {"vocab_size": 257, "bos_token_id": 256, "eos_token_id": 256}
FACES = {
    "GPT2LMHeadModel": {"n_embd": 6, "n_layer": 2, "n_head": 2, "n_positions": 24, **TEXT_SIZES},
    "BartForConditionalGeneration": {
        "d_model": 6, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8,
        "max_position_embeddings": 80, "pad_token_id": 1, "forced_eos_token_id": None,
        **TEXT_SIZES,
    },
    "ViTForImageClassification": {
        "hidden_size": 6, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8,
        "image_size": 8, "patch_size": 2, "num_labels": 3,
    },
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    def make(name):
        mt.manual_seed(0)
        path = tmp_path / name
        getattr(pretrained, name)(FACES[name]).save_pretrained(path)
        if name.startswith("ViT"):
            fields = {"image_processor_type": "ViTImageProcessor", "size": 8}
            (path / "preprocessor_config.json").write_text(json.dumps(fields))
        else:
            ByteBPE({n: bytes([n]) for n in range(256)}, [], {"<|endoftext|>": 256}).save(path)
        return path

    return make


@pytest.fixture
def picture(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (30, 20, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


def check(look):
    """What holds for every look: rows sum to 1, as many labels as rows and columns."""
    for part in look.parts:
        heads, queries, keys = part.weights.shape
        assert (len(part.queries), len(part.keys)) == (queries, keys), part.name
        assert np.allclose(part.weights.sum(-1), 1, atol=1e-5)


def in_page(path):
    """The data of a page, decoded."""
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text())
    return json.loads(text[1])


def test_the_numbers_of_a_head():
    even = np.full((1, 4, 4), 0.25)
    (found,) = head_figures(even)
    assert found["entropy"] == pytest.approx(math.log(4)) and found["keys"] == pytest.approx(4)
    assert found["self"] == found["before"] == found["first"] == 0.25
    (back,) = head_figures(np.array([[[1.0, 0.0, 0.0], [0.75, 0.25, 0.0], [0.0, 0.5, 0.5]]]))
    assert back["before"] == pytest.approx((0.75 + 0.5) / 2)
    assert back["self"] == pytest.approx((1 + 0.25 + 0.5) / 3)
    cross = np.array([[[0.0, 1.0, 0.0]]])
    assert head_figures(cross) == [{"entropy": 0.0, "keys": 1.0, "first": 0.0}]


def test_a_run_of_the_gpt(mta, tiny, tmp_path):
    mta(*tiny, "--steps", 5)
    code, out, err = mta("attn", "runs/gpt-1", "--text", "the fox")
    assert (code, err) == (0, "") and "blocks.0.attention" in out
    rows = [line.split() for line in out.splitlines() if re.match(r"\s+\d", line)]
    assert [row[-1] if len(row) > 6 else row[0] for row in rows] == ["blocks.0.attention", "1"]
    assert rows[0][:2] == ["0", "0"]  # layer and head, as in the name
    place = tmp_path / "runs" / "attn" / "gpt-1"
    assert (place / "attention.png").read_bytes().startswith(b"\x89PNG")
    data = in_page(place / "attention.html")
    (part,) = data["parts"]
    assert part["keys"] == list("the fox") and len(part["heads"]) == 2 and part["number"] == 0
    check(look_at_text("runs/gpt-1", "the fox"))
    assert "The text has" not in out
    limit = mt.training.RunFolder.open("runs/gpt-1").config["options"]["context"]
    code, out, _ = mta("attn", "runs/gpt-1", "--text", "the fox" + "x" * limit)
    assert f"The text has {limit + 7} characters; the model reads the last {limit} of them." in out


def test_the_page_holds_the_weights(mta, tiny, tmp_path):
    import base64

    mta(*tiny, "--steps", 5)
    mta("attn", "runs/gpt-1", "--text", "the", "--out", "here")
    look = look_at_text("runs/gpt-1", "the")
    (part,) = in_page(tmp_path / "here" / "attention.html")["parts"]
    for head, weights in enumerate(look.parts[0].weights):
        stored = np.frombuffer(base64.b64decode(part["heads"][head]), "uint8").reshape(3, 3)
        assert np.allclose(stored / 255 * part["tops"][head], weights, atol=0.005)


def test_the_page_needs_nothing_else_and_runs_nothing_of_the_text(mta, tiny, tmp_path):
    mta(*tiny, "--steps", 5)
    mta("attn", "runs/gpt-1", "--text", "the fox", "--out", "here")
    text = (tmp_path / "here" / "attention.html").read_text()
    assert "default-src 'none'" in text and not re.search(r"(src|href)=\"?https?:", text)

    evil = "</script><script>alert(1)</script>"
    page, _ = attention_page(Look(evil, [Part("a", np.eye(1)[None], [evil], [evil])]))
    assert page.count("<script") == text.count("<script") and evil not in page


@pytest.mark.parametrize("name", ["dates", "t5", "bert"])
@pytest.mark.slow
def test_runs_of_the_other_recipes_for_text(mta, name):
    text = {"dates": "3 July 1987", "t5": "sort: bca", "bert": "the class is defined"}[name]
    assert mta("train", name, *SMALL, "--out", "run")[0] in (0, 1)
    look = look_at_text("run", text)
    check(look)
    kinds = {part.kind for part in look.parts}
    if name == "bert":
        assert look.parts[0].keys[0] == "[CLS]" and look.parts[0].keys[-1] == "[SEP]"
    else:
        cross = next(part for part in look.parts if part.kind == "cross")
        own = next(p for p in look.parts if p.name == "decoder.layers.0.attention")
        assert kinds == {"self", "cross"} and cross.keys[: len(text)] == list(text)
        assert own.keys[0] == "[START]" and own.keys[1:] == cross.queries[:-1]
    code, out, err = mta("attn", "run", "--text", text)
    assert (code, err) == (0, "") and "attention.html" in out
    assert mta("attn", "run", "--image", __file__)[0] == 1


@pytest.mark.slow
def test_a_run_of_recurrent_models(mta):
    small = [part for part in SMALL if part not in ("--heads", "2")]
    assert mta("train", "seq2seq", *small, "--out", "run")[0] in (0, 1)
    look = look_at_text("run", "3 July 1987")
    names = [part.name for part in look.parts]
    assert names == [f"{name}.decoder.attention" for name in ("additive", "dot", "local_p")]
    for part in look.parts:
        assert part.kind == "cross" and part.keys == [*"3 July 1987", "[END]"]
        assert part.weights.shape == (1, len(part.queries), 12)
    local = look.parts.pop()
    check(look)
    assert (local.weights.sum(-1) < 1).all()  # Luong et al. 2015, Eq. 10, does not normalize
    assert mta("attn", "run", "--text", "3 July 1987")[0] == 0


@pytest.mark.parametrize("name", ["vit", "swin", "mae"])
@pytest.mark.slow
def test_runs_on_pictures(mta, name, picture):
    pytest.importorskip("sklearn")
    assert mta("train", name, *SMALL, "--out", "run")[0] in (0, 1)
    look = look_at_image("run", picture)
    check(look)
    if name == "vit":
        assert (look.grid, look.prefix) == ((4, 4), 0) and look.parts[0].keys[5] == "1,1"
    if name == "swin":
        assert look.parts[0].kind == "window" and "4 windows" in look.parts[0].note
    code, _, err = mta("attn", "run", "--image", picture)
    assert (code, err) == (0, "")
    code, _, err = mta("attn", "run", "--text", "x")
    assert code == 1 and "--image FILE" in err


@pytest.mark.slow
def test_captions_are_not_shown(mta, picture):
    pytest.importorskip("sklearn")
    small = ["--dim", 8, "--batch", 3, "--scenes", 5, "--steps", 2]
    assert mta("train", "captions", *small, "--out", "run")[0] in (0, 1)
    for arguments in (["--image", picture], ["--text", "x"]):
        code, _, err = mta("attn", "run", *arguments)
        assert code == 1 and "run/captions.png" in err


def test_published_weights_that_read(mta, folder, tmp_path):
    look = look_at_text(folder("GPT2LMHeadModel"), "héy you")
    check(look)
    assert len(look.parts) == 2 and look.parts[0].keys[0] == "h"
    code, out, err = mta("attn", folder("GPT2LMHeadModel"), "--text", "abc", "--layer", 1)
    assert (code, err) == (0, "") and re.findall(r"^ +(\d) +0 ", out, re.M) == ["1"]
    (part,) = in_page(tmp_path / "runs" / "attn" / "GPT2LMHeadModel" / "attention.html")["parts"]
    assert part["number"] == 1
    assert mta("attn", folder("GPT2LMHeadModel"), "--text", "abc", "--layer", 2)[0] == 2
    assert look.note == "" and look_at_text(folder("GPT2LMHeadModel"), "a" * 30).note == (
        "The text has 30 tokens; the model reads the first 24 of them."
    )


def test_a_page_that_would_be_too_large_keeps_the_last_attentions(monkeypatch):
    from minitorch_attn.cli import attn_page

    monkeypatch.setattr(attn_page, "_MOST", 9)
    parts = [Part(f"layer {n}", np.eye(2)[None], ["a", "b"], ["a", "b"]) for n in range(5)]
    page, left_out = attn_page.attention_page(Look("five", parts))
    assert left_out == "attention layers 0 to 2" and "layer 3" in page and "layer 2" not in page
    assert attn_page.attention_page(Look("two", parts[:2]))[1] == ""


def test_published_weights_that_read_and_write(mta, folder):
    look = look_at_text(folder("BartForConditionalGeneration"), "abcd")
    check(look)
    assert [part.kind for part in look.parts] == ["self", "self", "cross"]
    assert look.parts[2].keys == list("abcd") and look.parts[1].keys != look.parts[2].queries
    assert mta("attn", folder("BartForConditionalGeneration"), "--text", "abcd")[0] == 0


def test_published_weights_that_see(mta, folder, picture, tmp_path):
    path = folder("ViTForImageClassification")
    look = look_at_image(path, picture)
    check(look)
    assert (look.grid, look.prefix) == ((4, 4), 1) and look.parts[0].keys[0] == "[CLS]"
    code, out, err = mta("attn", path, "--image", picture, "--out", "here")
    assert (code, err) == (0, "") and "[CLS]" in out and "class_token.png" in out
    assert (tmp_path / "here" / "class_token.png").read_bytes().startswith(b"\x89PNG")
    assert in_page(tmp_path / "here" / "attention.html")["picture"].startswith("data:image/png")
    code, _, err = mta("attn", path, "--text", "x")
    assert code == 1 and "--image FILE" in err


@pytest.mark.parametrize("arguments", [[], ["--text", "a", "--image", __file__]])
def test_one_of_text_and_image(mta, tmp_path, arguments):
    code, _, err = mta("attn", tmp_path, *arguments)
    assert code == 2 and "--text TEXT or --image FILE" in err


def test_an_empty_folder_is_a_message(mta, tmp_path):
    code, _, err = mta("attn", tmp_path, "--text", "a")
    assert code == 1 and err.startswith("error: ")


def test_the_page_opens_at_a_row_with_something_to_see():
    """Neither a uniform row nor one key: the farthest from both, over all layers and heads."""
    one, even = np.eye(5), np.full((5, 5), 0.2)
    causal = np.tril(np.ones((5, 5))) / np.arange(1, 6)[:, None]  # uniform over what it may see
    dull = np.stack([one, even, causal])
    assert opening([Part("a", dull, "abcde", "abcde")])["row"] == 0  # nothing better
    seen = dull.copy()
    seen[2, 3] = [0.1, 0.5, 0.4, 0.0, 0.0]
    seen[1, 1] = [0.9, 0.1, 0.0, 0.0, 0.0]  # nearly one key
    seen[1, 2] = [0.3, 0.2, 0.2, 0.2, 0.1]  # nearly uniform
    parts = [Part(name, w, "abcde", "abcde") for name, w in zip("abc", (dull, seen, dull))]  # noqa: B905
    assert opening(parts) == {"part": 1, "head": 2, "row": 3, "column": 1}
    page, _ = attention_page(Look("three", parts, first=4))
    assert '"start":{"part":1,"head":2,"row":3,"column":1}' in page and '"number":6' in page


def test_layers_and_heads_in_the_picture_are_counted_as_in_the_table():
    look = Look(
        "x", [Part(str(n), np.eye(2)[None], list("ab"), list("ab")) for n in (3, 4)], first=3
    )
    axes = _grid(look).axes
    assert [one.get_ylabel() for one in axes[:2]] == ["layer 3", "layer 4"]
    assert axes[0].get_title() == "head 0"
