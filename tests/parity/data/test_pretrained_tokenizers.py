"""Tokenizers in folders that transformers saves."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minitorch_attn.data import default_text
from minitorch_attn.data.tokenizers import ByteBPE, LibraryTokenizer, from_pretrained
from minitorch_attn.errors import DataError

tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")
LINES = default_text()[:50_000].splitlines()
TEXTS = st.text(max_size=30) | st.sampled_from(LINES)
EASY = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def compare(ours, theirs, text):
    ids = theirs(text)["input_ids"]
    assert ours.encode(text) == ids
    if isinstance(ours, LibraryTokenizer):
        bare = theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.encode(text, add_special_tokens=False) == bare
    assert ours.decode(ids) == theirs.decode(ids, clean_up_tokenization_spaces=False)
    skipped = theirs.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    assert ours.decode(ids, skip_special_tokens=True) == skipped


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2")
    (folder / "text.txt").write_text("\n".join(LINES), encoding="utf-8", newline="")
    ByteBPE.train(folder / "text.txt", 600, ["<|endoftext|>"]).save(folder / "two files")
    theirs = transformers.GPT2Tokenizer.from_pretrained(folder / "two files")
    theirs.save_pretrained(folder / "one file")
    return from_pretrained(folder / "one file"), theirs


@EASY
@given(text=TEXTS)
def test_gpt2_as_transformers_writes_it(gpt2, text):
    assert isinstance(gpt2[0], ByteBPE)
    compare(*gpt2, text)
    compare(*gpt2, f"{text}<|endoftext|>{text}")


@pytest.fixture(scope="module", params=[True, False])
def bert(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=500, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    )
    library = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    library.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=request.param)
    library.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    library.train_from_iterator(LINES, trainer)
    words = sorted(library.get_vocab(), key=library.token_to_id)
    (folder / "vocab.txt").write_text("".join(f"{w}\n" for w in words), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(
        f'{{"tokenizer_class": "BertTokenizer", "do_lower_case": {str(request.param).lower()}}}'
    )
    theirs = transformers.BertTokenizer.from_pretrained(folder)
    return from_pretrained(folder), theirs


@EASY
@given(text=TEXTS)
def test_bert_from_vocab_txt(bert, text):
    compare(*bert, text)
    compare(*bert, f"[MASK] {text} [SEP] Éa")


def test_unigram_from_tokenizer_json(tmp_path):
    library = tokenizers.Tokenizer(tokenizers.models.Unigram())
    library.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    library.decoder = tokenizers.decoders.Metaspace()
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=300, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>"
    )
    library.train_from_iterator(LINES, trainer)
    library.enable_truncation(4)  # transformers leaves truncation to each call, and so do we
    library.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    library.save(str(tmp_path / "tokenizer.json"))
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    ours = from_pretrained(tmp_path)
    assert ours.special_tokens == {"<pad>": 0, "</s>": 1, "<unk>": 2}
    assert len(ours) == len(theirs)
    for text in LINES[:200]:
        compare(ours, theirs, text)


def test_what_is_no_tokenizer(tmp_path):
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "Other"}}')
    with pytest.raises(DataError, match="is not a tokenizer"):
        from_pretrained(tmp_path)
