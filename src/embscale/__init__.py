"""How the embedding tables of language models change with scale, and how hidden states differ by layer."""

from embscale.provenance import loaded

__version__ = "0.1.0"

# Before any other module is imported, so that a note can name the code that ran.
loaded.watch()
