"""Parts of the study and their paths; look-ups shared by several chapters."""

STUDY = Path("results") / config["study"]
RECORDED = Path("recorded") / config["study"]  # what git keeps of it
HUB = Path("results") / "hub"  # fetched files are pinned, so all studies share them
# Of tasks of other kinds than retrieval, as their library keeps them.
DATASETS = HUB / "datasets"


# The ladder and its variations, each a suite, and their training runs; the first run of each width has its model's name.
LADDERS = ladders(config["ladder"])
RUNS = runs_of(config["ladder"])
LADDER = [f"ladder-w{width}" for width in config["ladder"]["widths"]]
FIRST_SEED = config["ladder"]["seeds"][0]
LADDER_CHECKPOINTS = RUNS[LADDER[0]].checkpoints
# A model with learned positions, shown in the primer alone.
((LEARNED, _),) = learned(config).items()
TRAININGS = RUNS | learned(config)

# Published checkpoints, each with the reason if it is left out.
try:
    TOKEN = HANDED.token(has_token)
    PLAN = HANDED.plan(lambda: plan_study(config, token=TOKEN))
    check_pinned(PLAN)
except EmbscaleError as error:
    raise WorkflowError(error) from None
FETCHED = {
    (planned.checkpoint.model, planned.checkpoint.name): planned
    for planned in PLAN
    if planned.available
}
CHECKPOINTS = {run: training.checkpoints for run, training in RUNS.items()}
SUITES = {run: training.suite for run, training in RUNS.items()}
TOKENIZERS = dict.fromkeys(RUNS, config["tokenizer"]["name"])
for (model, name), planned in FETCHED.items():
    CHECKPOINTS[model] = [*CHECKPOINTS.get(model, []), name]
    SUITES[model] = planned.checkpoint.suite
    TOKENIZERS[model] = planned.checkpoint.tokenizer

# Static embeddings of the ladder's tokens: method and columns by name; each method counts as a suite.
STATIC = {
    f"{method}-d{dim}": (method, dim)
    for method in config["static"]["methods"]
    for dim in config["static"]["dims"]
}
for model, (method, _) in STATIC.items():
    CHECKPOINTS[model] = ["main"]
    SUITES[model] = method
    TOKENIZERS[model] = config["tokenizer"]["name"]

# Models that are studied beyond their scores: of the ladder, the first run of each width.
MODELS = [
    model
    for model in CHECKPOINTS
    if model not in STATIC and (model in LADDER or model not in RUNS)
]

PROBED = [*MODELS, *STATIC]

# Models whose hidden states are computed.
LAYER_MODELS = [
    model
    for model in MODELS
    if SUITES[model] in config["layers"]["suites"]
    and (model in LADDER or FETCHED[model, CHECKPOINTS[model][-1]].whole_available)
]
# Models of which every layer is scored: of those trained here, the first runs of each width.
LAYERS_SCORED = [
    *(
        run
        for run, training in RUNS.items()
        if training.suite in config["scores"]["layers"]["suites"]
        if training.seed
        in training.settings["seeds"][: config["scores"]["layers"]["runs"]]
    ),
    *(
        model
        for model in LAYER_MODELS
        if model not in RUNS
        if SUITES[model] in config["scores"]["layers"]["suites"]
    ),
]
OWN_TASKS = [config["corpus"]["task"], config["corpus"]["code_task"]]
TASKS = [*OWN_TASKS, *config["tasks"]]

# What is scored without a table.
REFERENCES = ["overlap", "overlap_idf", "bm25", "chance"]

# Answers about the ladder that the report shows: recorded ones of a longer study, if there are any, or this study's.
RECORDED_ANSWERS = Path("recorded") / config["report"]["beside"] / "ladder"
RECORDED_SHOWN = (
    config["study"] != config["report"]["beside"] and RECORDED_ANSWERS.is_dir()
)
ANSWERS = ["crossings", "effects", "explanations", "fits", "costs"]
SHOWN_ANSWERS = RECORDED_ANSWERS if RECORDED_SHOWN else STUDY / "ladder"

