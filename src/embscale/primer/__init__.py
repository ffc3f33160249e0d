"""The ideas behind embedding tables as small pieces of code, each with an identity that its test checks.

They are written for readers, in NumPy, one idea per module; the study's models use the implementations of their
libraries.
"""
