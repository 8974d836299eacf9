"""One file over HTTP: goes on where an earlier attempt was cut off, and never leaves half a file.

What has come stands in FILE.part, and beside it FILE.part.json tells of what it is a part: the
address, the validator that the server gave (ETag or Last-Modified) and the whole length. A part is
continued only if the server confirms these; else it is begun anew.
"""

import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

CHUNK = 1 << 18
PASSING = (408, 425, 429, 500, 502, 503, 504)
"""Answers of a server that another attempt may change."""

Watch = Callable[[int, int | None], None]
"""Told the bytes that have come, and how many there are if that is known; both only grow."""


LARGEST = 2**34
"""Bytes of the largest file that is brought by default."""


class DownloadError(OSError):
    """A file that could not be had; the message has its address and the reason."""


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server.

    Args:
        timeout: seconds without a byte before an attempt is given up.
        attempts: how many, the first included.
        pause: seconds before the second attempt, doubled for each further one.
    """

    timeout: float = 30.0
    attempts: int = 4
    pause: float = 1.0


class _TooLarge(Exception):
    """What another attempt would not change; the message says how much there is."""


def fetch(
    url: str,
    file: Path,
    watch: Watch | None = None,
    patience: Patience = Patience(),
    largest: int = LARGEST,
) -> None:
    """Bring a file from a server, under its name only once it is whole.

    Args:
        url: of http or https.
        file: where to put it; replaced if it exists.
        watch: told how far it is.
        patience: how long to wait.
        largest: most bytes that are taken.

    Raises:
        DownloadError: if it could not be had; what came is kept, and the next call goes on from
            it. If it is too large, nothing is kept.
    """
    if not url.lower().startswith(("http://", "https://")):
        raise DownloadError(f"{url}; expected an address that starts with http:// or https://")
    part, forward = _Part(file), _Forward(watch)
    reason: Exception = OSError("no attempt was made")
    for attempt in range(patience.attempts):
        if attempt:
            time.sleep(patience.pause * 2 ** (attempt - 1))
        try:
            _receive(url, part, forward, patience.timeout, largest)
        except _TooLarge as error:
            part.forget()
            raise DownloadError(f"{url}: {error}; at most {largest} are taken") from None
        except HTTPError as error:
            error.close()
            if error.code == 416:
                part.forget()
            elif error.code not in PASSING:
                raise DownloadError(f"{url}: the server says {error.code} {error.reason}") from None
            reason = error
        except (OSError, HTTPException, ValueError) as error:
            reason = error
        else:
            os.replace(part.file, file)
            part.forget()
            return
    kept = f"; {part.size} bytes are kept, and another call goes on from them" if part.size else ""
    raise DownloadError(
        f"{url}: {_told(reason)}, after {patience.attempts} attempts{kept}"
    ) from reason


def forget_parts(*files: Path) -> None:
    """Delete what attempts that were cut off have left of these files."""
    for file in files:
        _Part(file).forget()


def _told(reason: Exception) -> str:
    inner = getattr(reason, "reason", None)
    return str(inner or reason) or type(reason).__name__


@dataclass
class _Forward:
    """A watch that is never told a smaller number than before."""

    watch: Watch | None
    most: int = -1

    def __call__(self, received: int, total: int | None) -> None:
        if self.watch is not None and received > self.most:
            self.most = received
            self.watch(received, total)


@dataclass
class _Part:
    """What has come so far of a file."""

    whole: Path
    file: Path = field(init=False)
    note: Path = field(init=False)

    def __post_init__(self) -> None:
        self.file = self.whole.with_name(f"{self.whole.name}.part")
        self.note = self.whole.with_name(f"{self.whole.name}.part.json")

    @property
    def size(self) -> int:
        return self.file.stat().st_size if self.file.exists() else 0

    def known(self, url: str) -> dict[str, object]:
        """What is known of the part if it comes from this address, or nothing."""
        try:
            note = json.loads(self.note.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return note if isinstance(note, dict) and note.get("url") == url and self.size else {}

    def begin(self, note: dict[str, object]) -> None:
        self.file.unlink(missing_ok=True)
        self.note.write_text(json.dumps(note), encoding="utf-8")

    def forget(self) -> None:
        self.file.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def _receive(url: str, part: _Part, watch: _Forward, timeout: float, largest: int) -> None:
    """Ask for what is missing, and append it to the part."""
    known = part.known(url)
    start = part.size if known else 0
    if start and start == known.get("total"):
        return
    headers = {"User-Agent": "slicekit", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
        if known.get("validator"):
            headers["If-Range"] = str(known["validator"])
    with urlopen(Request(url, headers=headers), timeout=timeout) as answer:
        if answer.status == 206:
            total = _continued(answer, known, start)
            if total is None:
                part.forget()
                raise OSError("the file changed on the server")
        else:
            start, total = 0, _length(answer)
            part.begin({"url": url, "validator": _validator(answer), "total": total})
        if total is not None and total > largest:
            raise _TooLarge(f"the file has {total} bytes")
        received = start
        with open(part.file, "ab") as out:
            watch(received, total)
            while chunk := answer.read(CHUNK):
                out.write(chunk)
                received += len(chunk)
                watch(received, total)
                if received > largest:
                    raise _TooLarge(f"{received} bytes have come")
    if total is not None and received > total:
        part.forget()
        raise OSError(f"{received} bytes came, more than the {total} promised")
    if total is not None and received < total:
        raise OSError(f"the connection was cut after {received} of {total} bytes")


def _continued(answer: HTTPResponse, known: dict[str, object], start: int) -> int | None:
    """The whole length, if the answer goes on with the same file where the part ends."""
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", answer.headers.get("Content-Range", ""))
    if match is None or int(match[1]) != start:
        return None
    same = known.get("total") in (None, int(match[2]))
    fresh = _validator(answer)
    if known.get("validator") and fresh and fresh != known["validator"]:
        same = False
    return int(match[2]) if same else None


def _length(answer: HTTPResponse) -> int | None:
    told = answer.headers.get("Content-Length", "")
    return int(told) if told.isdigit() else None


def _validator(answer: HTTPResponse) -> str | None:
    """What If-Range may name: a strong ETag, or else the date of the last change."""
    etag = answer.headers.get("ETag")
    return etag if etag and not etag.startswith("W/") else answer.headers.get("Last-Modified")
