"""What a group of parameters may hold, read from its dataclass: as a list, and as JSON Schema."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import types
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

DRAFT = "https://json-schema.org/draft/2020-12/schema"
TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}


class Parameter(NamedTuple):
    """One parameter of a group.

    Attributes:
        name: the same in ``params.yaml``, in rules, as a flag (with hyphens) and in Python.
        kind: its annotated type.
        meaning: in a few words.
    """

    name: str
    kind: Any
    meaning: str


@functools.cache
def parameters(group: Any) -> tuple[Parameter, ...]:  # noqa: ANN401 (a dataclass)
    """The parameters of a group in their order; a group within it is one of them."""
    hints = get_type_hints(group, include_extras=True)
    return tuple(
        Parameter(field.name, hints[field.name], _meaning(hints[field.name])) for field in dataclasses.fields(group)
    )


def _meaning(kind: Any) -> str:  # noqa: ANN401 (a type)
    """The words beside a type; of a group its docstring."""
    words = [extra for extra in get_args(kind)[1:] if isinstance(extra, str)] if get_origin(kind) is Annotated else []
    if not words and isinstance(kind, type):
        return inspect.cleandoc(kind.__doc__ or "").partition("\n")[0]
    return words[-1] if words else ""


def of_kind(kind: Any) -> dict[str, Any]:  # noqa: ANN401 (a type)
    """The JSON Schema of a type, with the limits that it is annotated with.

    Raises:
        KeyError, TypeError: there is no rule for such a type.
    """
    if get_origin(kind) is Annotated:
        base, *extras = get_args(kind)
        schema = of_kind(base)
        for extra in extras:
            schema |= extra if isinstance(extra, dict) else {"description": extra}
        return schema
    if isinstance(kind, type):
        return of_group(kind) if is_group(kind) else {"type": TYPES[kind]}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is types.UnionType:
        return {}  # what is allowed stands in the annotation
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple and arguments[1:] == (...,):
        return {"type": "array", "items": of_kind(arguments[0])}
    if origin is dict:
        return {"type": "object"} | ({} if arguments[1] is Any else {"additionalProperties": of_kind(arguments[1])})
    raise TypeError(f"no JSON Schema for {kind!r}")


def of_group(group: type) -> dict[str, Any]:
    """The JSON Schema of a group: all of its parameters are required, and no others are allowed."""
    return {
        "type": "object",
        "description": inspect.cleandoc(group.__doc__ or "").partition("\n")[0],
        "additionalProperties": False,
        "required": [parameter.name for parameter in parameters(group)],
        "properties": {parameter.name: of_kind(parameter.kind) for parameter in parameters(group)},
    }


def plain(kind: Any) -> Any:  # noqa: ANN401 (a type)
    """A type without its annotations; of a list that of its items."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is tuple:
        return plain(get_args(kind)[0])
    return kind


def parse(kind: Any, text: str) -> Any:  # noqa: ANN401 (a type and its value)
    """A value of a type from the command line; where several types are possible, the first that fits.

    Raises:
        ValueError: none does.
    """
    kind = plain(kind)
    for possible in get_args(kind) or (kind,):
        with contextlib.suppress(ValueError):
            return possible(text)
    raise ValueError(text)


def is_group(kind: Any) -> bool:  # noqa: ANN401 (a type)
    """Whether a type is a group of parameters."""
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


def is_list(kind: Any) -> bool:  # noqa: ANN401 (a type)
    """Whether a parameter has several values."""
    return get_origin(get_args(kind)[0] if get_origin(kind) is Annotated else kind) is tuple


def choices(kind: Any) -> tuple[Any, ...]:  # noqa: ANN401 (a type)
    """The values that a parameter can have, or one of a list; empty where they are not listed."""
    kind = plain(kind)
    return get_args(kind) if get_origin(kind) is Literal else ()


def group_of(group: Any, name: str) -> Any:  # noqa: ANN401 (dataclasses)
    """The group that lies under a name in another one.

    Raises:
        StopIteration: there is none.
    """
    return plain(next(parameter.kind for parameter in parameters(group) if parameter.name == name))


def build(group: type, values: dict[str, Any]) -> Any:  # noqa: ANN401 (the group)
    """A group from checked values; lists become tuples, groups within it are built too."""

    def of(kind: Any, value: Any) -> Any:  # noqa: ANN401
        while get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        if is_group(kind):
            return build(kind, value)
        if get_origin(kind) is tuple:
            return tuple(of(get_args(kind)[0], item) for item in value)
        return value

    return group(**{parameter.name: of(parameter.kind, values[parameter.name]) for parameter in parameters(group)})
