"""Chapter 5: words.

Static embeddings trained on the ladder's own tokens are scored like any other table, by the rules of
chapter 3; what every table knows about words is probed; and a model is trained from tables of several kinds.
"""

# Tokens that a model sees, so that a static table sees as many.
TOKENS_SEEN = (
    config["ladder"]["steps"] * config["ladder"]["batch"] * config["ladder"]["context"]
)

if config["warm_start"]["table"] not in STATIC:
    raise WorkflowError(
        f"warm_start.table: {config['warm_start']['table']} is none of the static tables; "
        f"there are {', '.join(STATIC)}"
    )


rule static:
    """Train a static embedding table on the tokens that a model of the ladder sees."""
    input:
        code=command_sources("static"),
        corpus=rules.harvest.output.corpus,
        tokens=expand(
            rules.tokenize.output.tokens,
            task=config["corpus"]["task"],
            tokenizer=config["tokenizer"]["name"],
        ),
        tokenizer=rules.tokenizer.output.tokenizer,
    output:
        table="<results>/static/{static}.safetensors",
        note="<results>/static/{static}.safetensors.note.json",
    log:
        "<logs>/static/{static}.log",
    benchmark:
        "<benchmarks>/static/{static}.tsv"
    conda:
        "../envs/embscale.yaml"
    threads: 1
    params:
        task=subpath(input.corpus, parent=True),
        tokenizer=subpath(input.tokenizer, parent=True),
        method=lambda wildcards: STATIC[wildcards.static][0],
        dim=lambda wildcards: STATIC[wildcards.static][1],
        vocabulary=VOCABULARY,
        max_tokens=TOKENS_SEEN,
        order_seed=config["ladder"]["seed"],
        seed=group_flags(StaticSeed, config["static"]),
        settings=lambda wildcards: method_flags(STATIC[wildcards.static][0]),
    shell:
        "python src/embscale static {params.method}"
        " --corpus {params.task:q}"
        " --tokens {input.tokens:q}"
        " --tokenizer {params.tokenizer:q}"
        " --max-tokens {params.max_tokens}"
        " --order-seed {params.order_seed}"
        " --dim {params.dim}"
        " {params.vocabulary} {params.settings} {params.seed}"
        " --threads {threads}"
        " --output {output.table:q} 2> {log:q}"


rule words:
    """Probe what a model's last table knows about words."""
    input:
        code=command_sources("words"),
        table=lambda wildcards: table_file(
            wildcards.model, CHECKPOINTS[wildcards.model][-1]
        ),
        tokenizer=lambda wildcards: tokenizer_file(TOKENIZERS[wildcards.model]),
        # The corpus says how frequent words are, whatever the tokenizer.
        tokens=lambda wildcards: expand(
            rules.tokenize.output.tokens,
            task=config["corpus"]["task"],
            tokenizer=TOKENIZERS[wildcards.model],
        ),
        sets=[*config["words"]["analogies"], *config["words"]["similarity"]],
    output:
        rows="<results>/words/{model}.csv",
        note="<results>/words/{model}.csv.note.json",
    log:
        "<logs>/words/{model}.log",
    benchmark:
        "<benchmarks>/words/{model}.tsv"
    conda:
        "../envs/embscale.yaml"
    threads: 1
    params:
        tokenizer=subpath(input.tokenizer, parent=True),
        table=lambda wildcards, input: f"{step_of(CHECKPOINTS[wildcards.model][-1])}={input.table}",
        words=group_flags(Words, config["words"]),
        suite=lambda wildcards: SUITES[wildcards.model],
    shell:
        "python src/embscale words {params.table:q}"
        " --tokenizer {params.tokenizer:q} {params.words}"
        " --tokens {input.tokens:q}"
        " --suite {params.suite}"
        " --model {wildcards.model}"
        " --threads {threads}"
        " --output {output.rows:q} 2> {log:q}"


rule words_table:
    """Set the probes of the ladder's widest model beside their coverage, chance and random tables."""
    input:
        code=command_sources("words-table"),
        rows=f"<results>/words/{LADDER[-1]}.csv",
    output:
        partial="<results>/report/tables/words.md",
        note="<results>/report/tables/words.md.note.json",
    log:
        "<logs>/words_table.log",
    benchmark:
        "<benchmarks>/words_table.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        model=LADDER[-1],
    shell:
        "python src/embscale words-table {input.rows:q}"
        " --model {params.model}"
        " --output {output.partial:q} 2> {log:q}"


rule warm_start:
    """Train a model that starts from a static table, or from random ones, with one seed."""
    input:
        code=command_sources("warm-start"),
        task=task_files(config["corpus"]["task"]),
        tokens=rules.static.input.tokens,
        tokenizer=rules.tokenizer.output.tokenizer,
        table=table_file(config["warm_start"]["table"], "main"),
    output:
        rows="<results>/warm_start/seed{seed}.csv",
        note="<results>/warm_start/seed{seed}.csv.note.json",
    log:
        "<logs>/warm_start/seed{seed}.log",
    benchmark:
        "<benchmarks>/warm_start/seed{seed}.tsv"
    conda:
        "../envs/embscale.yaml"
    # One thread, as for every model.
    threads: 1
    params:
        task=lambda wildcards, input: Path(input.task[0]).parent,
        tokenizer=subpath(input.tokenizer, parent=True),
        vocabulary=VOCABULARY,
        recipe=RECIPE,
        runs=group_flags(WarmRuns, config["warm_start"]),
        metric=config["scores"]["primary_metric"],
        bootstrap=BOOTSTRAP,
    shell:
        "python src/embscale warm-start {input.table:q} {params.runs}"
        " --corpus {params.task:q}"
        " --tokens {input.tokens:q}"
        " --tokenizer {params.tokenizer:q}"
        " {params.vocabulary} {params.recipe}"
        " --seed {wildcards.seed}"
        " --threads {threads}"
        " --metric {params.metric} {params.bootstrap}"
        " --output {output.rows:q} 2> {log:q}"
