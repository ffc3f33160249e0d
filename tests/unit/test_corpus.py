"""The harvest against small packages written on the spot, and against importing a real one."""

import ast
import gzip
import importlib.metadata
import importlib.util
import inspect
import json
import re
import textwrap
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from embscale.cli import execute, line
from embscale.errors import EmbscaleError
from embscale.provenance.artifacts import note_path, read_note
from embscale.report.numbers import corpus_numbers
from embscale.texts import beir, corpus, samples

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
    with pytest.raises(EmbscaleError, match=r"^corpus\.code_texts: 101 functions are wanted, but 100 are"):
        corpus.choose(functions, count=101, seed=1)


TWINS = """
def {name}(values):
    \"\"\"{summary}

    {text}

    See Also
    --------
    {other} : The other one.
    \"\"\"
    # {comment}
    return {code}
"""


def twins(count=12):
    """Pairs of functions that name each other, with summaries of their own."""
    sources = []
    for i in range(count):
        text = " ".join(f"w{i}x{j}" for j in range(30))
        for side, other in ("ab", "ba"):
            sources.append(
                TWINS.format(
                    name=f"{side}{i}",
                    other=f"{other}{i}",
                    summary=f"Do number {i} {side}.",
                    text=text,
                    comment="a comment that makes the function long enough",
                    code=f"values + {2 * i + (side == 'b')}",
                )
            )
    return "\n".join(sources)


def function_task(source, package, count):
    package(shapes=source)
    found = corpus.harvest({"tiny": "1.0"}, min_characters=5, code_min_characters=40)
    task = corpus.function_task(found, count=count, seed=1)
    return {f.name.removeprefix("tiny.shapes.") for f in task.documents}, {
        query.text: (query.name, [name.removeprefix("tiny.shapes.") for name in query.relevant])
        for query in task.queries
    }


def described(name, docstring, code):
    return f'def {name}(values):\n    """{docstring}"""\n    return {code}\n'


LONG = "values + values + values"


def test_functions_are_asked_for_by_their_own_summaries(package):
    documents, queries = function_task(
        described("first", "Adds it thrice.\n\n    And more.", LONG)
        + described("other", "Adds four times.", f"{LONG} * 2"),
        package,
        2,
    )
    assert documents == {"first", "other"}
    assert queries == {
        "Adds it thrice.": ("summary of tiny.shapes.first", ["first"]),
        "Adds four times.": ("summary of tiny.shapes.other", ["other"]),
    }


def test_functions_with_one_summary_are_all_relevant_to_one_query(package):
    source = "".join(described(name, "Adds it thrice.", f"{LONG} * {i}") for i, name in enumerate(["c", "a", "b"]))
    assert function_task(source, package, 3)[1] == {"Adds it thrice.": ("summary of tiny.shapes.a", ["a", "b", "c"])}


def test_equal_functions_are_one_that_either_summary_asks_for(package):
    source = "".join(
        f'class {name}:\n    def same(self, values):\n        """Adds it {word}."""\n        return {LONG}\n'
        for name, word in (("B", "thrice"), ("A", "three times"))
    )
    documents, queries = function_task(source, package, 1)
    assert documents == {"A.same"}
    assert queries == {
        "Adds it three times.": ("summary of tiny.shapes.A.same", ["A.same"]),
        "Adds it thrice.": ("summary of tiny.shapes.B.same", ["A.same"]),
    }


@pytest.mark.parametrize(
    "source",
    [
        described("short", "Adds it.", LONG),  # two words
        described("_private", "Adds it up thrice.", LONG),
        described("quoted", "Adds it up thrice.", f"{LONG}  # `adds it up` thrice"),
        f"def bare(values):\n    return {LONG}\n",
        # The docstring is the getter's.
        'class A:\n    @property\n    def x(self):\n        """The x of it."""\n\n'
        f"    @x.setter\n    def x(self, values):\n        self.y = {LONG}\n",
    ],
)
def test_a_function_without_an_honest_summary_is_left_out(package, source):
    documents, queries = function_task(source + described("kept", "This one is kept.", f"{LONG} - 1"), package, 1)
    assert documents == {"kept"} and list(queries) == ["This one is kept."]


def test_too_few_functions_with_a_summary_are_reported(package):
    with pytest.raises(EmbscaleError, match=r"^corpus\.code_texts: 2 functions are wanted, but 1 are long enough"):
        function_task(described("only", "Adds it up thrice.", LONG), package, 2)


def rows(path):
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


@pytest.fixture
def harvest(tmp_path):
    """A function that runs the command, with changes to its flags, and gives its exit status."""

    def run(*flags, packages=("tiny==1.0",), to=tmp_path):
        given = ["--packages", *packages, "--min-characters", "20", "--heldout-fraction", "0.3", "--code-texts", "20"]
        given += ["--code-min-characters", "40", "--seed", "1", "--heldout-packages", "--shingle-words", "8"]
        given += ["--shared-shingles", "0.5", "--dev-fraction", "0.3", *flags]
        for name in ("--sha256", "--code-sha256"):
            given += [] if name in flags else [name, "any"]
        return execute("harvest", [*given, "--functions", str(to / "Functions"), "-o", str(to / "Docs")])

    return run


