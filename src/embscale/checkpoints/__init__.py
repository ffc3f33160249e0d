"""Published checkpoints: what is known of them, how their files are read, and which parts are fetched."""