# Flags that rules of several chapters share.
VOCABULARY = group_flags(Vocabulary, config["tokenizer"])
RECIPE = group_flags(Recipe, config["ladder"])
BOOTSTRAP = group_flags(Bootstrap, config["scores"])

# Ways of scoring that are compared with the study's main one, which is not repeated.
OTHER_SPECIAL_TOKENS = [
    special_tokens
    for special_tokens in config["scores"]["factors"]["special_tokens"]
    if special_tokens != config["tokenizer"]["special_tokens"]
]

# The text of the report, kept in git.
TEXTS = [
    path.relative_to(ROOT / "report").as_posix()
    for pattern in (
        "index.qmd",
        "_quarto.yml",
        "glossary.yml",
        "references.bib",
        "chapters/*.qmd",
    )
    for path in sorted((ROOT / "report").glob(pattern))
]


wildcard_constraints:
    model="|".join(map(re.escape, [*CHECKPOINTS, LEARNED])),
    run="|".join(RUNS),
    ladder="|".join(LADDERS),
    width=r"\d+",
    checkpoint=r"step\d+|main",
    step=r"\d+",
    task="|".join(map(re.escape, TASKS)),
    other_task="|".join(map(re.escape, config["other_tasks"])) or "none",
    tokenizer="|".join(map(re.escape, dict.fromkeys(TOKENIZERS.values()))),
    texts="|".join(map(re.escape, config["texts"])) or "none",
    figure="[a-z_]+",
    source="|".join(re.escape(source["name"]) for source in config["layers"]["texts"]),
    static="|".join(map(re.escape, STATIC)) or "none",
    held="output|effective",
    special_tokens="exclude|include",
    method="|".join(config["static"]["methods"]) or "none",
    of_table="lookup|gradient|space|offset|order",
    alone="sinusoidal|rotary|biases",
    text="|".join(map(re.escape, TEXTS)),


def settle():
    """Let Snakemake see what has changed, before it looks; a run that changes results comes alone from here on."""
    try:
        if changes_results(workflow):
            RunLock().acquire_or_stop()
            look_when_jobs_end(workflow)
        unpack(config["study"])
        forgotten = reconcile([STUDY, *(Path(SITE) / name for name in PAGE)])
    except ValueError as error:
        raise WorkflowError(str(error)) from None
    except OSError as error:
        raise WorkflowError(
            f"{error.filename}: {error.strerror}; Snakemake writes in the checkout, even to say what a run would do:"
            f" run it as the owner of {Path.cwd()}, or in a copy of your own"
        ) from None
    if forgotten:
        print(
            f"{len(forgotten)} results have no record of how they were made; they are made again where they are needed",
            file=sys.stderr,
        )


def flags(flag, values):
    """``--flag a --flag b`` for a list of values."""
    return " ".join(f"{flag} {shlex.quote(str(value))}" for value in values)


def several(flag, values):
    """``--flag a b`` for a list of values, nothing for an empty list."""
    return shlex.join([flag, *map(str, values)]) if values else ""


def tokens_seen(steps):
    """Tokens that a language model sees in so many steps, so that a static table sees as many."""
    return steps * config["ladder"]["batch"] * config["ladder"]["context"]


def tuned_flags(method):
    """How a method is trained when it is tuned, on the tokens that a model of the ladder sees."""
    if method == LANGUAGE_MODEL:
        steps = group_flags(Steps, config["ladder"])
        return f"{RECIPE} {steps} --seed {FIRST_SEED}"
    seeds = group_flags(StaticSeed, config["static"])
    seen = tokens_seen(config["ladder"]["steps"])
    return (
        f"{method_flags(method)} {seeds} --max-tokens {seen} --order-seed {FIRST_SEED}"
    )


def grid_flags(method):
    """The setting of a method that is tuned, and its values."""
    ((setting, values),) = config["tuning"]["grids"][method].items()
    return group_flags(Grid, {"setting": setting, "values": values})


def run_of(method):
    """Losses and last table of the ladder's first run of the width at which methods are tuned, if there is one."""
    run = tuned_run(config) if method == LANGUAGE_MODEL else None
    return [losses_file(run), table_file(run, CHECKPOINTS[run][-1])] if run else []


