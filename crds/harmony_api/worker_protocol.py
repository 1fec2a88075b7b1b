"""The protocol between a worker and its sidecar, small enough to write in any language.

Transport: the Unix stream socket at HARMONY_SOCKET. Every message is a frame: a
little-endian u16 with the length of what follows, a u8 with the message type, and a body of
fixed layout. A receiver ignores types it does not know and extra bytes at the end of a body;
a frame longer than MAX_FRAME_BYTES or shorter than its type's layout ends the connection.

worker to sidecar
    HELLO     u32 magic, u16 version, u16 flags (bit 0: transfers are chunked, so the worker
              can use a secondary NET permit), u8 held phase (0: none) and u64 its turn, for a
              worker that reconnects in the middle of a turn
    ACQUIRE   u32 request, u8 phase, u64 iteration
    RELEASE   u64 turn, u64 bytes moved; one-way, the worker goes on at once. Turn 0 ends a
              phase that ran without a permit: only the record of it, and a request given up
    SYNCED    u64 iteration, u64 waited ns, u64 servers' update ns; one-way, before PULL
    REPORT    u64 iteration, u64 total (0: unknown), f64 loss (NaN: none); one-way
    SHOULD_STOP  empty; answered by STOP
    END       empty; the program is done and will not ask again
    BEGIN     u8 phase, u64 iteration; in place of ACQUIRE, by a worker with a standing leave: the
              phase begins now, and no GRANT comes. Its RELEASE has turn 0
    PAUSED    u64 ns that the present transfer stood aside for a primary; one-way, before RELEASE
sidecar to worker
    WELCOME   u16 version, u16 flags; carries one file descriptor (SCM_RIGHTS): the NetBoard
    GRANT     u32 request, u64 turn, u32 epoch, u8 flags (see GrantFlags)
    REVOKED   u64 turn: its lease ended; the worker may finish, but holds nothing
    WAIT      empty; sent at least every WAIT_INTERVAL_SECONDS while a request is pending, so
              that a worker can tell a long wait from a dead sidecar
    STOP      u8 1 when the worker shall stop at an iteration boundary, else 0
    RECALL    empty; the standing leave is over: ask with ACQUIRE again. Sent once more in answer to
              a BEGIN without it

A worker that hears nothing for SILENCE_SECONDS while it waits goes on without a permit. A
late GRANT of a request that it gave up is answered by RELEASE with 0 bytes.

This module is on the permit path: struct and enum only.
"""

import enum
import struct
from typing import Final, NewType

Turn = NewType("Turn", int)
"""Identifies one turn on one node; unique over epochs (epoch in the upper 32 bits)."""
Epoch = NewType("Epoch", int)
"""Counts the arbiters of a node; a grant of an older epoch is refused."""

MAGIC: Final = 0x594D5248  # "HRMY"
VERSION: Final = 1
MAX_FRAME_BYTES: Final = 512
WAIT_INTERVAL_SECONDS: Final = 0.5
SILENCE_SECONDS: Final = 2.0


class Phase(enum.IntEnum):
    """A phase of an iteration that needs a permit; SYNC needs none and is only recorded."""

    PULL = 1
    COMP = 2
    PUSH = 3
    SYNC = 4


class MessageType(enum.IntEnum):
    """First byte of a frame's payload."""

    HELLO = 1
    ACQUIRE = 2
    RELEASE = 3
    SYNCED = 4
    REPORT = 5
    SHOULD_STOP = 6
    END = 7
    BEGIN = 8
    PAUSED = 9
    WELCOME = 32
    GRANT = 33
    REVOKED = 34
    WAIT = 35
    STOP = 36
    RECALL = 37


class HelloFlags(enum.IntFlag):
    """What the worker can do."""

    NONE = 0
    CHUNKED = 1


class GrantFlags(enum.IntFlag):
    """How a phase was allowed to start."""

    NONE = 0
    SECONDARY = 1
    """NET only: move small chunks, and only while the primary is idle (see NetBoard)."""
    UNCOORDINATED = 2
    """No arbiter was behind it: the sidecar failed open, or the plan wants it so. Its turn is 0."""
    STOP = 4
    """The plan asks the worker to stop at an iteration boundary."""
    STANDING = 8
    """Nobody else is there: the next phases may start with BEGIN, until a RECALL comes, a GRANT
    without this flag, or an epoch on the NetBoard that is not the GRANT's."""


LENGTH: Final = struct.Struct("<H")
HEADER: Final = struct.Struct("<HB")
HELLO: Final = struct.Struct("<HBIHHBQ")
ACQUIRE: Final = struct.Struct("<HBIBQ")
RELEASE: Final = struct.Struct("<HBQQ")
SYNCED: Final = struct.Struct("<HBQQQ")
REPORT: Final = struct.Struct("<HBQQd")
WELCOME: Final = struct.Struct("<HBHH")
GRANT: Final = struct.Struct("<HBIQIB")
REVOKED: Final = struct.Struct("<HBQ")
STOP: Final = struct.Struct("<HBB")
BEGIN: Final = struct.Struct("<HBBQ")
PAUSED: Final = struct.Struct("<HBQ")
EMPTY: Final = HEADER

LAYOUTS: Final[dict[MessageType, struct.Struct]] = {
    MessageType.HELLO: HELLO,
    MessageType.ACQUIRE: ACQUIRE,
    MessageType.RELEASE: RELEASE,
    MessageType.SYNCED: SYNCED,
    MessageType.REPORT: REPORT,
    MessageType.SHOULD_STOP: EMPTY,
    MessageType.END: EMPTY,
    MessageType.BEGIN: BEGIN,
    MessageType.PAUSED: PAUSED,
    MessageType.WELCOME: WELCOME,
    MessageType.GRANT: GRANT,
    MessageType.REVOKED: REVOKED,
    MessageType.WAIT: EMPTY,
    MessageType.STOP: STOP,
    MessageType.RECALL: EMPTY,
}
"""Layout of each whole frame, its length and type included."""


class ProtocolError(Exception):
    """The peer sent bytes that are not a frame of this protocol."""


def encode(kind: MessageType, *fields: int | float) -> bytes:
    """Return one frame, ready to send."""
    layout = LAYOUTS[kind]
    return layout.pack(layout.size - LENGTH.size, kind, *fields)


class FrameReader:
    """Cuts a byte stream into frames; one `feed` per `recv`, whatever the boundaries."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[int, tuple[int | float, ...]]]:
        """Return the complete frames as (type, fields); unknown types have no fields.

        Raises ProtocolError when a frame is too long, empty, or shorter than its layout.
        """
        buffer = self._rest + data if self._rest else data
        frames: list[tuple[int, tuple[int | float, ...]]] = []
        start = 0
        while len(buffer) - start >= LENGTH.size:
            (length,) = LENGTH.unpack_from(buffer, start)
            if not 1 <= length <= MAX_FRAME_BYTES:
                raise ProtocolError(f"a frame of {length} bytes (1 to {MAX_FRAME_BYTES} allowed)")
            end = start + LENGTH.size + length
            if end > len(buffer):
                break
            kind = buffer[start + LENGTH.size]
            layout = _LAYOUT_BY_BYTE.get(kind)
            if layout is None:
                frames.append((kind, ()))
            elif end - start < layout.size:
                raise ProtocolError(f"a frame of type {kind} with {end - start} bytes only")
            else:
                frames.append((kind, layout.unpack_from(buffer, start)[2:]))
            start = end
        self._rest = buffer[start:]
        return frames


_LAYOUT_BY_BYTE: Final = {int(kind): layout for kind, layout in LAYOUTS.items()}
