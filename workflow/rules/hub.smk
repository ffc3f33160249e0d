"""Chapter 0: downloads from the hub, each at its pinned commit.

They run beside Snakemake itself, as nodes of a cluster often have no internet, and again where the hub does not answer.
Nothing here runs in the default study.  Outputs that are there already are looked at again, not fetched
again, when the code that fetched them has changed.
"""


rule fetch_table:
    """Fetch only the input embedding table of a checkpoint."""
    input:
        code=command_sources("extract"),
    output:
        table=update(HUB / "tables/{model}/{checkpoint}.safetensors"),
        note=update(HUB / "tables/{model}/{checkpoint}.safetensors.note.json"),
    log:
        "<logs>/fetch_table/{model}-{checkpoint}.log",
    benchmark:
        "<benchmarks>/fetch_table/{model}-{checkpoint}.tsv"
    retries: 2
    localrule: True
    conda:
        "../envs/embscale.yaml"
    resources:
        downloads=1,
    params:
        checkpoint=lambda wildcards: shlex.quote(fetched(wildcards).source),
        subfolder=lambda wildcards: shlex.quote(
            fetched(wildcards).checkpoint.subfolder or ""
        ),
        tensor=lambda wildcards: (
            flags("--tensor", [fetched(wildcards).checkpoint.tensor])
            if fetched(wildcards).checkpoint.tensor
            else ""
        ),
        max_table_gb=config["hub"]["max_table_gb"],
        held="",
    shell:
        "python src/embscale extract {params.checkpoint} {params.held}"
        " --subfolder {params.subfolder} {params.tensor} --max-table-gb {params.max_table_gb}"
        " --output {output.table:q} 2> {log:q}"


use rule fetch_table as fetch_other_table with:
    output:
        table=update(HUB / "tables/{model}/{checkpoint}.{held}.safetensors"),
        note=update(HUB / "tables/{model}/{checkpoint}.{held}.safetensors.note.json"),
    log:
        "<logs>/fetch_table/{model}-{checkpoint}-{held}.log",
    benchmark:
        "<benchmarks>/fetch_table/{model}-{checkpoint}-{held}.tsv"
    params:
        checkpoint=rules.fetch_table.params.checkpoint,
        subfolder=rules.fetch_table.params.subfolder,
        # The registry names the input table's tensor only.
        tensor=lambda wildcards: (
            rules.fetch_table.params.tensor(wildcards)
            if wildcards.held == "effective"
            else ""
        ),
        max_table_gb=rules.fetch_table.params.max_table_gb,
        held=lambda wildcards: HELD_FLAGS[wildcards.held],


rule fetch_tokenizer:
    """Fetch a tokenizer and save it in a common format."""
    input:
        code=command_sources("fetch-tokenizer"),
    output:
        tokenizer=HUB / "tokenizers/{tokenizer}/tokenizer.json",
        config=HUB / "tokenizers/{tokenizer}/tokenizer_config.json",
        note=HUB / "tokenizers/{tokenizer}/tokenizer.json.note.json",
    log:
        "<logs>/fetch_tokenizer/{tokenizer}.log",
    benchmark:
        "<benchmarks>/fetch_tokenizer/{tokenizer}.tsv"
    retries: 2
    localrule: True
    conda:
        "../envs/embscale.yaml"
    resources:
        downloads=1,
    params:
        tokenizer=lambda wildcards: next(
            address(p.checkpoint.tokenizer_repo, p.checkpoint.tokenizer_commit)
            for p in FETCHED.values()
            if p.checkpoint.tokenizer == wildcards.tokenizer
        ),
        folder=subpath(output.tokenizer, parent=True),
    shell:
        "python src/embscale fetch-tokenizer {params.tokenizer} --output {params.folder:q} 2> {log:q}"


rule fetch_checkpoint:
    """Fetch a whole checkpoint, for its hidden states."""
    input:
        code=command_sources("fetch-checkpoint"),
    output:
        config=HUB / "checkpoints/{model}/{checkpoint}/config.json",
        note=HUB / "checkpoints/{model}/{checkpoint}/config.json.note.json",
    log:
        "<logs>/fetch_checkpoint/{model}-{checkpoint}.log",
    benchmark:
        "<benchmarks>/fetch_checkpoint/{model}-{checkpoint}.tsv"
    retries: 2
    localrule: True
    conda:
        "../envs/embscale.yaml"
    resources:
        downloads=1,
    params:
        checkpoint=lambda wildcards: shlex.quote(fetched(wildcards).source),
        subfolder=lambda wildcards: shlex.quote(
            fetched(wildcards).checkpoint.subfolder or ""
        ),
        folder=subpath(output.config, parent=True),
    shell:
        "python src/embscale fetch-checkpoint {params.checkpoint} --subfolder {params.subfolder}"
        " --output {params.folder:q} 2> {log:q}"


