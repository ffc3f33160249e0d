"""Claims: true, false and undecidable ones by construction, the ledger, and the study's own numbers put to them."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from embscale.claims import published_scores, table_claims
from embscale.claims.table_claims import Claim, Part, Subject
from embscale.cli import execute
from embscale.errors import EmbscaleError
from embscale.scoring import scores
from embscale.statistics import resampling

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = ROOT / "workflow" / "claims.yaml"
QUERIES = 200
SHARED = {
    "step": scores.NONE,
    "variant": "full",
    "variant_dims": scores.NONE,
    "strength": float(scores.NONE),
    "seed": scores.NONE,
    "pooling": "mean",
    "special_tokens": "exclude",
    "task": "SCIDOCS",
    "metric": "ndcg_at_10",
    "tokenizer_sha256": "t",
    "data_sha256": "d",
}


def rows(mean, *, noise=0.02, queries=QUERIES, salt=0, **cells):
    """Scores of one table: of exactly this mean, each query with noise of its own."""
    name = repr(sorted(cells.items())) + str(salt)
    generator = np.random.default_rng(list(name.encode()))
    drawn = generator.normal(0, noise, size=queries)
    frame = pd.DataFrame({"query": [f"q{i}" for i in range(queries)], "score": mean + drawn - drawn.mean()})
    return frame.assign(**{**SHARED, "table_sha256": name, **cells})


def suite(name, means, *, dims, tokenizer="tok", names=None, **cells):
    models = names or [f"{name}-{dim}" for dim in dims]
    return [
        rows(mean, suite=name, model=model, dim=dim, tokenizer=tokenizer, **cells)
        for model, mean, dim in zip(models, means, dims, strict=True)
    ]


def randoms(means, *, dims, tokenizer="tok", **cells):
    shared = {"suite": "random", "model": "random", "variant": "random", "tokenizer": tokenizer, **cells}
    return [
        rows(mean, dim=dim, variant_dims=dim, seed=seed, **shared)
        for mean, dim in zip(means, dims, strict=True)
        for seed in (1, 2)
    ]


def panel(*frames, task="SCIDOCS", metric="ndcg_at_10"):
    return table_claims.panel(pd.concat(frames, ignore_index=True), task=task, metric=metric, resamples=2000, seed=1)


DIMS = (64, 128, 256, 512)
RISE_AND_FALL = [0.02, 0.04, 0.08, 0.05]


def subject(*frames, **given):
    made = panel(*frames)
    return Subject(made, made.models_of("s"), tokenizers=["tok"], **given)


def verdict(parts):
    """As the ledger gives it, for a family of one."""
    found = table_claims.decide(parts)[1]
    if found.p >= table_claims.ALPHA:
        return "unresolved"
    return "reproduced" if all(part.holds for part in parts) else "not reproduced"


CASES = {
    "difference": (
        {"a": "s-128 full", "b": "s-64 full"},
        [0.02, 0.04, 0.08, 0.05],
        [0.04, 0.02, 0.08, 0.05],
        [0.04, 0.0405, 0.08, 0.05],
    ),
    "trend": ({}, [0.02, 0.04, 0.06, 0.08], [0.08, 0.06, 0.04, 0.02], [0.05, 0.0501, 0.0502, 0.0499]),
    "rise_and_fall": ({"at": ["s-256"]}, RISE_AND_FALL, [0.02, 0.04, 0.06, 0.08], [0.02, 0.04, 0.06, 0.0602]),
    "peak": ({"at": ["s-256"]}, RISE_AND_FALL, [0.02, 0.04, 0.06, 0.08], [0.02, 0.04, 0.0602, 0.06]),
    "flat_after": (
        {"at": ["s-128"], "margin": 0.01},
        [0.02, 0.06, 0.061, 0.059],
        [0.02, 0.06, 0.09, 0.06],
        [0.02, 0.06, 0.0698, 0.06],
    ),
    "fall_after": ({"at": ["s-128"]}, [0.0, 0.06, 0.05, 0.03], [0.0, 0.02, 0.05, 0.03], [0.0, 0.04, 0.05, 0.0302]),
    "no_rise": ({"margin": 0.01}, [0.05, 0.04, 0.05, 0.05], [0.02, 0.04, 0.06, 0.08], [0.04, 0.043, 0.047, 0.0498]),
}


@pytest.mark.parametrize("statistic", CASES)
def test_the_three_verdicts(statistic):
    arguments, true, false, open_ = CASES[statistic]
    for means, expected in ((true, "reproduced"), (false, "not reproduced"), (open_, "unresolved")):
        made = subject(*suite("s", means, dims=DIMS))
        assert verdict(table_claims.STATISTICS[statistic](made, **arguments)) == expected


def test_padding_against_the_table_as_it_is():
    full = suite("s", [0.02, 0.03, 0.06, 0.07], dims=DIMS)
    padded = {"variant": "pad", "variant_dims": 1024, "seed": 42}

    def parts(means):
        made = [
            rows(m, suite="s", model=f"s-{d}", dim=1024, tokenizer="tok", **padded)
            for m, d in zip(means, DIMS, strict=True)
        ]
        return table_claims.helps_up_to(subject(*full, *made), at=["s-128"], variant="pad:1024")

    assert verdict(parts([0.04, 0.05, 0.05, 0.05])) == "reproduced"
    assert verdict(parts([0.04, 0.05, 0.08, 0.09])) == "not reproduced"
    assert verdict(parts([0.04, 0.05, 0.06, 0.0701])) == "unresolved"


def test_random_tables_are_those_of_the_models_width_and_tokenizer():
    full = suite("s", [0.02, 0.02, 0.06, 0.07], dims=DIMS)
    same = randoms([0.03, 0.035, 0.04, 0.045], dims=DIMS)
    other = randoms([0.5, 0.5, 0.5, 0.5], dims=DIMS, tokenizer="another")
    made = subject(*full, *same, *other)
    assert made.score("s-64", "random")[0] == pytest.approx(0.03)
    assert verdict(table_claims.below_random(made, models=["s-64", "s-128"])) == "reproduced"
    assert verdict(table_claims.below_random(made, models=["s-64", "s-512"])) == "not reproduced"
    share = table_claims.mostly_below_random(made)[0]
    assert share.value == 0.5 and verdict([share]) == "unresolved"
    assert verdict(table_claims.random_rises(made)) == "reproduced"


def test_the_studys_own_draw_of_random_tables_is_preferred():
    full = suite("s", [0.02, 0.02, 0.06, 0.07], dims=DIMS)
    made = subject(*full, *randoms([0.3] * 4, dims=DIMS), *randoms([0.1] * 4, dims=DIMS, variant="random_legacy"))
    assert made.score("s-64", "random")[0] == pytest.approx(0.1)
    assert made.words("s-64", "random") == "random_legacy:64"


def test_the_order_of_tokenizers():
    frames = [
        frame
        for name, mean in (("high", 0.06), ("middle", 0.05), ("low", 0.03))
        for frame in randoms([mean / 2, mean], dims=(64, 128), tokenizer=name)
    ]
    made = panel(*frames, *suite("s", [0.1], dims=(64,)))
    asked = Subject(made, [], tokenizers=["high", "middle", "low"])
    assert verdict(table_claims.tokenizer_order(asked, highest="high", lowest="low")) == "reproduced"
    assert verdict(table_claims.tokenizer_order(asked, highest="low", lowest="high")) == "not reproduced"
    assert verdict(table_claims.random_rises(asked)) == "reproduced"


def test_gains_late_in_training_are_against_the_checkpoint_at_that_share():
    means = {0: 0.01, 10: 0.05, 50: 0.06, 100: 0.08}
    shared = {"suite": "s", "model": "s-64", "dim": 64, "tokenizer": "tok"}
    made = subject(*(rows(mean, step=step, **shared) for step, mean in means.items()))
    assert table_claims.gain_since(made, share=0.2)[0].value == pytest.approx(0.02)
    assert table_claims.gain_since(made, share=0.1)[0].value == pytest.approx(0.03)
    assert made.score("s-64", "full")[0] == pytest.approx(0.08) and made.score("s-64", "full@0")[0] == pytest.approx(
        0.01
    )
    with pytest.raises(table_claims.NotRun, match="no checkpoint"):
        table_claims.gain_since(made, share=0.9)


def test_equal_tables_are_known_by_their_digests():
    frames = [
        rows(0.1, suite="s", model=f"s-{i}", dim=64, tokenizer="tok", step=step, table_sha256=digest)
        for i, digest in enumerate(("a", "a", "b"))
        for step in (0, 9)
    ]
    made = subject(*frames)
    assert table_claims.same_table(made, models=["s-0", "s-1"], variant="full@0")[0].holds
    assert not table_claims.same_table(made, models=["s-0", "s-2"], variant="full@0")[0].holds
    with pytest.raises(table_claims.NotRun):
        table_claims.same_table(made, models=["s-0", "s-1"], variant="full@4")


def test_other_tasks_are_compared_by_their_rank_trend():
    here = suite("s", [0.08, 0.06, 0.04, 0.02], dims=DIMS)
    there = suite("s", [0.02, 0.04, 0.06, 0.08], dims=DIMS, task="STS", metric="m")
    both = panel(*here, *there), panel(*here, *there, task="STS", metric="m")
    made = Subject(both[0], both[0].models_of("s"), other={"STS": both[1]})
    part = table_claims.clearer_elsewhere(made)[0]
    assert part.value == pytest.approx(2) and verdict([part]) == "reproduced"
    with pytest.raises(table_claims.NotRun, match="no task of another kind"):
        table_claims.clearer_elsewhere(Subject(both[0], both[0].models_of("s")))


def part(value, spread, low=0.0, high=np.inf, words="x"):
    draws = np.random.default_rng(len(words)).normal(value, spread, size=4000)
    return Part(words, np.concatenate([[value], draws]), low, high)


def test_a_claim_is_as_sure_as_its_least_sure_part():
    sure, unsure = part(5, 1, words="sure"), part(1.5, 1, words="unsure")
    assert table_claims.decide([sure, unsure])[0] is unsure
    # One part against it is enough, and pays for having been chosen among three.
    against = part(-3, 1, words="against")
    chosen, found = table_claims.decide([sure, unsure, against])
    assert chosen is against and found.p == pytest.approx(3 * against.estimate().p)
    barely = part(-0.1, 1, words="barely")
    assert table_claims.decide([sure, barely])[1].p == 1


def test_a_range_is_tested_at_the_end_in_question():
    assert part(0.5, 0.1, 0, 1).estimate().p < 0.001
    assert part(0.9, 0.1, 0, 1).estimate().p == pytest.approx(2 * 0.159, abs=0.03)
    assert part(1.2, 0.1, 0, 1).estimate().p == pytest.approx(2 * 0.0228, abs=0.02)
    assert not part(1.2, 0.1, 0, 1).holds and part(1.2, 0.1, 0, 1).excess == pytest.approx(-0.2)


def test_a_false_claim_is_seldom_called_reproduced():
    """A peak among four equal models: the rate of either sure verdict stays near its level."""
    generator = np.random.default_rng(0)
    sure = 0
    for _ in range(300):
        values = generator.normal(size=(100, 4))
        means = np.vstack([values.mean(axis=0), resampling.bootstrap_means(values, resamples=300, seed=1)])
        parts = [Part(str(i), means[:, 0] - means[:, i]) for i in (1, 2, 3)]
        sure += table_claims.decide(parts)[1].p < 0.05
    assert sure / 300 < 0.08


@pytest.fixture(scope="module")
def entries():
    return table_claims.load(ENTRIES)


@pytest.fixture(scope="module")
def printed():
    return published_scores.load()


def test_every_claim_of_the_study_has_an_entry(entries):
    numbers = {re.fullmatch(r"([CE]\d+)[a-d]?", claim.id)[1] for claim in entries}
    assert numbers == {*(f"C{i}" for i in range(1, 17)), "E1", "E2", "E3"}
    figures = {path.stem for path in (ROOT / "src" / "embscale" / "figures").glob("*.py")}
    assert {claim.figure for claim in entries} <= figures
    suites = {*published_scores.suites(published_scores.load()), "all"}
    assert {claim.suite for claim in entries} <= suites


def ledger(entries, printed, scored=table_claims.NOTHING, ladder=table_claims.NOTHING, **given):
    return table_claims.ledger(entries, printed, scored, ladder, task="SCIDOCS", metric="ndcg_at_10", **given)


def test_the_studys_own_numbers_contradict_three_of_its_claims_and_one_margin(entries, printed):
    """As the project found by reading: C6 by its figure; two peaks that are not the highest score of their suite."""
    table = ledger(entries, printed).set_index("claim")
    assert set(table["verdict"]) == {"not run"}
    holds = table["published_holds"].dropna()
    assert set(holds.index[~holds.astype(bool)]) == {"C6", "C10b", "C14b", "C14d"}
    assert table.loc["C2a", "published_effect"] == pytest.approx(0.08063 - 0.07707)
    assert table.loc["C6", "published_effect"] == pytest.approx(0.02931 - 0.04032)
    assert table.loc["C7", "published_effect"] == pytest.approx(0.04032 - 0.01797)
    assert table.loc["C15", "published_effect"] == pytest.approx(0.04785 - 0.04406)
    assert table.loc["C10c", "published_effect"] == pytest.approx(6 / 7)
    assert table.loc["C13c", "published_effect"] == pytest.approx(0.0001)


def ladder_rows():
    widths = (16, 32, 64, 128, 256)
    shared = {"suite": "ladder", "tokenizer": "own", "task": "own-task"}
    frames = [
        rows(mean + step / 1e4, model=f"ladder-w{width}", dim=width, step=step, **shared)
        for width, mean in zip(widths, (0.02, 0.04, 0.08, 0.06, 0.05), strict=True)
        for step in (0, 100, 400)
    ]
    for width in widths:
        own = {"model": f"ladder-w{width}", "step": 400, **shared}
        frames.append(rows(0.03, dim=16, variant="crop", variant_dims=16, **own))
        frames.append(rows(0.05, dim=512, variant="pad", variant_dims=512, seed=42, **own))
        frames.append(rows(0.05, dim=512, variant="pad_rms", variant_dims=512, seed=42, **own))
        frames.append(rows(0.05, dim=2 * width, variant="pad_ratio", strength=0.5, seed=42, **own))
        frames.append(rows(0.06, dim=2 * width, variant="pad_ratio", strength=1.0, seed=42, **own))
    overlap = rows(0.2, suite="reference", model="overlap", variant="overlap", dim=-1, tokenizer="own", task="own-task")
    dims = (16, 32, 64, 128, 256, 512)
    return pd.concat(
        [*frames, *randoms(np.linspace(0.06, 0.11, 6), dims=dims, tokenizer="own", task="own-task"), overlap]
    )


def test_the_ladder_answers_beside_the_claims_own_models(entries, printed):
    ladder = panel(ladder_rows(), task="own-task")
    table = ledger(entries, printed, ladder=ladder)
    own, asked = (table[mask].set_index("claim") for mask in (table["suite"] != "ladder", table["suite"] == "ladder"))
    assert set(own["verdict"]) == {"not run"} and list(own.index) == list(asked.index)
    assert own["detail"].str.len().gt(0).all()
    # Pythia's 1b is sixth of ten, so ladder-w64 stands for it: rising to it, falling beyond.
    assert asked.loc["C1", "verdict"] == "reproduced" and "ladder-w64" in asked.loc["C1", "statistic"]
    assert asked.loc["C3", "verdict"] == asked.loc["C5", "verdict"] == "reproduced"
    assert asked.loc["C5", "statistic"] == "random:256 less ladder-w16 full"
    assert "crop:16" in asked.loc["C7", "statistic"]
    assert asked.loc["C2a", "verdict"] == "not run" and asked.loc["C2a", "detail"].startswith("The ladder has no two")
    assert asked.loc["E1a", "verdict"] == "reproduced" and asked.loc["E1b", "verdict"] == "not reproduced"
    assert set(table["verdict"]) <= set(table_claims.VERDICTS)
    tested = asked[asked["p"].notna()]
    assert tested["p_holm"].to_numpy() == pytest.approx(resampling.holm(tested["p"].to_list()))
    assert set(tested["n"]) == {QUERIES}


def test_two_models_are_too_few_for_a_trend(entries, printed):
    few = ladder_rows()
    few = few[few["model"].isin(["ladder-w16", "ladder-w256", "random"])]
    table = ledger(entries, printed, ladder=panel(few, task="own-task")).query("suite == 'ladder'").set_index("claim")
    assert table.loc["C9a", "verdict"] == "not run" and "needs 3" in table.loc["C9a", "detail"]
    assert table.loc["C5", "verdict"] == "reproduced"


def test_random_tables_alone_on_a_task_of_ones_own_answer_what_is_asked_of_them(entries, printed):
    """As `embscale score random:... --beir FOLDER` gives them; the study published nothing on that task."""
    frames = [
        frame
        for name, mean in (("bloom", 0.06), ("gpt2", 0.05), ("t5-v1_1", 0.03))
        for frame in randoms([mean / 2, mean], dims=(64, 128), tokenizer=name, task="own", variant="random_legacy")
    ]
    made = panel(*frames, task="own")
    table = table_claims.ledger(entries, printed, made, made, task="own", metric="ndcg_at_10").set_index("claim")
    assert set(table.index[table["verdict"] == "reproduced"]) == {"C16a", "C16b"}
    assert set(table.loc["C16a", "models"].split()) == {"bloom", "gpt2", "t5-v1_1"}
    assert "without gpt-neox-20b, opt, which were not scored" in table.loc["C16a", "detail"]
    assert table["published_effect"].isna().all() and set(table.drop(["C16a", "C16b"])["verdict"]) == {"not run"}


def paper_rows(printed, *, without=()):
    """Scores of every query whose means are the published ones."""
    own = printed[(printed["task"] == "SCIDOCS") & (printed["metric"] == "ndcg_at_10") & printed["valid"]]
    own = own[((own["suite"] == "random") | (own["variant"] != "random")) & ~own["model"].isin(without)]
    return pd.concat(
        rows(
            row.value,
            noise=0.001,
            queries=60,
            **{name: getattr(row, name) for name in ("suite", "model", "tokenizer", "variant")},
            dim=row.dims,
            variant_dims=scores.NONE if pd.isna(row.variant_dims) else row.variant_dims,
            seed=scores.NONE if pd.isna(row.seed) else row.seed,
        )
        for row in own.itertuples()
    )


def test_scores_like_the_published_ones_give_the_studys_numbers_and_verdicts(entries, printed):
    table = ledger(entries, printed, panel(paper_rows(printed))).set_index("claim")
    run = table[table["p"].notna()]
    assert set(table.index) - set(run.index) == {"C2b", "C11", "E1a", "E1b", "E2", "E3"}
    assert run["effect"].to_numpy() == pytest.approx(run["published_effect"].to_numpy(dtype=float), abs=1e-9)
    # With hardly any noise, what holds in the study's numbers is reproduced and what does not is not; C10b's change
    # of 1.012 points lies at the edge of its margin of one point.
    expected = run["published_holds"].map({True: "reproduced", False: "not reproduced"})
    settled = run.index.difference(["C10b", "C13c"])
    assert run.loc[settled, "verdict"].to_dict() == expected[settled].to_dict()


def test_a_model_that_was_not_scored_is_named(entries, printed):
    table = ledger(entries, printed, panel(paper_rows(printed, without=["opt-175b"]))).set_index("claim")
    assert table.loc["C9b", ["verdict", "detail"]].tolist() == ["not run", "opt-175b was not scored."]
    assert table.loc["C9a", "verdict"] == "reproduced" and "without opt-175b" in table.loc["C9a", "detail"]
    assert table.loc["C14b", "verdict"] == "reproduced"  # as the study says, so long as 175b is left out


def test_the_studys_weights_are_found_under_their_present_name(printed):
    frames = suite("pythia-deduped", [0.03], dims=(128,), names=["pythia-14m-deduped"], tokenizer="gpt-neox-20b")
    frames += suite(
        "pythia", [0.01, 0.02], dims=(128, 2048), names=["pythia-14m", "pythia-1b"], tokenizer="gpt-neox-20b"
    )
    claim = Claim("X", "w", "pythia", "difference", "suites", {"a": "pythia-14m full", "b": "pythia-1b full"})
    table = ledger([claim], printed, panel(*frames))
    assert table["effect"].tolist() == pytest.approx([0.01])


def test_mixed_ways_of_scoring_stop():
    frames = suite("s", [0.1], dims=(64,)) + suite("s", [0.1], dims=(64,), special_tokens="include")
    with pytest.raises(EmbscaleError, match="choose one way of scoring with --where"):
        panel(*frames)


def test_scores_on_different_queries_stop():
    frames = suite("s", [0.1, 0.2], dims=(64, 128))
    with pytest.raises(EmbscaleError, match="different queries"):
        panel(frames[0], frames[1].iloc[1:])


def test_no_such_scores_stop_with_those_there_are():
    with pytest.raises(EmbscaleError, match=r"no scores by map_at_10; there are SCIDOCS \(ndcg_at_10\)"):
        panel(*suite("s", [0.1], dims=(64,)), metric="map_at_10")


def test_intervals_are_those_of_the_score_table():
    frames = pd.concat(suite("s", [0.1, 0.2], dims=(64, 128)))
    summary = scores.summarise(frames, resamples=2000, seed=1).set_index("model")
    made = panel(frames)
    low, high = resampling.percentile_interval(made.cells["s-64", "full"][1:])
    assert (low, high) == (summary.loc["s-64", "ci_low"], summary.loc["s-64", "ci_high"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "expected claims by their id"),
        ("C1: {words: w, suite: s, figure: f}", "C1: lacks statistic"),
        ("C1: {words: w, suite: s, figure: f, statistic: guess}", "no statistic 'guess'; known are difference"),
        ("C1: {words: w, suite: s, figure: f, statistic: peak}", "arguments of peak: missing a required argument"),
        ("C1: {words: w, suite: s, figure: f, statistic: trend, hue: 1}", "unknown key hue"),
        ("C1: [", "not YAML"),
    ],
)  # fmt: skip
def test_a_broken_entry_is_reported(tmp_path, text, message):
    path = tmp_path / "claims.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(EmbscaleError, match=re.escape(message)):
        table_claims.load(path)


def test_description_tells_trend_peak_band_and_regression(printed):
    known = table_claims.facts(ROOT / "workflow" / "suites.yaml", ROOT / "workflow" / "pins.yaml")
    found = table_claims.describe(panel(paper_rows(printed)), known)
    pythia = found[found["suite"] == "pythia"].set_index(["quantity", "item"])["value"]
    assert pythia[table_claims.PEAK].sum() == pytest.approx(1) and pythia[table_claims.PEAK, "pythia-1b"] > 0.99
    full = printed[
        (printed["suite"] == "pythia") & (printed["variant"] == "full") & (printed["metric"] == "ndcg_at_10")
    ]
    tau = resampling.stats.kendalltau(full["dims"], full["value"]).statistic
    assert pythia["Kendall's tau-b of width and score", ""] == pytest.approx(tau)
    band = found[found["item"] == "gpt-neox-20b, 128 columns, random"].set_index("quantity")
    assert band.loc["mean of random tables", "value"] == pytest.approx(0.0142, abs=1e-4)
    assert band.loc["standard deviation of random tables", "value"] == pytest.approx(0.0012, abs=1e-4)
    fitted = found[found["suite"] == "all"].set_index(["quantity", "item"])["value"]
    beside = next(name for name, _ in fitted.index if "beside facts" in name)
    assert np.isnan(fitted[beside, "tied tables"])  # constant within every suite, so nothing can tell
    assert fitted[beside, "doubling of width"] > 0


def test_the_command_writes_ledger_and_tables(tmp_path):
    scores.write_parquet(ladder_rows().reset_index(drop=True), tmp_path / "ladder.parquet")
    where = ["--where", "special_tokens=exclude"]
    arguments = [
        str(tmp_path / "ladder.parquet"), "--claims", str(ENTRIES), "--registry", str(ROOT / "workflow/suites.yaml"),
        "--pins", str(ROOT / "workflow/pins.yaml"), "--task", "SCIDOCS", "--ladder-task", "own-task", "--metric",
        "ndcg_at_10", "--bootstrap-resamples", "200", "--bootstrap-seed", "1", "-o", str(tmp_path / "claims.csv"),
        "--trends", str(tmp_path / "trends.csv"), "--tables", str(tmp_path / "tables"),
    ]  # fmt: skip
    assert execute("claims", [*arguments, *where]) == 0
    table = pd.read_csv(tmp_path / "claims.csv")
    assert list(table.columns) == table_claims.COLUMNS and set(table["verdict"]) <= set(table_claims.VERDICTS)
    assert (tmp_path / "claims.csv.note.json").is_file()
    run, missing = ((tmp_path / "tables" / f"{name}.md").read_text("utf-8") for name in ("claims", "claims_not_run"))
    assert run.count("\n") + missing.count("\n") == len(table) + 4
    assert any(f"**{verdict}**" in run for verdict in table_claims.VERDICTS) and "not run because" in missing
    assert "Kendall" in (tmp_path / "tables" / "trends.md").read_text("utf-8")
    assert "| cerebras-gpt | tokens seen | 1.00 |" in (tmp_path / "tables" / "confounds.md").read_text("utf-8")


def test_the_command_tells_what_is_wrong(tmp_path, capsys):
    scores.write_parquet(ladder_rows().reset_index(drop=True), tmp_path / "l.parquet")
    paths = ["--claims", ENTRIES, "--registry", ROOT / "workflow/suites.yaml", "--pins", ROOT / "workflow/pins.yaml"]
    outputs = ["-o", tmp_path / "c.csv", "--trends", tmp_path / "t.csv", "--tables", tmp_path]
    tasks = ["--task", "SCIDOCS", "--ladder-task", "own-task", "--metric", "ndcg_at_10"]
    arguments = [
        *map(str, [tmp_path / "l.parquet", *paths, *outputs, *tasks]),
        "--bootstrap-resamples",
        "20",
        "--bootstrap-seed",
        "1",
    ]
    assert execute("claims", [*arguments, "--where", "pooling=max"]) == 1
    assert "check --where" in capsys.readouterr().err
    assert execute("claims", [*arguments, "--where", "colour=red"]) == 1
    assert "no column 'colour'" in capsys.readouterr().err
    assert execute("claims", [*arguments, "--other-task", "STS"]) == 1
    assert "expected TASK=METRIC" in capsys.readouterr().err
