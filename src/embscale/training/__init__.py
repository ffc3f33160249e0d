"""Training: the ladder, static embeddings, and models initialised with them."""
