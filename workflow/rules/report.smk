"""Chapter 7: figures, numbers, the check of the results, and the report.

Figures are drawn from tidy rows; every number in the text is computed by a rule; the text, kept in
report/, is set beside them in a folder of its own and rendered to one page.
"""

PROBES = expand(rules.probe.output.rows, model=LAYER_MODELS)
# The rows that each figure shows.
FIGURE_ROWS = {
    "scaling": [rules.estimates.output.estimates],
    "table_controls": [rules.estimates.output.differences],
    "random_baseline": [rules.estimates.output.estimates],
    "training": [
        rules.ladder_answers.output.curves,
        *([SHOWN_ANSWERS / "curves.csv"] if RECORDED_SHOWN else []),
    ],
    "crossings": [SHOWN_ANSWERS / "crossings.csv"],
    "effects": [SHOWN_ANSWERS / "effects.csv"],
    "ladder_fits": [SHOWN_ANSWERS / "fitted.csv"],
    "lengths": [rules.estimates.output.estimates],
    "heldout": [rules.estimates.output.differences],
    "suites": [rules.estimates.output.estimates],
    "table_geometry": [rules.estimates.output.estimates],
    "score_factors": [rules.factors.output.rows],
    "suite_variants": [rules.estimates.output.estimates],
    "random_tokenizers": [rules.estimates.output.estimates],
    "table_metrics": expand(rules.table_metrics.output.rows, model=LADDER),
    "query_frequency": [rules.query_frequency.output.rows],
    "task_correlation": [rules.task_correlation.output.rows],
    "row_movement": expand(rules.table_metrics.output.by_frequency, model=LADDER),
    "row_norms": expand(rules.table_metrics.output.by_frequency, model=LADDER),
    **{
        figure: expand(rules.compare_tables.output.rows, ladder=LADDERS)
        for figure in [
            "similarity_widths",
            "similarity_steps",
            "intrinsic_dimension",
            "undertrained",
        ]
    },
    "static_scaling": [rules.estimates.output.estimates],
    "static_tuning": [
        *expand(rules.tune.output.rows, tuned=config["tuning"]["grids"]),
        rules.estimates.output.estimates,
    ],
    "words_probes": expand(rules.words.output.rows, model=PROBED),
    "words_rare": expand(rules.words.output.rows, model=PROBED),
    "warm_start": expand(
        rules.warm_start.output.rows, seed=config["warm_start"]["seeds"]
    ),
    "layer_accuracy": PROBES,
    "layer_splits": PROBES,
    "layer_controls": PROBES,
    "layer_inputs": PROBES,
    "layer_mean_shift": PROBES,
    "layer_calibration": PROBES,
    "layer_curves": expand(rules.probe.output.curves, model=LAYER_MODELS),
    "layer_confusion": expand(rules.probe.output.confusion, model=LAYER_MODELS),
    "layer_grid": expand(rules.grid.output.rows, model=SETTINGS["grid"]["models"]),
    **{
        f"layer_{part}": expand(rules.ablate.output.rows, model=SETTINGS["base"])
        for part in [
            "contributions",
            "cumulative",
            "importance",
            "masks",
            "stability",
            "prefixes",
            "positions",
            "regularisation",
        ]
    },
    "layer_transfer": expand(rules.transfer.output.rows, model=SETTINGS["base"]),
    "layer_norms": expand(rules.geometry.output.norms, model=LAYER_MODELS),
    "layer_reductions": expand(
        rules.reductions.output.points, model=SETTINGS["pictured"]
    ),
    "layer_structure": expand(rules.geometry.output.structure, model=LAYER_MODELS),
    "layer_spread": expand(rules.geometry.output.structure, model=LAYER_MODELS),
    "layer_scores": [rules.layer_estimates.output.rows],
    "layer_score_steps": [rules.layer_estimates.output.rows],
    "layer_lens": expand(rules.logit_lens.output.rows, model=LENS_MODELS),
    **{
        f"primer_{of_table}": expand(
            rules.primer_of_table.output.rows, of_table=of_table
        )
        for of_table in PRIMER_OF_TABLE
    },
    **{
        f"position_{alone}": expand(rules.primer_alone.output.rows, alone=alone)
        for alone in PRIMER_ALONE
    },
    "position_tables": expand(rules.positions.output.rows, model=POSITION_MODELS),
    "position_schemes": expand(rules.positions.output.rows, model=POSITION_MODELS),
    "position_scores": [rules.position_scores.output.rows],
}
# Of claims, one for each published study.
LEDGERS = ["claims", "layer_claims"]
# Conditions on these rows.  The ladder is shown on the texts that it was trained on, at the primary length.
PRIMARY_LENGTH = config["scores"]["lengths"][0]
# Metrics in tables of scores: the primary one, and beside it how many relevant documents are found at all.
SHOWN_METRICS = [
    config["scores"]["primary_metric"],
    *(
        metric
        for metric in config["scores"]["metrics"]
        if metric.startswith("recall") and metric != config["scores"]["primary_metric"]
    ),
]
ALL_SCORES = [f"metric={config['scores']['primary_metric']}"]
OF_LADDER = [f"tokenizer={config['tokenizer']['name']}"]
MAIN_TASK = [f"task={config['corpus']['task']}"]
AT_LENGTH, OF_ALL_QUERIES = [f"length={PRIMARY_LENGTH}"], ["queries=all"]
LADDER_SCORES = [*ALL_SCORES, *OF_LADDER, *MAIN_TASK, *AT_LENGTH]
FIGURE_FILTERS = {
    "scaling": [*ALL_SCORES, *OF_LADDER, *AT_LENGTH, *OF_ALL_QUERIES],
    "table_controls": [*LADDER_SCORES, *OF_ALL_QUERIES],
    "random_baseline": [*LADDER_SCORES, *OF_ALL_QUERIES],
    "lengths": [*ALL_SCORES, *OF_LADDER, *MAIN_TASK, *OF_ALL_QUERIES],
    "heldout": LADDER_SCORES,
    "suites": [*ALL_SCORES, *AT_LENGTH, *OF_ALL_QUERIES],
    "table_geometry": [*LADDER_SCORES, *OF_ALL_QUERIES],
    "score_factors": ALL_SCORES,
    "layer_scores": ["quantity=score"],
    "layer_score_steps": ["quantity=score"],
    "static_scaling": LADDER_SCORES,
    "static_tuning": LADDER_SCORES,
    "suite_variants": [
        *ALL_SCORES,
        *AT_LENGTH,
        *OF_ALL_QUERIES,
        f"task={config['claims']['task']}",
    ],
    "random_tokenizers": [*ALL_SCORES, *AT_LENGTH, *OF_ALL_QUERIES],
}


