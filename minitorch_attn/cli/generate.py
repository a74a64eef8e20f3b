"""`mta generate`: generate text with a model, and print each token as it is generated."""

import sys
import time

import click

from ..errors import ArgumentError
from .console import console, printable
from .model_folder import is_run, model_class
from .source_line import Command

__all__ = ["generate"]

_WRITERS = ("LMHeadModel", "DoubleHeadsModel", "ForCausalLM", "ForConditionalGeneration", "MTModel")
_DRAWING = ("temperature", "top_k", "top_p", "seed")
_POSITIVE = click.IntRange(min=1)
_LENGTH = 100


@click.command(cls=Command, calls="generation/")
@click.argument("folder", metavar="FOLDER_OR_RUN", type=click.Path())
@click.option("--prompt", required=True, help="Text to continue; - reads standard input.")
@click.option("--max-new-tokens", type=_POSITIVE,
              help=f"Maximum number of new tokens.  [default: {_LENGTH}]")  # fmt: skip
@click.option("--greedy", is_flag=True, help="Take the most likely token instead of sampling.")
@click.option(
    "--temperature",
    type=click.FloatRange(min=0, min_open=True),
    help="Divisor of the logits; values below 1 favor likely tokens even more.",
)
@click.option("--top-k", type=_POSITIVE, help="Sample from this number of most likely tokens.")
@click.option(
    "--top-p",
    type=click.FloatRange(0, 1, min_open=True),
    help="Sample from the fewest tokens whose total probability is at least this.",
)
@click.option("--num-beams", type=_POSITIVE, help="Number of beams; 1 means no beam search.")
@click.option("--seed", type=click.IntRange(min=0), help="Random seed for sampling.")
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
def generate(folder, prompt, **options):
    """Continue, translate or summarize a prompt with a model.

    FOLDER_OR_RUN is a Hugging Face folder (config.json, model.safetensors and the tokenizer's
    files) or a run folder of `mta train gpt`. Each token appears when it is chosen. Decoders sample
    tokens. Encoder-decoders follow their generation_config.json (greedy or beam search), unless
    you ask for sampling with --temperature, --top-k, --top-p or --seed.
    """
    _check(options)
    if prompt == "-":
        prompt = sys.stdin.read()
    writer = (_Run if is_run(folder) else _Pretrained)(folder, options)
    screen, started = _Screen(), time.perf_counter()
    try:
        count = writer.write(prompt, screen)
    finally:
        screen.end()
    if screen.console.is_terminal:
        seconds = time.perf_counter() - started
        rate = count / max(seconds, 1e-9)  # a coarse clock may not have advanced
        click.echo(f"{count:,} tokens in {seconds:.1f} s, {rate:.0f} a second", err=True)


def _check(options):
    """Raise an error if options contradict each other, such as --greedy and --seed."""
    drawing = [name for name in _DRAWING if options[name] is not None]
    beams = (options["num_beams"] or 1) > 1
    if drawing and (options["greedy"] or beams):
        other = "--greedy" if options["greedy"] else "--num-beams"
        raise click.UsageError(
            f"{other} does not sample: remove --{drawing[0].replace('_', '-')} or {other}"
        )


class _Screen:
    """Shows text piece by piece. In a terminal the prompt is bold."""

    def __init__(self):
        self.console, self.last = console(), "\n"

    def write(self, text, style=None):
        """Show a piece of text."""
        if not text:
            return
        self.last = text[-1]
        if not self.console.is_terminal:
            sys.stdout.write(text)
        else:  # a model may generate control characters, which would disturb a terminal
            self.console.print(printable(text), style=style, end="")
        sys.stdout.flush()

    def end(self):
        """Write a newline if the last line is not complete."""
        if self.last != "\n":
            self.write("\n")


