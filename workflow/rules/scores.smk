"""Chapter 3: scores.

Every table and its variants are scored on every retrieval task, the score of each query kept; random
tables show what token overlap alone gives.  One job scores all tables of a model, since importing
the benchmark takes as long as a score.  The claims about scores, the geometry of tables and what they know about words
follow.
"""

SCORING = dict(
    task=lambda wildcards: task_files(wildcards.task)[0].parent,
    metrics=group_flags(Metrics, config["scores"]),
    lengths=group_flags(Lengths, config["scores"]),
    bootstrap=BOOTSTRAP,
)


rule score:
    """Score a model's table at every checkpoint; the last one also changed, and its rows shuffled."""
    input:
        code=command_sources("score"),
        tables=lambda wildcards: [
            table_file(wildcards.model, checkpoint)
            for checkpoint in CHECKPOINTS[wildcards.model]
        ],
        tokens=lambda wildcards: expand(
            rules.tokenize.output.tokens,
            task=wildcards.task,
            tokenizer=TOKENIZERS[wildcards.model],
        ),
        task=lambda wildcards: task_files(wildcards.task),
    output:
        scores="<results>/per_query/{task}/{model}.parquet",
        note="<results>/per_query/{task}/{model}.parquet.note.json",
    log:
        "<logs>/score/{task}-{model}.log",
    benchmark:
        "<benchmarks>/score/{task}-{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        **SCORING,
        tables=lambda wildcards, input: [
            f"{step_of(checkpoint)}={path}"
            for checkpoint, path in zip(CHECKPOINTS[wildcards.model], input.tables)
        ],
        variants=lambda wildcards: several(
            "--variants", treatments(wildcards.task, wildcards.model)
        ),
        shuffling=group_flags(Shuffling, config["scores"]),
        suite=lambda wildcards: SUITES[wildcards.model],
        run=lambda wildcards: run_flags(wildcards.model),
        tokenizer=lambda wildcards: TOKENIZERS[wildcards.model],
    shell:
        "python src/embscale score {params.tables:q} {params.variants} --variants-of controlled {params.shuffling}"
        " --suite {params.suite} {params.run} --tokenizer-name {params.tokenizer}"
        " --beir {params.task:q} --tokens {input.tokens:q} {params.metrics} {params.lengths} {params.bootstrap}"
        " --threads {threads} --per-query {output.scores:q} 2> {log:q}"


rule layer_scores:
    """Score every layer of a model on the main task, as tables are scored."""
    input:
        code=command_sources("layer-scores"),
        checkpoints=lambda wildcards: [
            file
            for checkpoint in layer_checkpoints(wildcards.model)
            for file in checkpoint_files(wildcards.model, checkpoint)
        ],
        tokens=lambda wildcards: expand(
            rules.tokenize.output.tokens,
            task=config["corpus"]["task"],
            tokenizer=TOKENIZERS[wildcards.model],
        ),
        task=task_files(config["corpus"]["task"]),
    output:
        scores="<results>/layer_scores/{model}.parquet",
        note="<results>/layer_scores/{model}.parquet.note.json",
    log:
        "<logs>/layer_scores/{model}.log",
    benchmark:
        "<benchmarks>/layer_scores/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        checkpoints=lambda wildcards: [
            f"{step_of(checkpoint)}={checkpoint_folder(wildcards.model, checkpoint)}"
            for checkpoint in layer_checkpoints(wildcards.model)
        ],
        task=Path(task_files(config["corpus"]["task"])[0]).parent,
        length=config["scores"]["lengths"][0],
        metric=config["scores"]["primary_metric"],
        forward=group_flags(Forward, config["layers"]),
        clusters=group_flags(ClusterSeed, config["scores"]),
        suite=lambda wildcards: SUITES[wildcards.model],
        run=lambda wildcards: run_flags(wildcards.model),
        tokenizer=lambda wildcards: TOKENIZERS[wildcards.model],
    shell:
        "python src/embscale layer-scores {params.checkpoints:q} --beir {params.task:q} --tokens {input.tokens:q}"
        " --length {params.length} --metric {params.metric} {params.forward} {params.clusters} --suite {params.suite}"
        " {params.run} --tokenizer-name {params.tokenizer} --threads {threads} --output {output.scores:q} 2> {log:q}"


