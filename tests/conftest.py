"""Settings of the whole suite."""

from __future__ import annotations

from hybridjit._core.config import config

# Objects that an earlier run left on disk must not stand in for the code under test.
config.cache_dir = "off"
