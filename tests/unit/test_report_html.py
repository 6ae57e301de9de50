from __future__ import annotations

import re
from html import unescape

from slowstep.report.html import render_block
from slowstep.report.terminal import render


def test_the_block_says_what_the_terminal_says_in_colours(bottleneck):
    block = render_block(bottleneck, width=100)

    text = unescape(re.sub(r"<[^>]+>", "", block))
    assert text.rstrip() == render(bottleneck, width=100, color=False).rstrip()
    assert block.startswith("<pre ")
    assert block.endswith("</pre>")
    assert re.search(r"color: #[0-9a-f]{6}", block)


def test_markup_in_a_name_is_text(bottleneck):
    bottleneck["run"]["name"] = "<b>"

    block = render_block(bottleneck, width=100)

    assert "<b>" not in block
    assert "&lt;b&gt;" in block