use rule tokenize as tokenize_otherwise with:
    output:
        tokens="<results>/tokens/{task}/{tokenizer}.{special_tokens}.safetensors",
        note="<results>/tokens/{task}/{tokenizer}.{special_tokens}.safetensors.note.json",
    log:
        "<logs>/tokenize/{task}-{tokenizer}-{special_tokens}.log",
    benchmark:
        "<benchmarks>/tokenize/{task}-{tokenizer}-{special_tokens}.tsv"
    params:
        task=rules.tokenize.params.task,
        folder=rules.tokenize.params.folder,
        tokenisation=lambda wildcards: group_flags(
            Tokenisation,
            config["tokenizer"] | {"special_tokens": wildcards.special_tokens},
        ),


rule score_factors:
    """Score a model's last table in other ways: pooling, special tokens, number format, its other tables."""
    input:
        code=command_sources("score"),
        others=lambda wildcards: other_tables(wildcards.model),
        table=lambda wildcards: table_file(
            wildcards.model, CHECKPOINTS[wildcards.model][-1]
        ),
        tokens=lambda wildcards: [
            *expand(
                rules.tokenize.output.tokens,
                task=config["claims"]["task"],
                tokenizer=TOKENIZERS[wildcards.model],
            ),
            *expand(
                rules.tokenize_otherwise.output.tokens,
                task=config["claims"]["task"],
                tokenizer=TOKENIZERS[wildcards.model],
                special_tokens=OTHER_SPECIAL_TOKENS,
            ),
        ],
        task=task_files(config["claims"]["task"]),
    output:
        scores="<results>/factors/{model}.parquet",
        note="<results>/factors/{model}.parquet.note.json",
    log:
        "<logs>/score_factors/{model}.log",
    benchmark:
        "<benchmarks>/score_factors/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        metric=config["scores"]["primary_metric"],
        tables=lambda wildcards, input: [
            f"{step_of(CHECKPOINTS[wildcards.model][-1])}={path}"
            for path in [*input.others, input.table]
        ],
        variants=several("--variants", config["scores"]["factors"]["variants"]),
        pooling=["mean", *config["scores"]["factors"]["pooling"]],
        # The task, once per way of tokenising.
        tasks=lambda wildcards, input: [
            Path(input.task[0]).parent for _ in input.tokens
        ],
        length=config["scores"]["lengths"][0],
        bootstrap=BOOTSTRAP,
        suite=lambda wildcards: SUITES[wildcards.model],
        run=lambda wildcards: run_flags(wildcards.model),
        tokenizer=lambda wildcards: TOKENIZERS[wildcards.model],
    shell:
        "python src/embscale score {params.tables:q} {params.variants} --variants-of last --lengths {params.length}"
        " --pooling {params.pooling} --metrics {params.metric} --suite {params.suite} {params.run}"
        " --tokenizer-name {params.tokenizer} --beir {params.tasks:q}"
        " --tokens {input.tokens:q} {params.bootstrap} --threads {threads}"
        " --per-query {output.scores:q} 2> {log:q}"


rule factors:
    """Compare each way of scoring with the study's main one."""
    input:
        code=command_sources("factors"),
        scores=expand(
            rules.score_factors.output.scores,
            model=MODELS,
        ),
    output:
        rows="<results>/factors.csv",
        note="<results>/factors.csv.note.json",
    log:
        "<logs>/factors.log",
    benchmark:
        "<benchmarks>/factors.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        special_tokens=config["tokenizer"]["special_tokens"],
        bootstrap=BOOTSTRAP,
    shell:
        "python src/embscale factors {input.scores:q} --variant full --pooling mean"
        " --special-tokens {params.special_tokens} {params.bootstrap} --output {output.rows:q} 2> {log:q}"


rule score_static:
    """Score the static tables of a method, which are the models of its suite."""
    input:
        code=command_sources("score"),
        tables=lambda wildcards: static_tables(wildcards.method),
        tokens=expand(
            rules.tokenize.output.tokens,
            task="{task}",
            tokenizer=config["tokenizer"]["name"],
        ),
        task=lambda wildcards: task_files(wildcards.task),
    output:
        scores="<results>/per_query/{task}/static-{method}.parquet",
        note="<results>/per_query/{task}/static-{method}.parquet.note.json",
    log:
        "<logs>/score/{task}-static-{method}.log",
    benchmark:
        "<benchmarks>/score/{task}-static-{method}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        **SCORING,
        variants=lambda wildcards: several(
            "--variants",
            config["static"]["variants"] if wildcards.task == TASKS[0] else [],
        ),
        tokenizer=config["tokenizer"]["name"],
    shell:
        "python src/embscale score {input.tables:q} {params.variants} {params.metrics} {params.lengths} {params.bootstrap}"
        " --suite {wildcards.method} --tokenizer-name {params.tokenizer} --beir {params.task:q}"
        " --tokens {input.tokens:q} --threads {threads} --per-query {output.scores:q} 2> {log:q}"


