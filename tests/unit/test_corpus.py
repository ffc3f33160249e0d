"""The harvest against small packages written on the spot, and against importing a real one."""

import ast
import gzip
import importlib.metadata
import importlib.util
import inspect
import json
import textwrap
from pathlib import Path

import pytest

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.provenance.artifacts import note_path, read_note
from embscale.texts import corpus, samples

SOURCE = '''
def mean(values):
    """Average of the values, which is their sum over their count, as everybody knows.

    See Also
    --------
    median : The middle value.
    other.spread, nothing_known : Two names on a line.

    Examples
    --------
    >>> mean([1, 2])
    """


def median(values):
    """median(values)

    The middle value of a sorted list, which outliers do not move as they move the average.
    """


def _private():
    """Nobody outside should ever see the text of this docstring, however long it may become."""


class other:
    def spread(self):
        """Distance of the largest from the smallest value, a crude measure of how far values lie apart."""
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A function that installs sources as the distribution `tiny` 1.0."""

    def install(**files):
        info = tmp_path / "tiny-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        (tmp_path / "tiny").mkdir()
        for name, source in files.items():
            if source is not None:
                (tmp_path / "tiny" / f"{name}.py").write_bytes(source if isinstance(source, bytes) else source.encode())
        (info / "RECORD").write_text("".join(f"tiny/{name}.py,,\n" for name in files))
        monkeypatch.syspath_prepend(str(tmp_path))

    return install


def test_see_also_makes_queries_and_leaves_the_text(package):
    package(stats=SOURCE)
    found = corpus.harvest({"tiny": "1.0"}, min_characters=20, code_min_characters=40)
    assert [d.name for d in found.documents] == ["tiny.stats.mean", "tiny.stats.median", "tiny.stats.other.spread"]
    (query,) = found.queries
    assert query.text == "Average of the values, which is their sum over their count, as everybody knows."
    assert query.relevant == ("tiny.stats.median", "tiny.stats.other.spread")
    text = found.documents[0].text
    assert "See Also" not in text and "middle" not in text and ">>> mean([1, 2])" in text


def test_a_leading_signature_is_no_summary(package):
    package(stats=SOURCE)
    median = corpus.harvest({"tiny": "1.0"}, min_characters=20, code_min_characters=40).documents[1]
    assert corpus.summary(median.text).startswith("The middle value")


def test_equal_texts_are_one_document_with_all_their_names(package):
    text = '    """Exactly the same words stand in two places of this package, under two names."""\n'
    pointing = '    """Words of its own.\n\n    See Also\n    --------\n    second\n    """\n'
    package(a=f"def first():\n{text}\ndef second():\n{text}\ndef pointing():\n{pointing}")
    found = corpus.harvest({"tiny": "1.0"}, min_characters=5, code_min_characters=40)
    assert [d.name for d in found.documents] == ["tiny.a.first", "tiny.a.pointing"]
    assert found.queries[0].relevant == ("tiny.a.first",)


def test_attached_docstrings_are_read(package):
    package(_docs='add_newdoc("tiny.core", "add", """Add two numbers, the way that compiled code does it.""")\n')
    assert [d.name for d in corpus.harvest({"tiny": "1.0"}, min_characters=5, code_min_characters=40).documents] == [
        "tiny.core.add"
    ]


@pytest.mark.parametrize(
    ("files", "packages", "message"),
    [
        ({"a": "def broken(:\n"}, {"tiny": "1.0"}, r"a\.py: not readable as Python source"),
        ({"a": b"x = '\xff'\n"}, {"tiny": "1.0"}, r"a\.py: not readable as Python source"),
        ({"gone": None}, {"tiny": "1.0"}, r"gone\.py: listed by its package but missing"),
        ({"a": "x = 1\n"}, {"tiny": "1.0"}, r"no docstring of at least 5 characters"),
        ({"a": SOURCE}, {"tiny": "2.0"}, r"tiny is installed as 1\.0, but params\.yaml names 2\.0"),
        ({"a": SOURCE}, {"absent-thing": "1.0"}, r"absent-thing is not installed"),
    ],
)
def test_what_is_wrong_with_a_package_is_named(package, files, packages, message):
    package(**files)
    with pytest.raises(EmbscaleError, match=message):
        corpus.harvest(packages, min_characters=5, code_min_characters=40)


@pytest.mark.long
def test_parsed_docstrings_equal_imported_ones():
    version = importlib.metadata.version("networkx")
    found = {
        d.name: d for d in corpus.harvest({"networkx": version}, min_characters=100, code_min_characters=40).documents
    }
    import networkx

    for name in ("networkx.algorithms.dag.ancestors", "networkx.algorithms.shortest_paths.generic.shortest_path"):
        imported = inspect.getdoc(getattr(networkx, name.rpartition(".")[2]))
        assert found[name].text == corpus.split_see_also(imported)[0]


def test_held_out_share_is_near_the_fraction_and_stable():
    names = [f"name-{i}" for i in range(4000)]
    heldout = {name for name in names if corpus.is_heldout(name, fraction=0.1, seed=3)}
    assert 320 < len(heldout) < 480  # four standard deviations
    assert heldout == {name for name in reversed(names) if corpus.is_heldout(name, fraction=0.1, seed=3)}
    assert heldout != {name for name in names if corpus.is_heldout(name, fraction=0.1, seed=4)}


@pytest.mark.parametrize(
    ("entry", "meant"),
    [
        ("norm", "pkg.linalg.norm"),  # the nearest of two
        ("stats.norm", "pkg.stats.norm"),
        ("Frame.sum", "pkg.frame.Frame.sum"),
        ("sum", None),  # two at equal distance
        ("absent", None),
        ("far", None),  # another package's
        ("elsewhere.far", "elsewhere.far"),  # unless it is named
    ],
)
def test_entries_mean_the_nearest_object(entry, meant):
    index = {
        "norm": ["pkg.linalg.norm", "pkg.stats.norm"],
        "sum": ["pkg.frame.Frame.sum", "pkg.series.Series.sum"],
        "far": ["elsewhere.far"],
    }
    assert corpus.resolve(entry, "pkg.linalg.det", index) == meant


CODE = '''
"""Of the module."""

