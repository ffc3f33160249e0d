"""Texts available in every installation: the docstrings of pinned scientific packages, and their code.

Sources are parsed, never imported or executed, so that a harvest depends on nothing but the files.
A docstring that names other documented objects in its "See Also" section gives a retrieval query, as
a paper that cites other papers does in SCIDOCS.  Functions without their docstrings are a second genre of texts, and
the summaries of their docstrings are queries for them, as in CodeSearchNet (Husain et al. 2019, arXiv 1909.09436).
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import inspect
import re
import textwrap
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from embscale.errors import EmbscaleError
from embscale.texts.splits import draw

# Folders of a package with tests or vendored code.
FOREIGN_FOLDERS = {"tests", "testing", "_vendor", "_external", "externals", "extern"} | {
    f"array_api_{part}" for part in ("compat", "extra")
}

# Docstrings of compiled functions are attached by calls such as add_newdoc("module", "name", "text").
ATTACHING_CALLS = {"add_newdoc", "_add_newdoc"}

SEE_ALSO = re.compile(r"^See Also[ \t]*\n-{3,}[ \t]*\n", re.MULTILINE | re.IGNORECASE)
NEXT_SECTION = re.compile(r"^\S.*\n(-{3,}|={3,})[ \t]*$", re.MULTILINE)
ROLE = re.compile(r":[\w:]+:`~?([^`<]+)`|`+~?([^`]+)`+")
SIGNATURE = re.compile(r"[\w.]+\(.*\)( *->.*)?")
WORD = re.compile(r"\w+")
DOTTED_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")

# Summaries of fewer words, such as "Constructor.", ask for nothing in particular.
LEAST_SUMMARY_WORDS = 3


@dataclass(frozen=True)
class Document:
    """One docstring, or one function without docstrings.

    Attributes:
        name: dotted path of the object as defined, such as ``numpy.linalg._linalg.norm``.
        package: the distribution that it comes from.
        text: the docstring without its "See Also" section, or the source.
        see_also: names in that section, as written.
    """

    name: str
    package: str
    text: str
    see_also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Query:
    """A summary line of a docstring, and the documents that are relevant to it."""

    name: str
    text: str
    relevant: tuple[str, ...]


@dataclass(frozen=True)
class Task:
    """A retrieval task: distinct documents in the order of their names, and queries."""

    documents: list[Document]
    queries: list[Query]

    def sha256(self) -> str:
        """Digest of every name, text and judgement: equal only for the same texts and judgements."""
        digest = hashlib.sha256()
        for document in self.documents:
            digest.update(f"{document.name}\0{document.text}\0".encode())
        for query in self.queries:
            digest.update(f"{query.name}\0{query.text}\0{query.relevant}\0".encode())
        return digest.hexdigest()

    def qrels(self) -> dict[str, dict[str, int]]:
        """Judgements as the metrics read them: 1 for each relevant document of each query."""
        return {query.name: dict.fromkeys(query.relevant, 1) for query in self.queries}


@dataclass(frozen=True)
class Corpus(Task):
    """The distinct docstrings and the queries among them, and the distinct functions.

    Attributes:
        functions: in the order of their names.
        docstrings: names of the documents that are docstrings of a function, for each function that has any; several
            where equal functions have different ones.
    """

    functions: list[Document]
    docstrings: dict[str, tuple[str, ...]]


def harvest(packages: Mapping[str, str], *, min_characters: int, code_min_characters: int) -> Corpus:
    """Collect the distinct public docstrings and the distinct functions of installed packages.

    Args:
        packages: distribution name to the exact expected version.
        min_characters: shorter docstrings are left out, since a line gives no text to retrieve.
        code_min_characters: functions that are shorter, without docstrings, are left out.

    Raises:
        EmbscaleError: a package is missing, has another version, or a source cannot be read.
    """
    found: dict[str, Document] = {}
    functions: dict[str, Document] = {}
    own: dict[str, str] = {}  # docstrings of these functions
    for package, version in sorted(packages.items()):
        for path, module in _module_files(package, version):
            docstrings, code = _texts(path, module)
            for name, docstring in docstrings:
                text, see_also = split_see_also(docstring)
                if len(text) >= min_characters:
                    found.setdefault(name, Document(name, package, text, see_also))
            for name, text, docstring in code:
                if len(text) >= code_min_characters and name not in functions:
                    functions[name] = Document(name, package, text)
                    own[name] = split_see_also(docstring)[0]
    distinct, representative = _distinct(found)
    if not distinct:
        raise EmbscaleError(
            f"corpus.packages {sorted(packages)}: no docstring of at least {min_characters} characters found"
        )
    distinct_functions, same_code = _distinct(functions)
    documents_of = defaultdict(set)
    for name, docstring in own.items():
        # A setter has the name of its property, but not its docstring.
        if name in found and found[name].text == docstring:
            documents_of[same_code[name]].add(representative[name])
    return Corpus(
        distinct,
        _queries(found, distinct, representative),
        distinct_functions,
        {name: tuple(sorted(documents)) for name, documents in sorted(documents_of.items())},
    )


def function_task(harvested: Corpus, *, count: int, seed: int) -> Task:
    """Some functions, to be found by the summaries of their docstrings.

    A function has a summary of its own docstring, of three words or more, that its code does not contain.  Functions
    with the same summary are all relevant to it, and it is one query.

    Args:
        harvested: the functions and the docstrings.
        count: functions to choose.
        seed: of the choice.

    Raises:
        EmbscaleError: there are fewer.
    """
    documents = {document.name: document for document in harvested.documents}
    described = defaultdict(list)
    for function in harvested.functions:
        for name in harvested.docstrings.get(function.name, ()):
            described[summary(documents[name].text)].append((function, name))
    usable = {
        text: pairs
        for text, pairs in described.items()
        if len(text.split()) >= LEAST_SUMMARY_WORDS and not any(_quotes(function.text, text) for function, _ in pairs)
    }
    eligible = {function.name: function for pairs in usable.values() for function, _ in pairs}
    chosen = choose(eligible.values(), count=count, seed=seed)
    kept = {function.name for function in chosen}
    queries = []
    for text, pairs in usable.items():
        relevant = {function.name: docstring for function, docstring in pairs if function.name in kept}
        if relevant:
            # Not a document's name: a document with the query's own is left out of its ranking.
            queries.append(Query(f"summary of {min(relevant.values())}", text, tuple(sorted(relevant))))
    return Task(chosen, sorted(queries, key=lambda query: query.name))


def choose(documents: Iterable[Document], *, count: int, seed: int) -> list[Document]:
    """Choose documents by seed and name alone, sorted by name.

    Raises:
        EmbscaleError: there are fewer.
    """
    ranked = sorted(documents, key=lambda document: draw(document.name, seed=seed, purpose="chosen"))
    if len(ranked) < count:
        raise EmbscaleError(
            f"corpus.code_texts: {count} functions are wanted, but {len(ranked)} are long enough and have a summary; "
            "ask for fewer"
        )
    return sorted(ranked[:count], key=lambda document: document.name)


def _quotes(code: str, text: str) -> bool:
    """Whether code contains the words of a text in its order, such as in a comment."""
    words, quoted = (" ".join(WORD.findall(each.lower())) for each in (code, text))
    return f" {quoted} " in f" {words} "


def split_see_also(docstring: str) -> tuple[str, tuple[str, ...]]:
    """A docstring without its "See Also" section, and the names which that section lists."""
    header = SEE_ALSO.search(docstring)
    if header is None:
        return docstring.strip(), ()
    following = NEXT_SECTION.search(docstring, header.end())
    end = following.start() if following else len(docstring)
    rest = docstring[: header.start()].rstrip() + "\n\n" + docstring[end:].lstrip("\n")
    return rest.strip(), tuple(_listed_names(docstring[header.end() : end]))


def summary(text: str) -> str:
    """The first paragraph of a docstring on one line, after a signature such as ``f(x, out=None)``."""
    paragraphs = [" ".join(p.split()) for p in re.split(r"\n\s*\n", text.strip(), maxsplit=2)[:2]]
    return paragraphs[-1] if SIGNATURE.fullmatch(paragraphs[0]) else paragraphs[0]


def _module_files(package: str, version: str) -> Iterator[tuple[Path, str]]:
    """Source files of a distribution with their dotted module names, in a fixed order."""
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        raise EmbscaleError(
            f"corpus.packages: {package} is not installed; install {package}=={version} or take it out of params.yaml"
        ) from None
    if distribution.version != version:
        raise EmbscaleError(
            f"corpus.packages: {package} is installed as {distribution.version}, but params.yaml names {version}; "
            f"the texts would differ. Install {package}=={version}, or name {distribution.version} and its digest"
        )
    for file in sorted(distribution.files or [], key=str):
        path = PurePath(file)
        if path.suffix == ".py" and not FOREIGN_FOLDERS.intersection(path.parts) and ".." not in path.parts:
            parts = path.with_suffix("").parts
            yield Path(str(file.locate())), ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _texts(path: Path, module: str) -> tuple[list[tuple[str, str]], list[tuple[str, str, str]]]:
    """Of a source file: names and docstrings of public classes and functions; names, code and docstrings of functions.

    Names are dotted, docstrings cleaned.
    """
    try:
        with tokenize.open(path) as file:
            lines = file.readlines()
        tree = ast.parse("".join(lines), filename=str(path))
    except FileNotFoundError:
        raise EmbscaleError(f"{path}: listed by its package but missing; reinstall the package") from None
    except (SyntaxError, ValueError) as error:
        raise EmbscaleError(f"{path}: not readable as Python source ({error}); reinstall the package") from error
    statements = list(_statements(tree))
    docstrings = [*_definitions(tree, module), *_attached(statements, module)]
    return docstrings, list(_functions(tree, _without_docstrings(lines, statements), module))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every statement within a node; `ast.walk` would go through all expressions, several times as many."""
    for part in ("body", "handlers", "cases", "orelse", "finalbody"):
        for child in getattr(node, part, ()):
            yield child
            yield from _statements(child)


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if child.name.startswith("_"):
                continue
            docstring = ast.get_docstring(child)
            if docstring:
                yield f"{prefix}.{child.name}", docstring
            if isinstance(child, ast.ClassDef):
                yield from _definitions(child, f"{prefix}.{child.name}")
        elif isinstance(child, ast.If | ast.Try):
            yield from _definitions(child, prefix)


