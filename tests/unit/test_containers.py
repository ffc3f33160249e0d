"""Directories of checkpoint files against torch and safetensors themselves; whatever is malformed is told."""

import io
import json
import math
import os
import pickle
import pickletools
import struct
import warnings
import zipfile
import zlib

import pytest
import safetensors
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors

from embscale.checkpoints import containers, dtypes
from embscale.checkpoints.containers import directory, index
from embscale.checkpoints.ranges import BLOCK, LocalFolder, open_file
from embscale.errors import EmbscaleError

LABEL = "org/model@0123/model.bin"
WORDS = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.complex64: "C64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
# Words that safetensors knows beside those.
ITS_WORDS = {
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
    torch.float8_e5m2: "F8_E5M2",
    torch.float8_e5m2fnuz: "F8_E5M2FNUZ",
    torch.float8_e8m0fnu: "F8_E8M0",
}


def zipped(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def legacy(state):
    buffer = io.BytesIO()
    torch.save(state, buffer, _use_new_zipfile_serialization=False)
    return buffer.getvalue()


def flat(state):
    """As safetensors, which wants every tensor by itself."""
    return save_safetensors({name: tensor.clone().contiguous() for name, tensor in state.items()})


def load(data):
    return load_safetensors(data) if data[8:9] == b"{" else torch.load(io.BytesIO(data), weights_only=True)


WRITERS = {"zip": zipped, "legacy": legacy, "safetensors": flat}
PICKLED = {"zip": zipped, "legacy": legacy}


def tiny(dtype=torch.float32):
    """A state dict with what real ones hold beside plain tensors."""
    torch.manual_seed(0)
    table, large = torch.randn(7, 5).to(dtype), torch.randn(10, 4).to(dtype)
    state = torch.nn.BatchNorm1d(3).state_dict()  # ordered, with the versions of its modules as an attribute
    state |= {"table": table, "tied": table, "rows": large[3:6], "scalar": torch.tensor(2.5).to(dtype)}
    state |= {"empty": large.as_strided((0, 4), (7, 9)), "row": large.as_strided((1, 4), (9, 1), 8)}
    return state | {"position_ids": torch.arange(12), "mask": torch.ones(2, 2) > 0}


def raw(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def read(data):
    return directory(io.BytesIO(data), size=len(data), label=LABEL)


def refuse(data, match=None):
    with pytest.raises(EmbscaleError, match=match) as caught:
        list(read(data).values())
    assert str(caught.value).startswith(f"{LABEL}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_the_bytes_are_those_of_the_tensors(writer, dtype):
    data = writer(tiny(dtype))
    expected, found = load(data), read(data)
    assert set(found) == set(expected) == set(tiny())
    assert len(found) == len(expected)
    for name, tensor in expected.items():
        stored = found[name]
        assert (stored.name, stored.dtype, stored.shape) == (name, WORDS[tensor.dtype], tuple(tensor.shape))
        assert data[stored.start : stored.end] == raw(tensor)
        assert stored.crc32 in (None, zlib.crc32(raw(tensor)))
        assert stored.end - stored.start == math.prod(stored.shape) * dtypes.ITEM_SIZES[stored.dtype]
    assert (found["table"].crc32 is not None) == (writer is zipped)
    assert found["rows"].crc32 is None  # what the file has is that of the larger storage
    assert (found["table"].start == found["tied"].start) == (writer is not flat)


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_every_dtype_has_its_word_and_size(writer):
    words = WORDS | ITS_WORDS if writer is flat else WORDS
    data = writer({word: torch.zeros(3, dtype=dtype) for dtype, word in words.items()})
    assert {name: (t.dtype, t.end - t.start) for name, t in read(data).items()} == {
        word: (word, 3 * dtype.itemsize) for dtype, word in words.items()
    }
    assert set(dtypes.ITEM_SIZES) == {*WORDS.values(), *ITS_WORDS.values()}


def test_a_directory_is_a_mapping_that_knows_what_it_lacks():
    found = read(zipped(tiny()))
    assert "table" in found
    assert "lm_head.weight" not in found
    with pytest.raises(KeyError):
        found["lm_head.weight"]


@pytest.mark.parametrize("writer", PICKLED.values(), ids=PICKLED)
def test_a_strided_tensor_is_reported_when_it_is_asked_for_and_spoils_no_other(writer):
    square = torch.randn(4, 4)
    state = {"transposed": square.T, "columns": square[:, :2], "spread": torch.ones(1, 3).expand(2, 3)}
    data = writer({"plain": square} | state)
    found = read(data)
    assert set(found) == {"plain", *state}
    assert data[found["plain"].start : found["plain"].end] == raw(square)
    for name in state:
        with pytest.raises(EmbscaleError, match=rf"model\.bin: .*'{name}' do not lie row by row"):
            found[name]


class Recorded(io.RawIOBase):
    """A file that notes which bytes are read."""

    def __init__(self, data):
        self._inner = io.BytesIO(data)
        self.ranges = []

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=0):
        return self._inner.seek(offset, whence)

    def tell(self):
        return self._inner.tell()

    def readinto(self, buffer):
        start = self._inner.tell()
        count = self._inner.readinto(buffer)
        self.ranges.append((start, start + count))
        return count


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_no_byte_of_a_tensor_is_read(writer):
    data = writer({f"layer.{i}": torch.randn(100, 100) for i in range(20)})
    file = Recorded(data)
    found = directory(file, size=len(data), label=LABEL)
    opened = sum(end - start for start, end in file.ranges)
    tensors = list(found.values())
    assert all(end <= t.start or start >= t.end for start, end in file.ranges for t in tensors)
    assert opened < 10_000 < sum(t.end - t.start for t in tensors) // 50
    assert sum(end - start for start, end in file.ranges) < opened + 20 * 64


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_one_tensor_costs_a_hub_three_blocks(writer, tmp_path):
    asked = []

    class Folder(LocalFolder):
        def fetch(self, name, start, end):
            asked.append(end - start)
            return super().fetch(name, start, end)

    (tmp_path / "model.bin").write_bytes(writer({f"layer.{i}": torch.randn(200, 500) for i in range(30)}))
    folder = Folder(tmp_path)
    found = directory(open_file(folder, "model.bin"), size=folder.files()["model.bin"], label=LABEL)
    assert found["layer.13"].shape == (200, 500)
    assert len(asked) <= 3
    assert sum(asked) <= 3 * BLOCK


# Attacks


class Attack:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


@pytest.mark.fault(
    "a checkpoint whose pickle runs a command", happens="one line; nothing runs", do="do not use this checkpoint"
)
@pytest.mark.parametrize("form", ["zip", "legacy", 0, 1, 2, 3, 4, 5])
def test_a_pickle_that_runs_a_command_is_refused_and_nothing_runs(form, tmp_path):
    marker = tmp_path / "marker"
    state = {"table": torch.ones(2, 2), "attack": Attack(marker)}
    data = PICKLED[form](state) if form in PICKLED else pickle.dumps(Attack(marker), protocol=form)
    refuse(data, f"its pickle names '{os.system.__module__}.system'" if form in PICKLED else None)
    assert not marker.exists()
    # What was refused is no dud.
    if form in PICKLED:
        torch.load(io.BytesIO(data), weights_only=False)
    else:
        pickle.loads(data)
    assert marker.exists()


@pytest.mark.parametrize("writer", PICKLED.values(), ids=PICKLED)
@pytest.mark.parametrize(
    ("state", "match"),
    [
        ({"a": torch.nn.Parameter(torch.ones(2))}, r"names 'torch\._utils\._rebuild_parameter'"),
        ({"model": {"a": torch.ones(2)}}, "a dict under 'model' where a tensor belongs"),
        ({"a": torch.ones(2), "step": 3}, "a int under 'step'"),
        ({3: torch.ones(2)}, "under 3"),
        (torch.nn.Linear(2, 2), r"names 'torch\.nn\.modules\.linear\.Linear'"),
        (torch.ones(2), "a _View where a dict of tensors belongs"),
        ([torch.ones(2)], "a list where a dict"),
        ({"a": torch.ones(2, dtype=torch.complex64).conj()}, "describes a tensor in a way"),
        ({"a": torch.ones(2, dtype=torch.complex128)}, r"names 'torch\.ComplexDoubleStorage'"),
        ({"a": torch.ones(2).to(torch.float8_e4m3fn)}, r"names 'torch\._utils\._rebuild_tensor_v3'"),
        ({"a": torch.ones(2).to_sparse()}, "_rebuild_sparse_tensor"),
    ],
)
def test_anything_but_a_flat_dict_of_tensors_is_refused(writer, state, match):
    with warnings.catch_warnings(action="ignore"):
        refuse(writer(state), match)


def pickles(data):
    """The five pickles of a legacy file, and what follows them."""
    file, parts = io.BytesIO(data), []
    for _ in range(5):
        start = file.tell()
        list(pickletools.genops(file))
        parts.append(data[start : file.tell()])
    return [*parts, data[file.tell() :]]


def with_pickle(state_pickle):
    """Two files, zip and legacy, with another pickle in the place of that of {"a": [1, 1]}."""
    parts = pickles(legacy({"a": torch.ones(2)}))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", state_pickle)
        archive.writestr("archive/data/0", raw(torch.ones(2)))
        archive.writestr("archive/version", "3\n")
    return [buffer.getvalue(), b"".join([*parts[:3], state_pickle, pickle.dumps(["0"], protocol=2), parts[5]])]


STORAGE = b"(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0%bX\3\0\0\0cpu%b%btQ"


def tensor_pickle(*, length=b"K\2", offset=b"K\0", shape=b"K\2\x85", stride=b"K\1\x85", key=b"0", view=b""):
    """The pickle of {"a": tensor}, part by part."""
    storage = STORAGE % (key, length, view)
    rest = offset + shape + stride + b"\x89ccollections\nOrderedDict\n)R"
    return b"\x80\2}X\1\0\0\0actorch._utils\n_rebuild_tensor_v2\n(" + storage + rest + b"tRs."


DEEP = b")" + b"\x85" * 200_000
PICKLE_BOMBS = {
    "deep key": b"\x80\2}" + DEEP + b"K\1s.",
    "deep value": b"\x80\2}K\1" + DEEP + b"s.",
    "deep shape": tensor_pickle(shape=DEEP),
    "deep number": tensor_pickle(offset=DEEP),
    "doubling": b"\x80\2}X\1\0\0\0a)" + b"2\x86" * 100 + b"s.",
    "doubling by memo": b"\x80\2})" + b"".join(b"q%ch%c\x86" % (i, i) for i in range(100)) + b"K\1s.",
    "self": b"\x80\2}q\0X\1\0\0\0ah\0s.",
    "list of itself": b"\x80\2]q\0h\0a.",
    "memo of nothing": b"\x80\2r\0\0\0\0.",
    "unknown memo": b"\x80\2h\7.",
    "long word": b"\x80\2X\xff\xff\xff\xff.",
    "longer word": b"\x80\2\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "long bytes": b"\x80\5\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "frame": b"\x80\4\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "long number": b"\x80\2\x8b\xff\xff\xff\x7f.",
    "decimal number": b"I" + b"9" * 10_000 + b"\n.",
    "long name": b"\x80\2c" + b"a" * 100_000 + b"\nb\n.",
    "name in two lines": b"\x80\2ccollections\n",
    "escaped name": b"\x80\2cpo\\x73ix\nsystem\n(X\4\0\0\0truetR.",
    "eval": b"\x80\2cbuiltins\neval\n(X\3\0\0\x001+1tR.",
    "torch's own loader": b"\x80\2ctorch.storage\n_load_from_bytes\n(X\1\0\0\0atR.",
    "attributes of a name": b"\x80\2ctorch._utils\n_rebuild_tensor_v2\n}b.",
    "word as a function": b"\x80\2X\5\0\0\0printX\1\0\0\0a\x85R.",
    "word as a function of nothing": b"\x80\2X\5\0\0\0print)R.",
    "word as a function of a tensor": tensor_pickle().replace(b"ctorch._utils\n_rebuild_tensor_v2\n", b"X\1\0\0\0f"),
    "instance": b"\x80\2(iposix\nsystem\n.",
    "new object": b"\x80\2ccollections\nOrderedDict\n)\x81.",
    "extension": b"\x80\2\x82\1.",
    "persistent word": b"\x80\2P0\n.",
    "persistent number": b"\x80\2K\1Q.",
    "nothing": b"",
    "protocol alone": b"\x80",
    "stop": b"\x80\2.",
    "no mark": b"\x80\2t.",
    "fills nothing": b"\x80\2(u.",
    "fills a word": b"\x80\2X\1\0\0\0aK\1K\1s.",
    "odd": b"\x80\2}(K\1u.",
    "key twice": tensor_pickle()[:-2] + b"q\0sX\1\0\0\0ah\0s.",
    "view of a storage": tensor_pickle(view=b"X\1\0\0\0zK\0K\2\x87"),
    "list as a key": b"\x80\2}]K\1s.",
    "surrogate": b"\x80\2X\1\0\0\0\xff.",
    "negative length": tensor_pickle(length=b"J\xff\xff\xff\xff"),
    "negative offset": tensor_pickle(offset=b"J\xff\xff\xff\xff"),
    "negative shape": tensor_pickle(shape=b"J\xff\xff\xff\xff\x85"),
    "negative shape twice": tensor_pickle(shape=b"J\xff\xff\xff\xffJ\xfe\xff\xff\xff\x86", stride=b"K\1K\1\x86"),
    "huge shape": tensor_pickle(shape=b"\x8a\xff" + b"\x7f" * 255 + b"\x85"),
    "huge length": tensor_pickle(length=b"\x8a\xff" + b"\x7f" * 255),
    "huge offset": tensor_pickle(offset=b"\x8a\xff" + b"\x7f" * 255),
    "overflowing shape": tensor_pickle(shape=b"(" + b"\x8a\x08" + b"\xff" * 7 + b"\x7fK\2t", stride=b"K\2K\1\x86"),
    "many dimensions": tensor_pickle(shape=b"(" + b"K\1" * 100_000 + b"t", stride=b"(" + b"K\1" * 100_000 + b"t"),
    "shape of words": tensor_pickle(shape=b"X\1\0\0\0a\x85"),
    "shape and stride of two lengths": tensor_pickle(shape=b"K\2\x85", stride=b")"),
    "over the edge": tensor_pickle(shape=b"K\3\x85"),
    "behind the edge": tensor_pickle(offset=b"K\1"),
    "another storage": tensor_pickle(key=b"7"),
}


# Why, where something else would be refused too.
REASONS = {
    PICKLE_BOMBS["key twice"]: "a key twice",
    PICKLE_BOMBS["deep key"]: "no dict, or a key",
    PICKLE_BOMBS["negative length"]: "a storage in a way",
    PICKLE_BOMBS["word as a function of nothing"]: "a tensor in a way",
    PICKLE_BOMBS["word as a function of a tensor"]: "a tensor in a way",
    PICKLE_BOMBS["view of a storage"]: "a storage in a way",
}


@pytest.mark.fault(
    "a pickle made to fill memory or never to end", happens="one line, within limits", do="do not use this checkpoint"
)
@pytest.mark.long
@pytest.mark.parametrize("bomb", PICKLE_BOMBS.values(), ids=PICKLE_BOMBS)
def test_a_hostile_pickle_is_refused(bomb):
    for data in with_pickle(bomb):
        refuse(data, REASONS.get(bomb))


def test_the_parts_that_hostile_pickles_are_made_of_are_good_ones():
    new, old = with_pickle(tensor_pickle())[0], with_pickle(tensor_pickle(view=b"N"))[1]
    for data in (new, old):
        assert torch.equal(load(data)["a"], torch.ones(2))
        stored = read(data)["a"]
        assert data[stored.start : stored.end] == raw(torch.ones(2))


def test_a_memo_takes_no_room_for_what_is_not_in_it():
    """The standard library's would take 32 GiB here."""
    for data in with_pickle(tensor_pickle()[:-1] + b"r\xff\xff\xff\xff."):
        assert set(read(data)) == {"a"}


def test_a_name_without_an_end_is_not_read_to_the_end():
    file = Recorded(b"\x80\2ctorch" + b"a" * 10**6)
    with pytest.raises(EmbscaleError, match="no newline"):
        directory(file, size=10**6, label=LABEL)
    assert sum(end - start for start, end in file.ranges) < 1000


def test_what_is_read_and_done_has_a_limit(monkeypatch, tmp_path):
    files = [writer({f"layer.{i}": torch.ones(2) for i in range(100)}) for writer in WRITERS.values()]
    with monkeypatch.context() as patch:
        patch.setattr(containers, "LARGEST", 2000)
        for data in files:
            refuse(data, "takes more than 4000 bytes|neither a whole safetensors")
    with monkeypatch.context() as patch:
        patch.setattr(containers, "MOST_OPCODES", 50)
        for data in files[:2]:
            refuse(data, "more than 50 steps")
    # A central directory of 3 GB.
    path = tmp_path / "model.bin"
    size = 3 * 10**9
    with path.open("wb") as file:
        file.write(b"PK\3\4")
        file.seek(size)
        file.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, size - 100, 100, 0))
    with path.open("rb") as file, pytest.raises(EmbscaleError, match="takes more than"):
        directory(file, size=path.stat().st_size, label=LABEL)


