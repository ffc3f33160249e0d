"""Chapter 3 and 4, once more: the published numbers of both studies, by their authors' own protocols.

What is to be scored follows from the published numbers and from the models that take part, so there is no parameter.
Without a published suite nothing is scored here, and the table says what each number waits for.
"""

# Scores of the first study, by task: models whose tables answer some, and tokenizers of its random tables.
REPRODUCED_TASKS = [task for task in config["tasks"] if task in published_cells.tasks()]
PUBLISHED = [model for model in MODELS if model not in RUNS]
# A random table as large as a model's needs no weights.
PUBLISHED_ROWS = {planned.checkpoint.model: planned.checkpoint.rows for planned in PLAN}
FAITHFUL = [
    (task, model)
    for task in REPRODUCED_TASKS
    for model in PUBLISHED
    if published_cells.forms(model, task, PUBLISHED)
]
FAITHFUL_RANDOM = [
    (task, tokenizer)
    for task in REPRODUCED_TASKS
    for tokenizer in dict.fromkeys(TOKENIZERS.values())
    if published_cells.random_tables(tokenizer, task, PUBLISHED_ROWS)
]
PUBLISHED_METRICS = " ".join(published_cells.metrics())


use rule tokenize as tokenize_faithful with:
    output:
        tokens="<results>/tokens/{task}/{tokenizer}.faithful.safetensors",
        note="<results>/tokens/{task}/{tokenizer}.faithful.safetensors.note.json",
    log:
        "<logs>/tokenize/{task}-{tokenizer}-faithful.log",
    benchmark:
        "<benchmarks>/tokenize/{task}-{tokenizer}-faithful.tsv"
    params:
        task=rules.tokenize.params.task,
        folder=rules.tokenize.params.folder,
        # As `embscale score --faithful` requires.
        tokenisation=group_flags(
            Tokenisation, {"special_tokens": "include", "max_length": 2048}
        ),


rule score_faithful:
    """Score a model's last table by the first study's protocol, in every variant that it published."""
    input:
        code=command_sources("score"),
        table=lambda wildcards: table_file(
            wildcards.model, CHECKPOINTS[wildcards.model][-1]
        ),
        tokens=lambda wildcards: expand(
            rules.tokenize_faithful.output.tokens,
            task=wildcards.task,
            tokenizer=TOKENIZERS[wildcards.model],
        ),
        task=lambda wildcards: task_files(wildcards.task),
    output:
        scores="<results>/faithful/{task}/{model}.parquet",
        note="<results>/faithful/{task}/{model}.parquet.note.json",
    log:
        "<logs>/score_faithful/{task}-{model}.log",
    benchmark:
        "<benchmarks>/score_faithful/{task}-{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        table=lambda wildcards, input: (
            f"{step_of(CHECKPOINTS[wildcards.model][-1])}={input.table}"
        ),
        variants=lambda wildcards: several(
            "--variants",
            published_cells.forms(wildcards.model, wildcards.task, PUBLISHED),
        ),
        metrics=PUBLISHED_METRICS,
        task=lambda wildcards: task_files(wildcards.task)[0].parent,
        bootstrap=BOOTSTRAP,
        suite=lambda wildcards: SUITES[wildcards.model],
        tokenizer=lambda wildcards: TOKENIZERS[wildcards.model],
    shell:
        "python src/embscale score {params.table:q} --faithful {params.variants} --metrics {params.metrics}"
        " --suite {params.suite} --model {wildcards.model} --tokenizer-name {params.tokenizer}"
        " --beir {params.task:q} --tokens {input.tokens:q} {params.bootstrap}"
        " --threads {threads} --per-query {output.scores:q} 2> {log:q}"


rule score_faithful_random:
    """Score the first study's random tables of a tokenizer: nested columns of one draw for each seed."""
    input:
        code=command_sources("score"),
        tokens=rules.tokenize_faithful.output.tokens,
        task=lambda wildcards: task_files(wildcards.task),
    output:
        scores="<results>/faithful/{task}/random-{tokenizer}.parquet",
        note="<results>/faithful/{task}/random-{tokenizer}.parquet.note.json",
    log:
        "<logs>/score_faithful/{task}-random-{tokenizer}.log",
    benchmark:
        "<benchmarks>/score_faithful/{task}-random-{tokenizer}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        tables=lambda wildcards: published_cells.random_tables(
            wildcards.tokenizer, wildcards.task, PUBLISHED_ROWS
        ),
        metrics=PUBLISHED_METRICS,
        task=lambda wildcards: task_files(wildcards.task)[0].parent,
        bootstrap=BOOTSTRAP,
    shell:
        "python src/embscale score {params.tables:q} --faithful --metrics {params.metrics}"
        " --tokenizer-name {wildcards.tokenizer} --beir {params.task:q} --tokens {input.tokens:q}"
        " {params.bootstrap} --threads {threads} --per-query {output.scores:q} 2> {log:q}"


rule reproduction:
    """Set every published number of both studies beside ours, by its authors' protocol and by our own."""
    input:
        code=command_sources("reproduction"),
        scores=[
            *expand(
                rules.score_faithful.output.scores,
                zip,
                task=[task for task, _ in FAITHFUL],
                model=[model for _, model in FAITHFUL],
            ),
            *expand(
                rules.score_faithful_random.output.scores,
                zip,
                task=[task for task, _ in FAITHFUL_RANDOM],
                tokenizer=[tokenizer for _, tokenizer in FAITHFUL_RANDOM],
            ),
        ],
        estimates=rules.estimates.output.estimates,
        layers=expand(rules.faithful_layers.output.rows, model=FAITHFUL_LAYERS),
        inventory=rules.inventory.output.csv,
        registry=config["hub"]["registry"],
        pins=config["hub"]["pins"],
    output:
        csv="<results>/report/reproduction.csv",
        note="<results>/report/reproduction.csv.note.json",
        partial="<results>/report/tables/reproduction.md",
        data="<site>/data/reproduction.csv.gz",
    log:
        "<logs>/reproduction.log",
    benchmark:
        "<benchmarks>/reproduction.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        scores=lambda wildcards, input: several("--scores", input.scores),
        layers=lambda wildcards, input: several("--layers", input.layers),
        tasks=TASKS,
        bootstrap=BOOTSTRAP,
    shell:
        "python src/embscale reproduction {params.scores} --estimates {input.estimates:q} {params.layers}"
        " --inventory {input.inventory:q} --registry {input.registry:q} --pins {input.pins:q} --tasks {params.tasks}"
        " {params.bootstrap} --output {output.csv:q} --partial {output.partial:q} --data {output.data:q} 2> {log:q}"
