"""Chapter 2: suites, checkpoints, tables.

Each model of the ladder is trained on the spot and saved as ordinary checkpoints; of each, the input
embedding table is taken.
"""

CHECKPOINT_FILES = [
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
]


rule train:
    """Train one model and save its checkpoints."""
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
        losses="<results>/checkpoints/ladder-w{width}/losses.csv",
        note="<results>/checkpoints/ladder-w{width}/losses.csv.note.json",
        files=expand(
            "<results>/checkpoints/ladder-w{{width}}/step{step}/{file}",
            step=config["ladder"]["checkpoints"],
            file=CHECKPOINT_FILES,
        ),
    log:
        "<logs>/train/ladder-w{width}.log",
    benchmark:
        "<benchmarks>/train/ladder-w{width}.tsv"
    # The widest takes longest, so it starts first.
    priority: lambda wildcards: int(wildcards.width)
    conda:
        "../envs/embscale.yaml"
    # One thread each: sums have one order, so a run repeats to the bit, and two models train side by side.
    threads: 1
    params:
        task=subpath(input.corpus, parent=True),
        tokenizer=subpath(input.tokenizer, parent=True),
        folder=subpath(output.losses, parent=True),
        vocabulary=VOCABULARY,
        recipe=RECIPE,
        length=group_flags(Length, config["ladder"]),
        seed=group_flags(RunSeed, config["ladder"]),
        positions="rotary",
    shell:
        "python src/embscale train"
        " --corpus {params.task:q}"
        " --tokens {input.tokens:q}"
        " --tokenizer {params.tokenizer:q}"
        " --width {wildcards.width}"
        " --positions {params.positions}"
        " {params.vocabulary} {params.recipe} {params.length} {params.seed}"
        " --threads {threads}"
        " --output {params.folder:q} 2> {log:q}"


use rule train as train_learned with:
    output:
        losses="<results>/checkpoints/learned-w{width}/losses.csv",
        note="<results>/checkpoints/learned-w{width}/losses.csv.note.json",
        files=expand(
            "<results>/checkpoints/learned-w{{width}}/{checkpoint}/{file}",
            checkpoint=LADDER_CHECKPOINTS[-1],
            file=CHECKPOINT_FILES,
        ),
    log:
        "<logs>/train/learned-w{width}.log",
    benchmark:
        "<benchmarks>/train/learned-w{width}.tsv"
    params:
        task=subpath(input.corpus, parent=True),
        tokenizer=subpath(input.tokenizer, parent=True),
        folder=subpath(output.losses, parent=True),
        vocabulary=VOCABULARY,
        recipe=RECIPE,
        length=group_flags(
            Length,
            config["ladder"] | {"checkpoints": [step_of(LADDER_CHECKPOINTS[-1])]},
        ),
        seed=group_flags(RunSeed, config["ladder"]),
        positions="learned",


rule extract:
    """Take the input embedding table out of a checkpoint."""
    input:
        code=command_sources("extract"),
        config="<results>/checkpoints/{model}/{checkpoint}/config.json",
        weights="<results>/checkpoints/{model}/{checkpoint}/model.safetensors",
    output:
        table="<results>/tables/{model}/{checkpoint}.safetensors",
        note="<results>/tables/{model}/{checkpoint}.safetensors.note.json",
    log:
        "<logs>/extract/{model}-{checkpoint}.log",
    benchmark:
        "<benchmarks>/extract/{model}-{checkpoint}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        checkpoint=subpath(input.config, parent=True),
        held="",
    shell:
        "python src/embscale extract {params.checkpoint:q} {params.held}"
        " --output {output.table:q} 2> {log:q}"


use rule extract as extract_other with:
    output:
        table="<results>/tables/{model}/{checkpoint}.{held}.safetensors",
        note="<results>/tables/{model}/{checkpoint}.{held}.safetensors.note.json",
    log:
        "<logs>/extract/{model}-{checkpoint}-{held}.log",
    benchmark:
        "<benchmarks>/extract/{model}-{checkpoint}-{held}.tsv"
    params:
        checkpoint=rules.extract.params.checkpoint,
        held=lambda wildcards: HELD_FLAGS[wildcards.held],
