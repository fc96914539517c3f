"""``prefsvm encoder …``: encoders of texts on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.advice import in_flags
from service.cli.groups import Commands
from service.cli.support import fail

if TYPE_CHECKING:
    from service.encoders.local.onnx_encoder import OnnxEncoder

encoder_app = typer.Typer(cls=Commands, help="Encoders of texts that run on this machine, without a network.")

ALIKE = ("The parcel was left with a neighbour.", "A package has been handed to the people next door.")
ANOTHER = "The orchestra rehearses on Thursday evening."
SAME_WITHIN = 1e-3
"""How far a vector may be off, alone and among others."""


@encoder_app.command("install")
def install(
    folder: Annotated[Path, typer.Argument(help="Folder with model.onnx and tokenizer.json, as hubs hand it out.")],
    model: Annotated[str | None, typer.Option(help="The ONNX file in it, where there are several.")] = None,
    name: Annotated[
        str | None, typer.Option(help="What trainings call it.", show_default="the name of the folder")
    ] = None,
    prefix: Annotated[
        str | None, typer.Option(help="Set before each text, such as 'query: '.", show_default="as the folder says")
    ] = None,
    pooling: Annotated[
        str | None,
        typer.Option(help="mean, cls or lasttoken: how tokens become a text.", show_default="as the folder says"),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(help="Read of a text at most.", show_default="as the folder says")
    ] = None,
) -> None:
    """Check a folder with an encoder, say what is in it, and note its SHA-256 there. Nothing is fetched."""
    import os

    from service.encoders.local.folder import INSTALLED_FILE, EncoderFolderError, read_folder, write_installed
    from service.encoders.names import INSTALL_ENCODER

    try:
        found, notes = read_folder(folder, model=model, name=name, prefix=prefix, pooling=pooling, tokens=tokens)
        from service.encoders.local.onnx_encoder import OnnxEncoder

        encoder = OnnxEncoder(found, len(os.sched_getaffinity(0)))
        likeness = _likeness(encoder)
        milliseconds = _milliseconds(encoder)
        write_installed(found, encoder.dimensions)
    except ModuleNotFoundError as error:
        fail(f"{error.name} is not installed: {INSTALL_ENCODER}")
    except (EncoderFolderError, OSError) as error:
        fail(in_flags(str(error)))
    for note in notes:
        print(f"note: {note}")
    print(f"name        {found.name}")
    print(f"vectors     {encoder.dimensions} numbers, {found.pooling} of the tokens, of length 1")
    print(f"reads       {found.tokens} tokens of a text" + (f", behind {found.prefix!r}" if found.prefix else ""))
    print(f"takes       {milliseconds[0]:.1f} ms for a short text, {milliseconds[1]:.0f} ms for 2,000 characters")
    print(f"likeness    {likeness[0]:.2f} of two sentences that mean the same, {likeness[1]:.2f} of two that do not")
    print(f"licence     {found.licence or 'the folder does not say; ask whoever made it before you use it'}")
    for file, digest in found.digests().items():
        print(f"sha256      {digest}  {file}")
    print(f"noted in {folder / INSTALLED_FILE}; start it with:\n  PREFSVM_ENCODER_FOLDER={folder} prefsvm serve")


def _likeness(encoder: OnnxEncoder) -> tuple[float, float]:
    """Return the cosines of two sentences of one meaning and of two of different ones, once they are known to hold."""
    from service.encoders.local.folder import EncoderFolderError

    texts = [*ALIKE, ANOTHER]
    together, alone = encoder.encode(texts), [encoder.encode([text])[0] for text in texts]
    off = max(float(abs(one - other).max()) for one, other in zip(together, alone, strict=True))
    if off > SAME_WITHIN:
        raise EncoderFolderError(
            f"the vector of a text depends on the texts beside it (a number is {off:.2g} off): the model does not heed "
            "its attention_mask"
        )
    same, other = float(together[0] @ together[1]), float(together[0] @ together[2])
    if max(abs(same), abs(other)) < SAME_WITHIN or same > 1 - 1e-6:
        raise EncoderFolderError("the model makes the same vector, or none, of different sentences")
    return same, other


def _milliseconds(encoder: OnnxEncoder) -> tuple[float, float]:
    """Return what a short text and a long one take, the quickest of a few."""
    import time

    long = (ALIKE[0] + " ") * 60
    found = []
    for text, times in ((ALIKE[1], 20), (long[:2000], 3)):
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            encoder.encode([text])
            taken.append(time.perf_counter() - began)
        found.append(1000 * min(taken))
    return found[0], found[1]
