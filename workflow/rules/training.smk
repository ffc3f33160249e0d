"""Chapter 2: training.

The models of the ladder are trained here and saved as ordinary checkpoints; the input embedding table of each checkpoint
is extracted.  Static embeddings are trained on the same tokens, and models are started from them.
"""

CHECKPOINT_FILES = [
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
]


for suite in dict.fromkeys(training.suite for training in TRAININGS.values()):

    SOME = [run for run, training in TRAININGS.items() if training.suite == suite]

    # Train one model of a suite with one seed and save its checkpoints.
    rule:
        name:
            f"train_{suite.replace('-', '_')}"
        input:
            code=command_sources("train"),
            corpus=rules.harvest.output.corpus,
            tokens=expand(
                rules.tokenize.output.tokens,
                task=config["corpus"]["task"],
                tokenizer=config["tokenizer"]["name"],
            ),
            tokenizer=rules.tokenizer.output.tokenizer,
            tokenizer_config=rules.tokenizer.output.config,
        output:
            losses="<results>/checkpoints/{run}/losses.csv",
            note="<results>/checkpoints/{run}/losses.csv.note.json",
            costs="<results>/checkpoints/{run}/costs.json",
            files=expand(
                "<results>/checkpoints/{{run}}/{checkpoint}/{file}",
                checkpoint=TRAININGS[SOME[0]].checkpoints,
                file=CHECKPOINT_FILES,
            ),
        log:
            "<logs>/train/{run}.log",
        benchmark:
            "<benchmarks>/train/{run}.tsv"
        wildcard_constraints:
            run="|".join(SOME),
        # The widest takes longest, so it starts first.
        priority: lambda wildcards: TRAININGS[wildcards.run].width
        conda:
            "../envs/embscale.yaml"
        # One thread each: sums have one order, so a run repeats to the bit, and two models train side by side.
        threads: 1
        # A training that is stopped goes on from its last checkpoint when it is tried again.
        resources:
            runtime=lambda wildcards, attempt: 720 * attempt,
        params:
            task=subpath(input.corpus, parent=True),
            tokenizer=subpath(input.tokenizer, parent=True),
            folder=subpath(output.losses, parent=True),
            vocabulary=VOCABULARY,
            settings=lambda wildcards: training_flags(TRAININGS[wildcards.run]),
            # What is trained is kept for longer trainings and other studies, also where a job is killed.
            runs="results/runs",
        shell:
            "python src/embscale train --corpus {params.task:q} --tokens {input.tokens:q}"
            " --tokenizer {params.tokenizer:q} {params.vocabulary} {params.settings} --threads {threads}"
            " --runs {params.runs:q} --output {params.folder:q} 2> {log:q}"

    # Extract the input embedding tables of a run, one for each checkpoint.
    rule:
        name:
            f"extract_{suite.replace('-', '_')}"
        input:
            code=command_sources("extract"),
            config=expand(
                "<results>/checkpoints/{{run}}/{checkpoint}/config.json",
                checkpoint=TRAININGS[SOME[0]].checkpoints,
            ),
            weights=expand(
                "<results>/checkpoints/{{run}}/{checkpoint}/model.safetensors",
                checkpoint=TRAININGS[SOME[0]].checkpoints,
            ),
        output:
            tables=expand(
                "<results>/tables/{{run}}/{checkpoint}.safetensors",
                checkpoint=TRAININGS[SOME[0]].checkpoints,
            ),
            notes=expand(
                "<results>/tables/{{run}}/{checkpoint}.safetensors.note.json",
                checkpoint=TRAININGS[SOME[0]].checkpoints,
            ),
        log:
            "<logs>/extract/{run}.log",
        benchmark:
            "<benchmarks>/extract/{run}.tsv"
        wildcard_constraints:
            run="|".join(SOME),
        localrule: True
        conda:
            "../envs/embscale.yaml"
        params:
            checkpoints=lambda wildcards, input: [
                Path(file).parent for file in input.config
            ],
        shell:
            "python src/embscale extract {params.checkpoints:q} --output {output.tables:q} 2> {log:q}"


