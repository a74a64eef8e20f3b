"""Character GPT recipe: a GPT learns to write text character by character."""

import math
import re

from ...data import CharTokenizer, TextBatches, baselines, default_text, read_text, split_text
from ...data.baselines import COUNTING
from ...data.batches import windows
from ...errors import CheckpointError
from ...generation import sample
from ...models import GPT
from ...nn.functional import cross_entropy
from ...nn.init import skip_init
from ...schema import TEXT, record
from ...tensor import tensor
from ..checkpoint import model_state
from ..loop import mean_loss
from ..run_folder import RunFolder
from . import check_run
from .base import Recipe, Target, digest
from .gradients import check_blocks, show_gradient_check
from .options import Option, common_options

__all__ = ["CharacterGPT", "a_sentence", "trained_gpt"]

_EVALUATION_BATCH = 48
_EVALUATION_WINDOWS = 1024
_SAMPLE_LENGTH = 400


class CharacterGPT(Recipe):
    """Train a GPT on the characters of a text.

    This is the model of `mta tour`, with all sizes and settings as options. Ctrl-C saves a
    checkpoint and stops. `--resume` continues as if the run had not been stopped.

    Parameters
    ----------
    options : dict
        Values for the names in `OPTIONS`. Missing options have their default values.

    Attributes
    ----------
    tokenizer : CharTokenizer
    training_ids, validation_ids : array of int64
    validation_text : str
    model : GPT

    Examples
    --------
    >>> recipe = CharacterGPT({"layers": 1, "dim": 16, "context": 8, "steps": 2})
    >>> sorted(recipe.baselines(), key=recipe.baselines().get)
    ['bigram', 'unigram', 'uniform']
    """

    name = "gpt"
    summary = "a GPT learns to write, one character at a time"
    headline = "A GPT learns to write, one character at a time."
    target = Target(
        "validation_loss", 1.5, "validation loss", higher_is_better=False, percent=False
    )
    unit = "tokens"
    noun = "text"
    data_hint = "use the same text file; without --text, use the same version of Python"
    lowest_rate = 0.1
    splits = ("data", "tensor", "sequence")
    OPTIONS = (
        Option(
            "text", None, "UTF-8 text file to learn from.  [default: Python's help topics]", "file"
        ),
        *common_options(steps=1500, lr=3e-3, batch=12, layers=4, dim=128, weight_decay=0.1),
        Option("context", 64, "Number of characters in a training window."),
    )

    def prepare(self):
        """Read the text and split it."""
        options = self.options
        if options["text"] is None:
            name, text = "the help topics of Python", default_text()
        else:
            name, text = str(options["text"]), read_text(options["text"])
        self.tokenizer = CharTokenizer.from_text(text)
        self.vocabulary = self.tokenizer.vocabulary
        training, self.validation_text = split_text(text, options["context"], name=name)
        self.training_ids = self.tokenizer.encode(training)
        self.validation_ids = self.tokenizer.encode(self.validation_text)
        return {"name": name, "characters": len(text), "sha256": digest(text)}

    def build(self):
        """Create a GPT of the size chosen in the options."""
        return _gpt(self.options, len(self.tokenizer))

    def baselines(self):
        """Return the validation losses of models that only count tokens; see `data.baselines`."""
        return baselines(self.training_ids, self.validation_ids, len(self.tokenizer))

    @property
    def units_per_step(self):
        """Number of predicted characters per step."""
        return self.options["batch"] * self.options["context"]

    def batches(self):
        """Return random windows from the first nine tenths of the text."""
        options = self.options
        return TextBatches(
            self.training_ids, options["batch"], options["context"], options["seed"],
            options["device"],
        )  # fmt: skip

    def loss(self, model, batch):
        """Return the mean cross-entropy of the next character over all positions of the batch."""
        inputs, targets = batch  # (batch, token)
        logits = model(inputs)  # (batch, token, vocabulary)
        return cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))

    def evaluate(self, model):
        """Return the mean loss over the validation text, or over evenly spaced windows in it."""
        pairs = windows(
            self.validation_ids, _EVALUATION_BATCH, self.options["context"], self.options["device"],
            _EVALUATION_WINDOWS,
        )  # fmt: skip
        return mean_loss(model, pairs, self.loss)

    def measure(self, metrics):
        """Return the validation loss after the last step."""
        return {"validation_loss": metrics[-1]["validation_loss"]}

    # Report

    def facts(self):
        """Describe the sizes of the text, the model and the training run."""
        options = self.options
        return [
            (
                "text",
                f"{self.data['name']}: {self.data['characters']:,} characters, "
                f"{len(self.tokenizer)} different",
            ),
            ("model", self.model_text()),
            (
                "training",
                f"{options['steps']:,} steps of {options['batch']} x {options['context']} "
                f"characters, {options['dtype']} on {options['device']}",
            ),
        ]

    def preface(self, page):
        """Print the losses of models that only count tokens."""
        page.text(
            "The loss is the mean of -log p(next character), in nats. On the last tenth of\n"
            "the text, which the model is not trained on, these simple models have the loss:\n"
        )
        page.table([(f"{v:.3f}", name, COUNTING[name]) for name, v in page.baselines.items()])

    def show(self, page, measured):
        """Show the loss, the baselines, a gradient check, a sample and figures."""
        self._compare(page, measured["validation_loss"])
        right = show_gradient_check(page, check_blocks(self.model, self.validation_ids))
        self._write_sample(page)
        self._draw(page)
        return right

    def _compare(self, page, loss):
        rows = [(f"{value:.3f}", name) for name, value in page.baselines.items()]
        rows.append((f"{loss:.3f}", "this model"))
        page.table([(*row, f"{math.exp(min(float(row[0]), 700)):.3g}") for row in rows])
        page.text(
            "\nThird column: the perplexity exp(loss), the number of equally likely characters\n"
            "among which a guess has this loss."
        )

    def _write_sample(self, page):
        prompt = "The " if set("The ") <= set(self.vocabulary) else self.validation_text[:4]
        ids = sample(
            self.model, self.tokenizer.encode(prompt), _SAMPLE_LENGTH, temperature=0.8,
            seed=self.options["seed"],
        )  # fmt: skip
        text = self.tokenizer.decode(ids)
        page.heading(f"What it writes after {prompt!r}")
        page.text("\n".join("  " + line for line in text.splitlines()))
        page.write("sample.txt", text + "\n", "text that the model wrote")

    def _draw(self, page):
        page.draw_loss(f"Character GPT on {self.data['name'].rsplit('/', 1)[-1]}")
        sentence = a_sentence(self.validation_text, min(40, self.options["context"]))
        ids = tensor([self.tokenizer.encode(sentence)], device=self.options["device"])
        figure = page.viz.attention_figure(
            page.viz.attention_maps(self.model, ids),
            list(sentence),
            f"Attention of every head, reading: {sentence.strip()!r}",
        )
        page.save("attention.png", figure, "the attention map of every head")

    def next_steps(self):
        """Suggest commands to run next: longer training, or training on your own text."""
        return [
            (("train", "gpt", "--minutes", 10), "train longer"),
            (("train", "gpt", "--text", "FILE"), "learn from your own text"),
            (("train", "gpt", "--help"), "see every option"),
        ]

    def last_words(self, folder):
        """Suggest which files to look at and read next."""
        return (
            f"Look at {folder / 'attention.png'}, then read minitorch_attn/ops/attention/ and\n"
            "minitorch_attn/models/gpt.py. Both are short."
        )


