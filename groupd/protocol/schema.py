"""Describes each message of Kafka, and each value of a coordinator record, once, as data, and makes
the functions that read and write it.

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
from typing import Any, NamedTuple, TypeVar

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields as fields_of

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.secret import Secret
from groupd.protocol.reader import BadBytes, Reader
from groupd.protocol.writer import Writer

_Function = Callable[..., Any]
F = TypeVar("F")
_CODES = {int(code): code for code in ErrorCode}
_FIELD = re.compile(
    r"(?:(?P<names>-|[\w+]+):)?(?P<type>(?:\[\])?\w+\??)(?:=(?P<value>-?\d+))?"
    r"(?:@(?P<first>\d+)(?P<more>\+|-(?P<last>\d+))?)?(?:#(?P<tag>\d+))?"
)
_LAST_VERSION = 1 << 15


class Code:
    """The source of functions for one version. `names`: the objects that it uses, by name.
    `stops`: whether functions that write arrays are generators, which yield where other work may
    run."""

    def __init__(self, version: int, flexible: bool, stops: bool = True) -> None:
        self.version = version
        self.flexible = flexible
        self.stops = stops
        self.names: dict[str, Any] = {}

    def inner(self, *, stops: bool = True) -> Code:
        """Returns new source for the same version."""
        return Code(self.version, self.flexible, self.stops and stops)

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
    `long`: it is written with stops. `layout`: the layout of a number or id, else empty. Such
    fields side by side are read and written at once; `kept` then makes an expression of the value
    from what was read. `of_whole` computes the value from the struct that has the field.
    `inline(code, name)` returns statements that do the same as `read`, into the variable `name`,
    with fewer calls.
    """

    read: Callable[[Code], str]
    write: Callable[[Code, str], str]
    least: Callable[[int, bool], int]
    empty: Any = None
    long: bool = False
    layout: str = ""
    kept: Callable[[Code, str], str] | None = None
    of_whole: Callable[[Any], Any] | None = None
    inline: Callable[[Code, str], list[str]] | None = None


class _WireField(NamedTuple):
    """`names` empty: the value is not kept, and `value` is written. `tag` -1: no tagged field."""

    names: tuple[str, ...]
    codec: Codec
    first: int
    last: int
    tag: int
    value: Any


_FieldGroup = tuple[Layout | None, list[tuple[str, _WireField]]]


class ByVersion(dict[int, F]):
    """Functions by version. `make(version)` makes one when it is first needed."""

    def __init__(self, make: Callable[[int], F]) -> None:
        self._make = make

    def __missing__(self, version: int) -> F:
        made = self[version] = self._make(version)
        return made


