"""Hidden states of texts at every layer, and the classifiers that say which layer one comes from."""
