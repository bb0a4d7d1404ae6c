import { spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startAgentServer } from '../support/agent-server.ts'

const key = 'a-session-key-of-this-test'
const isRoot = process.platform === 'linux' && process.getuid?.() === 0

/** One request by a program of a user; prints the status and the cookie that is set. */
const program = `const [url, method, headers] = process.argv.slice(1)
const response = await fetch(url, { method, headers: JSON.parse(headers) })
console.log(JSON.stringify([response.status, response.headers.get('set-cookie') ?? '']))`

function requestAs(uid: number, url: string, method: string, headers: object): [number, string] {
  const user = ['--reuid', String(uid), '--regid', String(uid), '--clear-groups', process.execPath]
  const args = [...user, '--input-type=module', '-e', program, url, method, JSON.stringify(headers)]
  const { stdout, stderr } = spawnSync('setpriv', args, { encoding: 'utf8', timeout: 60_000, cwd: '/' })
  if (stdout === '') throw new Error(stderr)
  return JSON.parse(stdout)
}

test.skipIf(!isRoot)(
  'a workspace cookie that another user received on another port opens no file',
  { timeout: 180_000 },
  async ({ skip }) => {
    const [user, attacker] = [54_321, 54_322]
    const directory = await mkdtemp(join(tmpdir(), 'slipway-cookie-'))
    const canRun = spawnSync('setpriv', ['--reuid', String(user), process.execPath, '-e', '0']).status === 0
    if (!canRun) skip('an ordinary user cannot run the Node of this project')
    await writeFile(join(directory, 'file.txt'), 'mine')
    const server = await startAgentServer(join(directory, 'data'), {
      SLIPWAY_SESSION_API_KEY: key,
      SLIPWAY_NO_KEY: '',
    })
    try {
      const created = await fetch(`${server.url}/api/conversations`, {
        method: 'POST',
        headers: { 'x-session-api-key': key, 'content-type': 'application/json' },
        body: JSON.stringify({
          agent: { kind: 'Agent', llm: { model: 'scripted/test', script: [] }, tools: [] },
          workspace: { working_dir: directory },
        }),
      })
      const { id } = (await created.json()) as { readonly id: string }
      const file = `${server.url}/api/conversations/${id}/workspace/file.txt`
      const session = `${server.url}/api/auth/workspace-session`
      const [status, set] = requestAs(user, session, 'POST', { 'x-session-api-key': key })
      expect(status).toBe(204)
      const cookie = { cookie: set.split(';')[0] }
      expect(requestAs(user, file, 'GET', cookie)[0]).toBe(200)
      // Its value and the id of the conversation are all that the attacker needs to know.
      expect(requestAs(attacker, file, 'GET', cookie)[0]).toBe(401)
      expect(requestAs(attacker, file, 'GET', { ...cookie, origin: server.url })[0]).toBe(401)
      expect(requestAs(user, file, 'GET', cookie)[0]).toBe(200)
    } finally {
      await server.stop()
      await rm(directory, { recursive: true, force: true })
    }
  },
)