# Zip archives


def rewrite(data, change=lambda name, content: content, **options):
    """The same archive as the standard library writes it, its records changed; None leaves one out."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            content = change(name, old.read(name))
            if content is not None:
                with new.open(name, "w", **options) as record:
                    record.write(content)
    return buffer.getvalue()


@pytest.mark.parametrize("force_zip64", [False, True])
def test_archives_of_another_writer_are_read_too(force_zip64):
    data = rewrite(zipped(tiny()), force_zip64=force_zip64)
    for name, tensor in load(data).items():
        stored = read(data)[name]
        assert data[stored.start : stored.end] == raw(tensor)
        assert stored.crc32 in (None, zlib.crc32(raw(tensor)))


def test_places_and_sizes_above_4_gib_are_right(tmp_path):
    path = tmp_path / "model.bin"
    with torch.serialization.skip_data():  # leaves holes in the file
        torch.save({"large": torch.empty(5 * 2**30, dtype=torch.uint8), "after": torch.zeros(3, 2)}, path)
    with path.open("r+b") as file:
        found = directory(file, size=path.stat().st_size, label=LABEL)
        large, after = found["large"], found["after"]
        for place, content in (
            (large.start, b"\1"),
            (large.end - 1, b"\2"),
            (after.start, struct.pack("<6f", *range(6))),
        ):
            file.seek(place)
            file.write(content)
    assert after.start > 5 * 2**30
    expected = torch.load(path, mmap=True, weights_only=True)
    assert torch.equal(expected["after"], torch.arange(6.0).reshape(3, 2))
    assert (expected["large"][0], expected["large"][-1]) == (1, 2)


def start_of(data, name):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.getinfo(name).header_offset


@pytest.mark.fault("a damaged zip of tensors", happens="one line", do="fetch it again")
def test_damaged_archives_are_reported():
    good = zipped({"a": torch.ones(64)})
    compressed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good)) as old, zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    refuse(compressed.getvalue(), "compressed or encrypted")
    central = good.index(b"PK\1\2")
    refuse(good[: central + 8] + b"\x09" + good[central + 9 :], "compressed or encrypted")
    refuse(rewrite(good, lambda name, content: None if name.endswith("data.pkl") else content), "one data.pkl")
    refuse(
        rewrite(good, lambda name, content: None if name.endswith("data/0") else content), "no record 'archive/data/0'"
    )
    refuse(rewrite(good, lambda name, content: content[:-1] if name.endswith("data/0") else content), "of 256 bytes")
    refuse(rewrite(good, lambda name, content: content + b"x" if name.endswith("data/0") else content), "of 256 bytes")
    refuse(rewrite(good, lambda name, content: b"big" if name.endswith("byteorder") else content), "not little-endian")
    for extra in ("archive/data/0", "other/data.pkl"):
        buffer = io.BytesIO(good)
        with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(buffer, "a") as archive:
            archive.writestr(extra, b"x")
        refuse(buffer.getvalue(), "two records of one name|one data.pkl")


@pytest.mark.parametrize("offset", [0, 3, 26, 27, 29, 30, 40])
def test_a_local_header_that_does_not_fit_is_reported(offset):
    """Signature, lengths of the name and of the extra field (its upper byte), name."""
    data = bytearray(zipped({"a": torch.ones(64)}))
    data[start_of(data, "archive/data/0") + offset] ^= 0x7F
    refuse(bytes(data), "not where the archive's directory says")


def test_a_place_before_the_file_is_reported(tmp_path):
    """The archive's directory is said to begin 1000 bytes later than it does, which moves all records forward."""
    path, data = tmp_path / "model.bin", bytearray(rewrite(zipped({"a": torch.ones(64)})))
    data[-6:-2] = struct.pack("<L", struct.unpack("<L", data[-6:-2])[0] + 1000)
    path.write_bytes(data)
    with path.open("rb") as file, pytest.raises(EmbscaleError, match="before the first byte"):
        directory(file, size=len(data), label=LABEL)