def _functions(node: ast.AST, lines: list[str], prefix: str) -> Iterator[tuple[str, str, str]]:
    """Dotted names, texts and docstrings of functions and methods, including private ones; empty where there is none.

    Nested functions are part of the enclosing function's text.
    """
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            text = textwrap.dedent("".join(lines[child.lineno - 1 : child.end_lineno])).strip()
            yield f"{prefix}.{child.name}", text, ast.get_docstring(child) or ""
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, lines, f"{prefix}.{child.name}")
        elif isinstance(child, ast.If | ast.Try):
            yield from _functions(child, lines, prefix)


def _without_docstrings(lines: list[str], statements: Iterable[ast.AST]) -> list[str]:
    """The lines of a source file, with the lines of docstrings left empty."""
    kept = list(lines)
    for node in statements:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if ast.get_docstring(node, clean=False):
            docstring = node.body[0]
            first, after = docstring.lineno - 1, docstring.end_lineno or docstring.lineno
            kept[first:after] = [""] * (after - first)
    return kept


def _attached(statements: Iterable[ast.AST], module: str) -> Iterator[tuple[str, str]]:
    """Docstrings given to compiled functions: add_newdoc([module,] name, text or (method, text))."""
    for statement in statements:
        node = statement.value if isinstance(statement, ast.Expr) else None
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ATTACHING_CALLS):
            continue
        try:
            *names, text = [ast.literal_eval(argument) for argument in node.args]
        except ValueError:
            continue  # an argument is computed at run time, so it cannot be read
        if isinstance(text, tuple):
            names.append(text[0])
            text = text[1]
        if names and isinstance(text, str):
            prefix = [] if len(names) > 1 and "." in names[0] else [module.rpartition(".")[0]]
            yield ".".join([*prefix, *names]), inspect.cleandoc(text)


