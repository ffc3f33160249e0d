"""Chapter 5: figures, numbers, report.

Figures are drawn from tidy rows; every number in the text is computed by a rule; the text, kept in
report/, is set beside them in a folder of its own and rendered to one page.
"""

# The rows that each figure shows.
FIGURE_ROWS = {
    "scaling": [rules.gather.output.csv],
    "random_baseline": [rules.gather.output.csv],
    "training": [rules.gather.output.csv],
    "suites": [rules.gather.output.csv],
    "table_geometry": [rules.gather.output.csv],
    "suite_variants": [rules.gather.output.csv],
    "random_tokenizers": [rules.gather.output.csv],
    "layer_accuracy": expand(rules.probe.output.rows, model=LAYER_MODELS),
    "layer_pca": expand(rules.geometry.output.pca, model=LAYER_MODELS),
    "layer_norms": expand(rules.geometry.output.norms, model=LAYER_MODELS),
}
# Which of them: the first three show the ladder, on the texts that it was trained on.
ALL_SCORES = [f"metric={config['scores']['primary_metric']}"]
LADDER_SCORES = [
    *ALL_SCORES,
    f"task={config['corpus']['task']}",
    f"tokenizer={config['tokenizer']['name']}",
]
FIGURE_FILTERS = {
    "scaling": LADDER_SCORES,
    "random_baseline": LADDER_SCORES,
    "training": LADDER_SCORES,
    "suites": ALL_SCORES,
    "table_geometry": LADDER_SCORES,
    "suite_variants": [*ALL_SCORES, f"task={config['claims']['task']}"],
    "random_tokenizers": ALL_SCORES,
}


rule draw:
    """Draw one figure, with the words that stand for it."""
    input:
        code=lambda wildcards: command_sources(
            "draw", f"embscale.figures.{wildcards.figure}"
        ),
        rows=lambda wildcards: FIGURE_ROWS[wildcards.figure],
    output:
        svg="<results>/report/figures/{figure}.svg",
        note="<results>/report/figures/{figure}.svg.note.json",
        partial="<results>/report/figures/{figure}.md",
    log:
        "<logs>/draw/{figure}.log",
    benchmark:
        "<benchmarks>/draw/{figure}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        where=lambda wildcards: flags(
            "--where", FIGURE_FILTERS.get(wildcards.figure, [])
        ),
    shell:
        "python -m embscale draw {wildcards.figure}"
        " --rows {input.rows:q} {params.where}"
        " --svg {output.svg:q}"
        " --partial {output.partial:q}"
        " --image figures/{wildcards.figure}.svg 2> {log:q}"


rule numbers:
    """Compute the numbers and tables that the text quotes."""
    input:
        code=command_sources("numbers"),
        corpus=rules.harvest.output.corpus,
        qrels=rules.harvest.output.qrels,
        scores=rules.gather.output.csv,
        inventory=rules.inventory.output.csv,
        other_tasks=(
            expand(rules.evaluate.output.scores, model=CHECKPOINTS)
            if config["other_tasks"]
            else []
        ),
        probes=expand(rules.probe.output.rows, model=LAYER_MODELS),
        losses=expand(rules.train.output.losses, width=config["ladder"]["widths"]),
        losses_notes=expand(rules.train.output.note, width=config["ladder"]["widths"]),
        kept="<results>/kept/metrics.json",
        recorded=[
            path
            for name in ("scores", "layers")
            if (path := RECORDED / f"{name}.csv").is_file()
        ],
        figures=expand(rules.draw.output.svg, figure=FIGURE_ROWS),
        figure_notes=expand(rules.draw.output.note, figure=FIGURE_ROWS),
    output:
        variables="<results>/report/_variables.yml",
        note="<results>/report/_variables.yml.note.json",
        scores="<results>/report/tables/scores.md",
        tables=expand(
            "<results>/report/tables/{table}.md",
            table=["layers", "ladder", "suites", "other_tasks", "provenance"],
        ),
    log:
        "<logs>/numbers.log",
    benchmark:
        "<benchmarks>/numbers.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        task=subpath(input.corpus, parent=True),
        tables=subpath(output.scores, parent=True),
        study=config["study"],
        where=flags("--where", LADDER_SCORES),
        other_tasks=lambda wildcards, input: flags("--other-tasks", input.other_tasks),
        vocab_size=config["tokenizer"]["vocab_size"],
        texts=config["layers"]["texts"],
        kept=subpath(input.kept, parent=True),
        record=RECORDED,
    shell:
        "python -m embscale numbers"
        " --study {params.study}"
        " --task {params.task:q}"
        " --scores {input.scores:q}"
        " {params.where}"
        " --inventory {input.inventory:q} {params.other_tasks}"
        " --probes {input.probes:q}"
        " --texts {params.texts}"
        " --losses {input.losses:q}"
        " --vocab-size {params.vocab_size}"
        " --kept {params.kept:q}"
        " --recorded {params.record:q}"
        " --figures {input.figures:q}"
        " --variables {output.variables:q}"
        " --tables {params.tables:q} 2> {log:q}"


rule text:
    """Set a file of the text beside the figures and numbers of this study."""
    input:
        "report/{text}",
    output:
        "<results>/report/{text}",
    log:
        "<logs>/text/{text}.log",
    benchmark:
        "<benchmarks>/text/{text}.tsv"
    conda:
        "../envs/embscale.yaml"
    shell:
        "cp {input:q} {output:q} 2> {log:q}"


rule render:
    """Render the text with its figures and numbers to one page."""
    input:
        code=command_sources("render"),
        check="<results>/check.json",
        source="<results>/report/index.qmd",
        project="<results>/report/_quarto.yml",
        references="<results>/report/references.bib",
        variables=rules.numbers.output.variables,
        tables=[
            rules.numbers.output.scores,
            rules.numbers.output.tables,
            rules.claims.output.claims,
            rules.claims.output.tables,
            rules.compare.output.partial,
        ],
        figures=expand(rules.draw.output.svg, figure=FIGURE_ROWS),
        partials=expand(rules.draw.output.partial, figure=FIGURE_ROWS),
    output:
        page="<site>/index.html",
        note="<site>/index.html.note.json",
    log:
        "<logs>/render.log",
    benchmark:
        "<benchmarks>/render.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        inputs=lambda wildcards, input: flags(
            "--input",
            [
                input.project,
                input.references,
                input.variables,
                *input.tables,
                *input.figures,
                *input.partials,
            ],
        ),
    shell:
        "python -m embscale render {input.source:q} {params.inputs}"
        " --output {output.page:q} 2> {log:q}"