@pytest.mark.parametrize("moved", [1, 10**6, 2**31])
def test_a_record_that_is_declared_elsewhere_is_reported(moved):
    data = bytearray(zipped({"a": torch.ones(64)}))
    entry = data.index(b"archive/data/0", data.index(b"PK\1\2")) - 46
    data[entry + 42 : entry + 46] = struct.pack("<L", start_of(data, "archive/data/0") + moved)
    refuse(bytes(data))


def test_overlapping_records_are_reported():
    data = bytearray(zipped({"a": torch.ones(64), "b": torch.ones(64)}))
    entry = data.index(b"archive/data/1", data.index(b"PK\1\2")) - 46
    data[entry + 42 : entry + 46] = struct.pack("<L", start_of(data, "archive/data/0"))
    refuse(bytes(data), "not where the archive's directory says")


# Legacy files


def test_damaged_legacy_files_are_reported():
    state = {"a": torch.ones(2), "b": torch.zeros(3)}
    data = legacy(state)
    parts = pickles(data)
    keys = pickle.loads(parts[4])
    refuse(data + b"\0", f"end at byte {len(data)}, the file at byte {len(data) + 1}")
    for other in (keys[:1], [*keys, keys[0]], [*keys, "7"], [], "word", [1, 2], [keys]):
        refuse(b"".join([*parts[:4], pickle.dumps(other, protocol=2), parts[5]]), "storages")
    # Comparing two of these would take 2**100 steps.
    towers = [b")" + b"".join(b"q%ch%c\x86" % (i, i) for i in range(100))] * 2
    refuse(b"".join([*parts[:4], b"\x80\2](", *towers, b"e.", parts[5]]), "does not list its storages")
    swapped = b"".join([*parts[:4], pickle.dumps(keys[::-1], protocol=2), parts[5]])
    refuse(swapped, "is not where it should be")
    for endian in ({"little_endian": False}, {}, 1):
        refuse(b"".join([*parts[:2], pickle.dumps(endian, protocol=2), *parts[3:]]), "not little-endian")
    for number in (0, 1):
        other = [*parts]
        other[number] = pickle.dumps(7, protocol=2)
        refuse(b"".join(other))
    count = read(data)["a"].start - 8
    refuse(data[:count] + b"\x03" + data[count + 1 :], "the storage of 'a' is not where it should be")


