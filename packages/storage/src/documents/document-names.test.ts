import { expect, test } from 'vitest'
import { isDocumentName, parseDocument } from './document-names.ts'

test('documents have known names, or are profiles', () => {
  for (const name of ['settings.sealed', 'workspaces.json', 'profiles/one.json'])
    expect([name, isDocumentName(name)]).toEqual([name, true])
  for (const name of [
    'setings.sealed',
    'settings.json',
    'profiles/.json',
    'profiles/a/b.json',
    'profiles/one',
  ])
    expect([name, isDocumentName(name)]).toEqual([name, false])
})

test('a text that is no whole document is none', () => {
  const bytes = Buffer.from([1, 2, 3, 4])
  const text = bytes.toString('base64')
  expect(parseDocument('settings.sealed', `${text}\n`)).toEqual(bytes)
  for (const other of ['', '{}', text.slice(0, -3), `${text}!`, Buffer.from([2, 2, 3]).toString('base64')])
    expect([other, parseDocument('settings.sealed', other)]).toEqual([other, undefined])
  expect(String(parseDocument('workspaces.json', '{}'))).toBe('{}')
  expect(parseDocument('workspaces.json', '{')).toBeUndefined()
})
