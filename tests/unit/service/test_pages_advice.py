"""Advice of the API as the pages say it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from service.ingest.options import correction
from service.pages.advice import FIELDS, in_pages, on_page_of_data_set
from service.pages.forms import OPTIONS
from service.pages.showing import hint
from solver.succession import Succession, kept

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (correction("a ge", "category"), "set the kind of 'a ge' to category on the page of the data set"),
        (correction('a"}}{', "text"), "set the kind of 'a\"}}{' to text on the page of the data set"),
        ("cancel it (POST /jobs/job_1/cancel; of", "cancel it (by the button on its page; of"),
        ("seal the audit (POST /audits/aud_1/seal)", "seal the audit (on the page of the audit)"),
        ("rows of an audit: GET /audits/aud_1", "rows of an audit: it has the page /ui/audits/aud_1"),
        ("was deleted; train with POST /train", "was deleted; train from the page of a data set"),
        ('if so, say "unlabeled": ["NA", "?"]; if', "if so, tick NA, ? under “A label that means ‘not known’”; if"),
        ("list it in `unlabeled`", "tick it under “A label that means ‘not known’”"),
        ("drawn at random: sent as such, its label also counts", "drawn at random: its label also counts"),
        ("teach most (`prefsvm queue`)", "teach most (“Label rows”)"),
        (
            "expected utf-8, or another one by option encoding (such as utf-16, or cp1252 of many Windows files)",
            "expected utf-8, or another one: choose it under “Encoding” (many Windows files are cp1252)",
        ),
        (
            "as delimiter; option delimiter says otherwise",
            "as delimiter; if that is wrong, upload the file with the right “Delimiter”",
        ),
        (
            "upload again with option header true",
            "upload again with “First line”: names the columns",
        ),
        (
            'with option decimal ","; if they separate thousands, with option thousands ","',
            'with “Decimal sign” ","; if they separate thousands, with “Separator of thousands” ","',
        ),
        (
            "name them in option missing or, where these are the labels of a training, in its `unlabeled`",
            "upload again with them under “Words for missing values” or, where these are the labels of a training, "
            "tick them there under “A label that means ‘not known’”",
        ),
        (
            'tick NA; if it is a class, "negative": ["NA", "no"]',
            "tick NA; if it is a class, give it another name in the file",
        ),
        (
            "leaves it out, unless `include` or `kinds` of `features` names it",
            "leaves it out, unless a training by the API names it",
        ),
        (
            'say null for option quote if quotes are part of the texts, or "\\"" for option quote if they quote',
            "say under “Quotes” that they are characters like others if quotes are part of the texts, or that they are "
            '" if they quote',
        ),
        ('if a backslash escapes, say "\\\\" for option escape', "if a backslash escapes, say so under “Backslashes”"),
        ("upload again with option quote null", "upload again with “Quotes”: are characters like others"),
        ("of a batch POST /batches/job_1/cancel", "of a batch POST /batches/job_1/cancel"),
        ('PATCH /datasets/{id} with {"columns": 3}', 'PATCH /datasets/{id} with {"columns": 3}'),
    ],
)
def test_forms(given: str, said: str) -> None:
    assert in_pages(given) == said


def test_the_page_of_a_data_set_sends_nobody_to_itself() -> None:
    assert on_page_of_data_set(correction("Betrag", "number")) == "set the kind of 'Betrag' to number here"


def test_the_sentence_of_an_alias_that_stays() -> None:
    fields = dict.fromkeys(Succession.__dataclass_fields__)
    told = kept(Succession(**fields | {"alias": "filter", "model": "mdl_1"}), "mdl_2", "it is worse").sentence
    assert in_pages(told).endswith("to use this model: on the page of mdl_2, point the name filter at it")


def test_long_and_hostile_texts_take_no_time() -> None:
    for text in ('PATCH /datasets/a with {"columns": {"' + '\\"' * 100_000, 'say "unlabeled": [' * 5000, "`" * 100_000):
        assert len(hint(text)) < 20_000


def test_what_is_translated_is_still_said_somewhere() -> None:
    sources = "".join(
        node.value
        for folder in ("service", "solver")
        for path in (ROOT / folder).rglob("*.py")
        if "pages" not in path.relative_to(ROOT).parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    for part in ("PATCH /datasets/", "PUT /aliases/", "POST /jobs/", "/seal", "GET /audits/", "train with POST /train"):
        assert part in sources
    for part in ('say "unlabeled": ', "list it in `unlabeled`", "`prefsvm queue`", "option delimiter says otherwise"):
        assert part in sources
    for part in ("upload again with option header ", ', "negative": ', "name them in option missing or, where these"):
        assert part.replace("name them in ", "") in sources
    for part in (
        ", or another one by option encoding (such as utf-16, or cp1252 of many Windows files)",
        "unless `include` or `kinds` of `features` names it",
        *("say null for option quote", '"\\"" for option quote', 'say "\\\\" for option escape'),
    ):
        assert part in sources
    script = (ROOT / "service/pages/static/upload.js").read_text()
    for part in ("another one: choose it under “Encoding” (many Windows files are cp1252)", "the right “Delimiter”"):
        assert part in script  # which tells of large files what the page tells of small ones
    for option, field in FIELDS.items():
        assert re.search(rf'\n  "?{option}"?: "{field}",\n', script), option
    for option in OPTIONS:
        assert re.search(rf"\n  {option}: (String|\(said\) => .+),\n", script), option
