"""What Snakemake and DVC do without a word, and the answers this project relies on.

Both tools change such rules between versions.  Each test shows the trap beside its answer, on a toy project.
"""

import os

import pytest

NOTHING = "Nothing to be done"
QUIET = ("--cores", "1", "--quiet", "all")


def wanted(toy, *arguments):
    """The rules that a dry run would run."""
    lines = toy.snakemake("-n", *arguments).stdout.splitlines()
    return sorted(line.split()[1].rstrip(":") for line in lines if line.startswith(("rule ", "localrule ")))


def test_an_imported_module_is_seen_only_as_an_input(toy):
    rule = """
rule {name}:
    input: {inputs}
    output: "{name}.txt"
    shell: "python main.py > {{output}}"
"""
    rules = rule.format(name="blind", inputs="'main.py'") + rule.format(name="seeing", inputs="'main.py', 'helper.py'")
    toy.write({"main.py": "import helper; print(helper.VALUE)", "helper.py": "VALUE = 1", "Snakefile": rules})
    targets = ("blind.txt", "seeing.txt")
    toy.snakemake(*QUIET, "--", *targets)
    toy.write({"helper.py": "VALUE = 2"})
    assert wanted(toy, *targets) == ["seeing"]


@pytest.mark.parametrize(("folder", "used"), [("profiles/default", True), ("workflow/profiles/default", False)])
def test_the_default_profile_lies_beside_a_snakefile_at_the_top(toy, folder, used):
    toy.write({"Snakefile": "rule a:\n    output: 'a.txt'\n    shell: 'touch {output}'\n"})
    toy.write({f"{folder}/config.yaml": "cores: 1\n"})
    # Only the profile says how many cores there are, and Snakemake does not run without that number.
    assert (toy.snakemake(check=False).returncode == 0) is used


def test_large_files_with_new_times_are_compared_by_content_only_below_the_limit(toy):
    toy.write({"Snakefile": "rule a:\n    input: 'big'\n    output: 'a.txt'\n    shell: 'touch {output}'\n"})
    toy.write({"big": "x" * 2_000_000})
    raised = ("--max-checksum-file-size", "1000000000000")
    toy.snakemake(*QUIET, *raised)
    # As after a pull or a checkout: the same bytes, a time later than that of the output.
    later = (toy.root / "a.txt").stat().st_mtime + 10
    os.utime(toy.root / "big", (later, later))
    assert wanted(toy) == ["a"]
    assert wanted(toy, *raised) == []


def test_outputs_of_a_stage_are_deleted_before_it_runs_unless_they_persist(toy):
    toy.write({
        "input": "1",
        "dvc.yaml": """
stages:
  made:
    cmd: echo run >> kept && echo run >> dropped
    deps: [input]
    outs:
      - kept: {persist: true}
      - dropped
""",
    })  # fmt: skip
    toy.dvc("init", "-q", "--no-scm")
    toy.dvc("repro", "-q")
    toy.write({"input": "2"})
    toy.dvc("repro", "-q")
    assert (toy.read("kept"), toy.read("dropped")) == ("run\nrun\n", "run\n")


def test_with_its_metadata_a_pulled_clone_knows_what_is_done_and_what_is_stale(toy):
    rule = """
rule {name}:
    output: "results/{name}.txt"
    params: value=config["{name}"]
    shell: "echo {{params.value}} > {{output}}"
"""
    rules = "configfile: 'params.yaml'\nrule all:\n    input: 'results/one.txt', 'results/two.txt'\n"
    toy.write({
        "params.yaml": "one: 1\ntwo: 1\n",
        "Snakefile": rules + rule.format(name="one") + rule.format(name="two"),
        # What Snakemake keeps besides the metadata belongs to one machine.
        ".gitignore": ".snakemake\n",
        "dvc.yaml": """
stages:
  results:
    cmd: python -m snakemake --cores 1 --quiet all -- all
    deps: [Snakefile]
    params: [one, two]
    outs:
      - results: {persist: true}
  memory:
    cmd: 'true'
    deps: [results]
    outs:
      - .snakemake/metadata: {persist: true}
""",
    })  # fmt: skip
    toy.git("init", "-q")
    toy.dvc("init", "-q")
    toy.dvc("remote", "add", "-q", "-d", "store", str(toy.root.parent / "store"))
    toy.dvc("repro", "-q")
    toy.dvc("push", "-q")
    toy.git("add", "-A")
    toy.git("commit", "-qm", "state")

    clone = type(toy)(toy.root.parent / "clone")
    toy.git("clone", "-q", str(toy.root), str(clone.root))
    clone.dvc("pull", "-q")
    assert NOTHING in clone.snakemake("-n").stdout
    clone.write({"params.yaml": "one: 1\ntwo: 2\n"})
    assert wanted(clone) == ["all", "two"]

    for record in (clone.root / ".snakemake/metadata").iterdir():
        record.unlink()
    # The trap: without its records Snakemake takes any parameter for the old one.
    assert wanted(clone) == []


def test_a_plain_repro_leaves_the_pipelines_of_other_studies_alone_and_status_tells_of_them(toy):
    command = "mkdir -p {out} && echo run >> {out}/runs"
    stages = f"stages:\n  made: {{{{wdir: {{wdir}}, cmd: '{command}', outs: [{{out}}: {{{{persist: true}}}}]}}}}\n"
    other = "recorded/other/dvc.yaml"
    toy.write({
        "dvc.yaml": stages.format(wdir=".", out="results/desk"),
        other: stages.format(wdir="../..", out="results/other"),
        ".gitignore": "/results\n",
    })  # fmt: skip
    toy.git("init", "-q")
    toy.dvc("init", "-q")
    toy.dvc("repro", "-q")
    assert (toy.root / "results/desk/runs").exists() and not (toy.root / "results/other").exists()
    assert "up to date" in toy.dvc("status", "dvc.yaml").stdout
    assert f"{other}:made" in toy.dvc("status").stdout
    toy.dvc("repro", "-q", other)
    assert toy.read("results/desk/runs") == toy.read("results/other/runs") == "run\n"
    assert (toy.root / "recorded/other/dvc.lock").exists()
    assert "results/other" not in toy.read("dvc.lock")

    toy.dvc("remote", "add", "-q", "-d", "store", str(toy.root.parent / "store"))
    toy.dvc("push", "-q")
    toy.git("add", "-A")
    toy.git("commit", "-qm", "both")
    clone = type(toy)(toy.root.parent / "clone")
    toy.git("clone", "-q", str(toy.root), str(clone.root))
    clone.dvc("pull", "-q", other)
    assert (clone.root / "results/other/runs").exists() and not (clone.root / "results/desk").exists()
    assert "up to date" in clone.dvc("status", other).stdout
