"""How a model that a job has made is written, in the transaction that ends the job; ``chunks.py`` reads it."""

from __future__ import annotations

import builtins
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import func, insert, update
from sqlalchemy.orm import Session

from service.db.tables import ModelChunkRow, ModelRow, OperatingPointRow
from service.identifiers import new_id
from solver.classes_report import AnyReport

CHUNK_BYTES = 1 << 20


class CorruptModelFileError(Exception):
    """Raised when a model file differs from what its writer announced; the transaction must be rolled back."""


@dataclass(frozen=True)
class FinishedModel:
    """A model file that is to be stored, with what is shown of it."""

    id: str
    algorithm: str
    manifest: dict[str, Any]
    report: AnyReport
    path: Path
    bytes: int
    sha256: str
    operating_point: dict[str, Any] | None = None
    """What it shall decide by instead of what its training chose, as `solver.report.ReportedPoint`, of several
    classes as `solver.class_points.ClassesPoint`."""
    labelled_rows: builtins.bytes | None = None
    """Fingerprints of the rows that had a label, see `solver.labelled_rows`."""
    kept_rows: builtins.bytes | None = None
    """Labelled rows for others to be compared with, see `solver.nearest`."""
    left_out: builtins.bytes | None = None
    """Of several classes, what another rule is chosen by, see `solver.multiclass.choosing`."""


def store_model(session: Session, project_id: str, job_id: str, dataset_id: str | None, model: FinishedModel) -> None:
    """Write the row of a model and its bytes, and check these; `store_report` comes last.

    Raises
    ------
    CorruptModelFileError
        If size or SHA-256 of the file are not those announced.
    """
    session.execute(
        insert(ModelRow).values(
            id=model.id,
            project_id=project_id,
            job_id=job_id,
            dataset_id=dataset_id,
            algorithm=model.algorithm,
            manifest=model.manifest,
            report={},
            bytes=model.bytes,
            sha256=model.sha256,
            labelled_rows=model.labelled_rows,
            kept_rows=model.kept_rows,
            left_out=model.left_out,
        )
    )
    digest, size = hashlib.sha256(), 0
    for seq, chunk in enumerate(_chunks(model.path)):
        digest.update(chunk)
        size += len(chunk)
        session.execute(insert(ModelChunkRow.__table__).values(model_id=model.id, seq=seq, data=chunk))  # type: ignore[arg-type]
    if size != model.bytes or digest.hexdigest() != model.sha256:
        raise CorruptModelFileError(
            f"the model file has {size} bytes with SHA-256 {digest.hexdigest()}, "
            f"but {model.bytes} bytes with {model.sha256} were announced"
        )


def store_report(session: Session, model_id: str, report: AnyReport) -> None:
    """Write the report of a model that `store_model` has written: it says how long that took, too."""
    session.execute(update(ModelRow).where(ModelRow.id == model_id).values(report=report.to_dict()))


def store_operating_point(session: Session, model_id: str, point: dict[str, Any]) -> None:
    """Let a model that `store_model` has written decide by another operating point than the one of its training."""
    stored = {name: value for name, value in point.items() if name != "promise"}  # it follows from the rest
    # The same time as the model has: by that one can tell that the job applied it, and nobody later.
    session.add(OperatingPointRow(id=new_id("op"), model_id=model_id, created_at=func.now(), **stored))


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
