"""Provenance of results: notes beside artifacts, the code that ran, recorded results, and the result check."""
