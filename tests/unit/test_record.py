"""The kept rows, the few numbers, and how far a run is from the record."""

import math
import shutil

import pytest

import replace_record
from embscale.errors import EmbscaleError
from embscale.provenance import kept_results
from embscale.provenance.verification import compare_tables
from embscale.rows import tidy

HEAD = "suite,model,run,step,variant,dim,seed,length,metric,table_sha256,value,ci_low,ci_high,n,clusters,task"
SCORES = [
    "ladder,w8,1,0,full,8,,64,ndcg_at_10,aa,0.10,0.05,0.15,30,9,T",
    "ladder,w8,1,6,full,8,,64,ndcg_at_10,ab,0.20,0.15,0.25,30,9,T",
    "ladder,w8,2,6,full,8,,64,ndcg_at_10,ab,0.11,0.05,0.15,30,9,T",
    "ladder,w8,1,6,crop,4,,64,ndcg_at_10,ac,0.12,0.05,0.15,30,9,T",
    "random,random,,,random,8,1,64,ndcg_at_10,ad,0.30,0.25,0.35,30,9,T",
    "random,random,,,random,8,1,all,ndcg_at_10,ae,0.40,0.35,0.45,30,9,T",
]
ESTIMATES = [
    "suite,model,step,width,table,treatment,dim,tokenizer,task,length,metric,queries,value,ci_low,ci_high,runs,n,clusters",
    "ladder,w8,0,8,input,full,8,k,T,64,ndcg_at_10,all,0.1,0.05,0.15,2,30,9",
    "ladder,w8,6,8,input,full,8,k,T,64,ndcg_at_10,all,0.2,0.15,0.25,2,30,9",
    "ladder,w8,6,8,input,full,8,k,T,64,ndcg_at_10,heldout,0.7,0.15,0.95,2,3,3",
    "ladder,w8,6,8,input,full,8,k,T,all,ndcg_at_10,all,0.01,0.0,0.1,2,30,9",
    "ladder,w8,6,8,input,unit,8,k,T,64,ndcg_at_10,all,0.3,0.15,0.35,2,30,9",
    "ladder,w8,6,8,shuffled,full,8,k,T,64,ndcg_at_10,all,0.05,0.01,0.06,2,30,9",
    "ladder,w8,6,8,input,full,8,k,T,64,map_at_100,all,0.11,0.05,0.15,2,30,9",
    "random,random,,8,random,full,8,k,T,64,ndcg_at_10,all,0.35,0.3,0.4,5,30,9",
]
LAYERS = [
    "suite,model,step,texts,classifier,split,input,control,seed,layer,metric,value,ci_low,ci_high,n,n_train,n_layers,converged",
    "ladder,w8,6,one,logistic_regression,text,raw,none,1,,accuracy,0.7,0.6,0.8,10,30,3,True",
    "ladder,w8,6,one,logistic_regression,text,raw,none,all,,accuracy,0.8,0.7,0.9,20,60,3,True",
    "ladder,w8,6,one,logistic_regression,text,raw,none,all,block 1,recall,0.5,0.4,0.6,7,60,3,True",
]


def write(folder, scores=SCORES, layers=LAYERS):
    folder.mkdir(exist_ok=True)
    (folder / "scores.csv").write_text("\n".join([HEAD, *scores]) + "\n")
    (folder / "layers.csv").write_text("\n".join(layers) + "\n")
    return folder


def changed(rows, index, old, new):
    assert old in rows[index]
    return [row.replace(old, new) if i == index else row for i, row in enumerate(rows)]


def test_equal_results_are_the_recorded_ones(tmp_path):
    told = kept_results.variables(write(tmp_path / "run"), write(tmp_path / "record"))
    assert told["whose"] == "recorded"
    assert "6 rows of scores and 3 rows of layers are equal to the last digit" in told["words"]


def test_without_a_record_the_page_says_so(tmp_path):
    run = write(tmp_path / "run")
    assert kept_results.variables(run, tmp_path / "none")["whose"] == "never recorded"
    assert len(kept_results.compared_files(run, tmp_path / "none")) == 2


def test_a_difference_is_reported_with_its_size(tmp_path):
    run = write(tmp_path / "run", changed(SCORES, 1, "0.20", "0.23"), changed(LAYERS, 2, "0.8", "0.79"))
    told = kept_results.variables(run, write(tmp_path / "record"))
    assert told["whose"] == "local"
    assert "compared with the recorded ones: values within tolerance (" in told["words"]  # of half an interval
    assert "scores: 5 of 6 equal to the last digit, largest difference 0.03;" in told["words"]
    assert "accuracies: 1 of 2 equal to the last digit, largest difference 0.01)" in told["words"]


