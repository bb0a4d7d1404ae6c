import { expect, test } from 'vitest'
import { openFailure } from './open-failure.ts'

test('an I/O error of a disk without space is a full disk', () => {
  const cause = Object.assign(new Error('disk I/O error'), { errcode: 4874 })
  expect(openFailure('/data/log.db', cause, 4_096)).toBe('the disk is full. Make room.')
  expect(openFailure('/data/log.db', cause, 1_000_000)).toBe('disk I/O error')
  const full = Object.assign(new Error('database or disk is full'), { errcode: 13 })
  expect(openFailure('/data/log.db', full, 1_000_000)).toBe('the disk is full. Make room.')
})
