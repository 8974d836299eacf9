"""Who to cite: one entry for everything a model is made of, each once."""

import re

import pytest
from torch import nn

from slicekit import (
    DPLR,
    Associative,
    BlockDiagonal,
    Chunked,
    Dense,
    Diagonal,
    DiagonalDense,
    DirectSum,
    JointDPLR,
    Orthogonal,
    SequenceModel,
    SLiCE,
    Sparse,
    WalshHadamard,
    cite,
)
from slicekit.structures import Structure
from tests.market import STRUCTURES, Circulant, every_structure

ENTRY = re.compile(r"@(?P<kind>[a-z]+)\{(?P<key>[a-z0-9]+),\n(?P<body>.*?)\n\}", re.DOTALL)
FIELD = re.compile(r"^  ([a-z]+) += \{", re.MULTILINE)
SLICES = "walker2025slices"

EXPECTED: list[tuple[Structure, set[str]]] = [
    (Dense(4), {"cirone2024", "kidger2020"}),
    (Diagonal(4), {"cirone2024", "gu2022s4d"}),
    (BlockDiagonal(4, 2), {"fan2024advancing"}),
    (DiagonalDense(4, 2), set()),
    (DPLR(4, 1), {"movahedi2025"}),
    (JointDPLR(4, 1), {"movahedi2025", "yang2024parallelizing", "siems2025deltaproduct"}),
    (Sparse(4, density=0.5), set()),
    (WalshHadamard(4), {"sylvester1867"}),
    (Orthogonal(4, 2), set()),
    (
        DirectSum(WalshHadamard(4), DirectSum(Diagonal(2), Dense(2))),
        {"sylvester1867", "cirone2024", "gu2022s4d", "kidger2020"},
    ),
    (Circulant(4), set()),
]


def keys(text: str) -> list[str]:
    return [entry["key"] for entry in ENTRY.finditer(text)]


def assert_bibtex(text: str) -> None:
    """Entries with balanced braces and the fields that every bibliography needs, nothing else."""
    assert ENTRY.sub("", text).strip() == ""
    for entry in ENTRY.finditer(text):
        fields = FIELD.findall(entry["body"])
        assert {"title", "author", "year"} <= set(fields), entry["key"]
        assert len(fields) == len(set(fields))
        assert entry["body"].count("{") == entry["body"].count("}")
        assert re.search(r"year +\= \{\d{4}\}", entry["body"]), entry["key"]


@pytest.mark.parametrize(("structure", "expected"), EXPECTED, ids=[repr(x[0]) for x in EXPECTED])
def test_a_layer_cites_the_paper_and_what_its_structure_rests_on(
    structure: Structure, expected: set[str]
) -> None:
    found = keys(cite(SLiCE(3, structure)))
    assert found[0] == SLICES
    assert set(found) == {SLICES} | expected


@every_structure
def test_entries_are_bibtex_without_duplicates(name: str) -> None:
    text = cite(SLiCE(3, STRUCTURES[name]))
    assert_bibtex(text)
    assert len(keys(text)) == len(set(keys(text))) > 0


def test_policies_are_cited_too() -> None:
    assert "yang2024parallelizing" in keys(cite(SLiCE(3, Dense(4), scan=Chunked())))
    assert "blelloch1990" in keys(cite(SLiCE(3, Dense(4), scan=Associative())))


def test_a_model_cites_each_of_its_layers_once() -> None:
    parts = iter([Dense(4), WalshHadamard(4), Dense(4)])
    model = SequenceModel(
        vocabulary=3, outputs=2, width=4, layers=3, mixer=lambda width: SLiCE(width, next(parts))
    )
    text = cite(nn.ModuleDict({"inner": model}))
    assert_bibtex(text)
    assert sorted(keys(text)) == sorted([SLICES, "cirone2024", "kidger2020", "sylvester1867"])


def test_a_module_of_torch_has_nothing_to_cite() -> None:
    assert cite(nn.Linear(2, 2)) == ""