class Shape:
    """A struct. `made`: its class; `tuple` if its fields are named by index; None if the value is
    only that of its one field that is kept."""

    def __init__(self, made: type | None, fields: tuple[_WireField, ...]) -> None:
        self.made = made
        self.long = any(field.codec.long for field in fields if field.tag < 0)
        self._fields = fields
        self._functions: dict[tuple[str, int, bool, bool, bool], _Function] = {}

    def reading(
        self, version: int, flexible: bool, *, ends: bool = False
    ) -> Callable[[Reader], Any]:
        """Returns a function that reads the fields of a version, and the end of the struct if
        `ends`. That function raises READ_ERRORS."""
        return self._function("r", Code(version, flexible), ends)

    def writing(
        self, version: int, flexible: bool, *, stops: bool = True, ends: bool = False
    ) -> Callable[[Writer, Any], Any]:
        """Returns a function that writes the fields of a version, and the end of the struct if
        `ends`. With `stops`, if the struct is `long`, it is a generator function that yields where
        other work may run."""
        return self._function("w, v", Code(version, flexible, stops), ends)

    def codec(self, *, ends: bool = True) -> Codec:
        """The codec of the struct as a field. Without `ends` the end of the struct is neither read
        nor written, as if its fields were those of the struct around it."""

        def read(code: Code) -> str:
            return f"{code.bind(self._function('r', code, ends))}(r)"

        def write(code: Code, value: str) -> str:
            made = self._function("w, v", code, ends)
            return f"{_waiting(code, self.long)}{code.bind(made)}(w, {value})"

        def least(version: int, flexible: bool) -> int:
            sizes = [field.codec.least(version, flexible) for field in self._of(version)]
            return sum(sizes) + (flexible and ends)

        return Codec(read, write, least, long=self.long)

    def _of(self, version: int, *, tagged: bool = False) -> list[_WireField]:
        fields = [field for field in self._fields if field.first <= version <= field.last]
        return [field for field in fields if (field.tag >= 0) == tagged]

    def _groups(self, version: int) -> list[_FieldGroup]:
        """Splits the fields into groups: numbers and ids side by side, with their common layout,
        and other fields. Each field gets a variable name."""
        found: list[_FieldGroup] = []
        numbered = enumerate(self._of(version))
        for fixed, group in groupby(numbered, lambda one: one[1].codec.layout != ""):
            some = [(f"v{index}", field) for index, field in group]
            layouts = "".join([field.codec.layout for _, field in some])
            found.append((Layout(f">{layouts}") if fixed else None, some))
        return found

    def _function(self, parameters: str, of: Code, ends: bool) -> _Function:
        """Returns the function for the version that `of` is for. It has source of its own."""
        key = (parameters, of.version, of.flexible, of.stops, ends)
        if key not in self._functions:
            make = self._reading if parameters == "r" else self._writing
            code = of.inner()
            self._functions[key] = code.function(parameters, make(code, ends and of.flexible))
        return self._functions[key]

    def _reading(self, code: Code, ends: bool) -> list[str]:
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
                for name, field in some:
                    inline, value = field.codec.inline, field.codec.read(code)
                    lines += inline(code, name) if inline else [f"{name} = {value}"]
            for name, field in some:
                kept = field.codec.kept
                value = kept(code, name) if kept else name
                if kept and not field.names:
                    lines.append(value)  # a conversion may check a value that nobody keeps
                values |= dict.fromkeys(field.names, value)
        if tagged:
            lines.append("tags = r.tagged_fields()")
        for field in tagged:
            name, read = field.names[0], _reading_tag(code, field)
            values[name] = f"{read} if {field.tag} in tags else {self._default(code, name)}"
        return [*lines, *(end if ends else ()), f"return {self._made(code, values)}"]

    def _made(self, code: Code, values: Mapping[str, str]) -> str:
        """Returns an expression that makes the struct. `values`: expressions by attribute."""
        if self.made is None:
            return next(iter(values.values()))
        names = sorted({name for field in self._fields for name in field.names})
        if self.made is not tuple:
            names = list(self.made.__match_args__)  # type: ignore[attr-defined]
        parts = ", ".join([values.get(name) or self._default(code, name) for name in names])
        return f"({parts},)" if self.made is tuple else f"{code.bind(self.made)}({parts})"

    def _default(self, code: Code, name: str) -> str:
        """Returns an expression for the value of an attribute in versions that lack it."""
        defaults = _defaults(self.made)
        if name in defaults:
            return code.bind(defaults[name])
        return code.bind(next(field.codec.empty for field in self._fields if name in field.names))

    def _writing(self, code: Code, ends: bool) -> list[str]:
        lines = ["if False: yield"] if self.long and code.stops else ["pass"]
        for layout, some in self._groups(code.version):
            if layout:
                values = ", ".join([self._value(code, field) for _, field in some])
                lines.append(f"w.buffer += {code.bind(layout.pack)}({values})")
            else:
                lines += [field.codec.write(code, self._value(code, field)) for _, field in some]
        tagged = self._of(code.version, tagged=True)
        for field in tagged:
            payload = _tag_payload(code, field.codec)
            lines.append(f"value = {self._value(code, field)}")
            default = self._default(code, field.names[0]) if field.names else code.bind(field.value)
            lines.append(f"if value != {default}: w.tagged_field({field.tag}, {payload})")
        end = "w.end()" if tagged else "w.buffer.append(0)"
        return [*lines, end] if ends else lines

    def _value(self, code: Code, field: _WireField) -> str:
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


