"""Configuration files: what is wrong is told with the file, and where in it."""

from pathlib import Path

import pytest

from slicekit import catalogue, tasks
from slicekit.cli.configuration import merge, read_file, resolve
from tests.cli.calls import refuse


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("task = \n", "is no TOML: Invalid value (at line 1, column 8)"),
        ('task = "a5"\n[training\n', "(at line 2, column 10)"),
        ('task = "a5"\nseed', "(at line 2, the end)"),
        ('tsak = "a5"\n', "unknown key 'tsak', did you mean 'task'?"),
        ("[trainning]\n", "unknown key 'trainning', did you mean 'training'?"),
        ("[training]\nstep = 5\n", "unknown setting 'step', did you mean 'steps'?"),
        ("steps = 5\n", "steps is a setting, so it belongs below [training]"),
        ("[training]\nsteps = 0\n", "steps=0; expected at least 1"),
        ('[training]\nclip = "no"\n', "clip='no' is a str"),
        ("[training]\nautocast = 1\n", "autocast=1"),
        ("task = 5\n", "task=5 is a int; expected text"),
        ('layers = "two"\n', "layers='two'"),
        ("training = 5\n", "expected a table [training]"),
        ("length = 5\n[training]\nlengths = [3, 5]\n", "give one"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(
    content: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text(content)
    line = refuse("train", "parity", "--config", "own.toml")
    assert expected in line and line.startswith("slicekit train: own.toml")
    assert [path.name for path in tmp_path.iterdir()] == ["own.toml"]


def test_a_file_that_is_no_text_or_a_folder_is_named(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_bytes(b"\xff\xfe")
    for path in (file, tmp_path):
        with pytest.raises(ValueError, match=str(path)):
            read_file(path)


def test_lengths_of_a_later_table_beat_the_length_of_an_earlier_one() -> None:
    base = {"task": "parity"}
    both = ({"length": 9}, {"training": {"lengths": [4, 5]}})
    assert resolve(merge(base, *both)).settings.lengths == (4, 5)
    assert resolve(merge(base, *reversed(both))).settings.lengths == (4, 9)


def test_the_curriculum_of_a_recipe_starts_within_the_lengths() -> None:
    base = {"task": "parity", "model": "projective-slice", "length": 4}
    start = catalogue.settings("projective-slice", tasks.make("parity")).grow_from
    assert start is not None and start > 4
    assert resolve(base).settings.grow_from == 4
    with pytest.raises(ValueError, match=f"grow_from={start}"):
        resolve(merge(base, {"training": {"grow_from": start}}))


def test_a_later_table_changes_no_earlier_one() -> None:
    first = {"task": "a5", "training": {"steps": 5}}
    merge(first, {"training": {"steps": 6}, "task_options": {"letters": [1]}})
    assert first == {"task": "a5", "training": {"steps": 5}}
