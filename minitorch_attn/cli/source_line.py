"""Source line at the end of `--help`: the command's source file, and what it calls."""

import inspect

import click

__all__ = ["Command", "Group"]


class _WithSource:
    """Mixin for commands whose help names their source file.

    Parameters
    ----------
    calls : str, default ""
        Path of the code that does the work, relative to the package.
    """

    def __init__(self, *args, calls="", **kwargs):
        super().__init__(*args, **kwargs)
        self.calls = calls

    def format_epilog(self, ctx, formatter):
        super().format_epilog(ctx, formatter)
        function = inspect.unwrap(self.callback)
        file = function.__module__.replace(".", "/") + ".py"
        line = function.__code__.co_firstlineno
        calls = f" calls {self.calls}" if self.calls else ""
        formatter.write(f"\nSource: {file}:{line}{calls}\n")


class Command(_WithSource, click.Command):
    """A `click.Command` whose help ends with the file and line of its source code."""


class Group(_WithSource, click.Group):
    """A `click.Group`: its help, and that of its subcommands, names the source file and line."""

    command_class = Command
    group_class = type
