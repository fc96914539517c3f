"""``prefsvm mail …``: proving and training the model of the mail filter, with what the filter is called by default."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from service.cli.audits import audit
from service.cli.improving import AliasPolicyOption, retrain
from service.cli.support import DEFAULT_URL, Url

mail_app = typer.Typer(help="The model of the mail filter: proved mail by mail, and trained again.")
ModelName = Annotated[str, typer.Option("--model", help="Alias of the filter's model.")]
SITE = "spam-filter"
"""What `PREFSVM_MAIL_MODEL` is unless somebody says otherwise."""


@mail_app.command("audit")
def mail_audit(
    dataset: Annotated[
        str | None,
        typer.Argument(
            help="Whose unlabelled mails are shown: a data set (ds_…), or an archive of them.",
            show_default="what the model was trained on",
        ),
    ] = None,
    model: ModelName = SITE,
    objective: Annotated[str, typer.Option(help="What is to be proved.")] = "precision=0.99",
    confidence: Annotated[float, typer.Option(help="Of the proof.")] = 0.9,
    rows: Annotated[int, typer.Option(help="Mails that are drawn, at most; nobody has to look at all.")] = 2000,
    out: Annotated[
        Path | None, typer.Option(help="Write the mails that have no answer to a CSV file with a column 'answer'.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Look at mails that the filter calls spam, one key each, until the target is proven or refuted."""
    audit(
        model,
        dataset,
        objective,
        at_most=None,
        confidence=confidence,
        rows=rows,
        out=out,
        labels=None,
        url=url,
    )


@mail_app.command("retrain")
def mail_retrain(
    model: ModelName = SITE,
    alias_policy: AliasPolicyOption = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Train the filter's model with all that was learned since; it decides from then on unless it promises less."""
    retrain(model, alias_policy, wait=True, url=url)
