"""Chapter 4: layers.

Texts run through each model; classifiers say which layer a hidden state comes from; ablations, controls
and geometry show why one can tell.  Every model is classified on the first source of texts; the base
model also gets the ablations and the transfer between sources, some models the grid.
"""

SETTINGS = config["layers"]
# Sources of texts by name, the first being the one of all models.
SOURCES = {source["name"]: source for source in SETTINGS["texts"]}
MAIN_SOURCE = next(iter(SOURCES))
if SETTINGS["base"] not in LAYER_MODELS:
    raise WorkflowError(
        f"layers.base: {SETTINGS['base']} takes no part in this study; allowed: one of {', '.join(LAYER_MODELS)}"
    )
for name, models in (
    ("pictured", SETTINGS["pictured"]),
    ("grid.models", SETTINGS["grid"]["models"]),
):
    for model in models:
        if model not in LAYER_MODELS:
            raise WorkflowError(
                f"layers.{name}: {model} takes no part in this study; allowed: {', '.join(LAYER_MODELS)}"
            )
# Encoders predict no next token from their layers.
LENS_MODELS = [
    model
    for model in LAYER_MODELS
    if model in LADDER
    or FETCHED[model, CHECKPOINTS[model][-1]].checkpoint.family not in ENCODERS
]
# Flags that identify the model in rows.
OF_MODEL = dict(
    suite=lambda wildcards: SUITES[wildcards.model],
    step=lambda wildcards: step_of(CHECKPOINTS[wildcards.model][-1]),
)
# Flags that several rules share.
FITS = group_flags(Fits, SETTINGS)
POSITIONS = group_flags(Positions, SETTINGS)
SPLIT = group_flags(OneSplit, {"split": SETTINGS["splits"][0]})


rule states:
    """Store the hidden states of texts at every layer."""
    input:
        code=command_sources("states"),
        texts=lambda wildcards: source_file(SOURCES[wildcards.source]["of"]),
        tokenizer=lambda wildcards: tokenizer_file(TOKENIZERS[wildcards.model]),
        checkpoint=lambda wildcards: checkpoint_files(
            wildcards.model, CHECKPOINTS[wildcards.model][-1]
        ),
    output:
        states="<results>/states/{source}/{model}.safetensors",
        note="<results>/states/{source}/{model}.safetensors.note.json",
    log:
        "<logs>/states/{source}-{model}.log",
    benchmark:
        "<benchmarks>/states/{source}-{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        checkpoint=lambda wildcards, input: Path(input.checkpoint[0]).parent,
        tokenizer=subpath(input.tokenizer, parent=True),
        source=lambda wildcards: source_flags(SOURCES[wildcards.source]),
        sample=group_flags(Sample, SETTINGS),
        running=group_flags(Running, SETTINGS),
    shell:
        "python src/embscale states {params.checkpoint:q} --tokenizer {params.tokenizer:q}"
        " --texts {input.texts:q} {params.source} {params.sample} {params.running} --first-position 0"
        " --threads {threads} --output {output.states:q} 2> {log:q}"


# Sizes of the grid's own hidden states, where it has longer windows or more texts than all models have.
GRID_SAMPLE = grid_sample(SETTINGS)


use rule states as grid_states with:
    output:
        states="<results>/states/{source}-grid/{model}.safetensors",
        note="<results>/states/{source}-grid/{model}.safetensors.note.json",
    log:
        "<logs>/states/{source}-grid-{model}.log",
    benchmark:
        "<benchmarks>/states/{source}-grid-{model}.tsv"
    params:
        checkpoint=rules.states.params.checkpoint,
        tokenizer=rules.states.params.tokenizer,
        source=rules.states.params.source,
        sample=group_flags(Sample, SETTINGS | (GRID_SAMPLE or {})),
        running=rules.states.params.running,


rule probe:
    """Fit classifiers that predict which layer a hidden state comes from."""
    input:
        code=command_sources("probe"),
        states=main_states,
    output:
        rows="<results>/probes/{model}.csv",
        note="<results>/probes/{model}.csv.note.json",
        confusion="<results>/probes/{model}-confusion.csv.gz",
        curves="<results>/probes/{model}-curves.csv.gz",
    log:
        "<logs>/probe/{model}.log",
    benchmark:
        "<benchmarks>/probe/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        **OF_MODEL,
        fits=FITS,
        texts=MAIN_SOURCE,
        probe=group_flags(Probe, SETTINGS),
    shell:
        "python src/embscale probe {input.states:q} {params.probe} {params.fits} --texts {params.texts}"
        " --suite {params.suite} --model {wildcards.model} --step {params.step} --threads {threads}"
        " --output {output.rows:q} --confusion {output.confusion:q} --curves {output.curves:q} 2> {log:q}"


