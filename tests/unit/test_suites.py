"""The registry of published suites, its pins, and the plan of a study."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from embscale.checkpoints import suites
from embscale.checkpoints.families import FAMILIES
from embscale.errors import EmbscaleError

ROOT = Path(__file__).resolve().parents[2]
REGISTRY, PINS = ROOT / "workflow/suites.yaml", ROOT / "workflow/pins.yaml"

# Columns of the tables as the first study published them with its scores, but for one capital letter.
PUBLISHED = {
    "pythia": {
        "pythia-14m": 128, "pythia-31m": 256, "pythia-70m": 512, "pythia-160m": 768, "pythia-410m": 1024,
        "pythia-1b": 2048, "pythia-1.4b": 2048, "pythia-2.8b": 2560, "pythia-6.9b": 4096, "pythia-12b": 5120,
    },
    "opt": {
        "opt-125m": 768, "opt-350m": 512, "opt-1.3b": 2048, "opt-2.7b": 2560, "opt-6.7b": 4096, "opt-13b": 5120,
        "opt-30b": 7168, "opt-66b": 9216, "opt-175b": 12288,
    },
    "cerebras-gpt": {
        "Cerebras-GPT-111M": 768, "Cerebras-GPT-256M": 1088, "Cerebras-GPT-590M": 1536, "Cerebras-GPT-1.3B": 2048,
        "Cerebras-GPT-2.7B": 2560, "Cerebras-GPT-6.7B": 4096, "Cerebras-GPT-13B": 5120,
    },
    "bloom": {
        "bloom-560m": 1024, "bloom-1b1": 1536, "bloom-1b7": 2048, "bloom-3b": 2560, "bloom-7b1": 4096, "bloom": 14336,
    },
    "t5-v1_1": {
        "t5-v1_1-small": 512, "t5-v1_1-base": 768, "t5-v1_1-large": 1024, "t5-v1_1-xl": 2048, "t5-v1_1-xxl": 4096,
    },
}  # fmt: skip
# Rows, as the same study named its random tables after them; two of Pythia's were trained in more parts.
ROWS = {"pythia": 50304, "opt": 50272, "cerebras-gpt": 50257, "bloom": 250880, "t5-v1_1": 32128}
MORE_ROWS = {"pythia-6.9b": 50432, "pythia-12b": 50688}

BLOCK = """
mine:
  title: Mine
  family: llama
  licence: {name: MIT, url: "https://example.org/licence", redistributable: true}
  gated: false
  access: open
  tokenizer: {name: my-bpe, repo: me/small}
  tied: true
  dtype: BF16
  repo: "me/{model}"
  revision: main
  source: my own notes
  sure: verified
  models:
    small: {shape: [100, 8], checkpoint_gb: 0.5}
    large: {shape: [100, 16], checkpoint_gb: 2, depth: 3}
"""
COMMIT = "0123456789abcdef0123456789abcdef01234567"
EVERYTHING = {"max_table_gb": 8, "max_checkpoint_gb": 1e6, "max_download_gb": 1e6}


@pytest.fixture(scope="module")
def registry():
    return suites.load(REGISTRY, PINS)


@pytest.fixture
def own(tmp_path):
    """A function that writes a registry with pins and loads it."""

    def write(text=BLOCK, pins=("me/small@main", "me/large@main")):
        (tmp_path / "suites.yaml").write_text(text)
        suites.write_pins(tmp_path / "pins.yaml", {key: {"commit": COMMIT, "source": "test"} for key in pins})
        return suites.load(tmp_path / "suites.yaml", tmp_path / "pins.yaml")

    return write


def plan(registry, *names, layer_suites=(), local_paths=None, token=False, **limits):
    return suites.plan(
        registry,
        names,
        layer_suites=layer_suites,
        local_paths=local_paths or {},
        token=token,
        **(EVERYTHING | limits),
    )


def changed(path, **facts):
    """The block's text after a change at a dotted place; None takes a fact away."""
    content = yaml.safe_load(BLOCK)
    target = content
    for step in path.split(".") if path else []:
        target = target[step]
    for key, value in facts.items():
        if value is None:
            del target[key]
        else:
            target[key] = value
    return yaml.safe_dump(content, sort_keys=False)


