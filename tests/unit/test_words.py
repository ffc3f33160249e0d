"""Word probes: held against gensim, scikit-learn, scipy, closed forms, and vectors that know nothing."""

import shutil

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file
from scipy import stats
from sklearn.metrics import roc_auc_score
from small_corpus import MADE_OF

from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.report.words_table import words_table
from embscale.scoring import words
from embscale.scoring.words import WordSet, WordVectors
from embscale.tables import random_tables, table_files
from embscale.texts import tokens

TEXTS = tokens.TokenisedTexts(np.arange(40, dtype=np.int32) % 7, np.array([0, 20, 40]))
NAMES = [f"{letter}{other}" for letter in "abcdefghij" for other in "klmnopqrst"]
SETTINGS = {"form": "space", "random_seeds": [1, 2, 3]}


def named(vectors):
    return WordVectors({name: i for i, name in enumerate(NAMES[: len(vectors)])}, np.asarray(vectors, np.float32))


def at_random(count=100, dims=30, seed=0):
    return named(random_tables.independent(count, dims, seed))


def planted(noise, seed=0):
    """Fifty pairs that differ by one offset, up to noise: words 2 i and 2 i + 1."""
    generator = np.random.default_rng(seed)
    base, offset = generator.normal(size=(50, 30)), generator.normal(size=30)
    return named(np.stack([base, base + offset + noise * generator.normal(size=(50, 30))], axis=1).reshape(100, 30))


def questions(count=40, seed=0):
    pairs = np.random.default_rng(seed).integers(0, 50, (count, 2))
    return [(NAMES[2 * i], NAMES[2 * i + 1], NAMES[2 * j], NAMES[2 * j + 1]) for i, j in pairs if i != j]


def outcomes(found):
    return {(outcome.section, outcome.metric): outcome for outcome in found}


# One token, one word


