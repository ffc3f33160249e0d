"""Check the merged parameters against their schema before the first job, and tell every problem at once.

The Snakefile imports this module wherever Snakemake is installed, so it needs nothing but PyYAML and jsonschema,
which come with Snakemake.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from embscale.errors import printable, words_of
from embscale.parameters.kinds import LARGEST

# YAML 1.1 wants a point in the mantissa and a sign in the exponent; without them a number is read as text.
UNREAD_FLOAT = re.compile(r"([+-]?)(\d+)(\.\d*)?[eE]([+-]?)(\d+)")

TYPE_NAMES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "a group of keys",
    "string": "text",
}

# Limits of a value, in words that follow the name of its type.
LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "multipleOf": "a multiple of {}",
    "pattern": "matching {}",
    "minLength": "of at least {} characters",
    "maxLength": "of at most {} characters",
    "minItems": "of at least {} items",
    "maxItems": "of at most {} items",
    "minProperties": "with at least {} entries",
    "maxProperties": "with at most {} entries",
}


DEEPEST, MOST = 50, 1_000_000  # groups within each other, and values, of a file of parameters


class ParameterError(ValueError):
    """The parameters do not fit the schema; the message has one line per problem."""


def read(base: Path, overlays: Sequence[Path]) -> dict[str, Any]:
    """The parameters of a study as Snakemake merges them: groups key by key, everything else replaced.

    Args:
        base: ``params.yaml``.
        overlays: what lies over it, the last on top.

    Raises:
        ParameterError: a file is missing or no group of keys.
    """
    merged: dict[str, Any] = {}
    for path in [base, *overlays]:
        _merge(merged, read_yaml(path))
    return merged


class _UniqueKeyLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] # the former is faster
    """Reject duplicate keys, which YAML forbids and PyYAML would silently overwrite."""


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:  # noqa: ANN401 (a loader)
    written = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
    for i, key in enumerate(written):
        if key in written[:i]:
            raise yaml.MarkedYAMLError(problem=f"{key} is there twice", problem_mark=node.value[i][0].start_mark)
    loader.flatten_mapping(node)
    return dict(loader.construct_mapping(node, deep=True))


_UniqueKeyLoader.add_constructor("tag:yaml.org,2002:map", _mapping)


def read_yaml(path: Path) -> dict[str, Any]:
    """The group of keys in a YAML file, none of which is there twice; an empty file is an empty group.

    Raises:
        ParameterError: the file is missing or something else.
    """
    try:
        text = path.read_text("utf-8")
        _check_extent(text)
        values = yaml.load(text, _UniqueKeyLoader)
    except FileNotFoundError:
        raise ParameterError(f"{path}: no such file") from None
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ParameterError(f"{path}{line}: {printable(str(error.problem or error.context))}") from error
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        raise ParameterError(f"{path}: not YAML ({words_of(error)})") from error
    if values is not None and not isinstance(values, dict):
        raise ParameterError(f"{path}: expected a group of keys, found {_typed(values)}")
    return values or {}


def _check_extent(text: str) -> None:
    """Stop at what no one wrote by hand: nested so deeply that the C loader crashes, or endless through its aliases.

    Raises:
        ValueError: what it is.
        yaml.YAMLError: the text is not YAML.
    """
    sizes: dict[str, int] = {}  # of what has an anchor, with all that its aliases stand for
    around: list[tuple[str | None, int]] = [(None, 0)]  # of the open collections, anchor and size so far
    for event in yaml.parse(text, _UniqueKeyLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            around.append((event.anchor, 1))
            if len(around) > DEEPEST:
                raise ValueError(f"more than {DEEPEST} groups within each other")
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, size = around.pop()
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise ValueError(f"*{event.anchor} stands for nothing before it")
            anchor, size = None, sizes[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            anchor, size = event.anchor, 1
        else:
            continue
        if anchor is not None:
            sizes[anchor] = size
        outer, before = around[-1]
        around[-1] = (outer, before + size)
        if before + size > MOST:
            raise ValueError(f"more than {MOST:,} values")


def _merge(target: dict[str, Any], given: dict[str, Any]) -> None:
    for key, value in given.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value


def check(config: dict[str, Any], schema: dict[str, Any], *, source: str = "params.yaml") -> None:
    """Stop with every problem of the parameters, not only the first.

    Args:
        config: the parameters as Snakemake has merged them.
        schema: a JSON Schema (draft 2020-12).
        source: where the parameters were read; each line of the message begins with it.

    Raises:
        ParameterError: one line per problem: the dotted key, what was given, what is allowed.
    """
    if lines := problems(config, schema):
        raise ParameterError("\n".join(f"{source}: {line}" for line in lines))


def problems(config: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """A line for each problem: the dotted key, what was given, what is allowed."""
    errors = STRICT_VALIDATOR(schema).iter_errors(_with_text_keys(config))
    lines = list(_odd_keys(config, "")) + [line for error in errors for line in _explain(error, schema)]
    return sorted({printable(line) for line in lines})


def _is_integer(_checker: object, value: object) -> bool:
    """Whole numbers only: neither a boolean nor 3.0, which commands that want an integer would refuse, nor 10^30."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST


