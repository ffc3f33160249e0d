"""Intervals and tests that all chapters share."""
