"""What rules ask for on a cluster, from what their jobs took."""

import pytest
import yaml

from embscale.errors import EmbscaleError
from resources import owner, resources, with_resources

RULES = ["all", "score", "score_random", "score_factors", "train_ladder_tied", "probe", "figure"]


@pytest.fixture
def benchmarks(tmp_path):
    def measured(step, *jobs):
        for number, (seconds, memory) in enumerate(jobs):
            path = tmp_path / step / f"{number}.tsv"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"s\tcpu_time\tmax_rss\n{seconds}\t1.0\t{memory}\n", "utf-8")

    measured("score", (30, 900.0), (400, 700.0))
    measured("score_factors", (5, "-"))
    measured("train", (3600, 1200.0))
    return tmp_path


def test_a_rule_asks_for_what_its_largest_and_its_longest_job_took_and_more(benchmarks):
    asked = resources(RULES, benchmarks)
    # 900 MiB and half of it again, in steps of 250; 400 seconds four times.
    assert asked["score"] == {"mem_mb": "max(1500, 6 * input.size_mb) * attempt", "runtime": "27 * attempt"}
    assert asked["score_random"] == asked["score"]
    assert asked["score_factors"] == {"mem_mb": "max(250, 6 * input.size_mb) * attempt", "runtime": "10 * attempt"}
    assert asked["train_ladder_tied"]["runtime"] == "240 * attempt"
    assert asked.keys() == {"score", "score_random", "score_factors", "train_ladder_tied"}


def test_benchmark_files_belong_to_the_rule_with_the_longest_common_name():
    steps = ["score", "score_factors", "train"]
    assert [owner(rule, steps) for rule in RULES] == [None, "score", "score", "score_factors", "train", None, None]
    assert owner("scores", steps) is None


def test_a_profile_keeps_all_but_earlier_resources(benchmarks):
    profile = "executor: slurm\n# by hand\njobs: 50\n"
    once = with_resources(profile, "tiny", resources(RULES, benchmarks))
    assert once.startswith(profile)
    assert yaml.safe_load(once)["set-resources"] == resources(RULES, benchmarks)
    again = with_resources(once, "desk", {"score": {"runtime": "1 * attempt"}})
    assert yaml.safe_load(again) == {
        "executor": "slurm",
        "jobs": 50,
        "set-resources": {"score": {"runtime": "1 * attempt"}},
    }


def test_a_study_that_was_not_computed_here_is_refused(tmp_path):
    with pytest.raises(EmbscaleError, match="no benchmark files; compute the study on this machine first"):
        resources(RULES, tmp_path / "results/none/benchmarks")