def _waiting(code: Code, long: bool) -> str:
    """What stands before the call of a function that writes a value. `long`: see `Codec`."""
    return "yield from " if long and code.stops else ""


def _defaults(made: type | None) -> Mapping[str, Any]:
    """The defaults of a class, by attribute."""
    if made is not None and issubclass(made, Struct):
        return {one.name: one.default for one in fields_of(made) if one.default is not NODEFAULT}
    return getattr(made, "_field_defaults", {})


def _reading_tag(code: Code, field: _WireField) -> str:
    """Returns an expression that reads the value of a tagged field from its payload in `tags`."""
    payload, codec, inner = f"tags[{field.tag}]", field.codec, code.inner()
    if codec.layout:
        number = f"{code.bind(Layout(f'>{codec.layout}').unpack)}({payload})[0]"
        return codec.kept(code, number) if codec.kept else number
    read = inner.function("r", [f"return {codec.read(inner)}"])
    return f"{code.bind(_tag_value)}(r, {payload}, {code.bind(read)})"


def _tag_value(reader: Reader, payload: bytes, read: Callable[[Reader], Any]) -> Any:
    inner = Reader(payload, 0, reader.version, True, reader.max_items - reader.items)
    value = read(inner)
    inner.finish()
    reader.count(inner.items)
    return value


def _tag_payload(code: Code, codec: Codec) -> str:
    """Returns an expression that encodes `value` as the payload of a tagged field."""
    if codec.layout:
        return f"{code.bind(Layout(f'>{codec.layout}').pack)}(value)"
    inner = code.inner(stops=False)
    start = f"w = {inner.bind(Writer)}(True)"
    lines = (start, codec.write(inner, "value"), "return bytes(w.buffer)")
    return f"{code.bind(inner.function('value', lines))}(value)"


def _short(codec: Codec, decode: str = "") -> Codec:
    """The same codec of strings or bytes with fewer calls: in the flexible encoding their length
    mostly takes one byte, 1 to 127. `decode`: what follows the expression of the bytes."""

    def inline(code: Code, name: str) -> list[str]:
        read = f"{name} = {codec.read(code)}"
        if not code.flexible:
            return [read]
        short = f"{name} = r.data[at + 1 : end]{decode}"
        return [
            "at = r.at",
            "end = at + r.data[at]",
            f"if at < end <= len(r.data) and end - at < 128: {short}",
            f"else: {read}; end = r.at",
            "r.at = end",
        ]

    return codec._replace(inline=inline)


def _write_nullable_string(code: Code, value: str) -> str:
    write = f"w.nullable_string({value})"
    return f"w.buffer.append(0) if {value} is None else {write}" if code.flexible else write


def _int32_array(code: Code, name: str) -> list[str]:
    null = f"raise {code.bind(BadBytes)}('null array')"
    return [f"{name} = r.nullable_int32_array()", f"if {name} is None: {null}"]


def sized(read: str, write: str, sizes: tuple[int, int], empty: Any) -> Codec:
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
    return sized(method, method, (size, size), empty)._replace(layout=layout)


def _error(code: Code, number: str) -> str:
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
    "uuid": _number("16s", "uuid", NO_TOPIC_ID),
    "string": _short(sized("string", "string", (2, 1), ""), ".decode()"),
    "string?": _short(
        sized("nullable_string", "nullable_string", (2, 1), None), ".decode()"
    )._replace(write=_write_nullable_string),
    "bytes": _short(sized("bytes_", "bytes_", (4, 1), b"")),
    "bytes?": sized("nullable_bytes", "nullable_bytes", (4, 1), None),
    "secret": sized("secret", "bytes_", (4, 1), Secret()),
    "records": sized("nullable_bytes", "records", (4, 1), b""),
    "[]int32": sized("int32_array", "int32_array", (4, 1), ())._replace(inline=_int32_array),
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

    def made(code: Code, value: str) -> str:
        return f"{code.bind(read)}({value})" if read else value

    def read_value(code: Code) -> str:
        return made(code, codec.read(code))

    def write_value(code: Code, value: str) -> str:
        return codec.write(code, f"{code.bind(write)}({value})" if write else value)

    if not codec.layout or write:
        return codec._replace(read=read_value, write=write_value, layout="", kept=None, inline=None)

    def kept(code: Code, number: str) -> str:
        return made(code, codec.kept(code, number) if codec.kept else number)

    return codec._replace(read=read_value, kept=kept)


