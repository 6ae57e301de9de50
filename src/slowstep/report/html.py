"""The report as a block of HTML, as notebooks show it: the terminal's page, with the stages in their colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slowstep.report.terminal import draw

if TYPE_CHECKING:
    from collections.abc import Mapping


def render_block(report: Mapping[str, Any], *, width: int, verbose: bool = False, prompt: str = "") -> str:
    """A `<pre>` of `width` columns without style sheet or script. It takes the page's own background and text colour.

    `verbose` and `prompt` are those of `draw`.
    """
    return draw(report, width=width, verbose=verbose, prompt=prompt).html()
