"""Models to take away: the file itself, ONNX, LIBSVM's format, and the model card."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Literal

from service.db.session import Database
from service.models.card import model_card
from service.models.class_card import card_of_classes
from service.models.class_html_report import html_report_of_classes
from service.models.errors import DamagedModel, NoCurve, NotExportable
from service.models.files import ModelFiles
from service.models.html_report import html_report
from service.models.repository import ModelFile, ModelRepository
from service.models.schemas import MulticlassModel
from service.models.service import ModelService
from solver.export import NoSuchFormError, libsvm_text, with_threshold
from solver.model_file import Model, model_bytes
from solver.tensor_file import TensorFileError

ExportFormat = Literal["safetensors", "onnx", "libsvm"]
BINARY = "application/octet-stream"


@dataclass(frozen=True)
class Export:
    """What is sent."""

    media_type: str
    file_name: str
    pieces: Iterator[bytes]
    headers: dict[str, str] = field(default_factory=dict)


class ExportService:
    """Hands out models."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._files = ModelFiles(database)
        self._models = ModelService(database)

    def export(self, project_id: str, name: str, form: ExportFormat) -> Export:
        """Open a model, named by its id or by an alias, for download with the threshold that was applied last.

        Raises
        ------
        ModelNotFound
            If there is none of this name.
        DamagedModel
            If the stored bytes are not those that were written. Of a large file this is known only at its end, which is
            then not sent.
        NotExportable
            If the model has no form in this format.
        """
        file = self._files.find(project_id, name)
        if form == "libsvm":
            model = self._files.read(file)
            if not isinstance(model, Model):
                raise NotExportable.of(
                    "query.format", "a model of several classes has no form for LIBSVM here; use onnx or safetensors"
                )
            try:
                lines = libsvm_text(model.decision)
            except NoSuchFormError as error:
                raise NotExportable.of("query.format", str(error)) from None
            return Export("text/plain; charset=utf-8", f"{file.model_id}.libsvm", (line.encode() for line in lines))
        if form == "onnx":
            # Loaded where it is used: it takes a third of a second and 30 MB, which most processes never need.
            from solver.classes_onnx import onnx_classes
            from solver.onnx_export import OnnxExportError, onnx_model

            model = self._files.read(file)
            try:
                whole = onnx_model(model) if isinstance(model, Model) else onnx_classes(model)
            except OnnxExportError as error:
                raise NotExportable.of("query.format", str(error)) from None
            return Export(BINARY, f"{file.model_id}.onnx", iter((whole,)), {"Content-Length": str(len(whole))})
        if file.rule is not None:
            model = self._files.read(file)
            whole = model_bytes(model)
            return Export(BINARY, f"{file.model_id}.safetensors", iter((whole,)), {"Content-Length": str(len(whole))})
        pieces = self._files.stream(file)
        if file.threshold is not None:
            return _safetensors(file, with_threshold(pieces, file.threshold, file.band), {})
        digest = base64.b64encode(bytes.fromhex(file.sha256)).decode()
        return _safetensors(file, pieces, {"Content-Length": str(file.bytes), "Repr-Digest": f"sha-256=:{digest}:"})

    def card(self, project_id: str, name: str) -> str:
        """Return the model card as Markdown; raises `ModelNotFound`."""
        model = self._models.get_any(project_id, name)
        with self._database.transaction() as session:
            origin = ModelRepository(session, project_id).origin(model.id)
        return card_of_classes(model, origin) if isinstance(model, MulticlassModel) else model_card(model, origin)

    def report(self, project_id: str, name: str) -> str:
        """Return the report to send, as HTML; raises `ModelNotFound`."""
        model = self._models.get_any(project_id, name)
        with self._database.transaction() as session:
            origin = ModelRepository(session, project_id).origin(model.id)
        if isinstance(model, MulticlassModel):
            return html_report_of_classes(model, origin, partial(self._models.class_curve, project_id, model.id))
        try:
            thresholds = self._models.thresholds(project_id, model.id)
        except NoCurve:
            thresholds = None
        return html_report(model, thresholds, origin)


def _safetensors(file: ModelFile, pieces: Iterator[bytes], headers: dict[str, str]) -> Export:
    # What is wrong at the start must be known before the status line is sent.
    try:
        first = next(pieces)
    except TensorFileError:
        raise DamagedModel("the stored bytes of this model are not those that were written") from None
    return Export(BINARY, f"{file.model_id}.safetensors", chain((first,), pieces), headers)