rule score_random:
    """Score random tables of one width with the rows of a tokenizer, changed as the trained ones of that width are."""
    input:
        code=command_sources("score"),
        tokens=rules.tokenize.output.tokens,
        task=lambda wildcards: task_files(wildcards.task),
    output:
        scores="<results>/per_query/{task}/random-{tokenizer}-w{width}.parquet",
        note="<results>/per_query/{task}/random-{tokenizer}-w{width}.parquet.note.json",
    log:
        "<logs>/score/{task}-random-{tokenizer}-w{width}.log",
    benchmark:
        "<benchmarks>/score/{task}-random-{tokenizer}-w{width}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        **SCORING,
        tables=lambda wildcards: [
            f"random:{vocabulary(wildcards.tokenizer)}x{wildcards.width}:{seed}"
            for seed in config["scores"]["random"]["seeds"]
        ],
        variants=lambda wildcards: several(
            "--variants",
            random_variants(wildcards.task, wildcards.tokenizer, int(wildcards.width)),
        ),
    shell:
        "python src/embscale score {params.tables:q} {params.variants} {params.metrics} {params.lengths}"
        " {params.bootstrap} --tokenizer-name {wildcards.tokenizer} --beir {params.task:q} --tokens {input.tokens:q}"
        " --threads {threads} --per-query {output.scores:q} 2> {log:q}"


rule score_references:
    """Score what needs no table: shared tokens, BM25, and a ranking in random order."""
    input:
        code=command_sources("score"),
        tokens=rules.tokenize.output.tokens,
        task=lambda wildcards: task_files(wildcards.task),
    output:
        scores="<results>/per_query/{task}/references-{tokenizer}.parquet",
        note="<results>/per_query/{task}/references-{tokenizer}.parquet.note.json",
    log:
        "<logs>/score/{task}-references-{tokenizer}.log",
    benchmark:
        "<benchmarks>/score/{task}-references-{tokenizer}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        **SCORING,
        references=REFERENCES,
    shell:
        "python src/embscale score {params.references} {params.metrics} {params.lengths}"
        " {params.bootstrap} --tokenizer-name {wildcards.tokenizer} --beir {params.task:q} --tokens {input.tokens:q}"
        " --threads {threads} --per-query {output.scores:q} 2> {log:q}"


rule gather:
    """One tidy row per score of one table, with its interval and the number of queries."""
    input:
        code=command_sources("gather"),
        scores=[
            *expand(
                rules.score.output.scores,
                task=TASKS,
                model=[model for model in CHECKPOINTS if model not in STATIC],
            ),
            *expand(
                rules.score_static.output.scores,
                task=TASKS,
                method=config["static"]["methods"],
            ),
            *expand(
                rules.score_random.output.scores,
                task=TASKS,
                tokenizer=dict.fromkeys(TOKENIZERS.values()),
                width=config["scores"]["random"]["dims"],
            ),
            *expand(
                rules.score_references.output.scores,
                task=TASKS,
                tokenizer=dict.fromkeys(TOKENIZERS.values()),
            ),
        ],
    output:
        csv="<results>/scores.csv",
        parquet="<results>/scores.parquet",
        note="<results>/scores.csv.note.json",
    log:
        "<logs>/gather.log",
    benchmark:
        "<benchmarks>/gather.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        bootstrap=BOOTSTRAP,
    shell:
        "python src/embscale gather {input.scores:q} {params.bootstrap} --csv {output.csv:q}"
        " --parquet {output.parquet:q} 2> {log:q}"


