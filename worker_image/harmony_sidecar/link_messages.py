"""Messages between a sidecar and its node's arbiter.

The link is a Unix SEQPACKET socket, so that one receive is one message. Requests, releases,
grants and revocations have the layout of the worker protocol; joining and plans are rare and
carry JSON behind the same header.

sidecar to arbiter
    JOIN      JSON Join; first message, once; carries two descriptors (SCM_RIGHTS): the worker's
              socket, and a pidfd of the sidecar
    PLAN      JSON NodePlan
    ACQUIRE, RELEASE   as in the worker protocol; RELEASE of turn 0 withdraws the request
    END       the worker is gone; a link that ends without it says nothing about the worker
arbiter to sidecar
    WELCOME   as in the worker protocol, without a descriptor: the worker takes part now
    GRANT     as in the worker protocol, then u64 CLOCK_MONOTONIC ns of the end of its lease
    LEASE     u64 turn, u64 ns of the new end of its lease
    REVOKED   as in the worker protocol
"""

import socket
import struct
from typing import Final

from pydantic import BaseModel, Field

from harmony_api.node_plan import NodePlan
from harmony_api.worker_protocol import HEADER, LENGTH, MessageType, Turn

AT_ONCE: Final = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
"""Flags of every send on the permit path: whoever does not read is dropped, not waited for."""
MAXIMUM_MESSAGE_BYTES: Final = 65536
JOIN: Final = 64
PLAN: Final = 65
LEASE: Final = 66
LINK_GRANT: Final = struct.Struct("<HBIQIBQ")
LINK_LEASE: Final = struct.Struct("<HBQQ")


class Join(BaseModel):
    """What an arbiter must know of a worker before it asks for anything."""

    member: str
    chunked: bool
    held: int = Field(ge=0, lt=1 << 64)
    """Turn that the worker holds; 0: none."""
    plan: NodePlan


def encode_json(kind: int, model: BaseModel) -> bytes:
    """Return a JOIN or PLAN message; raises ValueError when it is too long to send."""
    body = model.model_dump_json(by_alias=True).encode()
    if len(body) > MAXIMUM_MESSAGE_BYTES - HEADER.size:
        raise ValueError(f"a message of {len(body)} bytes to the arbiter")
    return HEADER.pack(0, kind) + body


def encode_grant(request: int, turn: Turn, epoch: int, flags: int, deadline_ns: int) -> bytes:
    """Return a GRANT message with the end of its lease."""
    length = LINK_GRANT.size - LENGTH.size
    return LINK_GRANT.pack(length, MessageType.GRANT, request, turn, epoch, flags, deadline_ns)


def encode_lease(turn: Turn, deadline_ns: int) -> bytes:
    """Return a LEASE message."""
    return LINK_LEASE.pack(LINK_LEASE.size - LENGTH.size, LEASE, turn, deadline_ns)
