"""Bring the recorded results of a study, so that nothing has to be computed; for ``make fetch``.

They come from the repository itself, or, where one is set up, from a remote of DVC.  DVC compares each file that it
pulls with the digest in a listing, but takes the listing of a folder as the remote has it: one that was tampered with
can name other files, or places outside the repository.  So the listings come first and are compared with `dvc.lock`,
which git keeps; DVC then finds them in its cache and copies only their files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dvc.exceptions import DvcException
from dvc.repo import Repo
from dvc_objects.errors import ObjectFormatError

import carried
from carried import CarriedError, checked_listing
from pipelines import UnknownStudyError, default_study, lock, pipeline
from reconcile import main as lock_and_remove_damaged
from reconcile import remove_damaged


def fetch_listings(repo: Repo, names: Iterable[str], remote_name: str) -> None:
    """Fill DVC's cache with the listings of recorded folders, each checked.

    Args:
        repo: of DVC.
        names: MD5 and ``.dir`` of each, from `dvc.lock`.
        remote_name: where they come from.

    Raises:
        CarriedError: the remote lacks one, gives another, or is set up to accept damaged files.
    """
    remote = repo.cloud.get_remote_odb(remote_name)
    if not remote.verify:
        raise CarriedError(
            f"remote {remote_name}: accepts damaged files; "
            f"first run: dvc remote modify --local {remote_name} verify true"
        )
    cache = repo.cache.local
    for name in names:
        cached = Path(cache.oid_to_path(name))
        if cached.is_file():
            try:
                checked_listing(cached.read_bytes(), name, str(cached))
                continue
            except CarriedError:
                cached.unlink()  # as an earlier pull by DVC alone may have left it
        path = remote.oid_to_path(name)
        try:
            content = remote.fs.cat_file(path)
        except FileNotFoundError:
            raise CarriedError(f"{path}: no such file; the record was not pushed, or not whole") from None
        checked_listing(content, name, path)
        cache.add_bytes(name, content)


def fetch(study: str, file: Path, remote: str | None, *, force: bool) -> int:
    """Bring the results of a study; returns the number of files that were not there.

    Args:
        study: its name.
        file: its pipeline.
        remote: of DVC; None for the default one, which is what the repository carries unless another is set up.
        force: whether results that were never recorded are given up.

    Raises:
        CarriedError: what was found cannot be trusted, or is not whole.
    """
    with Repo() as repo:
        stages = carried.recorded(repo.stage.collect(str(file)))
        remote = remote or repo.config["core"].get("remote")
        if remote not in (None, carried.REMOTE):
            digests = [md5 for outs in stages.values() for md5 in outs.values()]
            fetch_listings(repo, [md5 for md5 in digests if md5.endswith(carried.LISTING)], remote)
            repo.fetch(targets=[str(file)], remote=remote)
        else:
            carried.restore(study, stages, repo.cache.local)
        done: dict[str, Any] = repo.checkout(targets=[str(file)], force=force)
    return int(done["stats"]["added"]) + int(done["stats"]["modified"])


def changed_results(file: Path) -> list[str]:
    """Recorded files and folders of a pipeline that are not what its lock file says."""
    with Repo() as repo:
        status: dict[str, list[Any]] = repo.status(targets=[str(file)])
    return [
        path
        for parts in status.values()
        for part in parts
        if isinstance(part, dict)
        for path in part.get("changed outs", {})
    ]


def main() -> int:
    """Fetch and check; 1 after a line that says what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("study", nargs="?", help="its name (default: that of params.yaml)")
    parser.add_argument("-r", "--remote", help="of DVC, in place of the default one")
    parser.add_argument("-f", "--force", action="store_true", help="give up results that were never recorded")
    args = parser.parse_args()
    try:
        study = args.study or default_study()
        file = pipeline(study)
        if not lock(study).is_file():
            print(
                f"make fetch: {study} was not recorded yet; make record STUDY={study} computes and records it",
                file=sys.stderr,
            )
            return 1
        # Before as well as after: DVC does not overwrite edited files.
        if lock_and_remove_damaged():
            return 1
        count = fetch(study, file, args.remote, force=args.force)
        remove_damaged()
        changed = changed_results(file)
    except (UnknownStudyError, CarriedError, DvcException, ObjectFormatError, OSError) as error:
        print(f"make fetch: {error}", file=sys.stderr)
        return 1
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        print(
            f"make fetch: {changed[0]}{more}: not what {lock(study)} says; run it again with PULL=--force",
            file=sys.stderr,
        )
        return 1
    print(f"fetched: {study}: {count} files" if count else f"fetched: {study}: all files were there")
    return 0


if __name__ == "__main__":
    sys.exit(main())