# Safetensors files


def built(header, data=b"\0" * 8, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(start=0, end=8, shape=(2,), dtype="F32", **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]} | more


GOOD = {
    "one": built({"a": entry()}),
    "metadata": built({"__metadata__": {"format": "pt"}, "a": entry()}),
    "two, in another order": built({"b": entry(4, 8, (1,)), "a": entry(0, 4, (1,))}),
    "empty between": built({"a": entry(0, 4, (1,)), "e": entry(4, 4, (0, 9)), "b": entry(4, 8, (1,))}),
    "scalars": built({"a": entry(0, 4, ()), "b": entry(4, 8, ())}),
    "padded to 128 bytes": built(json.dumps({"a": entry()}).encode().ljust(128)),  # the first byte of a pickle
    "padded": built(json.dumps({"a": entry()}).encode() + b"   "),
    "nothing": built({}, b""),
}
BAD = {
    "length 2**60": built({"a": entry()}, length=2**60),
    "length 2**63": built({"a": entry()}, length=2**63),
    "length over the end": built({"a": entry()}, length=1000),
    "length 0": built(b"", length=0),
    "length 1": built(b"{", length=1),
    "not JSON": built(b"{'a': 1}"),
    "list": built([entry()]),
    "null": built(b"null"),
    "NaN": built(json.dumps({"a": entry()}).encode().replace(b"[2]", b"[NaN]")),
    "not UTF-8": built(json.dumps({"a": entry()}).encode().replace(b'"a"', b'"\xff"')),
    "UTF-16": built(json.dumps({"a": entry()}).encode("utf-16")),
    "entry of another kind": built({"a": 3}),
    "no offsets": built({"a": {"dtype": "F32", "shape": [2]}}),
    "no shape": built({"a": {"dtype": "F32", "data_offsets": [0, 8]}}),
    "three offsets": built({"a": entry() | {"data_offsets": [0, 4, 8]}}),
    "unknown dtype": built({"a": entry(dtype="F31")}),
    "dtype of another kind": built({"a": entry(dtype=["F32"])}),
    "fraction": built({"a": entry(shape=(2.0,))}),
    "truth as a length": built({"a": entry(shape=(True, 2))}),
    "word as a length": built({"a": entry(shape=("2",))}),
    "negative lengths": built({"a": entry(shape=(-1, -2))}),
    "overflow": built({"a": entry(shape=(2**62, 4, 2))}),
    "huge number": built(json.dumps({"a": entry()}).encode().replace(b"[2]", b"[" + b"9" * 5000 + b"]")),
    "shape too small": built({"a": entry(shape=(1,))}),
    "shape too large": built({"a": entry(shape=(3,))}),
    "backwards": built({"a": entry(8, 0)}),
    "negative start": built({"a": entry(-8, 0)}),
    "over the end": built({"a": entry(0, 12, (3,))}),
    "trailing bytes": built({"a": entry()}, b"\0" * 9),
    "missing bytes": built({"a": entry()}, b"\0" * 7),
    "hole at the front": built({"a": entry(4, 8, (1,))}),
    "hole": built({"a": entry(0, 4, (1,)), "b": entry(8, 12, (1,))}, b"\0" * 12),
    "overlap": built({"a": entry(0, 8), "b": entry(4, 12)}, b"\0" * 12),
    "twice the same": built({"a": entry(), "b": entry()}),
    "too deep": built(b'{"a":' * 100_000),
}
# The library takes the last of two, cannot know that a hub refuses, or knows values that are no bytes.
STRICTER = {
    "key twice": built(b'{"a": %s, "a": %s}' % ((json.dumps(entry()).encode(),) * 2)),
    "header of 25 MB": built(json.dumps({"a": entry()}).encode() + b" " * 25_000_000),
    "half bytes": built({"a": entry(shape=(16,), dtype="F4")}),
}


