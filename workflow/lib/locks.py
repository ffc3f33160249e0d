"""A lock that lets one run at a time write in a folder, also where several machines see it.

Snakemake's own lock holds back neither a second run with other targets nor one that finds its own lock removed by a
third.  Three things stand in its place:

- a lock of the operating system (`fcntl.flock`), which ends with its process, however that ends.  Some file systems
  have none, and some keep it to one machine;
- a file that names the owner: host, process, job of Slurm.  It can be created once only, on any file system, and its
  owner touches it every few seconds, so that a machine that is no more is told from one that is busy.  Times are
  compared with each other, never with the clock of this machine;
- a mark that jobs were handed to Slurm.  Such jobs outlive a run that is killed, so that Slurm is asked for them.

What cannot be found out counts as a run that is alive.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, ClassVar

LOCK = Path(".snakemake/embscale.lock")
BEAT_SECONDS = 20.0  # between two signs of life
STALE_SECONDS = 180.0  # without one: file systems of clusters may show times up to a minute late
CONTENTION_SECONDS = 1.0  # a dry run looks at the lock for a moment, which is no reason to stop
ASKING_SECONDS = 60  # that Slurm may take for an answer
NAMED = 5  # how many of many jobs a message names


@dataclass(frozen=True)
class Owner:
    """Who holds a lock.

    Attributes:
        key: of this one taking of the lock.
        host: name of the machine.
        machine: what tells machines and containers of one name apart; empty where the system does not say.
        pid: number of the process, which means something on that machine alone.
        began: when the process began, in the machine's own count; empty where the system does not say.
        job: number of the job of Slurm that the process belongs to, if any.
        user: who started it.
        since: when, in words, by the clock of that machine.
    """

    key: str
    host: str
    machine: str
    pid: int
    began: str
    job: str
    user: str
    since: str

    @classmethod
    def this_process(cls) -> Owner:
        """This process as an owner."""
        return cls(
            key=uuid.uuid4().hex,
            host=socket.gethostname(),
            machine=this_machine(),
            pid=os.getpid(),
            began=beginning(os.getpid()),
            job=os.environ.get("SLURM_JOB_ID", ""),
            user=user(),
            since=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        )

    def describe(self) -> str:
        """The owner in a message: the process, and the machine if it is another."""
        parts = [f"process {self.pid}"]
        if not self.is_here():
            parts.append(f"on {self.host}")
        if self.job:
            parts.append(f"in job {self.job} of Slurm")
        if self.user != user():
            parts.append(f"of {self.user}")
        return " ".join(parts)

    def is_here(self) -> bool:
        """Whether its process would be seen from here."""
        return (self.host, self.machine) == (socket.gethostname(), this_machine())

    def is_running(self) -> bool:
        """Whether its process, which would be seen from here, is there."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return beginning(self.pid) == self.began


