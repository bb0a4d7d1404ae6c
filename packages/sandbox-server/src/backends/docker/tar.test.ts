import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { createDirectoryTar } from './tar.ts'

test('tar reads what was written', () => {
  const names = ['.', './.home', './täst dir', `./${'x'.repeat(97)}`]
  const input = createDirectoryTar(names.map((name) => ({ name, userId: 10_001 })))
  const listed = execFileSync('tar', ['--numeric-owner', '--quoting-style=literal', '-tvf', '-'], {
    input,
  }).toString()
  const lines = listed.trimEnd().split('\n')
  expect(lines).toHaveLength(names.length)
  lines.forEach((line, index) => {
    expect(line).toMatch(/^drwxr-xr-x 10001\/10001 +0 /)
    expect(line.endsWith(`${names[index]}/`)).toBe(true)
  })
})

test('a name that does not fit is refused and not cut', () => {
  expect(() => createDirectoryTar([{ name: 'x'.repeat(100), userId: 1 }])).toThrow('does not fit')
})