rule ladder_tables:
    """Write the tables of the answers about the ladder."""
    input:
        code=command_sources("ladder-tables"),
        answers=[SHOWN_ANSWERS / f"{answer}.csv" for answer in ANSWERS],
    output:
        crossings="<results>/report/tables/ladder_crossings.md",
        note="<results>/report/tables/ladder_crossings.md.note.json",
        tables=[
            f"<results>/report/tables/ladder_{answer}.md"
            for answer in ANSWERS
            if answer != "crossings"
        ],
    log:
        "<logs>/ladder_tables.log",
    benchmark:
        "<benchmarks>/ladder_tables.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        folder=subpath(output.crossings, parent=True),
    shell:
        "python src/embscale ladder-tables {input.answers:q} --tables {params.folder:q} 2> {log:q}"


rule claims_table:
    """Write a ledger of claims as a table, and beside the page as a file to download."""
    input:
        code=command_sources("claims-table"),
        ledger="<results>/{ledger}.csv",
        note="<results>/{ledger}.csv.note.json",
        text=expand(
            "report/{text}", text=[text for text in TEXTS if text.endswith(".qmd")]
        ),
    output:
        table="<results>/report/tables/{ledger}_verdicts.md",
        note="<results>/report/tables/{ledger}_verdicts.md.note.json",
        tallies="<results>/report/tables/{ledger}_tallies.md",
        data="<site>/data/{ledger}.csv",
        data_note="<site>/data/{ledger}.csv.note.json",
    log:
        "<logs>/claims_table/{ledger}.log",
    benchmark:
        "<benchmarks>/claims_table/{ledger}.tsv"
    wildcard_constraints:
        ledger="(layer_)?claims",
    conda:
        "../envs/embscale.yaml"
    shell:
        "python src/embscale claims-table {input.ledger:q} --text {input.text:q} --table {output.table:q}"
        " --tallies {output.tallies:q} --data {output.data:q} --data-note {output.data_note:q} 2> {log:q}"


