import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../../testing/temporary-directory.ts'
import { findWalEnd, hasFrames } from './wal-frames.ts'

const frameBytes = 24 + 4_096

test('the end of the commits is found, and again after the log begins again', () => {
  using log = openLog()
  let end = findWalEnd(log.fd)
  for (let n = 0; n < 20; n++) {
    log.db.exec(`INSERT INTO note VALUES (zeroblob(${n * 1_000}))`)
    end = findWalEnd(log.fd, end)
    expect(end).toEqual(findWalEnd(log.fd))
    expect(end.frames).toBe((fstatSync(log.fd).size - 32) / frameBytes)
    expect(hasFrames(log.fd, end)).toBe(true)
  }
  log.db.exec('PRAGMA wal_checkpoint(RESTART); INSERT INTO note VALUES (1)')
  const next = findWalEnd(log.fd, end)
  expect(next.frames).toBeGreaterThan(0)
  expect(next.frames).toBeLessThan(end.frames)
  expect(next.salts).not.toBe(end.salts)
  expect([hasFrames(log.fd, end), hasFrames(log.fd, next)]).toEqual([false, true])
  log.db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  expect(findWalEnd(log.fd, next)).toEqual({ salts: '', frames: 0 })
})

test('pages that a transaction wrote before it was rolled back are not counted', () => {
  using log = openLog()
  log.db.exec('INSERT INTO note VALUES (1)')
  const end = findWalEnd(log.fd)
  log.db.exec('PRAGMA cache_size = 5; BEGIN; INSERT INTO note VALUES (zeroblob(400000)); ROLLBACK')
  expect(findWalEnd(log.fd, end)).toEqual(end)
})

test('each changed byte of a frame up to the end is found', () => {
  using log = openLog()
  log.db.exec("INSERT INTO note VALUES (1); INSERT INTO note VALUES ('two')")
  const end = findWalEnd(log.fd)
  const change = (at: number) => {
    const byte = Buffer.alloc(1)
    readSync(log.fd, byte, 0, 1, at)
    writeSync(log.fd, Buffer.from([byte.readUInt8(0) ^ 1]), 0, 1, at)
  }
  const last = 32 + (end.frames - 1) * frameBytes
  for (const at of [0, 16, 24, 32, 40, 48, 56, 1_000, last, last + 8, last + 16, last + frameBytes - 1]) {
    change(at)
    expect([at, hasFrames(log.fd, end)]).toEqual([at, false])
    change(at)
  }
  expect(hasFrames(log.fd, end)).toBe(true)
})

function openLog() {
  const directory = temporaryDirectory()
  const path = join(directory.path, 'one.db')
  const db = new DatabaseSync(path)
  db.exec('PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE note (body)')
  const fd = openSync(`${path}-wal`, 'r+')
  return {
    db,
    fd,
    [Symbol.dispose]() {
      closeSync(fd)
      db.close()
      directory[Symbol.dispose]()
    },
  }
}
