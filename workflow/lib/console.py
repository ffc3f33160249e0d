"""Progress of a run in short lines, in the place of Snakemake's own report of each job.

It is no logger plugin, which Snakemake finds only where it is installed: the Snakefile itself puts it in place, so that
any Snakemake can run the study.  Instead of each job's whole description it shows how many jobs are done, how long the
run has taken and what is running: as one line that is redrawn on a terminal, as a line for each started job elsewhere.
Errors and warnings are shown whole, as Snakemake writes them; so is all of a dry run, and all with ``--verbose``,
``--printshellcmds`` or ``--debug-dag``.
"""

from __future__ import annotations

import logging
import shutil
from typing import Any

from snakemake.logging import get_event, logger
from snakemake_interface_logger_plugins.common import LogEvent

BAR_CELLS = 24
COLUMNS = 100  # of a terminal that does not tell its width
CLEAR = "\r\x1b[K"
# What Snakemake says of itself in every run; words that are not listed here are shown.
CHATTER = (
    "Building DAG of jobs",
    "Using shell:",
    "Assuming unrestricted shared filesystem usage",
    "Conda environments: ignored",
    "Activating conda environment",
    "Select jobs to execute",
    "Execute ",
    "Complete log(s):",
    "Elapsed time:",
)


def clock(seconds: float) -> str:
    """``H:MM:SS``."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def show_progress(workflow: Any) -> None:  # noqa: ANN401
    """Show the progress of a run in short lines, unless its user chose a logger that writes to the terminal.

    Args:
        workflow: the object of that name in a Snakefile.
    """
    settings = workflow.output_settings
    if settings.skip_plugin_handlers:
        return  # a job that runs as a Snakemake of its own
    for handler in list(logger.handlers):
        if handler.name == "DefaultStreamHandler":
            logger.removeHandler(handler)
            logger.addHandler(ProgressHandler(handler, settings))


class ProgressHandler(logging.Handler):
    """Shows records of a run on the stream of Snakemake's own handler, which shows what is shown whole."""

    def __init__(self, plain: Any, settings: Any) -> None:  # noqa: ANN401 (Snakemake's handler and settings)
        super().__init__()
        self.plain, self.stream = plain, plain.stream
        for own in plain.filters:
            self.addFilter(own)  # what --quiet leaves out
        self.on_terminal = self.stream.isatty() and not settings.nocolor
        self.in_full = settings.dryrun or settings.verbose or settings.printshellcmds or settings.debug_dag
        self.running: dict[int, str] = {}  # names of jobs by their numbers
        self.done = self.total = 0
        self.started: float | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record in its short form, or as Snakemake does."""
        event = get_event(record)
        if self.in_full:
            self.plain.emit(record)
        elif event in SHORT:
            SHORT[event](self, record)
        elif record.levelno > logging.INFO or not record.getMessage().startswith(CHATTER):
            self.clear()
            self.plain.emit(record)
            if event == LogEvent.JOB_ERROR:
                self.running.pop(record.__dict__["jobid"], None)
        if self.on_terminal and not self.in_full:
            self.draw(record.created)

    def run_info(self, record: Any) -> None:  # noqa: ANN401 (a record with the fields of its event)
        """The number of jobs, before the first."""
        self.started, self.total = record.created, record.stats["total"]

    def job_info(self, record: Any) -> None:  # noqa: ANN401
        """A job begins."""
        label = " ".join([record.rule_name, *map(str, dict(record.wildcards).values())])
        self.running[record.jobid] = label
        if self.total and not self.on_terminal:
            print(f"{self.state(record.created)}  {label}", file=self.stream, flush=True)

    def job_finished(self, record: Any) -> None:  # noqa: ANN401
        """A job has ended."""
        self.running.pop(record.job_id, None)

    def progress(self, record: Any) -> None:  # noqa: ANN401
        """How many jobs have ended."""
        self.done, self.total = record.done, record.total

    def silent(self, record: Any) -> None:  # noqa: ANN401
        """What a reader of the progress need not see."""

    def state(self, now: float) -> str:
        """Jobs done, all jobs, time since the first."""
        width = len(str(self.total))
        return f"{self.done:{width}}/{self.total}  {clock(now - (self.started or now))}"

    def draw(self, now: float) -> None:
        """Redraw the line of a terminal."""
        if self.total and self.done < self.total:
            filled = BAR_CELLS * self.done // self.total
            line = f"{'█' * filled}{'░' * (BAR_CELLS - filled)} {self.state(now)}  {', '.join(self.running.values())}"
            width = shutil.get_terminal_size((COLUMNS, 1)).columns - 1
            self.stream.write(f"{CLEAR}{line if len(line) <= width else line[: width - 1] + '…'}")
            self.stream.flush()
        else:
            self.clear()

    def clear(self) -> None:
        """Take the line of a terminal away."""
        if self.on_terminal:
            self.stream.write(CLEAR)
            self.stream.flush()

    def close(self) -> None:
        """Leave the terminal's line empty."""
        if not self.in_full:
            self.clear()
        super().close()


SHORT = {
    LogEvent.WORKFLOW_STARTED: ProgressHandler.silent,
    LogEvent.RESOURCES_INFO: ProgressHandler.silent,
    LogEvent.SHELLCMD: ProgressHandler.silent,
    LogEvent.RUN_INFO: ProgressHandler.run_info,
    LogEvent.JOB_INFO: ProgressHandler.job_info,
    LogEvent.JOB_STARTED: ProgressHandler.silent,
    LogEvent.JOB_FINISHED: ProgressHandler.job_finished,
    LogEvent.PROGRESS: ProgressHandler.progress,
}
