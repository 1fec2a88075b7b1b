"""Pages of shared memory in the node's store: who is arbiter, and which turns it has out.

A successor must know both without asking a process that may be dead or stopped. Each arbiter
writes a holders page of its own, so that one that was stopped and resumes cannot spoil what
its successor wrote. Words are written whole (8 bytes, aligned) and a record's turn last, so
that a writer killed at any instant leaves either the old record or the new one.
"""

import functools
import json
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harmony_api.worker_protocol import Epoch, Phase, Turn
from harmony_sidecar.cyclic_order import Member
from harmony_sidecar.decisions import LiveTurn

ELECTION_BYTES: Final = 4096
_BOOT, _EPOCH, _HEARTBEAT = range(3)

_SLOT_BYTES: Final = 2048
_SLOTS: Final = 128
_SLOT_WORDS: Final = _SLOT_BYTES // 8
_TURN, _DEADLINE, _LENGTH = range(3)
_BODY_OFFSET: Final = 24
MAXIMUM_BODY_BYTES: Final = _SLOT_BYTES - _BODY_OFFSET


def open_page_file(path: Path, size: int) -> int:
    """Open a file to be mapped, with its blocks allocated: a full disk fails here, not later.

    Raises OSError, ENOSPC among others.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o660)
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _map(path: Path, size: int) -> mmap.mmap:
    descriptor = open_page_file(path, size)
    try:
        return mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)


def _boot_tag() -> int:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    return int(boot_id.replace("-", "")[:15], 16)


class ElectionPage:
    """The node's epoch and the heartbeat of its arbiter (CLOCK_MONOTONIC ns; 0: left)."""

    def __init__(self, path: Path) -> None:
        self._words = memoryview(_map(path, ELECTION_BYTES)).cast("Q")
        self._boot = _boot_tag()

    @property
    def epoch(self) -> Epoch:
        """Epoch of the present arbiter; 0 when there never was one."""
        return Epoch(self._words[_EPOCH])

    @property
    def same_boot(self) -> bool:
        """Whether the page was written since the machine started."""
        return self._words[_BOOT] == self._boot

    def silence_ns(self, now_ns: int) -> int | None:
        """Nanoseconds since the last heartbeat; None where there is no arbiter at all."""
        heartbeat = self._words[_HEARTBEAT]
        return now_ns - heartbeat if heartbeat and self.same_boot else None

    def begin(self, epoch: Epoch, now_ns: int) -> None:
        """Publish a new arbiter; only under the election's lock."""
        self._words[_BOOT] = self._boot
        self._words[_HEARTBEAT] = now_ns
        self._words[_EPOCH] = epoch

    def beat(self, now_ns: int) -> None:
        """Show that the arbiter lives; it looks at the epoch before. Never goes back in time."""
        self._words[_HEARTBEAT] = max(now_ns, self._words[_HEARTBEAT])

    def resign(self) -> None:
        """Leave the role, so that a successor need not wait for silence."""
        self._words[_HEARTBEAT] = 0


class HoldersPage:
    """The turns that one arbiter has out."""

    def __init__(self, path: Path) -> None:
        self._page = _map(path, _SLOTS * _SLOT_BYTES)
        self._words = memoryview(self._page).cast("Q")
        self._slots: dict[Turn, int] = {}
        self._free = list(range(_SLOTS))

    def close(self) -> None:
        """Unmap the page."""
        self._words.release()
        self._page.close()

    def write(self, live: LiveTurn) -> None:
        """Record a turn before its holder hears of it."""
        body = record_body(live.member, live.phase, live.devices)
        slot = self._slots[live.turn] = self._free.pop()
        word, byte = slot * _SLOT_WORDS, slot * _SLOT_BYTES + _BODY_OFFSET
        self._page[byte : byte + len(body)] = body
        self._words[word + _LENGTH] = len(body)
        self._words[word + _DEADLINE] = live.deadline_ns
        self._words[word + _TURN] = live.turn

    def extend(self, live: LiveTurn) -> None:
        """Record a new deadline."""
        self._words[self._slots[live.turn] * _SLOT_WORDS + _DEADLINE] = live.deadline_ns

    def erase(self, turn: Turn) -> None:
        """The turn has ended."""
        slot = self._slots.pop(turn)
        self._words[slot * _SLOT_WORDS + _TURN] = 0
        self._free.append(slot)

    def read(self) -> Iterator[LiveTurn]:
        """Yield the recorded turns; what does not make sense is left out."""
        for slot in range(_SLOTS):
            word, byte = slot * _SLOT_WORDS, slot * _SLOT_BYTES + _BODY_OFFSET
            turn, deadline, length = self._words[word : word + 3]
            if turn and length <= MAXIMUM_BODY_BYTES:
                try:
                    member, phase, devices = json.loads(self._page[byte : byte + length])
                    yield LiveTurn(
                        Turn(turn), Member(member), Phase(phase), frozenset(devices), deadline
                    )
                except (ValueError, TypeError):
                    continue


@functools.lru_cache(maxsize=4 * _SLOTS)
def record_body(member: Member, phase: Phase, devices: frozenset[str]) -> bytes:
    """Return a record's body; raises ValueError when the names do not fit into a record."""
    body = json.dumps([member, phase, sorted(devices)]).encode()
    if len(body) > MAXIMUM_BODY_BYTES:
        raise ValueError(f"the names of {member[:80]} and its devices exceed a record")
    return body