def user() -> str:
    """Name of the user, or the number of one without a name, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def this_machine() -> str:
    """What tells this machine, since it was started, and this container from others of the same name."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def beginning(pid: int) -> str:
    """When a process began, in ticks since the machine was started, which no change of its clock moves."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    # The name of the program stands in brackets and may hold anything.
    return status.rpartition(")")[2].split()[19]


class Slurm:
    """Jobs that a run of this folder handed to Slurm, and that may outlive it.

    Args:
        mark: file that is there from the start of such a run until one ends well.
    """

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def begin(self) -> None:
        """Note that jobs are about to be handed over."""
        self.mark.write_text(user(), "utf-8")

    def end(self) -> None:
        """Note that none is left."""
        self.mark.unlink(missing_ok=True)

    def refusal(self) -> str | None:
        """Why a run must not start: jobs that are still there, or that nobody knows of; None if there are none."""
        try:
            who = self.mark.read_text("utf-8").strip()
        except FileNotFoundError:
            return None
        folder = self.mark.parent.parent.resolve()
        try:
            listed = ask_squeue("--user", who or user(), "--format", "%A|%Z")
        except LookupError as error:
            return (
                f"the last run in {folder} handed jobs to Slurm and may have left some: {error}; start again where "
                f"squeue answers, or remove {self.mark} if you know that none is left"
            )
        own = os.environ.get("SLURM_JOB_ID")
        rows = [line.partition("|")[::2] for line in listed]
        jobs = sorted({job for job, place in rows if job != own and Path(place).resolve() == folder}, key=int)
        if not jobs:
            return None
        named = " ".join(jobs[:NAMED]) + (f" and {len(jobs) - NAMED} more" if len(jobs) > NAMED else "")
        return (
            f"jobs of an earlier run in {folder} are still in Slurm: {named}; wait until they end, or stop them with "
            f"scancel {' '.join(jobs)}, then start again"
        )


def ask_squeue(*arguments: str) -> list[str]:
    """What Slurm answers, a line for each job.

    Raises:
        LookupError: it does not answer; the message says why.
    """
    if shutil.which("squeue") is None:
        raise LookupError("there is no squeue on PATH")
    command = ["squeue", "--noheader", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASKING_SECONDS)
    except subprocess.TimeoutExpired:
        raise LookupError(f"squeue gave no answer in {ASKING_SECONDS} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise LookupError(f"squeue failed ({said[-1] if said else f'status {done.returncode}'})")
    return done.stdout.split("\n")[:-1]


class RunLock:
    """A lock that allows only one run at a time to write in a folder, held while the process lives.

    Args:
        path: a file in the folder that a run keeps to itself; the names of others begin like its own.

    Attributes:
        refusal: after it was not given, who has it and what to do.
    """

    # On the class, not the instance: closing the file releases the lock, and an instance may be short-lived.
    _held: ClassVar[dict[Path, Owner]] = {}
    _files: ClassVar[list[IO[str]]] = []

    def __init__(self, path: Path = LOCK) -> None:
        self.path = path
        self.owner_file = path.with_suffix(".owner")
        self.slurm = Slurm(path.with_suffix(".slurm"))
        self.refusal = ""

    def acquire(self) -> bool:
        """Take the lock unless a run has it, or has left jobs; returns whether this process now has it."""
        if self.is_held():
            return True
        self.path.parent.mkdir(exist_ok=True)
        file = self.path.open("a+")
        if not _lock(file, fcntl.LOCK_EX):
            file.close()
            return self._refuse(self._owner_in_words())
        owner = Owner.this_process()
        # A run that is alive first: the jobs are its own, and nobody should be told to stop them.
        refusal = self._reason_against(self._owner()) or self.slurm.refusal() or self._take(owner)
        if refusal:
            file.close()
            return self._refuse(refusal)
        self._files.append(file)
        self._held[self.path.absolute()] = owner
        self.slurm.end()
        atexit.register(_release, self.owner_file.absolute(), owner)
        threading.Thread(target=_live, args=(self.owner_file.absolute(), owner), daemon=True).start()
        return True

    def is_held(self) -> bool:
        """Whether this process has the lock."""
        owner = self._held.get(self.path.absolute())
        return owner is not None and owner.pid == os.getpid()

    def free(self) -> bool:
        """Whether no other run has the lock, or has left jobs."""
        return self.is_held() or (self.unowned() and not self.slurm.refusal())

    def unowned(self) -> bool:
        """Whether no run has the lock."""
        if self.path.is_file():
            with self.path.open() as file:
                if not _lock(file, fcntl.LOCK_SH):
                    return False
        return self._reason_against(self._owner()) is None

    def acquire_or_stop(self) -> None:
        """Take the lock, or stop Snakemake with one line; before anything is changed."""
        from snakemake.exceptions import WorkflowError

        if not self.acquire():
            raise WorkflowError(self.refusal)

    def _refuse(self, refusal: str) -> bool:
        self.refusal = refusal
        return False

    def _take(self, owner: Owner) -> str | None:
        """Write the owner's file; returns why that cannot be."""
        if _create(self.owner_file, owner):
            return None
        old = self._owner()
        if old is None:  # removed in between by a run that ended
            return None if _create(self.owner_file, owner) else self._owner_in_words()
        if reason := self._reason_against(old):
            return reason
        assert isinstance(old, Owner)
        # Of several that find the same owner dead, the one that can create this file takes its place.
        grave = self.owner_file.with_name(f"{self.owner_file.name}.{old.key}")
        if not _create(grave, owner):
            return (
                f"another run is starting in {self._folder()}; start again in a minute, and if nothing has changed "
                f"then, remove {grave}"
            )
        if self._owner() != old:
            grave.unlink(missing_ok=True)
            return self._owner_in_words()
        grave.replace(self.owner_file)
        if not old.is_here():
            print(f"the run that had the lock, {old.describe()}, gives no sign of life; going on", file=sys.stderr)
        return None

    def _owner(self) -> Owner | str | None:
        """The owner that the file names, what else it holds, or None if there is no file."""
        text = ""
        for _ in range(5):  # one that is being written is empty for a moment
            try:
                text = self.owner_file.read_text("utf-8", "replace")
                given = json.loads(text)
                return Owner(**{field.name: given[field.name] for field in fields(Owner)})
            except FileNotFoundError:
                return None
            except (ValueError, KeyError, TypeError):
                time.sleep(0.1)
        return text

    def _reason_against(self, owner: Owner | str | None) -> str | None:
        """Why an owner's lock cannot be taken; None if nobody holds it."""
        if owner is None:
            return None
        if isinstance(owner, str):
            return (
                f"another run is starting in {self._folder()}; start again in a minute, and if nothing has changed "
                f"then, remove {self.owner_file}, which does not say whose it is"
            )
        if owner.is_here():
            if not owner.is_running():
                return None
            if owner.began:
                return self._owner_in_words(owner)
        silent = self._seconds_of_silence()
        if silent < STALE_SECONDS:
            return self._owner_in_words(owner, f"last sign of life {silent:.0f} s ago")
        if not owner.job:
            return None
        try:
            alive = owner.job in ask_squeue("--user", owner.user, "--format", "%A")
        except LookupError as error:
            words = f"no sign of life for {silent:.0f} s, but {error}; if it is no more, remove {self.owner_file}"
            return self._owner_in_words(owner, words)
        return self._owner_in_words(owner, f"no sign of life for {silent:.0f} s") if alive else None

    def _seconds_of_silence(self) -> float:
        """Seconds since the owner touched its file, by the clock of the file server; 0 if that cannot be told."""
        probe = self.owner_file.with_name(f"{self.owner_file.name}.{uuid.uuid4().hex}")
        try:
            probe.touch()
            try:
                return probe.stat().st_mtime - self.owner_file.stat().st_mtime
            finally:
                probe.unlink()
        except OSError:
            return 0.0

    def _owner_in_words(self, owner: Owner | str | None = None, more: str = "") -> str:
        """Who has the lock, and what to do."""
        owner = owner or self._owner()
        if not isinstance(owner, Owner):
            return f"another run is starting in {self._folder()}; wait until it ends or stop it, then start again"
        details = "; ".join(filter(None, ["" if owner.is_here() else f"since {owner.since}", more]))
        return (
            f"another run ({owner.describe()}) is running in {self._folder()}{f' ({details})' if details else ''}; "
            "wait until it ends or stop it, then start again"
        )

    def _folder(self) -> Path:
        """The folder that a run has for itself."""
        return self.path.absolute().parent.parent


