"""Chapter 6: the record.

What is kept of a study in git: tidy tables that one reads the difference of, and a few numbers.  `make record`
copies them to recorded/; the report says how far its results are from those.
"""


rule keep:
    """Gather the rows that are kept in git."""
    input:
        code=command_sources("keep"),
        scores=rules.gather.output.csv,
        estimates=rules.estimates.output.estimates,
        differences=rules.estimates.output.differences,
        layers=expand(rules.probe.output.rows, model=LAYER_MODELS),
        claims=rules.claims.output.csv,
    output:
        metrics="<results>/kept/metrics.json",
        note="<results>/kept/metrics.json.note.json",
        curves="<results>/kept/curves.csv",
        scores="<results>/kept/scores.csv",
        estimates="<results>/kept/estimates.csv",
        differences="<results>/kept/differences.csv",
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
        length=config["scores"]["lengths"][0],
    shell:
        "python src/embscale keep --scores {input.scores:q} --estimates {input.estimates:q}"
        " --differences {input.differences:q} --layers {input.layers:q} --claims {input.claims:q}"
        " --metric {params.metric} --length {params.length} --output {params.folder:q} 2> {log:q}"
