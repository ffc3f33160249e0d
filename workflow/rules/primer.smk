"""Chapter 5: the primer.

Explains embeddings and positions by small computations on the widest table of the ladder.
"""

# Concepts that need a table and its tokenizer; the others need only their parameters.
PRIMER_OF_TABLE = ["lookup", "gradient", "space", "offset", "order"]
PRIMER_ALONE = ["sinusoidal", "rotary", "biases"]
POSITION_MODELS = [*LAYER_MODELS, LEARNED]


rule primer_of_table:
    """Compute the rows of a figure on how a table of this study is used and trained."""
    input:
        code=command_sources("primer"),
        table=table_file(LADDER[-1], LADDER_CHECKPOINTS[-1]),
        tokenizer=tokenizer_file(config["tokenizer"]["name"]),
    output:
        rows="<results>/primer/{of_table}.csv",
        note="<results>/primer/{of_table}.csv.note.json",
    log:
        "<logs>/primer/{of_table}.log",
    benchmark:
        "<benchmarks>/primer/{of_table}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        tokenizer=subpath(input.tokenizer, parent=True),
        settings=lambda wildcards: primer_flags(wildcards.of_table),
    shell:
        "python src/embscale primer {wildcards.of_table} {input.table:q}"
        " --tokenizer {params.tokenizer:q} {params.settings} --threads {threads}"
        " --output {output.rows:q} 2> {log:q}"


rule primer_alone:
    """Compute the rows of a figure on positions, which needs no table."""
    input:
        code=command_sources("primer"),
    output:
        rows="<results>/primer/{alone}.csv",
        note="<results>/primer/{alone}.csv.note.json",
    log:
        "<logs>/primer/{alone}.log",
    benchmark:
        "<benchmarks>/primer/{alone}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        settings=lambda wildcards: primer_flags(wildcards.alone),
    shell:
        "python src/embscale primer {wildcards.alone} {params.settings} --output {output.rows:q} 2> {log:q}"


rule sizes:
    """Count the parameters in the tables of every model of the registry."""
    input:
        code=command_sources("primer"),
        registry=config["hub"]["registry"],
    output:
        rows="<results>/primer/sizes.csv",
        note="<results>/primer/sizes.csv.note.json",
        partial="<results>/report/tables/sizes.md",
    log:
        "<logs>/primer/sizes.log",
    benchmark:
        "<benchmarks>/primer/sizes.tsv"
    conda:
        "../envs/embscale.yaml"
    shell:
        "python src/embscale primer sizes --registry {input.registry:q} --output {output.rows:q}"
        " --partial {output.partial:q} 2> {log:q}"


rule positions:
    """Describe how a checkpoint represents positions: its learned vectors, or the effect of its scheme."""
    input:
        code=command_sources("positions"),
        checkpoint=lambda wildcards: checkpoint_files(
            wildcards.model, last_checkpoint(wildcards)
        ),
    output:
        rows="<results>/positions/{model}.csv",
        note="<results>/positions/{model}.csv.note.json",
    log:
        "<logs>/positions/{model}.log",
    benchmark:
        "<benchmarks>/positions/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        checkpoint=lambda wildcards, input: Path(input.checkpoint[0]).parent,
        positions=group_flags(PositionRows, config["positions"]),
        suite=lambda wildcards: SUITES.get(wildcards.model, "learned"),
        step=lambda wildcards: step_of(last_checkpoint(wildcards)),
    shell:
        "python src/embscale positions {params.checkpoint:q} {params.positions} --suite {params.suite}"
        " --model {wildcards.model} --step {params.step} --output {output.rows:q} 2> {log:q}"


rule position_scores:
    """Score the table of the model with learned positions, with and without positions added."""
    input:
        code=command_sources("position-scores"),
        checkpoint=checkpoint_files(LEARNED, LADDER_CHECKPOINTS[-1]),
        task=task_files(config["corpus"]["task"]),
        tokens=expand(
            rules.tokenize.output.tokens,
            task=config["corpus"]["task"],
            tokenizer=config["tokenizer"]["name"],
        ),
    output:
        rows="<results>/positions/scores.csv",
        note="<results>/positions/scores.csv.note.json",
    log:
        "<logs>/position_scores.log",
    benchmark:
        "<benchmarks>/position_scores.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        checkpoint=lambda wildcards, input: Path(input.checkpoint[0]).parent,
        task=lambda wildcards, input: Path(input.task[0]).parent,
        metric=config["scores"]["primary_metric"],
        seeds=group_flags(PositionSeeds, config["positions"]),
        bootstrap=BOOTSTRAP,
        model=LEARNED,
    shell:
        "python src/embscale position-scores {params.checkpoint:q} --beir {params.task:q}"
        " --tokens {input.tokens:q} --metric {params.metric} {params.seeds} {params.bootstrap}"
        " --threads {threads} --suite learned --model {params.model} --output {output.rows:q} 2> {log:q}"
