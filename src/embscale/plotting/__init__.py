"""How figures look, and pieces of a plot that several figures share."""
