"""Directories of checkpoint files: which tensors a file contains, and the byte range of each.

Three containers are supported: safetensors, and the two formats of ``torch.save``: a zip archive and, before torch 1.6,
a sequence of pickles.  Reading a directory reads no tensor and runs no pickle: opcodes are interpreted here, and only
the few that a flat dict of tensors needs are allowed.  All offsets are checked against the file's size, so no range
exceeds the file.
"""

from __future__ import annotations

import io
import json
import math
import pickletools
import re
import struct
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, cast

from embscale.checkpoints.dtypes import ITEM_SIZES
from embscale.errors import EmbscaleError

LARGEST = 25_000_000  # bytes of a safetensors header, the hub's limit; a directory may take twice as much in total
MOST_OPCODES = 10_000_000  # a tensor needs about fifty
MOST_DIMENSIONS = 64  # as in torch
LONGEST_LINE = 200

SHARD = re.compile(r"\w[\w.-]*\.(safetensors|bin)", re.ASCII)

# Globals in the pickle of a flat dict of tensors.  Nothing is imported: the code below implements them.
ORDERED_DICT, REBUILD = "collections OrderedDict", "torch._utils _rebuild_tensor_v2"
STORAGES = {
    f"torch {word}Storage": dtype
    for word, dtype in (
        *(("Double", "F64"), ("Float", "F32"), ("Half", "F16"), ("BFloat16", "BF16"), ("ComplexFloat", "C64")),
        *(("Long", "I64"), ("Int", "I32"), ("Short", "I16"), ("Char", "I8"), ("Byte", "U8"), ("Bool", "BOOL")),
    )
}
# Allowed opcodes: those that create an empty value or read one, and those that the code below handles.
FRESH: dict[str, Callable[[], Any]] = {"EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "EMPTY_DICT": dict}
FRESH |= {"NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False}
READ = {"BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE"}
KNOWN = {"PROTO", "STOP", "MARK", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "GLOBAL", "BINPERSID", "REDUCE"}
KNOWN |= {"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "BUILD"}
OPCODES = {op.code.encode("latin-1"): op for op in pickletools.opcodes if op.name in KNOWN | READ | FRESH.keys()}

LEGACY_MAGIC, LEGACY_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001

ENCRYPTED = 0x1
LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, ..., lengths of the name and of the extra field

# Exceptions that the code below and the standard library raise for malformed bytes.
MALFORMED: tuple[type[Exception], ...] = (ArithmeticError, EOFError, LookupError, MemoryError, RuntimeError)
MALFORMED += (TypeError, ValueError, struct.error, zipfile.BadZipFile)


@dataclass(frozen=True)
class StoredTensor:
    """Location of a tensor's bytes.

    Attributes:
        name: its name in the file.
        dtype: safetensors name of its dtype, such as ``BF16``.
        shape: its shape; values are stored in row-major order.
        start: offset of its first byte in the file.
        end: offset after its last byte.
        crc32: checksum of exactly these bytes; None if the file has none.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int
    crc32: int | None


Locate = Callable[[str], StoredTensor]


class Directory(Mapping[str, StoredTensor]):
    """The tensors of a checkpoint file by name.

    In files of ``torch.save``, the header of a tensor's storage is read and checked only when the tensor is accessed,
    since each costs a request to the hub.  The file must stay open until then.

    Raises:
        EmbscaleError: the tensor is not where it should be, or is not stored in row-major order.
    """

    def __init__(self, label: str, names: Collection[str], locate: Locate) -> None:
        self._label, self._names, self._locate = label, names, locate

    def __getitem__(self, name: str) -> StoredTensor:
        if name not in self._names:
            raise KeyError(name)
        with _readable_errors(self._label):
            return self._locate(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def directory(file: BinaryIO, *, size: int, label: str) -> Directory:
    """Every tensor of a checkpoint file.

    Args:
        file: a seekable file; little more than its directory is read.
        size: its size in bytes.
        label: its name in messages.

    Raises:
        EmbscaleError: it is damaged, in another format, or contains anything but a flat dict of tensors.
    """
    with _readable_errors(label):
        reader = cast(BinaryIO, _Reader(file, size))  # as much of one as is needed
        reader.seek(0)
        start = reader.read(8)
        reader.seek(0)
        if start.startswith(b"PK\x03\x04"):
            return Directory(label, *_zip(reader))
        # In a safetensors file the eight bytes are the length of a header, and far below 2**32.
        if start.startswith(b"\x80") and any(start[4:]):
            return Directory(label, *_legacy(reader, size))
        return Directory(label, *_safetensors(reader, size))


def index(text: bytes, *, label: str) -> dict[str, str]:
    """The shard file of every tensor, from the index beside the shards.

    Raises:
        EmbscaleError: it is not an index, or names a shard that is not a checkpoint file in the same folder.
    """
    with _readable_errors(label):
        shards = _json(text).get("weight_map")
        if not isinstance(shards, dict) or not shards:
            raise ValueError("it holds no weight_map")
        for shard in shards.values():
            if not isinstance(shard, str) or not SHARD.fullmatch(shard):
                raise ValueError(f"its weight_map holds {shard!r:.80}, not the name of a file beside it")
        return shards


@contextmanager
def _readable_errors(label: str) -> Iterator[None]:
    try:
        yield
    except MALFORMED as error:
        cause = " ".join(str(error).split())[:300]
        if not isinstance(error, ValueError | zipfile.BadZipFile):  # the others are terse
            cause = f"it is damaged ({type(error).__name__}: {cause})"
        raise EmbscaleError(
            f"{label}: cannot locate its tensors: {cause}; download it again, or the checkpoint in another format"
        ) from error


class _Reader:
    """A file that limits how many bytes can be read, whatever lengths its content claims."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size, self._left = file, size, 2 * LARGEST

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        place = offset + (0, self.tell(), self._size)[whence]
        if place < 0:
            raise io.UnsupportedOperation("a place before the first byte")  # the OSError that zipfile expects
        return self._file.seek(place)

    def read(self, count: int = -1) -> bytes:
        if count < 0:
            count = max(self._size - self.tell(), 0)
        self._spend(count)
        return self._file.read(count)

    def readline(self) -> bytes:
        line = self._file.readline(LONGEST_LINE)
        self._spend(len(line))
        return line

    def _spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise ValueError(f"its directory takes more than {2 * LARGEST} bytes")


def _json(text: bytes) -> dict[str, Any]:
    """Parse strict JSON: an object with unique keys and no NaN or infinity."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) < len(pairs):
            raise ValueError("it holds a key twice")
        return found

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON")

    found = json.loads(text.decode(), object_pairs_hook=once, parse_constant=refuse)
    if not isinstance(found, dict):
        raise ValueError(f"it holds a {type(found).__name__} where an object belongs")
    return found


def _counts(values: object) -> tuple[int, ...]:
    """Check a shape, a stride or a range: a list of non-negative integers."""
    if not isinstance(values, list | tuple) or len(values) > MOST_DIMENSIONS:
        raise ValueError(f"a {type(values).__name__} where a short list of counts belongs")
    if not all(type(value) is int and value >= 0 for value in values):
        raise ValueError("a list of counts with something else in it")
    return tuple(values)


def _safetensors(file: BinaryIO, size: int) -> tuple[Collection[str], Locate]:
    """The tensors of a header, which cover the rest of the file without gap or overlap."""
    length = int.from_bytes(file.read(8), "little")
    edge = 8 + length
    if not 2 <= length <= LARGEST or edge > size:
        raise ValueError("it is neither a whole safetensors file nor one of torch.save")
    header = _json(file.read(length))
    header.pop("__metadata__", None)
    tensors = {name: _stated(name, entry, edge) for name, entry in header.items()}
    for tensor in sorted(tensors.values(), key=lambda tensor: (tensor.start, tensor.end)):
        if tensor.start != edge:
            raise ValueError(f"{tensor.name!r:.80} does not begin where the tensor before it ends")
        edge = tensor.end
    if edge != size:
        raise ValueError(f"its tensors end at byte {edge}, the file at byte {size}")
    return tensors, tensors.__getitem__


def _stated(name: str, entry: object, origin: int) -> StoredTensor:
    """A tensor from its entry in a safetensors header; offsets are relative to `origin`."""
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        raise ValueError(f"{name!r:.80} has no dtype, shape or data_offsets")
    dtype, shape, (start, end) = entry["dtype"], _counts(entry["shape"]), _counts(entry["data_offsets"])
    if dtype not in ITEM_SIZES:
        raise ValueError(f"{name!r:.80} is of the dtype {dtype!r:.20}; known are {', '.join(ITEM_SIZES)}")
    if end - start != math.prod(shape) * ITEM_SIZES[dtype]:
        raise ValueError(f"{name!r:.80} takes {end - start} bytes, which {dtype} of its shape does not")
    return StoredTensor(name, dtype, shape, origin + start, origin + end, None)


class _Storage(NamedTuple):
    """A run of values in a file of torch.save."""

    key: str
    dtype: str
    length: int

    @property
    def size(self) -> int:
        return self.length * ITEM_SIZES[self.dtype]


class _View(NamedTuple):
    """A tensor in a file of torch.save: a view of a storage."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    def placed(self, name: str, start: int, crc32: int | None) -> StoredTensor:
        """The tensor, given the offset and the checksum of its storage."""
        rows_first = [math.prod(self.shape[i + 1 :]) for i in range(len(self.shape))]
        steps = zip(self.shape, self.stride, rows_first, strict=True)
        length, item = math.prod(self.shape), ITEM_SIZES[self.storage.dtype]
        if length and any(count > 1 and step != expected for count, step, expected in steps):
            raise ValueError(f"the values of {name!r:.80} do not lie row by row (its stride is {self.stride})")
        if not 0 <= self.offset <= self.storage.length - length:
            raise ValueError(f"{name!r:.80} reaches over the edge of its storage")
        begin = start + self.offset * item
        crc32 = crc32 if length == self.storage.length else None
        return StoredTensor(name, self.storage.dtype, self.shape, begin, begin + length * item, crc32)


def _zip(file: BinaryIO) -> tuple[Collection[str], Locate]:
    """The tensors of a zip archive: ``data.pkl`` describes them, ``data/KEY`` holds a storage."""
    with zipfile.ZipFile(file) as archive:
        ordered = sorted(archive.infolist(), key=lambda record: record.header_offset)
        records = {record.filename: record for record in ordered}
        if len(records) < len(ordered):
            raise ValueError("its archive holds two records of one name")
        for record in ordered:
            plain = record.compress_type == zipfile.ZIP_STORED and record.compress_size == record.file_size
            if not plain or record.flag_bits & ENCRYPTED:
                raise ValueError(f"its record {record.filename!r:.80} is compressed or encrypted")
        roots = [name.removesuffix("data.pkl") for name in records if re.fullmatch(r"[^/]*/data\.pkl", name)]
        if len(roots) != 1:
            raise ValueError("its archive does not hold one data.pkl")
        order = f"{roots[0]}byteorder"
        if order in records and archive.read(order) != b"little":
            raise ValueError("its numbers are not little-endian")
        views = _views(_unpickle(io.BytesIO(archive.read(f"{roots[0]}data.pkl"))))
        edges = [record.header_offset for record in ordered[1:]] + [archive.start_dir]
    ends = {record.filename: edge for record, edge in zip(ordered, edges, strict=True)}

    def locate(name: str) -> StoredTensor:
        storage = views[name].storage
        path = f"{roots[0]}data/{storage.key}"
        if path not in records or records[path].file_size != storage.size:
            raise ValueError(f"its archive has no record {path!r:.80} of {storage.size} bytes for {name!r:.80}")
        return views[name].placed(name, _data_start(file, records[path], ends[path]), records[path].CRC)

    return views, locate


def _data_start(file: BinaryIO, record: zipfile.ZipInfo, end: int) -> int:
    """Offset of a record's data, after its local header; the data must end before `end`."""
    file.seek(record.header_offset)
    signature, name, extra = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
    start = record.header_offset + LOCAL_HEADER.size + name + extra
    named = file.read(name) == record.orig_filename.encode()
    if signature != b"PK\x03\x04" or not named or start + record.file_size > end:
        raise ValueError(f"its record {record.filename!r:.80} is not where the archive's directory says")
    return start


def _legacy(file: BinaryIO, size: int) -> tuple[Collection[str], Locate]:
    """The tensors of a legacy file: five pickles, then the storages, each after its length in eight bytes."""
    if _unpickle(file) != LEGACY_MAGIC or _unpickle(file) != LEGACY_PROTOCOL:
        raise ValueError("it is a pickle, but none that torch.save writes")
    system = _unpickle(file)
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise ValueError("its numbers are not little-endian")
    views, keys = _views(_unpickle(file)), _unpickle(file)
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise ValueError("it does not list its storages")
    storages = {view.storage for view in views.values()}
    if sorted(keys) != sorted(storage.key for storage in storages):
        raise ValueError("the storages of its tensors are not those that it lists")
    sizes = {storage.key: storage.size for storage in storages}
    starts: dict[str, int] = {}
    edge = file.tell()
    for key in keys:
        starts[key] = edge + 8
        edge += 8 + sizes[key]
    if edge != size:
        raise ValueError(f"its tensors end at byte {edge}, the file at byte {size}")

    def locate(name: str) -> StoredTensor:
        storage = views[name].storage
        file.seek(starts[storage.key] - 8)
        if int.from_bytes(file.read(8), "little") != storage.length:
            raise ValueError(f"the storage of {name!r:.80} is not where it should be")
        return views[name].placed(name, starts[storage.key], None)

    return views, locate


def _views(state: object) -> dict[str, _View]:
    if not isinstance(state, dict):
        raise ValueError(f"it holds a {type(state).__name__} where a dict of tensors belongs")
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, _View):
            raise ValueError(f"it holds a {type(value).__name__} under {name!r:.80} where a tensor belongs")
    return state


def _unpickle(file: BinaryIO) -> object:
    """Interpret a pickle of numbers, strings, tuples, lists, dicts, storages and tensors, and nothing else.

    Values are compared, hashed and printed only if their type is known: a tuple nested a million levels deep would
    crash the process.
    """
    stack: list[Any] = []
    outer: list[list[Any]] = []
    memo: dict[int, Any] = {}
    for _ in range(MOST_OPCODES):
        opcode = OPCODES.get(code := file.read(1))
        if opcode is None:
            raise ValueError(f"its pickle goes on with {code!r}, which no flat dict of tensors needs")
        argument: Any = opcode.arg.reader(file) if opcode.arg else None
        match opcode.name:
            case "STOP":
                return stack.pop()
            case "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "MARK":
                outer.append(stack)
                stack = []
            case "TUPLE":
                items, stack = stack, outer.pop()
                stack.append(tuple(items))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                items = [stack.pop() for _ in opcode.stack_before][::-1]
                stack.append(tuple(items))
            case "APPEND" | "SETITEM":
                items = [stack.pop() for _ in opcode.stack_before[1:]][::-1]
                _fill(stack[-1], items)
            case "APPENDS" | "SETITEMS":
                items, stack = stack, outer.pop()
                _fill(stack[-1], items)
            case "GLOBAL":
                if argument not in (ORDERED_DICT, REBUILD, *STORAGES):
                    name = argument.replace(" ", ".")
                    raise ValueError(f"its pickle names {name!r:.80}, which no flat dict of tensors needs")
                stack.append(argument)
            case "BINPERSID":
                stack.append(_storage(stack.pop()))
            case "REDUCE":
                arguments, function = stack.pop(), stack.pop()
                stack.append(_called(function, arguments))
            case "BUILD":  # attributes of a dict: the version numbers of a model's modules
                stack.pop()
            case name if name in FRESH:
                stack.append(FRESH[name]())
            case name if name in READ:
                stack.append(argument)
    raise ValueError(f"its pickle takes more than {MOST_OPCODES} steps")


def _fill(target: object, items: list[Any]) -> None:
    """Add items to a list, or alternating keys and values to a dict."""
    if isinstance(target, list):
        target.extend(items)
        return
    for key, value in zip(items[::2], items[1::2], strict=True):
        if not isinstance(target, dict) or not isinstance(key, str | int) or key in target:
            raise ValueError("its pickle fills what is no dict, or a key twice")
        target[key] = value


def _storage(description: object) -> _Storage:
    match description:
        # The last of six is a way of sharing that torch has abandoned.
        case ("storage", str(kind), str(key), str(), int(length), *rest) if kind in STORAGES and rest in ([], [None]):
            if length >= 0:
                return _Storage(key, STORAGES[kind], length)
    raise ValueError("its pickle describes a storage in a way that is not known here")


def _called(function: object, arguments: object) -> dict[Any, Any] | _View:
    match arguments:
        case () if function == ORDERED_DICT:
            return {}
        case (_Storage() as storage, int(offset), shape, stride, bool(), dict()) if function == REBUILD:
            return _View(storage, offset, _counts(shape), _counts(stride))
    raise ValueError("its pickle describes a tensor in a way that is not known here")
