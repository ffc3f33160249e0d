"""Rows of results in words: Markdown, intervals, labels, and which rows stand for a model."""
