"""``Accept``: which of the forms of an answer the caller wants."""

from __future__ import annotations

from collections.abc import Sequence

from service.api.problem import NotAcceptable


def choose_form(accept: str, forms: Sequence[str]) -> str:
    """Return the media type of `forms` that an ``Accept`` header likes best; the first one where it does not care.

    Raises
    ------
    NotAcceptable
        If it takes none of them.
    """
    ranges = [_parse(part) for part in accept.split(",") if part.strip()] or [("*/*", 1.0)]
    liked = {form: _quality(form, ranges) for form in forms}
    best = max(forms, key=lambda form: liked[form])
    if liked[best] <= 0:
        raise NotAcceptable(f"this answer comes as {', '.join(forms)}")
    return best


def _quality(form: str, ranges: Sequence[tuple[str, float]]) -> float:
    """The quality of the most specific range that the form is in (RFC 9110, 12.5.1)."""
    for wanted in (form, form.split("/")[0] + "/*", "*/*"):
        for given, quality in ranges:
            if given == wanted:
                return quality
    return 0.0


def _parse(part: str) -> tuple[str, float]:
    media_range, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return media_range, min(1.0, max(0.0, float(value)))
            except ValueError:
                return media_range, 0.0
    return media_range, 1.0
