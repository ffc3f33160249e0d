"""How the embedding tables of language models change with scale, and how hidden states differ by layer."""

__version__ = "0.1.0"
