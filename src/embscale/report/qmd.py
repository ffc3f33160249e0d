"""Read a .qmd text: includes and shortcodes resolved, every line with the place that it came from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from embscale.errors import EmbscaleError
from embscale.report import metadata

VARIABLES = "_variables.yml"

CODE_FENCE = re.compile(r"\s*(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)$")
DIV_OPEN = re.compile(r"\s*:{3,}\s*(\{[^}]*\}|[\w.-]+)\s*:*\s*$")
DIV_CLOSE = re.compile(r"\s*:{3,}\s*$")
INCLUDE = re.compile(r'\s*\{\{<\s*include\s+"?(?P<path>[^">]+?)"?\s*>\}\}\s*')
ESCAPED = re.compile(r"\{(\{\{<.*?>\}\})\}")
TOKEN = re.compile(
    r"(?P<code>(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))"
    r"|\{(?P<escaped>\{\{<.*?>\}\})\}"
    r"|\{\{<\s*(?P<name>[\w/-]+)\s+(?P<argument>.*?)\s*>\}\}"
    r"|(?P<stray>\{\{<)"
)


class Line(NamedTuple):
    """One line of text and where an author finds it."""

    text: str
    file: Path
    number: int

    def problem(self, message: str) -> EmbscaleError:
        """An error that points at this line."""
        return EmbscaleError(f"{self.file}:{self.number}: {message}")


@dataclass(frozen=True)
class Document:
    """A main text with everything that it includes, in the order of the page."""

    source: Path
    meta: dict[str, Any]
    front: list[Line]
    body: list[Line]

    @property
    def text(self) -> str:
        """The body as one Markdown text; its line n is ``body[n - 1]``."""
        return "\n".join(line.text for line in self.body) + "\n"

    def places(self, needle: str) -> list[Line]:
        """Every line that holds `needle` as a whole word."""
        pattern = re.compile(re.escape(needle) + r"(?![\w-])")
        return [line for line in self.front + self.body if pattern.search(line.text)]


def read(source: Path, extra: dict[str, Any]) -> Document:
    """Read a main document with its front matter, ``_quarto.yml``, ``_variables.yml`` and includes.

    Args:
        source: the main document; all paths in it and in its includes start at its folder.
        extra: metadata that the document cannot set itself, such as the name of the renderer.

    Raises:
        EmbscaleError: a file is missing, or a construct is outside the shared subset.
    """
    front, _ = split_front_matter(read_lines(source))
    meta = metadata.read(source, "\n".join(line.text for line in front)) | extra
    variables = metadata.load_yaml_file(source.parent / VARIABLES)
    expander = Expander(source.parent, meta, variables)
    for key in metadata.TEXT_KEYS & meta.keys():
        meta[key] = expander.shortcodes(_key_line(front, key, source, str(meta[key])))
    return Document(source, meta, front, expander.body(source))


def read_lines(file: Path) -> list[Line]:
    """The lines of a UTF-8 file.

    Raises:
        EmbscaleError: the file is missing or is not UTF-8.
    """
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        raise EmbscaleError(f"{file}: no such file") from None
    except UnicodeDecodeError as error:
        raise EmbscaleError(f"{file}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    return [Line(line, file, number) for number, line in enumerate(text.split("\n"), 1)]


def split_front_matter(lines: list[Line]) -> tuple[list[Line], list[Line]]:
    """The YAML between the ``---`` lines at the top of a file, and the rest."""
    if lines[0].text.rstrip() != "---":
        return [], lines
    for index, line in enumerate(lines[1:], 1):
        if line.text.rstrip() in ("---", "..."):
            return lines[1:index], lines[index + 1 :]
    raise lines[0].problem("front matter without an end; close it with a line ---")


def with_fences(lines: list[Line]) -> Iterator[tuple[Line, bool]]:
    """Each line, and whether it belongs to a fenced code block.

    Raises:
        EmbscaleError: a code block is executable or has no end.
    """
    opening, mark = None, ""
    for line in lines:
        match = CODE_FENCE.match(line.text)
        yield line, bool(opening or match)
        if opening and match and match["mark"].startswith(mark) and not match["info"].strip():
            opening = None
        elif match and not opening:
            opening, mark = line, match["mark"]
            if re.match(r"\{\w", match["info"].strip()):
                raise line.problem(
                    f"executable cell {match['info'].strip()}; let a rule make the result and include it"
                )
    if opening:
        raise opening.problem(f"code block without an end; close it with {mark}")


def check_divs(lines: list[Line]) -> None:
    """Hold every ``:::`` block of a file to be opened after an empty line, and closed, in that file.

    Raises:
        EmbscaleError: a block has no end or no beginning, or is glued to the text above it.
    """
    opened: list[Line] = []
    above = ""
    for line, in_code in with_fences(lines):
        if not in_code and DIV_OPEN.match(line.text):
            # Pandoc takes a fence right below a paragraph for a part of that paragraph.
            if above.strip() and not above.strip().startswith(":::"):
                raise line.problem("put an empty line above this ::: block")
            opened.append(line)
        elif not in_code and DIV_CLOSE.match(line.text):
            if not opened:
                raise line.problem("::: closes a block that was never opened; remove it")
            opened.pop()
        above = line.text
    if opened:
        raise opened[-1].problem(f"block without an end: {opened[-1].text.strip()}; close it with a line :::")


@dataclass(frozen=True)
class Expander:
    """Resolves the shortcodes ``include``, ``var`` and ``meta``."""

    folder: Path
    meta: dict[str, Any]
    variables: dict[str, Any]

    def body(self, file: Path, above: tuple[Path, ...] = ()) -> list[Line]:
        """The lines of a file without its front matter, includes put in.

        Args:
            file: the file to read.
            above: the files whose includes led here.

        Raises:
            EmbscaleError: see `read`.
        """
        front, lines = split_front_matter(read_lines(file))
        if front and above:
            raise front[0].problem("an included file cannot have front matter; move it to the main document")
        check_divs(lines)
        expanded: list[Line] = []
        for line, in_code in with_fences(lines):
            if in_code:
                expanded.append(line._replace(text=unescape(line.text, line)))
            elif match := INCLUDE.fullmatch(line.text):
                _check_alone(line, lines)
                expanded += self.included(match["path"], line, (*above, file))
            else:
                expanded.append(line._replace(text=self.shortcodes(line)))
        return expanded

    def included(self, path: str, line: Line, above: tuple[Path, ...]) -> list[Line]:
        """The lines of an included file; `path` starts at the main document's folder, as in Quarto."""
        inside = os.path.normpath(path)
        if path.startswith("/") or inside.startswith(".."):
            raise line.problem(f"include {path} leads out of {self.folder}; give a path below that folder")
        file = self.folder / inside
        if file in above:
            raise line.problem(f"include loop: {' > '.join(f.name for f in above)} > {file.name}; break it")
        if not file.is_file():
            raise line.problem(f"include {path}: no such file in {self.folder}; make it first")
        return self.body(file, above)

    def shortcodes(self, line: Line) -> str:
        """The text of a line with its ``var`` and ``meta`` replaced; code is left alone."""
        return TOKEN.sub(lambda match: self._token(match, line), line.text)

    def _token(self, match: re.Match[str], line: Line) -> str:
        if match["code"]:
            return unescape(match["code"], line)
        if match["escaped"]:
            return match["escaped"]
        trees = {"var": self.variables, "meta": self.meta}
        name, argument = match["name"], (match["argument"] or "").strip("\"'")
        if name == "include":
            raise line.problem("put {{< include >}} on a line of its own, between empty lines")
        if name not in trees:
            raise line.problem(f"shortcode {match[0]!r}: only include, var and meta, closed on the same line")
        try:
            return value(trees[name], argument)
        except LookupError as error:
            raise line.problem(f"{match[0]}: {error.args[0]}") from None


