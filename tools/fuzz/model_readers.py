"""Readers of models: checkpoints, safetensors, model folders of each family, tokenizers, runs."""

import io
import json

import numpy as np

import minitorch_attn as mt
from minitorch_attn.cli.model_folder import is_run, model_class
from minitorch_attn.cli.overview import overview
from minitorch_attn.data import ImageProcessor, tokenizers
from minitorch_attn.folder_lock import holder_of
from minitorch_attn.models.pretrained.registry import find_class, find_timm_class, from_pretrained
from minitorch_attn.serialization import read_safetensors
from minitorch_attn.training import Checkpoints, RunFolder
from minitorch_attn.training.recipes.character_gpt import trained_gpt

from .reader import Reader, write_json

__all__ = ["MODEL_READERS"]

# Model folders: class, sizes, and the kind of input

_TEXT = {"vocab_size": 11, "max_position_embeddings": 16}
_TWO_SIDED = dict(
    _TEXT, d_model=6, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
    decoder_attention_heads=2, encoder_ffn_dim=5, decoder_ffn_dim=5, pad_token_id=1,
    decoder_start_token_id=2, eos_token_id=2, forced_eos_token_id=2, bos_token_id=0,
)  # fmt: skip
_IMAGE = dict(
    image_size=8, patch_size=4, hidden_size=8, num_attention_heads=2, num_hidden_layers=1,
    intermediate_size=5,
)  # fmt: skip
_STAGES = dict(image_size=8, patch_size=1, embed_dim=6, depths=[1, 1], num_heads=[1, 2],
               window_size=4, id2label={"0": "a", "1": "b"})  # fmt: skip