rule draw:
    """Draw one figure, with its alternative text."""
    input:
        code=lambda wildcards: command_sources(
            "draw", f"embscale.figures.{wildcards.figure}"
        ),
        rows=lambda wildcards: FIGURE_ROWS[wildcards.figure],
    output:
        svg="<results>/report/figures/{figure}.svg",
        phone="<results>/report/figures/{figure}-phone.svg",
        note="<results>/report/figures/{figure}.svg.note.json",
        partial="<results>/report/figures/{figure}.md",
        data="<site>/data/{figure}.csv.gz",
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
        "python src/embscale draw {wildcards.figure} --rows {input.rows:q} {params.where} --svg {output.svg:q}"
        " --partial {output.partial:q} --data {output.data:q} --image figures/{wildcards.figure}.svg 2> {log:q}"


rule numbers:
    """Compute the numbers and tables that the text quotes."""
    input:
        code=command_sources("numbers"),
        corpus=rules.harvest.output.corpus,
        qrels=rules.harvest.output.qrels,
        estimates=rules.estimates.output.estimates,
        differences=rules.estimates.output.differences,
        answers=[SHOWN_ANSWERS / f"{answer}.csv" for answer in [*ANSWERS, "curves"]],
        claims=[rules.claims.output.csv, rules.layer_claims.output.claims],
        inventory=rules.inventory.output.csv,
        other_tasks=(
            expand(rules.evaluate.output.scores, model=PROBED)
            if config["other_tasks"]
            else []
        ),
        probes=expand(rules.probe.output.rows, model=LAYER_MODELS),
        layer_scores=rules.layer_estimates.output.rows,
        primer=[
            *expand(
                rules.primer_of_table.output.rows,
                of_table=["lookup", "gradient", "space", "order"],
            ),
            rules.sizes.output.rows,
        ],
        compared=expand(rules.compare_tables.output.rows, ladder=LADDERS),
        losses=[losses_file(run) for run in RUNS],
        losses_notes=[f"{losses_file(run)}.note.json" for run in RUNS],
        kept=rules.keep.output.metrics,
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
            table=[
                "treatments",
                "lengths",
                "references",
                "layers",
                "ladder",
                "suites",
                "other_tasks",
                "provenance",
            ],
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
        answers_of=config["report"]["beside"] if RECORDED_SHOWN else config["study"],
        where=flags("--where", OF_LADDER),
        metrics=SHOWN_METRICS,
        length=PRIMARY_LENGTH,
        other_tasks=lambda wildcards, input: flags("--other-tasks", input.other_tasks),
        vocab_size=config["tokenizer"]["vocab_size"],
        texts=source_words(SOURCES[MAIN_SOURCE]),
        kept=subpath(input.kept, parent=True),
        record=RECORDED,
    shell:
        "python src/embscale numbers --study {params.study} --task {params.task:q} --estimates {input.estimates:q}"
        " --differences {input.differences:q} {params.where} --metrics {params.metrics} --length {params.length}"
        " --answers {input.answers:q} --answers-of {params.answers_of} --claims {input.claims:q}"
        " --inventory {input.inventory:q} {params.other_tasks} --probes {input.probes:q}"
        " --layer-scores {input.layer_scores:q} --texts {params.texts:q} --primer {input.primer:q}"
        " --compared {input.compared:q} --losses {input.losses:q}"
        " --vocab-size {params.vocab_size} --kept {params.kept:q} --recorded {params.record:q}"
        " --figures {input.figures:q} --variables {output.variables:q} --tables {params.tables:q} 2> {log:q}"


