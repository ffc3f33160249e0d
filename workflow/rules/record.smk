"""Chapter 6: the record.

What is kept of a study in git: tidy tables that one reads the difference of, and a few numbers.  `make record`
copies them to recorded/; the report says how far its results are from those.
"""


rule keep:
    """Gather the rows that are kept in git."""
    input:
        code=command_sources("keep"),
        scores=rules.gather.output.csv,
        layers=expand(rules.probe.output.rows, model=LAYER_MODELS),
        claims=rules.claims.output.csv,
    output:
        metrics="<results>/kept/metrics.json",
        note="<results>/kept/metrics.json.note.json",
        curves="<results>/kept/curves.csv",
        scores="<results>/kept/scores.csv",
        layers="<results>/kept/layers.csv",
        claims="<results>/kept/claims.csv",
    log:
        "<logs>/keep.log",
    benchmark:
        "<benchmarks>/keep.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        folder=subpath(output.metrics, parent=True),
        metric=config["scores"]["primary_metric"],
    shell:
        "python src/embscale keep"
        " --scores {input.scores:q}"
        " --layers {input.layers:q}"
        " --claims {input.claims:q}"
        " --metric {params.metric}"
        " --output {params.folder:q} 2> {log:q}"


rule check:
    """Check the results; the report is made of nothing that has not passed."""
    input:
        code=command_sources("check"),
        results=[
            rules.claims.output.csv,
            rules.layer_claims.output.claims,
            rules.sizes.output.rows,
            rules.compare.output.csv,
            rules.inventory.output.csv,
            rules.numbers.output.variables,
            *expand(rules.draw.output.svg, figure=FIGURE_ROWS),
        ],
        scores=rules.keep.output.scores,
        layers=rules.keep.output.layers,
    output:
        report="<results>/check.json",
        note="<results>/check.json.note.json",
    log:
        "<logs>/check.log",
    benchmark:
        "<benchmarks>/check.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        folder=STUDY,
        tasks=TASKS,
        metrics=group_flags(Metrics, config["scores"]),
        tables=[
            f"{model}={step_of(checkpoint)}={variant}"
            for model, checkpoints in CHECKPOINTS.items()
            for checkpoint in checkpoints
            for variant in [
                "full",
                *(variants(model) if checkpoint == checkpoints[-1] else []),
            ]
        ],
        random=[
            f"{dim}:{seed}"
            for dim in config["scores"]["random"]["dims"]
            for seed in config["scores"]["random"]["seeds"]
        ],
        models=LAYER_MODELS,
    shell:
        "python src/embscale check {input.results:q}"
        " --folder {params.folder:q}"
        " --scores {input.scores:q}"
        " --layers {input.layers:q}"
        " --tasks {params.tasks:q} {params.metrics}"
        " --tables {params.tables:q}"
        " --random {params.random:q}"
        " --layer-models {params.models:q}"
        " --output {output.report:q} 2> {log:q}"
