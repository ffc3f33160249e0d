"""Download the recorded results from a remote, so that nothing has to be computed; for ``make fetch``.

DVC compares each file that it pulls with the digest in a listing, but takes the listing of a folder as the remote has
it: one that was tampered with can name other files, or places outside the repository.  So the listings come first and
are compared with `dvc.lock`, which git keeps; DVC then finds them in its cache and copies only their files.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from dvc.exceptions import DvcException
from dvc.repo import Repo
from dvc_objects.errors import ObjectFormatError

from reconcile import main as lock_and_remove_damaged
from reconcile import remove_damaged

MD5 = re.compile(r"[0-9a-f]{32}")


class FetchError(ValueError):
    """The remote cannot be trusted or lacks a file; the message says which and what to do."""


def listings(repo: Repo) -> Iterator[str]:
    """What `dvc.lock` calls the listing of each recorded folder: its MD5 and ``.dir``."""
    for out in repo.index.outs:
        if out.use_cache and out.hash_info and out.hash_info.isdir:
            yield str(out.hash_info.value)


def checked_listing(content: bytes, name: str, where: str) -> None:
    """Stop at a listing that is not the recorded one, or that names files outside its folder.

    Args:
        content: the listing's bytes.
        name: its MD5 and ``.dir``.
        where: it was read, for the message.

    Raises:
        FetchError: it is not what its name says, no list of files, or names a place that is not below its folder.
    """
    if f"{hashlib.md5(content, usedforsecurity=False).hexdigest()}.dir" != name:
        raise FetchError(
            f"{where}: not the listing that dvc.lock records: damaged or tampered with; nothing was fetched"
        )
    try:
        entries = [(entry["relpath"], entry["md5"]) for entry in json.loads(content)]
        places = [PurePosixPath(place) for place, _ in entries]
        wrong = [md5 for _, md5 in entries if not MD5.fullmatch(md5)]
    except (ValueError, TypeError, KeyError) as error:
        raise FetchError(f"{where}: no listing of files ({error}); nothing was fetched") from error
    wrong += [str(place) for place in places if place.is_absolute() or not place.parts or ".." in place.parts]
    wrong += [str(place) for place in places if "\\" in str(place) or "\0" in str(place)]
    if wrong:
        raise FetchError(f"{where}: names {wrong[0]!r}, which is no file below its folder; nothing was fetched")


def fetch_listings(repo: Repo, remote_name: str | None) -> None:
    """Fill DVC's cache with the listings of the recorded folders, each checked.

    Raises:
        FetchError: the remote lacks one, gives another, or is set up to accept damaged files.
    """
    remote = repo.cloud.get_remote_odb(remote_name)
    if not remote.verify:
        name = remote_name or repo.config["core"]["remote"]
        raise FetchError(
            f"remote {name}: accepts damaged files; first run: dvc remote modify --local {name} verify true"
        )
    cache = repo.cache.local
    for name in listings(repo):
        cached = Path(cache.oid_to_path(name))
        if cached.is_file():
            try:
                checked_listing(cached.read_bytes(), name, str(cached))
                continue
            except FetchError:
                cached.unlink()  # as an earlier pull by DVC alone may have left it
        path = remote.oid_to_path(name)
        try:
            content = remote.fs.cat_file(path)
        except FileNotFoundError:
            raise FetchError(f"{path}: no such file; the record was not pushed, or not whole") from None
        checked_listing(content, name, path)
        cache.add_bytes(name, content)


def changed_results() -> list[str]:
    """Recorded files and folders that are not what `dvc.lock` says."""
    output = subprocess.run(
        [sys.executable, "-m", "dvc", "status", "--json"], check=True, stdout=subprocess.PIPE
    ).stdout
    status: dict[str, list[Any]] = json.loads(output)
    return [
        path
        for parts in status.values()
        for part in parts
        if isinstance(part, dict)
        for path in part.get("changed outs", {})
    ]


def main() -> int:
    """Fetch and check; 1 after a line that says what is wrong."""
    parser = argparse.ArgumentParser(description="Other arguments go to dvc pull, such as --force.")
    parser.add_argument("-r", "--remote", help="in place of the default one")
    args, others = parser.parse_known_args()
    # Before as well as after: DVC does not overwrite edited files.
    if lock_and_remove_damaged():
        return 1
    try:
        with Repo() as repo:
            fetch_listings(repo, args.remote)
    except (FetchError, DvcException, ObjectFormatError, OSError) as error:
        print(f"make fetch: {error}", file=sys.stderr)
        return 1
    chosen = ["--remote", args.remote] if args.remote else []
    pulled = subprocess.run([sys.executable, "-m", "dvc", "pull", *chosen, *others])
    if pulled.returncode:
        return pulled.returncode
    remove_damaged()
    if changed := changed_results():
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        print(
            f"make fetch: {changed[0]}{more}: not what dvc.lock says; run it again with PULL=--force", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