def method_flags(method):
    """Parameters of a static embedding method as flags."""
    return group_flags(METHODS[method], config["static"]["methods"][method])


def source_file(of):
    """The texts of a source: a part of the corpus, a fetched data set, or a local file."""
    if of == "heldout":
        return task_files(config["corpus"]["task"])[0]
    if of == "code":
        return task_files(config["corpus"]["code_task"])[0]
    return HUB / "texts" / f"{of}.jsonl.gz" if of in config["texts"] else Path(of)


def source_flags(source):
    """Which rows of a source are used, and how their text is cleaned."""
    words = ["--text-split heldout"] if source["of"] == "heldout" else []
    words += ["--strip-html"] if source["strip_html"] else []
    words += ["--strip-punctuation"] if source["strip_punctuation"] else []
    return " ".join(words)


def source_words(source):
    """A source of texts for readers."""
    words = {
        "heldout": "held-out texts of the corpus",
        "code": "functions of the corpus's packages",
    }
    return words.get(source["of"], f"texts of {source['of']}")


def static_tables(method):
    """The static tables of a method, the narrowest first."""
    return [
        table_file(model, "main") for model, (own, _) in STATIC.items() if own == method
    ]


def tied(model):
    """Whether a model's output table is its input table; static embeddings have no output table."""
    if model in STATIC:
        return "no"
    if model in RUNS:
        return "yes" if RUNS[model].settings["tied"] else "no"
    return "yes" if FETCHED[model, CHECKPOINTS[model][-1]].checkpoint.tied else "no"


def variants(model):
    """Variants of a model's last table that are scored beside it."""
    return config["static" if model in STATIC else "scores"]["variants"]


def treatments(task, model):
    """Variants of a model's last table that are scored on a task: on the study's own second task, none."""
    return variants(model) if task != config["corpus"]["code_task"] else []


def expected_variants(task, model, checkpoint):
    """Variants of a checkpoint's table in score rows: treated are the last one and its controls."""
    if model in STATIC:
        return ["full", *(variants(model) if task == TASKS[0] else [])]
    treated, last = treatments(task, model), checkpoint == CHECKPOINTS[model][-1]
    if last:
        shuffled = ["shuffled", *(f"shuffled+{treatment}" for treatment in treated)]
        return ["full", *treated, *shuffled]
    return ["full", *(treated if step_of(checkpoint) == "0" else [])]


def run_flags(model):
    """The name and the training run of a model in score rows."""
    if model not in RUNS:
        return f"--model {model}"
    return f"--model {RUNS[model].model} --run {RUNS[model].seed}"


def random_variants(task, tokenizer, width):
    """What is done to random tables: what is done to trained tables of their width and tokenizer."""
    widths = {
        FETCHED[model, CHECKPOINTS[model][-1]].checkpoint.dims
        for model in MODELS
        if model not in LADDER and TOKENIZERS[model] == tokenizer
    }
    if tokenizer == config["tokenizer"]["name"]:
        widths |= {training.width for training in RUNS.values()}
        widths |= {*config["static"]["dims"]}
    return treatments(task, LADDER[0]) if width in widths else []


def trained_here(model):
    """Whether the study trains the model itself."""
    return model in TRAININGS


def training_flags(training):
    """How a model is trained, as flags."""
    groups = [
        group_flags(group, training.settings) for group in (Recipe, Length, Trainer)
    ]
    return " ".join(
        [
            f"--width {training.width} --positions {training.positions} --seed {training.seed}",
            *groups,
        ]
    )


def losses_file(run):
    """Losses of a training run."""
    return STUDY / "checkpoints" / run / "losses.csv"


def home(own):
    """The folder of the study's own results, or of fetched files."""
    return STUDY if own else HUB


def task_files(task):
    """The files of a retrieval task, the corpus first; the study's own have queries to choose settings on."""
    own = task in OWN_TASKS
    splits = ["test", "dev"] if own else ["test"]
    names = [
        "corpus.jsonl.gz",
        "queries.jsonl",
        *(f"qrels/{split}.tsv" for split in splits),
    ]
    return [home(own) / "tasks" / task / name for name in names]