# A result of each kind of job.
MADE = [
    rules.harvest.output.corpus,
    rules.tokenizer.output.tokenizer,
    losses_file(LADDER[-1]),
    *expand(
        rules.score.output.scores,
        task=config["corpus"]["task"],
        model=LADDER[-1],
    ),
    # The widest table of each method.
    *(
        str(table_file(name, "main"))
        for name in {method: name for name, (method, _) in STATIC.items()}.values()
    ),
    *expand(rules.words.output.rows, model=LADDER[-1]),
    *expand(
        rules.states.output.states,
        source=config["layers"]["texts"][0]["name"],
        model=SETTINGS["base"],
    ),
    *expand(
        [
            job.output[0]
            for job in (
                rules.probe,
                rules.grid,
                rules.ablate,
                rules.transfer,
                rules.geometry,
                rules.logit_lens,
            )
        ],
        model=SETTINGS["base"],
    ),
    *expand(rules.reductions.output.points, model=SETTINGS["pictured"][:1]),
    rules.claims.output.csv,
]


rule appendix:
    """Write the tables of the appendix: settings as run, what was not run, and the meaning of columns."""
    input:
        code=command_sources("appendix"),
        # They record the settings; the results themselves may be tensors, which no record brings.
        notes=[f"{result}.note.json" for result in MADE],
        inventory=rules.inventory.output.csv,
        claims=[rules.claims.output.csv, rules.layer_claims.output.claims],
        other_tasks=rules.numbers.input.other_tasks,
        partials=expand(rules.draw.output.partial, figure=FIGURE_ROWS),
        readme="workflow/README.md",
        scores=rules.gather.output.csv,
        probes=expand(rules.probe.output.rows, model=SETTINGS["base"]),
    output:
        settings="<results>/report/tables/settings.md",
        note="<results>/report/tables/settings.md.note.json",
        tables=expand(
            "<results>/report/tables/{table}.md", table=["not_run", "dictionary"]
        ),
    log:
        "<logs>/appendix.log",
    benchmark:
        "<benchmarks>/appendix.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        tables=subpath(output.settings, parent=True),
        other_tasks=lambda wildcards, input: flags("--other-tasks", input.other_tasks),
        left_out=several(
            "--left-out",
            [
                f"{run}={reason}"
                for run, reason in config["ladder"]["left_out"].items()
            ],
        ),
    shell:
        "python src/embscale appendix --notes {input.notes:q} --inventory {input.inventory:q} {params.left_out}"
        " --claims {input.claims:q} {params.other_tasks} --partials {input.partials:q}"
        " --readme {input.readme:q} --scores {input.scores:q} --probes {input.probes:q}"
        " --tables {params.tables:q} 2> {log:q}"


rule check:
    """Check the results; the report is made only of results that pass."""
    input:
        code=command_sources("check"),
        results=[
            rules.claims.output.csv,
            rules.ladder_answers.output.curves,
            rules.layer_claims.output.claims,
            rules.sizes.output.rows,
            rules.compare.output.csv,
            rules.reproduction.output.csv,
            rules.inventory.output.csv,
            rules.numbers.output.variables,
            *expand(rules.draw.output.svg, figure=FIGURE_ROWS),
        ],
        scores=rules.gather.output.csv,
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
        metrics=group_flags(Metrics, config["scores"]),
        lengths=group_flags(Lengths, config["scores"]),
        tables=[
            f"{task}={name}={run}={step_of(checkpoint)}={','.join(expected_variants(task, model, checkpoint))}"
            for task in TASKS
            for model, checkpoints in CHECKPOINTS.items()
            for name, run in [RUNS[model][:2] if model in RUNS else (model, "")]
            for checkpoint in checkpoints
        ],
        random=[
            f"{task}={tokenizer}={width}={','.join(map(str, config['scores']['random']['seeds']))}"
            f"={','.join(['full', *random_variants(task, tokenizer, width)])}"
            for task in TASKS
            for tokenizer in dict.fromkeys(TOKENIZERS.values())
            for width in config["scores"]["random"]["dims"]
        ],
        references=[
            f"{task}={tokenizer}={','.join(REFERENCES)}"
            for task in TASKS
            for tokenizer in dict.fromkeys(TOKENIZERS.values())
        ],
        models=LAYER_MODELS,
    shell:
        "python src/embscale check {input.results:q} --folder {params.folder:q} --scores {input.scores:q}"
        " --layers {input.layers:q} {params.metrics} {params.lengths} --tables {params.tables:q}"
        " --random {params.random:q} --references {params.references:q} --layer-models {params.models:q} --output {output.report:q} 2> {log:q}"


