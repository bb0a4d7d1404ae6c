import { execFileSync } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { must } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { systemClock } from '@slipway/shared/time'
import { expect, test } from 'vitest'
import { openTestServer } from '../testing/test-server.ts'
import { renewSandbox } from './renew-sandbox.ts'

const slow = { timeout: 120_000 }

/** Writes the token that the agent has of the provider into a file of the project. */
const showToken = (id: string) => ({
  tool_calls: [
    { id, name: 'terminal', arguments: { command: 'printf %s "$GITHUB_TOKEN" | sha256sum > token.txt' } },
  ],
})

test(
  'a sandbox is told again what git was told, with what changed meanwhile and without what it chose itself',
  slow,
  async () => {
    await using stage = await openTestServer()
    const identify = (git_user_name: string, git_user_email: string) => {
      stage.accounts.currentSettings = { ...stage.accounts.currentSettings, git_user_name, git_user_email }
    }
    const useToken = (token: string) => {
      stage.accounts.tokens = { github: { token: new Secret(token) } }
    }
    identify("O'Neil $(id)", 'o@n.example')
    useToken('old-token-0000')
    stage.accounts.script = [showToken('1'), { text: 'One.' }, showToken('2'), { text: 'Two.' }]
    const task = await stage.start({
      git_provider: 'github',
      initial_message: { content: [{ type: 'text', text: 'Show it.' }] },
    })
    expect(task).toMatchObject({ status: 'READY' })
    const id = String(task.app_conversation_id)
    const sandbox = stage.sandboxes.getSandbox('sb-1')
    const home = join(sandbox.directory, 'home')
    const git = (...args: string[]) =>
      execFileSync('git', ['config', '--global', ...args], { env: { PATH: process.env.PATH, HOME: home } })
        .toString()
        .trim()
    const digest = (token: string) => `${execFileSync('sha256sum', { input: token }).toString()}`
    const shown = () => readFileSync(join(sandbox.directory, 'project', 'token.txt'), 'utf8')
    const idle = async () =>
      await stage.until(
        () => stage.conversation(id),
        ({ execution_status: status }) => status === 'finished' || status === 'idle',
      )
    await idle()
    expect(shown()).toBe(digest('old-token-0000'))
    const renew = async () => {
      await stage.sandboxes.pause(sandbox.row)
      await stage.sandboxes.resume(sandbox.row)
      const row = await stage.sandboxes.waitSettled('sb-1', AbortSignal.timeout(30_000))
      const connection = must(stage.sandboxes.getConnection(row), 'a connection')
      const { controlPlane, storage, accounts } = stage
      const deps = { controlPlane, storage, accounts, clock: systemClock, log: () => {} }
      return await renewSandbox(deps, row, connection, AbortSignal.timeout(30_000))
    }

    // A home directory that does not outlive its processes.
    rmSync(join(home, '.gitconfig'))
    useToken('new-token-1111')
    expect(await renew()).toBeUndefined()
    expect(git('user.name')).toBe("O'Neil $(id)")
    expect(git('user.email')).toBe('o@n.example')
    expect(git('safe.directory')).toBe(join(sandbox.directory, 'project'))
    const message = { content: [{ type: 'text', text: 'Show it again.' }] }
    expect((await stage.call('POST', `/app-conversations/${id}/send-message`, message)).status).toBe(200)
    await stage.until(
      async () => shown(),
      (text) => text === digest('new-token-1111'),
    )
    await idle()

    // What was changed in the sandbox stays, and what is still ours follows the settings.
    git('user.name', 'Cid')
    identify('Bea', 'bea@n.example')
    expect(await renew()).toBeUndefined()
    expect(git('user.name')).toBe('Cid')
    expect(git('user.email')).toBe('bea@n.example')
    expect(git('--get-all', 'safe.directory').split('\n')).toHaveLength(1)

    // What is lost is said.
    const connection = must(stage.sandboxes.getConnection(sandbox.row), 'a connection')
    await connection.client.call('deleteConversation', { params: { conversation_id: id } })
    expect(await renew()).toContain('has lost 1 of its conversations')
  },
)
