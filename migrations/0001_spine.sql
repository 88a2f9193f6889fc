-- +goose Up
-- Ids are INTEGER, times Unix milliseconds UTC, JSON is TEXT.

CREATE TABLE sessions (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    channel        TEXT    NOT NULL,
    chat           INTEGER NOT NULL,
    thread         INTEGER NOT NULL,
    parent         INTEGER REFERENCES sessions (id) ON DELETE CASCADE, -- a sub-agent's session has a parent
    parent_call    TEXT,                                               -- and the call that made it
    agent          TEXT    NOT NULL DEFAULT '',                        -- the sub-agent's name
    current        INTEGER NOT NULL DEFAULT 0,                         -- the address' conversation now
    title          TEXT    NOT NULL DEFAULT '',                        -- the first words, for /sessions
    window_from    INTEGER NOT NULL DEFAULT 0,                         -- the model is sent messages from this seq on
    results_cut_to INTEGER NOT NULL DEFAULT 0,                         -- tool results below this seq are sent shortened
    created        INTEGER NOT NULL,
    used           INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX sessions_current ON sessions (channel, chat, thread) WHERE current = 1;
CREATE UNIQUE INDEX sessions_child ON sessions (parent, parent_call) WHERE parent IS NOT NULL;
CREATE INDEX sessions_address ON sessions (channel, chat, thread, used);

CREATE TABLE turns (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    session   INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    principal INTEGER NOT NULL,
    name      TEXT    NOT NULL,
    rights    INTEGER NOT NULL,
    private   INTEGER NOT NULL,
    lang      TEXT    NOT NULL,
    question  INTEGER NOT NULL, -- the channel's id of the message that asked
    state     TEXT    NOT NULL CHECK (state IN ('open', 'waiting', 'done', 'stopped', 'failed', 'superseded')),
    attempts  INTEGER NOT NULL DEFAULT 0, -- unclean deaths since the last step
    tokens    INTEGER NOT NULL DEFAULT 0, -- of the last prompt, as the model server counted them
    asked     INTEGER NOT NULL,
    started   INTEGER NOT NULL,
    ended     INTEGER
) STRICT;
CREATE UNIQUE INDEX turns_open ON turns (session) WHERE state IN ('open', 'waiting');
CREATE INDEX turns_session ON turns (session, id);

CREATE TABLE messages (
    session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    seq     INTEGER NOT NULL,
    turn    INTEGER NOT NULL,
    role    TEXT    NOT NULL,
    call    TEXT, -- a tool result's call id
    parts   TEXT    NOT NULL,
    created INTEGER NOT NULL,
    UNIQUE (session, seq)
) STRICT;
CREATE UNIQUE INDEX messages_result ON messages (session, call) WHERE call IS NOT NULL;
CREATE INDEX messages_turn ON messages (turn);

CREATE TABLE inbox (
    update_id  INTEGER PRIMARY KEY,
    kind       TEXT    NOT NULL CHECK (kind IN ('message', 'edit', 'control', 'ignored')),
    channel    TEXT    NOT NULL,
    chat       INTEGER NOT NULL,
    thread     INTEGER NOT NULL,
    sender     INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    rights     INTEGER NOT NULL,
    private    INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    lang       TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    due        INTEGER NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('queued', 'taken', 'done')),
    turn       INTEGER,
    parts      TEXT    NOT NULL,
    note       TEXT    NOT NULL,
    raw        TEXT    NOT NULL
) STRICT;
CREATE INDEX inbox_due ON inbox (kind, due, update_id) WHERE state = 'queued';
CREATE INDEX inbox_sender ON inbox (channel, chat, thread, sender, kind, due) WHERE state = 'queued';
CREATE INDEX inbox_turn ON inbox (turn) WHERE turn IS NOT NULL;
CREATE INDEX inbox_done ON inbox (at) WHERE state = 'done';

CREATE TABLE outbox (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    key     TEXT    NOT NULL UNIQUE,
    kind    TEXT    NOT NULL CHECK (kind IN ('post', 'preview')), -- previews are sent by the turn, not by the sender
    channel TEXT    NOT NULL,
    chat    INTEGER NOT NULL,
    thread  INTEGER NOT NULL,
    turn    INTEGER NOT NULL,
    lang    TEXT    NOT NULL,
    state   TEXT    NOT NULL CHECK (state IN ('queued', 'parked', 'done')),
    due     INTEGER NOT NULL,
    created INTEGER NOT NULL
) STRICT;
CREATE INDEX outbox_queued ON outbox (channel, chat, id, due) WHERE state = 'queued' AND kind = 'post';
CREATE INDEX outbox_parked ON outbox (channel, chat) WHERE state = 'parked';
CREATE INDEX outbox_done ON outbox (created) WHERE state = 'done';

-- A post's parts, stored before the first is sent. Parts are numbered by twos:
-- the odd number behind a part is the notice about its uncertain outcome.
CREATE TABLE sends (
    post       INTEGER NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
    part       INTEGER NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('queued', 'sending', 'sent', 'failed', 'uncertain')),
    idempotent INTEGER NOT NULL,
    tries      INTEGER NOT NULL DEFAULT 0,
    silent     INTEGER NOT NULL DEFAULT 0,
    message_id INTEGER NOT NULL DEFAULT 0,
    at         INTEGER NOT NULL DEFAULT 0,
    reason     TEXT    NOT NULL DEFAULT '',
    body       TEXT    NOT NULL,
    PRIMARY KEY (post, part)
) STRICT, WITHOUT ROWID;
CREATE INDEX sends_sending ON sends (state) WHERE state = 'sending';

-- Who may talk to us, beyond the configuration. A chat has its own (negative) id.
CREATE TABLE people (
    channel TEXT    NOT NULL,
    id      INTEGER NOT NULL,
    state   TEXT    NOT NULL CHECK (state IN ('owner', 'allowed', 'greeted', 'asked', 'denied', 'blocked', 'revoked')),
    name    TEXT    NOT NULL,
    greeted INTEGER NOT NULL DEFAULT 0, -- when a stranger was last told their id
    since   INTEGER NOT NULL,
    PRIMARY KEY (channel, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE pairing (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    hash    TEXT    NOT NULL, -- SHA-256 of the code, hex
    expires INTEGER NOT NULL,
    tries   INTEGER NOT NULL DEFAULT 0,
    barred  INTEGER NOT NULL DEFAULT 0 -- no try counts before this time
) STRICT;

CREATE TABLE settings (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