rule extract_other:
    """Extract another table of a checkpoint of a model: its output table, or the rows as block 1 receives them."""
    input:
        code=command_sources("extract"),
        config="<results>/checkpoints/{model}/{checkpoint}/config.json",
        weights="<results>/checkpoints/{model}/{checkpoint}/model.safetensors",
    output:
        table="<results>/tables/{model}/{checkpoint}.{held}.safetensors",
        note="<results>/tables/{model}/{checkpoint}.{held}.safetensors.note.json",
    log:
        "<logs>/extract/{model}-{checkpoint}-{held}.log",
    benchmark:
        "<benchmarks>/extract/{model}-{checkpoint}-{held}.tsv"
    localrule: True
    conda:
        "../envs/embscale.yaml"
    params:
        checkpoint=subpath(input.config, parent=True),
        held=lambda wildcards: HELD_FLAGS[wildcards.held],
    shell:
        "python src/embscale extract {params.checkpoint:q} {params.held} --output {output.table:q} 2> {log:q}"


rule tune:
    """Choose one setting of a method: train with each value of its grid, score on the development queries."""
    input:
        code=command_sources("tune"),
        task=task_files(config["corpus"]["task"]),
        tokens=expand(
            rules.tokenize.output.tokens,
            task=config["corpus"]["task"],
            tokenizer=config["tokenizer"]["name"],
        ),
        tokenizer=rules.tokenizer.output.tokenizer,
        run=lambda wildcards: run_of(wildcards.tuned),
    output:
        table=f"<results>/tuning/{{tuned}}-d{config['tuning']['dim']}.safetensors",
        note=f"<results>/tuning/{{tuned}}-d{config['tuning']['dim']}.safetensors.note.json",
        rows="<results>/tuning/{tuned}.csv",
        choice="<results>/tuning/{tuned}.json",
    log:
        "<logs>/tune/{tuned}.log",
    benchmark:
        "<benchmarks>/tune/{tuned}.tsv"
    wildcard_constraints:
        tuned="|".join(map(re.escape, config["tuning"]["grids"])),
    # The language model takes longest, so it starts first.
    priority: lambda wildcards: int(wildcards.tuned == LANGUAGE_MODEL)
    conda:
        "../envs/embscale.yaml"
    # One thread each, as for every model.
    threads: 1
    params:
        task=lambda wildcards, input: Path(input.task[0]).parent,
        tokenizer=subpath(input.tokenizer, parent=True),
        tokenizer_name=config["tokenizer"]["name"],
        dim=config["tuning"]["dim"],
        vocabulary=VOCABULARY,
        settings=lambda wildcards: tuned_flags(wildcards.tuned),
        grid=lambda wildcards: grid_flags(wildcards.tuned),
        run=lambda wildcards, input: several("--run", input.run),
        metric=config["scores"]["primary_metric"],
        length=config["scores"]["lengths"][0],
        bootstrap=BOOTSTRAP,
    shell:
        "python src/embscale tune {wildcards.tuned} {params.grid} --corpus {params.task:q} --tokens {input.tokens:q}"
        " --tokenizer {params.tokenizer:q} --tokenizer-name {params.tokenizer_name} --dim {params.dim}"
        " {params.vocabulary} {params.settings} {params.run} --metric {params.metric} --length {params.length}"
        " {params.bootstrap} --threads {threads} --rows {output.rows:q} --choice {output.choice:q}"
        " --output {output.table:q} 2> {log:q}"


# Static tables of the width at which methods are tuned come from the tuning.
OTHER_STATIC = [
    model for model, (_, dim) in STATIC.items() if dim != config["tuning"]["dim"]
]