rule estimates:
    """Average scores over training runs and random draws, and compare trained tables with their controls."""
    input:
        code=command_sources("estimates"),
        scores=rules.gather.input.scores,
    output:
        estimates="<results>/estimates.csv",
        differences="<results>/differences.csv",
        note="<results>/estimates.csv.note.json",
    log:
        "<logs>/estimates.log",
    benchmark:
        "<benchmarks>/estimates.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        bootstrap=BOOTSTRAP,
    shell:
        "python src/embscale estimates {input.scores:q} {params.bootstrap} --estimates {output.estimates:q}"
        " --differences {output.differences:q} 2> {log:q}"


rule ladder_answers:
    """Answer what the ladder is for: crossings, effects of variations, explanations, scaling laws, costs."""
    input:
        code=command_sources("ladder-answers"),
        scores=[
            *expand(
                rules.score.output.scores, task=config["corpus"]["task"], model=RUNS
            ),
            *expand(
                rules.score_random.output.scores,
                task=config["corpus"]["task"],
                tokenizer=config["tokenizer"]["name"],
                width=sorted({training.width for training in RUNS.values()}),
            ),
            *expand(
                rules.score_references.output.scores,
                task=config["corpus"]["task"],
                tokenizer=config["tokenizer"]["name"],
            ),
        ],
        runs=[
            file
            for run in RUNS
            for file in (losses_file(run), losses_file(run).with_name("costs.json"))
        ],
    output:
        curves="<results>/ladder/curves.csv",
        note="<results>/ladder/curves.csv.note.json",
        crossings="<results>/ladder/crossings.csv",
        effects="<results>/ladder/effects.csv",
        explanations="<results>/ladder/explanations.csv",
        fits="<results>/ladder/fits.csv",
        fitted="<results>/ladder/fitted.csv",
        costs="<results>/ladder/costs.csv",
    log:
        "<logs>/ladder_answers.log",
    benchmark:
        "<benchmarks>/ladder_answers.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        folder=subpath(output.curves, parent=True),
        study=config["study"],
        runs=" ".join(
            f"--run {training.suite} {training.width} {training.seed} {losses_file(run).parent}"
            for run, training in RUNS.items()
        ),
        tokenizer=config["tokenizer"]["name"],
        task=config["corpus"]["task"],
        metric=config["scores"]["primary_metric"],
        length=config["scores"]["lengths"][0],
        bootstrap=BOOTSTRAP,
        margins=group_flags(Margins, config["claims"]["margins"]),
    shell:
        "python src/embscale ladder-answers {input.scores:q} {params.runs} --study {params.study} --tokenizer {params.tokenizer}"
        " --task {params.task} --metric {params.metric} --length {params.length} {params.bootstrap} {params.margins}"
        " --output {params.folder:q} 2> {log:q}"


rule evaluate:
    """Score a model's last table on tasks of other kinds than retrieval."""
    input:
        code=command_sources("evaluate"),
        fetched=expand(
            rules.fetch_datasets.output.fetched, other_task=config["other_tasks"]
        ),
        table=lambda wildcards: table_file(
            wildcards.model, CHECKPOINTS[wildcards.model][-1]
        ),
        tokenizer=lambda wildcards: tokenizer_file(TOKENIZERS[wildcards.model]),
    output:
        scores="<results>/other_tasks/{model}.csv",
        note="<results>/other_tasks/{model}.csv.note.json",
    log:
        "<logs>/evaluate/{model}.log",
    benchmark:
        "<benchmarks>/evaluate/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        table=lambda wildcards, input: (
            f"{step_of(CHECKPOINTS[wildcards.model][-1])}={input.table}"
        ),
        tasks=several("--tasks", config["other_tasks"]),
        datasets=DATASETS,
        tokenizer=subpath(input.tokenizer, parent=True),
        tokenizer_name=lambda wildcards: TOKENIZERS[wildcards.model],
        suite=lambda wildcards: SUITES[wildcards.model],
        tokenisation=group_flags(Tokenisation, config["tokenizer"]),
        bootstrap=BOOTSTRAP,
    shell:
        "python src/embscale evaluate {params.table:q} {params.tasks} --datasets {params.datasets:q}"
        " --tokenizer {params.tokenizer:q} --tokenizer-name {params.tokenizer_name} --suite {params.suite} --model {wildcards.model}"
        " {params.tokenisation} {params.bootstrap} --threads {threads} --output {output.scores:q} 2> {log:q}"


