"""`slicekit data`: what there is, how it gets to the disk, and what is in it."""

import io
import json
import zipfile
from pathlib import Path

import pytest

from slicekit.tasks.archives import KNOWN
from tests.cli.calls import invoke, refuse, succeed
from tests.tasks.archives.server import Site, serving

TS = "@classLabel true left right\n@data\n1,2:3,?:left\n1,2:3,4:right\n1,2:3,4:left\n"


def zipped(text: str = TS) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for split in ("TRAIN", "TEST"):
            archive.writestr(f"Walks_{split}.ts", text)
    return made.getvalue()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLICEKIT_DATA", str(tmp_path))
    monkeypatch.delenv("SLICEKIT_MIRROR", raising=False)
    return tmp_path


def test_sets_are_listed_with_those_on_disk(folder: Path) -> None:
    (folder / "uea").mkdir()
    (folder / "uea" / "Libras.npz").touch()
    found = {x["name"]: x for x in json.loads(succeed("data", "list", "--json"))}
    assert list(found) == list(KNOWN)
    assert found["Libras"]["found"] == str(folder / "uea" / "Libras.npz")
    assert found["NATOPS"]["found"] is None and found["NATOPS"]["channels"] == 24
    shown = succeed("data", "list").splitlines()
    (line,) = [line for line in shown if line.startswith("Libras ")]
    assert line.split() == ["Libras", "180", "180", "45", "2", "15", "yes"]
    assert any(str(folder) in line for line in shown)


def test_a_set_is_fetched_once_and_shown(folder: Path) -> None:
    with serving(Site({"/Walks.zip": zipped()})) as site:
        told = succeed("data", "get", "Walks", "--mirror", site.url)
        assert f"from {site.url}/Walks.zip" in told and f"Walks is in {folder / 'Walks'}" in told
        assert "--again" in succeed("data", "get", "Walks", "--mirror", site.url)
        assert len(site.asked) == 1
        succeed("data", "get", "Walks", "--mirror", site.url, "--again")
        assert len(site.asked) == 2
    found = json.loads(succeed("data", "show", "Walks", "--json"))
    assert found["classes"] == ["left", "right"] and found["channels"] == 2
    assert found["train"]["counts"] == {"left": 2, "right": 1} and found["duplicates"] == 4
    shown = succeed("data", "show", "Walks")
    assert "class left" in shown and "4 cases are exact copies" in shown and "8.33%" in shown


def test_another_folder_and_a_mirror_of_the_environment(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(Site({"/Walks.zip": zipped()})) as site:
        monkeypatch.setenv("SLICEKIT_MIRROR", site.url)
        succeed("data", "get", "Walks", "--to", tmp_path / "other")
    assert (tmp_path / "other" / "Walks" / "Walks_TRAIN.ts").is_file()
    assert "Walks" in succeed("data", "show", "Walks", "--folder", tmp_path / "other")


def test_what_fails_is_one_line(folder: Path) -> None:
    assert "did you mean 'Libras'?" in refuse("data", "get", "Librs")
    assert "did you mean 'Libras'?" in refuse("data", "show", "Librs")
    assert "slicekit data get Libras" in refuse("data", "show", "Libras")
    with serving(Site({})) as site:
        line = refuse("data", "get", "Walks", "--mirror", site.url, code=1)
        assert "Walks could not be had" in line and "404" in line
    with serving(Site({"/Walks.zip": zipped()})) as site:
        options = ("--mirror", site.url, "--sha256")
        assert "expected 00" in refuse("data", "get", "Walks", *options, "0" * 64, code=1)
        assert "64 hexadecimal digits" in refuse("data", "get", "Walks", *options, "12")


def test_files_that_changed_or_are_malformed_are_named(folder: Path) -> None:
    with serving(Site({"/Walks.zip": zipped()})) as site:
        succeed("data", "get", "Walks", "--mirror", site.url)
    file = folder / "Walks" / "Walks_TEST.ts"
    file.write_text(TS.replace("4:left", "4:up"))
    assert "Walks_TEST.ts in" in refuse("data", "show", "Walks", code=1)
    (folder / "Walks" / "source.json").unlink()
    assert f"{file}, line 5: class 'up'" in refuse("data", "show", "Walks", code=1)


@pytest.mark.parametrize("command", ["list", "get", "show"])
def test_help_teaches_by_example(command: str) -> None:
    shown = succeed("data", command, "--help")
    assert "Example" in shown and shown.count(f"slicekit data {command}") >= 2
    assert command in invoke("data").output
