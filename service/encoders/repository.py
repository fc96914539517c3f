"""Vectors of texts that were encoded before: what is there need not be sent again.

A vector is found by the encoder that made it and the SHA-256 of its text. Encoders are known by what they make of
probes, not by their names: one that makes something else by now is another, and what the one before made goes.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping, Sequence
from datetime import timedelta

from sqlalchemy import delete, func, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from service.db.tables import TextEncoderRow, TextVectorRow
from service.identifiers import new_id
from solver.choices import SAME_WITHIN

ROW_BYTES = 160
"""What Postgres takes for a vector beside its numbers, with its places in the indexes."""
LEFT = 0.9
"""Share of the budget that is left when vectors had to go, so that not each training has to look for some."""
PROBES = 3
"""Vectors that are kept of an encoder, each as long as every other."""
SEEN = timedelta(days=1)
"""How often it is written down that a vector was of use: each time would write most of the table anew."""


class VectorCache:
    """The vectors of one project.

    Parameters
    ----------
    session : Session
    project_id : str
    """

    def __init__(self, session: Session, project_id: str) -> None:
        self._session = session
        self._project_id = project_id

    def encoder(self, model: str, texts: Sequence[str], probes: Sequence[bytes], *, keep: bool) -> str | None:
        """Return the id of an encoder, by what it makes of probes now.

        Parameters
        ----------
        model : str
        texts : sequence of str
            The probes.
        probes : sequence of bytes
            Their vectors, as float32.
        keep : bool
            Whether one that is not known yet is kept, and takes the place of those of the same name and probes.
        """
        digest = hashlib.sha256("\0".join(texts).encode()).digest()
        of_name = (
            TextEncoderRow.project_id == self._project_id,
            TextEncoderRow.model == model,
            TextEncoderRow.probe_texts_sha256 == digest,
        )
        now = b"".join(probes)
        newest_first = select(TextEncoderRow).where(*of_name).order_by(TextEncoderRow.created_at.desc())
        for row in self._session.scalars(newest_first):
            if are_same(row.probes, now, len(probes)):
                return row.id
        if not keep:
            return None
        self._session.execute(delete(TextEncoderRow).where(*of_name))
        row = TextEncoderRow(
            id=new_id("enc"), project_id=self._project_id, model=model, probe_texts_sha256=digest, probes=now
        )
        self._session.add(row)
        self._session.flush()
        return row.id

    def find(self, encoder_id: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the vectors that are there, by the SHA-256 of their texts, and note that they are of use."""
        wanted = (
            TextVectorRow.project_id == self._project_id,
            TextVectorRow.encoder_id == encoder_id,
            TextVectorRow.sha256.in_(digests),
        )
        found = self._session.execute(select(TextVectorRow.sha256, TextVectorRow.vector).where(*wanted)).all()
        if found:
            stale = TextVectorRow.used_at < func.now() - SEEN
            self._session.execute(update(TextVectorRow).where(*wanted, stale).values(used_at=func.now()))
        return {bytes(sha256): bytes(vector) for sha256, vector in found}

    def keep(self, encoder_id: str, vectors: Mapping[bytes, bytes]) -> None:
        """Keep vectors; of an encoder that has gone meanwhile, none."""
        known = (
            select(TextEncoderRow.id).where(TextEncoderRow.id == encoder_id).with_for_update(read=True, key_share=True)
        )
        if not vectors or self._session.scalar(known) is None:
            return
        rows = [
            {"encoder_id": encoder_id, "sha256": sha256, "project_id": self._project_id, "vector": vector}
            for sha256, vector in sorted(vectors.items())  # in one order: two trainings must not wait for each other
        ]
        self._session.execute(insert(TextVectorRow).on_conflict_do_nothing(), rows)

    def evict(self, most_bytes: int) -> int:
        """Let the vectors go that were of use the longest ago, as far as there are more than there is room for.

        Returns
        -------
        int
            How many.
        """
        counts = (
            select(TextVectorRow.encoder_id, func.count().label("rows"))
            .where(TextVectorRow.project_id == self._project_id)
            .group_by(TextVectorRow.encoder_id)
            .subquery()
        )
        each = func.length(TextEncoderRow.probes) // PROBES + ROW_BYTES
        sizes = select(func.sum(counts.c.rows * each), func.sum(counts.c.rows)).join(
            TextEncoderRow, TextEncoderRow.id == counts.c.encoder_id
        )
        taken, rows = self._session.execute(sizes).one()
        if taken is None or taken <= most_bytes:
            return 0
        go = math.ceil(int(rows) * (1 - LEFT * most_bytes / int(taken)))
        oldest = (
            select(TextVectorRow.encoder_id, TextVectorRow.sha256)
            .where(TextVectorRow.project_id == self._project_id)
            .order_by(TextVectorRow.used_at)
            .limit(go)
        )
        key = tuple_(TextVectorRow.encoder_id, TextVectorRow.sha256)
        self._session.execute(
            delete(TextVectorRow).where(TextVectorRow.project_id == self._project_id, key.in_(oldest))
        )
        return go


def are_same(before: bytes, now: bytes, count: int) -> bool:
    """Tell whether an encoder makes of probes what it made before; as `EncoderIdentity.change_to`."""
    if len(before) != len(now) or not count or len(now) % (4 * count):
        return False
    length = len(now) // count
    for start in range(0, len(now), length):
        old = struct.unpack(f"<{length // 4}f", before[start : start + length])
        new = struct.unpack(f"<{length // 4}f", now[start : start + length])
        if math.dist(old, new) > SAME_WITHIN * max(math.hypot(*old), 1e-300):
            return False
    return True
