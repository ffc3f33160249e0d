"""``--use-conda`` with a conda that really creates and activates environments, and a Snakemake of one's own."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import conda_stand_in

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "workflow/envs/embscale.yaml"
POST_DEPLOY = ROOT / "workflow/envs/embscale.post-deploy.sh"
TINY = ("--configfile", "studies/tiny.yaml")
TEXTS = "results/tiny/tasks/NetworkXSeeAlso/corpus.jsonl.gz"
CPU_INDEX = "--index-url https://download.pytorch.org/whl/cpu"


@pytest.fixture(scope="module")
def conda(tmp_path_factory):
    """The folder of a conda."""
    return conda_stand_in.install(tmp_path_factory.mktemp("conda"))


@pytest.fixture
def set_up(project, conda):
    """A function that makes a project of a folder, with the conda on PATH and without a network for pip."""

    def prepared(folder):
        checkout = project(folder)
        checkout.environment["PATH"] += f":{conda}/bin"
        checkout.environment |= {"STAND_IN_CONDA": str(conda), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
        return checkout

    return prepared


@pytest.fixture(scope="module")
def copied(copy_of_checkout):
    return copy_of_checkout("checkout")


@pytest.fixture
def checkout(copied, set_up):
    """A checkout whose conda environment is made once."""
    return set_up(copied)


@pytest.fixture(scope="module")
def own_snakemake(tmp_path_factory):
    """A function from names of packages to a Python that has nothing but Snakemake, less those packages."""

    def make(*missing):
        packages = conda_stand_in.needs("snakemake") - set(missing)
        return conda_stand_in.create(tmp_path_factory.mktemp("own"), packages) / "bin/python"

    return make


@pytest.fixture
def other_package(tmp_path):
    """A folder with another checkout's package, which says so."""
    package = tmp_path / "other/src/embscale"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('the package of another checkout')\n")
    return package.parent


def environment_of(checkout):
    """The conda environment of a checkout, which has no more than one."""
    (flag,) = (checkout.root / ".snakemake/conda").glob("*.env_setup_done")
    return flag.with_suffix("")


def last_job(checkout, command):
    """What the Python of the environment told of the last job that ran a command."""
    told = conda_stand_in.witnesses(environment_of(checkout))
    return [line for line in told if line["argv"][1:2] == [command]][-1]


def run_texts(checkout, *arguments, **options):
    """Run the study's first rule."""
    return checkout.snakemake("--cores", "1", *arguments, "--force", *TINY, "--", TEXTS, **options)


def assert_in_environment(checkout):
    job = last_job(checkout, "harvest")
    assert job["prefix"] == str(environment_of(checkout))
    assert job["embscale"] == str(checkout.root / "src/embscale/__init__.py")
    assert "PYTHONPATH" not in job["environment"]
    # A real conda's Python would look for packages in the user's home before those of the environment.
    assert job["environment"]["PYTHONNOUSERSITE"] == "1"


def test_a_rule_runs_this_package_in_the_environment(checkout):
    run_texts(checkout, "--use-conda")
    assert_in_environment(checkout)
    assert not list(environment_of(checkout).glob("lib/*/site-packages/*embscale*"))


def test_the_environment_gets_torch_from_the_script(checkout):
    run_texts(checkout, "--use-conda")
    told = conda_stand_in.witnesses(environment_of(checkout))
    installed = " ".join(word for line in told if line["argv"][1:2] == ["install"] for word in line["argv"])
    assert all(f"{name}==" in installed for name in ("torch", "mteb", "sentence-transformers"))


@pytest.mark.parametrize("flags", [("--use-conda",), ()])
def test_no_search_path_leads_a_rule_to_another_package(checkout, other_package, flags):
    checkout.environment |= {"PYTHONPATH": str(other_package), "PYTHONSAFEPATH": "1"}
    run_texts(checkout, *flags)
    if flags:
        assert_in_environment(checkout)


def test_an_active_environment_behind_another_python_does_not_keep_the_new_one_back(checkout, conda):
    """As with conda's base environment active and this project's own one in front of it."""
    checkout.environment |= {"CONDA_PREFIX": str(conda), "CONDA_SHLVL": "1"}
    run_texts(checkout, "--use-conda")
    assert_in_environment(checkout)


def test_a_folder_that_would_split_a_search_path_is_refused(copy_of_checkout, set_up):
    folder = copy_of_checkout("this:that")
    told = run_texts(set_up(folder), check=False)
    assert told.returncode == 1
    assert f"{folder}: a folder on a search path must have no ':' in its name" in told.stdout


def test_another_folder_is_refused(copied, tmp_path, set_up):
    told = set_up(tmp_path).snakemake("--cores", "1", "--snakefile", str(copied / "Snakefile"), check=False)
    assert told.returncode == 1
    assert f"the study runs in its own folder; go to {copied}" in told.stdout


def test_a_folder_that_the_shell_would_split_is_refused_with_conda(copy_of_checkout, tmp_path, set_up):
    checkout = set_up(copy_of_checkout("with space"))
    told = run_texts(checkout, "--use-conda", check=False)
    assert told.returncode == 1 and "--conda-prefix" in told.stdout
    run_texts(checkout, "--use-conda", "--conda-prefix", str(tmp_path / "environments"))
    run_texts(checkout)


@pytest.fixture
def own(checkout, own_snakemake):
    """A function that runs the study with a Snakemake of one's own."""

    def run(*arguments, missing=(), **options):
        return checkout.run(str(own_snakemake(*missing)), "-m", "snakemake", *TINY, *arguments, **options)

    return run


