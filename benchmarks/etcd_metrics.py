"""etcd's own counters, read over mutual TLS."""

import asyncio
import http.client
import ssl

from drumline.process.tls import TlsFiles

# Of etcd 3.6 and later, and of those before.
_PUTS = ("etcd_mvcc_put_total", "etcd_debugging_mvcc_put_total")


async def etcd_puts(address: str, tls: TlsFiles) -> int:
    """Give how many keys etcd has put since its start."""
    text = await asyncio.to_thread(_metrics, address, tls)
    values = dict(
        line.split(" ", 1) for line in text.splitlines() if line and not line.startswith("#")
    )
    for name in _PUTS:
        if name in values:
            return int(float(values[name]))
    raise LookupError(f"etcd at {address} has none of the counters {', '.join(_PUTS)}")


def _metrics(address: str, tls: TlsFiles) -> str:
    context = ssl.create_default_context(cafile=str(tls.ca))
    context.load_cert_chain(tls.certificate, tls.key)
    connection = http.client.HTTPSConnection(address, context=context, timeout=10)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()
