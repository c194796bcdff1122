"""Where a store is: the path of a SQLite file, or the URL of a PostgreSQL database."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

from lanekit.errors import StoreError

_URL = re.compile(
    r"postgres(?:ql)?://"
    r"(?:(?P<user>[^:@/]*)(?::(?P<password>[^@/]*))?@)?"
    r"(?P<place>[^@?]*)(?:\?(?P<query>[^@]*))?",
    re.DOTALL,
)
_SECRET = "***"


class PostgresAddress:
    """The URL of a database. Shown or logged it has no password."""

    def __init__(self, url: str) -> None:
        found = _URL.fullmatch(url)
        if found is None:
            # Which part of it is the password nobody knows, so none of it is shown.
            raise StoreError(
                "the store's URL is not of the form postgresql://USER:PASSWORD@HOST/DATABASE; in a"
                " name or a password write %40 for @, %3A for :, %2F for / and %3F for ?"
            )
        self.url = url
        """As it was given, password and all: for the connection only."""
        user, place = found["user"], found["place"]
        self._shown = f"postgresql://{user}@{place}" if user else f"postgresql://{place}"
        given = [found["password"] or ""]
        for setting in (found["query"] or "").split("&"):
            name, _, value = setting.partition("=")
            if "password" in unquote(name).lower():
                given.append(value)
        self._secrets = {form for secret in given if secret for form in (secret, unquote(secret))}

    def hide(self, text: str) -> str:
        """The text without any password of this address."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, _SECRET)
        return text

    def __str__(self) -> str:
        return self._shown

    def __repr__(self) -> str:
        return f"PostgresAddress({self._shown!r})"


StoreAddress: TypeAlias = str | os.PathLike[str] | PostgresAddress
"""A path, or a URL."""


def parse_store(given: StoreAddress) -> Path | PostgresAddress:
    """Tell a database's URL from a file's path."""
    if isinstance(given, PostgresAddress):
        return given
    text = os.fspath(given)
    if text.startswith(("postgresql:", "postgres:")):
        return PostgresAddress(text)
    return Path(text)
