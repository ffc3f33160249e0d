"""Chapter 4: layers.

Texts run through each model; a linear classifier says which layer a hidden state
comes from; norms and principal components show why.
"""

SOURCE = config["layers"]["texts"]
HELDOUT = SOURCE == "heldout"


rule states:
    """Store the hidden states of texts at every layer."""
    input:
        code=command_sources("states"),
        texts=(
            task_files(config["corpus"]["task"])[0]
            if HELDOUT
            else HUB / "texts" / f"{SOURCE}.jsonl.gz"
        ),
        tokenizer=lambda wildcards: tokenizer_file(TOKENIZERS[wildcards.model]),
        checkpoint=lambda wildcards: checkpoint_files(
            wildcards.model, CHECKPOINTS[wildcards.model][-1]
        ),
    output:
        states="<results>/states/{model}.safetensors",
        note="<results>/states/{model}.safetensors.note.json",
    log:
        "<logs>/states/{model}.log",
    benchmark:
        "<benchmarks>/states/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    threads: 1
    params:
        checkpoint=lambda wildcards, input: Path(input.checkpoint[0]).parent,
        tokenizer=subpath(input.tokenizer, parent=True),
        text_split="--text-split heldout" if HELDOUT else "",
        texts_count=config["layers"]["texts_count"],
        tokens=config["layers"]["tokens"],
        first_position=config["layers"]["first_position"],
        batch=config["layers"]["batch"],
        seed=config["layers"]["texts_seed"],
    shell:
        "python -m embscale states {params.checkpoint:q}"
        " --tokenizer {params.tokenizer:q}"
        " --texts {input.texts:q} {params.text_split}"
        " --texts-count {params.texts_count}"
        " --tokens {params.tokens}"
        " --first-position {params.first_position}"
        " --batch {params.batch}"
        " --seed {params.seed}"
        " --output {output.states:q} 2> {log:q}"


rule probe:
    """Fit a linear classifier that says which layer a hidden state comes from."""
    input:
        code=command_sources("probe"),
        states=rules.states.output.states,
    output:
        rows="<results>/probes/{model}.csv",
        note="<results>/probes/{model}.csv.note.json",
        confusion="<results>/probes/{model}-confusion.csv",
    log:
        "<logs>/probe/{model}.log",
    benchmark:
        "<benchmarks>/probe/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    threads: 1
    params:
        split=config["layers"]["split"],
        test_fraction=config["layers"]["test_fraction"],
        seeds=config["layers"]["seeds"],
        inverse_regularisation=config["layers"]["inverse_regularisation"],
        resamples=config["layers"]["bootstrap_resamples"],
        bootstrap_seed=config["layers"]["bootstrap_seed"],
        step=lambda wildcards: step_of(CHECKPOINTS[wildcards.model][-1]),
        suite=lambda wildcards: SUITES[wildcards.model],
    shell:
        "python -m embscale probe {input.states:q}"
        " --split {params.split}"
        " --test-fraction {params.test_fraction}"
        " --seeds {params.seeds}"
        " --inverse-regularisation {params.inverse_regularisation}"
        " --resamples {params.resamples}"
        " --bootstrap-seed {params.bootstrap_seed}"
        " --suite {params.suite}"
        " --model {wildcards.model}"
        " --step {params.step}"
        " --output {output.rows:q}"
        " --confusion {output.confusion:q} 2> {log:q}"


rule geometry:
    """Principal components and lengths of the hidden states."""
    input:
        code=command_sources("geometry"),
        states=rules.states.output.states,
    output:
        pca="<results>/geometry/{model}-pca.csv",
        note="<results>/geometry/{model}-pca.csv.note.json",
        norms="<results>/geometry/{model}-norms.csv",
    log:
        "<logs>/geometry/{model}.log",
    benchmark:
        "<benchmarks>/geometry/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    threads: 1
    params:
        points=config["layers"]["points"],
        seed=config["layers"]["points_seed"],
        step=lambda wildcards: step_of(CHECKPOINTS[wildcards.model][-1]),
        suite=lambda wildcards: SUITES[wildcards.model],
    shell:
        "python -m embscale geometry {input.states:q}"
        " --points {params.points}"
        " --seed {params.seed}"
        " --suite {params.suite}"
        " --model {wildcards.model}"
        " --step {params.step}"
        " --pca {output.pca:q}"
        " --norms {output.norms:q} 2> {log:q}"
