"""The figures, one module each: ``COLUMNS`` that its rows must have, ``draw(rows)`` and ``describe(rows)``.

A figure with a view in the explorer has ``explorer(rows)``, too: the state that the explorer's address gives.

``draw`` returns a matplotlib figure and ``describe`` its alternative text, both computed from the same tidy rows.  If a
study did not run what a figure shows, the figure raises `NothingToShow`, and the page says so instead.
"""


class NothingToShow(Exception):
    """What the figure is about was not run; the message says so to the reader of the page, in Markdown."""
