import { execFileSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { startAgentServer } from '../../support/agent-server.ts'
import { runCli, runJson } from '../../support/cli.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let root: string

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'slipway-clone-'))
  const git = (...args: string[]) => execFileSync('git', args, { cwd: root, stdio: 'pipe' })
  git('init', '-q')
  const data = join(root, '.slipway')
  const server = await startAgentServer(data)
  await server.stop()
  await runJson(['backup', join(root, 'kept'), '--data', data])
  git('add', '-f', '.slipway/secret.key', 'kept/backup.json')
})

afterAll(() => rm(root, { recursive: true }))

/** Words that begin with an at sign are paths in the repository. */
test.for([
  'serve --port 0 --data @.slipway',
  'sandbox-server --port 0 --data @.slipway',
  'doctor --data @.slipway',
  'doctor --repair --data @.slipway',
  'du --data @.slipway',
  'compact --data @.slipway',
  'backup @another --data @.slipway',
  'backup @kept --data @.slipway',
  'restore @kept --data @restored',
  'migrate --from @.slipway --to postgres://127.0.0.1:1/none',
])('slipway %s is refused where git tracks the data', async (command) => {
  const args = command.split(' ').map((word) => (word.startsWith('@') ? join(root, word.slice(1)) : word))
  const { code, stderr } = await runCli(args)
  expect([code, stderr]).toEqual([1, expect.stringContaining(`belongs to the git repository ${root}`)])
  expect(stderr).toContain('--data')
})
