"""Text: read text from a file, or from the help topics that CPython includes."""

from ..errors import DataError
from ..named_errors import names_arguments
from .download import shown_path, single_file

__all__ = ["default_text", "read_text", "split_text"]

_BYTE_ORDER_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def default_text():
    """Return Python's help topics: about 460,000 characters of English, without a download.

    These are the texts that calls such as `help("if")` print, in alphabetical order. They differ
    slightly between versions of Python, so a trained model must store its vocabulary.

    Returns
    -------
    str

    Examples
    --------
    >>> default_text().startswith('The "assert" statement')
    True
    """
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise DataError(
            "the default text is unavailable: Python's help topics (pydoc_data) are not installed",
            hint="train on another text: --text FILE",
        ) from None
    different = dict.fromkeys(topics[name] for name in sorted(topics))  # without duplicates
    return "\n".join(different)


def read_text(path, *, sha256=None):
    """Read a UTF-8 text file, with line endings converted to `\\n`.

    Parameters
    ----------
    path : str or path
        File, or URL (which requires a checksum). A downloaded file may be gzipped.
    sha256 : str, optional

    Returns
    -------
    str

    Raises
    ------
    DataError
        If the file cannot be read, is empty, or is not UTF-8 text.
    """
    name = shown_path(path)
    if "://" in name or sha256 is not None:
        path = single_file(path, sha256)
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{name} could not be read", got=reason) from None
    if not raw:
        raise DataError(f"{name} is empty", expected="a file that contains text")
    encoding = _BYTE_ORDER_MARKS.get(raw[:2])
    if encoding:
        raise DataError(
            f"{name} is not UTF-8",
            got=f"the byte order mark of {encoding}", expected="text in UTF-8",
            hint=f"convert it: iconv -f {encoding} -t UTF-8 < {name} > converted.txt",
        )  # fmt: skip
    zero = raw.find(b"\0")
    if zero >= 0:
        raise DataError(
            f"{name} is a binary file, not text",
            got=f"a null byte at position {zero}", expected="text in UTF-8",
            hint="export the document as plain text first",
        )  # fmt: skip
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{name} is not UTF-8",
            got=f"byte 0x{raw[error.start]:02x} at position {error.start}, in line {line}",
            expected="text in UTF-8",
            hint=f"if it is Latin-1: iconv -f LATIN1 -t UTF-8 < {name} > converted.txt",
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


@names_arguments
def split_text(text, context_length, *, validation_fraction=0.1, name="the text"):
    """Split a text into a training part and, at its end, a validation part.

    The validation part is contiguous, so that no validation window overlaps the training text.

    Parameters
    ----------
    text : str
    context_length : int
        Length of a window. Each part must contain at least one window and one more character.
    validation_fraction : float, default 0.1
        Fraction of the text to use for validation.
    name : str
        Name of the text for error messages.

    Returns
    -------
    training, validation : str

    Raises
    ------
    DataError
        If the text is too short.

    Examples
    --------
    >>> split_text("abcdefghij", 1, validation_fraction=0.3)
    ('abcdefg', 'hij')
    """
    window = context_length + 1
    if len(text) < 2 * window:
        raise DataError(
            f"{name} is too short for a context of {context_length} characters",
            got=f"{len(text)} characters",
            expected=f"at least {2 * window}: one window and its next character for training, "
            "and the same for validation",
            hint="use a longer text, or a shorter context (--context)",
        )
    size = max(int(len(text) * validation_fraction), window)
    cut = max(len(text) - size, window)
    return text[:cut], text[cut:]
