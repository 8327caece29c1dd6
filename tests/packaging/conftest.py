"""Wheel and source distribution are built once."""

from __future__ import annotations

import pytest

from tests.support.distributions import Distributions


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    return Distributions(tmp_path_factory.mktemp("checkout"))
