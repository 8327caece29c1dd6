"""Describes each message of Kafka once, as data, and makes the functions that read and write it.

    struct(
        LeaveGroupRequest,
        "group_id:string members:only@0-2 members:[]member@3+",
        only=lone(struct(LeavingMember, "member_id:string")),
        member=struct(LeavingMember, "member_id:string reason:string?@5+ ..."),
    )

A field is `name:type`, in the order of Kafka's message definition. `name` is the attribute of the
class. `a+b`: the value is that of both attributes. `-`: the value is not kept. `[]` before a type
makes it an array, `?` after it allows null, and `=3` is the number that is written for `-`. Then
come the versions of the field (`@3+`, `@0-2`, `@4`) and the number of a tagged field (`#0`,
KIP-482). An attribute may have several fields, in different versions. In versions without a field
it has the default of the class, or else 0, an empty value or the zero id. `throttle` is the
throttle time.

Types are bool int8 int16 uint16 int32 int64 float64 uuid string bytes secret records, `error`
(ErrorCode), and types that are given by keyword: other structs, and the special cases at the end of
this module.

For each struct and version, Python source is generated and compiled when it is first needed. It
calls `Reader` and `Writer` as code written by hand would; closures took 1.3 times as long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from struct import Struct as Layout
from typing import Any, NamedTuple

from msgspec import NODEFAULT
from msgspec.structs import fields as fields_of

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.secret import Secret
from groupd.protocol.reader import BadBytes, Reader
from groupd.protocol.writer import Writer

_Function = Callable[..., Any]
_CODES = {int(code): code for code in ErrorCode}
_FIELD = re.compile(
    r"(?:(?P<names>-|[\w+]+):)?(?P<type>(?:\[\])?\w+\??)(?:=(?P<value>-?\d+))?"
    r"(?:@(?P<first>\d+)(?P<more>\+|-(?P<last>\d+))?)?(?:#(?P<tag>\d+))?"
)
_LAST_VERSION = 1 << 15


class _Code:
    """The source of functions for one version. `names`: the objects that it uses, by name."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.names: dict[str, Any] = {}

    def bind(self, value: object) -> str:
        """Returns a name by which the source can use `value`."""
        name = f"x{len(self.names)}"
        self.names[name] = value
        return name

    def function(self, parameters: str, lines: Iterable[str]) -> Any:
        exec("\n ".join([f"def made({parameters}):", *lines]), self.names)
        return self.names["made"]


class Codec(NamedTuple):
    """How a value is encoded.

    `read(code)` returns an expression that reads a value from the Reader `r`. `write(code, value)`
    returns a statement that writes the expression `value` to the Writer `w`. `least(version,
    flexible)`: the fewest bytes of a value. `empty`: the value in versions that lack the field.
    `long`: it is written with stops. `layout`: the layout of a number, else empty. Numbers side by
    side are read and written at once; `kept` then makes an expression of the value from the number.
    `of_whole` computes the value from the struct that has the field.
    """

    read: Callable[[_Code], str]
    write: Callable[[_Code, str], str]
    least: Callable[[int, bool], int]
    empty: Any = None
    long: bool = False
    layout: str = ""
    kept: Callable[[_Code, str], str] | None = None
    of_whole: Callable[[Any], Any] | None = None


class _WireField(NamedTuple):
    """`names` empty: the value is not kept, and `value` is written. `tag` -1: no tagged field."""

    names: tuple[str, ...]
    codec: Codec
    first: int
    last: int
    tag: int
    value: Any


_FieldGroup = tuple[Layout | None, list[tuple[str, _WireField]]]


