"""What every service of the apiserver works with."""

from dataclasses import dataclass

from drumline.apiserver.cache.cache import Cache
from drumline.apiserver.store.committer import Committer
from drumline.apiserver.store.etcd import Etcd
from drumline.process.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class Context:
    """The store, what is known of it, and the way to change it."""

    etcd: Etcd
    cache: Cache
    committer: Committer
    tls: TlsFiles
    # Seconds after which a watch on which nothing happens says so.
    bookmark_seconds: float