def of_whole(of: Codec | Shape | str, make: Callable[[Any], Any]) -> Codec:
    """A value that is no attribute: to write it, `make` computes it from the struct around it."""
    return _type(of, {})._replace(of_whole=make)


def lone(of: Codec | Shape | str) -> Codec:
    """A single value where other versions have an array. A struct has no end of its own there."""
    codec = of.codec(ends=False) if isinstance(of, Shape) else _type(of, {})
    one = converted(codec, write=itemgetter(0))
    return one._replace(read=lambda code: f"({codec.read(code)},)", kept=None)


def absent(value: Any) -> Codec:
    """Takes no bytes on the wire. The attribute has `value` in versions that lack it."""
    return Codec(lambda code: code.bind(value), lambda code, value: "pass", lambda *_: 0, value)


def array(of: Codec | Shape | str, *, nullable: bool = False) -> Codec:
    item = _type(of, {})

    def inline(code: Code, name: str) -> list[str]:
        null = f"{name} = None" if nullable else f"raise {code.bind(BadBytes)}('null array')"
        one = item.read(code)
        return [
            f"length = r.array_length({item.least(code.version, code.flexible)})",
            f"if length == 1: {name} = ({one},)",  # the usual case, without a loop
            f"elif not length: {name} = ()",
            f"elif length < 0: {null}",
            f"else: {name} = tuple([{one} for _ in range(length)])",
        ]

    def read(code: Code) -> str:
        inner = code.inner()
        return f"{code.bind(inner.function('r', [*inline(inner, 'v'), 'return v']))}(r)"

    def write(code: Code, value: str) -> str:
        inner = code.inner()
        lines = ["if items is None: return w.null_array()"] if nullable else []
        length = "w.array_length(len(items))"
        if code.flexible:  # most lengths take one byte, which is written without a call
            length = f"w.buffer.append(len(items) + 1) if len(items) < 0x7F else {length}"
        lines += [length, "for item in items:"]
        lines += [" if w.due(): yield"] if code.stops else []
        lines.append(f" {item.write(inner, 'item')}")
        made = code.bind(inner.function("w, items", lines))
        return f"{_waiting(code, True)}{made}(w, {value})"

    least = (4, 1)
    return Codec(read, write, lambda version, flexible: least[flexible], (), True, inline=inline)


def _nullable(of: Shape, tagged: bool) -> Codec:
    """A struct or None. The byte before it says which: for None it is negative (KIP-893), in a
    tagged field 0."""
    item = of.codec()
    present = "r.present()" if tagged else "r.int8() >= 0"

    def write(code: Code, value: str) -> str:
        inner = code.inner()
        null = f"if item is None: return w.int8({0 if tagged else -1})"
        made = inner.function("w, item", (null, "w.int8(1)", item.write(inner, "item")))
        return f"{_waiting(code, item.long)}{code.bind(made)}(w, {value})"

    def read(code: Code) -> str:
        return f"({item.read(code)} if {present} else None)"

    return Codec(read, write, lambda *_: 1, long=item.long)


def _type(
    of: Codec | Shape | str, types: Mapping[str, Codec | Shape], *, tagged: bool = False
) -> Codec:
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
        return _nullable(found, tagged)
    return _type(found, types)


def _field(text: str, types: Mapping[str, Codec | Shape]) -> _WireField:
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError(f"{text} is not a field")
    codec = _type(match["type"], types, tagged=match["tag"] is not None)
    first = int(match["first"] or 0)
    last = int(match["last"] or (first if match["first"] and not match["more"] else _LAST_VERSION))
    names = () if match["names"] in (None, "-") else tuple(match["names"].split("+"))
    value = codec.empty if match["value"] is None else int(match["value"])
    return _WireField(names, codec, first, last, int(match["tag"] or -1), value)
