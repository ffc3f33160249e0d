"""Chapter 3: scores.

Every table and its variants are scored on every retrieval task, the score of each query kept; random
tables show what token overlap alone gives.  One job scores all tables of a model, since importing
the benchmark takes as long as a score.
"""

SCORING = dict(
    task=lambda wildcards: task_files(wildcards.task)[0].parent,
    metrics=flags("--metric", config["scores"]["metrics"]),
)


rule score:
    """Score a model's table at every checkpoint, and the variants of the last one."""
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
    threads: 1
    params:
        **SCORING,
        tables=lambda wildcards, input: flags(
            "--table",
            [
                f"{step_of(checkpoint)}={path}"
                for checkpoint, path in zip(CHECKPOINTS[wildcards.model], input.tables)
            ],
        ),
        variants=flags("--variant", config["scores"]["variants"]),
        suite=lambda wildcards: SUITES[wildcards.model],
        tokenizer=lambda wildcards: TOKENIZERS[wildcards.model],
    shell:
        "python -m embscale score {params.tables} {params.variants} {params.metrics}"
        " --suite {params.suite}"
        " --model {wildcards.model}"
        " --tokenizer {params.tokenizer}"
        " --task {params.task:q}"
        " --tokens {input.tokens:q}"
        " --threads {threads}"
        " --output {output.scores:q} 2> {log:q}"


rule score_random:
    """Score random tables of several widths and seeds, with the rows of a tokenizer."""
    input:
        code=command_sources("score"),
        tokens=rules.tokenize.output.tokens,
        task=lambda wildcards: task_files(wildcards.task),
    output:
        scores="<results>/per_query/{task}/random-{tokenizer}.parquet",
        note="<results>/per_query/{task}/random-{tokenizer}.parquet.note.json",
    log:
        "<logs>/score/{task}-random-{tokenizer}.log",
    benchmark:
        "<benchmarks>/score/{task}-random-{tokenizer}.tsv"
    conda:
        "../envs/embscale.yaml"
    threads: 1
    params:
        **SCORING,
        tables=lambda wildcards: flags(
            "--table",
            [
                f"random:{vocabulary(wildcards.tokenizer)}x{dim}:{seed}"
                for dim in config["scores"]["random"]["dims"]
                for seed in config["scores"]["random"]["seeds"]
            ],
        ),
        suite="random",
    shell:
        "python -m embscale score {params.tables} {params.metrics}"
        " --suite {params.suite}"
        " --model random"
        " --tokenizer {wildcards.tokenizer}"
        " --task {params.task:q}"
        " --tokens {input.tokens:q}"
        " --threads {threads}"
        " --output {output.scores:q} 2> {log:q}"


rule gather:
    """One tidy row per score, with its interval and the number of queries."""
    input:
        code=command_sources("gather"),
        scores=expand(
            "<results>/per_query/{task}/{scored}.parquet",
            task=TASKS,
            scored=[
                *CHECKPOINTS,
                *(f"random-{name}" for name in dict.fromkeys(TOKENIZERS.values())),
            ],
        ),
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
        resamples=config["scores"]["bootstrap_resamples"],
        seed=config["scores"]["bootstrap_seed"],
    shell:
        "python -m embscale gather {input.scores:q}"
        " --resamples {params.resamples}"
        " --seed {params.seed}"
        " --csv {output.csv:q}"
        " --parquet {output.parquet:q} 2> {log:q}"
