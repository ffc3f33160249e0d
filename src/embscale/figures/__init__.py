"""The figures, one module each: ``COLUMNS`` that its rows must have, ``draw(rows)`` and ``describe(rows)``.

``draw`` returns a matplotlib figure and ``describe`` the words that stand for it where it cannot be
seen, both computed from the same tidy rows.  A figure of something that a study leaves out raises
`NothingToShow`, and the page says so in its place.
"""


class NothingToShow(Exception):
    """What the figure is about was not run; the message says so to the reader of the page, in Markdown."""
