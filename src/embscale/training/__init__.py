"""What the study trains itself: the ladder, static embeddings, and models that start from them."""
