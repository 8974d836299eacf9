"""A set taken out of a zip file: only its own files, all of them or nothing."""

import shutil
import stat
import zipfile
from pathlib import Path, PurePosixPath, PureWindowsPath

from slicekit.tasks.archives.errors import ArchiveError
from slicekit.tasks.archives.fetching import LARGEST


def unpack(archive: Path, name: str, folder: Path, largest: int = LARGEST) -> list[Path]:
    """Take the files of a set out of a zip file, as plain names.

    Args:
        archive: the zip file.
        name: of the set.
        folder: an empty folder, for NAME_TRAIN and NAME_TEST as `.ts` or, if there are none,
            `.arff`, or else for NAME.npz.
        largest: most bytes that its files may have together.

    Returns:
        The files.

    Raises:
        ArchiveError: if the archive is damaged, holds no such files or too large ones, or a member
            whose name leads out of the folder.
        OSError: if the disk can't hold them.
    """
    try:
        with zipfile.ZipFile(archive) as members:
            for member in members.infolist():
                _check_name(archive, member)
            chosen = _chosen(archive, name, members.infolist())
            needed, free = sum(x.file_size for x in chosen), shutil.disk_usage(folder).free
            if needed > largest:
                found = f"{needed} bytes of {name} inside"
                raise ArchiveError(archive, None, found, f"at most {largest}")
            if needed > free:
                raise OSError(f"{folder} has {free} bytes left, but {name} needs {needed}")
            return [_take(members, member, folder) for member in chosen]
    except (ArchiveError, OSError):
        raise
    # A damaged archive makes the parser raise nearly anything, according to where the damage is.
    except Exception as error:
        raise ArchiveError(archive, None, f"damaged, {error}", "a whole zip file") from None


def _check_name(archive: Path, member: zipfile.ZipInfo) -> None:
    # `filename` is normalised on some systems, so the name in the archive is looked at.
    written = member.orig_filename
    parts = PurePosixPath(written.replace("\\", "/")).parts
    outside = ".." in parts or written.startswith(("/", "\\")) or PureWindowsPath(written).drive
    if outside or stat.S_ISLNK(member.external_attr >> 16):
        raise ArchiveError(
            archive, f"member {written!r}", "a link or a path out of the archive", "plain names"
        )


def _chosen(archive: Path, name: str, members: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    by_name = {PurePosixPath(x.filename).name: x for x in members if not x.is_dir()}
    wanted = [
        [f"{name}_TRAIN.ts", f"{name}_TEST.ts"],
        [f"{name}_TRAIN.arff", f"{name}_TEST.arff"],
        [f"{name}.npz"],
    ]
    for files in wanted:
        if all(file in by_name for file in files):
            return [by_name[file] for file in files]
    listed = ", ".join(sorted(by_name)[:8]) or "nothing"
    raise ArchiveError(archive, None, f"members {listed}", " and ".join(wanted[0]))


def _take(members: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path) -> Path:
    file = folder / PurePosixPath(member.filename).name
    with members.open(member) as source, open(file, "xb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
    return file
