import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { rowsOf } from '../maintenance/open-file.ts'
import { compareSchema } from './compare-schema.ts'

const migrations = [
  `CREATE TABLE org (id TEXT PRIMARY KEY) STRICT;
   CREATE TABLE user (
     id TEXT PRIMARY KEY, -- its uuid
     number INTEGER NOT NULL UNIQUE,
     name TEXT COLLATE NOCASE DEFAULT 'a b',
     age INTEGER NOT NULL DEFAULT 1 CHECK (age > 0),
     org TEXT REFERENCES org (id) ON DELETE CASCADE,
     initial TEXT AS (substr(name, 1, 1)) STORED
   ) STRICT;
   CREATE UNIQUE INDEX user_name ON user (name, lower(org) DESC) WHERE name <> 'x  y';
   CREATE TABLE member (user TEXT NOT NULL, org TEXT NOT NULL, PRIMARY KEY (user, org)) STRICT, WITHOUT ROWID;
   CREATE TABLE message (ordinal INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL) STRICT;
   CREATE VIRTUAL TABLE trigram USING fts5 (text, tokenize = 'trigram');
   CREATE TRIGGER user_removed AFTER DELETE ON user WHEN OLD.age > 1 BEGIN
     DELETE FROM member WHERE user = OLD.id;
   END`,
  'ALTER TABLE member ADD COLUMN since INTEGER',
]

/** What differs when one text of the statements is another one. */
function compareWith(replaced: string | RegExp, by: string): string | undefined {
  const sql = migrations.join(';\n')
  const changed = sql.replaceAll(typeof replaced === 'string' ? replaced : new RegExp(replaced, 'g'), by)
  expect(changed).not.toBe(sql)
  using db = new DatabaseSync(':memory:')
  db.exec(changed)
  return compareSchema((...query) => rowsOf(db, ...query), migrations)
}

test.each<[string, string | RegExp, string]>([
  ['white space', / (?=[A-Z(])/, '\n\t  '],
  ['no white space', ', ', ','],
  ['comments', 'AS (', 'AS /* generated */ ('],
  ['another comment', '-- its uuid', '-- its id, a text'],
  ['quoted names', /\b(user|org|member)\b(?!_)/, '"$1"'],
  ['names in brackets', 'TABLE message', 'TABLE [message]'],
  ['upper case', /\bname\b/, 'NAME'],
  ['lower case', 'NOT NULL', 'not null'],
  ['the order of the clauses of a column', 'NOT NULL UNIQUE', 'UNIQUE NOT NULL'],
  ['a key of the column or of the table', /id TEXT PRIMARY KEY\)/, 'id TEXT, PRIMARY KEY (id))'],
  ['the order that is the default', 'user (name,', 'user (name ASC,'],
  ['the name of a check', 'CHECK (age', 'CONSTRAINT adult CHECK (age'],
  [
    'a column that was added at once',
    /, PRIMARY KEY \(user, org\)(.*)([\s\S]*)ALTER.*/,
    ', since INTEGER, PRIMARY KEY (user, org)$1$2',
  ],
  ['a further index', 'CREATE TRIGGER', 'CREATE INDEX mine ON user (age); CREATE TRIGGER'],
])('equal structures: %s', (_, replaced, by) => {
  expect(compareWith(replaced, by)).toBeUndefined()
})

test.each<[string, string | RegExp, string, string]>([
  ['a missing column', /number INTEGER.*/, '', 'table user'],
  ['another name', 'number', 'count', 'table user'],
  [
    'another order of columns',
    'user TEXT NOT NULL, org TEXT NOT NULL',
    'org TEXT NOT NULL, user TEXT NOT NULL',
    'table member',
  ],
  ['another type', 'number INTEGER', 'number REAL', 'table user'],
  ['a null', 'body TEXT NOT NULL', 'body TEXT', 'table message'],
  ['another default', "'a b'", "'a  b'", 'table user'],
  ['no default', 'DEFAULT 1', '', 'table user'],
  ['another check', 'age > 0', 'age > 1', 'table user'],
  ['no check', 'CHECK (age > 0)', '', 'table user'],
  ['another collation', ' COLLATE NOCASE', '', 'table user'],
  ['no unique key', ' UNIQUE,', ',', 'table user'],
  ['no primary key', 'org (id TEXT PRIMARY KEY)', 'org (id TEXT UNIQUE)', 'table org'],
  ['another order of a primary key', 'KEY (user, org)', 'KEY (org, user)', 'table member'],
  ['numbers that are used again', ' AUTOINCREMENT', '', 'table message'],
  ['another foreign key', 'CASCADE', 'RESTRICT', 'table user'],
  ['no foreign key', 'REFERENCES org (id) ON DELETE CASCADE', '', 'table user'],
  ['another generated value', 'name, 1, 1', 'name, 1, 2', 'table user'],
  ['a generated value that is not stored', ' STORED', '', 'table user'],
  ['not strict', ') STRICT;\n   CREATE VIRTUAL', ');\n   CREATE VIRTUAL', 'table message'],
  ['with rowid', ', WITHOUT ROWID', '', 'table member'],
  ['a missing table', 'TABLE message', 'TABLE other', 'table message'],
  ['a missing addition', /ALTER.*/, '', 'table member'],
  ['another virtual table', "= 'trigram'", "= 'porter'", 'table trigram'],
  ['a missing index', /CREATE UNIQUE INDEX.*/, '', 'index user_name'],
  ['an index that is not unique', 'UNIQUE INDEX', 'INDEX', 'index user_name'],
  ['an index of other columns', '(name, lower', '(age, lower', 'index user_name'],
  ['an index of another order', '(org) DESC', '(org)', 'index user_name'],
  ['an index of another expression', 'lower(org)', 'upper(org)', 'index user_name'],
  ['an index with another collation', 'user (name,', 'user (name COLLATE BINARY,', 'index user_name'],
  ['an index of other rows', "'x  y'", "'x y'", 'index user_name'],
  ['an index of all rows', /WHERE name.*;/, ';', 'index user_name'],
  ['a missing trigger', /CREATE TRIGGER[\s\S]*END/, '', 'trigger user_removed'],
  ['a trigger at another time', 'AFTER DELETE', 'BEFORE DELETE', 'trigger user_removed'],
  ['a trigger for other rows', 'OLD.age > 1', 'OLD.age > 2', 'trigger user_removed'],
  ['a trigger that does something else', 'WHERE user = OLD.id', 'WHERE org = OLD.id', 'trigger user_removed'],
])('different structures: %s', (_, replaced, by, name) => {
  const difference = compareWith(replaced, by)
  expect(difference).toMatch(new RegExp(`^its ${name} is (missing|not the one that was made)$`))
})
