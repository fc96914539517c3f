"""``/batches``."""

from __future__ import annotations

import base64

from fastapi import APIRouter, Response
from fastapi.responses import StreamingResponse

from service.api.access import Reader, Writer
from service.api.json_body import JsonRoute
from service.api.parameters import CursorText, IdempotencyKey, Limit, problems
from service.batches.schemas import MEDIA_TYPES, Batch, BatchRequest
from service.batches.service import BatchService
from service.schemas import Page

RESULT_CONTENT = {
    media_type.partition(";")[0]: {"schema": {"type": "string", "format": "binary"}}
    for media_type in MEDIA_TYPES.values()
}


def batches_router(batches: BatchService) -> APIRouter:
    """Return the routes of batches."""
    router = APIRouter(prefix="/batches", tags=["batches"], route_class=JsonRoute)

    @router.post("", operation_id="createBatch", status_code=202, responses=problems(409))
    def create(caller: Writer, body: BatchRequest, response: Response, key: IdempotencyKey = None) -> Batch:
        """Predict a whole data set. The answer comes at once; the batch is at `Location`."""
        batch = batches.create(caller.project_id, body, key)
        response.headers["Location"] = f"/batches/{batch.id}"
        return batch

    @router.get("", operation_id="listBatches")
    def list_(caller: Reader, limit: Limit = 20, cursor: CursorText = None) -> Page[Batch]:
        """List batches, newest first."""
        return batches.list(caller.project_id, cursor, limit)

    @router.get("/{batch_id}", operation_id="getBatch", responses=problems(404))
    def get(caller: Reader, batch_id: str) -> Batch:
        """Show a batch."""
        return batches.get(caller.project_id, batch_id)

    @router.post("/{batch_id}/cancel", operation_id="cancelBatch", status_code=202, responses=problems(404, 409))
    def cancel(caller: Writer, batch_id: str) -> Batch:
        """Stop a batch. One in the queue ends at once, a running one within seconds; nothing is kept."""
        return batches.cancel(caller.project_id, batch_id)

    @router.get(
        "/{batch_id}/result",
        operation_id="getBatchResult",
        response_class=StreamingResponse,
        responses={200: {"content": RESULT_CONTENT}, **problems(404, 409, 410)},
    )
    def result(caller: Reader, batch_id: str) -> StreamingResponse:
        """Download the file that a batch has made.

        It has `row` (from 0), `label`, `score` and `probability` of each row, in the order of the data set. In a CSV a
        label that a spreadsheet would take for a formula has a `'` before it.
        """
        found = batches.result(caller.project_id, batch_id)
        digest = base64.b64encode(bytes.fromhex(found.sha256)).decode()
        headers = {
            "Content-Disposition": f'attachment; filename="{found.file_name}"',
            "Content-Length": str(found.size),
            "Repr-Digest": f"sha-256=:{digest}:",
        }
        return StreamingResponse(found.pieces, media_type=found.media_type, headers=headers)

    return router
