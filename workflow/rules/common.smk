"""Look-ups that several chapters share."""

LADDER = [f"ladder-w{width}" for width in config["ladder"]["widths"]]
FINAL_STEP = max(config["ladder"]["checkpoints"])


wildcard_constraints:
    model="|".join(LADDER),
    step=r"\d+",
    figure="[a-z_]+",
    text=r"index\.qmd|_quarto\.yml|references\.bib",


def flags(flag, values):
    """``--flag a --flag b`` for a list of values."""
    return " ".join(f"{flag} {shlex.quote(str(value))}" for value in values)
