"""``/example``."""

from __future__ import annotations

from fastapi import APIRouter, Response

from service.api.access import Reader
from service.datasets.example import NAME, Example, example_file, the_example


def example_router() -> APIRouter:
    """Return the routes of the example."""
    router = APIRouter(prefix="/example", tags=["datasets"])

    @router.get("", operation_id="getExample")
    def get(_: Reader) -> Example:
        """Tell of the example that everybody can try the product on, and what its rows are in truth."""
        return the_example()

    @router.get(
        f"/{NAME}",
        operation_id="getExampleFile",
        response_class=Response,
        responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}, "description": "The file"}},
    )
    def file(_: Reader) -> Response:
        """Give the file of the example, to be uploaded with `POST /datasets`: 398 tumours, 39 with a diagnosis."""
        return Response(example_file(), media_type="text/csv")

    return router
