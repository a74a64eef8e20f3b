"""Attention weights for `mta attn`: record them while a model reads a text or an image."""

import math
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np

from ..autograd import no_grad
from ..backend import to_host
from ..errors import ArgumentError
from ..nn import AdditiveAttention, LuongAttention, collect_attention, evaluating
from ..tensor import tensor
from .model_folder import is_run, model_class

__all__ = ["Look", "Part", "look_at_image", "look_at_text"]

_LONGEST_ANSWER = 60
_TOKEN_BY_TOKEN = (AdditiveAttention, LuongAttention)


@dataclass
class Part:
    """Attention weights of one layer.

    Parameters
    ----------
    name : str
        Path of the attention layer in the model.
    weights : float array of shape (heads, query, key)
    queries, keys : list of str
        Token labels.
    kind : {"self", "cross", "window"}
    note : str, default ""
        Note to display, for example that windows are averaged.
    """

    name: str
    weights: np.ndarray
    queries: list
    keys: list
    kind: str = "self"
    note: str = ""


@dataclass
class Look:
    """Attention weights of one forward pass.

    Parameters
    ----------
    title : str
    parts : list of Part
        One part per attention layer.
    answer : str or None
        Output text, if the model is an encoder-decoder.
    image : float array of shape (channels, height, width) or None
    grid : (int, int) or None
        Number of patch rows and columns, or None for a text.
    prefix : int
        Number of tokens before the patches.
    first : int
        Index of the first part's layer among the attention layers of the model.
    note : str, default ""
        Note about the input, for example that the text was truncated.
    """

    title: str
    parts: list = field(default_factory=list)
    answer: str | None = None
    image: np.ndarray | None = None
    grid: tuple | None = None
    prefix: int = 0
    first: int = 0
    note: str = ""


def look_at_text(folder, text):
    """Run a model on text, and return its attention weights.

    Parameters
    ----------
    folder : str or path
        Run folder of `mta train`, or folder of published weights with their tokenizer.
    text : str

    Returns
    -------
    Look
    """
    if not text:
        raise ArgumentError("--text must not be empty", hint="use --text 'a few words'")
    look = (_run_on_text if is_run(folder) else _pretrained_on_text)(folder, text)
    if not look.parts:
        raise ArgumentError(f"{folder}: the model does not have an attention layer to show")
    return look


def look_at_image(folder, path):
    """Run a model on an image, and return its attention weights.

    Parameters
    ----------
    folder : str or path
        Run folder of `mta train`, or folder of published weights.
    path : str or path
        Image file.

    Returns
    -------
    Look
    """
    model, pixels = (_run_on_image if is_run(folder) else _pretrained_on_image)(folder, path)
    found = _watch(model, lambda: model(pixels))
    look = Look(f"{type(model).__name__} reads {path}", image=to_host(pixels.array)[0])
    for name, weights in found:
        look.parts.append(_image_part(name, weights, look))
    return look


# Text


def _run_on_text(folder, text):
    from ..training import RunFolder

    command = RunFolder.open(folder).config.get("command", "tour")
    if command in ("tour", "train gpt"):
        from ..training.recipes.character_gpt import trained_gpt

        model, tokenizer = trained_gpt(folder)
        limit = model.context_length
        note, text = _cut_note(len(text), limit, "last", "characters"), text[-limit:]
        ids = tensor(np.asarray([tokenizer.encode(text)]))
        return _self_attention(model, lambda: model(ids), list(text), f"GPT reads {text!r}", note)
    recipe = _trained_recipe(folder)
    if recipe.name == "bert":
        return _read_with_bert(recipe, text)
    if recipe.name in ("dates", "t5", "seq2seq"):
        return _read_and_write(recipe, text)
    raise ArgumentError(f"{folder}: the model reads images, not text", hint="use --image FILE")