def byte_level():
    """Knows dog with and without a space in front, cat behind a space alone."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    merges = [("t", "h"), ("th", "e"), ("d", "o"), ("do", "g"), ("Ġ", "dog"), ("Ġ", "c"), ("Ġc", "a"), ("Ġca", "t")]
    vocabulary = [*"thedogcaibrĠ", *("".join(pair) for pair in merges)]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(dict.fromkeys(vocabulary))}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def word_piece(*vocabulary):
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    vocab = {token: i for i, token in enumerate(("[UNK]", "the", *vocabulary))}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def sentence_piece(*vocabulary):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(set("".join(vocabulary)) | set("the"))
    pieces = [("<unk>", 0.0), ("▁the", -1.0), *((piece, -1.0) for piece in vocabulary), *((x, -9.0) for x in letters)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def test_a_byte_level_tokenizer_has_two_forms_of_a_word():
    tokenizer = byte_level()
    at_start = words.single_tokens(["dog", "cat", "bird"], tokenizer, "plain")
    behind = words.single_tokens(["dog", "cat", "bird"], tokenizer, "space")
    assert {word: tokenizer.id_to_token(token) for word, token in at_start.items()} == {"dog": "dog"}
    assert {word: tokenizer.id_to_token(token) for word, token in behind.items()} == {"dog": "Ġdog", "cat": "Ġcat"}


def test_an_unknown_word_is_not_a_word_of_word_piece():
    tokenizer = word_piece("dog", "##s")
    for form in words.FORMS:
        assert words.single_tokens(["dog", "Dog", "dogs", "bird", "s"], tokenizer, form) == {"dog": 2, "Dog": 2}


def test_a_marked_word_is_the_same_in_both_forms():
    tokenizer = sentence_piece("▁dog", "cat")
    for form in words.FORMS:
        assert words.single_tokens(["dog", "cat"], tokenizer, form) == {"dog": 2}


def test_the_vocabulary_is_every_word_of_letters_and_those_asked_for():
    tokenizer = word_piece("dog", "##s", "r2d2", "12", "cat")
    assert words.vocabulary(tokenizer, "plain", asked=["Cat", "bird", "r2d2"]) == {
        "the": 1, "dog": 2, "cat": 6, "Cat": 6, "r2d2": 4
    }  # fmt: skip


def test_rows_come_once_and_zeros_are_left_out():
    table = np.arange(12, dtype=np.float32).reshape(6, 2)
    table[4] = 0
    found = words.word_vectors([table[:4], table[4:]], {"b": 5, "a": 1, "A": 1, "gone": 4})
    assert found.vectors.tolist() == [[2, 3], [10, 11]] and found.places == {"b": 1, "a": 0, "A": 0}
    with pytest.raises(EmbscaleError, match="the tokenizer has the token 9, but the table has 6 rows"):
        words.word_vectors([table], {"x": 9})


# Analogies


@pytest.mark.parametrize("noise", [0.0, 0.3, 2.0])
def test_the_accuracy_is_that_of_gensim(noise, tmp_path):
    from gensim.models import KeyedVectors

    vectors, asked = planted(noise), questions()
    found = outcomes(words.analogies(vectors, {"pairs": asked}))[("pairs", "accuracy")]
    keyed = KeyedVectors(30)
    keyed.add_vectors(NAMES[:100], vectors.vectors)
    lines = [": pairs", *(" ".join(question) for question in asked)]
    (tmp_path / "questions.txt").write_text("\n".join(lines) + "\n", "utf-8")
    expected, _ = keyed.evaluate_word_analogies(tmp_path / "questions.txt", case_insensitive=False)
    assert found.value == pytest.approx(expected) and found.total == len(found.scores) == len(asked)
    assert (noise == 2.0) == (found.value < 0.9)


def test_ranks_are_those_of_a_full_sort():
    vectors = at_random(60)
    asked = np.array([[0, 1, 2, 3], [10, 4, 50, 7]])
    unit = vectors.unit()
    for (a, b, c, d), rank in zip(asked, words._ranks(unit, asked), strict=True):
        cosines = unit @ (unit[b] - unit[a] + unit[c])
        order = [i for i in np.argsort(-cosines) if i not in (a, b, c)]
        assert order.index(d) + 1 == rank


def test_chance_is_what_random_vectors_reach():
    asked = questions(200)
    runs = [outcomes(words.analogies(at_random(seed=seed), {"pairs": asked})) for seed in range(40)]
    for metric in ("accuracy", "reciprocal_rank", "percentile"):
        values = [run[("pairs", metric)].value for run in runs]
        error = np.std(values) / np.sqrt(len(values))
        assert np.mean(values) == pytest.approx(runs[0][("pairs", metric)].chance, abs=4 * error)


def test_equal_vectors_are_a_draw():
    found = outcomes(words.analogies(named(np.ones((100, 4))), {"pairs": questions()}))
    assert found[("pairs", "percentile")].value == pytest.approx(0.5) and found[("pairs", "accuracy")].value == 0


@pytest.mark.parametrize("exponent", [70, 120, -70, -100])
def test_directions_of_words_do_not_depend_on_scale(exponent):
    rows = np.random.default_rng(0).standard_normal((9, 5)).astype(np.float32)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for scaled in (np.ldexp(rows, exponent), np.ldexp(rows, [[exponent * (i % 2)] for i in range(9)])):
        assert np.array_equal(words.WordVectors({}, scaled).unit(), unit)


def test_questions_without_their_words_are_counted_and_sections_joined():
    asked = questions(20)
    sections = {"known": asked, "half": [*asked[:2], ("king", "man", "queen", "woman")], "unknown": [tuple("wxyz")]}
    found = outcomes(words.analogies(planted(0), sections))
    assert [(len(found[(s, "accuracy")].scores), found[(s, "accuracy")].total) for s in (*sections, "all")] == [
        (len(asked), len(asked)), (2, 3), (0, 1), (len(asked) + 2, len(asked) + 4)
    ]  # fmt: skip
    assert np.isnan(found[("unknown", "accuracy")].value)


def test_a_question_with_one_token_twice_is_not_asked():
    vectors = WordVectors({"a": 0, "A": 0, "b": 1, "c": 2, "d": 3}, np.eye(4, dtype=np.float32))
    assert vectors.find([("a", "A", "b", "c"), ("a", "b", "c", "d")]).tolist() == [[0, 1, 2, 3]]


# Degrees


def degrees(vectors):
    triples = [NAMES[3 * i : 3 * i + 3] for i in range(len(vectors) // 3)]
    return {outcome.metric: outcome for outcome in words.degrees(named(vectors), triples)}


def test_equal_steps_are_collinear_and_an_offset_leads_along():
    generator = np.random.default_rng(0)
    base, step = generator.normal(size=(12, 1, 20)), generator.normal(size=20)
    found = degrees((base + step * np.arange(3)[:, None]).reshape(-1, 20))
    assert found["collinearity"].value == pytest.approx(1, abs=1e-6)
    assert found["in_order"].value == found["projected_between"].value == 1
    a, b = base[:, 0], base[:, 0] + step
    cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert found["addition_gain"].value == pytest.approx(1 - cosines.mean(), abs=1e-6)
    assert found["multiplication_gain"].value < found["addition_gain"].value


def test_a_number_above_one_keeps_the_direction():
    found = degrees((np.random.default_rng(0).normal(size=(12, 1, 20)) * np.array([[1], [1.5], [2]])).reshape(-1, 20))
    assert found["same_direction"].value == pytest.approx(1) and found["lengths_rise"].value == 1
    assert found["collinearity"].value == pytest.approx(1) and found["multiplication_gain"].value == pytest.approx(0)


def test_a_factor_for_each_column_is_learnt():
    generator = np.random.default_rng(0)
    base, factor = generator.normal(size=(12, 1, 20)), generator.normal(size=20)
    found = degrees((base * factor ** np.arange(3)[:, None]).reshape(-1, 20))
    a, b = base[:, 0], base[:, 0] * factor
    cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert found["multiplication_gain"].value == pytest.approx(1 - cosines.mean(), abs=1e-6)


def test_degrees_of_random_vectors_are_those_of_chance():
    runs = [degrees(random_tables.independent(99, 64, seed)) for seed in range(30)]
    for metric, outcome in runs[0].items():
        values = [run[metric].value for run in runs]
        if np.isnan(outcome.chance):
            assert (
                metric == "projected_between" and np.mean(values) > 0.99
            )  # says nothing, and the random band shows it
        else:
            error = np.std(values) / np.sqrt(len(values))
            assert np.mean(values) == pytest.approx(outcome.chance, abs=max(4 * error, 0.01)), metric


# Relations and similarity


def test_the_percentile_is_the_area_under_the_roc_curve():
    vectors = planted(0.8)
    pairs = [(NAMES[2 * i], NAMES[2 * i + 1]) for i in range(10)]
    found = outcomes(words.relations(vectors, {"pair": pairs}))
    unit, areas = vectors.unit(), []
    for i in range(10):
        for one, other in ((2 * i, 2 * i + 1), (2 * i + 1, 2 * i)):
            rest = [j for j in range(100) if j != one]
            areas.append(roc_auc_score([j == other for j in rest], unit[rest] @ unit[one]))
    assert found[("pair", "percentile")].value == pytest.approx(np.mean(areas))
    assert found[("pair", "percentile")].scores == pytest.approx(np.reshape(areas, (10, 2)).mean(axis=1))


def test_one_of_ten_neighbours_is_chance():
    pairs = [(NAMES[i], NAMES[j]) for i in range(20) for j in range(20, 40)]
    runs = [outcomes(words.relations(at_random(seed=seed), {"pair": pairs})) for seed in range(20)]
    outcome = runs[0][("pair", "in_ten_nearest")]
    assert outcome.chance == pytest.approx(10 / 99)
    assert np.mean([run[("pair", "in_ten_nearest")].value for run in runs]) == pytest.approx(10 / 99, abs=0.02)


def test_the_correlation_is_that_of_scipy():
    vectors, generator = at_random(), np.random.default_rng(1)
    pairs = [(NAMES[i], NAMES[i + 50], float(generator.integers(0, 5))) for i in range(40)]
    (outcome,) = words.similarities(vectors, [*pairs, ("nobody", "knows", 3.0)])
    unit = vectors.unit()
    cosines = [unit[i] @ unit[i + 50] for i in range(40)]
    assert outcome.value == pytest.approx(stats.spearmanr(cosines, [pair[2] for pair in pairs]).statistic)
    assert (len(outcome.scores), outcome.total) == (40, 41)
    low, high, _ = outcome.interval()
    width = 2 * stats.t.ppf(0.975, 39) / np.sqrt(40)  # of a correlation of nothing
    assert low < outcome.value < high and high - low == pytest.approx(width, rel=0.2)


# Rows


def test_rows_hold_coverage_chance_and_random_tables():
    own = WordSet(
        "set", {"pairs": questions(), "none": [tuple("wxyz")]}, [], {}, [("ak", "al", 1.0), ("am", "an", 2.0)]
    )
    rows = pd.DataFrame(words.word_set_rows(planted(1.5), [own], **SETTINGS))
    assert tuple(rows.columns) == words.COLUMNS
    found = rows.set_index(["section", "metric"])
    good = found.loc[("pairs", "percentile")]
    assert (
        good["coverage"] == 1 and good["value"] > 0.8 > good["random_high"] >= good["random_mean"] >= good["random_low"]
    )
    assert good["ci_low"] < good["value"] < good["ci_high"] and good["reason"] == ""
    assert good["unit"] == "pairs" and good["units"] == len({pair for q in questions() for pair in (q[:2], q[2:])})
    empty = found.loc[("none", "accuracy")]
    assert np.isnan(empty["value"]) and (empty["n"], empty["total"], empty["coverage"]) == (0, 1, 0)
    assert empty["reason"].startswith("0 of 1 entries have words that are one token each behind a space")
    few = found.loc[("all", "spearman")]
    assert np.isnan(few["value"]) and few["n"] == 2 and few["reason"].endswith("3 are needed")
    assert found.loc[("all", "accuracy"), "n"] == good["n"]


def test_one_pair_and_equal_entries_have_no_interval():
    pairs = {"one": [(NAMES[0], NAMES[1])], "same": [(NAMES[i], NAMES[i + 1]) for i in range(0, 20, 2)]}
    rows = pd.DataFrame(words.word_set_rows(planted(0), [WordSet("set", {}, [], pairs, [])], **SETTINGS))
    found = rows.set_index(["section", "metric"])
    one = found.loc[("one", "percentile")]
    assert one["n"] == one["units"] == 1 and np.isfinite(one["value"])
    assert np.isnan(one["ci_low"]) and np.isnan(one["ci_high"])
    assert one["reason"] == "an interval needs 5 pairs, there are 1"
    constant = words.Outcome("relation", "s", "m", 9, 0.5, np.ones(9), np.arange(9)[:, None], "pairs")
    assert constant.interval()[2] == "all entries have the same value" and np.isnan(constant.interval()[0])


def test_pairs_with_a_common_word_are_one_unit():
    linked = {"s": [(NAMES[0], NAMES[1]), (NAMES[1], NAMES[2]), (NAMES[3], NAMES[4])]}
    (percentile, _) = words.relations(at_random(), linked)
    assert len(np.unique(percentile.units)) == 2 and len(percentile.scores) == 3
    asked = [(*one, *other) for one in linked["s"] for other in linked["s"] if not set(one) & set(other)]
    outcome = outcomes(words.analogies(at_random(), {"s": asked}))[("s", "percentile")]
    assert len(outcome.scores) == 4 and len(np.unique(outcome.units)) == 2


def test_a_table_without_any_word_has_reasons_alone():
    rows = pd.DataFrame(
        words.word_set_rows(WordVectors({}, np.empty((0, 4), np.float32)), [words.own_set()], **SETTINGS)
    )
    assert rows["value"].isna().all() and (rows["n"] == 0).all() and (rows["reason"] != "").all()


def test_the_own_set_is_sound():
    own = words.own_set()
    assert len(own.degrees) >= 30 and all(len(set(triple)) == 3 for triple in own.degrees)
    assert set(own.relations) == {"synonym", "co-occurrence", "same usage", "proper name"}
    assert all(len(pairs) >= 20 and all(len(set(pair)) == 2 for pair in pairs) for pairs in own.relations.values())
    everything = [q for section in own.analogies.values() for q in section]
    assert len(everything) == len(set(everything)) >= 60 and ("man", "woman", "king", "queen") in everything
    assert all(isinstance(word, str) and word.isalpha() for word in own.words())  # YAML reads a bare "on" as true


def test_files_of_questions_are_read(tmp_path):
    path = tmp_path / "questions.txt"
    path.write_text(": family\nman woman king queen\n\n: empty\n", "utf-8")
    assert words.read_analogies(path).analogies == {"family": [("man", "woman", "king", "queen")], "empty": []}
    path = tmp_path / "pairs.tsv"
    for text in ("# note\n# Word 1\tWord 2\tmean\ncar\tbus\t6.5\n", "word1,word2,mean\ncar,bus,6.5\n",
                 "word1\tword2\tPOS\tSimLex999\tconc(w1)\ncar\tbus\tN\t6.5\t2\n"):  # fmt: skip
        path.write_text(text, "utf-8")
        assert words.read_similarities(path).similarities == [("car", "bus", 6.5)]


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (words.read_analogies, ": a\none two three\n", r"file.txt:2: expected four words"),
        (words.read_analogies, ": a\n", "no questions"),
        (words.read_similarities, "a\tb\t1\nc\td\n", r"file.txt:2: expected two words and a number"),
        (words.read_similarities, "", "no pairs"),
    ],
)
def test_broken_files_are_reported(read, text, message, tmp_path):
    path = tmp_path / "file.txt"
    path.write_text(text, "utf-8")
    with pytest.raises(EmbscaleError, match=message):
        read(path)
    with pytest.raises(EmbscaleError, match="no such file"):
        read(tmp_path / "other.txt")


def test_two_forms_are_pairs_in_order_of_the_rarer_count():
    vocabularies = {
        "plain": {"a": 0, "b": 1, "c": 2, "only": 3, "same": 9},
        "space": {"a": 4, "b": 5, "c": 6, "same": 9},
    }
    counts = np.array([5, 100, 7, 1, 6, 2, 50, 0, 0, 0])
    names, pairs = words.two_forms(vocabularies, counts)
    assert names["plain a"] == 0 and names["space c"] == 6 and len(names) == 9
    assert pairs.relations["all"] == [("plain a", "space a"), ("plain b", "space b"), ("plain c", "space c")]
    assert [pairs.relations[band][0][0] for band in words.BANDS] == ["plain b", "plain a", "plain c"]
    assert list(words.two_forms(vocabularies, None)[1].relations) == ["all"]
    assert words.two_forms({"plain": {}, "space": {"a": 1}}, counts)[1].relations == {"all": []}


def test_an_empty_section_has_a_reason_and_no_value():
    empty = words.WordSet("s", {"full": [tuple(NAMES[:4])], "none": []}, [], {"none": []}, [])
    made = pd.DataFrame(words.word_set_rows(at_random(9), [empty], form="space", random_seeds=[1]))
    none = made[made["section"] == "none"]
    assert set(none["probe"]) == {"analogy", "relation"} and (none["total"] == 0).all()
    assert none[["value", "ci_low", "coverage"]].isna().all(axis=None) and set(none["reason"]) == {
        "the section is empty"
    }


def test_the_table_for_readers_has_coverage_chance_and_random_tables():
    asked = words.WordSet("s", {"known": [tuple(NAMES[:4]), tuple(NAMES[2:6])], "none": []}, [], {}, [])
    vectors = at_random(9)
    made = pd.DataFrame(words.word_set_rows(vectors, [asked], form="space", random_seeds=[1, 2]))
    lines = words_table(made.assign(model="m", variant="full"), "m").splitlines()
    row = made[(made["section"] == "known") & (made["metric"] == "percentile")].iloc[0]
    expected = f"| s | analogy: known | others farther | yes | {row['n']} of 2 | 3 pairs | {row['value']:.3f} [n/a] "
    (line,) = [line for line in lines if line.startswith(expected)]
    assert line.endswith(f"| {row['random_low']:.3f} to {row['random_high']:.3f} | 0.500 |")
    assert "| s | analogy: none | others farther | yes | 0 of 0 | 0 pairs | none: the section is empty |  |  |" in lines
    with pytest.raises(EmbscaleError, match="no rows of the model 'x'; there are m"):
        words_table(made.assign(model="m", variant="full"), "x")


# The command

FLAGS = ("--random-seeds", "1", "2")


def test_the_command_writes_the_same_rows_for_every_table_variant_and_form(tmp_path, tokenizer_folder):
    rows = tokens.load_tokenizer(tokenizer_folder).get_vocab_size()
    table_files.save(tmp_path / "t.safetensors", random_tables.independent(rows, 8, 1), {})
    (tmp_path / "asked.txt").write_text(": s\nmodel layer row vector\n", "utf-8")
    for name in ("a.csv", "b.csv"):
        given = [f"5={tmp_path / 't.safetensors'}", "--tokenizer", str(tokenizer_folder), "--variants", "centred"]
        given += ["--analogies", str(tmp_path / "asked.txt"), "--model", "m", *FLAGS, "-o", str(tmp_path / name)]
        assert execute("words", given) == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    made = pd.read_csv(tmp_path / "a.csv")
    assert set(made["variant"]) == {"full", "centred"} and set(made["form"]) == {*words.FORMS, words.BOTH}
    assert set(made["step"]) == {5} and set(made["dim"]) == {8} and set(made["set"]) == {"own", "asked", "two forms"}
    assert (made["value"].isna() == (made["n"] == 0))[made["metric"] == "accuracy"].all()
    assert ((made["ci_low"] < made["ci_high"]) == made["reason"].isna()).all()
    tokens.save(tmp_path / "texts.safetensors", {"documents": TEXTS}, MADE_OF)
    given[given.index("-o") + 1] = str(tmp_path / "bands.csv")
    assert execute("words", [*given, "--tokens", str(tmp_path / "texts.safetensors")]) == 0
    bands = pd.read_csv(tmp_path / "bands.csv").query("set == 'two forms' and metric == 'percentile'")
    bands = bands[bands["variant"] == "full"].set_index("section")
    assert bands["total"]["all"] == bands["total"][list(words.BANDS)].sum()


def test_a_table_of_another_tokenizer_is_reported(tmp_path, tokenizer_folder, capsys):
    table_files.save(tmp_path / "t.safetensors", np.ones((20, 4), np.float32), {})
    given = [str(tmp_path / "t.safetensors"), "--tokenizer", str(tokenizer_folder), "-o", str(tmp_path / "w.csv")]
    assert execute("words", given) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "give the tokenizer that belongs to the table" in error


# In the forms of Mikolov's questions and of WordSim-353.
PAIRS = [("he", "she"), ("his", "her"), ("uncle", "aunt"), ("grandfather", "grandmother")]
QUESTIONS = ": family\n" + "".join(f"{' '.join(a + b)}\n" for a in PAIRS for b in PAIRS if a != b)
SIMILARITIES = "# Rated by hand\n# Word 1\tWord 2\tHuman (mean)\nbird\ttree\t3.5\nking\tman\t6.25\nlove\tsex\t6.77\n"


@pytest.mark.long
def test_pronouns_of_a_trained_checkpoint_are_found_through_its_tokenizer(trained_checkpoint, tmp_path):
    """What the model did not learn in seconds is put in: she is to he as her is to his."""
    folder = tmp_path / "model"
    shutil.copytree(trained_checkpoint, folder)
    tokenizer = tokens.load_tokenizer(folder)
    he, she, his, her = (tokenizer.token_to_id(f"▁{word}") for word in ("he", "she", "his", "her"))
    weights = load_file(folder / "model.safetensors")
    table = weights["model.embed_tokens.weight"]
    table[her] = table[his] + table[she] - table[he]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    assert execute("extract", [str(folder), "-o", str(tmp_path / "t.safetensors")]) == 0
    (tmp_path / "questions-words.txt").write_text(QUESTIONS)
    (tmp_path / "wordsim353.tsv").write_text(SIMILARITIES)
    given = [str(tmp_path / "t.safetensors"), "--tokenizer", str(folder)]
    given += ["--analogies", str(tmp_path / "questions-words.txt"), "--similarity", str(tmp_path / "wordsim353.tsv")]
    given += ["-o", str(tmp_path / "w.csv")]
    assert execute("words", given) == 0
    made = pd.read_csv(tmp_path / "w.csv").set_index(["set", "section", "metric", "form"])
    family = made.loc[("questions-words", "family", "accuracy", "space")]
    assert (family["value"], family["n"], family["total"]) == (1, 2, 12)  # he is to she as his is to her
    assert made.loc[("wordsim353", "all", "spearman", "space"), "total"] == 3
    # Its tokenizer marks the starts of words, so that no word has a second form.
    assert made.loc[("two forms", "all", "percentile", "both"), "reason"] == "the section is empty"