def _lock(file: IO[str], kind: int) -> bool:
    """Lock a file; False if another process has it.  True too where the file system has no locks."""
    deadline = time.monotonic() + CONTENTION_SECONDS
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        except OSError:
            return True
        else:
            return True


def _create(path: Path, owner: Owner) -> bool:
    """Write an owner to a new file; False if the file is there."""
    try:
        with path.open("x", encoding="utf-8") as file:
            try:
                json.dump(asdict(owner), file)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                path.unlink(missing_ok=True)
                raise
    except FileExistsError:
        return False
    return True


def _is(path: Path, owner: Owner) -> bool | None:
    """Whether a file names this owner; None if it cannot be told."""
    try:
        return bool(json.loads(path.read_text("utf-8"))["key"] == owner.key)
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _live(path: Path, owner: Owner) -> None:
    """Touch the owner's file until the process ends; stop the process if it has lost the lock.

    It loses it if it was asleep for long, as on a laptop that was shut, and another machine took over.
    """
    while True:
        time.sleep(BEAT_SECONDS)
        with contextlib.suppress(OSError):  # a file server that is away for a moment
            if _is(path, owner) is False and not _create(path, owner):
                print(f"{path}: another run has taken over; this one stops", file=sys.stderr)
                os.kill(os.getpid(), signal.SIGINT)
                return
            os.utime(path)


def _release(path: Path, owner: Owner) -> None:
    """Remove the owner's file at the end of the process that holds the lock, which is no child of it."""
    if os.getpid() == owner.pid and _is(path, owner):
        path.unlink(missing_ok=True)