def _trained_recipe(folder):
    """Load the recipe of a run with the weights from its latest checkpoint."""
    from ..training import RunFolder
    from ..training.checkpoint import model_state
    from ..training.recipes import check_run, load_recipe

    run = RunFolder.open(folder)
    options = {**check_run(run), "device": "cpu"}
    name = run.config.get("command", "tour").removeprefix("train ")
    if name == "captions":
        raise ArgumentError(
            f"{folder}: captioning models are not supported", hint=f"open {folder}/captions.png"
        )
    recipe = load_recipe(name)(options)
    _, state = run.checkpoints.load(device="cpu")
    recipe.model.load_state_dict(model_state(state, folder))
    recipe.model.eval()
    return recipe


def _read_with_bert(recipe, text):
    ids, limit = np.asarray(recipe.tokenizer.encode(text)), recipe.options["words"]
    note, ids = _cut_note(len(ids), limit, "first", "words"), ids[:limit]
    from ..training.recipes.bert import framed

    framed_ids = framed(ids[None])
    labels = [recipe.tokenizer.vocabulary[i] for i in framed_ids[0]]
    model = recipe.model.language
    inputs = tensor(framed_ids)
    return _self_attention(model, lambda: model(inputs), labels, f"BERT reads {text!r}", note)


def _read_and_write(recipe, text):
    """Generate the model's answer, then record its attention with this answer as the target."""
    unknown = sorted(set(text) - set(recipe.vocabulary))
    if unknown:
        raise ArgumentError(
            "--text must contain only characters of the model's vocabulary",
            got=" ".join(map(repr, unknown)),
            expected=f"only {recipe.vocabulary!r}",
        )
    models = recipe.models_with_attention()
    answers = [recipe.answers([text], model=model)[0] for model in models.values()]
    look = Look(f"{text!r} becomes {answers[0]!r}", answer=answers[0])
    for (path, model), answer in zip(models.items(), answers, strict=True):
        ids = [tensor(recipe.tokenizer.encode([part])) for part in (text, answer)]
        found = _watch(model, lambda m=model, ids=ids: recipe.teacher_forced(m, *ids))
        labels = [*text, "[END]"], ["[START]", *answer], [*answer, "[END]"]
        look.parts += [_two_sided(path + name, weights, *labels) for name, weights in found]
    return look


def _pretrained_on_text(folder, text):
    from ..data.tokenizers import from_pretrained as read_tokenizer
    from ..models.pretrained.registry import from_pretrained

    cls, fields = model_class(folder)
    if "image_size" in fields or "architecture" in fields:
        raise ArgumentError(f"{folder}: {cls.__name__} requires an image", hint="use --image FILE")
    tokenizer = read_tokenizer(folder)
    model = from_pretrained(folder, "float32")
    ids = list(tokenizer.encode(text))
    title = f"{cls.__name__} reads {text!r}"
    if not model.config.get("is_encoder_decoder", False):
        limit = model.config.get("max_position_embeddings") or len(ids)
        note, ids = _cut_note(len(ids), limit, "first", "tokens"), ids[:limit]
        inputs = tensor([ids], dtype="int64")
        return _self_attention(model, lambda: model(inputs), _pieces(tokenizer, ids), title, note)
    inputs = tensor([ids], dtype="int64")
    with no_grad():
        written = model.generate(inputs, max_new_tokens=_LONGEST_ANSWER)
    decoder_ids = to_host(written.array)[:1]
    answer = tokenizer.decode(decoder_ids[0].tolist(), skip_special_tokens=True)
    fed = tensor(decoder_ids[:, :-1])
    found = _watch(model, lambda: model(input_ids=inputs, decoder_input_ids=fed))
    pieces = _pieces(tokenizer, decoder_ids[0].tolist())
    labels = _pieces(tokenizer, ids), pieces[:-1], pieces[1:]
    look = Look(f"{title} and writes {answer!r}", answer=answer)
    look.parts = [_two_sided(name, weights, *labels) for name, weights in found]
    return look