rule text:
    """Copy a file of the text next to the figures and numbers of this study."""
    input:
        "report/{text}",
    output:
        "<results>/report/{text}",
    log:
        "<logs>/text/{text}.log",
    benchmark:
        "<benchmarks>/text/{text}.tsv"
    localrule: True
    conda:
        "../envs/embscale.yaml"
    shell:
        "cp {input:q} {output:q} 2> {log:q}"


rule count_parameters:
    """Count the parameters of the models trained here; the registry has those of the others."""
    input:
        code=command_sources("sizes"),
        files=[
            *(
                file
                for model in LADDER
                for file in [
                    table_file(model, LADDER_CHECKPOINTS[-1]),
                    checkpoint_files(model, LADDER_CHECKPOINTS[-1])[1],
                ]
            ),
            *(table_file(model, "main") for model in STATIC),
        ],
    output:
        csv="<results>/report/sizes.csv",
        note="<results>/report/sizes.csv.note.json",
    log:
        "<logs>/count_parameters.log",
    benchmark:
        "<benchmarks>/count_parameters.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        models=" ".join(
            [
                f"--model ladder {model} {table_file(model, LADDER_CHECKPOINTS[-1])}"
                f" {checkpoint_files(model, LADDER_CHECKPOINTS[-1])[1]}"
                for model in LADDER
            ]
            + [
                f"--model {method} {model} {table_file(model, 'main')}"
                for model, (method, _) in STATIC.items()
            ]
        ),
    shell:
        "python src/embscale sizes {params.models} --output {output.csv:q} 2> {log:q}"


rule query_changes:
    """List the queries of a task that gain and that lose most by training."""
    input:
        code=command_sources("query-changes"),
        scores=[
            *expand(
                rules.score.output.scores,
                model=[model for model in CHECKPOINTS if model not in STATIC],
                allow_missing=True,
            ),
            *expand(
                rules.score_static.output.scores,
                method=config["static"]["methods"],
                allow_missing=True,
            ),
            *expand(
                rules.score_random.output.scores,
                tokenizer=dict.fromkeys(TOKENIZERS.values()),
                width=config["scores"]["random"]["dims"],
                allow_missing=True,
            ),
        ],
        task=lambda wildcards: task_files(wildcards.task),
    output:
        rows="<results>/query_changes/{task}.csv",
        note="<results>/query_changes/{task}.csv.note.json",
    log:
        "<logs>/query_changes/{task}.log",
    benchmark:
        "<benchmarks>/query_changes/{task}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        task=lambda wildcards, input: Path(input.task[0]).parent,
        where=flags("--where", PRIMARY_SCORES),
        listed=group_flags(ListedQueries, config["report"]),
    shell:
        "python src/embscale query-changes {input.scores:q} --beir {params.task:q} {params.where} {params.listed}"
        " --output {output.rows:q} 2> {log:q}"


