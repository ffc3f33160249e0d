"""Published checkpoints: their registry, readers for their files, and what to fetch."""