def a_sentence(text, length):
    """Return a sentence with at most `length` characters, or the first characters of the text."""
    found = re.findall(r"(?<=[.] )[A-Z][a-z]+(?: [a-z,]+){3,}\.", text.replace("\n", " "))
    fitting = [sentence for sentence in found if len(sentence) <= length]
    return max(fitting, key=len) if fitting else text[:length]


def _gpt(options, vocab_size):
    return GPT(
        vocab_size=vocab_size, context_length=options["context"], embed_dim=options["dim"],
        num_heads=options["heads"], num_layers=options["layers"], dropout=options["dropout"],
    )  # fmt: skip


def trained_gpt(folder, device="cpu"):
    """Load the model that a run of this recipe trained, and its tokenizer.

    Parameters
    ----------
    folder : str or path
        Run folder. The training text is not needed.
    device : str or Device, default "cpu"

    Returns
    -------
    model : GPT
        Model from the newest checkpoint, in eval mode.
    tokenizer : CharTokenizer

    Raises
    ------
    CheckpointError
        If the checkpoint is missing, or the run belongs to a different recipe.
    """
    run = RunFolder.open(folder)
    options = check_run(run)
    command = run.config.get("command", "tour")
    if command not in ("tour", "train gpt"):
        raise CheckpointError(
            f"{folder} is not a run of a character GPT",
            got=f"a run of `mta {command}`", expected="a run of `mta tour` or `mta train gpt`",
        )  # fmt: skip
    run.check_config(record({"vocabulary": TEXT}))
    tokenizer = CharTokenizer(run.config["vocabulary"])
    _, state = run.checkpoints.load(device=device)
    with skip_init():
        model = _gpt(options, len(tokenizer))
    model.to(options["dtype"]).to(device).load_state_dict(model_state(state, folder))
    return model.eval(), tokenizer
