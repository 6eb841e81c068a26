"""What was answered, on disk before anybody hears of it: one SQLite file, in the order in which it was learned.

The proxy's state is nothing but these entries applied in their order, so it is not stored: a service that starts
applies them again and has it bit for bit.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

FORMAT = 1

Kind = Literal["verify", "open", "group", "score"]

_TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY,
    kind TEXT NOT NULL, step INTEGER NOT NULL, group_key TEXT NOT NULL, member TEXT NOT NULL,
    digest TEXT NOT NULL, facts TEXT NOT NULL, answer TEXT NOT NULL,
    UNIQUE (kind, step, group_key, member)
);
"""


_COLUMNS = "kind, step, group_key, member, digest, facts, answer"


class Key(NamedTuple):
    """What is answered once."""

    kind: Kind
    step: int
    group: str = ""
    member: str = ""


class Entry(NamedTuple):
    """One answer and what led to it."""

    key: Key
    digest: str
    """Of the request: the same key with another digest is another question."""
    facts: Mapping[str, Any]
    """Plain data that the state learns from."""
    answer: str
    """The JSON that was sent."""


class JournalError(RuntimeError):
    """The journal cannot be read or written, or is another service's."""


class Journal:
    """The entries of one service. Each thread that uses it has a connection of its own.

    Args:
        path: the file; made if it is not there.

    Raises:
        JournalError: if it is no journal, or of another format.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        try:
            with self._connection as connection:
                connection.executescript(_TABLES)
            found = self.recall("format")
            if found is None:
                self.append((), {"format": FORMAT})
        except sqlite3.Error as error:
            raise JournalError(
                f"'{path}' cannot be opened as a journal: {error}\n"
                "  name another folder in `state`, or put the file back from a copy."
            ) from error
        if found not in (None, FORMAT):
            raise JournalError(
                f"'{path}' has format {found}, this library writes format {FORMAT}: go on with the other version"
            )

    def find(self, key: Key) -> tuple[str, str] | None:
        """Digest and answer of an entry; None if there is none."""
        row = self._connection.execute(
            "SELECT digest, answer FROM entries WHERE kind = ? AND step = ? AND group_key = ? AND member = ?", key
        ).fetchone()
        return None if row is None else (row[0], row[1])

    def append(self, entries: Sequence[Entry], about: Mapping[str, Any] | None = None) -> None:
        """Write entries, and things to `recall`, in one transaction; they are on the disk when it returns.

        Raises:
            sqlite3.Error: if that fails; nothing is written then.
        """
        rows = [(*entry.key, entry.digest, json.dumps(entry.facts), entry.answer) for entry in entries]
        told = [(name, json.dumps(value)) for name, value in (about or {}).items()]
        with self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                f"INSERT INTO entries ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            connection.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", told)

    def recall(self, name: str) -> Any:
        """What was last written under a name; None if nothing was."""
        row = self._connection.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def entries(self) -> Iterator[Entry]:
        """All entries, oldest first."""
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM entries ORDER BY number")
        for kind, step, group, member, digest, facts, answer in rows:
            yield Entry(Key(kind, step, group, member), digest, json.loads(facts), answer)

    def close(self) -> None:
        """Close all connections; no thread may be using one."""
        with self._lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()

    @property
    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            # Transactions are begun by hand. Another thread closes it.
            connection = sqlite3.connect(self.path, timeout=30.0, isolation_level=None, check_same_thread=False)
            with self._lock:
                self._connections.append(connection)
            self._local.connection = connection
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # a commit is on the disk when it returns
        return connection
