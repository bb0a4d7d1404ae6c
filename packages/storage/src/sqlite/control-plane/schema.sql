-- control.db. Each index serves one query.
CREATE TABLE ledger (id TEXT NOT NULL) STRICT;
INSERT INTO ledger VALUES (lower(hex(randomblob(16))));

CREATE TABLE sandbox (
  id TEXT PRIMARY KEY,
  owner TEXT,
  org TEXT,
  spec TEXT NOT NULL,
  backend TEXT NOT NULL,
  wanted TEXT NOT NULL,
  status TEXT NOT NULL,
  detail TEXT,
  key_hash TEXT,
  sealed BLOB NOT NULL,
  epoch TEXT,
  addresses TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL,
  used_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX sandbox_key ON sandbox (key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX sandbox_created ON sandbox (owner, created_at, id) WHERE wanted <> 'gone';
CREATE INDEX sandbox_running ON sandbox (owner, used_at, id) WHERE wanted = 'running';
CREATE INDEX sandbox_pool ON sandbox (spec, created_at, id)
  WHERE owner IS NULL AND wanted = 'running' AND status = 'RUNNING';

-- `title_key` is the start of the folded title, for ordered pages.
CREATE TABLE app_conversation (
  id TEXT PRIMARY KEY,
  owner TEXT,
  org TEXT,
  sandbox TEXT NOT NULL,
  parent TEXT,
  title TEXT,
  folded_title TEXT NOT NULL,
  title_key TEXT NOT NULL,
  status TEXT,
  members TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX app_conversation_created ON app_conversation (owner, created_at, id);
CREATE INDEX app_conversation_updated ON app_conversation (owner, updated_at, id);
CREATE INDEX app_conversation_title ON app_conversation (owner, title_key, id);
CREATE INDEX app_conversation_sandbox ON app_conversation (sandbox, created_at, id);
CREATE INDEX app_conversation_parent ON app_conversation (parent, created_at, id) WHERE parent IS NOT NULL;

CREATE TABLE start_task (
  id TEXT PRIMARY KEY,
  owner TEXT,
  status TEXT NOT NULL,
  detail TEXT,
  conversation TEXT,
  sandbox TEXT,
  agent_url TEXT,
  request TEXT NOT NULL,
  quota_day TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX start_task_created ON start_task (owner, created_at, id);
CREATE INDEX start_task_updated ON start_task (owner, updated_at, id);
CREATE INDEX start_task_conversation ON start_task (conversation) WHERE conversation IS NOT NULL;
CREATE INDEX start_task_unfinished ON start_task (created_at, id) WHERE status NOT IN ('READY', 'ERROR');

CREATE TABLE user (
  id TEXT PRIMARY KEY,
  name TEXT,
  email TEXT,
  org TEXT,
  is_admin INTEGER NOT NULL,
  daily_conversation_limit INTEGER,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX user_created ON user (created_at, id);

CREATE TABLE org (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  daily_conversation_limit INTEGER,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX org_created ON org (created_at, id);

CREATE TABLE member (user TEXT NOT NULL, org TEXT NOT NULL, PRIMARY KEY (user, org)) STRICT, WITHOUT ROWID;

CREATE TABLE api_key (
  id TEXT PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE,
  user TEXT NOT NULL,
  org TEXT,
  name TEXT,
  scopes TEXT NOT NULL,
  not_before INTEGER,
  expires_at INTEGER,
  created_at INTEGER NOT NULL,
  used_at INTEGER
) STRICT;
CREATE INDEX api_key_user ON api_key (user, created_at, id);

CREATE TABLE quota (
  user TEXT NOT NULL,
  day TEXT NOT NULL,
  used INTEGER NOT NULL,
  PRIMARY KEY (user, day)
) STRICT, WITHOUT ROWID;

CREATE TABLE pending_message (
  ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  target TEXT NOT NULL,
  owner TEXT,
  message TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX pending_message_target ON pending_message (target);

CREATE TABLE document (
  user TEXT NOT NULL,
  name TEXT NOT NULL,
  sealed BLOB NOT NULL,
  PRIMARY KEY (user, name)
) STRICT;