# What the registry says.


def test_the_five_suites_have_the_published_shapes(registry):
    for suite, dims in PUBLISHED.items():
        assert {point.model: point.dims for point in registry[suite]} == dims
        for point in registry[suite]:
            assert point.rows == MORE_ROWS.get(point.model, ROWS[suite])


def test_the_open_tables_are_a_fortieth_of_their_checkpoints(registry):
    points = [point for suite in PUBLISHED for point in registry[suite] if point.access == "open"]
    assert len(points) == 36
    assert sum(point.table_bytes for point in points) / 1e9 == pytest.approx(22, abs=1)
    assert sum(point.checkpoint_bytes for point in points) / 1e9 == pytest.approx(830, abs=10)


def test_sizes_agree_with_parameters(registry):
    """A file holds the parameters and little else: masks as buffers in some, which weigh most in the smallest."""
    for point in (point for points in registry.values() for point in points):
        if point.parameters and point.checkpoint_gb and point.suite != "gemstones":
            size = point.parameters * suites.ITEM_SIZES[point.dtype]
            buffers = (point.depth or 0) * 2048**2 + 0.01e9
            assert 0.9 * size <= point.checkpoint_bytes <= 1.03 * size + buffers, point.model


def test_every_family_is_known(registry):
    assert {point.family for points in registry.values() for point in points} <= FAMILIES.keys()


def test_all_suites_are_there(registry):
    sizes = {suite: len({point.model for point in points}) for suite, points in registry.items()}
    assert sizes.items() >= {
        "pythia-deduped": 10, "pythia-steps": 5, "polypythias": 45, "gpt-neox-20b": 1, "gpt2": 4, "llama-2": 5,
        "llama-3": 5, "gemstones": 22, "qwen2.5": 7, "qwen3": 6, "smollm2": 3, "olmo-2": 4, "gemma-2": 3, "gemma-3": 5,
    }.items()  # fmt: skip
    for point in registry["gemstones"]:
        assert point.model == f"Gemstone-{point.width}x{point.depth}"


def test_pythia_has_154_checkpoints_that_end_with_main(registry):
    points = [point for point in registry["pythia-steps"] if point.model == "pythia-70m"]
    assert len(points) == 154 and len({point.name for point in points}) == 154
    assert [point.step for point in points[:12]] == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]
    assert (points[12].name, points[12].revision) == ("step2000", "step2000")
    assert (points[-1].name, points[-1].revision) == ("step143000", "main")
    # The model cards' count.
    assert points[-1].tokens_seen == 299_892_736_000


def test_cerebras_saw_some_twenty_tokens_for_each_parameter(registry):
    for point in registry["cerebras-gpt"]:
        assert 19 < point.tokens_seen / point.parameters < 21


def test_gated_suites_name_licences_that_do_not_let_tables_be_passed_on(registry):
    gated = {suite for suite, points in registry.items() if any(point.gated for point in points)}
    assert gated == {"llama-2", "llama-3", "gemma-2", "gemma-3"}
    assert not any(point.redistributable for suite in gated for point in registry[suite])


def test_where_the_blocks_are_wider_than_the_table(registry):
    wider = [point for points in registry.values() for point in points if point.width != point.dims]
    assert [(point.model, point.dims, point.width) for point in wider] == [("opt-350m", 512, 1024)]


def test_the_committed_pins_are_written_as_the_command_writes_them(tmp_path, registry):
    pins = suites.read_pins(PINS)
    suites.write_pins(tmp_path / "pins.yaml", pins)
    assert (tmp_path / "pins.yaml").read_text() == PINS.read_text()
    known = {f"{point.repo}@{point.revision}" for points in registry.values() for point in points}
    known |= {f"{point.tokenizer_repo}@main" for points in registry.values() for point in points}
    assert pins.keys() <= known and len({pin["commit"] for pin in pins.values()}) == len(pins)