rule explorer:
    """Make the interactive explorer."""
    input:
        code=command_sources("explorer"),
        scores=rules.gather.output.csv,
        estimates=rules.estimates.output.estimates,
        differences=rules.estimates.output.differences,
        curves=rules.ladder_answers.output.curves,
        facts=[rules.count_parameters.output.csv, rules.sizes.output.rows],
        queries=expand(rules.query_changes.output.rows, task=TASKS),
        points=expand(rules.reductions.output.points, model=SETTINGS["pictured"]),
        confusion=expand(rules.probe.output.confusion, model=LAYER_MODELS),
        layers=expand(rules.probe.output.rows, model=LAYER_MODELS),
        tokenizer=rules.tokenizer.output.tokenizer,
    output:
        page="<site>/explorer.html",
        note="<site>/explorer.html.note.json",
    log:
        "<logs>/explorer.log",
    benchmark:
        "<benchmarks>/explorer.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        title=f"Explorer of the study “{config['study']}”",
        metric=config["scores"]["primary_metric"],
        length=PRIMARY_LENGTH,
        tokenizer=subpath(input.tokenizer, parent=True),
    shell:
        "python src/embscale explorer --title {params.title:q} --metric {params.metric}"
        " --length {params.length} --scores {input.scores:q} --estimates {input.estimates:q}"
        " --differences {input.differences:q} --curves {input.curves:q} --facts {input.facts:q}"
        " --queries {input.queries:q} --points {input.points:q} --confusion {input.confusion:q} --layers {input.layers:q}"
        " --tokenizer ladder={params.tokenizer:q}"
        " --link Report=index.html --link 'Chapter by chapter=chapters/index.html' --output {output.page:q} 2> {log:q}"


rule render:
    """Render the text with its figures and numbers to the main page, and to pages by chapter with the appendix.

    They lie apart from those that are read until all are made: Snakemake removes a job's outputs before it starts.
    """
    input:
        code=[
            path
            for command in ("project", "render", "chapters")
            for path in command_sources(command)
        ],
        check=rules.check.output.report,
        source=expand(rules.text.output, text="index.qmd"),
        text=expand(
            rules.text.output, text=[text for text in TEXTS if text != "index.qmd"]
        ),
        variables=rules.numbers.output.variables,
        tables=[
            rules.numbers.output.scores,
            rules.numbers.output.tables,
            rules.sizes.output.partial,
            rules.words_table.output.partial,
            rules.worked_example.output.partial,
            expand(rules.claims_table.output.table, ledger=LEDGERS),
            expand(rules.claims_table.output.tallies, ledger=LEDGERS),
            rules.claims.output.tables,
            rules.ladder_tables.output,
            rules.layer_claims.output.tables,
            rules.compare.output.partial,
            rules.reproduction.output.partial,
            rules.appendix.output.settings,
            rules.appendix.output.tables,
        ],
        figures=[
            *expand(rules.draw.output.svg, figure=FIGURE_ROWS),
            *expand(rules.draw.output.phone, figure=FIGURE_ROWS),
        ],
        partials=expand(rules.draw.output.partial, figure=FIGURE_ROWS),
    output:
        page="<results>/page/index.html",
        note="<results>/page/index.html.note.json",
        chapters=directory("<results>/page/chapters"),
        # The note of the folder: for a folder, Snakemake compares only the time, which a fetch or a copy changes.
        chapters_note="<results>/page/chapters.json",
        project=[
            "<results>/report/_metadata.yml",
            "<results>/report/_metadata.yml.note.json",
            directory("<results>/report/design"),
        ],
    log:
        "<logs>/render.log",
    benchmark:
        "<benchmarks>/render.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        renderer=config["report"]["renderer"],
        # A page made by hand lies in the folder _page of the text; its links lead from there.
        site=os.path.relpath(SITE, STUDY / "report/_page"),
        inputs=lambda wildcards, input: flags(
            "--input",
            [
                *input.text,
                input.variables,
                *input.tables,
                *input.figures,
                *input.partials,
            ],
        ),
        # Evaluated when the page is made: as a value here, it would make the page outdated with every commit.  Of this
        # folder's own repository: git alone would take the one around a copy that has none.
        commit="\"$(git --git-dir=.git describe --always --dirty 2> /dev/null || echo 'not known')\"",
        # The day of that commit, as results carry no clock.
        date='--date="$(git --git-dir=.git log -1 --format=%cs 2> /dev/null)"',
    shell:
        "exec 2> {log:q};"
        " python src/embscale project {input.source:q} --commit {params.commit} {params.date} --data {params.site}/data"
        " --explorer {params.site}/explorer.html --link Explorer={params.site}/explorer.html"
        " --link 'Chapter by chapter={params.site}/chapters/index.html';"
        " python src/embscale render {input.source:q} {params.inputs} --renderer {params.renderer}"
        " --commit {params.commit} {params.date} --appendix chapters --data data"
        " --explorer explorer.html --link Explorer=explorer.html"
        " --link 'Chapter by chapter=chapters/index.html' --output {output.page:q};"
        " python src/embscale chapters {input.source:q} {params.inputs} --commit {params.commit} {params.date} --data ../data"
        " --explorer ../explorer.html --link Explorer=../explorer.html --link 'Main page=../index.html' --output {output.chapters:q};"
        " cp {output.chapters:q}/index.html.note.json {output.chapters_note:q}"


