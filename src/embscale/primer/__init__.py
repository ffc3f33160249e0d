"""The ideas behind embedding tables as small pieces of code, each with an identity that its test checks.

They are written to be read, in NumPy, one idea to a module; the models of the study use their libraries' own.
"""
