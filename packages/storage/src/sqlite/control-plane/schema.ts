import { readFileSync } from 'node:fs'

/** Migrations of control.db. */
export const controlPlaneMigrations: readonly string[] = [
  readFileSync(new URL('./schema.sql', import.meta.url), 'utf8'),
  `ALTER TABLE api_key ADD COLUMN created_by TEXT;
   CREATE INDEX api_key_created_by ON api_key (created_by) WHERE created_by IS NOT NULL`,
  `CREATE TABLE sandbox_secret (
     sandbox TEXT NOT NULL,
     name TEXT NOT NULL,
     PRIMARY KEY (sandbox, name)
   ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE user_limit (
     user TEXT PRIMARY KEY,
     max_conversations INTEGER,
     max_stored_mb INTEGER
   ) STRICT`,
  `ALTER TABLE start_task ADD COLUMN org TEXT;
   UPDATE start_task SET org = (SELECT org FROM app_conversation WHERE id = start_task.conversation)`,
  `ALTER TABLE user_limit ADD COLUMN max_sandboxes INTEGER;
   CREATE INDEX sandbox_of_users ON sandbox (created_at, id) WHERE owner IS NOT NULL AND wanted <> 'gone'`,
  `ALTER TABLE sandbox ADD COLUMN caught_up_at INTEGER;
   ALTER TABLE sandbox ADD COLUMN deletes_at INTEGER`,
  `CREATE TABLE audit (
     id TEXT PRIMARY KEY,
     created_at INTEGER NOT NULL,
     caller TEXT,
     via TEXT,
     org TEXT,
     action TEXT NOT NULL,
     method TEXT NOT NULL,
     route TEXT NOT NULL,
     target_type TEXT NOT NULL,
     target TEXT,
     conversation TEXT,
     sandbox TEXT,
     allowed_by TEXT,
     status INTEGER,
     before TEXT,
     after TEXT,
     request_id TEXT NOT NULL
   ) STRICT;
   CREATE INDEX audit_created ON audit (created_at, id);
   CREATE INDEX audit_caller ON audit (caller, created_at, id);
   CREATE INDEX audit_target ON audit (target, created_at, id)`,
  `ALTER TABLE sandbox ADD COLUMN cost INTEGER NOT NULL DEFAULT 0;
   ALTER TABLE app_conversation ADD COLUMN cost INTEGER NOT NULL DEFAULT 0;
   ALTER TABLE app_conversation ADD COLUMN counted TEXT;
   CREATE INDEX sandbox_of_users_used ON sandbox (used_at, id) WHERE owner IS NOT NULL AND wanted <> 'gone';
   CREATE INDEX sandbox_of_users_cost ON sandbox (cost, id) WHERE owner IS NOT NULL AND wanted <> 'gone';
   CREATE INDEX conversation_of_users ON app_conversation (created_at, id) WHERE owner IS NOT NULL;
   CREATE INDEX conversation_of_users_used ON app_conversation (updated_at, id) WHERE owner IS NOT NULL;
   CREATE INDEX conversation_of_users_cost ON app_conversation (cost, id) WHERE owner IS NOT NULL;
   CREATE TABLE conversation_usage (
     day TEXT NOT NULL,
     conversation TEXT NOT NULL,
     model TEXT NOT NULL,
     user TEXT,
     org TEXT,
     cost INTEGER NOT NULL,
     prompt_tokens INTEGER NOT NULL,
     completion_tokens INTEGER NOT NULL,
     cache_read_tokens INTEGER NOT NULL,
     cache_write_tokens INTEGER NOT NULL,
     reasoning_tokens INTEGER NOT NULL,
     PRIMARY KEY (day, conversation, model)
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE sandbox_usage (
     day TEXT NOT NULL,
     sandbox TEXT NOT NULL,
     user TEXT,
     org TEXT,
     micros INTEGER NOT NULL,
     PRIMARY KEY (day, sandbox)
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE sandbox_event (
     ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
     sandbox TEXT NOT NULL,
     owner TEXT,
     org TEXT,
     kind TEXT NOT NULL,
     actor TEXT,
     detail TEXT,
     created_at INTEGER NOT NULL
   ) STRICT;
   CREATE INDEX sandbox_event_sandbox ON sandbox_event (sandbox, ordinal);
   CREATE INDEX sandbox_event_created ON sandbox_event (created_at);
   CREATE TABLE sandbox_log (
     sandbox TEXT PRIMARY KEY,
     owner TEXT,
     org TEXT,
     text TEXT NOT NULL,
     created_at INTEGER NOT NULL
   ) STRICT;
   CREATE INDEX sandbox_log_created ON sandbox_log (created_at)`,
  `CREATE TABLE budget (
     id TEXT PRIMARY KEY,
     scope TEXT NOT NULL,
     target TEXT NOT NULL,
     monthly_limit INTEGER NOT NULL,
     set_by TEXT,
     created_at INTEGER NOT NULL,
     updated_at INTEGER NOT NULL
   ) STRICT;
   CREATE TABLE budget_month (
     month TEXT NOT NULL,
     budget TEXT NOT NULL,
     extra INTEGER NOT NULL,
     spent INTEGER NOT NULL,
     reserved INTEGER NOT NULL,
     PRIMARY KEY (month, budget)
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE budget_reservation (
     id TEXT PRIMARY KEY,
     sandbox TEXT NOT NULL,
     user TEXT NOT NULL,
     month TEXT NOT NULL,
     budgets TEXT NOT NULL,
     amount INTEGER NOT NULL,
     settled INTEGER NOT NULL,
     remove_at INTEGER NOT NULL
   ) STRICT;
   CREATE INDEX budget_reservation_removed ON budget_reservation (remove_at);
   CREATE TABLE budget_request (
     id TEXT PRIMARY KEY,
     user TEXT NOT NULL,
     scope TEXT NOT NULL,
     target TEXT NOT NULL,
     amount INTEGER NOT NULL,
     reason TEXT NOT NULL,
     status TEXT NOT NULL,
     granted INTEGER,
     note TEXT,
     answered_by TEXT,
     created_at INTEGER NOT NULL,
     answered_at INTEGER
   ) STRICT;
   CREATE INDEX budget_request_created ON budget_request (created_at, id);
   CREATE INDEX budget_request_user ON budget_request (user, created_at, id)`,
  `ALTER TABLE member ADD COLUMN role TEXT NOT NULL DEFAULT 'member';
   ALTER TABLE org ADD COLUMN allowed_models TEXT;
   ALTER TABLE org ADD COLUMN allowed_specs TEXT`,
]