@pytest.mark.parametrize(
    ("index", "old", "new"),
    [(1, "0.20", "0.200"), (1, "0.25", "0.26"), (1, "ab", "ff"), (4, ",30,9,T", ",31,9,T")],
    ids=["a digit", "an interval", "the table's digest", "the number of queries"],
)
def test_whatever_was_measured_must_be_equal_to_pass_for_the_record(tmp_path, index, old, new):
    run = write(tmp_path / "run", changed(SCORES, index, old, new))
    assert kept_results.variables(run, write(tmp_path / "record"))["whose"] == "local"


@pytest.mark.parametrize("before", ["none", "equal", "other"])
def test_the_record_is_replaced_and_the_difference_is_reported(tmp_path, monkeypatch, capsys, before):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text("study: desk\n")
    kept = write(tmp_path / "kept", changed(SCORES, 1, "0.20", "0.23"))
    (kept / "metrics.json").write_text("{}")
    (tmp_path / "results/desk").mkdir(parents=True)
    kept.rename(tmp_path / "results/desk/kept")
    answers = tmp_path / "results/desk/ladder"
    answers.mkdir()
    for name in ("crossings.csv", "curves.csv.note.json"):
        (answers / name).write_text(name)
    (tmp_path / "recorded").mkdir()
    if before != "none":
        write(tmp_path / "recorded/desk", SCORES if before == "other" else changed(SCORES, 1, "0.20", "0.23"))
    assert replace_record.main("desk") == 0
    told = capsys.readouterr().out
    expected = (
        "not those recorded in git: scores: 5 of 6 equal to the last digit, largest difference 0.03; accuracies: all"
    )
    assert (expected in told) == bool(told) == (before == "other")
    assert ("`git checkout recorded/desk dvc.lock` restores" in told) == bool(told)
    for name in ("scores.csv", "layers.csv", "metrics.json"):
        assert (tmp_path / "recorded/desk" / name).read_bytes() == (tmp_path / "results/desk/kept" / name).read_bytes()
    assert [path.name for path in (tmp_path / "recorded/desk/ladder").iterdir()] == ["crossings.csv"]


def test_a_damaged_record_is_named_and_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results/desk").mkdir(parents=True)
    (tmp_path / "recorded").mkdir()
    write(tmp_path / "results/desk/kept")
    (write(tmp_path / "recorded/desk") / "scores.csv").write_text("")
    assert replace_record.main("desk") == 1
    assert "recorded/desk/scores.csv: not a table" in capsys.readouterr().err


def test_rows_that_one_side_lacks_are_counted(tmp_path):
    run, recorded = write(tmp_path / "run", SCORES[1:]), write(tmp_path / "record", SCORES[:-1])
    found = compare_tables(tidy.load_text(run / "scores.csv"), tidy.load_text(recorded / "scores.csv"))
    assert (found.rows, found.extra, found.missing, found.identical, found.same) == (5, 1, 1, 4, False)
    assert "4 of 4 equal to the last digit, 1 only here, 1 only there" in kept_results.variables(run, recorded)["words"]


def test_the_largest_difference_and_its_row_are_found(tmp_path):
    run = write(tmp_path / "run", changed(changed(SCORES, 0, "0.10", "0.11"), 3, "0.12", "0.05"))
    sides = [tidy.load_text(folder / "scores.csv") for folder in (run, write(tmp_path / "record"))]
    found = compare_tables(*sides)
    assert math.isclose(found.largest, 0.07) and "crop" in found.where


def test_a_column_that_the_record_does_not_know_is_empty_there(tmp_path):
    run = write(
        tmp_path / "run", layers=[f"{row},{end}" for row, end in zip(LAYERS, ["heads", "x", "", ""], strict=True)]
    )
    sides = [tidy.load_text(folder / "layers.csv") for folder in (run, write(tmp_path / "record"))]
    assert compare_tables(*sides).identical == 2