def _listed_names(section: str) -> Iterator[str]:
    """Names in the lines of a "See Also" section that are not continuation lines."""
    for line in inspect.cleandoc(section).splitlines():
        if not line or line[0].isspace():
            continue
        names = re.split(r"\s:(?:\s|$)", ROLE.sub(r"\1\2", line), maxsplit=1)[0]
        for name in names.split(","):
            match = DOTTED_NAME.fullmatch(name.strip().rstrip(":").removesuffix("()").strip())
            if match:
                yield match.group()


def _distinct(found: Mapping[str, Document]) -> tuple[list[Document], dict[str, str]]:
    """Documents with distinct texts by name, and for every name the name of the document kept for its text."""
    by_text: dict[str, str] = {}
    representative = {name: by_text.setdefault(found[name].text, name) for name in sorted(found)}
    return [found[name] for name in sorted(set(representative.values()))], representative


def _queries(
    found: Mapping[str, Document], documents: Iterable[Document], representative: Mapping[str, str]
) -> list[Query]:
    """One query for each document whose "See Also" section names at least one other document."""
    index = defaultdict(list)
    for name in found:
        index[name.rpartition(".")[2]].append(name)
    queries = []
    for document in documents:
        targets = (resolve(entry, document.name, index) for entry in document.see_also)
        relevant = {representative[target] for target in targets if target} - {document.name}
        text = summary(document.text)
        if relevant and text:
            queries.append(Query(document.name, text, tuple(sorted(relevant))))
    return queries


def resolve(entry: str, source: str, index: Mapping[str, list[str]]) -> str | None:
    """The documented object that an entry of `source`'s "See Also" section refers to, if unambiguous.

    An object fits if the parts of the entry occur in its dotted path in order, the last one at the
    end.  Among several, the one that shares the longest path with the source is chosen, then the one with the shortest
    path; a tie gives None.

    Args:
        entry: the name as written, such as ``linalg.norm``.
        source: dotted path of the object whose docstring contains the entry.
        index: last part of a dotted path to all paths that end with it.
    """
    parts, home = entry.split("."), source.split(".")

    def rank(path: list[str]) -> tuple[int, int]:
        return -_shared_prefix(path, home), len(path)

    fitting = [path for name in index.get(parts[-1], ()) if _in_order(parts, path := name.split("."))]
    # The same word in another package means something else, unless the entry names that package.
    fitting = sorted((path for path in fitting if path[0] in (home[0], parts[0])), key=rank)
    if not fitting or (len(fitting) > 1 and rank(fitting[0]) == rank(fitting[1])):
        return None
    return ".".join(fitting[0])


def _in_order(parts: list[str], path: list[str]) -> bool:
    remaining = iter(path)
    return all(part in remaining for part in parts)


def _shared_prefix(left: list[str], right: list[str]) -> int:
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
