# SPDX-License-Identifier: Apache-2.0
"""Tables for notebooks."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MOST_ROWS = 200


class Raw(str):
    """HTML that is shown as it is."""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Cells are escaped, unless they are Raw; no more than MOST_ROWS rows."""
    def cells(tag: str, words: Iterable[str]) -> str:
        return "".join(f"<{tag}>{word if isinstance(word, Raw) else escape(word)}</{tag}>" for word in words)
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        caption += f"; {len(rows) - MOST_ROWS} more rows"
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{cells('th', heads)}</tr></thead><tbody>{body}</tbody></table>"


def bars(counts: Sequence[float], width: int = 96, height: int = 20) -> Raw:
    """A histogram as a small picture; heights are square roots of the counts, so that few elements are seen, too."""
    most = max(counts, default=0)
    if not most:
        return Raw("")
    step = width / len(counts)
    drawn = "".join(f'<rect x="{i * step:.1f}" y="{height * (1 - (n / most) ** 0.5):.1f}" width="{step:.1f}" '
                    f'height="{height * (n / most) ** 0.5:.1f}"/>' for i, n in enumerate(counts) if n)
    return Raw(f'<svg width="{width}" height="{height}" fill="currentColor" role="img" aria-label="histogram">{drawn}</svg>')
