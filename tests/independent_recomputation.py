"""The scores of a study, their means, intervals and differences, computed again by other code.

    python tests/independent_recomputation.py results/desk [--model MODEL ...]

Of the project's results it reads the tables, the tokens, the tasks and, from the scores of queries, which query belongs
to which cluster; it imports nothing of the project.  Everything else is done in another way: texts are products of
sparse matrices with tables in float64, a document's rank is the number of documents above it, and intervals come from
formulas in place of a bootstrap.  It compares

- every query's score at the primary length, of tables as they are and under the treatments `TREATMENTS`, and chance;
- `estimates.csv` and `differences.csv` with means over runs, intervals and p-values;

and ends with status 1 if anything differs by more than is said here.

Scores may differ by 1e-5, and of documents whose cosines are within `ROUNDING` of each other either may come first: the
project adds up in float32.  The ends of an interval may lie where the formula puts between half as much and twice as
much probability beyond them as it should (2.5 %), once the chance in the bootstrap's own draws is allowed for.  Of
fewer than `MANY` clusters the mean is not normal enough for the formula, and intervals are not compared.
"""

import argparse
import csv
import functools
import gzip
import itertools
import json
import re
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy import optimize, sparse, special, stats

SCORE = 1e-5
ROUNDING = 2e-6
METRICS = ("ndcg_at_10", "recall_at_100")
TREATMENTS = ("full", "unit", "centred", "idf", "crop")
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4"}
# Probability beyond an end of a 95 % interval, and how many times as much or as little the formula may put there.
BEYOND, SKEWED = 0.025, 2.0
# Chance that draws of a bootstrap of the right quantity fail the test of an interval's end.
ALARM = 1e-6
KEYS = ("suite", "model", "run", "step", "variant", "variant_dims", "seed", "dim", "width", "length", "metric")
CELL = ("suite", "model", "step", "width", "table", "treatment", "dim", "task", "length", "metric", "queries")
LABELS_AT_ONCE = 256
MANY = 40


