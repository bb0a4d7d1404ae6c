import { expect, test } from 'vitest'
import { changedMembers } from './changed-members.ts'

test('members that differ are named on both sides, in records below them too, as they may be shown', () => {
  const before = { same: 1, gone: 2, list: [1], inner: { key: 'a', name: 'x' } }
  const after = { same: 1, added: null, list: [1, 2], inner: { key: 'b', name: 'x' } }
  const hide = <T extends typeof before | typeof after>(all: T) => ({
    ...all,
    inner: { ...all.inner, key: '*' },
  })
  expect(changedMembers(before, after, { before: hide(before), after: hide(after) })).toEqual({
    before: { gone: 2, list: [1], inner: { key: '*' } },
    after: { added: null, list: [1, 2], inner: { key: '*' } },
  })
  expect(changedMembers(before, before, { before, after: before })).toEqual({ before: {}, after: {} })
})