@pytest.mark.parametrize("data", GOOD.values(), ids=GOOD)
def test_good_headers_are_read_as_the_library_does(data):
    expected, found = load_safetensors(data), read(data)
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].shape == tuple(tensor.shape)
        assert data[found[name].start : found[name].end] == raw(tensor)


@pytest.mark.fault("a safetensors header that lies", happens="one line", do="fetch it again")
@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_bad_headers_are_refused_as_by_the_library(data):
    with pytest.raises(safetensors.SafetensorError):
        safetensors.deserialize(data)
    refuse(data)


@pytest.mark.parametrize("data", STRICTER.values(), ids=STRICTER)
def test_some_headers_are_refused_that_the_library_takes(data):
    safetensors.deserialize(data)
    refuse(data)


def test_a_header_cut_off_is_reported():
    refuse(GOOD["one"][:40], "neither a whole safetensors file")


def test_an_unknown_dtype_is_named():
    refuse(built({"a": entry(dtype="F6_E3M2")}), "'a' is of the dtype 'F6_E3M2'; known are F64")


OTHERS = [b"", b"{", b"PK\3\4", b"PK\5\6" + b"\0" * 18, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"]


@pytest.mark.parametrize(
    "data", [*OTHERS, b"<!doctype html><html></html>", b"\x80\2" + b"\0" * 50, b"\x93NUMPY\1\0v\0"]
)
def test_other_files_are_reported(data):
    refuse(data)


def test_a_file_shorter_than_it_is_said_to_be_is_reported():
    for writer in WRITERS.values():
        data = writer(tiny())
        with pytest.raises(EmbscaleError, match=LABEL):
            list(directory(io.BytesIO(data[:100]), size=len(data), label=LABEL).values())


# Damage of any kind


SMALL = {name: writer({"table": torch.ones(3, 2), "b": torch.ones(2).half()}) for name, writer in WRITERS.items()}


def sound(data):
    """A directory is refused in one line, or its ranges lie inside the file.  Says which."""
    try:
        tensors = list(read(data).values())
    except EmbscaleError as error:
        assert str(error).startswith(f"{LABEL}: ")
        assert "\n" not in str(error)
        return False
    for tensor in tensors:
        assert 0 <= tensor.start <= tensor.end <= len(data)
        assert tensor.end - tensor.start == math.prod(tensor.shape) * dtypes.ITEM_SIZES[tensor.dtype]
    return True


@pytest.mark.parametrize("data", SMALL.values(), ids=SMALL)
def test_a_file_cut_off_anywhere_is_reported(data):
    assert sound(data)
    assert not any(sound(data[:length]) for length in range(len(data)))


@pytest.mark.parametrize("data", SMALL.values(), ids=SMALL)
def test_a_changed_byte_anywhere_leads_to_no_range_outside_the_file(data):
    for place in range(len(data)):
        for change in (0x01, 0x80, 0xFF):
            sound(data[:place] + bytes([data[place] ^ change]) + data[place + 1 :])


@pytest.mark.filterwarnings("ignore:invalid escape sequence")  # in a name that a pickle gives
@settings(max_examples=300)
@given(
    st.sampled_from(sorted(SMALL)),
    st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=8), st.integers(0, 8)), min_size=1, max_size=4),
)
@example("zip", [(0, b"", 0)])
def test_changed_lost_and_added_bytes_lead_to_no_range_outside_the_file(form, edits):
    data = SMALL[form]
    for place, new, lost in edits:
        place %= len(data) + 1
        data = data[:place] + new + data[place + lost :]
    sound(data)


