"""HTTP to pods: short requests to addresses that may be gone."""

from typing import Final

import aiohttp

_TIMEOUT: Final = aiohttp.ClientTimeout(total=2.0)
_CONNECTIONS: Final = 64


def session() -> aiohttp.ClientSession:
    """Return a session whose requests end within two seconds."""
    connector = aiohttp.TCPConnector(limit=_CONNECTIONS)
    return aiohttp.ClientSession(timeout=_TIMEOUT, connector=connector)


def url(ip: str, port: int, path: str) -> str:
    """Return the address of a path that a pod serves."""
    return f"http://[{ip}]:{port}{path}" if ":" in ip else f"http://{ip}:{port}{path}"