rule static:
    """Train a static embedding table on the tokens that a model of the ladder sees, with the chosen setting."""
    input:
        code=command_sources("static"),
        choice=lambda wildcards: expand(
            rules.tune.output.choice, tuned=STATIC[wildcards.static][0]
        ),
        corpus=rules.harvest.output.corpus,
        tokens=expand(
            rules.tokenize.output.tokens,
            task=config["corpus"]["task"],
            tokenizer=config["tokenizer"]["name"],
        ),
        tokenizer=rules.tokenizer.output.tokenizer,
    output:
        table="<results>/static/{static}.safetensors",
        note="<results>/static/{static}.safetensors.note.json",
    log:
        "<logs>/static/{static}.log",
    benchmark:
        "<benchmarks>/static/{static}.tsv"
    wildcard_constraints:
        static="|".join(map(re.escape, OTHER_STATIC)) or "none",
    conda:
        "../envs/embscale.yaml"
    params:
        task=subpath(input.corpus, parent=True),
        tokenizer=subpath(input.tokenizer, parent=True),
        method=lambda wildcards: STATIC[wildcards.static][0],
        dim=lambda wildcards: STATIC[wildcards.static][1],
        vocabulary=VOCABULARY,
        max_tokens=tokens_seen(config["ladder"]["steps"]),
        order_seed=FIRST_SEED,
        seed=group_flags(StaticSeed, config["static"]),
        settings=lambda wildcards: method_flags(STATIC[wildcards.static][0]),
    shell:
        "python src/embscale static {params.method} --corpus {params.task:q} --tokens {input.tokens:q}"
        " --tokenizer {params.tokenizer:q} --max-tokens {params.max_tokens} --order-seed {params.order_seed}"
        " --dim {params.dim} {params.vocabulary} {params.settings} {params.seed} --settings {input.choice:q}"
        " --threads {threads} --output {output.table:q} 2> {log:q}"


use rule static as start_table with:
    input:
        code=command_sources("static"),
        choice=expand(rules.tune.output.choice, tuned=config["warm_start"]["method"]),
        corpus=rules.harvest.output.corpus,
        tokens=rules.static.input.tokens,
        tokenizer=rules.tokenizer.output.tokenizer,
    output:
        table="<results>/warm_start/table-seed{seed}.safetensors",
        note="<results>/warm_start/table-seed{seed}.safetensors.note.json",
    log:
        "<logs>/warm_start/table-seed{seed}.log",
    benchmark:
        "<benchmarks>/warm_start/table-seed{seed}.tsv"
    params:
        task=subpath(input.corpus, parent=True),
        tokenizer=subpath(input.tokenizer, parent=True),
        method=config["warm_start"]["method"],
        dim=config["warm_start"]["dim"],
        vocabulary=VOCABULARY,
        max_tokens=tokens_seen(config["warm_start"]["steps"]),
        # The tokens that the run of this seed sees, no others.
        order_seed="{seed}",
        seed=group_flags(StaticSeed, config["static"]),
        settings=method_flags(config["warm_start"]["method"]),


rule warm_start:
    """Train a model that starts from a static table, or from random ones, with one seed."""
    input:
        code=command_sources("warm-start"),
        task=task_files(config["corpus"]["task"]),
        tokens=rules.static.input.tokens,
        tokenizer=rules.tokenizer.output.tokenizer,
        table=rules.start_table.output.table,
    output:
        rows="<results>/warm_start/seed{seed}.csv",
        note="<results>/warm_start/seed{seed}.csv.note.json",
    log:
        "<logs>/warm_start/seed{seed}.log",
    benchmark:
        "<benchmarks>/warm_start/seed{seed}.tsv"
    conda:
        "../envs/embscale.yaml"
    # One thread, as for every model.
    threads: 1
    params:
        task=lambda wildcards, input: Path(input.task[0]).parent,
        tokenizer=subpath(input.tokenizer, parent=True),
        vocabulary=VOCABULARY,
        recipe=RECIPE,
        runs=group_flags(WarmRuns, config["warm_start"]),
        metric=config["scores"]["primary_metric"],
        length=config["scores"]["lengths"][0],
    shell:
        "python src/embscale warm-start {input.table:q} {params.runs} --corpus {params.task:q}"
        " --tokens {input.tokens:q} --tokenizer {params.tokenizer:q} {params.vocabulary} {params.recipe}"
        " --seed {wildcards.seed} --threads {threads} --metric {params.metric} --length {params.length}"
        " --output {output.rows:q} 2> {log:q}"