def _is_number(_checker: object, value: object) -> bool:
    """Finite numbers only: no limit of a schema keeps ``.nan`` out."""
    return _is_integer(_checker, value) or (isinstance(value, float) and math.isfinite(value))


def _pattern(_validator: object, pattern: str, value: object, _schema: object) -> Iterator[ValidationError]:
    """As everybody reads patterns: ``$`` is the end, and not also the place before a last line feed."""
    if isinstance(value, str) and not re.search(re.sub(r"(?<!\\)\$", r"\\Z", pattern), value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


STRICT_VALIDATOR = extend(
    Draft202012Validator,
    {"pattern": _pattern},
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine_many({"integer": _is_integer, "number": _is_number}),
)


def _odd_keys(value: object, prefix: str) -> Iterator[str]:
    """A line for each key that YAML did not read as text, such as ``on`` or ``1``."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                yield f"{prefix}{key}: YAML reads this key as {_typed(key)}; write it in quotes"
            yield from _odd_keys(inner, f"{prefix}{key}.")
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _odd_keys(inner, f"{prefix[:-1]}[{i}].")


def _with_text_keys(value: object) -> object:
    """The same value without the keys that are not text: jsonschema cannot match them with a pattern."""
    if isinstance(value, dict):
        return {key: _with_text_keys(inner) for key, inner in value.items() if isinstance(key, str)}
    return [_with_text_keys(inner) for inner in value] if isinstance(value, list) else value


def _explain(error: ValidationError, root: dict[str, Any]) -> Iterator[str]:
    """The lines that tell one error of jsonschema."""
    key, given, schema = _dotted(error.absolute_path), error.instance, error.schema
    if list(error.schema_path)[-2:-1] == ["propertyNames"]:
        names, patterns = schema.get("enum", []), [schema["pattern"]] if "pattern" in schema else []
        yield f"{_join(key, given)}: unknown key; {_known(names, patterns)}{_meant(given, names)}"
    elif error.validator == "additionalProperties" and error.validator_value is False:
        known, patterns = list(schema.get("properties", {})), list(schema.get("patternProperties", {}))
        for extra in given:
            if extra not in known and not any(re.search(pattern, extra) for pattern in patterns):
                yield f"{_join(key, extra)}: unknown key; {_known(known, patterns)}{_meant(extra, known)}"
    elif error.validator == "required":
        for name in error.validator_value:
            if name not in given:
                words = allowed(schema.get("properties", {}).get(name, {}), root)
                yield f"{_join(key, name)}: missing; allowed: {words}"
    elif error.validator in ("anyOf", "oneOf") and (fitting := _fitting_branch(error)):
        for inner in fitting:
            yield from _explain(inner, root)
    elif error.validator in {"type", "enum", "const", "anyOf", "oneOf", "uniqueItems", *LIMITS}:
        yield f"{key or 'parameters'}: given {_typed(given)}; allowed: {allowed(schema, root)}{_hint(given, schema)}"
    else:
        yield f"{key or 'parameters'}: {error.message}"


def _fitting_branch(error: ValidationError) -> list[ValidationError]:
    """Of alternatives, the errors of the only one whose kind fits the value; else nothing."""
    branches: dict[int, list[ValidationError]] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    fitting = [
        errors
        for errors in branches.values()
        if not any(e.validator in ("type", "enum", "const") and not e.path for e in errors)
    ]
    return fitting[0] if len(fitting) == 1 else []


def _dotted(path: Iterable[str | int]) -> str:
    """``ladder.widths[2]`` for a path into the parameters."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def _join(key: str, name: object) -> str:
    """The dotted key of an entry."""
    return f"{key}.{name}" if key else str(name)


def _known(names: list[str], patterns: list[str]) -> str:
    """The keys that a group may have."""
    return f"known here: {', '.join([*names, *(f'names like {pattern}' for pattern in patterns)]) or 'none'}"


def _typed(value: object) -> str:
    """A value with its type, in the words of a YAML file: ``"1e-3" (text)``."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return f"{str(value).lower()} (true or false)"
    if isinstance(value, str):
        return f"{json.dumps(value, ensure_ascii=False)} (text)"
    if isinstance(value, dict):
        return f"a group of keys ({', '.join(map(str, value)) or 'empty'})"
    if isinstance(value, list):
        text = ", ".join(map(str, value))
        return f"[{text if len(text) < 60 else text[:57] + '...'}] (a list of {len(value)})"
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"a whole number beyond {LARGEST}, the largest that is taken"
    return f"{value} ({'a whole number' if isinstance(value, int) else 'a decimal number'})"


def allowed(schema: dict[str, Any], root: dict[str, Any]) -> str:
    """What a schema lets through, in a few words."""
    schema = _resolved(schema, root)
    if "enum" in schema:
        return "one of " + ", ".join(map(_plain, schema["enum"]))
    if "const" in schema:
        return f"only {_plain(schema['const'])}"
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return ", or ".join(allowed(branch, root) for branch in schema[word])
    kinds = schema.get("type", [])
    name = " or ".join(TYPE_NAMES[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds)) or "a value"
    limits = [text.format(schema[word]) for word, text in LIMITS.items() if word in schema]
    if schema.get("uniqueItems"):
        limits.append("without repeats")
    if "properties" in schema:
        limits.append(f"({', '.join(schema['properties'])})")
    words = name + (" " + " and ".join(limits) if limits else "")
    return f"{words}, each {allowed(schema['items'], root)}" if isinstance(schema.get("items"), dict) else words


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """The schema that a reference into the same file stands for."""
    while "$ref" in schema:
        target = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        schema = target
    return schema


def _plain(value: object) -> str:
    """A value as it would be written in YAML."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def _hint(given: object, schema: dict[str, Any]) -> str:
    """Advice for usual slips: a number that YAML reads as text, a misspelt choice."""
    if not isinstance(given, str):
        return ""
    if match := UNREAD_FLOAT.fullmatch(given):
        sign, whole, fraction, direction, exponent = match.groups()
        if schema.get("type") == "integer":
            return f"; YAML reads {given} as text: write the whole number out"
        fraction = fraction if fraction and len(fraction) > 1 else ".0"
        return f"; YAML reads {given} as text: write {sign}{whole}{fraction}e{direction or '+'}{exponent}"
    return _meant(given, [choice for choice in schema.get("enum", []) if isinstance(choice, str)])


def _meant(given: str, known: list[str]) -> str:
    """``; did you mean steps?``, when a known word is close."""
    close = difflib.get_close_matches(given, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""