# A registry of one's own.


def test_a_new_suite_is_one_block(own):
    small, large = own()["mine"]
    assert (small.repo, small.commit, small.name) == ("me/small", COMMIT, "main")
    assert (large.rows, large.dims, large.table_bytes, large.depth) == (100, 16, 100 * 16 * 2, 3)
    assert large.checkpoint_bytes == 2_000_000_000 and large.tokenizer_commit == COMMIT


def test_steps_can_be_folders(own):
    steps = {"step": 30, "steps": [0, {"first": 10, "last": 20, "every": 10}], "step_subfolder": "at/{step}"}
    points = own(changed("mine.models.small", **steps, tokens_per_step=7))["mine"][:4]
    assert [(p.name, p.revision, p.subfolder, p.tokens_seen) for p in points] == [
        ("step0", "main", "at/0", 0),
        ("step10", "main", "at/10", 70),
        ("step20", "main", "at/20", 140),
        ("step30", "main", None, 210),
    ]


@pytest.mark.fault("a registry with a wrong block", happens="one line before the first job", do="correct it")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        (changed("mine", famly="llama"), "mine.famly: unknown key"),
        (changed("mine.models.small", shape=[0, 8]), "mine.models.small.shape[0]: given 0"),
        (changed("mine.models.small", dtype="fp16"), 'mine.models.small.dtype: given "fp16"'),
        (changed("mine", licence={"name": "MIT", "redistributable": True}), "mine.licence.url: missing"),
        (changed("mine", recalled=["colour"]), 'mine.recalled[0]: given "colour"'),
        (changed("mine", dtype=None), "mine.models.small: lacks dtype"),
        (changed("mine", step_revision="step{step}"), "mine.models.small: gives step_revision, but no steps"),
        (changed("mine", steps=[1], step_revision="one"), "mine.models.small: its steps need one of"),
        (changed("mine", steps=[1]), "mine.models.small: its steps need one of"),
        (changed("mine", steps=[2, 1], step_revision="s{step}"), "mine.models.small: steps are to rise"),
        (changed("mine", steps=[9], step=9, step_revision="s{step}"), "mine.models.small: steps are to rise"),
        (changed("mine.models").replace("mine:", "ladder:"), "ladder: unknown key"),
        (BLOCK + "    small: {shape: [1, 1]}\n", "small is there twice"),
        (
            BLOCK + changed("").replace("mine:", "other:").replace("me/{model}", "you/{model}"),
            "model small is you/small",
        ),
        (
            BLOCK + changed("").replace("mine:", "other:").replace("me/small", "me/large"),
            "tokenizer my-bpe is me/large here and me/small before",
        ),
        (BLOCK + changed("mine", revision="v2").replace("mine:", "other:"), "small has two checkpoints called main"),
        ("- a\n", "expected a group of keys"),
        ("a: [\n", "suites.yaml, line"),
    ],
)
def test_what_is_wrong_is_reported_in_one_line(own, text, line):
    with pytest.raises(EmbscaleError) as raised:
        own(text)
    message = str(raised.value)
    assert line in message and "suites.yaml" in message and "\n" not in message


@pytest.mark.fault("pins that are no commits", happens="one line before the first job", do="`embscale pin`")
def test_wrong_pins_are_reported(tmp_path, own):
    own()
    for commit in (COMMIT[:12], COMMIT.upper(), int("1" * 40)):
        (tmp_path / "pins.yaml").write_text(yaml.safe_dump({"me/small@main": {"commit": commit}}))
        with pytest.raises(EmbscaleError, match=r"'me/small@main': expected.*40"):
            suites.load(tmp_path / "suites.yaml", tmp_path / "pins.yaml")
    assert suites.read_pins(tmp_path / "none.yaml") == {}
    with pytest.raises(EmbscaleError, match="no such file"):
        suites.load(tmp_path / "none.yaml", tmp_path / "pins.yaml")