class Shape:
    """A struct. `made`: its class; `tuple` if its fields are named by index; None if the value is
    only that of its one field that is kept."""

    def __init__(self, made: type | None, fields: tuple[_WireField, ...]) -> None:
        self.made = made
        self.long = any(field.codec.long for field in fields if field.tag < 0)
        self._fields = fields
        self._functions: dict[tuple[str, int, bool, bool], _Function] = {}

    def reading(self, version: int, flexible: bool) -> Callable[[Reader], Any]:
        """Returns a function that reads the fields of a version, without the end of the struct.
        That function raises READ_ERRORS."""
        return self._function("r", version, flexible, False)

    def writing(self, version: int, flexible: bool) -> Callable[[Writer, Any], Any]:
        """Returns a function that writes the fields of a version, without the struct's end. If the
        struct is `long`, it is a generator function that yields where other work may run."""
        return self._function("w, v", version, flexible, False)

    def codec(self, *, ends: bool = True) -> Codec:
        """The codec of the struct as a field. Without `ends` the end of the struct is neither read
        nor written, as if its fields were those of the struct around it."""

        def read(code: _Code) -> str:
            made = self._function("r", code.version, code.flexible, ends)
            return f"{code.bind(made)}(r)"

        def write(code: _Code, value: str) -> str:
            made = self._function("w, v", code.version, code.flexible, ends)
            return f"{'yield from ' * self.long}{code.bind(made)}(w, {value})"

        def least(version: int, flexible: bool) -> int:
            sizes = [field.codec.least(version, flexible) for field in self._of(version)]
            return sum(sizes) + (flexible and ends)

        return Codec(read, write, least, long=self.long)

    def _of(self, version: int, *, tagged: bool = False) -> list[_WireField]:
        fields = [field for field in self._fields if field.first <= version <= field.last]
        return [field for field in fields if (field.tag >= 0) == tagged]

    def _groups(self, version: int) -> list[_FieldGroup]:
        """Splits the fields into groups: numbers side by side, with their common layout, and other
        fields. Each field gets a variable name."""
        found: list[_FieldGroup] = []
        numbered = enumerate(self._of(version))
        for fixed, group in groupby(numbered, lambda one: one[1].codec.layout != ""):
            some = [(f"v{index}", field) for index, field in group]
            layouts = "".join([field.codec.layout for _, field in some])
            found.append((Layout(f">{layouts}") if fixed else None, some))
        return found

    def _function(self, parameters: str, version: int, flexible: bool, ends: bool) -> _Function:
        key = (parameters, version, flexible, ends)
        if key not in self._functions:
            make = self._reading if parameters == "r" else self._writing
            code = _Code(version, flexible)
            self._functions[key] = code.function(parameters, make(code, ends and flexible))
        return self._functions[key]

    def _reading(self, code: _Code, ends: bool) -> list[str]:
        lines: list[str] = []
        end = ["if r.data[r.at]: r.end()", "else: r.at += 1"]
        values: dict[str, str] = {}
        tagged = [field for field in self._of(code.version, tagged=True) if field.names]
        groups = self._groups(code.version)
        for layout, some in groups:
            if layout:
                names = ", ".join([name for name, _ in some])
                if ends and not tagged and some is groups[-1][1]:
                    # Most structs have no tagged fields, so their number is read along with these.
                    layout, names = Layout(f"{layout.format}B"), f"{names}, end"
                    end = ["if end:", " r.at -= 1", " r.end()"]
                lines.append(f"{names}, = {code.bind(layout.unpack_from)}(r.data, r.at)")
                lines.append(f"r.at += {layout.size}")
            else:
                lines += [f"{name} = {field.codec.read(code)}" for name, field in some]
            for name, field in some:
                kept = field.codec.kept
                values |= dict.fromkeys(field.names, kept(code, name) if kept else name)
        if tagged:
            lines.append("tags = r.tagged_fields()")
        for field in tagged:
            name, inner = field.names[0], _Code(code.version, code.flexible)
            read = code.bind(inner.function("r", [f"return {field.codec.read(inner)}"]))
            values[name] = f"{code.bind(_tag_value)}(r, tags[{field.tag}], {read})"
            values[name] += f" if {field.tag} in tags else {self._default(code, name)}"
        return [*lines, *(end if ends else ()), f"return {self._made(code, values)}"]

    def _made(self, code: _Code, values: Mapping[str, str]) -> str:
        """Returns an expression that makes the struct. `values`: expressions by attribute."""
        if self.made is None:
            return next(iter(values.values()))
        names = sorted({name for field in self._fields for name in field.names})
        if self.made is not tuple:
            names = list(self.made.__match_args__)  # type: ignore[attr-defined]
        parts = ", ".join([values.get(name) or self._default(code, name) for name in names])
        return f"({parts},)" if self.made is tuple else f"{code.bind(self.made)}({parts})"

    def _default(self, code: _Code, name: str) -> str:
        """Returns an expression for the value of an attribute in versions that lack it."""
        if self.made not in (None, tuple):
            for field in fields_of(self.made):
                if field.name == name and field.default is not NODEFAULT:
                    return code.bind(field.default)
        return code.bind(next(field.codec.empty for field in self._fields if name in field.names))

    def _writing(self, code: _Code, ends: bool) -> list[str]:
        lines = ["if False: yield"] if self.long else ["pass"]
        for layout, some in self._groups(code.version):
            if layout:
                values = ", ".join([self._value(code, field) for _, field in some])
                lines.append(f"w.buffer += {code.bind(layout.pack)}({values})")
            else:
                lines += [field.codec.write(code, self._value(code, field)) for _, field in some]
        for field in self._of(code.version, tagged=True):
            inner = _Code(code.version, code.flexible)
            write = inner.function("w, value", [field.codec.write(inner, "value")])
            payload = f"{code.bind(_tag_payload)}({code.version}, {code.bind(write)}, value)"
            lines.append(f"value = {self._value(code, field)}")
            default = self._default(code, field.names[0]) if field.names else code.bind(field.value)
            lines.append(f"if value != {default}: w.tagged_field({field.tag}, {payload})")
        return [*lines, "w.end()"] if ends else lines

    def _value(self, code: _Code, field: _WireField) -> str:
        """Returns an expression for the value that is written for a field."""
        if field.codec is _PLAIN["throttle"]:
            return "w.throttle_ms"
        if field.codec.of_whole:
            return f"{code.bind(field.codec.of_whole)}(v)"
        if not field.names:
            return code.bind(field.value)
        if self.made is None:
            return "v"
        return f"v[{field.names[0]}]" if self.made is tuple else f"v.{field.names[0]}"


