"""A hub on the loopback device: the routes of the Hugging Face Hub that clients call to read repositories.

It answers as the real one does, small files from the hub itself and large ones by a redirect to a second
origin (the CDN), logs every request and fails on demand.  Checked by the clients that parse its answers.

    with Hub() as hub:
        commit = hub.add("org/model", folder)
        hub.fault(r"model\\.safetensors", status=503, headers={"Retry-After": "0"}, times=2)
        subprocess.run([...], env=hub.environment(tmp_path))
        assert hub.bytes_sent(r"model\\.safetensors") < 100_000

A folder of repositories is served by hand with ``python -m hub.server FOLDER``.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal
from urllib.parse import parse_qs, quote, unquote, urlsplit

Kind = Literal["model", "dataset"]
Origin = Literal["hub", "cdn"]

BLOCK = 256 * 1024
COMMIT = re.compile(r"[0-9a-f]{40}")
# What is the same for all repositories.
UNREMARKABLE: dict[str, Any] = {"_id": "0" * 24, "private": False, "disabled": False, "tags": [], "downloads": 0}
UNREMARKABLE |= {"likes": 0, "createdAt": "2024-01-01T00:00:00.000Z", "lastModified": "2024-01-01T00:00:00.000Z"}
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n"

# A revision is one segment of the path: its own slashes come quoted.
_ID = r"(?P<id>[^/]+(?:/[^/]+)??)"
_PART = r"(?P<part>revision|tree|paths-info)/(?P<revision>[^/]+)(/(?P<path>.+))?"
API = re.compile(rf"/api/(?P<kind>model|dataset)s/{_ID}(/{_PART})?")
RESOLVE = re.compile(rf"/((?P<kind>dataset)s/)?{_ID}/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
SMALL = re.compile(rf"/api/resolve-cache/(?P<kind>model|dataset)s/{_ID}/(?P<revision>[0-9a-f]{{40}})/(?P<path>.+)")
BLOB = re.compile(r"/blob/(?P<sha256>[0-9a-f]{64})")
RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(frozen=True)
class File:
    """A file of a commit; its content stays where it is."""

    path: Path
    size: int
    oid: str
    sha256: str | None

    @classmethod
    def of(cls, path: Path, *, lfs: int, hashed: bool) -> File:
        """Digests as git computes them: of the content, or of the pointer to it where that is at least `lfs` bytes."""
        size = path.stat().st_size
        if size < lfs:
            return cls(path, size, _git_oid(path.read_bytes()), None)
        with path.open("rb") if hashed else io.BytesIO(f"{path}{size}".encode()) as content:
            sha256 = hashlib.file_digest(content, "sha256").hexdigest()
        return cls(path, size, _git_oid(POINTER.format(sha256, size).encode()), sha256)

    def lfs(self, digest: str) -> dict[str, Any]:
        """What the hub tells of a large file beside its size; routes call the digest by different names."""
        pointer = len(POINTER.format(self.sha256, self.size))
        return {"lfs": {digest: self.sha256, "size": self.size, "pointerSize": pointer}} if self.sha256 else {}


def _git_oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class Repository:
    """Its commits, each a mapping from path to file, and the names of some of them."""

    gated: bool = False
    commits: dict[str, dict[str, File]] = field(default_factory=dict)
    revisions: dict[str, str] = field(default_factory=dict)


@dataclass
class Request:
    """One line of the log; filled in while the answer goes out."""

    origin: Origin
    method: str
    path: str  # with the query, which names the file on the CDN, too
    range: str | None
    authorized: bool  # an Authorization header came with it
    status: int | None = None
    sent: int = 0  # bytes of the body
    done: bool = False


@dataclass
class Fault:
    """What goes wrong with some requests; several troubles may come together."""

    pattern: str  # regular expression that is searched in path and query
    origin: Origin | None = None  # the server that is meant; None means both
    method: str = "GET"
    after: int = 0  # matching requests that are served well first
    times: int | None = None  # requests that fail then; None means all
    status: int | None = None  # answer with this status and `headers`, such as Retry-After, and nothing else
    stall: float = 0  # seconds without an answer
    loop: bool = False  # redirect to the same address
    headers: Mapping[str, str] = field(default_factory=dict)  # in place of the true ones: ETag, Content-Range ...
    whole: bool = False  # take no notice of the range: 200 and the whole file
    shift: int = 0  # serve, and announce, the range that lies so many bytes further on
    short: int = 0  # bytes that the body lacks; Content-Length is right for what comes
    corrupt: int | None = None  # place in the file of a byte that comes with one bit flipped
    reset_after: int | None = None  # reset the connection after so many bytes of the body
    drip: float | None = None  # bytes per second
    seen: int = 0  # matching requests so far

    @property
    def in_body(self) -> bool:
        """Whether it shows only in answers with a body, so that redirects do not use it up."""
        return not (self.status or self.stall or self.loop)

    def strikes(self, request: Request) -> bool:
        """Whether this request is one of those that fail."""
        if self.origin not in (None, request.origin) or self.method != request.method:
            return False
        if not re.search(self.pattern, request.path):
            return False
        self.seen += 1
        return self.seen > self.after and (self.times is None or self.seen <= self.after + self.times)


class Hub:
    """Two servers, the hub and its CDN, from entering the context to leaving it.

    Args:
        token: what opens gated repositories.
        port: the hub's; 0 means any free one.
    """

    def __init__(self, *, token: str = "hf_loopback", port: int = 0) -> None:
        self.token = token
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.blobs: dict[str, File] = {}
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.rate: float | None = None
        self.latency = 0.0
        self.connections: set[socket.socket] = set()
        self.lock = threading.Lock()
        self._closing = threading.Event()
        self._servers = [_Server(self, "hub", port), _Server(self, "cdn", 0)]
        self.endpoint, self.cdn = (f"http://127.0.0.1:{server.server_port}" for server in self._servers)

    def __enter__(self) -> Hub:
        for server in self._servers:
            server.server_activate()  # not before: a client of a hub that is not entered must fail, not wait
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def add(
        self,
        repo_id: str,
        folder: Path,
        *,
        kind: Kind = "model",
        revision: str = "main",
        commit: str | None = None,
        gated: bool = False,
        lfs: int = 10_000,
        hashed: bool = True,
    ) -> str:
        """Add a commit to a repository, which is made if it is new, and let a revision name it.

        Args:
            repo_id: ``OWNER/NAME``, or one word.
            folder: the commit's files.  They are served from there and must stay as they are.
            kind: of the repository.
            revision: a branch or tag, which moves if it is there already; or a commit, which is then this one.
            commit: 40 hexadecimal digits; by default a digest of paths and contents.
            gated: its files need the token from now on.  What it holds is told without, as on the real hub.
            lfs: files of at least so many bytes lie on the CDN.
            hashed: False makes up the digests of files on the CDN: for sparse files that are too large to read.

        Returns:
            The commit.
        """
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        files = {path.relative_to(folder).as_posix(): File.of(path, lfs=lfs, hashed=hashed) for path in paths}
        if commit is None:
            oids = "".join(f"{file.oid} {name}\n" for name, file in files.items())
            commit = revision if COMMIT.fullmatch(revision) else hashlib.sha1(oids.encode()).hexdigest()
        repository = self.repositories.setdefault((kind, repo_id), Repository())
        repository.gated = gated
        repository.commits[commit] = files
        repository.revisions[revision] = commit
        self.blobs |= {file.sha256: file for file in files.values() if file.sha256}
        return commit

    def fault(self, pattern: str, **what: Any) -> Fault:
        """Let requests fail; see `Fault`.

        Of several faults that match, the first strikes; those of requests (status, stall, loop) before those of bodies.
        """
        self.faults.append(Fault(pattern, **what))
        return self.faults[-1]

    def throttle(self, bytes_per_second: float | None, latency: float = 0) -> None:
        """Limit what each connection carries, and wait so many seconds before each answer."""
        self.rate, self.latency = bytes_per_second, latency

    def matching(self, pattern: str = "", origin: Origin | None = None, *, timeout: float = 10) -> list[Request]:
        """Requests whose path and query match, once all requests are answered.

        Raises:
            TimeoutError: one is still being answered after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while not all(request.done for request in list(self.requests)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"unanswered after {timeout} s: {[r for r in self.requests if not r.done]}")
            time.sleep(0.005)
        return [r for r in self.requests if origin in (None, r.origin) and re.search(pattern, r.path)]

    def bytes_sent(self, pattern: str = "", origin: Origin | None = None) -> int:
        """Bytes of the bodies of all answers to matching requests."""
        return sum(request.sent for request in self.matching(pattern, origin))

    def environment(self, home: Path, *, token: str | None = None) -> dict[str, str]:
        """Environment of a process whose clients shall ask this hub and no other, and keep their caches in `home`."""
        foreign = re.compile(r"(HF_|HUGGING|TRANSFORMERS_).*|.*_proxy", re.IGNORECASE)
        kept = {name: value for name, value in os.environ.items() if not foreign.fullmatch(name)}
        # Else the library would ask the hub to convert checkpoints that are pickles.
        ours = {"HF_ENDPOINT": self.endpoint, "HF_HOME": str(home), "DISABLE_SAFETENSORS_CONVERSION": "1"}
        return kept | ours | ({"HF_TOKEN": token} if token else {})

    def wait(self, seconds: float) -> None:
        """Sleep, but not beyond the end of the hub.

        Raises:
            ConnectionAbortedError: the hub ends.
        """
        if seconds > 0 and self._closing.wait(seconds):
            raise ConnectionAbortedError

    def struck(self, request: Request, *, in_body: bool) -> Fault:
        """The fault that strikes a request; one that does nothing if there is none."""
        with self.lock:
            found = (fault for fault in self.faults if fault.in_body == in_body and fault.strikes(request))
            return next(found, Fault(""))


