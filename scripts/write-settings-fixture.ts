import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { gzipSync } from 'node:zlib'

/**
 * `npx node scripts/write-settings-fixture.ts TREE DAY`: the settings, profiles, secrets and lists that an
 * agent server of a source tree (this one, or a git worktree of an older commit with its packages installed)
 * writes, as a fixture of the tests of stored files. Run it on the present tree before you change their form.
 */
const [tree = '.', day = ''] = process.argv.slice(2)
if (!/^\d{4}-\d\d-\d\d$/.test(day)) throw new Error('Name the day of the commit')
const output = resolve(import.meta.dirname, '../packages/agent-server/src/core/documents/testing/versions')
const data = mkdtempSync(join(tmpdir(), 'slipway-fixture-'))
const requests: readonly (readonly [method: string, path: string, body?: object])[] = [
  [
    'POST',
    '/api/profiles/one',
    { llm: { model: 'openai/one', api_key: 'key of one' }, include_secrets: true },
  ],
  ['GET', '/api/agent-profiles'],
  [
    'PATCH',
    '/api/settings',
    {
      agent_settings_diff: { llm: { model: 'openai/a', api_key: 'key of the settings' } },
      misc_settings_diff: { theme: 'dark' },
    },
  ],
  ['PUT', '/api/settings/secrets', { name: 'NAME', value: 'value of NAME', description: 'a secret' }],
  [
    'POST',
    '/api/llm/provider-connections',
    { display_name: 'connection', provider: 'openai', api_key: 'key of the connection' },
  ],
  ['POST', '/api/workspaces', { workspaces: [{ id: 'w', name: 'workspace', path: '/w' }] }],
  [
    'POST',
    '/api/meta-profiles/rule',
    { classifier_model: 'one', classes: [{ description: 'any task', model: 'one' }] },
  ],
]

const main = ['main.js', 'main.ts']
  .map((name) => resolve(tree, 'packages/agent-server/src', name))
  .find(existsSync)
const env = { PATH: process.env.PATH, HOME: data, SLIPWAY_LOG_LEVEL: 'error' }
const args = [String(main), '--data', data, '--port', '0']
const server = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] })
try {
  const [line] = await Promise.race([
    once(server.stdout, 'data'),
    once(server, 'exit').then(() => Promise.reject(new Error('The server did not start'))),
  ])
  const url = /http:\/\/\S+/.exec(String(line))?.[0]
  const keyPath = join(data, 'session.key')
  const key = existsSync(keyPath) ? { 'x-session-api-key': readFileSync(keyPath, 'utf8').trim() } : {}
  for (const [method, path, body] of requests) {
    const headers = { 'content-type': 'application/json', ...key }
    const response = await fetch(url + path, { method, headers, body: body ? JSON.stringify(body) : null })
    console.log(method, path, response.status, response.ok ? '' : await response.text())
  }
} finally {
  server.kill()
  await once(server, 'exit')
}
const paths = readdirSync(data, { recursive: true, encoding: 'utf8' }).filter(
  (path) => /\.(?:key|sealed|json)$|\.sessions$/.test(path) && statSync(join(data, path)).isFile(),
)
const files = Object.fromEntries(
  paths
    .map((path) => [path, readFileSync(join(data, path), 'utf8')] as const)
    .concat(readDocuments())
    .sort(([a], [b]) => (a < b ? -1 : 1)),
)
console.log(Object.keys(files))
mkdirSync(output, { recursive: true })
writeFileSync(join(output, `settings-${day}.json.gz`), gzipSync(JSON.stringify(files), { level: 9 }))
rmSync(data, { recursive: true })

/** Documents of the storage, in the form of the files that earlier versions had. */
function readDocuments(): (readonly [path: string, text: string])[] {
  using db = new DatabaseSync(join(data, 'log.db'), { readOnly: true })
  if (db.prepare("SELECT 1 FROM sqlite_master WHERE name = 'document'").get() === undefined) return []
  return db
    .prepare('SELECT name, sealed FROM document')
    .all()
    .map(({ name, sealed }) => {
      const encoding = String(name).endsWith('.sealed') ? 'base64' : 'utf8'
      return [String(name), Buffer.from(sealed as Uint8Array).toString(encoding)]
    })
}
