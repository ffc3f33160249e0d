"""Hidden states of texts at every layer, and classifiers that predict the layer of a hidden state."""
