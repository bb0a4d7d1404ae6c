import { CallError } from '@slipway/client'
import { Secret } from '@slipway/shared/redaction'
import { FakeClock } from '@slipway/shared/time/testing'
import { expect, test } from 'vitest'
import { gitTokenDescription } from './git-token.ts'
import { renewGitCommand } from './prepare-workspace.ts'
import { type RenewalDeps, renewSandbox } from './renew-sandbox.ts'

const ids = ['5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0001', '5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0002']
const members = JSON.stringify({ selected_repository: 'o/n', git_provider: 'github' })

test('a conversation that refuses its token keeps no other from it, and the log does not have it', async () => {
  const logged: unknown[] = []
  const told: string[] = []
  const secret_registry = { secret_sources: { GITHUB_TOKEN: { description: gitTokenDescription } } }
  const answers: Record<string, (params: { conversation_id: string }) => unknown> = {
    getConversations: () => ids.map((id) => ({ id, secret_registry })),
    updateSecrets: ({ conversation_id }) => {
      if (conversation_id === ids[0])
        throw new CallError(422, 'Invalid value: to+ken-canary, key session-canary')
      told.push(conversation_id)
    },
    startBashCommand: () => ({ id: 'command' }),
    searchBashEvents: () => ({ items: [{ kind: 'BashOutput', order: 0, exit_code: 0 }] }),
  }
  const client = {
    call: async (name: string, { params }: { params: { conversation_id: string } }) =>
      answers[name]?.(params),
  }
  const deps = {
    controlPlane: {
      conversations: { listBySandbox: async () => ids.map((id) => ({ id, owner: 'ann', members })) },
    },
    storage: { conversations: { get: async () => [] } },
    accounts: {
      userSettings: { read: async () => ({}) },
      gitProviders: { getToken: async () => ({ token: new Secret('to+ken-canary') }) },
    },
    clock: new FakeClock(0),
    log: (...entry: unknown[]) => logged.push(entry),
  } as unknown as RenewalDeps
  const target = { client, url: 'http://a', key: new Secret('session-canary') }
  const row = { id: 'sb-1', owner: 'ann' } as Parameters<typeof renewSandbox>[1]
  const note = await renewSandbox(deps, row, target as never, new AbortController().signal)
  expect(note).toBe('It could not be told its settings again.')
  expect(told).toEqual([ids[1]])
  expect(JSON.stringify(logged)).toContain('Invalid value')
  expect(JSON.stringify(logged)).not.toContain('canary')
})

test('the command for a sandbox with a thousand projects fits into one argument of a program', () => {
  const projects = Array.from(
    { length: 1_000 },
    (_, n) => `/workspace/project/${'0'.repeat(28)}${n}/repository`,
  )
  expect(renewGitCommand({ name: 'Ann' }, projects).length).toBeLessThan(128 * 1024)
})
