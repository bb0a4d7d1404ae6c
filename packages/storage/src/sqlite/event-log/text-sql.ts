export const indexMigrations = [
  `CREATE TABLE message (row INTEGER PRIMARY KEY, facet INTEGER NOT NULL, instant INTEGER NOT NULL, parts BLOB NOT NULL) STRICT;
   CREATE VIRTUAL TABLE trigram USING fts5 (
     text, tokenize = 'trigram case_sensitive 1', content = '', contentless_delete = 1, detail = none
   );
   CREATE TABLE indexed (ordinal INTEGER PRIMARY KEY, upto INTEGER NOT NULL) STRICT;
   CREATE TABLE store (id TEXT NOT NULL) STRICT`,
  'ALTER TABLE store ADD COLUMN generation INTEGER NOT NULL DEFAULT 1',
]

/** Messages scanned before the index is used: a frequent needle fills its page from them. */
const scannedMessages = 400

export const unindexedSql = (
  order: 'ASC' | 'DESC',
) => `SELECT row, id, instant, body, facet, checksum, finer FROM event
  INDEXED BY event_message WHERE conversation = ? AND facet & 1 AND row BETWEEN ? AND ? ORDER BY row ${order}`
/** The same without the index of messages, which no one has compared with the rows yet. */
export const newMessagesSql = `SELECT row, id, instant, body, facet, checksum, finer FROM event NOT INDEXED
  WHERE row BETWEEN ? AND ? AND facet & 1 ORDER BY row`
export const matchSql = (order: 'ASC' | 'DESC') =>
  `SELECT row, facet, instant FROM trigram CROSS JOIN message ON row = trigram.rowid
   WHERE trigram MATCH ?3 AND trigram.rowid BETWEEN ?1 AND ?2 AND instr(parts, ?4) ORDER BY trigram.rowid ${order}`
export const scanSql = (order: 'ASC' | 'DESC') =>
  `SELECT row, facet, instant FROM message WHERE row BETWEEN ?1 AND ?2 AND instr(parts, ?3) ORDER BY row ${order}`
export const scanEndSql = (order: 'ASC' | 'DESC') =>
  `SELECT row FROM message WHERE row BETWEEN ? AND ? ORDER BY row ${order} LIMIT 1 OFFSET ${scannedMessages - 1}`