def test_pins_of_digits_alone_stay_text(tmp_path):
    pins = {"a/b@1e5": {"commit": "1" * 40, "source": 'a "quoted" word: yes'}, "a/a@main": {"commit": COMMIT}}
    suites.write_pins(tmp_path / "pins.yaml", pins)
    pins["a/a@main"]["source"] = ""
    assert suites.read_pins(tmp_path / "pins.yaml") == pins == yaml.safe_load((tmp_path / "pins.yaml").read_text())
    assert [path.name for path in tmp_path.iterdir()] == ["pins.yaml"]


# The plan of a study.


def test_opt_175b_is_fetched_from_nowhere(registry, tmp_path):
    for token in (False, True):
        (item,) = [item for item in plan(registry, "opt", token=token) if item.checkpoint.model == "opt-175b"]
        assert item.status == "restricted" and not item.available and not item.fetched_bytes
        assert item.checkpoint.repo == "" and item.checkpoint.commit is None
    assert item.checkpoint.licence_url in item.reason and "hub.local_paths.opt-175b" in item.reason

    (item,) = [i for i in plan(registry, "opt", local_paths={"opt-175b": str(tmp_path)}) if i.local_path]
    assert (item.checkpoint.model, item.status, item.source) == ("opt-175b", "local", str(tmp_path))
    assert item.whole_available and not item.fetched_bytes


def test_gated_checkpoints_need_a_token(registry):
    assert {item.status for item in plan(registry, "llama-2")} == {"gated"}
    without, with_token = plan(registry, "llama-2")[0], plan(registry, "llama-2", token=True)[0]
    assert "https://ai.meta.com/llama/license/" in without.reason
    assert (
        with_token.status == "fetch" and with_token.source == f"meta-llama/Llama-2-7b-hf@{with_token.checkpoint.commit}"
    )


def test_limits_are_of_gigabytes(own):
    registry = own(changed("mine.models.large", shape=[1_000_000, 500]))  # 10^9 bytes
    small, large = plan(registry, "mine", max_table_gb=0.999)
    assert (small.status, large.status) == ("fetch", "too large")
    assert "1.00 GB" in large.reason and "0.999" in large.reason
    assert plan(registry, "mine", max_table_gb=1)[1].status == "fetch"
    with pytest.raises(EmbscaleError, match=r"would fetch 1\.0 GB, but hub\.max_download_gb is 0\.9"):
        plan(registry, "mine", max_download_gb=0.9)


def test_whole_checkpoints_are_had_for_hidden_states(own):
    registry = own()
    assert not any(item.whole_available for item in plan(registry, "mine"))
    small, large = plan(registry, "mine", layer_suites=["ladder", "mine"], max_checkpoint_gb=1)
    assert small.whole_available and small.fetched_bytes == small.checkpoint.table_bytes + 500_000_000
    assert not large.whole_available and large.available and "2 GB are above hub.max_checkpoint_gb, 1" in large.reason
    with pytest.raises(EmbscaleError, match=r"would fetch 2\.5 GB"):
        plan(registry, "mine", layer_suites=["mine"], max_download_gb=2)
    unsized = own(changed("mine.models.large", checkpoint_gb=None))
    assert "not known" in plan(unsized, "mine", layer_suites=["mine"])[1].reason


def test_only_the_last_checkpoint_is_had_whole(own):
    registry = own(
        changed("mine", step=3, steps=[1, 2], step_revision="s{step}"),
        [f"me/{model}@{revision}" for model in ("small", "large") for revision in ("main", "s1", "s2")],
    )
    wholes = [item.checkpoint.name for item in plan(registry, "mine", layer_suites=["mine"]) if item.whole_available]
    assert wholes == ["step3", "step3"]


