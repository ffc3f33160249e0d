"""Chapter 1: texts.

Docstrings of installed packages become a retrieval task in the BEIR format; a tokenizer is trained
on them, and every text is tokenised once for all that follows.
"""


rule harvest:
    """Read the docstrings of {params.packages}."""
    input:
        code=command_sources("harvest"),
    output:
        corpus="<results>/corpus/corpus.jsonl.gz",
        note="<results>/corpus/corpus.jsonl.gz.note.json",
        queries="<results>/corpus/queries.jsonl",
        qrels="<results>/corpus/qrels/test.tsv",
    params:
        folder="<results>/corpus",
        packages=flags(
            "--package",
            [f"{name}=={version}" for name, version in config["corpus"]["packages"].items()],
        ),
        task=config["corpus"]["task"],
        min_characters=config["corpus"]["min_characters"],
        heldout_fraction=config["corpus"]["heldout_fraction"],
        seed=config["corpus"]["seed"],
        sha256=config["corpus"]["sha256"],
    log:
        "<logs>/harvest.log",
    benchmark:
        "<benchmarks>/harvest.tsv"
    conda:
        "../envs/embscale.yaml"
    shell:
        "python -m embscale harvest {params.packages}"
        " --min-characters {params.min_characters}"
        " --heldout-fraction {params.heldout_fraction}"
        " --seed {params.seed}"
        " --sha256 {params.sha256}"
        " --output {params.folder:q} 2> {log:q}"