class _Run:
    """Generates text with the GPT from a run folder."""

    def __init__(self, folder, options):
        from ..training.recipes.character_gpt import trained_gpt

        if (options["num_beams"] or 1) > 1:
            raise click.UsageError("--num-beams is unavailable for run folders: use --greedy")
        self.options = options
        self.model, self.tokenizer = trained_gpt(folder, options["device"])

    def write(self, prompt, screen):
        """Write the prompt and its continuation, and return the number of new tokens."""
        from ..generation import sample_stream

        options, ids = self.options, self.tokenizer.encode(prompt)
        stream = sample_stream(
            self.model, ids, options["max_new_tokens"] or _LENGTH,
            temperature=0 if options["greedy"] else options["temperature"] or 1.0,
            top_k=options["top_k"], top_p=options["top_p"], seed=_seed(options),
        )  # fmt: skip
        screen.write(prompt, "bold")
        count = 0
        for count, token in enumerate(stream, 1):  # noqa: B007
            screen.write(self.tokenizer.decode([token]))
        return count


class _Pretrained:
    """Generates text with the model and the tokenizer from a Hugging Face folder."""

    def __init__(self, folder, options):
        from ..data.tokenizers import from_pretrained

        cls, _ = model_class(folder)
        if not cls.__name__.endswith(_WRITERS):
            raise ArgumentError(
                f"{folder}: the model does not generate text",
                got=cls.__name__,
                expected="a class whose name ends with "
                + ", ".join(_WRITERS[:-1])
                + f" or {_WRITERS[-1]}",
            )
        self.options = options
        self.tokenizer = from_pretrained(folder)
        fields, arrays = _contents(folder)
        self.model = cls.from_arrays(fields, arrays, folder, "float32", options["device"])

    def write(self, prompt, screen):
        """Write the model's output, and return the number of new tokens."""
        from ..generation import TextStreamer
        from ..tensor import tensor

        model, ids = self.model, self._ids(prompt)
        has_encoder = bool(model.config.get("is_encoder_decoder", False))
        settings = self._settings(has_encoder, len(ids))
        inputs = tensor([ids], dtype="int64") if ids else None
        if (settings.get("num_beams") or model.generation_config.get("num_beams") or 1) > 1:
            streamer = None
        else:
            styles = iter([None if has_encoder else "bold"])
            streamer = TextStreamer(
                self.tokenizer, has_encoder, lambda text: screen.write(text, next(styles, None)),
                skip_special_tokens=True,
            )  # fmt: skip
        rows = model.generate(inputs, streamer=streamer, seed=_seed(self.options), **settings)
        new = rows[0].numpy().tolist()
        if streamer is None:
            screen.write(self.tokenizer.decode(new, skip_special_tokens=True))
        return len(new) - (1 if has_encoder else max(len(ids), 1))

    def _ids(self, prompt):
        ids, config = list(self.tokenizer.encode(prompt)), self.model.config
        if config.get("model_type") == "bart" and ids[:1] != [config.bos_token_id]:
            return [config.bos_token_id, *ids, config.eos_token_id]  # not from vocab.json
        return ids

    def _settings(self, has_encoder, length):
        """Return the arguments of `generate` that override generation_config.json."""
        options = self.options
        settings = {
            name: options[name]
            for name in ("temperature", "top_k", "top_p", "num_beams")
            if options[name] is not None
        }
        asked = any(options[name] is not None for name in _DRAWING)
        beams = (options["num_beams"] or 1) > 1
        if options["greedy"] or beams:
            settings |= {"do_sample": False, "num_beams": options["num_beams"] or 1}
        elif asked or not has_encoder:
            settings |= {"do_sample": True, "num_beams": 1}
        settings["max_new_tokens"] = self._most(has_encoder, length)
        return settings

    def _most(self, has_encoder, length):
        """Return the maximum number of new tokens, limited by the model's number of positions."""
        wanted = self.options["max_new_tokens"] or _LENGTH
        limit = self.model.config.get("max_position_embeddings")
        if limit is None or self.model.config.get("model_type") == "t5":
            return wanted
        if length + (not has_encoder) > limit:
            raise ArgumentError(
                "--prompt is too long for this model",
                got=f"{length:,} tokens",
                expected=f"at most {limit - (not has_encoder):,}",
            )
        return min(wanted, limit - (1 if has_encoder else length))


def _contents(folder):
    from ..models.pretrained.folder import read_config, read_tensors

    return read_config(folder), read_tensors(folder)


def _seed(options):
    """Return the given seed, or a time-based one that differs in each call."""
    if options["seed"] is not None:
        return options["seed"]
    return time.time_ns() % 2**32
