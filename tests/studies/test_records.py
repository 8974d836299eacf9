"""Results on record, and the pages that take their tables from there."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from slicekit import figures
from slicekit.studies import STUDIES, Choice, Outcome, Study, Tested, make, uea_paper
from slicekit.studies.pages import PAGE, REGION, filled, page_of
from slicekit.studies.paper_page import chapter_on_record
from slicekit.studies.records import add_to_record, commands, read_record, recorded
from tests.studies.outcomes import made_up

ROOT = Path(__file__).parent.parent.parent
STUDY = make("a5-lengths")


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "available", lambda: False)


def outcomes(*models: str, seeds: tuple[int, ...] = (0,), study: Study = STUDY) -> list[Outcome]:
    plans = study.wanted(Choice(models=models, seeds=seeds), {})
    told = {"memory": 2**20, "processor": "a fast one", "version": "0.0.1"}
    return [replace(made_up(plan), **told) for plan in plans]


def test_runs_are_added_to_those_on_record(tmp_path: Path) -> None:
    add_to_record(STUDY, outcomes("mamba", seeds=(0, 1)), tmp_path)
    record = add_to_record(STUDY, outcomes("bd-slice"), tmp_path)
    names = [x.plan.name for x in record.outcomes]
    assert names == ["bd-slice/seed-0", "mamba/seed-0", "mamba/seed-1"], "in the study's own order"
    assert read_record(STUDY, tmp_path) == record
    written = (tmp_path / "a5-lengths.json").read_bytes()
    assert add_to_record(STUDY, outcomes("mamba"), tmp_path) == record
    assert (tmp_path / "a5-lengths.json").read_bytes() == written
    found = json.loads(written)
    assert found["commands"] == record.commands and len(found["runs"]) == 3
    (first, *_) = found["runs"]
    assert (first["seconds"], first["memory"], first["processor"]) == (2.0, 2**20, "a fast one")
    assert first["plan"]["settings"]["seed"] == 0 and first["version"] == "0.0.1"
    text = (tmp_path / "a5-lengths.md").read_text()
    assert "| bd-slice/seed-0 |" in text and record.commands[0] in text
    assert "Made with slicekit 0.0.1; a fast one" in text


def test_results_of_a_study_without_times_will_do_as_a_record(tmp_path: Path) -> None:
    (run,) = (x.as_dict() for x in outcomes("bd-slice"))
    for name in ("seconds", "memory", "processor", "version"):
        del run[name]
    stored = {"study": "a5-lengths", "slicekit": "0.0.2", "choice": {}, "runs": [run]}
    (tmp_path / "a5-lengths.json").write_text(json.dumps(stored))
    record = add_to_record(STUDY, outcomes("de-lncde"), tmp_path)
    old, new = record.outcomes
    assert old.version == "0.0.2" and old.processor is None and old.seconds != old.seconds
    run = json.loads((tmp_path / "a5-lengths.json").read_text())["runs"][0]
    assert not run.keys() & {"seconds", "processor", "memory"}
    again = [replace(new, seconds=float("nan"), processor=None)]
    assert add_to_record(STUDY, again, tmp_path).outcomes[1] == new, "times that are known stay"


def test_tables_of_a_record_are_the_same_when_it_is_read_again(tmp_path: Path) -> None:
    exact = [replace(x, seconds=2.4999) for x in outcomes("bd-slice")]
    record = add_to_record(STUDY, exact, tmp_path)
    again = read_record(STUDY, tmp_path)
    assert again is not None and again.outcomes[0].seconds == record.outcomes[0].seconds == 2.5
    assert (tmp_path / "a5-lengths.md").read_text() == again.as_markdown()


def test_models_with_the_same_seeds_share_a_command_and_so_do_lengths() -> None:
    found = [*outcomes("bd-slice", "de-lncde", seeds=(0, 1)), *outcomes("d-slice")]
    assert commands(STUDY, found) == [
        "slicekit study a5-lengths --models bd-slice,de-lncde --seeds 0,1 --steps 6000 --batch 256",
        "slicekit study a5-lengths --models d-slice --seeds 0 --steps 6000 --batch 256",
    ]
    layers = make("a5-layers")
    plans = layers.wanted(Choice(models=("bd-slice",), lengths=(5, 7), recipe="paper"), {})
    (command,) = commands(layers, [made_up(plan) for plan in plans])
    assert "--lengths 5,7 --max-layers 1 --recipe paper" in command


def of_uea() -> list[Outcome]:
    plans = uea_paper.plans(Choice(seeds=(0, 1)), ("MotorImagery", "Heartbeat"), ("lru", "ncde"))
    tested = [Tested(1, 1, 57, 0.5 + plan.settings.seed / 4, 0.5) for plan in plans]
    return [replace(made_up(plan), tested=(x,)) for plan, x in zip(plans, tested, strict=True)]


def test_data_sets_share_a_command() -> None:
    assert commands(make("uea"), of_uea()) == [
        "slicekit study uea --models lru,ncde --seeds 0,1 --parts paper "
        f"--sets Heartbeat,MotorImagery --steps {of_uea()[0].plan.settings.steps} --batch 32"
    ]


def test_a_page_may_show_a_part_of_a_study(tmp_path: Path) -> None:
    add_to_record(make("uea"), of_uea(), tmp_path)
    page = "<!-- results: uea/paper -->\n<!-- end of results -->\n"
    told = filled(page, tmp_path, "..")
    (line,) = (x for x in told.splitlines() if x.startswith("| lru"))
    assert line.count("62.50 ± 17.68 / 62.50 ± 17.68") == 2
    assert line.count("78 ± 7") == line.count("48 ± 6") == 1, "what the paper says"
    assert filled(told, tmp_path, "..") == told
    with pytest.raises(ValueError, match="asks for the results of uea/default, but"):
        filled(page.replace("paper", "default"), tmp_path, "..")


def test_data_sets_that_no_run_is_of_are_missing() -> None:
    (told,) = chapter_on_record(make("uea"), tuple(of_uea())).missing
    assert "lru (52 runs)" in told and "ncde (26 runs)" in told and "bd-slice (60 runs)" in told


def test_how_many_runs_tell_their_machine_is_told_where_not_all_do() -> None:
    (known, other) = outcomes("bd-slice", seeds=(0, 1))
    assert recorded(STUDY, [known, other]).made_with == "slicekit 0.0.1; a fast one"
    silent = recorded(STUDY, [known, replace(other, processor=None)])
    assert silent.made_with == "slicekit 0.0.1; a fast one (as 1 of 2 runs tell)"


def test_places_of_one_machine_are_not_recorded(tmp_path: Path) -> None:
    (outcome,) = outcomes("bd-slice")
    here = replace(outcome, plan=replace(outcome.plan, options={"data": "/home/me", "seed": 1}))
    (recorded,) = add_to_record(STUDY, [here], tmp_path).outcomes
    assert recorded.plan.options == {"seed": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [("[", "JSONDecodeError"), ('{"study": "languages", "runs": []}', "of the study languages")],
)
def test_a_damaged_record_is_named_and_left_as_it_is(
    content: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "a5-lengths.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=f"{path} is damaged: .*{message}"):
        add_to_record(STUDY, outcomes("bd-slice"), tmp_path)
    assert path.read_text() == content and list(tmp_path.iterdir()) == [path]


def test_nothing_can_be_recorded_of_no_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no run of a5-lengths is finished"):
        add_to_record(STUDY, [], tmp_path)


@pytest.mark.parametrize("study", STUDIES.values(), ids=lambda study: study.name)
def test_what_is_on_record_is_what_the_tables_beside_it_say(study: Study) -> None:
    record = read_record(study, ROOT / "results")
    if record is None:
        pytest.skip("nothing is on record")
    place = ROOT / "results" / study.name
    assert place.with_suffix(".md").read_text() == record.as_markdown(), "to do: make pages"
    assert "/home/" not in record.as_json() and "/work/" not in record.as_json()
    page = (ROOT / "results" / PAGE).read_text()
    for table in study.page_tables(record.choice, record.outcomes):
        assert table.as_markdown() in page, "to do: make pages"


@pytest.mark.parametrize("picture", sorted((ROOT / "results").glob("*.png")), ids=lambda x: x.stem)
def test_a_picture_on_record_is_no_larger_than_a_screen(picture: Path) -> None:
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])  # of a PNG's header
    assert width <= 2000 and height <= 2000


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_a_page_says_what_is_on_record(page: Path) -> None:
    text = page.read_text()
    assert text == filled(text, ROOT / "results", "../results"), "to do: make pages"
    assert len(REGION.findall(text)) == text.count("<!-- results: ")


def test_the_page_of_all_studies_says_what_is_on_record_and_what_is_missing(tmp_path: Path) -> None:
    add_to_record(STUDY, outcomes("bd-slice"), tmp_path)
    page = page_of(tmp_path)
    assert all(f"`slicekit study {name}`" in page for name in STUDIES)
    assert "Not run yet: orthogonal-slice (seed 0 1 2 3 4), bd-slice (seed 1 2 3 4)" in page
    assert "Not done: it needs data, and nothing is on record." in page


def test_a_region_is_made_anew_and_nothing_else(tmp_path: Path) -> None:
    add_to_record(STUDY, outcomes("bd-slice"), tmp_path)
    page = "Before.\n<!-- results: a5-lengths -->\nold\n<!-- end of results -->\nAfter.\n"
    new = filled(page, tmp_path, "../there")
    assert new.startswith("Before.\n<!-- results: a5-lengths -->\nAccuracy at each length, over")
    assert "| bd-slice |" in new and "old" not in new
    assert new.endswith("```\n<!-- end of results -->\nAfter.\n")
    assert "[a5-lengths.md](../there/a5-lengths.md)" in new
    assert filled(new, tmp_path, "../there") == new
    with pytest.raises(ValueError, match="asks for the results of languages, but"):
        filled(page.replace("a5-lengths", "languages"), tmp_path, "..")
