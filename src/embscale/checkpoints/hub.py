"""Read repositories of the Hugging Face Hub: commits, byte ranges, whole files; every response is checked.

The hub's own client finds repositories, logs in and downloads whole files.  It does not check that a range is the one
requested, or that a whole file is intact; this module does.  A token comes from the environment or the standard login;
it is sent with requests to the hub and nowhere else.
"""

from __future__ import annotations

import glob
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from huggingface_hub import HfApi, constants, get_session, hf_hub_url, snapshot_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

from embscale.errors import EmbscaleError

COMMIT = re.compile(r"[0-9a-f]{40}")
SHOWN = 80  # characters of an answer in a message
BUSY = frozenset({408, 429, 500, 502, 503, 504})  # status codes worth retrying
TRIES = 6
FIRST_WAIT = 1.0  # seconds before the second attempt; doubled each time
LONGEST_WAIT = 120  # seconds; the hub counts requests in windows of five minutes
TIMEOUT = httpx2.Timeout(30, connect=10)  # seconds without a byte
SLOWEST = 20_000  # bytes per second; slower responses are aborted
PATIENCE = 30  # seconds allowed for a response of any size

# By default the client waits forever.
get_session().timeout = TIMEOUT

T = TypeVar("T")


class Temporary(Exception):
    """A temporary failure worth retrying; after `wait` seconds, if the server gave a time."""

    def __init__(self, cause: str, wait: float | None = None) -> None:
        super().__init__(cause)
        self.wait = wait


def resolve(repo: str, revision: str, *, kind: str = "model") -> str:
    """The full hash of the commit that a branch, tag or commit of a repository currently refers to."""
    if COMMIT.fullmatch(revision):
        return revision
    what = f"{repo}@{revision}"
    info = trying(what, lambda: HfApi().repo_info(repo, revision=revision, repo_type=kind, timeout=TIMEOUT.read))
    if not isinstance(info.sha, str) or not COMMIT.fullmatch(info.sha):
        raise not_the_hub(what, f"the commit {_shown(info.sha)}")
    return info.sha


