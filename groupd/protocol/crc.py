"""CRC-32C from the package `crc32c`, without loading the rest of that package.

On import the package looks up its own version: it loads Python's e-mail parser to read the metadata
of installed packages. It also loads a command line. Together that takes a fifteenth of a daemon's
start. The function itself is in an extension module. That module is loaded alone if it is where it
used to be, else the whole package is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader, PathFinder
from importlib.util import find_spec, module_from_spec

Checksum = Callable[[bytes | memoryview], int]

_EXTENSION = "crc32c._crc32c"


def _extension() -> Checksum | None:
    package = find_spec("crc32c")
    if package is None or package.submodule_search_locations is None:
        return None
    spec = PathFinder.find_spec(_EXTENSION, package.submodule_search_locations)
    if spec is None or not isinstance(spec.loader, ExtensionFileLoader):
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Checksum | None = getattr(module, "crc32c", None)
    return found


def _whole() -> Checksum:
    import crc32c as package

    found: Checksum = package.crc32c
    return found


crc32c: Checksum = _extension() or _whole()
