"""Leads connections of a listening socket to a port of the network namespace this program is in.

Run as a program with the number of the inherited socket and the port: a socket keeps the network
it was made in, wherever the process that holds it goes.
"""

import asyncio
import contextlib
import socket
import sys

BLOCK_BYTES = 65536


async def serve(listener: socket.socket, port: int) -> None:
    """Forward until the process ends."""

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))
        writer.close()

    server = await asyncio.start_server(lead, sock=listener)
    await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while block := await reader.read(BLOCK_BYTES):
            writer.write(block)
            await writer.drain()
    finally:
        writer.close()


if __name__ == "__main__":
    asyncio.run(serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])))
