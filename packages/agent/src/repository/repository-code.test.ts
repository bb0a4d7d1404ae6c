import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { readRepositoryCode } from './repository-code.ts'

let root: string

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'code-'))
  onTestFinished(() => rmSync(root, { recursive: true }))
})

function write(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true })
  writeFileSync(join(root, path), text)
}

async function readWithServer(server: object) {
  const matter = JSON.stringify({ name: 'x', description: 'x', mcp_config: { notes: server } })
  write('.agents/agents/x.md', `---\n${matter}\n---\nDo it.\n`)
  return await readRepositoryCode(root)
}

const options = { NODE_OPTIONS: '--require ./setup.cjs' }

test.each([
  [
    'variables',
    { command: 'node', args: ['-v'], env: options },
    `NODE_OPTIONS='--require ./setup.cjs' node -v`,
  ],
  ['a folder', { command: 'npx', args: ['notes'], cwd: 'my tools' }, `cd 'my tools' && npx notes`],
  [
    'headers and a sign-in',
    { url: 'https://x.test/', headers: { A: 'token' }, auth: { strategy: 'bearer', value: 'key' } },
    'https://x.test/ {"A":"token"} {"strategy":"bearer","value":"key"}',
  ],
  ['nothing else', { command: 'notes', args: [] }, 'notes'],
])('a server of a repository is shown with %s', async (_, server, command) => {
  const { items } = await readWithServer(server)
  expect(items).toContainEqual({ kind: 'mcp_server', path: '.agents/agents/x.md', name: 'notes', command })
})

test('files that variables or the folder of a server name are part of the consent', async () => {
  for (const [server, path] of [
    [{ command: 'node', args: ['-v'], env: options }, 'setup.cjs'],
    [{ command: 'node', args: ['./index.js'], cwd: 'tools' }, 'tools/index.js'],
  ] as const) {
    write(path, 'one')
    const before = await readWithServer(server)
    expect(before.items).toContainEqual({
      kind: 'script',
      path,
      name: 'that a command names',
      command: 'one',
    })
    write(path, 'two')
    expect((await readWithServer(server)).hash).not.toBe(before.hash)
  }
})
