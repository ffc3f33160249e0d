"""Chapter 1: texts.

Docstrings and functions of installed packages become retrieval tasks in the BEIR format, and a tokenizer is
trained on the docstrings.  The texts of every task are tokenised once with each tokenizer, for all that follows.
"""


rule harvest:
    """Read the docstrings and functions of the pinned packages; sources are parsed, not executed."""
    input:
        code=command_sources("harvest"),
    output:
        corpus="<task>/corpus.jsonl.gz",
        note="<task>/corpus.jsonl.gz.note.json",
        queries="<task>/queries.jsonl",
        qrels="<task>/qrels/test.tsv",
        dev="<task>/qrels/dev.tsv",
        functions="<code_task>/corpus.jsonl.gz",
        function_queries="<code_task>/queries.jsonl",
        function_qrels="<code_task>/qrels/test.tsv",
        function_dev="<code_task>/qrels/dev.tsv",
    log:
        "<logs>/harvest.log",
    benchmark:
        "<benchmarks>/harvest.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        folder=subpath(output.corpus, parent=True),
        functions=subpath(output.functions, parent=True),
        harvest=group_flags(Harvest, config["corpus"]),
    shell:
        "python src/embscale harvest {params.harvest} --functions {params.functions:q}"
        " --output {params.folder:q} 2> {log:q}"


rule tokenizer:
    """Train a byte-level BPE tokenizer on the documents that are not held out."""
    input:
        code=command_sources("tokenizer"),
        corpus=rules.harvest.output.corpus,
    output:
        tokenizer="<results>/tokenizer/tokenizer.json",
        config="<results>/tokenizer/tokenizer_config.json",
        note="<results>/tokenizer/tokenizer.json.note.json",
    log:
        "<logs>/tokenizer.log",
    benchmark:
        "<benchmarks>/tokenizer.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        task=subpath(input.corpus, parent=True),
        folder=subpath(output.tokenizer, parent=True),
        vocabulary=VOCABULARY,
    shell:
        "python src/embscale tokenizer {params.task:q} {params.vocabulary}"
        " --output {params.folder:q} 2> {log:q}"


rule tokenize:
    """Turn every document and query of a task into the token ids of a tokenizer, once."""
    input:
        code=command_sources("tokenize"),
        task=lambda wildcards: task_files(wildcards.task),
        tokenizer=lambda wildcards: tokenizer_file(wildcards.tokenizer),
    output:
        tokens="<results>/tokens/{task}/{tokenizer}.safetensors",
        note="<results>/tokens/{task}/{tokenizer}.safetensors.note.json",
    log:
        "<logs>/tokenize/{task}-{tokenizer}.log",
    benchmark:
        "<benchmarks>/tokenize/{task}-{tokenizer}.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        task=lambda wildcards: task_files(wildcards.task)[0].parent,
        folder=lambda wildcards: tokenizer_file(wildcards.tokenizer).parent,
        tokenisation=group_flags(Tokenisation, config["tokenizer"]),
    shell:
        "python src/embscale tokenize {params.task:q} --tokenizer {params.folder:q} {params.tokenisation}"
        " --output {output.tokens:q} 2> {log:q}"
