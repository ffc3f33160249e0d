"""Time and memory of steps: sums and largest jobs of benchmark files written by hand."""

import pandas as pd
import pytest

from embscale.cli import execute

HEAD = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"


@pytest.fixture
def folder(tmp_path):
    for step, job, seconds, memory, processor in (
        ("probe", "w16", 2.0, "500", 1.5),
        ("probe", "w32", 3.5, "400", 3.0),
        ("grid", "w16", 0.2, "-", 0.1),
    ):
        (tmp_path / step).mkdir(exist_ok=True)
        line = f"{seconds}\t0:00:02\t{memory}\t1\t1\t1\t0\t0\t90\t{processor}\n"
        (tmp_path / step / f"{job}.tsv").write_text(HEAD + line)
    return tmp_path


def test_steps_are_summed_and_their_largest_jobs_named(folder, capsys):
    assert execute("costs", [str(folder), "--steps", "probe", "grid", "-o", str(folder / "costs.csv")]) == 0
    rows = pd.read_csv(folder / "costs.csv").set_index("step")
    probe = rows.loc["probe"]
    assert (probe["jobs"], probe["seconds"], probe["processor_seconds"]) == (2, 5.5, 4.5)
    assert (probe["longest_job"], probe["largest_job"], probe["memory_mib"]) == ("w32", "w16", 500)
    assert rows.loc["grid", "memory_mib"] == 0
    assert "w32" in capsys.readouterr().out


def test_missing_and_broken_files_are_reported(folder, capsys):
    output = ["-o", str(folder / "costs.csv")]
    assert execute("costs", [str(folder), "--steps", "transfer", *output]) == 1
    assert "transfer: no *.tsv; run the step with snakemake first" in capsys.readouterr().err
    (folder / "grid" / "w16.tsv").write_text("nothing\n")
    assert execute("costs", [str(folder), "--steps", "grid", *output]) == 1
    assert "w16.tsv: not a benchmark file of Snakemake" in capsys.readouterr().err
