"""Where a scheduler is, and whether it may be talked to: on this machine, or with TLS.

Whoever reaches a dask scheduler can run what they like on every machine of its cluster. So it is either one of this
machine, which nobody else reaches, or both sides show certificates of an authority that they share.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from metasched.errors import MetaschedError
from metasched.measure.cluster.dask_package import require_distributed
from metasched.support.data_classes import dataclass

_PLAIN, _TLS = "tcp", "tls"
_FILES = ("ca", "cert", "key")
_EXAMPLE = "dask://host:8786?ca=ca.pem&cert=me.pem&key=me.key"


@dataclass(frozen=True)
class TLSFiles:
    """PEM files: the authority that both sides trust, our certificate, and the key of that."""

    ca: str
    cert: str
    key: str

    @staticmethod
    def from_paths(ca: str | None, cert: str | None, key: str | None) -> TLSFiles | None:
        """All three, or None for none. Raises MetaschedError for some of them, and for a file that is not there."""
        given = dict(zip(_FILES, (ca, cert, key), strict=True))
        if not any(given.values()):
            return None
        missing = [name for name, path in given.items() if not path]
        if missing:
            raise MetaschedError(
                f"TLS needs three files, the authority, a certificate and its key; `{missing[0]}` is missing"
            )
        for name, path in given.items():
            if not Path(str(path)).is_file():
                raise MetaschedError(f"there is no file `{path}`, given as `{name}` for TLS")
        return TLSFiles(str(ca), str(cert), str(key))


@dataclass(frozen=True)
class SchedulerAddress:
    """The address of a dask scheduler, such as `127.0.0.1:8786`, and the files of TLS if it is used."""

    host: str
    port: int
    tls: TLSFiles | None = None

    @staticmethod
    def parse(text: str, tls: TLSFiles | None = None) -> SchedulerAddress:
        """The address of a text `HOST:PORT`, with `tcp://` or `tls://` before it, and files `?ca=&cert=&key=` behind.

        Raises MetaschedError for what is none, and for another machine without TLS.
        """
        place, _, query = text.partition("?")
        scheme, separator, rest = place.partition("://")
        host, _, port = (rest if separator else place).rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if (separator and scheme not in {_PLAIN, _TLS}) or not host or not (port.isascii() and port.isdigit()):
            raise MetaschedError(
                f"`{text}` is no address of a dask scheduler",
                hint="write HOST:PORT, such as 127.0.0.1:8786, which `dask scheduler` prints",
            )
        files = _files_in(query, text) or tls
        if files is None and (scheme == _TLS or not is_loopback(host)):
            where = "asks for TLS" if scheme == _TLS else "is not this machine"
            raise MetaschedError(
                f"the scheduler `{place}` {where}, and no files for TLS are given: whoever is between could run code "
                "on every machine of the cluster",
                hint=f"name them, as in {_EXAMPLE}; `metasched worker` takes --tls-ca, --tls-cert "
                "and --tls-key; an SSH tunnel to 127.0.0.1 does as well",
            )
        return SchedulerAddress(host, int(port), files)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{_PLAIN if self.tls is None else _TLS}://{host}:{self.port}"

    @property
    def listens_at(self) -> str | None:
        """The host that a worker of this scheduler listens at: loopback only, unless TLS protects it."""
        return self.host if self.tls is None else None

    def security(self) -> Any:
        """What dask needs for TLS; None without."""
        if self.tls is None:
            return None
        ca, cert, key = self.tls.ca, self.tls.cert, self.tls.key
        return require_distributed().Security(
            require_encryption=True,
            tls_ca_file=ca,
            tls_client_cert=cert,
            tls_client_key=key,
            tls_worker_cert=cert,
            tls_worker_key=key,
        )


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine reach a host. Names other than `localhost` are not looked up."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _files_in(query: str, text: str) -> TLSFiles | None:
    found = dict(parse_qsl(query, keep_blank_values=True))
    unknown = [name for name in found if name not in _FILES]
    if unknown:
        raise MetaschedError(f"`{text}`: there is no setting `{unknown[0]}`", hint=f"write one such as {_EXAMPLE}")
    return TLSFiles.from_paths(*(found.get(name) for name in _FILES))
