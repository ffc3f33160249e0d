"""Chapter 3: scores.

Every table and its variants are scored on the retrieval task, the score of each query kept; random
tables show what token overlap alone gives.  One job scores all tables of a model, since importing
the benchmark takes as long as a score.
"""

SCORING = dict(
    task=subpath(input.corpus, parent=True),
    metrics=flags("--metric", config["scores"]["metrics"]),
    tokenizer=config["tokenizer"]["name"],
)


rule score:
    """Score a model's table at every saved step, and the variants of the last one."""
    input:
        code=command_sources("score"),
        tables=expand(
            "<results>/tables/{{model}}/step{step}.safetensors",
            step=sorted(config["ladder"]["checkpoints"]),
        ),
        tokens=rules.tokenize.output.tokens,
        corpus=rules.harvest.output.corpus,
        queries=rules.harvest.output.queries,
        qrels=rules.harvest.output.qrels,
    output:
        scores="<results>/per_query/{model}.parquet",
        note="<results>/per_query/{model}.parquet.note.json",
    log:
        "<logs>/score/{model}.log",
    benchmark:
        "<benchmarks>/score/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    threads: 1
    params:
        **SCORING,
        tables=lambda wildcards, input: flags(
            "--table",
            [
                f"{step}={path}"
                for step, path in zip(
                    sorted(config["ladder"]["checkpoints"]), input.tables
                )
            ],
        ),
        variants=flags("--variant", config["scores"]["variants"]),
        suite="ladder",
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
    """Score random tables of several widths and seeds."""
    input:
        code=command_sources("score"),
        tokens=rules.tokenize.output.tokens,
        corpus=rules.harvest.output.corpus,
        queries=rules.harvest.output.queries,
        qrels=rules.harvest.output.qrels,
    output:
        scores="<results>/per_query/random.parquet",
        note="<results>/per_query/random.parquet.note.json",
    log:
        "<logs>/score/random.log",
    benchmark:
        "<benchmarks>/score/random.tsv"
    conda:
        "../envs/embscale.yaml"
    threads: 1
    params:
        **SCORING,
        tables=flags(
            "--table",
            [
                f"random:{config['tokenizer']['vocab_size']}x{dim}:{seed}"
                for dim in config["scores"]["random"]["dims"]
                for seed in config["scores"]["random"]["seeds"]
            ],
        ),
        suite="random",
    shell:
        "python -m embscale score {params.tables} {params.metrics}"
        " --suite {params.suite}"
        " --model random"
        " --tokenizer {params.tokenizer}"
        " --task {params.task:q}"
        " --tokens {input.tokens:q}"
        " --threads {threads}"
        " --output {output.scores:q} 2> {log:q}"


rule gather:
    """One tidy row per score, with its interval and the number of queries."""
    input:
        code=command_sources("gather"),
        scores=expand("<results>/per_query/{model}.parquet", model=[*LADDER, "random"]),
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
