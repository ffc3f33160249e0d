"""The study: suites -> checkpoints -> tables -> scores, texts -> hidden states -> probes, both -> report."""

import os
import re
import shlex
import sys
import time
from pathlib import Path

from snakemake.utils import min_version

min_version("9.17")

# The folder of this file, also if another Snakefile imports it as a module.
ROOT = Path(workflow.current_basedir)
sys.path[:0] = [str(ROOT / folder) for folder in ("src", "workflow/lib")]

try:
    import yaml
    from console import show_progress
    from embscale.errors import EmbscaleError
    from embscale.checkpoints.families import ENCODERS
    from embscale.parameters.checking import ParameterError, read_yaml
    from embscale.parameters.corpus import Harvest, Tokenisation, Vocabulary
    from embscale.parameters.flags import line as group_flags
    from embscale.parameters.layers import (
        Ablations,
        Epochs,
        Fits,
        Forward,
        Geometry,
        GridConditions,
        LogitLens,
        OneSplit,
        Positions,
        Probe,
        Reductions,
        Running,
        Sample,
    )
    from embscale.parameters.primer import PositionRows, PositionSeeds, Primer
    from embscale.parameters.runs import ladders, learned, runs as runs_of, tuned_run
    from embscale.parameters.schema import group_of
    from embscale.parameters.scores import (
        Bootstrap,
        ClusterSeed,
        Comparison,
        Lengths,
        Margins,
        Metrics,
        Shuffling,
        Words,
    )
    from embscale.parameters.study import Limits, ListedQueries, check_study
    from embscale.parameters.training import (
        LANGUAGE_MODEL,
        METHODS,
        Grid,
        Length,
        Recipe,
        StaticSeed,
        Steps,
        Trainer,
        WarmRuns,
    )
    from embscale.checkpoints.suites import check_pinned, has_token, plan_study
    from embscale.claims import published_cells
    from embscale.planning.models import grid_sample
    from embscale.rows.spread import evenly
    from guards import (
        drop_conda_if_missing,
        failures,
        isolate_jobs,
        require_packages,
        stop_before_the_disk_is_full,
        stop_without_quarto,
        uses_slurm,
    )
    from locks import RunLock
    from main_process import Handed, before_graph, changes_results, look_when_jobs_end
    from memory import outdate, unpack
    from reconcile import reconcile
    from snakemake.logging import logger
    from summary import of_dag
except ModuleNotFoundError as error:
    raise WorkflowError(
        f"{sys.executable}: the Python that runs Snakemake lacks {error.name}; "
        "run make report, which sets up an environment of its own, or install it there"
    ) from None

show_progress(workflow)
drop_conda_if_missing(workflow)
try:
    isolate_jobs(workflow, ROOT)
except ValueError as error:
    raise WorkflowError(str(error)) from None


configfile: "params.yaml"


try:
    for file in dict.fromkeys(map(Path, workflow.configfiles)):
        read_yaml(file)  # of a key given twice Snakemake takes the last
    check_study(config)
except ParameterError as error:
    raise WorkflowError(error) from None


# The page of the study in params.yaml lies at the top; no other study can have its name, or a page in its place.
DEFAULTS = yaml.load(
    (ROOT / "params.yaml").read_text("utf-8"),
    getattr(yaml, "CSafeLoader", yaml.SafeLoader),  # the former is ten times as fast
)
DEFAULT_STUDY = DEFAULTS["study"]
if config["study"] == DEFAULT_STUDY and config != DEFAULTS:
    raise WorkflowError(
        f"other parameters than those of params.yaml, under the name of its study, {DEFAULT_STUDY}: they would replace "
        "its results; give these a name of their own (study: NAME in the overlay)"
    )
STARTED = time.time()
PAGE = ("index.html", "index.html.note.json")
SITE = (
    "report/_site"
    if config["study"] == DEFAULT_STUDY
    else f"report/_site/studies/{config['study']}"
)