@pytest.mark.fault("a suite that is not pinned", happens="the study stops before its first job", do="`embscale pin`")
def test_what_is_not_pinned_stops_a_study_and_counts(own):
    registry = own(pins=["me/small@main"])
    small, large = plan(registry, "mine")
    assert (small.status, large.status, large.available) == ("fetch", "unpinned", False)
    assert large.fetched_bytes == large.checkpoint.table_bytes
    suites.check_pinned([small])
    with pytest.raises(EmbscaleError, match=r"me/large@main.*embscale pin"):
        suites.check_pinned([small, large])
    # A tokenizer is fetched even where the checkpoint is not.
    registry = own(pins=["me/large@main"])
    assert [item.status for item in plan(registry, "mine", local_paths={"large": "."})] == ["unpinned", "unpinned"]


@pytest.mark.fault("a model that the hub has no longer", happens="it is left out by name", do="nothing")
def test_what_the_hub_has_no_longer_is_left_out_by_name(own, tmp_path):
    own()
    pins = suites.read_pins(tmp_path / "pins.yaml")

    def planned(gone, **given):
        suites.write_pins(tmp_path / "pins.yaml", pins | {gone: {"commit": "", "source": "test"}})
        return plan(suites.load(tmp_path / "suites.yaml", tmp_path / "pins.yaml"), "mine", **given)

    small, large = planned("me/large@main")
    assert (small.status, large.status, large.available, large.fetched_bytes) == ("fetch", "missing", False, 0)
    assert large.reason.startswith("The hub has no me/large@main; ")
    suites.check_pinned([small, large])  # no reason to stop
    assert [item.status for item in planned("me/large@main", local_paths={"large": "."})] == ["fetch", "local"]
    # The tokenizer of all is in the repository of one.
    assert [item.status for item in planned("me/small@main")] == ["missing", "missing"]


def test_a_model_of_two_suites_comes_once_with_its_last_checkpoint_last(registry):
    items = plan(registry, "pythia", "pythia-steps")
    names = [(item.checkpoint.model, item.checkpoint.name) for item in items]
    assert len(set(names)) == len(names) == 5 * 154 + 5
    small = [item.checkpoint for item in items if item.checkpoint.model == "pythia-14m"]
    assert small[-1].step == 143000 and {point.suite for point in small} == {"pythia"}


@pytest.mark.parametrize(
    ("names", "more", "line"),
    [
        (["mein"], {}, "suites: no suite mein (did you mean mine?); known are mine"),
        ([], {"layer_suites": ["mine"]}, "layers.suites: mine is not among the study's suites"),
        (["mine"], {"local_paths": {"smal": "."}}, "no model smal in this study (did you mean small?)"),
        (["mine"], {"local_paths": {"small": "/no/such"}}, "hub.local_paths.small: /no/such: no such folder"),
    ],
)
def test_slips_in_a_study_are_reported(own, names, more, line):
    with pytest.raises(EmbscaleError, match=re.escape(line)):
        plan(own(), *names, **more)


def study(registry, pins, *names, tokenizer="desk-bpe"):
    hub = EVERYTHING | {"registry": str(registry), "pins": str(pins), "local_paths": {}}
    own = {"suites": list(names), "layers": {"suites": ["ladder"]}, "hub": hub, "tokenizer": {"name": tokenizer}}
    return yaml.safe_load((ROOT / "params.yaml").read_text("utf-8")) | own


@pytest.mark.fault(
    "a published model called like one of the study's own", happens="one line before the first job", do="rename it"
)
@pytest.mark.parametrize("name", ["cbow-d32", "LADDER-W64", "learned-w64", "bm25", "chance", "Overlap"])
def test_no_model_has_the_name_of_one_of_the_studys_own(own, tmp_path, name):
    own(BLOCK.replace("small", name), pins=(f"me/{name}@main", "me/large@main"))
    files = tmp_path / "suites.yaml", tmp_path / "pins.yaml"
    with pytest.raises(EmbscaleError, match=f"model {name} is also the name of one of the study's own"):
        suites.plan_study(study(*files, "mine"), token=False)


def test_no_suite_has_the_name_of_a_static_method(own, tmp_path):
    own(BLOCK.replace("mine:", "cbow:"))
    files = tmp_path / "suites.yaml", tmp_path / "pins.yaml"
    with pytest.raises(EmbscaleError, match="suite cbow is also the name of one of the study's own"):
        suites.plan_study(study(*files, "cbow"), token=False)