def _tag_value(reader: Reader, payload: bytes, read: Callable[[Reader], Any]) -> Any:
    inner = Reader(payload, 0, reader.version, True, reader.max_items - reader.items)
    value = read(inner)
    reader.count(inner.items)
    return value


def _tag_payload(version: int, write: Callable[[Writer, Any], Any], value: Any) -> bytes:
    writer = Writer(True, version)
    for _ in write(writer, value) or ():
        pass
    return bytes(writer.buffer)


def _sized(read: str, write: str, sizes: tuple[int, int], empty: Any) -> Codec:
    """The codec of a value that Reader and Writer have methods for. `sizes`: its fewest bytes in
    the older and in the flexible encoding."""
    return Codec(
        lambda code: f"r.{read}()",
        lambda code, value: f"w.{write}({value})",
        lambda version, flexible: sizes[flexible],
        empty,
    )


def _number(layout: str, method: str, empty: Any = 0) -> Codec:
    size = Layout(f">{layout}").size
    return _sized(method, method, (size, size), empty)._replace(layout=layout)


def _error(code: _Code, number: str) -> str:
    # A newer broker may send codes that are not known here.
    return f"{code.bind(_CODES.get)}({number}, {code.bind(ErrorCode.UNKNOWN_SERVER_ERROR)})"


_PLAIN: Mapping[str, Codec] = {
    "throttle": _number("i", "int32"),
    "bool": _number("?", "boolean", False),
    "int8": _number("b", "int8"),
    "int16": _number("h", "int16"),
    "uint16": _number("H", "uint16"),
    "int32": _number("i", "int32"),
    "int64": _number("q", "int64"),
    "float64": _number("d", "float64", 0.0),
    "error": _number("h", "int16", ErrorCode.NONE)._replace(
        read=lambda code: _error(code, "r.int16()"), kept=_error
    ),
    "uuid": _sized("uuid", "uuid", (16, 16), NO_TOPIC_ID),
    "string": _sized("string", "string", (2, 1), ""),
    "string?": _sized("nullable_string", "nullable_string", (2, 1), None),
    "bytes": _sized("bytes_", "bytes_", (4, 1), b""),
    "bytes?": _sized("nullable_bytes", "nullable_bytes", (4, 1), None),
    "secret": _sized("secret", "bytes_", (4, 1), Secret()),
    "records": _sized("nullable_bytes", "records", (4, 1), b""),
    "[]int32": _sized("int32_array", "int32_array", (4, 1), ()),
}


