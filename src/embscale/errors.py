"""The exception that is reported to the user without a traceback."""


class EmbscaleError(Exception):
    """Something outside the code is wrong: a file, a parameter, a machine.

    The message is one line that names the file, what was expected and what to do.
    """
