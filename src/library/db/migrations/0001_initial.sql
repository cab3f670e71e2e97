-- Ids that leave the server are random TEXT; `pk` is for joins alone. Times are microseconds
-- since the epoch, UTC. Paths are bytes: a Linux name need not be UTF-8.

CREATE TABLE settings (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO settings (key, value) VALUES ('revision', '0');

CREATE TABLE libraries (
    id        TEXT PRIMARY KEY,
    name      TEXT NOT NULL UNIQUE COLLATE NOCASE,
    kind      TEXT NOT NULL CHECK (kind IN ('movies', 'tv', 'music', 'photos', 'mixed')),
    created   INTEGER NOT NULL,
    scanned   INTEGER,
    report    TEXT,
    warning   TEXT
) STRICT;

-- `dev` is the st_dev seen at the last healthy scan. It may change at a reboot (btrfs and NFS
-- number their devices anew), so that a different one only counts together with absent files.
CREATE TABLE roots (
    pk        INTEGER PRIMARY KEY,
    library   TEXT NOT NULL REFERENCES libraries (id) ON DELETE CASCADE,
    path      BLOB NOT NULL,
    dev       INTEGER,
    missing   TEXT,
    UNIQUE (library, path)
) STRICT;

-- `identity` says which work it is, independent of any file: kind, title, year, numbers.
CREATE TABLE items (
    pk           INTEGER PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,
    library      TEXT NOT NULL REFERENCES libraries (id) ON DELETE CASCADE,
    type         TEXT NOT NULL,
    identity     TEXT NOT NULL,
    parent       INTEGER REFERENCES items (pk) ON DELETE CASCADE,
    top          INTEGER REFERENCES items (pk) ON DELETE CASCADE,
    title        TEXT NOT NULL,
    sort_title   TEXT NOT NULL,
    search_text  TEXT NOT NULL,
    year         INTEGER,
    released     TEXT,
    season       INTEGER,
    number       INTEGER,
    number_last  INTEGER,
    disc         INTEGER,
    plot         TEXT,
    rating       REAL,
    provider_id  TEXT,
    extra        TEXT,
    duration_s   REAL,
    available    INTEGER NOT NULL DEFAULT 1,
    added        INTEGER NOT NULL,
    latest       INTEGER NOT NULL,
    updated      INTEGER NOT NULL,
    UNIQUE (library, identity)
) STRICT;
CREATE INDEX items_identity ON items (identity);
CREATE INDEX items_type_title ON items (type, sort_title, pk);
CREATE INDEX items_library_title ON items (library, type, sort_title, pk);
CREATE INDEX items_parent ON items (parent, season, disc, number);
CREATE INDEX items_top ON items (top, type);
CREATE INDEX items_latest ON items (type, latest DESC, pk);
CREATE INDEX items_provider ON items (provider_id) WHERE provider_id IS NOT NULL;

CREATE TABLE item_tags (
    item   INTEGER NOT NULL REFERENCES items (pk) ON DELETE CASCADE,
    kind   TEXT NOT NULL CHECK (kind IN ('genre', 'person')),
    value  TEXT NOT NULL COLLATE NOCASE,
    PRIMARY KEY (item, kind, value)
) STRICT, WITHOUT ROWID;
CREATE INDEX item_tags_value ON item_tags (kind, value, item);

-- Two and three letter prefixes have their own index, so that typing the first letters is cheap.
CREATE VIRTUAL TABLE items_fts USING fts5 (
    search_text, content = 'items', content_rowid = 'pk',
    tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3'
);
CREATE TRIGGER items_fts_insert AFTER INSERT ON items BEGIN
    INSERT INTO items_fts (rowid, search_text) VALUES (new.pk, new.search_text);
END;
CREATE TRIGGER items_fts_delete AFTER DELETE ON items BEGIN
    INSERT INTO items_fts (items_fts, rowid, search_text) VALUES ('delete', old.pk, old.search_text);
END;
CREATE TRIGGER items_fts_update AFTER UPDATE OF search_text ON items BEGIN
    INSERT INTO items_fts (items_fts, rowid, search_text) VALUES ('delete', old.pk, old.search_text);
    INSERT INTO items_fts (rowid, search_text) VALUES (new.pk, new.search_text);
END;

CREATE TABLE versions (
    pk     INTEGER PRIMARY KEY,
    id     TEXT NOT NULL UNIQUE,
    item   INTEGER NOT NULL REFERENCES items (pk) ON DELETE CASCADE,
    label  TEXT,
    edition TEXT,
    added  INTEGER NOT NULL
) STRICT;
CREATE INDEX versions_item ON versions (item);

-- `class`: video, audio, photo, subtitle, picture, nfo.
-- `probe`: pending (never read), verify (inode changed, look at the fingerprint), done, failed,
-- none (side files). `art`: whether pictures inside it were looked for: pending, done.
CREATE TABLE files (
    pk           INTEGER PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,
    root         INTEGER NOT NULL REFERENCES roots (pk) ON DELETE CASCADE,
    path         BLOB NOT NULL,
    class        TEXT NOT NULL,
    size_bytes   INTEGER NOT NULL,
    mtime_ns     INTEGER NOT NULL,
    ino          INTEGER NOT NULL,
    version      INTEGER REFERENCES versions (pk) ON DELETE SET NULL,
    part         INTEGER,
    owner        INTEGER REFERENCES files (pk) ON DELETE SET NULL,
    side         TEXT,
    probe        TEXT NOT NULL,
    art          TEXT NOT NULL DEFAULT 'pending',
    info         TEXT,
    keyframes    BLOB,
    unreadable   TEXT,
    fingerprint  BLOB,
    missing_since INTEGER,
    missing_why  TEXT,
    added        INTEGER NOT NULL,
    UNIQUE (root, path)
) STRICT;
CREATE INDEX files_version ON files (version, part);
CREATE INDEX files_owner ON files (owner) WHERE owner IS NOT NULL;
CREATE INDEX files_size ON files (size_bytes);
CREATE INDEX files_probe ON files (root, probe) WHERE probe IN ('pending', 'verify');
CREATE INDEX files_art ON files (root, art) WHERE art = 'pending';
CREATE INDEX files_unreadable ON files (root) WHERE unreadable IS NOT NULL;

-- `source` names where the picture came from, with what changes when it does (path, size, mtime);
-- a scan compares it and reads the media disk only when it differs. `hash` names the stored copy.
CREATE TABLE images (
    item    INTEGER NOT NULL REFERENCES items (pk) ON DELETE CASCADE,
    kind    TEXT NOT NULL,
    source  TEXT NOT NULL,
    hash    TEXT NOT NULL,
    mime    TEXT NOT NULL,
    width   INTEGER NOT NULL,
    height  INTEGER NOT NULL,
    PRIMARY KEY (item, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE users (
    id            TEXT PRIMARY KEY,
    name          TEXT NOT NULL UNIQUE COLLATE NOCASE,
    password_hash TEXT NOT NULL,
    role          TEXT NOT NULL CHECK (role IN ('admin', 'user')),
    created       INTEGER NOT NULL
) STRICT;

-- Only a hash of a token is kept: a stolen database opens no door.
CREATE TABLE tokens (
    hash       BLOB PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    user       TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    device     TEXT,
    created    INTEGER NOT NULL,
    last_used  INTEGER NOT NULL,
    expires    INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_user ON tokens (user);

-- By identity, not by item or file: it outlives both.
CREATE TABLE states (
    user         TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    identity     TEXT NOT NULL,
    position_s   REAL NOT NULL DEFAULT 0,
    watched      INTEGER NOT NULL DEFAULT 0,
    favorite     INTEGER NOT NULL DEFAULT 0,
    rating       REAL,
    plays        INTEGER NOT NULL DEFAULT 0,
    last_played  INTEGER,
    updated      INTEGER NOT NULL,
    PRIMARY KEY (user, identity)
) STRICT, WITHOUT ROWID;
CREATE INDEX states_recent ON states (user, last_played DESC) WHERE last_played IS NOT NULL;

CREATE TABLE sessions (
    id        TEXT PRIMARY KEY,
    user      TEXT,
    item      TEXT,
    title     TEXT NOT NULL,
    method    TEXT NOT NULL,
    client    TEXT NOT NULL,
    started   INTEGER NOT NULL,
    ended     INTEGER,
    summary   TEXT NOT NULL,
    io        TEXT
) STRICT;
CREATE INDEX sessions_ended ON sessions (started DESC);
CREATE INDEX sessions_user ON sessions (user, started DESC);
