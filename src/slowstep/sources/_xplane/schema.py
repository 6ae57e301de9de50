"""The message types of an XPlane file, made at run time, so that neither protoc nor TensorFlow is needed.

Field numbers and types are those of xplane.proto (OpenXLA, tsl/profiler/protobuf). Times: a line begins at `timestamp_ns`, its events at
`offset_ps` after that.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

# Numbers of google.protobuf.FieldDescriptorProto.Type and .Label. Texts are read as bytes: those of a damaged file need not be UTF-8.
_INT64, _UINT64, _DOUBLE, _BYTES, _MESSAGE = 3, 4, 1, 12, 11
_OPTIONAL, _REPEATED = 1, 3

# message -> field -> (number, type, repeated). A type that is a string names a message; maps are written as their entries.
MESSAGES: Final[dict[str, dict[str, tuple[int, int | str, bool]]]] = {
    "XSpace": {"planes": (1, "XPlane", True), "errors": (2, _BYTES, True), "warnings": (3, _BYTES, True), "hostnames": (4, _BYTES, True)},
    "XPlane": {
        "id": (1, _INT64, False),
        "name": (2, _BYTES, False),
        "lines": (3, "XLine", True),
        "event_metadata": (4, "EventName", True),
        "stat_metadata": (5, "StatName", True),
        "stats": (6, "XStat", True),
    },
    "XLine": {
        "id": (1, _INT64, False),
        "name": (2, _BYTES, False),
        "timestamp_ns": (3, _INT64, False),
        "events": (4, "XEvent", True),
        "duration_ps": (9, _INT64, False),
        "display_id": (10, _INT64, False),
        "display_name": (11, _BYTES, False),
    },
    "XEvent": {
        "metadata_id": (1, _INT64, False),
        "offset_ps": (2, _INT64, False),
        "duration_ps": (3, _INT64, False),
        "stats": (4, "XStat", True),
        "num_occurrences": (5, _INT64, False),
    },
    "XStat": {
        "metadata_id": (1, _INT64, False),
        "double_value": (2, _DOUBLE, False),
        "uint64_value": (3, _UINT64, False),
        "int64_value": (4, _INT64, False),
        "str_value": (5, _BYTES, False),
        "bytes_value": (6, _BYTES, False),
        "ref_value": (7, _UINT64, False),
    },
    "XEventMetadata": {
        "id": (1, _INT64, False),
        "name": (2, _BYTES, False),
        "display_name": (4, _BYTES, False),
        "stats": (5, "XStat", True),
    },
    "XStatMetadata": {"id": (1, _INT64, False), "name": (2, _BYTES, False)},
    "EventName": {"key": (1, _INT64, False), "value": (2, "XEventMetadata", False)},
    "StatName": {"key": (1, _INT64, False), "value": (2, "XStatMetadata", False)},
}


@cache
def message_class(name: str) -> Any:
    """The class of one of `MESSAGES`. Raises KeyError for another name."""
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"slowstep.xplane.{name}"))


@cache
def _pool() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool

    file = descriptor_pb2.FileDescriptorProto(name="slowstep/xplane.proto", package="slowstep.xplane", syntax="proto2")
    for message, fields in MESSAGES.items():
        described = file.message_type.add(name=message)
        for field, (number, kind, repeated) in fields.items():
            label = _REPEATED if repeated else _OPTIONAL
            if isinstance(kind, str):
                described.field.add(name=field, number=number, type=_MESSAGE, label=label, type_name=f".slowstep.xplane.{kind}")
            else:
                described.field.add(name=field, number=number, type=kind, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool
