"""Render the report: a subset of Quarto's Markdown that Quarto and pandoc turn into the same text.

`render.render` makes the page, with Quarto where it is installed and with pandoc elsewhere.  Both
ways start with the same strict reading, so a broken reference stops the page on every machine.
"""