class HubFolder:
    """A folder of a repository at one commit; a `Source`.

    Args:
        repo: ``OWNER/NAME``.
        commit: all 40 digits, so that nothing changes between two reads.
        subfolder: the folder inside the repository.
    """

    def __init__(self, repo: str, commit: str, subfolder: str = "") -> None:
        if not COMMIT.fullmatch(commit):
            raise EmbscaleError(f"{repo}@{commit}: not a commit of 40 hexadecimal digits; resolve it first")
        self.repo, self.commit, self.subfolder = repo, commit, subfolder.strip("/")
        self._entries: dict[str, Any] | None = None
        self._etags: dict[str, str] = {}

    def files(self) -> dict[str, int]:
        """Sizes in bytes by name; requested once."""
        return {name: entry.size for name, entry in self._listing().items()}

    def digest(self, name: str) -> str:
        """The hub's own digest of a file; the file is not read."""
        entry = self._listing()[name]
        return f"sha256:{entry.lfs.sha256}" if entry.lfs else f"git-sha1:{entry.blob_id}"

    def label(self, name: str) -> str:
        """Repository, short commit and path."""
        return f"{self.repo}@{self.commit[:12]}/{self.path(name)}"

    def fetch(self, name: str, start: int, end: int) -> bytes:
        """The bytes ``[start, end)`` of a file, in one request, retried after temporary failures.

        Raises:
            EmbscaleError: the response was another range, another file or too slow, or the hub refused.
        """
        return trying(self.label(name), lambda: self._answer(name, start, end)) if end > start else b""

    def path(self, name: str) -> str:
        """A file's path in the repository."""
        return f"{self.subfolder}/{name}" if self.subfolder else name

    def _listing(self) -> dict[str, Any]:
        if self._entries is None:
            what = f"{self.repo}@{self.commit[:12]}/{self.subfolder}"
            self._entries = trying(what, lambda: self._ask(what))
        return self._entries

    def _ask(self, what: str) -> dict[str, Any]:
        found = list(HfApi().list_repo_tree(self.repo, self.subfolder or None, revision=self.commit))
        if not found:
            raise not_the_hub(what, "a list of no files")
        # Only files of this folder; the response may list others.
        files = [(entry.path.rpartition("/")[2], entry) for entry in found if hasattr(entry, "size")]
        entries = {name: entry for name, entry in files if entry.path == self.path(name)}
        if wrong := [name for name, entry in entries.items() if not _is_file(entry)]:
            raise not_the_hub(what, f"{wrong[0]} without a size or a digest")
        return entries

    def _answer(self, name: str, start: int, end: int) -> bytes:
        size = self.files()[name]
        headers = build_hf_headers() | {
            "Range": f"bytes={start}-{end - 1}",
            # A cache that compresses a response may also ignore the requested range.
            "Accept-Encoding": "identity",
        }
        url = hf_hub_url(self.repo, self.path(name), revision=self.commit)
        if constants.is_offline_mode():
            raise OfflineModeIsEnabled
        began = time.monotonic()
        with get_session().stream("GET", url, headers=headers, timeout=TIMEOUT, follow_redirects=True) as answer:
            hf_raise_for_status(answer)
            self._check(answer, name, f"bytes {start}-{end - 1}/{size}")
            data = bytearray()
            for part in answer.iter_raw():
                data += part
                taken = time.monotonic() - began
                if taken > PATIENCE and len(data) < SLOWEST * taken:
                    raise Temporary(f"{len(data)} bytes in {taken:.0f} s")
        if len(data) != end - start:
            raise Temporary(f"{len(data)} bytes came, {end - start} were announced")
        return bytes(data)

    def _check(self, answer: httpx2.Response, name: str, expected: str) -> None:
        """Stop before the body if the response is not the requested range of the file."""
        content_range = answer.headers.get("Content-Range", "no range")
        if answer.status_code != 206 or content_range != expected:
            raise EmbscaleError(
                f"{self.label(name)}: asked for {expected}, got {content_range} (status {answer.status_code}); the "
                "server or a proxy before it does not serve ranges"
            )
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise EmbscaleError(f"{self.label(name)}: was sent compressed, so byte ranges are meaningless")
        for part in [*answer.history, answer]:
            commit = part.headers.get("X-Repo-Commit", self.commit)
            if commit != self.commit:
                raise EmbscaleError(f"{self.label(name)}: the server answered with commit {commit[:12]}")
        etag = answer.headers.get("ETag", "")
        if self._etags.setdefault(name, etag) != etag:
            raise EmbscaleError(f"{self.label(name)}: changed while it was read; start again")


def download(repo: str, commit: str, folder: Path, *, names: Sequence[str], kind: str = "model") -> dict[str, Path]:
    """Download files of a repository and verify each against the hub's digest.

    An interrupted download is resumed.

    Args:
        repo: ``OWNER/NAME``.
        commit: all 40 digits.
        folder: gets the files, each at its path in the repository.
        names: whole paths in the repository; names not in the repository are ignored.
        kind: of the repository, ``model`` or ``dataset``.

    Returns:
        Where each file lies, by its path in the repository.

    Raises:
        EmbscaleError: the repository has none of them, the hub refused, or a file does not match the hub's digest.
    """
    what = f"{repo}@{commit[:12]}"
    arguments: dict[str, Any] = {"revision": commit, "repo_type": kind, "local_dir": folder}
    exactly = [glob.escape(name) for name in names]  # the client interprets names as patterns
    trying(what, lambda: snapshot_download(repo, allow_patterns=exactly, **arguments))
    if not constants.is_offline_mode():
        checked = trying(what, lambda: HfApi().verify_repo_checksums(repo, **arguments))
        if not (checked.checked_count or checked.missing_paths):
            raise not_the_hub(what, "a list of no files")
        for wrong in checked.mismatches:
            (folder / wrong["path"]).unlink()
            raise EmbscaleError(
                f"{what}/{wrong['path']}: its {wrong['algorithm']} is {wrong['actual'][:12]}, but the hub says "
                f"{wrong['expected'][:12]}; it was removed, run again"
            )
    found = {name: folder / name for name in names if (folder / name).is_file()}
    if not found:
        raise EmbscaleError(f"{what}: holds none of {', '.join(names)}")
    return found


