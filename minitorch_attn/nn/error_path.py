"""Error path: notes on exceptions that give the path of the module where the error was raised."""

__all__ = ["name_module"]


def name_module(error, module):
    """Add a note such as `in blocks.0.k_proj = Linear(in_features=9, ...)` to an exception.

    Every module that the exception passes through calls this function, beginning with the innermost
    module. Each call prepends a name to the path, so the note finally contains the complete path.

    Parameters
    ----------
    error : Exception
    module : Module
        Module in whose call the exception was raised.

    Examples
    --------
    >>> import minitorch_attn as mt
    >>> model = mt.nn.Sequential(mt.nn.Linear(2, 3), mt.nn.Linear(4, 5))
    >>> try:
    ...     model(mt.ones(7, 2))
    ... except ValueError as error:
    ...     print(error.__notes__[0])
    in 1 = Linear(in_features=4, out_features=5, bias=True)
    """
    innermost, outermost, path = getattr(error, "_module_path", None) or (module, module, ())
    if module is not outermost:
        names = (name for name, child in module.named_modules() if child is outermost)
        path = (next(names, f"({type(outermost).__name__})"), *path)
    notes = getattr(error, "__notes__", [])
    if notes and notes[-1] == getattr(error, "_module_note", None):
        notes.pop()
    description = f"{type(innermost).__name__}({innermost.extra_repr()})"
    note = f"in {'.'.join(path)} = {description}" if path else f"in {description}"
    error._module_path, error._module_note = (innermost, module, path), note
    error.add_note(note)