def unescape(code: str, line: Line) -> str:
    """Code as it shall be shown: ``{{{< x >}}}`` becomes ``{{< x >}}``, and nothing is replaced."""
    if "{{<" in ESCAPED.sub("", code):
        raise line.problem("shortcode inside code; to show it, write {{{< … >}}}")
    return ESCAPED.sub(r"\1", code)


def value(tree: dict[str, Any], dotted: str) -> str:
    """The text at a dotted key.

    Raises:
        LookupError: there is no such key, or its value would not print alike in both renderers.
    """
    node: Any = tree
    for part in dotted.split("."):
        if not isinstance(node, dict) or part not in node:
            known = ", ".join(map(str, node)) if isinstance(node, dict) else "nothing below it"
            raise LookupError(f"no key {part!r}; there is {known}")
        node = node[part]
    if isinstance(node, bool) or not isinstance(node, str | int):
        # Quarto prints 5.90 as 5.9 and 1.0 as 1; only text keeps the digits that were meant.
        raise LookupError(f"value is a {type(node).__name__}; write it as text, in quotes")
    if "\n" in (text := str(node).strip()):
        raise LookupError("value has several lines; make it a file and include it")
    return text


def _check_alone(line: Line, lines: list[Line]) -> None:
    # Quarto documents that an include must stand between empty lines.
    texts = ["", *(other.text for other in lines), ""]
    index = lines.index(line) + 1
    if texts[index - 1].strip() or texts[index + 1].strip():
        raise line.problem("put an empty line above and below {{< include >}}")


def _key_line(front: list[Line], key: str, source: Path, text: str) -> Line:
    numbers = [line.number for line in front if line.text.startswith(f"{key}:")]
    return Line(text, source, numbers[0] if numbers else 1)