def struct(made: type | None, fields: str, **types: Codec | Shape) -> Shape:
    """Describes a struct (see the module). `made`: as in `Shape`. `types`: the types that `fields`
    names in addition to the plain ones."""
    return Shape(made, tuple([_field(field, types) for field in fields.split()]))


def converted(
    of: Codec | Shape | str,
    read: Callable[[Any], Any] | None = None,
    write: Callable[[Any], Any] | None = None,
) -> Codec:
    """A value that has type `of` on the wire. `read` converts it after reading, `write` converts it
    back before writing."""
    codec = _type(of, {})

    def read_value(code: _Code) -> str:
        value = codec.read(code)
        return f"{code.bind(read)}({value})" if read else value

    def write_value(code: _Code, value: str) -> str:
        return codec.write(code, f"{code.bind(write)}({value})" if write else value)

    return codec._replace(read=read_value, write=write_value, layout="", kept=None)


def of_whole(of: Codec | Shape | str, make: Callable[[Any], Any]) -> Codec:
    """A value that is no attribute: to write it, `make` computes it from the struct around it."""
    return _type(of, {})._replace(of_whole=make)


def lone(of: Codec | Shape | str) -> Codec:
    """A single value where other versions have an array. A struct has no end of its own there."""
    codec = of.codec(ends=False) if isinstance(of, Shape) else of
    return converted(codec, lambda value: (value,), itemgetter(0))


def absent(value: Any) -> Codec:
    """Takes no bytes on the wire. The attribute has `value` in versions that lack it."""
    return Codec(lambda code: code.bind(value), lambda code, value: "pass", lambda *_: 0, value)


def array(of: Codec | Shape | str, *, nullable: bool = False) -> Codec:
    item = _type(of, {})

    def read(code: _Code) -> str:
        inner = _Code(code.version, code.flexible)
        null = "return None" if nullable else f"raise {inner.bind(BadBytes)}('null array')"
        lines = (
            f"length = r.array_length({item.least(code.version, code.flexible)})",
            f"if length < 0: {null}",
            f"return tuple([{item.read(inner)} for _ in range(length)])",
        )
        return f"{code.bind(inner.function('r', lines))}(r)"

    def write(code: _Code, value: str) -> str:
        inner = _Code(code.version, code.flexible)
        lines = ["if items is None: return w.null_array()"] if nullable else []
        lines += ["w.array_length(len(items))", "for item in items:", " if w.due(): yield"]
        lines.append(f" {item.write(inner, 'item')}")
        return f"yield from {code.bind(inner.function('w, items', lines))}(w, {value})"

    return Codec(read, write, lambda version, flexible: 1 if flexible else 4, (), long=True)


def _nullable(of: Shape) -> Codec:
    """A struct or None. The byte before it says which (KIP-893)."""
    item = of.codec()

    def write(code: _Code, value: str) -> str:
        inner = _Code(code.version, code.flexible)
        lines = ("if item is None: return w.int8(-1)", "w.int8(1)", item.write(inner, "item"))
        made = code.bind(inner.function("w, item", lines))
        return f"{'yield from ' * item.long}{made}(w, {value})"

    def read(code: _Code) -> str:
        return f"({item.read(code)} if r.int8() >= 0 else None)"

    return Codec(read, write, lambda *_: 1, long=item.long)


def _type(of: Codec | Shape | str, types: Mapping[str, Codec | Shape]) -> Codec:
    if isinstance(of, Shape):
        return of.codec()
    if isinstance(of, Codec):
        return of
    if of in _PLAIN:
        return _PLAIN[of]
    name = of.removeprefix("[]").removesuffix("?")
    found = types.get(name) or _PLAIN[name]
    if of.startswith("[]"):
        return array(found, nullable=of.endswith("?"))
    if of.endswith("?") and isinstance(found, Shape):
        return _nullable(found)
    return _type(found, types)


def _field(text: str, types: Mapping[str, Codec | Shape]) -> _WireField:
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError(f"{text} is not a field")
    codec = _type(match["type"], types)
    first = int(match["first"] or 0)
    last = int(match["last"] or (first if match["first"] and not match["more"] else _LAST_VERSION))
    names = () if match["names"] in (None, "-") else tuple(match["names"].split("+"))
    value = codec.empty if match["value"] is None else int(match["value"])
    return _WireField(names, codec, first, last, int(match["tag"] or -1), value)
