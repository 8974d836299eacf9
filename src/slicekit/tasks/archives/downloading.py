"""Sets brought from their archives to the disk, only when asked.

What came is recorded in `source.json` beside the files: the addresses and the checksums.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from slicekit import locks
from slicekit.tasks.archives.errors import ArchiveError
from slicekit.tasks.archives.fetching import (
    LARGEST,
    DownloadError,
    Patience,
    fetch,
    forget_parts,
)
from slicekit.tasks.archives.places import data_folder
from slicekit.tasks.archives.sources import SPLITS, Source, sources
from slicekit.tasks.archives.unpacking import unpack

NOTE = "source.json"

Progress = Callable[[str, int, int | None], None]
"""Told the address, the bytes that have come from it, and how many there are if that is known."""


def download(
    name: str,
    folder: str | PathLike[str] | None = None,
    *,
    mirror: str | None = None,
    sha256: str | None = None,
    progress: Progress | None = None,
    patience: Patience = Patience(),
    largest: int = LARGEST,
) -> Path:
    """Bring a set to the disk, from the first source that has it.

    Nothing that stands there is replaced before what came is known to be whole. An attempt that was
    cut off leaves its part, and the next goes on from it.

    Args:
        name: of the set.
        folder: where to put it, as a folder NAME; `data_folder()` by default.
        mirror: a source to try first, see `sources`.
        sha256: what the zip file's checksum must be. Then only zip files are asked for.
        progress: told how far it is.
        patience: how long to wait for each file.
        largest: most bytes of a file that is brought, and of the files in it.

    Returns:
        The folder of the set, for `read_archive`.

    Raises:
        ValueError: if the name is unknown, or `sha256` is no checksum.
        DownloadError: if no source has it, with the reason of each; or if what came is not what
            came the last time, and no `sha256` says that it should be.
        InUse: if another process is bringing the same set to the same folder.
    """
    if sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", sha256):
        raise ValueError(f"sha256={sha256!r}; expected 64 hexadecimal digits")
    root = data_folder() if folder is None else Path(folder).expanduser()
    candidates = sources(name, mirror)
    # Two at once would write one part, and each would move away what the other has put there.
    with locks.writing(root, f".{name}.lock"):
        return _download(name, root, candidates, sha256, progress, patience, largest)


def _download(
    name: str,
    root: Path,
    candidates: list[Source],
    sha256: str | None,
    progress: Progress | None,
    patience: Patience,
    largest: int,
) -> Path:
    def bring(url: str, file: Path) -> None:
        watch = None if progress is None else partial(progress, url)
        fetch(url, file, watch, patience, largest)

    reasons = []
    for source in candidates:
        if sha256 is not None and not source.zipped:
            continue
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=root) as fresh:
            try:
                note = _obtain(source, name, Path(fresh), sha256, bring, largest)
            except DownloadError as error:
                reasons.append(str(error))
                continue
            if sha256 is None:
                _compare(note, recorded(root / name), root / name)
            _install(Path(fresh), root / name)
        forget_parts(*(root / file for file in _downloads(name)))
        return root / name
    raise DownloadError(f"{name} could not be had: {'; '.join(reasons)}")


def _downloads(name: str) -> list[str]:
    """The files that downloads of a set are called until they are in their place."""
    return [f"{name}.zip", *(f"{name}_{split}.ts.download" for split in SPLITS)]


def _obtain(
    source: Source,
    name: str,
    fresh: Path,
    sha256: str | None,
    bring: Callable[[str, Path], None],
    largest: int,
) -> dict[str, Any]:
    """Bring the files of a set to a fresh folder, with the note of where they are from."""
    whole, *texts = (fresh.parent / file for file in _downloads(name))
    came = {}
    for url, file in zip(source.urls, [whole] if source.zipped else texts, strict=True):
        # Outside the fresh folder, so that a part outlives a failure.
        bring(url, file)
        try:
            came[url] = checksum(file)
            if source.zipped:
                _check(url, came[url], sha256)
                unpack(file, name, fresh, largest)
            else:
                _check_text(url, file)
                shutil.copyfile(file, fresh / file.name.removesuffix(".download"))
        except ArchiveError as error:
            raise DownloadError(f"{url}: {error}") from error
        finally:
            file.unlink()
    note = {"came": came, "files": {file.name: checksum(file) for file in sorted(fresh.iterdir())}}
    (fresh / NOTE).write_text(json.dumps(note, indent=2), encoding="utf-8")
    return note


def _check(url: str, digest: str, expected: str | None) -> None:
    if expected is not None and digest != expected.lower():
        raise DownloadError(f"{url}: what came has the SHA-256 {digest}; expected {expected}")


def _check_text(url: str, file: Path) -> None:
    with open(file, "rb") as lines:
        if not lines.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"#", b"%", b"@")):
            raise DownloadError(f"{url}: what came is no .ts file")


def _compare(note: dict[str, Any], before: dict[str, str], target: Path) -> None:
    """Raise if files of the same names came with other contents the last time."""
    for file, digest in note["files"].items():
        if before.get(file, digest) != digest:
            raise DownloadError(
                f"{target / file}: what came now has the SHA-256 {digest}, but {before[file]} is "
                f"recorded in {target / NOTE}; nothing was replaced. To accept it, give the "
                "SHA-256 of the zip file, or delete the folder"
            )


def _install(fresh: Path, target: Path) -> None:
    """Put what came in its place; what stood there is moved aside first, and back if that fails."""
    made, aside = fresh / "new" / target.name, fresh / "old"
    files = list(fresh.iterdir())
    made.mkdir(parents=True)
    for file in files:
        os.replace(file, made / file.name)
    if target.exists():
        os.replace(target, aside)
    try:
        os.replace(made, target)
    except OSError:
        if aside.exists():
            os.replace(aside, target)
        raise


def recorded(folder: Path) -> dict[str, str]:
    """The checksums of a set's files as they came, by file; none if they were not downloaded."""
    try:
        files = json.loads((folder / NOTE).read_text(encoding="utf-8"))["files"]
        return {str(file): str(digest) for file, digest in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def changed(folder: Path) -> list[str]:
    """The files of a downloaded set that are not as they came, or are gone.

    Args:
        folder: what `download` returned.
    """
    return [
        file
        for file, digest in recorded(folder).items()
        if not (folder / file).is_file() or checksum(folder / file) != digest
    ]


def checksum(file: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with open(file, "rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