def tensors(path):
    """The arrays of a safetensors file: eight bytes with the length of a header in JSON, the header, the values."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    found = {}
    for name, about in json.loads(content[8:start]).items():
        if name != "__metadata__":
            first, last = about["data_offsets"]
            values = np.frombuffer(content[start + first : start + last], TYPES[about["dtype"]]).reshape(about["shape"])
            if about["dtype"] == "BF16":  # the upper half of a float32
                values = (values.astype("<u4") << 16).view("<f4")
            found[name] = values
    return found


def lines(path):
    """The objects of a file of JSON lines, compressed or not."""
    packed = path.with_name(path.name + ".gz")
    content = gzip.decompress(packed.read_bytes()) if packed.is_file() else path.read_bytes()
    return [json.loads(line) for line in content.decode("utf-8").removesuffix("\n").split("\n")]


class Task:
    """Texts as rows of sparse matrices, and the labels."""

    def __init__(self, folder, tokens, length):
        documents, queries = lines(folder / "corpus.jsonl"), lines(folder / "queries.jsonl")
        with (folder / "qrels" / "test.tsv").open(encoding="utf-8", newline="") as file:
            labels = [
                (row["query-id"], row["corpus-id"], int(row["score"])) for row in csv.DictReader(file, delimiter="\t")
            ]
        labels = sorted({label for label in labels if label[2] > 0})
        judged = {query for query, _, _ in labels}
        self.names = [row["_id"] for row in queries if row["_id"] in judged]
        names = [row["_id"] for row in documents]
        place, number = {n: i for i, n in enumerate(names)}, {n: i for i, n in enumerate(self.names)}
        self.query = np.array([number[query] for query, _, _ in labels])
        self.document = np.array([place[document] for _, document, _ in labels])
        self.gain = np.array([gain for _, _, gain in labels], float)
        self.own = np.array([place.get(name, -1) for name in self.names])
        # Of documents with the same score the one whose id is last as text comes first.
        self.precedence = np.empty(len(names), int)
        self.precedence[sorted(range(len(names)), key=names.__getitem__, reverse=True)] = np.arange(len(names))
        seen = {row["_id"] for row in documents if (row.get("metadata") or {}).get("split", "train") == "train"}
        trained = {query for query, document, _ in labels if document in seen} | (seen & judged)
        self.heldout = np.array([name not in trained for name in self.names])
        arrays = tensors(tokens)
        self.rows = 1 + max(int(arrays[f"{group}.ids"].max(initial=0)) for group in ("documents", "queries"))
        bags = self._bags(arrays, "documents", length)
        self.queries = self._matrix(self._bags(arrays, "queries", None))
        if len(bags) != len(names) or self.queries.shape[0] != len(self.names):
            raise SystemExit(f"{tokens}: of other texts than {folder}")
        # Documents with the same tokens, in whatever order, score the same.
        kinds = {}
        self.kind = np.array([kinds.setdefault(np.sort(bag).tobytes(), len(kinds)) for bag in bags])
        self.documents = self._matrix([np.frombuffer(kind, np.int32) for kind in kinds])
        holding = np.bincount(np.concatenate([np.unique(bag) for bag in bags]), minlength=self.rows)
        self.idf = np.log((1 + len(bags)) / (1 + holding))

    @staticmethod
    def _bags(arrays, group, length):
        ids, offsets = arrays[f"{group}.ids"], arrays[f"{group}.offsets"]
        return [ids[start:stop][:length] for start, stop in itertools.pairwise(offsets)]

    def _matrix(self, bags):
        """Counts of tokens, ``[texts, rows]``; the cosine does not depend on the length of a text."""
        texts = np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])
        counts = sparse.coo_array((np.ones(len(texts)), (texts, np.concatenate(bags))), shape=(len(bags), self.rows))
        return counts.tocsr()

    def ranks(self, table):
        """Rank of each label's document, and the lowest and highest number that rounding can make of it."""
        queries, documents = (unit(texts @ table[: self.rows]) for texts in (self.queries, self.documents))
        found = np.empty((3, len(self.query)), int)
        for start in range(0, len(self.query), LABELS_AT_ONCE):
            some = slice(start, start + LABELS_AT_ONCE)
            asked, answer = self.query[some], self.document[some]
            cosines = (queries[asked] @ documents.T)[:, self.kind]
            at = np.arange(len(asked))
            own = cosines[at, answer][:, None]
            itself = self.own[asked]
            cosines[at[itself >= 0], itself[itself >= 0]] = -np.inf  # the query's own document is no candidate
            before = self.precedence < self.precedence[answer][:, None]
            found[0, some] = 1 + ((cosines > own) | ((cosines == own) & before)).sum(axis=1)
            found[1, some] = 1 + (cosines > own + ROUNDING).sum(axis=1)
            found[2, some] = (cosines >= own - ROUNDING).sum(axis=1)
        found[:, self.own[self.query] == self.document] = len(self.kind) + 1
        return found

    def scores(self, metric, ranks):
        """The metric of every query from the ranks of its documents."""
        kind, depth = re.fullmatch(r"(ndcg|recall)_at_(\d+)", metric).groups()
        depth, size = int(depth), len(self.names)
        shown = ranks <= depth
        if kind == "recall":
            return np.bincount(self.query, shown, size) / np.bincount(self.query, minlength=size)
        gained = np.bincount(self.query, shown * self.gain / np.log2(1 + ranks), size)
        return gained / self.ideal(depth)

    @functools.cache  # noqa: B019 (there are two tasks)
    def ideal(self, depth):
        """The gain of the best order of each query's documents."""
        best = np.zeros(len(self.names))
        for query in range(len(best)):
            gains = np.sort(self.gain[self.query == query])[::-1][:depth]
            best[query] = (gains / np.log2(np.arange(2, len(gains) + 2))).sum()
        return best

    def chance(self, metric):
        """The expected metric of a random order: each document is at each rank equally often."""
        kind, depth = re.fullmatch(r"(ndcg|recall)_at_(\d+)", metric).groups()
        depth = int(depth)
        candidates = len(self.kind) - (self.own >= 0)
        if kind == "recall":
            return np.minimum(1, depth / candidates)
        gain = np.bincount(self.query, self.gain, len(self.names))
        discounts = np.array([(1 / np.log2(np.arange(2, min(depth, n) + 2))).sum() for n in candidates])
        return gain / candidates * discounts / self.ideal(depth)


