"""What the ladder answers: when trained tables pass random ones, what changes that, and which explanation stands."""
