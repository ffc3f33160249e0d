"""The profile for a cluster names rules that exist; what needs a network stays where there is one."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
RULES = {path.stem: path.read_text("utf-8") for path in sorted((ROOT / "workflow/rules").glob("*.smk"))}
SLURM, DEFAULT = (
    yaml.safe_load((ROOT / f"profiles/{name}/config.yaml").read_text("utf-8")) for name in ("slurm", "default")
)


def bodies():
    """The text of each rule by its name, without those that are named by a study."""
    found = {}
    for text in RULES.values():
        for part in re.split(r"^(?=(?:use )?rule )", text, flags=re.MULTILINE)[1:]:
            name = re.match(r"(?:use rule \w+ as|rule) (\w+)", part)[1]
            found[name] = part
    return found


def test_every_grouped_rule_exists_and_every_group_has_a_size():
    groups = dict(entry.split("=") for entry in SLURM["groups"])
    sizes = dict(entry.split("=") for entry in SLURM["group-components"])
    assert groups.keys() <= bodies().keys()
    assert set(groups.values()) == sizes.keys() and all(int(size) > 1 for size in sizes.values())
    # Inside a group jobs run one after another, so that it asks for no more than a job.
    assert SLURM["cores"] == 1


def test_the_profile_names_no_account_partition_or_machine():
    text = (ROOT / "profiles/slurm/config.yaml").read_text("utf-8")
    keys = {*SLURM, *SLURM["default-resources"]}
    assert not any(word in key for key in keys for word in ("account", "partition", "qos", "reservation"))
    assert "/home" not in text and "/scratch" not in text


@pytest.mark.parametrize("name", [name for name in bodies() if name.startswith("fetch_")])
def test_a_download_runs_beside_snakemake_and_again_if_it_fails(name):
    body = bodies()[name]
    if " with:" in body.splitlines()[0]:  # it takes the rest from the rule that it uses
        body = bodies()[re.match(r"use rule (\w+)", body)[1]]
    assert re.search(r"^    localrule: True$", body, re.MULTILINE)
    assert re.search(r"^    retries: [1-9]$", body, re.MULTILINE)
    assert "downloads=1" in body


def test_downloads_are_limited_on_one_machine_too():
    assert dict(entry.split("=") for entry in DEFAULT["resources"]) == {"downloads": "4"}


@pytest.mark.parametrize("name", ["text", "publish", "extract_other", "inventory"])
def test_what_copies_does_not_wait_in_a_queue(name):
    assert re.search(r"^    localrule: True$", bodies()[name], re.MULTILINE)
