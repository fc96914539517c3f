"""What the product advises can be done: each advice is provoked on a real stack, and then followed word for word."""

from __future__ import annotations

import random
import re
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli.main import app
from service.local.stack import local_stack

pytestmark = pytest.mark.slow

Run = Callable[..., str]
WORDS = ("red", "green", "blue", "small", "large", "round", "flat", "cold", "warm", "late")


@pytest.fixture(scope="module")
def stack_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with local_stack(tmp_path_factory.mktemp("advice") / "data") as stack:
        yield stack.url


@pytest.fixture
def prefsvm(stack_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("PREFSVM_URL", stack_url)

    def run(words: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, shlex.split(words.removeprefix("prefsvm ")))
        assert done.exit_code == code, f"{words}\n{done.output}"
        return done.output

    return run


def write(name: str, head: str, line: Callable[[int], str], rows: int = 60) -> None:
    Path(name).write_text("\n".join([head, *map(line, range(rows)), ""]))


def label(i: int) -> str:
    return "spam" if i % 2 else "ham"


def text(i: int) -> str:
    return f"{WORDS[i % 10]} {WORDS[i // 10 % 10]}"


TRAIN = "train data.csv --target label --objective f1 --positive {} --dry-run"


def test_labels_that_may_mean_not_known(prefsvm: Run) -> None:
    write("data.csv", "label,n", lambda i: f"{'N A' if i % 5 == 0 else 'NA' if i % 5 == 1 else label(i)},{i % 7}.5")
    train = TRAIN.format("spam")
    said = prefsvm(train, code=1)
    ways = re.search(r"if so, say (--unlabeled .*); if it is a class, (--negative .*)", said)
    assert ways, said
    assert '"' not in ways[0]
    for way in ways.groups():
        assert "would be taken" in prefsvm(f"{train} {way}")


def test_labels_in_several_spellings(prefsvm: Run) -> None:
    write("data.csv", "label,n", lambda i: f"{['no', 'maybe', 'Maybe '][i % 3]},{i % 7}.5")
    train = TRAIN.format("no")
    way = re.search(r"'Maybe ', 'maybe'; (--[a-z-]+) makes one", prefsvm(train))
    assert way
    assert "capitals" not in prefsvm(f"{train} {way[1]}")


@pytest.mark.parametrize(
    ("head", "line", "advice"),
    [
        ("label,text", lambda i: f'{label(i)},"{text(i)}', r"\((--quote none)\)"),
        (
            "label,n",
            lambda i: f'{label(i)},"{i % 4 + 1},5"' if i else "ham,about two",
            r"decimal commas; if they are, upload again with (--decimal \S+)",
        ),
        ("label,n", lambda i: f'{label(i)},"{i + 1},234"', r"if these are decimal, upload again with (--decimal \S+);"),
        ("label,n", lambda i: f'{label(i)},"{i + 1},234"', r"thousands, with (--thousands \S+)"),
        ("a,39", lambda i: f"{WORDS[i % 10]},{i}", r"upload again with (--(?:no-)?header)"),
        ("label;n", lambda i: f"{label(i)};{i}", r"(--delimiter) says otherwise"),
        ("label,n", lambda i: f"{label(i)},{'unclear' if i == 9 else i}", r"name (?:it|them) in (--missing)"),
        ("label,n", lambda i: f"{label(i)},{'unknown' if i % 3 else WORDS[i % 10]}", r"name them in (--missing)"),
    ],
)
def test_how_a_file_is_read(prefsvm: Run, head: str, line: Callable[[int], str], advice: str) -> None:
    write("data.csv", head, line)
    said = prefsvm("upload data.csv")
    found = re.search(advice, said)
    assert found, said
    assert "option " not in said
    way = found[1] + {"--delimiter": " ';'", "--missing": " unclear --missing unknown"}.get(found[1], "")
    again = prefsvm(f"upload data.csv {way}")
    assert found[0] not in again or found[1] == "--missing", again


@pytest.mark.parametrize(
    ("head", "line", "advice"),
    [
        ("label,my text", lambda i: f"{label(i)},{text(i)} {i}x", r"make it a text: "),
        ("label,when", lambda i: f"{label(i)},{1_760_000_000 + 86_400 * i}", r"if these are times: "),
        ("label,n", lambda i: f"{label(i)},{i * 3 % 17} €", r"if they are none: "),
        ("label,day", lambda i: f"{label(i)},{i % 28 + 1:02d}.11.26", r"if so, "),
    ],
)
def test_what_a_column_is(prefsvm: Run, head: str, line: Callable[[int], str], advice: str) -> None:
    """A data set is corrected, and a file that is trained on is read so at once."""
    write("data.csv", head, line, rows=90)
    said = prefsvm("upload data.csv")
    found = re.search(advice + r"(prefsvm datasets correct ds_\w+ --kind (?:'[^']+'|\S+\w))", said)
    assert found, said
    prefsvm(found[1])
    Path("data.csv").write_text(Path("data.csv").read_text() + line_of(head, line))
    train = TRAIN.format("spam")
    told = re.search(advice + r"(--kind (?:'[^']+'|\S+\w))", prefsvm(train))
    assert told
    assert not re.search(advice, prefsvm(f"{train} {told[1]}"))


def line_of(head: str, line: Callable[[int], str]) -> str:
    return f"{line(head.count(',') + 1)}\n"


def test_a_key_that_numbers_would_alter(prefsvm: Run) -> None:
    write("data.csv", "label,id,n", lambda i: f"{label(i)},{i}.50,{i * 7 % 13}.5")
    train = TRAIN.format("spam") + " --key id"
    way = re.search(r"upload the file again with (--kind \S+)", prefsvm(train, code=1))
    assert way
    assert "would be taken" in prefsvm(f"{train} {way[1]}")


def test_columns_that_are_left_out_or_tell_too_much(prefsvm: Run) -> None:
    write("data.csv", "label,id,my col,n", lambda i: f"{label(i)},{i},{i % 2}.5,{i * 7 % 13}.25", rows=120)
    train = "train data.csv --target label --objective f1 --positive spam --wait"
    said = prefsvm(train)
    assert said.count("column 'id' ") == 1
    ways = re.search(r"a training leaves it out, unless (--include) or (--kind) names it\n", said)
    assert ways
    assert "'id' counts" not in prefsvm(f"{train} {ways[1]} id {ways[1]} n")
    assert "'id' counts" not in prefsvm(f"{train} {ways[2]} id=number")
    way = re.search(r"leave it out: (--exclude '.*')", said)
    assert way
    assert "alone tells" not in prefsvm(f"{train} {way[1]}")


def test_objectives_and_algorithms(prefsvm: Run) -> None:
    write("data.csv", "label,n,m", lambda i: f"{label(i) if i < 80 else ''},{i * 7 % 13}.5,{i % 2 + i % 3}.5", rows=160)
    train = "train data.csv --target label --positive spam"
    said = prefsvm(train, code=2)
    kinds = "precision|recall|precision_recall|false_positive_rate|ham_loss|f1|f_beta|cost"
    objectives = re.findall(rf"\b(?:{kinds})=[\d.:]*\d|\bf1\b", said)
    assert len(objectives) == 8
    for objective in objectives:
        prefsvm(f"{train} --objective {objective} --dry-run")
    said = prefsvm(f"{train} --objective f1 --algorithm svm --wait")
    other = re.search(r"unlabelled rows; (\S+) tries methods that do", said)
    assert other
    said = prefsvm(f"{train} --objective f1 --algorithm {other[1]} --wait")
    for kept in re.findall(r"(--param \S+) keeps it", said):
        prefsvm(f"{train} --objective f1 --algorithm {other[1]} {kept} --dry-run")
    Path("full.csv").write_text(re.sub(r"^,.*\n", "", Path("data.csv").read_text(), flags=re.M))
    full = train.replace("data.csv", "full.csv") + " --objective f1 --dry-run"
    way = re.search(r"use (\w+)$", prefsvm(f"{full} --algorithm psvm", code=1).strip())
    assert way
    prefsvm(f"{full} --algorithm {way[1]}")


def test_rows_of_a_workbook(prefsvm: Run) -> None:
    write("data.csv", "label,n", lambda i: f"{label(i)},{i * 7 % 13}.5")
    prefsvm("train data.csv --target label --objective f1 --positive spam --alias of-rows --wait")
    Path("data.csv").rename("data.xlsx")
    said = " ".join(re.sub(r"[│\n]", " ", prefsvm("predict of-rows data.xlsx", code=2)).split())
    way = re.search(r"(prefsvm batch .*answers.csv) decides", said)
    assert way, said
    Path("data.xlsx").rename("data.csv")
    prefsvm(way[1].replace("xlsx", "csv"))
    assert Path("answers.csv").read_text().startswith('"row","label"')


def test_what_reads_a_data_set_is_cancelled(prefsvm: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker has one slot: a batch waits behind a training that somebody stopped waiting for."""
    write("data.csv", "label,n", lambda i: f"{label(i)},{i * 7 % 13}.5")
    prefsvm("train data.csv --target label --objective f1 --positive spam --alias quick --wait")
    small = dataset_of(prefsvm("upload data.csv"))
    noise = random.Random(1)  # noqa: S311 (a seed is the point)
    write("long.csv", "label,a,b", lambda _: f"{label(noise.getrandbits(1))},{noise.random()},{noise.random()}", 40_000)
    large = dataset_of(prefsvm("upload long.csv"))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("service.cli.support._wait_for", interrupted)
        said = prefsvm(f"train {large} --target label --objective f1 --positive spam --algorithm svm --wait", code=130)
    goes_on = re.search(r"(prefsvm jobs job_\w+) shows it, with (--cancel) it ends", said)
    assert goes_on, said
    prefsvm(goes_on[1])
    prefsvm(f"batch quick {small}")
    for dataset, way in ((small, 2), (large, 1)):
        said = prefsvm(f"datasets delete {dataset}", code=1)
        ways = re.search(r"cancel it \((prefsvm jobs \w+ --cancel); of a batch (prefsvm batches cancel \w+)\)", said)
        assert ways, said
        prefsvm(ways[way])
        deadline = time.monotonic() + 60
        while "cancelled" not in prefsvm(ways[way].replace(" --cancel", "").replace("cancel", "show")):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        prefsvm(f"datasets delete {dataset}")
    assert "cancelled" in prefsvm(f"{goes_on[1]} {goes_on[2]}")


def dataset_of(said: str) -> str:
    found = re.search(r"ds_\w+", said)
    assert found, said
    return found[0]