pathvars:
    results=f"results/{config['study']}",
    task=f"results/{config['study']}/tasks/{config['corpus']['task']}",
    code_task=f"results/{config['study']}/tasks/{config['corpus']['code_task']}",
    logs=f"logs/{config['study']}",
    benchmarks=f"results/{config['study']}/benchmarks",
    site=SITE,


# What jobs of a run take from its main process, wherever they run.
HANDED = Handed(config, main=workflow.is_main_process)
command_sources = HANDED.command_sources


onstart:
    require_packages(workflow, ROOT)
    HANDED.hand_down()
    if uses_slurm(workflow):
        RunLock().slurm.begin()
    stop_without_quarto(workflow.dag, config["report"]["renderer"])
    stop_before_the_disk_is_full(workflow.dag, config, PLAN)
    outdate(
        config["study"],
        [output for job in workflow.dag.needrun_jobs() for output in job.output],
    )
    for planned in PLAN:
        if not planned.available:
            print(
                f"left out: {planned.checkpoint.model}: {planned.reason}",
                file=sys.stderr,
            )


# Through Snakemake's logger, which keeps messages in order.
onsuccess:
    RunLock().slurm.end()
    logger.info(of_dag(workflow.dag, STARTED))


onerror:
    logger.info(of_dag(workflow.dag, STARTED))
    logger.error("\n".join(failures(log)))


include: "workflow/rules/common.smk"


before_graph(workflow, settle)


include: "workflow/rules/hub.smk"
include: "workflow/rules/texts.smk"
include: "workflow/rules/training.smk"
include: "workflow/rules/scores.smk"
include: "workflow/rules/layers.smk"
include: "workflow/rules/reproduction.smk"
include: "workflow/rules/primer.smk"
include: "workflow/rules/record.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        "<site>/index.html",
        "<site>/explorer.html",


# The chapters as targets, for dvc.yaml.


rule chapter_texts:
    input:
        expand(rules.tokenize.output, task=TASKS, tokenizer=config["tokenizer"]["name"]),


rule chapter_training:
    input:
        [
            [table, table.with_name(f"{table.name}.note.json")]
            for run in RUNS
            for checkpoint in CHECKPOINTS[run]
            for table in [table_file(run, checkpoint)]
        ],
        [other_tables(model) for model in LADDER],
        checkpoint_files(LEARNED, LADDER_CHECKPOINTS[-1]),
        expand(rules.tune.output, tuned=config["tuning"]["grids"]),
        expand(rules.static.output, static=OTHER_STATIC),
        expand(rules.warm_start.output, seed=config["warm_start"]["seeds"]),


rule chapter_scores:
    input:
        rules.gather.output,
        rules.estimates.output,
        expand(rules.table_metrics.output, model=PROBED),
        expand(rules.compare_tables.output, ladder=LADDERS),
        rules.factors.output,
        expand(rules.words.output, model=PROBED),
        rules.query_frequency.output,
        expand(rules.layer_scores.output, model=LAYERS_SCORED),
        rules.layer_estimates.output,
        rules.task_correlation.output,


rule chapter_layers:
    input:
        expand(rules.probe.output, model=LAYER_MODELS),
        expand(rules.grid.output, model=SETTINGS["grid"]["models"]),
        expand(rules.ablate.output, model=SETTINGS["base"]),
        expand(rules.transfer.output, model=SETTINGS["base"]),
        expand(rules.geometry.output, model=LAYER_MODELS),
        expand(rules.reductions.output, model=SETTINGS["pictured"]),
        expand(rules.logit_lens.output, model=LENS_MODELS),


rule chapter_primer:
    input:
        expand(rules.primer_of_table.output, of_table=PRIMER_OF_TABLE),
        expand(rules.primer_alone.output, alone=PRIMER_ALONE),
        rules.sizes.output,
        expand(rules.positions.output, model=POSITION_MODELS),
        rules.position_scores.output,


rule chapter_claims:
    input:
        rules.claims.output,
        rules.ladder_answers.output,
        rules.layer_claims.output,
        rules.compare.output,
        rules.inventory.output,


rule chapter_record:
    input:
        rules.keep.output,
