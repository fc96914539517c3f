"""Why a row without a label is on the list of those to label, in words."""

from __future__ import annotations

CLOSE = 0.8
"""Likeness from which on a row is not said to be unlike another: 1 are two rows that the model cannot tell apart."""


def why_listed(reason: str, covers: int, compared: int, alike: float, unsure: str) -> str:
    """Return the reason.

    Parameters
    ----------
    reason : str
        As the training left it: `random`, `unsure`, or another for a row that tells of others.
    covers, compared : int
        How many unlabelled rows are more like it than like any known one, and of how many.
    alike : float
        Its likeness to the nearest row that is labelled or stands before it, up to 1.
    unsure : str
        How the sentence goes on that says of what the model is not sure, with its first sign.
    """
    if reason == "random":
        return "drawn at random: sent as such, its label also counts for thresholds, rules and intervals"
    if reason == "unsure":
        return f"the model is least sure of rows like it{unsure}"
    if alike >= CLOSE:
        return (
            f"it is close to a labelled row or one before it in this list (likeness {alike:.2f} of 1), but nothing "
            f"else tells more: {covers} of {compared} unlabelled rows are more like it than like any of those"
        )
    if covers > 1:
        return (
            f"no label is near it: {covers} of {compared} unlabelled rows are more like it than like any "
            "labelled row or any before it in this list"
        )
    return "it is unlike any labelled row and any before it in this list"