rule fetch_task:
    """Fetch a retrieval task of MTEB, at the revision that MTEB pins."""
    input:
        code=command_sources("fetch-task"),
    output:
        corpus=HUB / "tasks/{task}/corpus.jsonl.gz",
        note=HUB / "tasks/{task}/corpus.jsonl.gz.note.json",
        queries=HUB / "tasks/{task}/queries.jsonl",
        qrels=HUB / "tasks/{task}/qrels/test.tsv",
    log:
        "<logs>/fetch_task/{task}.log",
    benchmark:
        "<benchmarks>/fetch_task/{task}.tsv"
    retries: 2
    localrule: True
    conda:
        "../envs/embscale.yaml"
    resources:
        downloads=1,
    params:
        folder=subpath(output.corpus, parent=True),
    shell:
        "python src/embscale fetch-task {wildcards.task} --output {params.folder:q} 2> {log:q}"


rule fetch_datasets:
    """Fetch the data sets of a task of another kind than retrieval."""
    input:
        code=command_sources("fetch-datasets"),
    output:
        fetched=HUB / "other_tasks/{other_task}.json",
        note=HUB / "other_tasks/{other_task}.json.note.json",
    log:
        "<logs>/fetch_datasets/{other_task}.log",
    benchmark:
        "<benchmarks>/fetch_datasets/{other_task}.tsv"
    retries: 2
    localrule: True
    conda:
        "../envs/embscale.yaml"
    resources:
        downloads=1,
    params:
        datasets=DATASETS,
    shell:
        "python src/embscale fetch-datasets {wildcards.other_task:q} --datasets {params.datasets:q}"
        " --output {output.fetched:q} 2> {log:q}"


rule fetch_texts:
    """Fetch the texts of a data set."""
    input:
        code=command_sources("fetch-texts"),
    output:
        texts=HUB / "texts/{texts}.jsonl.gz",
        note=HUB / "texts/{texts}.jsonl.gz.note.json",
    log:
        "<logs>/fetch_texts/{texts}.log",
    benchmark:
        "<benchmarks>/fetch_texts/{texts}.tsv"
    retries: 2
    localrule: True
    conda:
        "../envs/embscale.yaml"
    resources:
        downloads=1,
    params:
        dataset=lambda wildcards: address(
            config["texts"][wildcards.texts]["dataset"],
            config["texts"][wildcards.texts]["revision"],
        ),
        subset=lambda wildcards: config["texts"][wildcards.texts]["subset"],
        split=lambda wildcards: config["texts"][wildcards.texts]["split"],
        column=lambda wildcards: config["texts"][wildcards.texts]["column"],
    shell:
        "python src/embscale fetch-texts {params.dataset} --subset {params.subset:q} --split {params.split:q}"
        " --column {params.column:q} --output {output.texts:q} 2> {log:q}"


rule inventory:
    """List every published checkpoint of the study and whether it is used."""
    input:
        code=command_sources("inventory"),
        registry=config["hub"]["registry"],
        pins=config["hub"]["pins"],
    output:
        csv="<results>/inventory.csv",
        note="<results>/inventory.csv.note.json",
    log:
        "<logs>/inventory.log",
    benchmark:
        "<benchmarks>/inventory.tsv"
    localrule: True
    conda:
        "../envs/embscale.yaml"
    params:
        suites=config["suites"],
        layer_suites=config["layers"]["suites"],
        local_paths=[
            f"{model}={path}" for model, path in config["hub"]["local_paths"].items()
        ],
        token="--token" if TOKEN else "",
        limits=group_flags(Limits, config["hub"]),
    shell:
        "python src/embscale inventory --suites {params.suites:q} --layer-suites {params.layer_suites:q}"
        " --local-paths {params.local_paths:q} --registry {input.registry:q}"
        " --pins {input.pins:q} {params.token} {params.limits} --output {output.csv:q} 2> {log:q}"