rule grid:
    """Fit classifiers for several windows and numbers of texts, as published and matched."""
    input:
        code=command_sources("grid"),
        states=lambda wildcards: largest_states(wildcards.model),
    output:
        rows="<results>/grid/{model}.csv.gz",
        note="<results>/grid/{model}.csv.gz.note.json",
    log:
        "<logs>/grid/{model}.log",
    benchmark:
        "<benchmarks>/grid/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        **OF_MODEL,
        fits=FITS,
        texts=MAIN_SOURCE,
        grid=group_flags(GridConditions, SETTINGS["grid"]),
        split=SPLIT,
        epochs=group_flags(Epochs, SETTINGS),
    shell:
        "python src/embscale grid {input.states:q} {params.grid} {params.split} {params.epochs} {params.fits}"
        " --texts {params.texts} --suite {params.suite} --model {wildcards.model} --step {params.step}"
        " --threads {threads} --output {output.rows:q} 2> {log:q}"


rule ablate:
    """Ablate the classifier of the base model."""
    input:
        code=command_sources("ablate"),
        states=main_states,
    output:
        rows="<results>/ablations/{model}.csv",
        note="<results>/ablations/{model}.csv.note.json",
    log:
        "<logs>/ablate/{model}.log",
    benchmark:
        "<benchmarks>/ablate/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        **OF_MODEL,
        fits=FITS,
        texts=MAIN_SOURCE,
        ablations=group_flags(Ablations, SETTINGS),
        split=SPLIT,
    shell:
        "python src/embscale ablate {input.states:q} {params.ablations} {params.split} {params.fits}"
        " --texts {params.texts} --suite {params.suite} --model {wildcards.model} --step {params.step}"
        " --threads {threads} --output {output.rows:q} 2> {log:q}"


rule transfer:
    """Train the base model's classifiers on one source of texts and test them on the others."""
    input:
        code=command_sources("transfer"),
        states=lambda wildcards: expand(
            rules.states.output.states, source=SOURCES, model=wildcards.model
        ),
    output:
        rows="<results>/transfer/{model}.csv",
        note="<results>/transfer/{model}.csv.note.json",
    log:
        "<logs>/transfer/{model}.log",
    benchmark:
        "<benchmarks>/transfer/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        **OF_MODEL,
        fits=FITS,
        states=lambda wildcards, input: [
            f"{name}={path}" for name, path in zip(SOURCES, input.states)
        ],
    shell:
        "python src/embscale transfer {params.fits} --states {params.states:q} --suite {params.suite}"
        " --model {wildcards.model} --step {params.step} --threads {threads}"
        " --output {output.rows:q} 2> {log:q}"


rule geometry:
    """Measure norms, spread and similarity of the layers."""
    input:
        code=command_sources("geometry"),
        states=main_states,
    output:
        structure="<results>/geometry/{model}.csv",
        note="<results>/geometry/{model}.csv.note.json",
        norms="<results>/geometry/{model}-norms.csv",
    log:
        "<logs>/geometry/{model}.log",
    benchmark:
        "<benchmarks>/geometry/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        **OF_MODEL,
        texts=MAIN_SOURCE,
        tied=lambda wildcards: tied(wildcards.model),
        positions=POSITIONS,
        geometry=group_flags(Geometry, SETTINGS["geometry"]),
    shell:
        "python src/embscale geometry {input.states:q} {params.geometry} {params.positions}"
        " --suite {params.suite} --model {wildcards.model} --step {params.step} --tied {params.tied}"
        " --texts {params.texts} --threads {threads} --norms {output.norms:q}"
        " --output {output.structure:q} 2> {log:q}"


rule reductions:
    """Reduce hidden states to two dimensions."""
    input:
        code=command_sources("reductions"),
        states=main_states,
    output:
        points="<results>/reductions/{model}.csv.gz",
        note="<results>/reductions/{model}.csv.gz.note.json",
        quality="<results>/reductions/{model}-quality.csv",
    log:
        "<logs>/reductions/{model}.log",
    benchmark:
        "<benchmarks>/reductions/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        **OF_MODEL,
        texts=MAIN_SOURCE,
        tied=lambda wildcards: tied(wildcards.model),
        positions=POSITIONS,
        reductions=group_flags(Reductions, SETTINGS["reductions"]),
    shell:
        "python src/embscale reductions {input.states:q} {params.reductions} {params.positions}"
        " --suite {params.suite} --model {wildcards.model} --step {params.step} --tied {params.tied}"
        " --texts {params.texts} --threads {threads} --quality {output.quality:q}"
        " --output {output.points:q} 2> {log:q}"


rule logit_lens:
    """Apply the final norm and the output table to the states of each layer."""
    input:
        code=command_sources("logit-lens"),
        states=main_states,
        checkpoint=lambda wildcards: checkpoint_files(
            wildcards.model, CHECKPOINTS[wildcards.model][-1]
        ),
    output:
        rows="<results>/logit_lens/{model}.csv",
        note="<results>/logit_lens/{model}.csv.note.json",
    log:
        "<logs>/logit_lens/{model}.log",
    benchmark:
        "<benchmarks>/logit_lens/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        **OF_MODEL,
        checkpoint=lambda wildcards, input: Path(input.checkpoint[0]).parent,
        texts=MAIN_SOURCE,
        tied=lambda wildcards: tied(wildcards.model),
        positions=POSITIONS,
        lens=group_flags(LogitLens, SETTINGS["logit_lens"]),
    shell:
        "python src/embscale logit-lens {params.checkpoint:q} {input.states:q} {params.lens} {params.positions}"
        " --suite {params.suite} --model {wildcards.model} --step {params.step} --tied {params.tied}"
        " --texts {params.texts} --threads {threads} --output {output.rows:q} 2> {log:q}"