def _cut_note(count, limit, which, unit):
    """Return a note if the text is longer than the model can read, otherwise ""."""
    if count <= limit:
        return ""
    return f"The text has {count} {unit}; the model reads the {which} {limit} of them."


def _pieces(tokenizer, ids):
    """Return the text of each token."""
    return [tokenizer.decode([i]) or f"<{i}>" for i in ids]


# Images


def _run_on_image(folder, path):
    recipe = _trained_recipe(folder)
    if recipe.name not in ("vit", "swin", "mae"):
        raise ArgumentError(f"{folder}: the model reads text, not images", hint="use --text TEXT")
    from ..data.images import read_image
    from ..training.recipes.digits import centred

    grey = read_image(path).convert("L").resize((8, 8), 4)
    pixels = np.asarray(grey, dtype="float32") / 255
    if np.concatenate([pixels[0], pixels[-1]]).mean() > 0.5:
        pixels = 1 - pixels  # invert: the training digits are light on dark
    pixels = tensor(pixels[None, None])  # (1, 1, 8, 8)
    model = recipe.model
    if recipe.name == "mae":
        return model.encoder, pixels
    return model, centred(pixels)


def _pretrained_on_image(folder, path):
    from ..data.images import ImageProcessor
    from ..models.pretrained.registry import from_pretrained

    cls, fields = model_class(folder)
    if "vocab_size" in fields:
        raise ArgumentError(f"{folder}: {cls.__name__} requires text", hint="use --text TEXT")
    return from_pretrained(folder, "float32"), ImageProcessor.from_pretrained(folder)(path)


def _image_part(name, weights, look):
    """Label the tokens of an image, and average the weights over all windows."""
    windows, _, count, _ = weights.shape
    if windows > 1:
        side = math.isqrt(count)
        labels = [f"{i // side},{i % side}" for i in range(count)]
        note = f"mean over {windows} windows of {side} x {side} tokens"
        return Part(name, weights.mean(0), labels, labels, "window", note)
    prefix = next((p for p in range(3) if math.isqrt(count - p) ** 2 == count - p), 0)
    side = math.isqrt(count - prefix)
    labels = ["[CLS]", "[DIST]"][:prefix]
    labels += [f"{i // side},{i % side}" for i in range(count - prefix)]
    look.grid, look.prefix = (side, side), prefix
    return Part(name, weights[0], labels, labels)


# Collecting


def _watch(model, call):
    """Run `call()`. Return the path and the weights of each attention layer that it uses.

    The weights have the shape (batch, heads, query, key). If a recurrent decoder attends token by
    token, its weights are concatenated.
    """
    paths = {id(m): path for path, m in model.named_modules() if hasattr(m, "weight_hooks")}
    with evaluating(model) if model.training else nullcontext(), no_grad():
        with collect_attention(model) as found:
            call()
    layers = {}
    for place, (module, weights) in enumerate(found):
        key = paths[id(module)], 0 if isinstance(module, _TOKEN_BY_TOKEN) else place
        layers.setdefault(key, []).append(to_host(weights.array))
    return [(path, np.concatenate(steps, axis=2)) for (path, _), steps in layers.items()]


def _self_attention(model, call, labels, title, note=""):
    look = Look(title, note=note)
    for name, weights in _watch(model, call):
        look.parts.append(Part(name, weights[0], labels, labels))
    return look


def _two_sided(name, weights, sources, read, written):
    """Label an attention layer of an encoder-decoder according to its place in the model.

    The decoder's input tokens are its output tokens, shifted right by one position.
    """
    if "cross_attention" in name or name.endswith("decoder.attention"):  # of a recurrent decoder
        queries, keys, kind = written, sources, "cross"
    elif "decoder" in name.split("."):
        queries, keys, kind = read, read, "self"
    else:
        queries, keys, kind = sources, sources, "self"
    return Part(name, weights[0], queries[: weights.shape[-2]], keys[: weights.shape[-1]], kind)
