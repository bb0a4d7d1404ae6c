import { positionsPerConversation } from '../../event-log/append-planner.ts'

const maxOrdinal = 2 ** 25 - 1

/**
 * The row before the first of a conversation. An event's `row` is its conversation's ordinal times
 * `positionsPerConversation`, plus its position.
 */
export function rowBase(ordinal: number): number {
  if (ordinal > maxOrdinal) throw new Error('The storage has reached its maximum number of conversations')
  return ordinal * positionsPerConversation
}

/**
 * Tables whose rows nothing else verifies: a wrong index of them would hide a conversation or a document, or
 * remove a blob in use.
 */
export const uncheckedTables = [
  'conversation',
  'facet',
  'leftover',
  'store',
  'delivery',
  'event_blob',
  'document',
] as const

/**
 * log.db. `facet` is a number of `KindSourceIndex`. A leftover is a range of rows to remove: those of a
 * conversation above a position, from an unpublished import, or all of a removed conversation.
 */
export const logMigrations: readonly string[] = [
  `CREATE TABLE conversation (
     ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
     id TEXT NOT NULL,
     title TEXT,
     tags TEXT NOT NULL,
     status TEXT NOT NULL,
     request TEXT,
     created_at INTEGER NOT NULL,
     updated_at INTEGER NOT NULL,
     head INTEGER NOT NULL DEFAULT 0,
     last_instant INTEGER,
     in_order INTEGER NOT NULL DEFAULT 1,
     is_visible INTEGER NOT NULL
   ) STRICT;
   CREATE UNIQUE INDEX conversation_id ON conversation (id) WHERE is_visible = 1;
   CREATE INDEX conversation_created ON conversation (created_at) WHERE is_visible = 1;
   CREATE INDEX conversation_updated ON conversation (updated_at) WHERE is_visible = 1;
   CREATE INDEX conversation_status ON conversation (status, created_at) WHERE is_visible = 1;
   CREATE TABLE event (
     row INTEGER PRIMARY KEY,
     conversation INTEGER NOT NULL,
     id TEXT NOT NULL,
     instant INTEGER NOT NULL,
     facet INTEGER NOT NULL,
     body BLOB NOT NULL
   ) STRICT;
   CREATE UNIQUE INDEX event_id ON event (conversation, id);
   CREATE INDEX event_facet ON event (conversation, facet, instant);
   CREATE INDEX event_instant ON event (conversation, instant);
   CREATE INDEX event_message ON event (conversation) WHERE facet & 1;
   CREATE TABLE facet (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, source TEXT NOT NULL, UNIQUE (kind, source)) STRICT;
   CREATE TABLE leftover (ordinal INTEGER PRIMARY KEY, above INTEGER NOT NULL) STRICT;
   CREATE TABLE store (id TEXT NOT NULL) STRICT;
   INSERT INTO store VALUES (lower(hex(randomblob(16))))`,
  // Large values have their own table, because each append rewrites the row of its conversation.
  `ALTER TABLE conversation ADD COLUMN stats TEXT;
   CREATE TABLE vault (
     ordinal INTEGER PRIMARY KEY,
     sealed BLOB,
     snapshot_position INTEGER,
     snapshot TEXT
   ) STRICT`,
  `ALTER TABLE conversation ADD COLUMN parent TEXT;
   CREATE INDEX conversation_parent ON conversation (parent) WHERE parent IS NOT NULL AND is_visible = 1`,
  // `ordinal` tells a conversation from a later one with the same id.
  `CREATE TABLE delivery (
     receiver TEXT NOT NULL,
     conversation TEXT NOT NULL,
     ordinal INTEGER NOT NULL,
     position INTEGER NOT NULL,
     updated_at INTEGER,
     PRIMARY KEY (receiver, conversation)
   ) STRICT, WITHOUT ROWID`,
  // Null in events of earlier versions, which are not verified.
  `ALTER TABLE event ADD COLUMN checksum INTEGER`,
  // The length of a body is known without reading it.
  `ALTER TABLE conversation ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
   UPDATE conversation SET bytes = (
     SELECT coalesce(sum(length(body)), 0) FROM event
     WHERE row > conversation.ordinal * ${positionsPerConversation}
       AND row <= conversation.ordinal * ${positionsPerConversation} + conversation.head
   )`,
  'ALTER TABLE store ADD COLUMN generation INTEGER NOT NULL DEFAULT 1',
  // Of what `checkedColumns` names; null until the record changes.
  'ALTER TABLE conversation ADD COLUMN checksum INTEGER',
  // Binary content of events, once for each content; its numbers are never used again. Bodies that have some
  // begin with the byte 1.
  `CREATE TABLE blob (number INTEGER PRIMARY KEY AUTOINCREMENT, hash BLOB NOT NULL, bytes BLOB NOT NULL) STRICT;
   CREATE INDEX blob_hash ON blob (hash);
   CREATE TABLE event_blob (row INTEGER NOT NULL, blob INTEGER NOT NULL, PRIMARY KEY (row, blob)) STRICT, WITHOUT ROWID;
   CREATE INDEX event_blob_blob ON event_blob (blob);
   CREATE TRIGGER event_removed AFTER DELETE ON event WHEN substr(OLD.body, 1, 1) = x'01' BEGIN
     DELETE FROM blob WHERE number IN (SELECT blob FROM event_blob WHERE row = OLD.row)
       AND NOT EXISTS (SELECT 1 FROM event_blob WHERE blob = number AND row <> OLD.row);
     DELETE FROM event_blob WHERE row = OLD.row;
   END`,
  // `finer`: the digits of a moment below its instant. `has_finer` is 2 where `keyFinerDigits` has to look
  // for them.
  `ALTER TABLE event ADD COLUMN finer TEXT NOT NULL DEFAULT '';
   ALTER TABLE conversation ADD COLUMN has_finer INTEGER NOT NULL DEFAULT 0;
   UPDATE conversation SET has_finer = 2 WHERE head > 0`,
  // Documents of the server, as those of `control.db`: names that end in `.json` are readable.
  `CREATE TABLE document (
     user TEXT NOT NULL,
     name TEXT NOT NULL,
     sealed BLOB NOT NULL,
     PRIMARY KEY (user, name)
   ) STRICT`,
]