class Shape:
    """Of the class."""

    @property
    def area(self):
        """Of the method,

        on several lines.
        """
        # A comment stays.
        text = """no docstring"""

        def inner(side):
            "Of the inner one."
            return side * side
        return inner(self.side)

    def _private(self): return "a line that is long enough to count"

if True:
    async def waits():
        """Nothing but this."""

    def short():
        return 1
'''


def test_functions_are_texts_without_their_docstrings(package):
    package(shapes='def documented():\n    """One docstring must be there."""\n' + CODE)
    found = corpus.harvest({"tiny": "1.0"}, min_characters=5, code_min_characters=40)
    assert {function.name: function.text for function in found.functions} == {
        "tiny.shapes.Shape._private": 'def _private(self): return "a line that is long enough to count"',
        "tiny.shapes.Shape.area": textwrap.dedent(
            '''
            def area(self):
                # A comment stays.
                text = """no docstring"""

                def inner(side):
                    return side * side
                return inner(self.side)
            '''
        ).strip(),
    }
    assert {function.package for function in found.functions} == {"tiny"}


@pytest.mark.long
def test_functions_are_those_of_the_syntax_tree_less_its_docstrings():
    """Of a real package, and of a parser that sees the text alone."""
    version = importlib.metadata.version("networkx")
    found = corpus.harvest({"networkx": version}, min_characters=100, code_min_characters=300).functions
    root = Path(importlib.util.find_spec("networkx").origin).parents[1]
    modules = {
        ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): file
        for file in (root / "networkx").rglob("*.py")
    }
    assert len(found) > 500

    class Undocumented(ast.NodeTransformer):
        def generic_visit(self, node):
            super().generic_visit(node)
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
                del node.body[0]
            return node

    trees = {}
    for function in found[::9]:
        path, _, name = function.name.rpartition(".")
        while path not in modules:  # a class
            path = path.rpartition(".")[0]
        if path not in trees:
            trees[path] = {
                (node.name, ast.unparse(node))
                for node in ast.walk(Undocumented().visit(ast.parse(modules[path].read_bytes())))
                if isinstance(node, ast.FunctionDef) and not node.decorator_list.clear()
            }
        assert (name, ast.unparse(ast.parse(function.text))) in trees[path]


def test_functions_are_chosen_by_seed_and_name_alone():
    functions = [corpus.Document(f"f{i}", "p", f"text {i}") for i in range(100)]
    few = corpus.choose(functions, count=10, seed=1)
    assert [f.name for f in few] == sorted(f.name for f in few)
    assert corpus.choose(functions[::-1], count=10, seed=1) == few != corpus.choose(functions, count=10, seed=2)
    # Others join, none leaves but for them.
    more = corpus.choose([*functions, corpus.Document("new", "p", "new")], count=10, seed=1)
    assert len({f.name for f in more} - {f.name for f in few}) <= 1
    with pytest.raises(EmbscaleError, match=r"^101 functions are wanted, but 100 are long enough"):
        corpus.choose(functions, count=101, seed=1)


def test_the_command_writes_both_genres_and_holds_them_to_their_digests(package, tmp_path, capsys):
    package(stats=SOURCE, shapes=CODE)
    flags = ["--packages", "tiny==1.0", "--min-characters", "20", "--heldout-fraction", "0.5", "--code-texts", "1"]
    flags += ["--code-min-characters", "40", "--seed", "1", "--sha256", "any"]
    first = [*flags, "--code", str(tmp_path / "c.jsonl.gz"), "-o", str(tmp_path / "task")]
    for _ in range(2):  # the second time over what the first has made
        assert execute("harvest", [*first, "--code-sha256", "any"]) == 0
    flags += ["--code", str(tmp_path / "others.jsonl.gz")]
    digest = read_note(note_path(tmp_path / "task/corpus.jsonl.gz"))["facts"]["code_sha256"]
    (row,) = (json.loads(line) for line in gzip.decompress((tmp_path / "c.jsonl.gz").read_bytes()).splitlines())
    assert samples.read_texts(tmp_path / "c.jsonl.gz", split=None) == {row["_id"]: row["text"]}
    assert row["metadata"] == {"package": "tiny"} and f"1 of 2 functions, sha256 {digest}" in capsys.readouterr().err
    assert execute("harvest", [*flags, "--code-sha256", digest, "-o", str(tmp_path / "again")]) == 0
    assert execute("harvest", [*flags, "--code-sha256", "0" * 64, "-o", str(tmp_path / "other")]) == 1
    assert "corpus.code_sha256: the harvested texts have the digest" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()
