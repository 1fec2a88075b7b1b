"""A server's part of the job's snapshots, as files that are whole or not there.

A file is written beside its final name, flushed to the disk and then renamed. The name carries
the iteration, the identity of what it is a snapshot of, and the digest of the content, so a cut
or changed file is told from a whole one. The last KEPT are kept,
and the newest that all servers are known to have: another server may not have finished the
newest, or may not be able to write at all.

Content: u64 length of a JSON text, the text, then the bytes of the tensors that the text
refers to, in order.
"""

import json
import logging
import os
import re
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
import xxhash

from harmony_worker.parameter_server.layout import dtype_name
from harmony_worker.parameter_server.wire import bytes_of

KEPT: Final = 2
_LENGTH: Final = struct.Struct("<Q")
_NAME: Final = re.compile(r"iteration-(\d+)\.([0-9a-f]+)\.([0-9a-f]{32})\.snapshot")
_PIECE_BYTES: Final = 4 << 20

log = logging.getLogger(__name__)


class SnapshotError(Exception):
    """A snapshot cannot be read; the message names the file and says why."""


class SnapshotStore:
    """The folder of one server, for any thread. Damaged files are left alone, and said so once."""

    def __init__(self, folder: Path) -> None:
        """Look for whole snapshots in `folder`, which is made if need be."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._everywhere: int | None = None
        self._whole: dict[int, Path] = {}
        self.identities: set[str] = set()
        """Of the snapshots found: which model, optimizer and sharding they are of."""
        for leftover in folder.glob("*.partial"):
            leftover.unlink()
        for path in sorted(folder.glob("*.snapshot")):
            name = _NAME.fullmatch(path.name)
            if name is None or _digest(path) != name[3]:
                log.warning("snapshot %s is damaged and will not be used", path)
            else:
                self._whole[int(name[1])] = path
                self.identities.add(name[2])

    @property
    def iterations(self) -> list[int]:
        """Iterations of the snapshots that can be restored, oldest first."""
        with self._lock:
            return sorted(self._whole)

    def write(self, iteration: int, identity: str, state: dict[str, Any]) -> None:
        """Add a snapshot and remove those that are needed no more.

        `identity` is hexadecimal text; `state` holds dicts with text keys, lists, tensors and
        JSON's scalars. Raises OSError (a full disk) with nothing changed.
        """
        tensors: list[torch.Tensor] = []
        text = json.dumps(_encode(state, tensors)).encode()
        partial = self.folder / f"iteration-{iteration}.partial"
        digest = xxhash.xxh3_128()
        try:
            with partial.open("wb") as file:
                for piece in _pieces(text, tensors):
                    digest.update(piece)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            name = f"iteration-{iteration:012d}.{identity}.{digest.hexdigest()}.snapshot"
            path = self.folder / name
            partial.rename(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
        _sync_folder(self.folder)
        with self._lock:
            replaced = self._whole.get(iteration)
            self._whole[iteration] = path
            if replaced is not None and replaced != path:
                replaced.unlink(missing_ok=True)
            self._prune()

    def keep(self, iteration: int) -> None:
        """Every server has this snapshot, so it stays until they have a newer one."""
        with self._lock:
            if iteration != self._everywhere and iteration in self._whole:
                self._everywhere = iteration
                self._prune()

    def read(self, iteration: int) -> dict[str, Any]:
        """Return the state that was written; raises SnapshotError, and forgets the file then."""
        with self._lock:
            path = self._whole[iteration]
        try:
            memory = bytearray(path.stat().st_size)
            with path.open("rb") as file:
                file.readinto(memory)
            if xxhash.xxh3_128(memory).hexdigest() not in path.name:
                raise ValueError("its content does not match its checksum")
            return _decode_file(memory)
        except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
            with self._lock:
                self._whole.pop(iteration, None)
            raise SnapshotError(f"snapshot {path} cannot be read: {error}") from error

    def discard_after(self, iteration: int) -> None:
        """Remove snapshots of a future that a rollback has undone."""
        with self._lock:
            self._remove([each for each in self._whole if each > iteration])

    def _prune(self) -> None:
        kept = {*self.iterations[-KEPT:], self._everywhere}
        self._remove([each for each in self._whole if each not in kept])

    def _remove(self, iterations: list[int]) -> None:
        for iteration in iterations:
            self._whole.pop(iteration).unlink(missing_ok=True)


def _pieces(text: bytes, tensors: list[torch.Tensor]) -> Iterator[bytes | memoryview]:
    yield _LENGTH.pack(len(text)) + text
    for tensor in tensors:
        data = bytes_of(tensor)
        for begin in range(0, data.nbytes, _PIECE_BYTES):
            yield data[begin : begin + _PIECE_BYTES]


def _digest(path: Path) -> str:
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def _encode(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"tensor": dtype_name(value.dtype), "shape": list(value.shape)}
    if isinstance(value, dict):
        return {"dict": {key: _encode(item, tensors) for key, item in value.items()}}
    if isinstance(value, list | tuple):
        return [_encode(item, tensors) for item in value]
    return value


def _decode_file(memory: bytearray) -> dict[str, Any]:
    (length,) = _LENGTH.unpack_from(memory)
    position = _LENGTH.size + length

    def decode(value: Any) -> Any:
        nonlocal position
        if isinstance(value, list):
            return [decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "dict" in value:
            return {key: decode(item) for key, item in value["dict"].items()}
        dtype = getattr(torch, value["tensor"])
        tensor = torch.empty(value["shape"], dtype=dtype)
        size = tensor.nbytes
        if size:
            bytes_of(tensor)[:] = memory[position : position + size]
        position += size
        return tensor

    state = decode(json.loads(memory[_LENGTH.size : position]))
    if not isinstance(state, dict) or position != len(memory):
        raise ValueError("its text and its tensors do not fit together")
    return state


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
