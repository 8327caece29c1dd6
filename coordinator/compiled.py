"""Which modules run as machine code: those that a compiled wheel has and that are loaded by now.

docs/compiled.md says how such a wheel is built. Nothing behaves otherwise with it, so nothing but
what is shown to people asks here.
"""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader

_PACKAGE = "groupd"


def compiled_modules() -> list[str]:
    """Names, ascending."""
    return sorted(
        name
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == _PACKAGE
        and isinstance(getattr(module.__spec__, "loader", None), ExtensionFileLoader)
    )