def test_a_snakemake_of_ones_own_plans_the_study(own):
    assert "Job stats:" in own("-n").stdout


def test_a_snakemake_of_ones_own_runs_the_study_with_conda_and_shows_its_progress(own, checkout):
    shown = own("--cores", "1", "--use-conda", "--force", "--", TEXTS).stdout
    assert re.search(r"^0/1  0:00:00  harvest$", shown, re.MULTILINE) and "1 jobs ran in" in shown
    assert "Activating" not in shown
    assert_in_environment(checkout)


def test_a_snakemake_of_ones_own_without_conda_says_what_is_missing_before_the_first_job(own):
    done = own("--cores", "1", "--force", "--", TEXTS, check=False)
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if "lacks" in line]
    assert "torch, transformers" in line and "run make report" in line and "--use-conda" in line
    assert "Traceback" not in done.stdout and "harvest" not in done.stdout


def test_a_package_that_the_snakefile_itself_needs_is_named(own):
    done = own("-n", missing=["jsonschema"], check=False)
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if "lacks" in line]
    assert "lacks jsonschema; run make report" in line
    assert "Traceback" not in done.stdout


def test_the_study_is_planned_as_a_module_of_another_snakefile_of_the_checkout(checkout):
    module = 'module study:\n    snakefile: "../Snakefile"\n    config: config\nuse rule * from study as study_*\n'
    checkout.write({"workflow/module.smk": f'configfile: "params.yaml"\n{module}'})
    assert "study_render" in checkout.snakemake("-n", "--snakefile", "workflow/module.smk", *TINY).stdout


def test_a_snakemake_that_is_too_old_says_so(checkout):
    program = "import snakemake.common; snakemake.common.__version__ = '9.16.3'; from snakemake.cli import main; main()"
    done = checkout.python("-c", program, "-n", *TINY, check=False)
    assert done.returncode == 1 and "Expecting Snakemake version 9.17 or higher" in done.stdout


def test_the_environment_and_its_script_repeat_the_lock_file():
    pins = yaml.safe_load(ENVIRONMENT.read_text())["dependencies"][-1]["pip"]
    pins += re.findall(r"[\w.-]+==[\w.]+", POST_DEPLOY.read_text())
    listed = re.findall(r"^[a-z][^\\\n]*", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    linux = {"sys_platform": "linux", "platform_machine": "x86_64", "implementation_name": "cpython"}
    locked = [need for need in map(Requirement, listed) if need.marker is None or need.marker.evaluate(linux)]
    # torch is not in it: its version stands in pyproject.toml.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    locked += [Requirement(need) for need in project if need.startswith("torch==")]
    versions = [
        sorted((canonicalize_name(r.name), str(r.specifier)) for r in found)
        for found in (map(Requirement, pins), locked)
    ]
    assert versions[0] == versions[1] and len(versions[0]) > 100


def test_pip_finds_nothing_in_the_environment_that_would_draw_in_torch():
    pins = yaml.safe_load(ENVIRONMENT.read_text())["dependencies"][-1]["pip"]
    assert not [pin for pin in pins if "torch" in conda_stand_in.needs(pin.partition("==")[0])]


@pytest.fixture
def installing(tmp_path):
    """A function that runs the script with stand-ins for programs and returns how it ended and how pip was called."""

    def run(*, gpu, refused=r"\0", **environment):
        programs = {
            "python": f'echo "$*" >> {tmp_path}/calls; case "$*" in *"{refused}"*) exit 1 ;; esac',
            "nvidia-smi": f"exit {0 if gpu else 9}",
            "uname": "echo Linux",
        }
        for name, text in programs.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / name).chmod(0o755)
        environment |= {"PATH": f"{tmp_path}:{os.defpath}"}
        done = subprocess.run(["bash", str(POST_DEPLOY)], env=environment, capture_output=True)
        return done.returncode, (tmp_path / "calls").read_text().splitlines()

    return run


def test_without_a_gpu_torch_comes_from_the_index_for_processors_alone(installing):
    code, (torch, missing, rest) = installing(gpu=False)
    assert code == 0
    assert CPU_INDEX in torch and re.search(r" torch==[\d.]+$", torch)
    assert "index" not in missing + rest and missing.rpartition(" ")[2] == torch.rpartition(" ")[2]


@pytest.mark.parametrize("environment", [{"gpu": True}, {"gpu": False, "CONDA_OVERRIDE_CUDA": "12.8"}])
def test_with_a_gpu_torch_comes_from_where_all_packages_come_from(installing, environment):
    code, calls = installing(**environment)
    assert code == 0 and len(calls) == 2 and not [call for call in calls if "index" in call]


def test_an_index_that_cannot_be_reached_is_no_obstacle(installing):
    code, calls = installing(gpu=False, refused="--index-url")
    assert code == 0 and len(calls) == 3


def test_a_package_that_cannot_be_had_is_an_error(installing):
    assert installing(gpu=False, refused="mteb")[0] == 1


@pytest.mark.slow
def test_the_whole_study_runs_in_the_environment(copy_of_checkout, set_up):
    checkout = set_up(copy_of_checkout("whole"))
    checkout.snakemake("--cores", "2", "--use-conda", *TINY)
    assert (checkout.root / "report/_site/tiny/index.html").is_file()
    ran = [line for line in conda_stand_in.witnesses(environment_of(checkout)) if line["embscale"]]
    assert {line["embscale"] for line in ran} == {str(checkout.root / "src/embscale/__init__.py")}
    assert len(ran) > 50
    assert "Nothing to be done" in checkout.snakemake("-n", "--use-conda", *TINY).stdout
