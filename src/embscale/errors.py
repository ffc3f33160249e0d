"""The exception that is reported to the user without a traceback."""


class EmbscaleError(Exception):
    """Something outside the code is wrong: a file, a parameter, a machine.

    The message is one line that names the file, what was expected and what to do.
    """


def words_of(error: BaseException) -> str:
    """The message of a library's error, which may have several lines, in one."""
    return printable(" ".join(str(error).split()))


def printable(text: str) -> str:
    """A text from a file as it can be shown in one line: what ends a line or steers a terminal is escaped."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