class _Server(ThreadingHTTPServer):
    request_queue_size = 64

    def __init__(self, hub: Hub, origin: Origin, port: int) -> None:
        self.hub, self.origin = hub, origin
        super().__init__(("127.0.0.1", port), _Handler, bind_and_activate=False)
        self.server_bind()

    def handle_error(self, *where: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client that goes away is no news
            super().handle_error(*where)


class _Refusal(Exception):
    """An answer without a body."""

    def __init__(self, status: int, code: str | None = None, **headers: str) -> None:
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if code:
            self.headers |= {"X-Error-Code": code, "X-Error-Message": code}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for the acknowledgement of its header
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.hub = self.server.hub
        self.hub.connections.add(self.connection)

    def finish(self) -> None:
        self.hub.connections.discard(self.connection)
        super().finish()

    def log_message(self, *_: object) -> None:
        """Quiet: the log is `Hub.requests`."""

    def do_GET(self) -> None:
        authorized = "Authorization" in self.headers
        self.log = Request(self.server.origin, self.command, self.path, self.headers.get("Range"), authorized)
        self.hub.requests.append(self.log)
        try:
            self.content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.hub.wait(self.hub.latency)
            fault = self.hub.struck(self.log, in_body=False)
            self.hub.wait(fault.stall)
            if fault.loop:
                raise _Refusal(302, Location=self.path)
            if fault.status:
                raise _Refusal(fault.status, **fault.headers)
            self.route()
        except _Refusal as refusal:
            self.head(refusal.status, refusal.headers | {"Content-Length": "0"})
        except ConnectionError:
            self.close_connection = True
        finally:
            self.log.done = True

    do_HEAD = do_POST = do_GET

    def route(self) -> None:
        """Answer by the path."""
        path = urlsplit(self.path).path
        if self.server.origin == "cdn":
            if (match := BLOB.fullmatch(path)) and (file := self.hub.blobs.get(match["sha256"])):
                return self.send_file(file, {"ETag": f'"{file.sha256}"'})
        elif match := SMALL.fullmatch(path):
            return self.resolve(match, small=True)
        elif match := API.fullmatch(path):
            return self.api(match)
        elif match := RESOLVE.fullmatch(path):
            return self.resolve(match, small=False)
        raise _Refusal(404)

    def commit(self, match: re.Match[str]) -> tuple[Repository, str]:
        """The repository and commit that a path names."""
        repository = self.hub.repositories.get((match["kind"] or "model", match["id"]))
        if repository is None:
            raise _Refusal(404, "RepoNotFound")
        revision = unquote(match["revision"] or "main")
        commit = repository.revisions.get(revision, revision)
        if commit not in repository.commits:
            raise _Refusal(404, "RevisionNotFound")
        return repository, commit

    def api(self, match: re.Match[str]) -> None:
        """What a repository is and what it holds."""
        repository, commit = self.commit(match)
        query = parse_qs(urlsplit(self.path).query)
        files = repository.commits[commit]
        folders = {str(folder) for name in files for folder in PurePosixPath(name).parents} - {"."}
        entries = {name: {"type": "directory", "path": name, "size": 0, "oid": "0" * 40} for name in sorted(folders)}
        for name, file in files.items():
            entries[name] = {"type": "file", "path": name, "size": file.size, "oid": file.oid, **file.lfs("oid")}
        if match["part"] == "tree":
            top = unquote(match["path"] or ".")
            if top not in folders | {"."}:
                raise _Refusal(404, "EntryNotFound", X_Repo_Commit=commit)
            depth = None if query.get("recursive", [""])[0].lower() in ("true", "1") else 1
            above = {name: [str(folder) for folder in PurePosixPath(name).parents][:depth] for name in entries}
            self.send_json([entry for name, entry in entries.items() if top in above[name]])
        elif match["part"] == "paths-info":
            decode = json.loads if "json" in self.headers.get("Content-Type", "") else parse_qs
            self.send_json([entries[path] for path in decode(self.content.decode())["paths"] if path in entries])
        else:
            siblings = [
                {"rfilename": name, "size": file.size, "blobId": file.oid, **file.lfs("sha256")}
                if "blobs" in query
                else {"rfilename": name}
                for name, file in files.items()
            ]
            gated = "manual" if repository.gated else False
            self.send_json({**UNREMARKABLE, "id": match["id"], "sha": commit, "siblings": siblings, "gated": gated})

    def resolve(self, match: re.Match[str], *, small: bool) -> None:
        """A file, or where it lies: on the CDN, or under an address that caches keep."""
        repository, commit = self.commit(match)
        if repository.gated and self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            raise _Refusal(403 if self.log.authorized else 401, "GatedRepo")
        name = unquote(match["path"])
        file = repository.commits[commit].get(name)
        if file is None:
            raise _Refusal(404, "EntryNotFound", X_Repo_Commit=commit)
        headers = {"X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if file.sha256:
            query = f"file={quote(match['id'] + '/' + name)}&Signature={file.oid}"
            headers |= {"X-Linked-Size": str(file.size), "X-Linked-ETag": f'"{file.sha256}"'}
            raise _Refusal(302, **headers, Location=f"{self.hub.cdn}/blob/{file.sha256}?{query}")
        headers["ETag"] = f'"{file.oid}"'
        if small:
            return self.send_file(file, headers)
        place = f"{match['kind'] or 'model'}s/{match['id']}/{commit}/{quote(name)}"
        raise _Refusal(307, **headers, Location=f"/api/resolve-cache/{place}")

    def send_json(self, value: object) -> None:
        content = json.dumps(value).encode()
        self.send_body(io.BytesIO(content), len(content), None, {"Content-Type": "application/json"})

    def send_file(self, file: File, headers: Mapping[str, str]) -> None:
        with file.path.open("rb") as opened:
            self.send_body(opened, file.size, self.headers.get("Range"), headers)

    def send_body(self, content: BinaryIO, size: int, asked: str | None, headers: Mapping[str, str]) -> None:
        """Answer with a content, or the range of it that was asked for, as a fault leaves it."""
        fault = self.hub.struck(self.log, in_body=True)
        start, end, status, ours = 0, size, 200, {"Accept-Ranges": "bytes"}
        if asked and not fault.whole and (match := RANGE.fullmatch(asked)):
            first, last = match.groups()
            start = int(first) if first else max(0, size - int(last))
            end = min(int(last) + 1, size) if first and last else size
            if start >= size:
                raise _Refusal(416, Content_Range=f"bytes */{size}")
            start, end = start + fault.shift, min(end + fault.shift, size)
            status, ours["Content-Range"] = 206, f"bytes {start}-{end - 1}/{size}"
        end = max(start, end - fault.short)
        self.head(status, {**ours, **headers, "Content-Length": str(end - start), **fault.headers})
        if self.command != "HEAD":
            self.pour(content, start, end, fault)

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        self.log.status = status
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def pour(self, content: BinaryIO, start: int, end: int, fault: Fault) -> None:
        """Send the bytes ``[start, end)`` a block at a time, at the pace that is set."""
        rate = fault.drip or self.hub.rate
        # Some twenty blocks a second, so that a slow answer is slow all the time.
        block = min(BLOCK, max(1, int(rate / 20))) if rate else BLOCK
        stop = end if fault.reset_after is None else min(end, start + fault.reset_after)
        content.seek(start)
        began = time.monotonic()
        for place in range(start, stop, block):
            data = content.read(min(block, stop - place))
            if fault.corrupt is not None and place <= fault.corrupt < place + len(data):
                at = fault.corrupt - place
                data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            self.wfile.write(data)
            self.log.sent += len(data)
            if rate:
                self.hub.wait(began + (place + len(data) - start) / rate - time.monotonic())
        if fault.reset_after is not None:
            self.reset()

    def reset(self) -> None:
        """End the connection as a crash does: with RST, not in order."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.rfile.close()
        self.connection.close()
        raise ConnectionResetError


def served(folder: Path) -> Iterable[tuple[Kind, str, str, Path]]:
    """Kind, name, revision and folder of each repository under ``models/ORG/NAME[@REVISION]`` and ``datasets/...``."""
    kinds: tuple[Kind, ...] = ("model", "dataset")
    for kind in kinds:
        for path in sorted((folder / f"{kind}s").glob("*/*")):
            name, _, revision = path.name.partition("@")
            yield kind, f"{path.parent.name}/{name}", revision or "main", path


def main() -> None:
    """Serve a folder of repositories until interrupted; the first line says where."""
    parser = argparse.ArgumentParser(prog="python -m hub.server", description=main.__doc__)
    parser.add_argument("folder", type=Path, help="holds models/ORG/NAME[@REVISION]/ and datasets/ORG/NAME[@REVISION]/")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--rate", type=float, help="bytes per second of each connection")
    parser.add_argument("--latency", type=float, default=0, help="seconds before each answer")
    args = parser.parse_args()
    with Hub(port=args.port) as hub, contextlib.suppress(KeyboardInterrupt):
        hub.throttle(args.rate, args.latency)
        print(f"HF_ENDPOINT={hub.endpoint}", flush=True)
        for kind, repo_id, revision, path in served(args.folder):
            print(f"{kind} {repo_id}@{revision} {hub.add(repo_id, path, kind=kind, revision=revision)}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
