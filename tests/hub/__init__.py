"""A hub on the loopback device, and small genuine repositories to fill it with."""
