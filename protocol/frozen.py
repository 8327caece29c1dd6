"""`dataclass` for the many classes that every start of a daemon makes.

The standard one writes and compiles eight functions for a class; for 240 classes that is a sixth
of the daemon's start. This one leaves to it what needs no code (fields, slots, `__match_args__`),
compiles `__init__` alone and shares the rest. For type checkers it is the standard one, and so it
is for everyone else: slotted, frozen or not, equal by fields, fit for `fields` and `replace`.
Fields may have a default or a default factory, nothing else; there are no base classes with fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass

    def slotted(cls: type[T]) -> type[T]: ...
else:
    import dataclasses
    from operator import attrgetter

    def dataclass(*, slots: bool, frozen: bool = False) -> Any:
        """For `slots=True`."""
        assert slots
        return _frozen if frozen else _changeable

    def _frozen(cls: type[Any]) -> type[Any]:
        made = _made(cls, "_set_{0}(self, {1})")  # past `__setattr__`, which refuses
        made.__setattr__ = _refuse_assignment
        made.__delattr__ = _refuse_deletion
        made.__getstate__ = _state
        made.__setstate__ = _restore
        return made

    def _changeable(cls: type[Any]) -> type[Any]:
        made = slotted(cls)
        made.__hash__ = None
        return made

    def slotted(cls: type[Any]) -> type[Any]:
        """Frozen but for that nothing keeps anyone from assigning to a field."""
        return _made(cls, "self.{0} = {1}")

    def _made(cls: type[Any], assignment: str) -> type[Any]:
        doc = cls.__doc__
        cls.__doc__ = "-"  # without any the standard one parses a signature, which takes long
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
        fields = dataclasses.fields(made)
        names = tuple(field.name for field in fields)
        said = ", ".join(f"{field.name}: {field.type}" for field in fields)
        made.__doc__ = doc or f"{made.__name__}({said})"
        made.__init__ = _init(made, fields, assignment)
        made.__eq__, made.__hash__ = _by_fields(names)
        made.__repr__ = _shown
        return made

    def _init(cls: type[Any], fields: tuple[dataclasses.Field[Any], ...], assignment: str) -> Any:
        known: dict[str, Any] = {}
        parameters, lines = ["self"], []
        for field in fields:
            name, default = field.name, field.default
            known[f"_set_{name}"] = cls.__dict__[name].__set__
            value = name
            if field.default_factory is not dataclasses.MISSING:
                known[f"_make_{name}"] = field.default_factory
                default = _made_anew
                value = f"(_make_{name}() if {name} is _default_{name} else {name})"
            lines.append(" " + assignment.format(name, value))
            if default is dataclasses.MISSING:
                parameters.append(name)
            else:
                known[f"_default_{name}"] = default
                parameters.append(f"{name}=_default_{name}")
        head = f"def __init__({', '.join(parameters)}):\n"
        exec(head + ("\n".join(lines) or " pass"), known)
        init = known.pop("__init__")
        init.__annotations__ = {field.name: field.type for field in fields} | {"return": None}
        init.__qualname__ = f"{cls.__qualname__}.__init__"
        init.__module__ = cls.__module__
        return init

    class _MadeAnew:
        def __repr__(self) -> str:
            return "<factory>"

    _made_anew = _MadeAnew()

    def _by_fields(names: tuple[str, ...]) -> tuple[Any, Any]:
        """`__eq__` and `__hash__`."""
        values = attrgetter(*names) if names else len

        def equal(self: Any, other: object) -> Any:
            if other.__class__ is not self.__class__:
                return NotImplemented
            return not names or values(self) == values(other)

        def hashed(self: Any) -> int:
            return hash(values(self) if names else ())

        return equal, hashed

    def _shown(self: Any) -> str:
        said = (f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
        return f"{type(self).__qualname__}({', '.join(said)})"

    def _refuse_assignment(self: Any, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_deletion(self: Any, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _state(self: Any) -> list[Any]:
        return [getattr(self, name) for name in self.__match_args__]

    def _restore(self: Any, state: list[Any]) -> None:
        for name, value in zip(self.__match_args__, state, strict=True):
            object.__setattr__(self, name, value)


__all__ = ["dataclass", "slotted"]
