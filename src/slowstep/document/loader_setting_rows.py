"""The section `loader_settings` of a report as plain data: how the loader that feeds the training was made."""

from __future__ import annotations

from typing import Literal, TypedDict

Said = Literal["finding", "nothing to gain", "not judged", "without effect"]


class LoaderSettingRow(TypedDict):
    """One setting as scripts call it. `default`: its value is what it is where a script says nothing; None where that is unknown.

    `said`: a finding is about it (`rule`, with the `share` of the window that this claims), the rules that look at it found nothing, one of
    them could not judge, or it does nothing here: without workers, or without a device.
    """

    setting: str
    value: int | bool | None
    default: bool | None
    said: Said
    rule: str | None
    share: float | None