def test_a_record_of_other_rows_alone_has_none_in_common(tmp_path):
    others = [
        changed(SCORES, index, "w8" if "w8" in row else "random", "w9")[index] for index, row in enumerate(SCORES)
    ]
    sides = [write(tmp_path / "run"), write(tmp_path / "record", others)]
    found = compare_tables(*(tidy.load_text(folder / "scores.csv") for folder in sides))
    assert (found.extra, found.missing, found.identical) == (len(SCORES), len(SCORES), 0)


def test_a_row_twice_is_one_more_than_recorded(tmp_path):
    run = write(tmp_path / "run", [*SCORES, SCORES[0]])
    told = kept_results.variables(run, write(tmp_path / "record"))
    assert "value off (scores: 6 of 6 equal to the last digit, 1 only here;" in told["words"]


def test_what_is_no_table_is_named(tmp_path):
    run = write(tmp_path / "run")
    (run / "scores.csv").write_text("")
    with pytest.raises(EmbscaleError, match=r"scores\.csv: not a table"):
        kept_results.variables(run, write(tmp_path / "record"))


def test_gathered_rows_keep_every_digit(tmp_path):
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("model,value\na,0.30000000000000004\n")
    two.write_text("model,value,control\nb,1e-05,none\n")
    rows = kept_results.gather([one, two])
    assert rows.to_csv(index=False) == "model,value,control\na,0.30000000000000004,\nb,1e-05,none\n"


def tables(folder, layers=LAYERS):
    """The tables that the headline is of."""
    write(folder, layers=layers)
    rows = [row for row in ESTIMATES if "map_at_100" not in row]
    (folder / "estimates.csv").write_text("\n".join(rows) + "\n")
    return {name: kept_results.gather([folder / f"{name}.csv"]) for name in ("estimates", "layers")}


def test_the_headline_has_last_tables_random_ones_and_accuracies(tmp_path):
    other = LAYERS[2].replace("logistic_regression", "lda").replace("0.8", "0.9")
    found = kept_results.headline(tables(tmp_path / "kept", [*LAYERS, other]), "ndcg_at_10", "64")
    assert found == {"ndcg_at_10": {"w8": 0.2, "random 8": 0.35}, "accuracy": {"w8": 0.8}}


def test_the_curves_have_a_point_for_each_last_table_and_for_random_ones(tmp_path):
    points = kept_results.curves(tables(tmp_path / "kept")["estimates"], "64").to_csv(index=False).split()
    assert points == ["width,table,task,value", "8,ladder,T,0.2", "8,random,T,0.35"]


def test_the_headline_names_what_tells_the_rows_of_a_model_apart(tmp_path):
    two = [*LAYERS, LAYERS[2].replace(",one,", ",two,").replace("0.8", "0.6")]
    assert kept_results.headline(tables(tmp_path / "kept", two), "ndcg_at_10", "64")["accuracy"] == {
        "w8 one": 0.8,
        "w8 two": 0.6,
    }


def test_the_command_keeps_the_rows_of_the_primary_metric_as_they_are(tmp_path, monkeypatch):
    from embscale.__main__ import main

    monkeypatch.chdir(tmp_path)
    write(tmp_path / "made", [*SCORES, SCORES[0].replace("ndcg_at_10", "map_at_100")])
    for name in ("estimates", "differences"):
        (tmp_path / f"made/{name}.csv").write_text("\n".join(ESTIMATES) + "\n")
    (tmp_path / "claims.csv").write_text("claim,verdict\nC1,holds\n")
    flags = ["--scores", "made/scores.csv", "--layers", "made/layers.csv", "--claims", "claims.csv", "-o", "kept"]
    flags += ["--estimates", "made/estimates.csv", "--differences", "made/differences.csv"]
    assert main(["keep", *flags, "--metric", "ndcg_at_10", "--length", "64"]) == 0
    assert (tmp_path / "kept/scores.csv").read_text().splitlines() == [HEAD, *SCORES]
    kept = [row for row in ESTIMATES if "map_at_100" not in row]
    assert (tmp_path / "kept/estimates.csv").read_text().splitlines() == kept
    # Of the layers' rows those over all seeds.
    recorded = write(tmp_path / "recorded", layers=[row for row in LAYERS if ",1,,accuracy" not in row])
    assert kept_results.variables(tmp_path / "kept", recorded)["whose"] == "recorded"
    shutil.rmtree(tmp_path / "kept")
    assert main(["keep", *flags, "--metric", "recall_at_5", "--length", "64"]) == 1
    assert main(["keep", *flags, "--metric", "ndcg_at_10", "--length", "32"]) == 1
