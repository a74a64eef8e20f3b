"""Evaluate the lines that a student types in `mta lesson step`, and show their values."""

__all__ = ["expressions"]

_PROMPT = "=> "
_LAST = ("", "exit", "exit()", "quit", "quit()")


def expressions(run, write):
    """Evaluate lines in the namespace of the lesson until an empty line, `exit()` or `quit()`.

    Parameters
    ----------
    run : LessonRun
    write : callable
        Function that displays text.
    """
    with run.same_random_numbers():
        _complete_from(run.namespace | run.own)
        while (line := _read_line().strip()) not in _LAST:  # the real exit() closes the input
            try:
                write(run.evaluate(line))
            except KeyboardInterrupt:
                write("interrupted\n")


def _read_line():
    """Return the line that the student types; "" at the end of the input or after Ctrl-C."""
    try:
        return input(_PROMPT)
    except (EOFError, KeyboardInterrupt):
        print()
        return ""


def _complete_from(names):
    """Let the Tab key complete names, if readline is available."""
    try:
        import readline
        import rlcompleter
    except ImportError:  # on Windows
        return
    readline.set_completer(rlcompleter.Completer(names).complete)
    readline.parse_and_bind("tab: complete")
