"""All studies in order, and one page of what they found."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from slicekit import figures
from slicekit.studies import STUDIES, Choice, Plan, Study, make
from slicekit.studies.one_run import write
from slicekit.studies.paper import Means, conduct_paper
from slicekit.studies.paper_page import Chapter, as_html, as_markdown, missing_cells
from slicekit.studies.records import add_to_record
from tests.studies.outcomes import made_up

FEW = ("a5-lengths", "word-problems", "uea")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three studies are enough to tell."""
    studies = {name: make(name) for name in FEW}
    monkeypatch.setattr("slicekit.studies.paper.STUDIES", studies)


@pytest.mark.usefixtures("few")
def test_the_page_has_what_is_there_and_names_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "available", lambda: False)
    study, records = make("word-problems"), tmp_path / "results"
    (plan, *_) = study.wanted(Choice(), {})
    place = tmp_path / "paper" / "word-problems" / "runs" / plan.name
    place.mkdir(parents=True)
    write(made_up(plan, accuracy=lambda _: 0.625), place)
    (other, *_) = make("a5-lengths").wanted(Choice(models=("bd-slice",)), {})
    add_to_record(make("a5-lengths"), [made_up(other)], records)
    choice = Choice(data=str(tmp_path / "nothing"))
    chapters = conduct_paper(choice, tmp_path / "paper", Means(budget=0, records=records))
    assert [chapter.study.name for chapter in chapters] == list(FEW)
    text = (tmp_path / "paper" / "paper.md").read_text()
    for expected in (
        "| figure 1b                | a5-lengths    | 1 runs, ",
        "| tables 3 and 5, figure 5 | uea           | not done",
        "| orthogonal-slice | a5    | 60 elements, not solvable | mean |",
        "62.50 / 62.50",
        "slicekit study word-problems --models orthogonal-slice --seeds 0 --steps 2000",
        "Not run yet: orthogonal-slice (seed 0 1 2 3 4), bd-slice (seed 1 2 3 4), ",
        "Not done: no data set with classes on the disk",
        "Not at hand (slicekit data get): EigenWorms, EthanolConcentration, Heartbeat, ",
    ):
        assert expected in text
    assert "62.50 / 62.50" in (tmp_path / "paper" / "paper.html").read_text()
    stored = json.loads((records / "word-problems.json").read_text())
    assert [run["plan"]["name"] for run in stored["runs"]] == [plan.name], "put on record"


def test_the_page_as_html_needs_no_other_file(tmp_path: Path) -> None:
    study = make("a5-lengths")
    (plan, *_) = study.wanted(Choice(models=("bd-slice",)), {})
    chapter = Chapter(study, (made_up(plan),), failures={"a <b>": "1 < 2"})
    (tmp_path / "it.png").write_bytes(b"\x89PNG")
    page = as_html([chapter], {"a5-lengths": tmp_path / "it.png"})
    assert 'src="data:image/png;base64,iVBORw==' in page
    assert not re.search(r'(?:src|href)="(?!data:)', page)
    assert "a &lt;b&gt; failed: 1 &lt; 2" in page and "<td>bd-slice</td>" in page
    assert "](it.png)" in as_markdown([chapter], {"a5-lengths": tmp_path / "it.png"})


def test_many_missing_cells_are_counted_by_model() -> None:
    plans = make("a5-layers").wanted(Choice(models=("bd-slice", "mamba")), {})
    few, many = missing_cells(plans[:2], set()), missing_cells([*plans, *_others(plans)], set())
    assert few == ["length-03/bd-slice/layers-1 (seed 0)", "length-03/mamba/layers-1 (seed 0)"]
    assert many == ["bd-slice (36 runs)", "mamba (36 runs)"]
    assert missing_cells(plans[:2], {plan.name for plan in plans}) == []


def _others(plans: list[Plan]) -> list[Plan]:
    return [replace(plan, name=f"other-{plan.name}") for plan in plans]


@pytest.mark.parametrize("study", STUDIES.values(), ids=lambda study: study.name)
def test_a_quick_look_at_all_takes_few_runs_of_each(study: Study, tmp_path: Path) -> None:
    choice = study.glimpse(Choice(data=str(tmp_path)))
    assert choice.quick
    if study.name != "uea":  # which needs data
        assert 0 < len(study.wanted(choice, {})) <= 24