def trying(what: str, call: Callable[[], T]) -> T:
    """The result of a request, retried after temporary failures; other failures become one-line messages."""
    for left in reversed(range(TRIES)):
        try:
            with readable_errors(what):
                return call()
        except Temporary as fault:
            doubled = FIRST_WAIT * 2 ** (TRIES - 1 - left) * random.uniform(0.5, 1)
            wait = fault.wait if fault.wait is not None else doubled
            if not left or wait > LONGEST_WAIT:
                asked = f", which asks to wait {fault.wait:.0f} s" if fault.wait else ""
                raise EmbscaleError(f"{what}: {fault}{asked}; what came is kept, so try again later") from fault
            time.sleep(wait)
    raise AssertionError("the last try returns or raises")


@contextmanager
def readable_errors(what: str) -> Iterator[None]:
    """Turn the client's exceptions into ours.  URLs are left out: a signed URL is a temporary secret."""
    try:
        yield
    except GatedRepoError as error:
        raise EmbscaleError(
            f"{what}: gated; accept its licence at {constants.ENDPOINT}/{what.partition('@')[0]} and log in with a "
            "token (hf auth login, or HF_TOKEN)"
        ) from error
    except (OfflineModeIsEnabled, LocalEntryNotFoundError) as error:
        if constants.is_offline_mode():
            raise EmbscaleError(f"{what}: not here yet, and HF_HUB_OFFLINE forbids to ask for it") from error
        # The client hides what came under this error if nothing of the repository is here.
        cause = error.__cause__ or error.__context__
        if cause is None or (isinstance(cause, OSError) and not isinstance(cause, HfHubHTTPError)):
            raise not_the_hub(what, "no repository") from error
        with readable_errors(what):
            raise cause from None
    except RevisionNotFoundError as error:
        raise EmbscaleError(f"{what}: the repository has no such revision") from error
    except RepositoryNotFoundError as error:
        raise EmbscaleError(f"{what}: no such repository, or a private one that your token does not open") from error
    except EntryNotFoundError as error:
        raise EmbscaleError(f"{what}: no such file or folder") from error
    except HFValidationError as error:
        raise EmbscaleError(f"{what}: not the name of a repository (OWNER/NAME)") from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        expired = status == 403 and bool(error.response.history)  # the signed URL to which the hub redirected us
        if status in BUSY or expired:
            raise Temporary(f"the server answers {status}", _retry_after(error.response)) from error
        raise EmbscaleError(f"{what}: the server refuses with status {status}") from error
    except httpx2.TooManyRedirects as error:
        raise EmbscaleError(f"{what}: the server redirects in circles") from error
    except httpx2.TransportError as error:
        raise Temporary(f"the connection failed ({type(error).__name__})") from error
    except (EmbscaleError, Temporary, FileNotFoundError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the system's
        # The clients take the hub's answers for granted: whatever else comes fails somewhere in them, in any way.
        raise not_the_hub(what, f"{type(error).__name__}: {_shown(error)}") from error


def not_the_hub(what: str, got: str) -> EmbscaleError:
    """The error that an answer is of another form than the hub's, or of another content than was asked for.

    Args:
        what: was asked for.
        got: in its place, in a few words.
    """
    return EmbscaleError(
        f"{what}: {constants.ENDPOINT} answered with something that is not the hub's ({got}); open that address in a "
        "browser: a proxy or a login page may stand before it, or HF_ENDPOINT name another server"
    )


def _shown(value: object) -> str:
    """The first line of anything, cut."""
    return (str(value).splitlines() or [""])[0][:SHOWN]


def _is_file(entry: Any) -> bool:  # noqa: ANN401 (a file or folder as the client has it)
    """Whether an entry of a listing has what files have."""
    digest = entry.lfs.sha256 if entry.lfs else entry.blob_id
    return isinstance(entry.size, int) and entry.size >= 0 and isinstance(digest, str) and bool(digest)


def _retry_after(answer: httpx2.Response) -> float | None:
    """Seconds to wait according to the server, if it gives seconds."""
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isdecimal() else None