def unit(rows):
    """Rows of length 1; zero rows stay."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def treated(table, treatment, dims, task):
    """A table under a treatment."""
    match treatment:
        case "full":
            return table
        case "unit":
            return unit(table)
        case "centred":
            return table - table.mean(axis=0)
        case "idf":
            return table * np.resize(np.append(task.idf, np.zeros(len(table) - task.rows)), len(table))[:, None]
        case "crop":
            return table[:, :dims]
    raise ValueError(treatment)


def split(variant):
    """Which table and which treatment a variant is."""
    table, _, treatment = variant.partition("+")
    if table in ("random", "shuffled", "output", "effective"):
        return table, treatment or "full"
    return "input", variant


def groups(path, length):
    """The scores of a file at a length: for each set of keys, query to score; and the cluster of each query."""
    table = pq.read_table(path)
    chosen = np.array(table["length"].to_pylist()) == length
    codes, words = [], []
    for name in KEYS:
        encoded = table[name].combine_chunks().dictionary_encode()
        codes.append(encoded.indices.to_numpy()[chosen])
        words.append(encoded.dictionary.to_pylist())
    kinds, number = np.unique(np.array(codes), axis=1, return_inverse=True)
    names = np.array(table["query"].to_pylist(), object)[chosen]
    scores, clusters, heldout = (table[name].to_numpy()[chosen] for name in ("score", "cluster", "heldout"))
    for place, codes in enumerate(kinds.T):
        members = np.flatnonzero(number == place)
        keys = {name: words[i][code] for i, (name, code) in enumerate(zip(KEYS, codes, strict=True))}
        yield (
            keys,
            dict(
                zip(names[members], zip(scores[members], clusters[members], heldout[members], strict=True), strict=True)
            ),
        )


class Study:
    """What was found, by task and cell, and what did not fit."""

    def __init__(self, folder, models):
        self.folder, self.root, self.models = folder, folder.parents[1], set(models)
        self.wrong, self.largest, self.ambiguous, self.compared, self.left = [], 0.0, 0, 0, defaultdict(int)
        self.resamples, self.tasks = 0, {}
        # Cell to run to scores of the queries, and what rounding can make of the cell's mean.
        self.cells, self.slack = defaultdict(dict), defaultdict(float)
        self.clusters = {}

    def scores(self):
        """Compare the scores of every query."""
        for path in sorted((self.folder / "per_query").glob("*/*.parquet")):
            note = json.loads(path.with_name(path.name + ".note.json").read_text("utf-8"))
            settings, files = note["params"], note["paths"]
            self.resamples = settings["bootstrap_resamples"]
            length = settings["lengths"][0]
            key = files["beir"][0], files["tokens"][0], length
            if key not in self.tasks:
                cut = None if length == "all" else int(length)
                self.tasks[key] = Task(self.root / key[0], self.root / key[1], cut)
            tables = {}
            for keys, found in groups(path, length):
                if keys["metric"] not in METRICS or (self.models and keys["model"] not in self.models):
                    continue
                self._compare(path, self.tasks[key], Path(key[0]).name, keys, found, settings, tables)

    def _compare(self, path, task, name, keys, found, settings, tables):
        of, treatment = split(keys["variant"])
        chance = keys["model"] == "chance"
        if not chance and (
            keys["suite"] == "reference" or treatment not in TREATMENTS or of in ("output", "effective")
        ):
            self.left[f"{of} {treatment}"] += 1
            return
        recorded = np.array([found[query][0] if query in found else np.nan for query in task.names])
        if len(found) != len(task.names) or np.isnan(recorded).any():
            self.wrong.append(f"{path}: {keys}: other queries than the task's")
            return
        heldout = np.array([found[query][2] for query in task.names], bool)
        if (heldout != task.heldout).any():
            self.wrong.append(f"{path}: other queries are held out")
        low = high = exact = None
        if chance:
            exact = low = high = task.chance(keys["metric"])
        else:
            identity = (of, treatment, keys["step"], keys["seed"], keys["width"], keys["variant_dims"], keys["model"])
            if identity not in tables:
                tables.clear()  # of one table at a time
                table = treated(self._table(of, keys, settings), treatment, keys["variant_dims"], task)
                if table.shape[1] != keys["dim"]:
                    self.wrong.append(f"{path}: {keys}: a table of {table.shape[1]} columns")
                tables[identity] = task.ranks(table)
            exact, high, low = (task.scores(keys["metric"], ranks) for ranks in tables[identity])
        off = np.abs(exact - recorded)
        rounded = off > SCORE
        if (rounded & ((recorded < low - SCORE) | (recorded > high + SCORE))).any():
            worst = int(off.argmax())
            self.wrong.append(f"{path}: {keys}: {task.names[worst]} scores {recorded[worst]}, here {exact[worst]}")
        self.compared += len(off)
        self.ambiguous += int(rounded.sum())
        self.largest = max(self.largest, float(off[~rounded].max(initial=0)))
        numbers = [f":{keys['variant_dims']:g}"] if treatment == "crop" else []
        cell = {
            **{key: keys[key] for key in ("suite", "model", "step", "width", "dim", "length", "metric")},
            "table": "reference" if chance else of, "treatment": "".join([treatment, *numbers]), "task": name,
        }  # fmt: skip
        member = keys["seed"] if of == "random" else keys["run"]
        clusters = np.array([found[query][1] for query in task.names])
        for queries, chosen in (("all", np.ones(len(exact), bool)), ("heldout", heldout), ("trained on", ~heldout)):
            if chosen.any():
                place = tuple(text(cell | {"queries": queries}, key) for key in CELL)
                self.cells[place][member] = exact[chosen]
                self.slack[place] += float(off[rounded & chosen].sum() / chosen.sum())
                self.clusters[name, queries] = clusters[chosen]

    def _table(self, of, keys, settings):
        if of == "random":
            values = np.random.default_rng(keys["seed"]).standard_normal(
                (self._random_rows(settings, keys), keys["width"]), dtype=np.float32
            )
            return values.astype(np.float64)
        for words in settings["tables"]:
            step, _, path = words.rpartition("=")
            step = int(step) if step.isdecimal() else -1
            if step == keys["step"] and keys["model"] in (settings["model"], Path(path).stem):
                table = tensors(self.root / path)["table"].astype(np.float64)
                if of == "shuffled":
                    table = table[np.random.default_rng(settings["shuffle_seed"]).permutation(len(table))]
                return table
        raise SystemExit(f"no table for {keys} among {settings['tables']}")

    @staticmethod
    def _random_rows(settings, keys):
        wanted = rf"random:(\d+)x{keys['width']}:{keys['seed']}"
        return next(int(found[1]) for words in settings["tables"] if (found := re.fullmatch(wanted, words)))

    def estimates(self):
        """Compare means over runs and their intervals."""
        compared, ends = 0, Ends(self.resamples)
        for row in rows(self.folder / "estimates.csv"):
            place = tuple(text(row, key) for key in CELL)
            if place not in self.cells:
                continue
            compared += 1
            scores = np.stack([self.cells[place][run] for run in sorted(self.cells[place])])
            clusters = self.clusters[row["task"], row["queries"]]
            spread = Spread(scores.mean(axis=0), clusters, [scores])
            self._fits(place, row, "value", scores.mean(), self.slack[place])
            expected = {"runs": len(scores), "n": scores.shape[1], "clusters": spread.count}
            self._counts(place, row, expected)
            self.wrong += ends.check(place, row, scores.mean(), spread, limits=(0.0, 1.0))
        return compared, ends

    def differences(self):
        """Compare differences from controls, their intervals and p-values."""
        compared, ends = 0, Ends(self.resamples)
        for row in rows(self.folder / "differences.csv"):
            keys = {key: text(row, key) for key in CELL}
            place = tuple(keys.values())
            changes = {
                "random": {"suite": "random", "model": "random", "step": "", "table": "random"},
                "untrained": {"step": "0"},
                "shuffled": {"table": "shuffled"},
                "chance": {
                    "suite": "reference", "model": "chance", "step": "", "width": "", "dim": "", "table": "reference",
                    "treatment": "chance",
                },
            }[row["against"]]  # fmt: skip
            other = tuple((keys | changes).values())
            if place not in self.cells or other not in self.cells:
                continue
            compared += 1
            runs, controls = (self.cells[which] for which in (place, other))
            score, control = (np.stack([some[run] for run in sorted(some)]) for some in (runs, controls))
            paired = row["against"] in ("untrained", "shuffled") and runs.keys() == controls.keys()
            means = score.mean(axis=0) - control.mean(axis=0)
            clusters = self.clusters[row["task"], row["queries"]]
            spread = Spread(means, clusters, [score - control] if paired else [score, control])
            where, slack = (*place, row["against"]), self.slack[place] + self.slack[other]
            self._fits(where, row, "value", means.mean(), slack)
            self._fits(where, row, "score", score.mean(), slack)
            self._fits(where, row, "control_score", control.mean(), slack)
            self._counts(where, row, {"runs": len(score), "control_runs": len(control), "clusters": spread.count})
            self.wrong += ends.check(where, row, means.mean(), spread)
            self.wrong += ends.check_p(where, row)
        return compared, ends

    def _fits(self, place, row, name, expected, slack):
        if not abs(float(row[name]) - expected) <= SCORE + slack:
            self.wrong.append(f"{' '.join(place)}: {name} {row[name]}, here {expected}")

    def _counts(self, place, row, expected):
        self.wrong += [
            f"{' '.join(place)}: {name} {row[name]}, here {value}"
            for name, value in expected.items()
            if int(float(row[name])) != value
        ]


class Spread:
    """How a mean over queries and runs varies: normal with the clusters of queries, and with runs as Student's t.

    The variance over clusters is that of a ratio, the sum over a cluster to its size (Cochran 1977, section 9A).  Runs
    have the variance of their means less what of it comes from queries (Cameron, Gelbach and Miller 2011).

    Args:
        means: over runs, of every query.
        clusters: of every query.
        parts: scores ``[runs, queries]`` whose runs vary independently of each other.
    """

    def __init__(self, means, clusters, parts):
        labels, cluster = np.unique(clusters, return_inverse=True)
        self.count, size = len(labels), len(means)
        self.normal = np.sqrt(np.square(np.bincount(cluster, means - means.mean())).sum()) / size
        self.students = []
        for scores in parts:
            runs = len(scores)
            if runs > 1:
                of_runs = scores.mean(axis=1).var(ddof=1) / runs
                rest = scores - scores.mean(axis=0) - (scores.mean(axis=1) - scores.mean())[:, None]
                shared = sum(np.square(np.bincount(cluster, row)).sum() for row in rest) / (runs * (runs - 1)) / size**2
                self.students.append((np.sqrt(max(0.0, of_runs - shared)), runs - 1))

    def below(self, value):
        """The probability of at most this deviation from the mean."""
        moved = np.zeros(1)
        for scale, freedom in self.students:
            if scale > 0:
                moved = (moved[:, None] + scale * student(freedom)).ravel()
        if self.normal == 0:
            return float((moved <= value).mean())
        return float(special.ndtr((value - moved) / self.normal).mean())

    def end(self, chance):
        """The deviation that is not exceeded with this probability."""
        scale = self.normal + sum(scale for scale, _ in self.students)
        if scale == 0:
            return 0.0
        return optimize.brentq(lambda value: self.below(value) - chance, -99 * scale, 99 * scale, xtol=1e-4 * scale)


@functools.cache
def student(freedom):
    """Equally likely values of Student's t."""
    return stats.t.ppf((np.arange(200) + 0.5) / 200, freedom)