rule claims:
    """Test the claims of Corey 2024 on the scores; a verdict with an interval for each."""
    input:
        code=command_sources("claims"),
        scores=rules.gather.input.scores,
        claims="workflow/claims.yaml",
        registry=config["hub"]["registry"],
        pins=config["hub"]["pins"],
    output:
        csv="<results>/claims.csv",
        note="<results>/claims.csv.note.json",
        trends="<results>/trends.csv",
        tables=expand(
            "<results>/report/tables/{table}.md",
            table=["claims_not_run", "trends", "confounds"],
        ),
    log:
        "<logs>/claims.log",
    benchmark:
        "<benchmarks>/claims.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        tables=lambda wildcards, output: Path(output.tables[0]).parent,
        task=config["claims"]["task"],
        ladder_task=config["corpus"]["task"],
        ladder_length=config["scores"]["lengths"][0],
        special_tokens=config["tokenizer"]["special_tokens"],
        metric=config["scores"]["primary_metric"],
        bootstrap=BOOTSTRAP,
    shell:
        "python src/embscale claims {input.scores:q} --claims {input.claims:q} --registry {input.registry:q}"
        " --pins {input.pins:q} --task {params.task} --ladder-task {params.ladder_task}"
        " --ladder-length {params.ladder_length} --metric {params.metric} --where pooling=mean"
        " --where special_tokens={params.special_tokens} {params.bootstrap} --output {output.csv:q}"
        " --trends {output.trends:q} --tables {params.tables:q} 2> {log:q}"


rule compare:
    """Compare our scores with those published in Corey 2024."""
    input:
        code=command_sources("compare"),
        scores=rules.gather.output.csv,
    output:
        csv="<results>/comparison.csv",
        note="<results>/comparison.csv.note.json",
        partial="<results>/report/tables/comparison.md",
    log:
        "<logs>/compare.log",
    benchmark:
        "<benchmarks>/compare.tsv"
    conda:
        "../envs/embscale.yaml"
    shell:
        "python src/embscale compare {input.scores:q} --output {output.csv:q}"
        " --partial {output.partial:q} 2> {log:q}"


rule table_metrics:
    """Measure the geometry of a model's tables: mean direction, spread, outlier columns, norms, duplicate rows."""
    input:
        code=command_sources("table-geometry"),
        tables=lambda wildcards: [
            table_file(wildcards.model, checkpoint)
            for checkpoint in CHECKPOINTS[wildcards.model]
        ],
        tokens=lambda wildcards: expand(
            rules.tokenize.output.tokens,
            task=config["corpus"]["task"],
            tokenizer=TOKENIZERS[wildcards.model],
        ),
    output:
        rows="<results>/table_metrics/{model}.csv",
        note="<results>/table_metrics/{model}.csv.note.json",
        by_frequency="<results>/table_metrics/{model}-frequency.csv",
    log:
        "<logs>/table_metrics/{model}.log",
    benchmark:
        "<benchmarks>/table_metrics/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        tables=lambda wildcards, input: [
            f"{step_of(checkpoint)}={path}"
            for checkpoint, path in zip(CHECKPOINTS[wildcards.model], input.tables)
        ],
        suite=lambda wildcards: SUITES[wildcards.model],
        tied=lambda wildcards: tied(wildcards.model),
    shell:
        "python src/embscale table-geometry {params.tables:q} --tokens {input.tokens:q} --suite {params.suite}"
        " --model {wildcards.model} --tied {params.tied} --by-frequency {output.by_frequency:q}"
        " --threads {threads} --output {output.rows:q} 2> {log:q}"


