"""A small HTTP server in a thread, with the faults that real ones have."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from slicekit.tasks.archives.fetching import Patience

HASTY = Patience(timeout=5, attempts=3, pause=0)


@dataclass
class Site:
    """What stands on the server, and how it behaves.

    Args:
        files: contents by path.
        ranges: whether it continues files.
        etag: what it calls every content, or None.
        cuts: after how many bytes it cuts the connection of the first answers, one entry each.
        failures: the codes of the first answers, before any content.
        delay: seconds that it waits before each answer.
        told_length: whether it tells how long a file is.
    """

    files: dict[str, bytes]
    ranges: bool = True
    etag: str | None = '"one"'
    cuts: list[int] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    delay: float = 0.0
    told_length: bool = True
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""


@contextmanager
def serving(site: Site) -> Iterator[Site]:
    """A site at `site.url`, which keeps the paths and ranges it was asked for."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            site.asked.append((self.path, asked))
            time.sleep(site.delay)
            if site.failures:
                return self.send_error(site.failures.pop(0))
            content = site.files.get(self.path)
            if content is None:
                return self.send_error(404)
            same = self.headers.get("If-Range") in (None, site.etag)
            start = int(asked[6:-1]) if asked and site.ranges and same else 0
            if start >= len(content) > 0:
                return self.send_error(416)
            self.send_response(206 if start else 200)
            if start:
                whole = len(content)
                self.send_header("Content-Range", f"bytes {start}-{whole - 1}/{whole}")
            if site.told_length:
                self.send_header("Content-Length", str(len(content) - start))
            if site.etag:
                self.send_header("ETag", site.etag)
            self.end_headers()
            end = start + site.cuts.pop(0) if site.cuts else len(content)
            self.wfile.write(content[start:end])

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that went away is no fault here."""

    server = Quiet(("127.0.0.1", 0), Answer)
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
