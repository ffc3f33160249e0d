"""Chapter 6: the primer.

What embeddings and positions are, shown on the widest table of the ladder by small computations.
"""

PRIMER = config["primer"]
# Of a table and its tokenizer; the others need nothing but their parameters.
PRIMER_OF_TABLE = ["lookup", "gradient", "space", "offset", "order"]
PRIMER_ALONE = ["sinusoidal", "rotary", "biases"]


rule primer_of_table:
    """Rows for a figure that shows how a table of this study is used and taught."""
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
    threads: 1
    params:
        tokenizer=subpath(input.tokenizer, parent=True),
        flags=lambda wildcards: all_flags(PRIMER[wildcards.of_table]),
    shell:
        "python -m embscale primer {wildcards.of_table} {input.table:q}"
        " --tokenizer {params.tokenizer:q} {params.flags}"
        " --output {output.rows:q} 2> {log:q}"


rule primer_alone:
    """Rows for a figure of positions, which need no table."""
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
        flags=lambda wildcards: all_flags(PRIMER[wildcards.alone]),
    shell:
        "python -m embscale primer {wildcards.alone} {params.flags}"
        " --output {output.rows:q} 2> {log:q}"


rule sizes:
    """Parameters in the tables of every model of the registry."""
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
        "python -m embscale primer sizes --registry {input.registry:q}"
        " --output {output.rows:q}"
        " --partial {output.partial:q} 2> {log:q}"


rule positions:
    """How a checkpoint tells places apart: its learned positions, or what its scheme does."""
    input:
        code=command_sources("positions"),
        checkpoint=lambda wildcards: checkpoint_files(
            wildcards.model, CHECKPOINTS[wildcards.model][-1]
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
        places=config["positions"]["places"],
        seeds=flags("--seed", config["positions"]["seeds"]),
        suite=lambda wildcards: SUITES[wildcards.model],
        step=lambda wildcards: step_of(CHECKPOINTS[wildcards.model][-1]),
    shell:
        "python -m embscale positions {params.checkpoint:q}"
        " --places {params.places} {params.seeds}"
        " --suite {params.suite}"
        " --model {wildcards.model}"
        " --step {params.step}"
        " --output {output.rows:q} 2> {log:q}"
