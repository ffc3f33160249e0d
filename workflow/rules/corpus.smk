"""Chapter 1: texts.

Docstrings of installed packages become a retrieval task in the BEIR format; a tokenizer is trained
on them, and every text is tokenised once for all that follows.
"""


rule harvest:
    """Read the docstrings of the pinned packages; sources are parsed, not executed."""
    input:
        code=command_sources("harvest"),
    output:
        corpus="<task>/corpus.jsonl.gz",
        note="<task>/corpus.jsonl.gz.note.json",
        queries="<task>/queries.jsonl",
        qrels="<task>/qrels/test.tsv",
    log:
        "<logs>/harvest.log",
    benchmark:
        "<benchmarks>/harvest.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        folder=subpath(output.corpus, parent=True),
        packages=flags("--package", config["corpus"]["packages"]),
        min_characters=config["corpus"]["min_characters"],
        heldout_fraction=config["corpus"]["heldout_fraction"],
        seed=config["corpus"]["seed"],
        sha256=config["corpus"]["sha256"],
    shell:
        "python -m embscale harvest {params.packages}"
        " --min-characters {params.min_characters}"
        " --heldout-fraction {params.heldout_fraction}"
        " --seed {params.seed}"
        " --sha256 {params.sha256}"
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
        vocab_size=config["tokenizer"]["vocab_size"],
    shell:
        "python -m embscale tokenizer {params.task:q}"
        " --vocab-size {params.vocab_size}"
        " --output {params.folder:q} 2> {log:q}"


rule tokenize:
    """Turn every document and query into token ids, once."""
    input:
        code=command_sources("tokenize"),
        corpus=rules.harvest.output.corpus,
        queries=rules.harvest.output.queries,
        qrels=rules.harvest.output.qrels,
        tokenizer=rules.tokenizer.output.tokenizer,
    output:
        tokens="<results>/tokens.safetensors",
        note="<results>/tokens.safetensors.note.json",
    log:
        "<logs>/tokenize.log",
    benchmark:
        "<benchmarks>/tokenize.tsv"
    conda:
        "../envs/embscale.yaml"
    params:
        task=subpath(input.corpus, parent=True),
        folder=subpath(input.tokenizer, parent=True),
        max_length=config["tokenizer"]["max_length"],
        special_tokens=config["tokenizer"]["special_tokens"],
    shell:
        "python -m embscale tokenize {params.task:q}"
        " --tokenizer {params.folder:q}"
        " --max-length {params.max_length}"
        " --special-tokens {params.special_tokens}"
        " --output {output.tokens:q} 2> {log:q}"
