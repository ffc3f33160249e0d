"""Scores of embedding tables: retrieval, lexical baselines, other tasks, and table geometry."""