@pytest.mark.filterwarnings("ignore:invalid escape sequence")
@settings(max_examples=200)
@given(st.sampled_from([b"PK\3\4", b"\x80\2", pickles(SMALL["legacy"])[0], b"\x40\0\0\0\0\0\0\0{", b""]), st.binary())
def test_bytes_at_random_are_reported(start, rest):
    sound(start + rest)


# Indices


def test_an_index_names_the_shard_of_every_tensor():
    shards = {
        "a": "model-00001-of-00002.safetensors",
        "b": "model_00001-of-00072.safetensors",
        "c": "pytorch_model.bin",
    }
    text = json.dumps({"metadata": {"total_size": 12}, "weight_map": shards}).encode()
    assert index(text, label=LABEL) == shards


SHARDS = [
    "../model.safetensors",
    "..",
    "../../f1/resolve/main/x.bin",
    "/etc/passwd",
    "/model.safetensors",
    "a/b.safetensors",
]
SHARDS += [
    "C:\\model.bin",
    "a\\b.bin",
    "..\\b.bin",
    "",
    ".bin",
    "..bin",
    "-rf.bin",
    "model.safetensors\n",
    "model.pt",
    "a b.bin",
]
SHARDS += ["https://example.org/model.bin", "m\u00f6del.bin", "a\0.bin", "model.bin?x", None, 3, [], {}, ["model.bin"]]


@pytest.mark.fault(
    "an index of shards that names another file",
    happens="one line; that file is not read",
    do="do not use this checkpoint",
)
@pytest.mark.parametrize("shard", SHARDS, ids=repr)
def test_an_index_with_another_name_than_a_shards_is_refused(shard):
    with pytest.raises(EmbscaleError, match=rf"^{LABEL}: .*not the name of a file beside it"):
        index(json.dumps({"weight_map": {"a": "model.bin", "b": shard}}).encode(), label=LABEL)


TEXTS = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff",
    b'{"weight_map": {}}',
    b'{"weight_map": ["model.bin"]}',
    b"{}",
    b"[" * 100_000,
]
TEXTS += [b'{"weight_map": {"a": "x.bin", "a": "y.bin"}}', b'{"size": NaN, "weight_map": {"a": "x.bin"}}']


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:30]))
def test_a_broken_index_is_reported(text):
    with pytest.raises(EmbscaleError, match=rf"^{LABEL}: ") as caught:
        index(text, label=LABEL)
    assert "\n" not in str(caught.value)
