"""`mta build`: write a GPT from an empty file, in eight steps that are checked as you go."""

import json
import subprocess
import sys

import click

from ..course.build.check import check_step, demonstrate
from ..course.build.passed import PassedFunctions
from ..course.build.progress import BuildProgress
from ..course.build.run import ONE_THREAD, arguments
from ..course.build.steps import find_step, load_steps, unfinished
from ..course.build.work_file import WorkFile
from ..course.exercises.rules import not_python
from ..course.exercises.watch import Watched
from ..course.exercises.work import near
from ..course.run_lesson import environment
from ..errors import ArgumentError
from . import DONE, FAILED, INTERRUPTED
from .build_notebook import open_notebook
from .build_page import listing, show_hint, show_intro, show_outcome, show_result
from .console import command, console
from .keys import keys_at_once, read_key
from .source_line import Group

__all__ = ["build"]

_FILE = click.option(
    "--file", type=click.Path(dir_okay=False), help="Your file.  [default: my_gpt.py]"
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_POLL_SECONDS = 0.3
_KEYS = "h: hint   l: list   r: check again   q: quit"


class Desk:
    """State shared by all commands: the steps, your file and your progress."""

    def __init__(self, file=None):
        self.known, self.progress, self.out = load_steps(), BuildProgress(), console()
        self.file = WorkFile(file, self.progress.file)

    def pick(self, number=None):
        """Find a step by number. Without one, return the first step that is not done, or None."""
        if number is None:
            return self.progress.current(self.known)
        try:
            return find_step(number, self.known)
        except ArgumentError as error:
            raise click.UsageError(str(error)) from None

    def start(self, step):
        """Append the stubs of a step to the file unless the file already contains them."""
        self.file.start(step)
        self.progress.use_file(self.file.path)

    def check(self, step, as_json=False):
        """Check a step, remember the result and print it. Return the outcome."""
        outcome = check_step(step, self.file.path)
        self._remember_passed(outcome)
        if outcome.passed:
            demonstrate(outcome, step, self.file.path)
        if outcome.passed:
            self.progress.finish_step(step)
        if not as_json:
            names = [part.name for part in outcome.parts if not part.passed] + outcome.missing
            hinted = bool(names) and self.progress.is_hinted(names[0])
            show_outcome(self.out, step, outcome, hinted)
            if outcome.passed:
                show_result(self.out, step, outcome.shown)
        return outcome

    def _remember_passed(self, outcome):
        """Record the functions that have passed, for the notebook."""
        if any(part.passed for part in outcome.parts):
            text = self.file.path.read_text("utf-8")
            PassedFunctions(self.known, self.progress).remember(outcome, text)

    def say_next(self):
        """Print the next step, or what to do with the finished GPT."""
        step = self.progress.current(self.known)
        if step is None:
            self.out.print("\nAll steps are done: the GPT in this file is yours.", style="bold")
            self.out.print(f"  {command('build', 'train')}    train it on the text of the tour")
            self.out.print(f"  {command('build', 'trace')}    step through its code, line by line")
        else:
            self.out.print(f"\nnext: step {step.number}, {step.title}\n  {command('build')}")
            unread = [number for number in step.lessons if not self.progress.is_done(number)]
            if unread:
                first = command("lesson", "step", unread[0])
                self.out.print(f"  before it, read lesson {unread[0]}: {first}", style="dim")
        if self.progress.note:
            click.echo(self.progress.note, err=True)

    def written(self):
        """Return the path of the file, or raise an error if it does not exist."""
        if not self.file.path.is_file():
            raise click.UsageError(f"{near(self.file.path)} does not exist; start with: mta build")
        return self.file.path

    def last_begun(self):
        """Return the number of the last step with a finished function in the file, or 0.

        The number is read from the learner's file, not from the progress file: if the progress
        file was lost and is new, it does not list the steps that were done before.
        """
        text = self.file.path.read_text(encoding="utf-8", errors="replace")
        if not_python(text, self.file.path.name):
            return 0
        begun = [s.number for s in self.known if len(unfinished(s, text)) < len(s.functions)]
        return max(begun, default=0)

    def complete(self, steps):
        """Return the path of the file, or raise an error if a step up to `steps` is unfinished."""
        path = self.written()
        text = path.read_text(encoding="utf-8", errors="replace")
        if not_python(text, path.name):
            return path  # the error, with its line, appears when the file is run
        for step in self.known[:steps]:
            missing = unfinished(step, text)
            if missing:
                raise click.UsageError(
                    f"this needs steps 1 to {steps}, and step {step.number} is not finished: "
                    f"{missing[0]} is not written yet\ncontinue with: {command('build')}"
                )
        return path


@click.group(cls=Group, calls="course/build/", invoke_without_command=True)
@_FILE
@_JSON
@click.pass_context
def build(context, file, as_json):
    """Write a GPT of your own from an empty file, in eight steps.

    Without a subcommand, continue with the current step: the functions to write are appended to
    your file, and their values, gradients and shapes are checked against the library. In a terminal
    the file is checked again whenever you save it; otherwise it is checked once.
    """
    context.obj = file
    if context.invoked_subcommand is not None:
        return DONE
    desk = Desk(file)
    step = desk.pick()
    if step is None:
        desk.say_next()
        return DONE
    if not as_json and desk.out.is_terminal and sys.stdin.isatty():
        return _watch(desk, step)
    desk.start(step)
    return _check_once(desk, [step], as_json, with_intro=True)


def _check_once(desk, steps, as_json, with_intro=False):
    outcomes = []
    for step in steps:
        if not as_json:
            if with_intro:
                show_intro(desk.out, step, desk.file.path, len(desk.known))
                desk.out.print()
            else:
                desk.out.print(f"step {step.number}: {step.title}", style="bold")
        outcomes.append(desk.check(step, as_json))
    if as_json:
        found = [outcome.to_json() for outcome in outcomes]
        click.echo(json.dumps(found[0] if len(found) == 1 else found, indent=1))
    elif all(outcome.passed for outcome in outcomes):
        desk.say_next()
    else:
        desk.out.print(f"\nedit {near(desk.file.path)}, then: {command('build')}")
        desk.out.print(f"a hint: {command('build', 'hint')}")
    return DONE if all(outcome.passed for outcome in outcomes) else FAILED


def _watch(desk, step):
    """Check the file whenever it is saved, until the user quits."""
    with keys_at_once():
        try:
            while step is not None:
                step = _watch_step(desk, step)
        except (KeyboardInterrupt, EOFError):
            desk.out.print()
    return DONE


def _watch_step(desk, step):
    """Check one step whenever the file is saved. Return the next step, or None to quit."""
    desk.start(step)
    watched, outcome = Watched(desk.file.path), _page(desk, step)
    while True:
        key = read_key(_POLL_SECONDS)
        if outcome.passed and key in ("n", "\r", "\n", "\x1b[C"):
            following = desk.pick()
            if following is not None:
                return following
            desk.say_next()
        elif watched.changed() or key == "r":
            outcome = _page(desk, step)
        elif key == "h":
            _hint(desk, step, outcome)
        elif key == "l":
            desk.out.print("\n" + listing(desk.known, desk.progress))
        elif key in ("q", "\x04"):
            return None


def _page(desk, step):
    """Clear the screen and show a step with the result of its check."""
    desk.out.clear()
    show_intro(desk.out, step, desk.file.path, len(desk.known))
    desk.out.print("\nchecking ...\n", style="dim")
    outcome = desk.check(step)
    if outcome.passed:
        desk.say_next()
    follows = outcome.passed and desk.pick() is not None
    keys = f"n: next step   {_KEYS}" if follows else _KEYS
    desk.out.print(f"\n{keys}\nwaiting for {near(desk.file.path)} to be saved", style="dim")
    return outcome


def _hint(desk, step, outcome):
    """Show the hint for the first function that is wrong or missing."""
    names = [outcome.wrong.name] if outcome.wrong else outcome.missing
    function = next((item for item in step.functions if item.name in names[:1]), None)
    if function is None:
        text = f"Everything in step {step.number} is written and correct."
        if outcome.wrong:
            text = f"{outcome.wrong.name}: not yet. Correct this first:\n{outcome.wrong.text}"
        desk.out.print(f"\n{text}")
        return
    desk.progress.hint_given(function.name)
    desk.out.print()
    show_hint(desk.out, function)


@build.command(calls="course/build/check.py")
@click.argument("number", metavar="[N]", required=False)
@click.option("--all", "everything", is_flag=True, help="Check all steps that you have begun.")
@_FILE
@_JSON
@click.pass_obj
def check(group_file, number, everything, file, as_json):
    """Check step N, by default the current one, against the library."""
    desk = Desk(file or group_file)
    current = desk.pick(number) or desk.known[-1]
    desk.written()
    if not everything:
        return _check_once(desk, [current], as_json)
    return _check_once(desk, desk.known[: max(current.number, desk.last_begun())], as_json)


@build.command(calls="cli/build_page.py")
@_FILE
@click.pass_obj
def hint(group_file, file):
    """Show a hint for the next function."""
    desk = Desk(file or group_file)
    desk.written()
    step = desk.pick() or desk.known[-1]
    _hint(desk, step, check_step(step, desk.file.path))


@build.command(calls="course/build/steps.py")
@click.argument("number", metavar="[N]", required=False)
@click.pass_obj
def show(group_file, number):
    """List the steps, or show the text and the functions of step N."""
    desk = Desk(group_file)
    if number is None:
        desk.out.print(listing(desk.known, desk.progress))
        desk.say_next()
        return
    step = desk.pick(number)
    show_intro(desk.out, step, desk.file.path, len(desk.known))
    desk.out.print("\n" + step.stub.rstrip())


@build.command(calls="course/build/steps.py", short_help="Show a solution of step N.")
@click.argument("number", metavar="N")
@click.option("--yes", is_flag=True, help="Do not ask.")
def solution(number, yes):
    """Show a solution of step N, after asking whether you want to see it."""
    desk = Desk()
    step = desk.pick(number)
    if not yes and not desk.progress.has_passed(step):
        click.confirm(f"Step {step.number} is not done. Show its solution?", abort=True)
    desk.out.print(step.answer.rstrip())


@build.command(calls="course/build/make_notebook.py", short_help="Write your GPT in a notebook.")
@click.option("--fresh", is_flag=True, help="Start a new notebook; the existing one is renamed.")
@click.option("--answers", is_flag=True, help="Make a notebook with the answers filled in.")
@click.option("--no-viewer", is_flag=True, help="Make the notebook without opening it.")
@_FILE
@click.pass_obj
def notebook(group_file, fresh, answers, no_viewer, file):
    """Write your GPT in a notebook, my_gpt.ipynb: a cell for each function, and a check below it.

    The cells and my_gpt.py are kept in sync: functions that you have already written are filled in,
    and a check copies its cell's function to the file. The notebook links to your copies of the
    eight related lessons, in runs/lessons. Requires the extra `notebooks` or `lessons`.
    """
    desk = Desk(file or group_file)
    return open_notebook(desk.file.path, desk.known, desk.out, fresh, answers, no_viewer)


@build.command(calls="course/build/run.py", short_help="Train your GPT on the tour's text.")
@click.option("--steps", type=click.IntRange(min=1), default=1500, show_default=True)
@click.option("--alone", is_flag=True, help="Train only your GPT, not the library's GPT, too.")
@_FILE
@click.pass_obj
def train(group_file, steps, alone, file):
    """Train your GPT, and the library's GPT of the same size, on the text of `mta tour`.

    Both start with the same weights and get the same batches. Training takes a few minutes. The
    weights are written next to your file.
    """
    desk = Desk(file or group_file)
    return _run("train", desk.complete(8), steps, "alone" if alone else "beside")


@build.command(calls="course/build/run.py")
@click.option("--prompt", default="The ", show_default=True, help="Text to continue.")
@click.option("--length", type=click.IntRange(min=1), default=400, show_default=True)
@_FILE
@click.pass_obj
def sample(group_file, prompt, length, file):
    """Print text that your trained GPT writes."""
    path = Desk(file or group_file).written()
    if not path.with_suffix(".npz").is_file():
        raise click.UsageError(f"your GPT is not trained yet: {command('build', 'train')}")
    return _run("sample", path, prompt, length)


@build.command(calls="tracing/lines.py", short_help="Step through your own code in a browser.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), default="my_gpt.html", show_default=True
)
@_FILE
@click.pass_obj
def trace(group_file, output, file):
    """Step through your own code: record each line of one forward and backward pass.

    It needs steps 1 to 7.
    """
    return _run("trace", Desk(file or group_file).complete(7), output)


def _run(what, path, *rest):
    """Run the learner's GPT in a child process that writes to this terminal."""
    process = subprocess.run(
        arguments(what, path, *rest), env={**ONE_THREAD, **environment()}, check=False
    )
    if process.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    return DONE if process.returncode == 0 else FAILED