_FAMILIES = {
    "GPT2LMHeadModel": dict(vocab_size=11, n_positions=16, n_embd=6, n_layer=1, n_head=2,
                            bos_token_id=0, eos_token_id=1),
    "GPT2ForSequenceClassification": dict(vocab_size=11, n_positions=16, n_embd=6, n_layer=1,
                                          n_head=2, pad_token_id=0, id2label={"0": "a", "1": "b"}),
    "LlamaForCausalLM": dict(_TEXT, hidden_size=8, intermediate_size=5, num_hidden_layers=1,
                             num_attention_heads=2, num_key_value_heads=1, head_dim=4,
                             rope_scaling={"rope_type": "llama3", "factor": 8.0,
                                           "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                           "original_max_position_embeddings": 8}),
    "BertForMaskedLM": dict(_TEXT, hidden_size=6, num_hidden_layers=1, num_attention_heads=2,
                            intermediate_size=5),
    "BartForConditionalGeneration": _TWO_SIDED,
    "MarianMTModel": dict(_TWO_SIDED, decoder_vocab_size=11),
    "T5ForConditionalGeneration": dict(vocab_size=11, d_model=6, d_kv=3, d_ff=5, num_layers=1,
                                       num_decoder_layers=1, num_heads=2,
                                       decoder_start_token_id=0),
    "ViTForImageClassification": dict(_IMAGE, id2label={"0": "a", "1": "b"}),
    "DeiTForImageClassification": dict(_IMAGE, id2label={"0": "a", "1": "b"}),
    "ViTMAEForPreTraining": dict(_IMAGE, decoder_hidden_size=8, decoder_num_hidden_layers=1,
                                 decoder_num_attention_heads=2, decoder_intermediate_size=5),
    "SwinForImageClassification": _STAGES,
    "Swinv2ForImageClassification": _STAGES,
}  # fmt: skip
_TIMM = {
    "vit_base_patch16_224": dict(img_size=8, patch_size=4, embed_dim=6, depth=1, num_heads=2,
                                 mlp_ratio=2.0, init_values=0.1, reg_tokens=1),
    "swin_tiny_patch4_window7_224": dict(img_size=8, patch_size=1, embed_dim=6, window_size=4,
                                         depths=[1, 1], num_heads=[1, 2]),
    "swinv2_tiny_window8_256": dict(img_size=8, patch_size=1, embed_dim=6, window_size=4,
                                    depths=[1, 1], num_heads=[1, 2]),
    "resnet50": dict(layers=[1, 1], channels=[4, 6]),
}  # fmt: skip
_CFG = {
    "architecture": "x", "input_size": [3, 8, 8], "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5],
    "crop_pct": 0.9, "crop_mode": "center", "interpolation": "bicubic", "fixed_input_size": True,
    "num_classes": 5,
}  # fmt: skip
_GENERATION = {
    "max_length": 8, "min_length": 1, "num_beams": 2, "num_return_sequences": 1,
    "length_penalty": 1.5, "early_stopping": True, "do_sample": False, "temperature": 0.7,
    "top_k": 3, "top_p": 0.9, "repetition_penalty": 1.1, "no_repeat_ngram_size": 2,
    "suppress_tokens": [3], "begin_suppress_tokens": [4], "bad_words_ids": [[5, 6]],
    "eos_token_id": [1], "pad_token_id": 1, "bos_token_id": 0, "forced_eos_token_id": 1,
    "exponential_decay_length_penalty": [2, 1.5], "use_cache": True, "renormalize_logits": True,
    "min_new_tokens": 1, "remove_invalid_values": True, "transformers_version": "4.0.0",
}  # fmt: skip
_SAMPLING = {
    **_GENERATION, "num_beams": 1, "do_sample": True, "typical_p": 0.9, "epsilon_cutoff": 0.01,
    "eta_cutoff": 0.01, "min_p": 0.01, "top_h": 0.9, "max_new_tokens": 3, "length_penalty": 1.0,
    "early_stopping": False, "sequence_bias": [[[3], -1.0]],
}  # fmt: skip
# Fields that no model reads. They may have any value.
_UNREAD = {"transformers_version", "dtype", "model_type", "pretraining_tp", "label2id"}


def _make_family(name):
    def make(folder):
        cls = find_class(name)
        model = cls({**_plain(cls.defaults), **_FAMILIES[name]})
        model.save_pretrained(folder)

    return make


def _plain(fields):
    return json.loads(json.dumps(fields))


def _make_timm(name):
    def make(folder):
        sizes = {"architecture": name, "num_classes": 5, "model_args": _TIMM[name]}
        find_timm_class(name)({**sizes, "pretrained_cfg": _CFG}).save_pretrained(folder)

    return make


def _use_model(folder):
    """Load a model and run it once."""
    model_class(folder)
    model = from_pretrained(folder)
    name = type(model).__name__
    if hasattr(model, "forward_features") or name.startswith(("ViT", "DeiT", "Swin")):
        return model(mt.zeros(1, 3, 8, 8))
    ids = mt.tensor([[2, 3, 2]])
    more = {"decoder_input_ids": ids} if model.config.get("is_encoder_decoder") else {}
    return model(input_ids=ids, **more)


def _use_leniently(folder):
    """Load a model whose file may lack tensors.

    Skip configs without sizes, because the default sizes would make a large model.
    """
    text = (folder / "config.json").read_bytes()
    if not all(name in text for name in (b'"vocab_size"', b'"n_embd"', b'"n_layer"')):
        return None
    return find_class("GPT2LMHeadModel").from_pretrained(folder, strict=False)


def _make_generation(settings):
    def make(folder):
        _make_family("GPT2LMHeadModel")(folder)
        write_json(folder / "generation_config.json", settings)

    return make


def _generate(folder):
    model = from_pretrained(folder)
    ids = mt.tensor([[2, 3]])
    if model.generation_config.get("max_new_tokens") is None:
        length = model.generation_config.get("max_length")
        if not isinstance(length, int) or length > 100:
            return model.generate(ids, max_new_tokens=3)
    elif model.generation_config["max_new_tokens"] > 100:
        return None  # generating a long text is valid, but slow
    return model.generate(ids)


def _make_shards(folder):
    _make_family("GPT2LMHeadModel")(folder)
    mt.models.pretrained.GPT2LMHeadModel.from_pretrained(folder).save_pretrained(
        folder, max_shard_size=1000
    )


def _save_again(folder):
    """Save a model to a folder that already contains a model in several files (shards).

    Saving reads the folder's mutated index, model.safetensors.index.json, to find the old shards.
    """
    return mt.models.pretrained.GPT2LMHeadModel(_FAMILIES["GPT2LMHeadModel"]).save_pretrained(
        folder
    )


# Checkpoints

_STATE = {
    "step": 3, "rates": (0.1, float("inf")), "names": {1: "a", 2: None}, "flag": True,
    "model": {"weight": mt.tensor([[1.0, 2.0]]), "bias": mt.tensor([3.0])},
    "array": np.arange(3), "scalar": np.float32(2),
}  # fmt: skip


def _save_state(folder):
    mt.save(_STATE, folder / "a.safetensors")


def _load_state(folder):
    state = mt.load(folder / "a.safetensors")
    if isinstance(state, dict) and "model" in state:
        mt.nn.Linear(2, 1).load_state_dict(state["model"])


def _load_open_file(folder):
    return mt.load(io.BytesIO((folder / "a.safetensors").read_bytes()))


def _make_optimizer(folder):
    layer = mt.nn.Linear(2, 1)
    optimizer = mt.optim.AdamW(layer.parameters(), lr=0.1)
    schedule = mt.optim.lr_scheduler.StepLR(optimizer, step_size=2)
    layer(mt.ones(3, 2)).sum().backward()
    optimizer.step()
    state = {"optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}
    mt.save(state, folder / "a.safetensors")


def _load_optimizer(folder):
    state = mt.load(folder / "a.safetensors")
    if not isinstance(state, dict) or set(state) != {"optimizer", "schedule"}:
        return
    layer = mt.nn.Linear(2, 1)
    optimizer = mt.optim.AdamW(layer.parameters(), lr=0.1)
    schedule = mt.optim.lr_scheduler.StepLR(optimizer, step_size=2)
    optimizer.load_state_dict(state["optimizer"])
    schedule.load_state_dict(state["schedule"])
    layer(mt.ones(3, 2)).sum().backward()
    optimizer.step()
    schedule.step()


def _make_plain(folder):
    from minitorch_attn.serialization import write_safetensors

    arrays = {"a": np.ones((2, 3), "f4"), "b": np.arange(5), "c": np.ones((), "f2")}
    write_safetensors(folder / "a.safetensors", arrays, {"format": "pt"})


# Tokenizers and images


def _make_tokenizer(folder):
    path = folder / "text.txt"
    path.write_text("low lower lowest\n" * 3, encoding="utf-8")
    tokenizers.ByteBPE.train(path, 262, ["<|end|>"]).save(folder)
    path.unlink()
    write_json(folder / "special_tokens_map.json", {"eos_token": {"content": "<|end|>"}})
    write_json(folder / "added_tokens.json", {"<|more|>": 262})


def _make_tokenizer_json(folder):
    _make_tokenizer(folder)
    vocab = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    first, *merges = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()[1:]
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    write_json(folder / "tokenizer.json", {
        "model": {"type": "BPE", "vocab": vocab, "merges": [first.split(" "), *merges]},
        "pre_tokenizer": level, "post_processor": level, "normalizer": None, "decoder": level,
        "added_tokens": [{"content": "<|end|>", "id": 261, "single_word": False}],
    })  # fmt: skip


def _make_word_pieces(folder):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "low", "##er"]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    write_json(folder / "tokenizer_config.json", {
        "do_lower_case": True, "unk_token": "[UNK]", "strip_accents": None,
        "tokenize_chinese_chars": True,
    })  # fmt: skip


def _use_tokenizer(folder):
    tokenizer = tokenizers.from_pretrained(folder)
    ids = tokenizer.encode("low lower <|end|>")
    tokenizer.decode(ids)


def _use_two_files(folder):
    tokenizer = tokenizers.ByteBPE.from_files(folder / "vocab.json", folder / "merges.txt")
    tokenizer.decode(tokenizer.encode("low lower"))


_PREPROCESSOR = {
    "do_resize": True, "size": {"height": 8, "width": 8}, "do_rescale": True, "do_normalize": True,
    "rescale_factor": 0.004, "resample": 2, "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5], "image_processor_type": "ViTImageProcessor",
}  # fmt: skip
_CLIP = {
    **_PREPROCESSOR, "size": {"shortest_edge": 9}, "crop_size": {"height": 8, "width": 8},
    "do_center_crop": True, "image_processor_type": "CLIPImageProcessor", "do_pad": False,
}  # fmt: skip


def _use_processor(folder):
    processor = ImageProcessor.from_pretrained(folder)
    return processor(np.zeros((5, 7, 3), np.uint8))


# Run folders


def _make_run(folder):
    run = RunFolder.create(folder / "run", {
        "minitorch_attn": mt.__version__, "command": "train gpt", "vocabulary": "abc",
        "options": {"steps": 3, "dim": 6, "heads": 2, "layers": 1, "context": 4, "dropout": 0.0,
                    "dtype": "float32", "device": "cpu", "batch": 2, "seed": 1},
    })  # fmt: skip
    run.log({"step": 1, "loss": 2.5})
    run.log({"step": 3, "loss": 2.25, "validation_loss": 2.0, "seconds": 0.5})
    run.unlock()
    config = run.config["options"]
    model = mt.models.GPT(3, config["context"], config["dim"], config["heads"], config["layers"])
    run.checkpoints.save(3, {"model": model.state_dict(), "config": run.config})


def _use_run(folder):
    path = folder / "run"
    run = RunFolder.open(path)
    run.metrics()
    run.cut_metrics(after=2)
    is_run(path)
    holder_of(path)
    trained_gpt(path)


def _use_overview(folder):
    import contextlib

    with contextlib.redirect_stdout(io.StringIO()):
        overview(folder)


def _load_checkpoint(folder):
    checkpoints = Checkpoints(folder / "run" / "checkpoints")
    checkpoints.load()


def _files(*names, kind="json"):
    return dict.fromkeys(names, kind)


_RUN_FILES = {
    "run/config.json": "json", "run/metrics.jsonl": "jsonl",
    "run/checkpoints/step-00000003.safetensors": "state",
}  # fmt: skip
_TOKENIZER_FILES = {
    "vocab.json": "json", "merges.txt": "text", "tokenizer_config.json": "json",
    "special_tokens_map.json": "json", "added_tokens.json": "json",
}  # fmt: skip
_CONFIG = _files("config.json")

MODEL_READERS = [
    Reader("mt.load", _save_state, _load_state, {"a.safetensors": "state"}),
    Reader("mt.load header", _save_state, _load_state, {"a.safetensors": "safetensors"}),
    Reader("mt.load open file", _make_plain, _load_open_file, {"a.safetensors": "safetensors"}),
    Reader("optimizer state", _make_optimizer, _load_optimizer, {"a.safetensors": "state"}),
    Reader(
        "read_safetensors", _make_plain, lambda folder: read_safetensors(folder / "a.safetensors"),
        {"a.safetensors": "safetensors"},
    ),
    *(
        Reader(name, _make_family(name), _use_model, _CONFIG, _UNREAD)
        for name in _FAMILIES
    ),
    *(
        Reader(f"timm {name}", _make_timm(name), _use_model, _CONFIG, _UNREAD | {
            "mean", "std", "crop_pct", "crop_mode", "interpolation", "pretrained_cfg"})
        for name in _TIMM
    ),
    Reader("strict=False", _make_family("GPT2LMHeadModel"), _use_leniently, _CONFIG,
           _UNREAD | {"architectures"}),
    Reader(
        "model tensors", _make_family("BertForMaskedLM"), _use_model,
        {"model.safetensors": "safetensors"},
    ),
    Reader(
        "shards", _make_shards, _use_model, {"model.safetensors.index.json": "json"}, {"metadata"}
    ),
    Reader("save over shards", _make_shards, _save_again,
           {"model.safetensors.index.json": "json"}, {"metadata", "weight_map"}),
    Reader("beam search settings", _make_generation(_GENERATION), _generate,
           _files("generation_config.json"), _UNREAD | {("eos_token_id",)}),
    Reader("sampling settings", _make_generation(_SAMPLING), _generate,
           _files("generation_config.json"), _UNREAD | {("eos_token_id",)}),
    Reader("tokenizer folder", _make_tokenizer, _use_tokenizer, _TOKENIZER_FILES,
           {"special", "normalized", ("eos_token",)}),
    Reader("tokenizer.json", _make_tokenizer_json, _use_tokenizer, _files("tokenizer.json"),
           {"decoder", "pre_tokenizer", "post_processor", "model", "added_tokens"}),
    Reader("vocab.txt", _make_word_pieces, _use_tokenizer,
           {"vocab.txt": "text", "tokenizer_config.json": "json"}),
    Reader("ByteBPE.from_files", _make_tokenizer, _use_two_files,
           {"vocab.json": "json", "merges.txt": "text"}),
    Reader("image processor", lambda f: write_json(f / "preprocessor_config.json", _PREPROCESSOR),
           _use_processor, _files("preprocessor_config.json"), {("size",), ("crop_size",)}),
    Reader("image processor CLIP", lambda f: write_json(f / "preprocessor_config.json", _CLIP),
           _use_processor, _files("preprocessor_config.json"), {("size",), ("crop_size",)}),
    Reader("pretrained_cfg", lambda f: write_json(f / "config.json", {"pretrained_cfg": _CFG}),
           _use_processor, _CONFIG, {"architecture", "num_classes", "fixed_input_size"}),
    Reader("run folder", _make_run, _use_run, _RUN_FILES, {"batch", "seed", "model", "steps"}),
    Reader("overview", _make_run, _use_overview, _RUN_FILES, {""}),
    Reader("checkpoints", _make_run, _load_checkpoint,
           {"run/checkpoints/step-00000003.safetensors": "safetensors"}),
]  # fmt: skip
