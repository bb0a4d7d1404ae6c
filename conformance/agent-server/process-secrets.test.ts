import { spawnSync } from 'node:child_process'
import { chown, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { agentServerMain } from '@slipway/shared/process/testing'
import { expect, test } from 'vitest'
import { startProcess } from '../support/agent-server.ts'

const key = 'a-session-key-of-this-test'
const isRoot = process.getuid?.() === 0
const nobody = 65_534
/** Root reads everything, so the server and the attacker run as an ordinary user. */
const asUser = isRoot ? ['setpriv', `--reuid=${nobody}`, `--regid=${nobody}`, '--clear-groups'] : []

function spawnAsUser(program: string, args: readonly string[]) {
  const [command = program, ...rest] = [...asUser, program]
  return spawnSync(command, [...rest, ...args], { encoding: 'latin1', timeout: 20_000 })
}

test.skipIf(process.platform !== 'linux')(
  'another process of the user reads no key of the server',
  async ({ skip }) => {
    if (
      spawnAsUser(process.execPath, ['-e', `require('fs').readFileSync(${JSON.stringify(agentServerMain)})`])
        .status !== 0
    )
      skip('an ordinary user cannot read the files of this project')
    const data = await mkdtemp(join(tmpdir(), 'slipway-process-secrets-'))
    if (isRoot) await chown(data, nobody, nobody)
    const env = { SLIPWAY_SESSION_API_KEY: key, HOME: data, NODE_COMPILE_CACHE: data }
    const server = await startProcess(
      [agentServerMain, '--port', '0', '--data', join(data, 'data')],
      env,
      asUser,
    )
    try {
      for (const file of ['environ', 'maps', 'mem', 'cmdline']) {
        const read = () => spawnAsUser('cat', [`/proc/${server.pid}/${file}`])
        if (file === 'cmdline') expect(read().stdout).toContain('main.js')
        else await expect.poll(() => read().status, { timeout: 5_000 }).toBe(1)
        expect(read().stdout).not.toContain(key)
      }
    } finally {
      await server.stop()
      await rm(data, { recursive: true })
    }
  },
)
