"""The figures, one module each: ``COLUMNS`` that its rows must have, ``draw(rows)`` and ``describe(rows)``.

``draw`` returns a matplotlib figure and ``describe`` the words that stand for it where it cannot be
seen, both computed from the same tidy rows.
"""
