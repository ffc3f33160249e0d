"""Data that comes with the package, beside this file."""
