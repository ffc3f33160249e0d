"""Render the report: a subset of Quarto's Markdown that Quarto and pandoc turn into the same text.

`render.render` makes the page with the one or the other, as requested.  Both ways start with the same strict
reading, so a broken reference stops the page on every machine, and end in the same template and style.
"""
