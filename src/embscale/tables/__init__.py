"""Embedding tables: files, random tables, variants, and tables as the first block receives them."""
