import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { runCli } from '../support/cli.ts'
import { type GitHost, openGitHost } from '../support/git-host.ts'
import {
  createUser,
  openSandboxServer,
  type SandboxServerFixture,
  type StartTask,
  textModel,
  type User,
  waitFor,
} from '../support/sandbox-server/user.ts'

/** Starts that wait for consent to the scripts of their repositories, and the commands that decide. */
vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 })

let fixture: SandboxServerFixture
let user: User
let host: GitHost
let home: string
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'slipway-scripts-'))
  host = await openGitHost()
  // The Git host of the tests is on loopback.
  const env = { SLIPWAY_SANDBOX_NETWORK: 'shared', SLIPWAY_REPOSITORY_SCRIPTS: 'ask' }
  fixture = await openSandboxServer({ env })
  user = await createUser(fixture.server)
  await user.setModel(textModel)
  const keyFile = join(home, 'key')
  await writeFile(keyFile, user.key)
  const added = await cli('context', 'add', 'boxes', fixture.server.url, '--key-file', keyFile)
  expect(added).toMatchObject({ code: 0 })
})
afterAll(async () => {
  await fixture?.[Symbol.asyncDispose]()
  await host?.[Symbol.asyncDispose]()
  await rm(home, { recursive: true, force: true })
})

const cli = (...args: string[]) => runCli(args, { HOME: home, XDG_CONFIG_HOME: '' })

/** Starts a conversation in the repository; resolves when it waits. */
async function startWaiting(name: string): Promise<{ id: string; finish: () => Promise<StartTask> }> {
  const request = {
    selected_repository: `${host.url}/team/${name}.git`,
    initial_message: { content: 'Begin.' },
  }
  const { id } = await user.requestOrThrow<StartTask>('POST', '/api/v1/app-conversations', request)
  const until = (isEnough: (task: StartTask) => boolean) =>
    waitFor('the start continues', async () => {
      const [task] = await user.get<StartTask[]>(`/api/v1/app-conversations/start-tasks?ids=${id}`)
      return task !== undefined && isEnough(task) ? task : undefined
    })
  const waiting = await until(({ status, detail }) => status === 'ERROR' || /^Waits/.test(detail ?? ''))
  expect(waiting).toMatchObject({ status: 'RUNNING_SETUP_SCRIPT' })
  return { id, finish: () => until(({ status }) => status === 'READY' || status === 'ERROR') }
}

test.each([
  ['allowed', '--yes', /^(?!.*did not run)/s],
  ['denied', '--deny', /did not run/],
] as const)('a start that waits is listed, shown and %s by commands', async (decision, flag, detail) => {
  await host.addRepository(`team/${decision}`, { '.openhands/setup.sh': `echo ${decision} > .git/ran` })
  const { finish } = await startWaiting(decision)
  const pending = await cli('pending')
  expect(pending.stdout).toContain(`consent to .openhands/setup.sh of ${host.url}/team/${decision}.git`)
  const [, id = ''] = /slipway trust (\w+)/.exec(pending.stdout) ?? []
  expect(await cli('trust')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`    | echo ${decision} > .git/ran`),
  })
  const decided = await cli('trust', id, flag)
  expect(decided).toMatchObject({ code: 0, stdout: expect.stringContaining(`${decision}  ${host.url}`) })
  const task = await finish()
  expect([task.status, task.detail ?? '']).toEqual(['READY', expect.stringMatching(detail)])
  expect((await cli('pending')).stdout).not.toContain('consent')
})
