"""What shadows of aliases counted: all SQL about it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import delete, insert, select, text

from service.db.repository import Repository
from service.db.tables import ShadowDisagreementRow, ShadowStatisticsRow

KEPT = 1000
"""Disagreements of an alias that can be looked at; of older ones only the number is known."""
BETWEEN = "\t"
"""Stands between two labels; a label has no control character."""
UNDECIDED = ""
"""In the place of a label that a model did not give; no label is empty."""


class ShadowKey(NamedTuple):
    """Who was compared."""

    project_id: str
    alias: str
    model_id: str
    shadow_id: str


class Disagreement(NamedTuple):
    """A row on which the two decided differently."""

    row_sha256: bytes
    label: str
    shadow_label: str
    score: float
    shadow_score: float


@dataclass
class ShadowCounts:
    """Counts of rows by what the two models said of them."""

    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    dropped: int = 0
    failed: int = 0
    latest: list[Disagreement] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Rows that both decided on."""
        return sum(self.pairs.values())

    @property
    def disagreements(self) -> int:
        """Rows on which they differ."""
        return sum(rows for (label, shadow_label), rows in self.pairs.items() if label != shadow_label)

    def add(self, other: ShadowCounts) -> None:
        """Count further rows, too."""
        self.pairs.update(other.pairs)
        self.dropped += other.dropped
        self.failed += other.failed
        self.latest = (self.latest + other.latest)[-KEPT:]


class ShadowRepository(Repository):
    """Shadows of one project, in the transaction of `session`."""

    def add(self, key: ShadowKey, counts: ShadowCounts) -> None:
        """Add to the counts, unless a model was deleted meanwhile, and keep the last disagreements."""
        values = key._asdict() | {
            "project_id": self._project_id,
            "pairs": json.dumps({BETWEEN.join(pair): rows for pair, rows in counts.pairs.items()}),
            "dropped": counts.dropped,
            "failed": counts.failed,
        }
        if self._session.execute(_ADD, values).first() is None or not counts.latest:
            return
        who = key._asdict() | {"project_id": self._project_id}
        self._session.execute(insert(ShadowDisagreementRow), [who | row._asdict() for row in counts.latest])
        mine = (ShadowDisagreementRow.project_id == self._project_id, ShadowDisagreementRow.alias == key.alias)
        ids = select(ShadowDisagreementRow.id).where(*mine).order_by(ShadowDisagreementRow.id.desc())
        last = self._session.scalar(ids.offset(KEPT).limit(1))
        if last is not None:
            self._session.execute(delete(ShadowDisagreementRow).where(*mine, ShadowDisagreementRow.id <= last))

    def statistics(self, alias: str, model_id: str, shadow_id: str) -> ShadowStatisticsRow | None:
        """Return what was counted for a pair of models."""
        return self._session.get(ShadowStatisticsRow, (self._project_id, alias, model_id, shadow_id))

    def latest(self, alias: str, model_id: str, shadow_id: str, limit: int) -> Sequence[ShadowDisagreementRow]:
        """Return the last disagreements of a pair of models, newest first."""
        pair = {"alias": alias, "model_id": model_id, "shadow_id": shadow_id}
        statement = select(ShadowDisagreementRow).filter_by(project_id=self._project_id, **pair)
        return self._session.scalars(statement.order_by(ShadowDisagreementRow.id.desc()).limit(limit)).all()


# The models and the alias are looked for first, so that nothing is written of what was deleted meanwhile.
_ADD = text(
    """
    INSERT INTO shadow_statistics (project_id, alias, model_id, shadow_id, pairs, dropped, failed)
    SELECT aliases.project_id, aliases.name, model.id, shadow.id, CAST(:pairs AS jsonb), CAST(:dropped AS bigint),
           CAST(:failed AS bigint)
      FROM aliases
      JOIN models AS model ON model.project_id = aliases.project_id AND model.id = :model_id
      JOIN models AS shadow ON shadow.project_id = aliases.project_id AND shadow.id = :shadow_id
     WHERE aliases.project_id = :project_id AND aliases.name = :alias
       FOR KEY SHARE
    ON CONFLICT (project_id, alias, model_id, shadow_id) DO UPDATE
       SET dropped = shadow_statistics.dropped + excluded.dropped,
           failed = shadow_statistics.failed + excluded.failed,
           updated_at = now(),
           pairs = (
             SELECT coalesce(jsonb_object_agg(summed.key, summed.value), '{}')
               FROM (SELECT added.key, sum(added.value::bigint) AS value
                       FROM (SELECT * FROM jsonb_each_text(shadow_statistics.pairs)
                             UNION ALL
                             SELECT * FROM jsonb_each_text(excluded.pairs)) AS added
                      GROUP BY added.key) AS summed)
    RETURNING 1
    """
)
