"""The parameters of a study: a dataclass for each group says name, type, bounds and meaning, once.

From it come the JSON Schema of ``params.yaml`` (`schema`), the flags of commands and of rules (`flags`), the
values that a command works with, and the table in the docs.  `study` puts the groups together.  Nothing here is slow
to import, because the Snakefile and every command do so.
"""
