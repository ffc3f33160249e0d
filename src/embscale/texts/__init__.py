"""Texts: the corpus, folders in the BEIR format, samples, tokens and training streams."""
