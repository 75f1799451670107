"""The SQLite ledger's schema, as numbered steps: step n leads from version n to n + 1, and no step ever changes.

Documents that change with a step are in `upgrades.py`. The version is SQLite's own `user_version`; `APPLICATION_ID`
marks a file as a ledger.
"""

from __future__ import annotations

APPLICATION_ID = 0x44475748  # "DGWH"

# A moment is three columns, boot, mono and wall. The last column of every index is the rowid, which SQLite adds, so
# that "of this run, after this cursor" is one range of an index. Rows of `fences` and acked items stay for ever: a
# fence may never be granted twice, and an item id never be accepted twice.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE events (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            op_id TEXT NOT NULL, run TEXT NOT NULL, agent TEXT NOT NULL, kind TEXT NOT NULL,
            boot TEXT NOT NULL, mono REAL NOT NULL, wall REAL NOT NULL,
            body TEXT NOT NULL
        ) STRICT
        """,
        "CREATE UNIQUE INDEX events_op_id ON events (op_id) WHERE op_id <> ''",
        "CREATE INDEX events_run ON events (run) WHERE run <> ''",
        "CREATE INDEX events_kind ON events (kind)",
        "CREATE INDEX events_run_kind ON events (run, kind) WHERE run <> ''",
        """
        CREATE TABLE documents (
            key TEXT PRIMARY KEY, revision INTEGER NOT NULL, body TEXT NOT NULL
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE TABLE fences (name TEXT PRIMARY KEY, fence INTEGER NOT NULL) STRICT, WITHOUT ROWID",
        """
        CREATE TABLE leases (
            name TEXT NOT NULL, slot INTEGER NOT NULL, holder TEXT NOT NULL, fence INTEGER NOT NULL,
            renewed_boot TEXT NOT NULL, renewed_mono REAL NOT NULL, renewed_wall REAL NOT NULL,
            expires_boot TEXT NOT NULL, expires_mono REAL NOT NULL, expires_wall REAL NOT NULL,
            PRIMARY KEY (name, slot)
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE items (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            queue TEXT NOT NULL, id TEXT NOT NULL, state TEXT NOT NULL,
            holder TEXT NOT NULL, fence INTEGER NOT NULL,
            pushed_boot TEXT NOT NULL, pushed_mono REAL NOT NULL, pushed_wall REAL NOT NULL,
            ttl_boot TEXT, ttl_mono REAL, ttl_wall REAL,
            claim_boot TEXT, claim_mono REAL, claim_wall REAL,
            body TEXT NOT NULL,
            UNIQUE (queue, id)
        ) STRICT
        """,
        "CREATE INDEX items_open ON items (queue) WHERE state = 'open'",
    ),
    # Holders on other hosts, whose clocks say nothing here; the archive; and the ledger's own facts: its id, where it
    # was moved to.
    (
        "ALTER TABLE leases ADD COLUMN host TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE leases ADD COLUMN expires_server REAL NOT NULL DEFAULT 0",
        "ALTER TABLE items ADD COLUMN host TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE items ADD COLUMN ttl_server REAL NOT NULL DEFAULT 0",
        "ALTER TABLE items ADD COLUMN claim_host TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE items ADD COLUMN claim_server REAL NOT NULL DEFAULT 0",
        "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
        "INSERT INTO facts (name, value) VALUES ('id', lower(hex(randomblob(8))))",
        """
        CREATE TABLE archives (
            n INTEGER PRIMARY KEY AUTOINCREMENT,
            last_pos INTEGER NOT NULL, last_seq INTEGER NOT NULL, events INTEGER NOT NULL, data BLOB NOT NULL
        ) STRICT
        """,
        """
        CREATE TABLE archive_index (
            run TEXT NOT NULL, kind TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (run, kind, n)
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX archive_kinds ON archive_index (kind, n)",
        "CREATE TABLE archived_op_ids (op_id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID",
    ),
    # The tables are the same; the documents are not: see `upgrades.py`.
    (),
)

VERSION = len(MIGRATIONS)