# Texts of the second study that a model's hidden states are of: the first source for all models, all for the base.
REPRODUCED_LAYERS = {
    model: [
        source
        for source in (SOURCES if model == SETTINGS["base"] else [MAIN_SOURCE])
        if source in published_cells.texts_of(model)
    ]
    for model in LAYER_MODELS
}
FAITHFUL_LAYERS = [model for model, sources in REPRODUCED_LAYERS.items() if sources]


rule faithful_layers:
    """Repeat the second study's layer classifiers of a model, by its protocol and by our own."""
    input:
        code=command_sources("faithful-layers"),
        states=lambda wildcards: [
            file
            for source in REPRODUCED_LAYERS[wildcards.model]
            for file in (
                largest_states(wildcards.model)
                if source == MAIN_SOURCE
                else expand(
                    rules.states.output.states, source=source, model=wildcards.model
                )
            )
        ],
    output:
        rows="<results>/faithful_layers/{model}.csv",
        note="<results>/faithful_layers/{model}.csv.note.json",
    log:
        "<logs>/faithful_layers/{model}.log",
    benchmark:
        "<benchmarks>/faithful_layers/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        **OF_MODEL,
        fits=FITS,
        epochs=group_flags(Epochs, SETTINGS),
        states=lambda wildcards, input: [
            f"{source}={path}"
            for source, path in zip(REPRODUCED_LAYERS[wildcards.model], input.states)
        ],
    shell:
        "python src/embscale faithful-layers --states {params.states:q} {params.epochs} {params.fits}"
        " --suite {params.suite} --model {wildcards.model} --step {params.step} --threads {threads}"
        " --output {output.rows:q} 2> {log:q}"


rule layer_claims:
    """Test the claims of Huang et al. 2024 on the rows of this chapter."""
    input:
        code=command_sources("layer-claims"),
        claims="workflow/layer_claims.yaml",
        probes=expand(rules.probe.output.rows, model=LAYER_MODELS),
        grid=expand(rules.grid.output.rows, model=SETTINGS["grid"]["models"]),
        transfer=expand(rules.transfer.output.rows, model=SETTINGS["base"]),
        ablations=expand(rules.ablate.output.rows, model=SETTINGS["base"]),
        structure=expand(rules.geometry.output.structure, model=LAYER_MODELS),
        quality=expand(rules.reductions.output.quality, model=SETTINGS["pictured"]),
        repeated=expand(rules.faithful_layers.output.rows, model=FAITHFUL_LAYERS),
    output:
        claims="<results>/layer_claims.csv",
        note="<results>/layer_claims.csv.note.json",
        tables=expand(
            "<results>/report/tables/{table}.md",
            table=["layer_claims_not_run", "layer_comparison"],
        ),
    log:
        "<logs>/layer_claims.log",
    benchmark:
        "<benchmarks>/layer_claims.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        tables=lambda wildcards, output: Path(output.tables[0]).parent,
        texts=MAIN_SOURCE,
        other_texts=list(SOURCES)[1],
        repeated=lambda wildcards, input: several("--repeated", input.repeated),
    shell:
        "python src/embscale layer-claims --probes {input.probes:q} --grid {input.grid:q}"
        " --transfer {input.transfer:q} --ablations {input.ablations:q} --structure {input.structure:q}"
        " --quality {input.quality:q} {params.repeated} --claims {input.claims:q} --texts {params.texts}"
        " --other-texts {params.other_texts} --tables {params.tables:q} --output {output.claims:q} 2> {log:q}"


rule layer_costs:
    """Tabulate the time and memory of this chapter; a separate target, because it differs in each run."""
    input:
        code=command_sources("costs"),
        fits=expand(rules.probe.output.rows, model=LAYER_MODELS),
        grid=expand(rules.grid.output.rows, model=SETTINGS["grid"]["models"]),
        base=expand(
            [rules.ablate.output.rows, rules.transfer.output.rows],
            model=SETTINGS["base"],
        ),
        structure=expand(rules.geometry.output.structure, model=LAYER_MODELS),
        points=expand(rules.reductions.output.points, model=SETTINGS["pictured"]),
        lens=expand(rules.logit_lens.output.rows, model=LENS_MODELS),
    output:
        rows="<results>/layer_costs.csv",
        note="<results>/layer_costs.csv.note.json",
    log:
        "<logs>/layer_costs.log",
    benchmark:
        "<benchmarks>/layer_costs.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        steps="states probe grid ablate transfer geometry reductions logit_lens",
        folder=subpath(output.rows, parent=True),
    shell:
        "python src/embscale costs {params.folder:q}/benchmarks --steps {params.steps}"
        " --output {output.rows:q} 2> {log:q}"
