"""Runs a module and says how much memory its objects have: `python traced.py OUT MODULE
ARGUMENT...`. At SIGUSR1 it appends the bytes that are in use as a line to OUT."""

from __future__ import annotations

import gc
import runpy
import signal
import sys
import tracemalloc


def main() -> None:
    out, module, *arguments = sys.argv[1:]
    sys.argv[:] = [module, *arguments]

    def note(*_: object) -> None:
        gc.collect()
        with open(out, "a") as file:
            file.write(f"{tracemalloc.get_traced_memory()[0]}\n")

    signal.signal(signal.SIGUSR1, note)
    tracemalloc.start()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