def test_a_study_is_planned_from_its_parameters(own, tmp_path):
    own()
    files = tmp_path / "suites.yaml", tmp_path / "pins.yaml"
    assert suites.plan_study(study(*files), token=False) == []
    assert [item.status for item in suites.plan_study(study(*files, "mine"), token=False)] == ["fetch", "fetch"]
    with pytest.raises(EmbscaleError, match="my-bpe"):
        suites.plan_study(study(*files, "mine", tokenizer="my-bpe"), token=False)
    assert suites.revisions(study(*files, "mine")) == [("me/small", "main"), ("me/large", "main")]


def test_revisions_to_pin_are_those_of_open_checkpoints_and_tokenizers():
    wanted = suites.revisions(study(REGISTRY, PINS, "opt", "cerebras-gpt"))
    assert len(wanted) == len(set(wanted)) == 8 + 7 + 1  # OPT's tokenizer is in one of its own repositories
    assert ("openai-community/gpt2", "main") in wanted and all(repo for repo, _ in wanted)


def test_the_plan_reads_as_a_table(registry):
    text = suites.render_plan(plan(registry, *PUBLISHED, "llama-2", layer_suites=["t5-v1_1"], max_checkpoint_gb=12))
    lines = text.splitlines()
    assert len({found.end() for line in lines for found in re.finditer(r"rows × columns|\d+ × \d+", line)}) == 1
    (total,) = [line.split() for line in lines if line.startswith("total")]
    assert total[1] == "36" and float(total[2]) == pytest.approx(22.43, abs=0.01)
    assert float(total[3]) == pytest.approx(0.3 + 1.0 + 3.1 + 11.4)
    (fetch,) = re.findall(r"^To fetch: ([0-9.]+) GB", text, re.MULTILINE)
    assert float(fetch) == pytest.approx(float(total[2]) + float(total[3]), abs=0.01)
    assert re.search(r"opt-175b: On no hub", text) and "llama-2: 5 gated, such as Llama-2-7b-hf: Gated" in text
    for suite, models in PUBLISHED.items():
        assert all(re.search(rf"^  {re.escape(model)} ", text, re.MULTILINE) for model in models)
        assert re.search(rf"^{re.escape(suite)} ", text, re.MULTILINE)
    assert "nothing" in suites.render_plan([])


# Tokens, and where the module runs.


@pytest.mark.long
@pytest.mark.parametrize(
    ("variables", "file", "there"),
    [
        ({}, None, False),
        ({"HF_TOKEN": "x"}, None, True),
        ({"HF_TOKEN": " "}, None, False),
        ({"HF_TOKEN": "x", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}, None, False),
        ({}, "home/.cache/huggingface/token", True),
        ({"XDG_CACHE_HOME": "cache"}, "cache/huggingface/token", True),
        ({"HF_HOME": "hf"}, "hf/token", True),
        ({"HF_HOME": "hf"}, "home/.cache/huggingface/token", False),
        ({"HF_TOKEN_PATH": "mine"}, "mine", True),
    ],
)
def test_a_token_is_found_where_the_client_finds_it(tmp_path, variables, file, there):
    if file:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("x")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT / "src")}
    paths = ("XDG_CACHE_HOME", "HF_HOME", "HF_TOKEN_PATH")
    environment |= {key: str(tmp_path / value) if key in paths else value for key, value in variables.items()}
    code = "from huggingface_hub.utils import build_hf_headers as headers; "
    code += "from embscale.checkpoints.suites import has_token; "
    code += "print(has_token(), 'authorization' in headers())"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(there)] * 2


def test_the_module_needs_only_what_comes_with_snakemake():
    code = "import sys, embscale.checkpoints.suites; print(*{name.partition('.')[0] for name in sys.modules})"
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    heavy = {"numpy", "torch", "transformers", "safetensors", "huggingface_hub", "pandas", "scipy"}
    assert not heavy & set(done.stdout.split())
