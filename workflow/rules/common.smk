"""What the study consists of, and where its parts lie; look-ups that several chapters share."""

STUDY = Path("results") / config["study"]
RECORDED = Path("recorded") / config["study"]  # what git keeps of it
HUB = Path("results") / "hub"  # what was fetched is pinned, so all studies share it

LADDER = [f"ladder-w{width}" for width in config["ladder"]["widths"]]
LADDER_CHECKPOINTS = [f"step{step}" for step in sorted(config["ladder"]["checkpoints"])]

# Published checkpoints, each with the reason where one is left out.
try:
    PLAN = plan_study(config, token=has_token())
    check_pinned(PLAN)
except EmbscaleError as error:
    raise WorkflowError(error) from None
FETCHED = {
    (planned.checkpoint.model, planned.checkpoint.name): planned
    for planned in PLAN
    if planned.available
}
CHECKPOINTS = {model: LADDER_CHECKPOINTS for model in LADDER}
SUITES = dict.fromkeys(LADDER, "ladder")
TOKENIZERS = dict.fromkeys(LADDER, config["tokenizer"]["name"])
for (model, name), planned in FETCHED.items():
    CHECKPOINTS[model] = [*CHECKPOINTS.get(model, []), name]
    SUITES[model] = planned.checkpoint.suite
    TOKENIZERS[model] = planned.checkpoint.tokenizer

# Models whose hidden states are taken.
LAYER_MODELS = [
    model
    for model in CHECKPOINTS
    if SUITES[model] in config["layers"]["suites"]
    and (model in LADDER or FETCHED[model, CHECKPOINTS[model][-1]].whole_available)
]
TASKS = [config["corpus"]["task"], *config["tasks"]]


wildcard_constraints:
    model="|".join(map(re.escape, CHECKPOINTS)),
    checkpoint=r"step\d+|main",
    step=r"\d+",
    task="|".join(map(re.escape, TASKS)),
    tokenizer="|".join(map(re.escape, dict.fromkeys(TOKENIZERS.values()))),
    texts="|".join(map(re.escape, config["texts"])) or "none",
    figure="[a-z_]+",
    text=r"index\.qmd|_quarto\.yml|references\.bib",


def flags(flag, values):
    """``--flag a --flag b`` for a list of values."""
    return " ".join(f"{flag} {shlex.quote(str(value))}" for value in values)


def home(own):
    """Where the study's own things lie, or what was fetched."""
    return STUDY if own else HUB


def task_files(task):
    """The files of a retrieval task, the corpus first."""
    folder = home(task == config["corpus"]["task"]) / "tasks" / task
    return [
        folder / name for name in ("corpus.jsonl.gz", "queries.jsonl", "qrels/test.tsv")
    ]


def tokenizer_file(tokenizer):
    """The file that holds a tokenizer."""
    if tokenizer == config["tokenizer"]["name"]:
        return STUDY / "tokenizer/tokenizer.json"
    return HUB / "tokenizers" / tokenizer / "tokenizer.json"


def table_file(model, checkpoint):
    """The embedding table of a checkpoint."""
    return home(model in LADDER) / "tables" / model / f"{checkpoint}.safetensors"


def checkpoint_folder(model, checkpoint):
    """The whole checkpoint, in the Hugging Face layout."""
    fetched = FETCHED.get((model, checkpoint))
    if fetched is not None and fetched.local_path:
        return Path(fetched.local_path)
    return home(model in LADDER) / "checkpoints" / model / checkpoint


def checkpoint_files(model, checkpoint):
    """Files that change with a checkpoint: its configuration, and the note of what fetched it or its weights."""
    folder = checkpoint_folder(model, checkpoint)
    fetched = FETCHED.get((model, checkpoint))
    if fetched is None:
        return [folder / "config.json", folder / "model.safetensors"]
    note = [] if fetched.local_path else [folder / "config.json.note.json"]
    return [folder / "config.json", *note]


def address(repo, commit):
    """``REPO@COMMIT`` as a word of the command line."""
    return shlex.quote(f"{repo}@{commit}")


def fetched(wildcards):
    """The planned checkpoint of a job."""
    return FETCHED[wildcards.model, wildcards.checkpoint]


def step_of(checkpoint):
    """The training step as it goes into rows: a number, or ``main`` where it is not known."""
    return checkpoint.removeprefix("step")


def vocabulary(tokenizer):
    """Rows that a random table needs for every token of a tokenizer."""
    if tokenizer == config["tokenizer"]["name"]:
        return config["tokenizer"]["vocab_size"]
    return min(
        p.checkpoint.rows
        for p in FETCHED.values()
        if p.checkpoint.tokenizer == tokenizer
    )