class Ends:
    """Comparison of intervals with formulas."""

    def __init__(self, resamples):
        # How much probability can lie beyond the end that a bootstrap with so many draws finds, by chance.
        order = BEYOND * (resamples - 1) + 1
        by_chance = stats.beta(order, resamples + 1 - order).ppf([ALARM, 1 - ALARM])
        self.least, self.most = by_chance[0] / SKEWED, by_chance[1] * SKEWED
        self.apart, self.refused, self.few = [], 0, 0

    def check(self, place, row, mean, spread, limits=(-np.inf, np.inf)):
        """What is wrong with the interval of a row."""
        ends = [float(row[name] or "nan") for name in ("ci_low", "ci_high")]
        if spread.count == 1:
            self.refused += 1
            return [] if np.isnan(ends).all() else [f"{' '.join(place)}: an interval from one cluster"]
        if np.isnan(ends).any():
            return [f"{' '.join(place)}: no interval"]
        if spread.count < MANY:
            self.few += 1
            return [] if ends[0] <= ends[1] else [f"{' '.join(place)}: interval {ends}"]
        width = spread.end(1 - BEYOND) - spread.end(BEYOND)
        if width <= SCORE:
            off = max(abs(end - mean) for end in ends)
            return [] if off <= 2 * SCORE else [f"{' '.join(place)}: interval {ends}, here of no width"]
        beyond = spread.below(ends[0] - mean), 1 - spread.below(ends[1] - mean)
        wrong = []
        for end, limit, chance, level in zip(ends, limits, beyond, (BEYOND, 1 - BEYOND), strict=True):
            if end == limit:  # cut off there
                wrong += [f"{' '.join(place)}: {end} is within the interval"] if chance < self.least else []
                continue
            self.apart.append(abs(end - mean - spread.end(level)) / width)
            if not self.least <= chance <= self.most:
                wrong.append(f"{' '.join(place)}: interval {ends}, beyond whose end {end} there is {chance:.4f}")
        return wrong

    @staticmethod
    def check_p(place, row):
        """A p-value is below 5 % if the interval excludes 0."""
        if not row["p"]:
            return [f"{' '.join(place)}: no p-value"] if row["ci_low"] else []
        outside = float(row["ci_low"]) > 0 or float(row["ci_high"]) < 0
        p = float(row["p"])
        return (
            [f"{' '.join(place)}: p {p}, against its interval"]
            if outside != (p < 0.05) and abs(p - 0.05) > 0.02
            else []
        )

    def words(self):
        """A summary."""
        apart = np.array(self.apart or [0.0])
        return (
            f"{len(self.apart)} ends of intervals, apart by {100 * np.median(apart):.1f} % of the interval's width in "
            f"the median and {100 * apart.max():.1f} % at most; {self.few} intervals of few clusters, "
            f"{self.refused} of one"
        )


def text(row, key):
    """A key as it is in a CSV; what does not apply is empty."""
    value = row[key]
    if isinstance(value, str):
        return value.removesuffix(".0") if key in ("step", "width", "dim") else value
    return "" if value == -1 else str(value)


def rows(path):
    """The rows of a CSV."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="the folder of its results, in a checkout")
    parser.add_argument("--model", nargs="*", default=[], help="only these, as in score rows")
    args = parser.parse_args()
    study = Study(args.study.resolve(), args.model)
    study.scores()
    print(f"{study.compared} scores of queries: the largest difference is {study.largest:.1e}")
    print(f"{study.ambiguous} of them depend on rounding and are within its bounds")
    print(f"not computed here: {dict(sorted(study.left.items()))}")
    compared = []
    for name in ("estimates", "differences"):
        count, ends = getattr(study, name)()
        compared.append(count)
        print(f"{count} rows of {name}.csv: {ends.words()}")
    for words in study.wrong[:50]:
        print(words, file=sys.stderr)
    print(f"{len(study.wrong)} mismatches")
    sys.exit(1 if study.wrong or not study.compared or not all(compared) else 0)


if __name__ == "__main__":
    main()
