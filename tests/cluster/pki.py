"""Keys, certificates and kubeconfigs of a test cluster, valid for a month.

One authority signs what speaks TLS. Users of the API server prove themselves by tokens, which
need no certificate: a user is a name, its groups and a token.
"""

import base64
import json
import secrets
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

VALID_DAYS = "30"
NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True)
class User:
    """Someone the API server knows by a token."""

    name: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_hex(16))


@dataclass(frozen=True)
class KeyPair:
    """A private key and its certificate, as PEM files."""

    key: Path
    certificate: Path


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path) -> None:
        """Make the authority's key and certificate in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._own = self._pair("ca")
        extension = "basicConstraints=critical,CA:TRUE"
        output = ("-keyout", self._own.key, "-out", self._own.certificate)
        _openssl(
            "req", "-x509", *NEW_KEY, *output,
            "-days", VALID_DAYS, "-subj", "/CN=test-cluster", "-addext", extension,
        )  # fmt: skip

    @property
    def certificate(self) -> Path:
        """The certificate that clients trust."""
        return self._own.certificate

    def issue(self, name: str, *, subject: str, alternatives: Iterable[str] = ()) -> KeyPair:
        """Make a key pair for clients and servers; `alternatives` like `IP:127.0.0.1`."""
        pair = self._pair(name)
        request = self._folder / f"{name}.csr"
        extensions = self._folder / f"{name}.ext"
        lines = ["extendedKeyUsage=clientAuth,serverAuth"]
        if names := ",".join(alternatives):
            lines.append(f"subjectAltName={names}")
        extensions.write_text("\n".join(lines))
        _openssl("req", *NEW_KEY, "-keyout", pair.key, "-out", request, "-subj", subject)
        signer = ("-CA", self._own.certificate, "-CAkey", self._own.key, "-CAcreateserial")
        output = ("-out", pair.certificate, "-days", VALID_DAYS, "-extfile", extensions)
        _openssl("x509", "-req", "-in", request, *signer, *output)
        return pair

    def kubeconfig(self, path: Path, *, server: str, user: User) -> Path:
        """Write a kubeconfig that holds everything it needs, readable by its owner only."""
        authority = base64.b64encode(self.certificate.read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [
                {
                    "name": "test",
                    "cluster": {"server": server, "certificate-authority-data": authority},
                }
            ],
            "users": [{"name": "test", "user": {"token": user.token}}],
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(config, indent=2))
        return path

    def _pair(self, name: str) -> KeyPair:
        return KeyPair(self._folder / f"{name}.key", self._folder / f"{name}.crt")


def signing_key(path: Path) -> Path:
    """Make the key that signs the tokens of service accounts."""
    _openssl("genrsa", "-out", path, "2048")
    return path


def token_file(path: Path, users: Iterable[User]) -> Path:
    """Write the list of users that the API server reads."""
    rows = (f'{user.token},{user.name},{user.name},"{",".join(user.groups)}"' for user in users)
    path.touch(mode=0o600)
    path.write_text("\n".join(rows) + "\n")
    return path


def _openssl(*arguments: str | Path) -> None:
    command: Sequence[str | Path] = ("openssl", *arguments)
    subprocess.run(command, check=True, capture_output=True)