rule compare_tables:
    """Compare the tables of a suite of the study's own: widths, seeds, steps, input and output; tokens never seen."""
    input:
        code=command_sources("compare-tables"),
        corpus=rules.harvest.output.corpus,
        tokens=expand(
            rules.tokenize.output.tokens,
            task=config["corpus"]["task"],
            tokenizer=config["tokenizer"]["name"],
        ),
        tokenizer=rules.tokenizer.output.tokenizer,
        checkpoints=lambda wildcards: [
            file
            for run, checkpoint in checkpoints_of(wildcards.ladder)
            for file in checkpoint_files(run, checkpoint)
        ],
    output:
        rows="<results>/compared_tables/{ladder}.csv",
        note="<results>/compared_tables/{ladder}.csv.note.json",
        similarity="<results>/compared_tables/{ladder}-similarity.csv",
        dimension="<results>/compared_tables/{ladder}-dimension.csv",
        undertrained="<results>/compared_tables/{ladder}-undertrained.csv",
    log:
        "<logs>/compare_tables/{ladder}.log",
    benchmark:
        "<benchmarks>/compare_tables/{ladder}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        checkpoints=lambda wildcards: [
            f"{RUNS[run].model}:{RUNS[run].seed}:{step_of(checkpoint)}={checkpoint_folder(run, checkpoint)}"
            for run, checkpoint in checkpoints_of(wildcards.ladder)
        ],
        corpus=subpath(input.corpus, parent=True),
        tokenizer=subpath(input.tokenizer, parent=True),
        comparison=group_flags(Comparison, config["scores"]["comparison"]),
    shell:
        "python src/embscale compare-tables {params.checkpoints:q} --suite {wildcards.ladder}"
        " --corpus {params.corpus:q} --tokens {input.tokens:q} --tokenizer {params.tokenizer:q} {params.comparison}"
        " --threads {threads} --similarity {output.similarity:q} --dimension {output.dimension:q}"
        " --undertrained {output.undertrained:q} --output {output.rows:q} 2> {log:q}"


rule words:
    """Probe a model's last table with words."""
    input:
        code=command_sources("words"),
        table=lambda wildcards: table_file(
            wildcards.model, CHECKPOINTS[wildcards.model][-1]
        ),
        tokenizer=lambda wildcards: tokenizer_file(TOKENIZERS[wildcards.model]),
        # Word frequencies come from the corpus, whatever the tokenizer.
        tokens=lambda wildcards: expand(
            rules.tokenize.output.tokens,
            task=config["corpus"]["task"],
            tokenizer=TOKENIZERS[wildcards.model],
        ),
        sets=[*config["words"]["analogies"], *config["words"]["similarity"]],
    output:
        rows="<results>/words/{model}.csv",
        note="<results>/words/{model}.csv.note.json",
    log:
        "<logs>/words/{model}.log",
    benchmark:
        "<benchmarks>/words/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        tokenizer=subpath(input.tokenizer, parent=True),
        table=lambda wildcards, input: f"{step_of(CHECKPOINTS[wildcards.model][-1])}={input.table}",
        words=group_flags(Words, config["words"]),
        suite=lambda wildcards: SUITES[wildcards.model],
    shell:
        "python src/embscale words {params.table:q} --tokenizer {params.tokenizer:q} {params.words}"
        " --tokens {input.tokens:q} --suite {params.suite} --model {wildcards.model} --threads {threads}"
        " --output {output.rows:q} 2> {log:q}"


rule words_table:
    """Tabulate the probes of the ladder's widest model with coverage, chance and random tables."""
    input:
        code=command_sources("words-table"),
        rows=expand(rules.words.output.rows, model=LADDER[-1]),
    output:
        partial="<results>/report/tables/words.md",
        note="<results>/report/tables/words.md.note.json",
    log:
        "<logs>/words_table.log",
    benchmark:
        "<benchmarks>/words_table.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        model=LADDER[-1],
    shell:
        "python src/embscale words-table {input.rows:q} --model {params.model}"
        " --output {output.partial:q} 2> {log:q}"


rule worked_example:
    """Follow one query through random, untrained, trained and weighted tables and BM25, for the report."""
    input:
        code=command_sources("worked-example"),
        trained=table_file(LADDER[-1], LADDER_CHECKPOINTS[-1]),
        untrained=[
            table_file(LADDER[-1], checkpoint)
            for checkpoint in LADDER_CHECKPOINTS
            if checkpoint == "step0"
        ],
        tokens=expand(
            rules.tokenize.output.tokens,
            task=config["corpus"]["task"],
            tokenizer=config["tokenizer"]["name"],
        ),
        tokenizer=tokenizer_file(config["tokenizer"]["name"]),
        task=task_files(config["corpus"]["task"]),
    output:
        partial="<results>/report/tables/worked_example.md",
        note="<results>/report/tables/worked_example.md.note.json",
        data="<site>/data/worked_example.csv",
    log:
        "<logs>/worked_example.log",
    benchmark:
        "<benchmarks>/worked_example.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        task=Path(task_files(config["corpus"]["task"])[0]).parent,
        tokenizer=subpath(input.tokenizer, parent=True),
        untrained=lambda wildcards, input: flags("--untrained", input.untrained),
        seed=config["scores"]["random"]["seeds"][0],
        length=config["scores"]["lengths"][0],
        metric=config["scores"]["primary_metric"],
    shell:
        "python src/embscale worked-example {input.trained:q} {params.untrained} --seed {params.seed}"
        " --beir {params.task:q} --tokens {input.tokens:q} --tokenizer {params.tokenizer:q} --length {params.length}"
        " --metric {params.metric} --threads {threads} --data {output.data:q} --output {output.partial:q} 2> {log:q}"


