"""Whatever stands in the hub's place, a login page, a proxy, another service, is named in one line."""

import portal
import pytest
from portal import COMMIT

from embscale.checkpoints import hub
from embscale.errors import EmbscaleError

FILE = '{"type": "file", "path": "config.json", "size": 9, "oid": "b"}'

ANSWERS = {
    "a login page": b"<!DOCTYPE html><html><body>Log in</body></html>",
    "nothing": b"",
    "null": b"null",
    "an empty object": b"{}",
    "an empty list": b"[]",
    "a number": b"3",
    "a text": b'"hub"',
    "an error that is none": b'{"error": "no"}',
    "half of it": FILE[:30].encode(),
    "no text": b"\xff\xfe\x00\x80",
    "numbers": b"[1, 2]",
    "nulls": b"[null]",
    "lists": b"[[[]]]",
    "files without anything": b'[{"type": "file"}]',
    "a size in words": b'[{"type": "file", "path": "config.json", "size": "large", "oid": "b"}]',
    "a negative size": b'[{"type": "file", "path": "config.json", "size": -9, "oid": "b"}]',
    "no digest": b'[{"type": "file", "path": "config.json", "size": 9, "oid": null}]',
    "a path that is a number": b'[{"type": "file", "path": 7, "size": 9, "oid": "b"}]',
    "lfs of another kind": b'[{"type": "file", "path": "config.json", "size": 9, "oid": "b", "lfs": 3}]',
    "a commit that is a number": b'{"id": "o/n", "sha": 3}',
    "a short commit": b'{"id": "o/n", "sha": "abc"}',
    "no commit": b'{"id": "o/n"}',
    "siblings of another kind": b'{"id": "o/n", "sha": "abc", "siblings": 3}',
    "deep nesting": b"[" * 100_000,
}


@pytest.fixture(scope="module")
def place():
    """The server and its address."""
    with portal.standing() as found:
        yield found


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_that_is_not_the_hubs_is_one_line_with_the_address(kind, place, tmp_path):
    server, address = place
    server.body = ANSWERS[kind]
    for ask in (
        lambda: hub.resolve("o/n", "main"),
        lambda: hub.HubFolder("o/n", COMMIT).files(),
        lambda: hub.download("o/n", COMMIT, tmp_path / "to", names=["config.json"]),
    ):
        with pytest.raises(EmbscaleError) as raised:
            ask()
        told = str(raised.value)
        assert told.startswith("o/n@") and "\n" not in told and len(told) < 400
        assert f"{address} answered with something that is not the hub's" in told, told
    assert not (tmp_path / "to" / "config.json").exists()


def test_a_page_in_place_of_a_range_is_refused(place):
    server, _ = place
    folder = hub.HubFolder("o/n", COMMIT)
    server.body = f"[{FILE}]".encode()
    assert folder.files() == {"config.json": 9}
    server.body = ANSWERS["a login page"]
    with pytest.raises(EmbscaleError, match=r"asked for bytes 0-8/9, got no range \(status 200\)"):
        folder.fetch("config.json", 0, 9)