rule paper:
    """Set the report as a paper: a PDF, or a text for a word processor."""
    input:
        code=command_sources("paper"),
        source=rules.render.input.source,
        text=rules.render.input.text,
        variables=rules.render.input.variables,
        tables=rules.render.input.tables,
        figures=expand(rules.draw.output.svg, figure=FIGURE_ROWS),
        partials=rules.render.input.partials,
        check=rules.check.output.report,
    output:
        paper="<results>/report.{form}",
        note="<results>/report.{form}.note.json",
    log:
        "<logs>/paper_{form}.log",
    benchmark:
        "<benchmarks>/paper_{form}.tsv"
    wildcard_constraints:
        form="pdf|odt",
    conda:
        "../envs/embscale.yaml"
    params:
        inputs=lambda wildcards, input: flags(
            "--input",
            [
                *input.text,
                input.variables,
                *input.tables,
                *input.figures,
                *input.partials,
            ],
        ),
        commit=rules.render.params.commit,
        date=rules.render.params.date,
    shell:
        "python src/embscale paper {input.source:q} {params.inputs} --commit {params.commit} {params.date}"
        " --output {output.paper:q} 2> {log:q}"


rule publish:
    """Publish a finished page and its chapters."""
    input:
        page=rules.render.output.page,
        note=rules.render.output.note,
        chapters_note=rules.render.output.chapters_note,
    output:
        page="<site>/index.html",
        note="<site>/index.html.note.json",
        chapters=directory("<site>/chapters"),
    log:
        "<logs>/publish.log",
    benchmark:
        "<benchmarks>/publish.tsv"
    localrule: True
    conda:
        "../envs/embscale.yaml"
    params:
        chapters=lambda wildcards, input: str(Path(input.chapters_note).with_suffix("")),
    shell:
        "exec 2> {log:q};"
        " cp {input.page:q} {output.page:q};"
        " cp {input.note:q} {output.note:q};"
        " mkdir -p {output.chapters:q};"
        " cp -R {params.chapters:q}/. {output.chapters:q}"


rule docs:
    """Bring the generated parts of the documentation up to date; run by hand, as git keeps them."""
    input:
        code=[
            "workflow/lib/rulegraph.py",
            "workflow/lib/readme.py",
            "workflow/lib/reference.py",
            *sorted(str(path) for path in Path("src/embscale").rglob("*.py")),
        ],
        rules=[
            "Snakefile",
            *sorted(str(path) for path in Path("workflow/rules").glob("*.smk")),
        ],
        # The recorded ladder's panel is in it.
        figure=expand(rules.draw.output.svg, figure="training"),
        described=expand(rules.draw.output.partial, figure="training"),
        variables=rules.numbers.output.variables,
    output:
        rules="docs/rules.md",
        figure="docs/training.svg",
        reference=[
            "workflow/schema/params.schema.json",
            "docs/parameters.md",
            "src/embscale/README.md",
        ],
    log:
        "<logs>/docs.log",
    benchmark:
        "<benchmarks>/docs.tsv"
    conda:
        "../envs/embscale.yaml"
    shell:
        "exec 2> {log:q};"
        " snakemake --rulegraph mermaid-js --nolock | python workflow/lib/rulegraph.py {output.rules:q};"
        " python workflow/lib/reference.py {output.reference:q};"
        " cp {input.figure:q} {output.figure:q};"
        " python workflow/lib/readme.py {input.variables:q} {input.described:q} README.md"