# Scores of the ladder's runs and of random tables, all documents cut to the primary length.
PRIMARY_SCORES = [
    f"metric={config['scores']['primary_metric']}",
    f"length={config['scores']['lengths'][0]}",
]


rule query_frequency:
    """Compare trained with random tables on queries with rare and with frequent tokens."""
    input:
        code=command_sources("query-frequency"),
        scores=[
            *expand(
                rules.score.output.scores, task=config["corpus"]["task"], model=RUNS
            ),
            *expand(
                rules.score_random.output.scores,
                task=config["corpus"]["task"],
                tokenizer=config["tokenizer"]["name"],
                width=config["scores"]["random"]["dims"],
            ),
        ],
        task=task_files(config["corpus"]["task"]),
        tokens=expand(
            rules.tokenize.output.tokens,
            task=config["corpus"]["task"],
            tokenizer=config["tokenizer"]["name"],
        ),
    output:
        rows="<results>/query_frequency.csv",
        note="<results>/query_frequency.csv.note.json",
    log:
        "<logs>/query_frequency.log",
    benchmark:
        "<benchmarks>/query_frequency.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        task=Path(task_files(config["corpus"]["task"])[0]).parent,
        variants=[
            variant
            for variant in ("full", "unit", "idf")
            if variant in ["full", *config["scores"]["variants"]]
        ],
        where=flags("--where", PRIMARY_SCORES),
        bootstrap=BOOTSTRAP,
    shell:
        "python src/embscale query-frequency {input.scores:q} --beir {params.task:q} --tokens {input.tokens:q}"
        " --variants {params.variants} {params.where} {params.bootstrap} --output {output.rows:q} 2> {log:q}"


rule layer_estimates:
    """Average the scores of layers over runs, and compare them with the table and with random tables."""
    input:
        code=command_sources("layer-estimates"),
        layers=expand(rules.layer_scores.output.scores, model=LAYERS_SCORED),
        controls=[
            *expand(
                rules.score_random.output.scores,
                task=config["corpus"]["task"],
                tokenizer=dict.fromkeys(TOKENIZERS[model] for model in LAYERS_SCORED),
                width=config["scores"]["random"]["dims"],
            ),
            *expand(
                rules.score_references.output.scores,
                task=config["corpus"]["task"],
                tokenizer=dict.fromkeys(TOKENIZERS[model] for model in LAYERS_SCORED),
            ),
        ],
    output:
        rows="<results>/layer_scores.csv",
        note="<results>/layer_scores.csv.note.json",
    log:
        "<logs>/layer_estimates.log",
    benchmark:
        "<benchmarks>/layer_estimates.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        where=flags("--where", PRIMARY_SCORES),
        bootstrap=BOOTSTRAP,
    shell:
        "python src/embscale layer-estimates {input.layers:q} --controls {input.controls:q} {params.where}"
        " {params.bootstrap} --output {output.rows:q} 2> {log:q}"


rule task_correlation:
    """Correlate the scores of tables on the study's two tasks."""
    input:
        code=command_sources("task-correlation"),
        scores=[
            *expand(rules.score.output.scores, task=OWN_TASKS, model=RUNS),
            *expand(
                rules.score_static.output.scores,
                task=OWN_TASKS,
                method=config["static"]["methods"],
            ),
            *expand(
                rules.score_random.output.scores,
                task=OWN_TASKS,
                tokenizer=config["tokenizer"]["name"],
                width=config["scores"]["random"]["dims"],
            ),
        ],
    output:
        rows="<results>/task_correlation.csv",
        note="<results>/task_correlation.csv.note.json",
    log:
        "<logs>/task_correlation.log",
    benchmark:
        "<benchmarks>/task_correlation.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        where=flags("--where", PRIMARY_SCORES),
        bootstrap=BOOTSTRAP,
    shell:
        "python src/embscale task-correlation {input.scores:q} {params.where} {params.bootstrap}"
        " --output {output.rows:q} 2> {log:q}"
