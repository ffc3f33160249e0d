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
        "python src/embscale keep --scores {input.scores:q} --layers {input.layers:q} --claims {input.claims:q}"
        " --metric {params.metric} --output {params.folder:q} 2> {log:q}"