def tokenizer_file(tokenizer):
    """The file of a tokenizer."""
    if tokenizer == config["tokenizer"]["name"]:
        return STUDY / "tokenizer/tokenizer.json"
    return HUB / "tokenizers" / tokenizer / "tokenizer.json"


def table_file(model, checkpoint):
    """The embedding table of a checkpoint, or a static one."""
    if model in STATIC:
        tuned = STATIC[model][1] == config["tuning"]["dim"]
        return STUDY / ("tuning" if tuned else "static") / f"{model}.safetensors"
    return home(trained_here(model)) / "tables" / model / f"{checkpoint}.safetensors"


def layer_checkpoints(model):
    """Checkpoints of which every layer is scored: of those that are there as a whole."""
    there = [
        name
        for name in CHECKPOINTS[model]
        if model in RUNS or FETCHED[model, name].whole_available
    ]
    return evenly(there, config["scores"]["layers"]["checkpoints"])


# Flags of embscale extract for a checkpoint's other tables.
HELD_FLAGS = {"output": "--table output", "effective": "--effective mean"}


def other_tables(model):
    """The other tables of a model's last checkpoint that are scored; a tied output table is the input table."""
    table = table_file(model, CHECKPOINTS[model][-1])
    return [
        table.with_name(f"{table.stem}.{held}.safetensors")
        for held in config["scores"]["factors"]["tables"]
        if held != "output" or tied(model) == "no"
    ]


def largest_states(model):
    """The hidden states of a model on the main source of texts: those of the grid, if it has its own."""
    of_grid = GRID_SAMPLE and model in SETTINGS["grid"]["models"]
    rule_states = rules.grid_states if of_grid else rules.states
    return expand(rule_states.output.states, source=MAIN_SOURCE, model=model)


def last_checkpoint(wildcards):
    """The last checkpoint of a model of the study, or of the model with learned positions."""
    if wildcards.model in TRAININGS:
        return TRAININGS[wildcards.model].checkpoints[-1]
    return CHECKPOINTS[wildcards.model][-1]


def checkpoint_folder(model, checkpoint):
    """The whole checkpoint, in the Hugging Face layout."""
    fetched = FETCHED.get((model, checkpoint))
    if fetched is not None and fetched.local_path:
        return Path(fetched.local_path)
    return home(trained_here(model)) / "checkpoints" / model / checkpoint


def checkpoint_files(model, checkpoint):
    """Files that change with a checkpoint: its configuration, and its download note or its weights."""
    folder = checkpoint_folder(model, checkpoint)
    fetched = FETCHED.get((model, checkpoint))
    if fetched is None:
        return [folder / "config.json", folder / "model.safetensors"]
    note = [] if fetched.local_path else [folder / "config.json.note.json"]
    return [folder / "config.json", *note]


def checkpoints_of(suite):
    """Runs and checkpoints of a suite that the study trains."""
    return [
        (run, checkpoint)
        for run, training in RUNS.items()
        if training.suite == suite
        for checkpoint in training.checkpoints
    ]


def address(repo, commit):
    """``REPO@COMMIT`` as a word of the command line."""
    return shlex.quote(f"{repo}@{commit}")


def fetched(wildcards):
    """The planned checkpoint of a job."""
    return FETCHED[wildcards.model, wildcards.checkpoint]


def step_of(checkpoint):
    """The training step as recorded in rows: a number, or ``main`` if it is not known."""
    return checkpoint.removeprefix("step")


def vocabulary(tokenizer):
    """Number of rows of a random table with a row for every token of a tokenizer."""
    if tokenizer == config["tokenizer"]["name"]:
        return config["tokenizer"]["vocab_size"]
    return min(
        p.checkpoint.rows
        for p in FETCHED.values()
        if p.checkpoint.tokenizer == tokenizer
    )


def main_states(wildcards):
    """The hidden states of a model on the main source of texts."""
    return expand(rules.states.output.states, source=MAIN_SOURCE, model=wildcards.model)


def primer_flags(concept):
    """The flags of a concept of the primer."""
    return group_flags(group_of(Primer, concept), config["primer"][concept])