def test_the_command_writes_both_tasks_and_holds_them_to_their_digests(package, harvest, tmp_path, capsys):
    package(twins=twins())
    for _ in range(2):  # the second time over what the first has made
        assert harvest() == 0
    facts = read_note(note_path(tmp_path / "Docs/corpus.jsonl.gz"))["facts"]
    shown = capsys.readouterr().err
    assert f"24 documents, 24 queries, sha256 {facts['sha256']}" in shown
    assert f"20 documents, 20 queries, code_sha256 {facts['code_sha256']}" in shown
    found = rows(tmp_path / "Functions/corpus.jsonl.gz")
    assert samples.read_texts(tmp_path / "Functions/corpus.jsonl.gz", split=None) == {
        r["_id"]: r["text"] for r in found
    }
    assert harvest("--code-sha256", facts["code_sha256"], "--sha256", facts["sha256"], to=tmp_path / "again") == 0
    assert harvest("--code-sha256", "0" * 64, to=tmp_path / "other") == 1
    assert "corpus.code_sha256: the harvested texts have the digest" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_twins_stay_on_one_side_of_each_split(package, harvest, tmp_path):
    """Near-duplicates of the split of documents, queries that name each other of that of queries."""
    package(twins=twins())
    assert harvest() == 0
    split = {row["_id"]: row["metadata"]["split"] for row in rows(tmp_path / "Docs/corpus.jsonl.gz")}
    assert set(split.values()) == {"train", "heldout"}
    test, dev = (beir.load(tmp_path / "Docs", name).qrels for name in ("test", "dev"))
    assert len(test) + len(dev) == 24 and min(len(test), len(dev)) > 1
    for i in range(12):
        a, b = f"tiny.twins.a{i}", f"tiny.twins.b{i}"
        assert split[a] == split[b]
        assert (a in dev) == (b in dev) != (a in test)
    for row in rows(tmp_path / "Functions/corpus.jsonl.gz"):
        assert row["metadata"] == {"package": "tiny", "split": split[row["_id"]]}
    facts = read_note(note_path(tmp_path / "Docs/corpus.jsonl.gz"))["facts"]
    assert facts["near_duplicates"]["groups"] == 12 and facts["near_duplicates"]["leaking"] == 0
    assert facts["near_duplicates"]["leaking_before"] > 0
    assert facts["docstrings"]["documents"] == {name: list(split.values()).count(name) for name in ("heldout", "train")}
    assert facts["docstrings"]["queries"] == {"dev": len(dev), "test": len(test)}
    assert (
        facts["docstrings"]["clusters"]
        == "12 clusters of the 24 queries, the largest of 2; 0 of 24 labels link two of them"
    )


def test_a_held_out_package_has_a_split_of_its_own(package, harvest, tmp_path):
    package(twins=twins())
    assert harvest("--heldout-packages", "tiny") == 0
    for task in ("Docs", "Functions"):
        assert {row["metadata"]["split"] for row in rows(tmp_path / task / "corpus.jsonl.gz")} == {"heldout_package"}


@pytest.mark.long
def test_nothing_held_out_of_a_real_package_resembles_what_is_for_training(harvest, tmp_path):
    """By sets of words compared one pair at a time."""
    version = importlib.metadata.version("networkx")
    assert harvest("--min-characters", "100", "--code-texts", "100", packages=[f"networkx=={version}"]) == 0
    sets = {"train": [], "heldout": []}
    for row in rows(tmp_path / "Docs/corpus.jsonl.gz"):
        words = re.findall(r"\w+", row["text"].lower())
        sets[row["metadata"]["split"]].append({" ".join(words[i : i + 8]) for i in range(max(1, len(words) - 7))})
    holders = defaultdict(set)
    for i, shingles in enumerate(sets["train"]):
        for shingle in shingles:
            holders[shingle].add(i)
    assert len(sets["heldout"]) > 100
    for shingles in sets["heldout"]:
        common = Counter(i for shingle in shingles for i in holders.get(shingle, ()))
        assert all(n < 0.5 * min(len(shingles), len(sets["train"][i])) for i, n in common.items())


def test_the_report_tells_the_sizes_of_both_tasks(package, harvest, tmp_path):
    package(twins=twins())
    assert harvest() == 0
    documents = rows(tmp_path / "Docs/corpus.jsonl.gz")
    documents[0]["metadata"] = {"package": "whole", "split": "heldout_package"}
    facts = read_note(note_path(tmp_path / "Docs/corpus.jsonl.gz"))["facts"]
    values = corpus_numbers(documents, beir.read_qrels(tmp_path / "Docs/qrels/test.tsv"), facts)
    chapter = (Path(__file__).resolve().parents[2] / "report/chapters/texts.qmd").read_text("utf-8")
    assert set(re.findall(r"var corpus\.(\w+)", chapter)) == set(values)
    assert (values["documents"], values["functions"], values["near_duplicates"]) == ("24", "20", "12")
    assert int(values["queries"]) + int(values["dev_queries"]) == 24
    assert int(values["function_queries"]) + int(values["function_dev_queries"]) == 20
    assert values["packages"] == "tiny, whole" and values["relevant_per_query"] == "1.0"
    assert re.fullmatch(r"\d+ of them and all 1 of whole", values["heldout"])


def test_the_command_can_be_run_again_from_its_note(package, harvest, tmp_path):
    """Where a list is empty, too."""
    package(twins=twins())
    assert harvest() == 0
    note = read_note(note_path(tmp_path / "Docs/corpus.jsonl.gz"))
    assert note["params"]["heldout_packages"] == []
    command, *words = line("harvest", note["params"] | note["paths"])
    assert execute(command, words) == 0
    assert read_note(note_path(tmp_path / "Docs/corpus.jsonl.gz"))["outputs"] == note["outputs"]
