"""Scores of embedding tables: retrieval, reference lines, other tasks, and the geometry behind them."""
