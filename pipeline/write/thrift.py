"""Thrift's compact protocol, as far as the footers and page headers of Parquet need it.

What is read is written again byte for byte, also where its fields are not known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

TRUE: Final = 1
FALSE: Final = 2
I16: Final = 4
I32: Final = 5
I64: Final = 6
BINARY: Final = 8
LIST: Final = 9
STRUCT: Final = 12
_BYTE: Final = 3
_DOUBLE: Final = 7
_SHORT_LIST: Final = 15


@dataclass(frozen=True, slots=True)
class Items:
    """A list: the type of its entries, and these."""

    kind: int
    values: list[Value]


@dataclass(frozen=True, slots=True)
class Struct:
    """Fields by their number: type and value of each."""

    fields: dict[int, tuple[int, Value]]

    def put(self, number: int, kind: int, value: Value) -> None:
        """Set a field."""
        self.fields[number] = kind, value

    def number(self, field: int) -> int:
        """A field that is a whole number."""
        value = self.fields[field][1]
        assert isinstance(value, int)
        return value

    def struct(self, field: int) -> Struct:
        """A field that is a struct."""
        value = self.fields[field][1]
        assert isinstance(value, Struct)
        return value

    def structs(self, field: int) -> list[Struct]:
        """A field that is a list of structs."""
        items = self.fields[field][1]
        assert isinstance(items, Items)
        return [value for value in items.values if isinstance(value, Struct)]


Value: TypeAlias = bool | int | bytes | Items | Struct


def decode(data: bytes) -> Struct:
    """The struct that `data` is."""
    return _Reader(data).struct()


def encode(struct: Struct) -> bytes:
    """The bytes of a struct."""
    out = bytearray()
    _put_struct(out, struct)
    return bytes(out)


def varint(number: int) -> bytes:
    """A number from 0, seven bits a byte."""
    out = bytearray()
    _put_varint(out, number)
    return bytes(out)


def zigzag(number: int) -> bytes:
    """A number that may be negative."""
    return varint(_zigzag(number))


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def struct(self) -> Struct:
        fields: dict[int, tuple[int, Value]] = {}
        number = 0
        while head := self._byte():
            kind = head & 15
            number = number + (head >> 4) if head >> 4 else self._signed()
            fields[number] = kind, (kind == TRUE if kind in {TRUE, FALSE} else self._value(kind))
        return Struct(fields)

    def _value(self, kind: int) -> Value:
        if kind == STRUCT:
            return self.struct()
        if kind == BINARY:
            return self._take(self._varint())
        if kind == LIST:
            head = self._byte()
            size = head >> 4 if head >> 4 < _SHORT_LIST else self._varint()
            return Items(head & 15, [self._value(head & 15) for _ in range(size)])
        if kind in {TRUE, FALSE, _BYTE}:  # in lists, booleans are bytes
            return self._byte()
        if kind == _DOUBLE:
            return self._take(8)
        return self._signed()

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def _varint(self) -> int:
        number = shift = 0
        while (byte := self._byte()) > 127:
            number |= (byte & 127) << shift
            shift += 7
        return number | byte << shift

    def _signed(self) -> int:
        number = self._varint()
        return number >> 1 ^ -(number & 1)


def _put_struct(out: bytearray, struct: Struct) -> None:
    before = 0
    for number, (kind, value) in sorted(struct.fields.items()):
        if 0 < number - before <= 15:
            out.append(number - before << 4 | kind)
        else:
            out.append(kind)
            _put_varint(out, _zigzag(number))
        before = number
        if kind not in {TRUE, FALSE}:
            _put_value(out, kind, value)
    out.append(0)


def _put_value(out: bytearray, kind: int, value: Value) -> None:
    if isinstance(value, Struct):
        _put_struct(out, value)
    elif isinstance(value, Items):
        size = len(value.values)
        out.append(min(size, _SHORT_LIST) << 4 | value.kind)
        if size >= _SHORT_LIST:
            _put_varint(out, size)
        for item in value.values:
            _put_value(out, value.kind, item)
    elif isinstance(value, bytes):
        if kind == BINARY:
            _put_varint(out, len(value))
        out += value
    elif kind in {TRUE, FALSE, _BYTE}:
        out.append(value)
    else:
        _put_varint(out, _zigzag(value))


def _put_varint(out: bytearray, number: int) -> None:
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
