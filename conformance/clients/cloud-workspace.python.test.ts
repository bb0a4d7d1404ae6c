import { expect, test } from 'vitest'
import { MockProvider } from '../support/mock-provider.ts'
import { findPython, PythonPrograms } from '../support/python.ts'
import { createUser, openSandboxServer } from '../support/sandbox-server/user.ts'

const python = findPython()
if (python === undefined) console.warn('SKIPPED: .ci/python has not installed the Python SDK')

interface Played {
  readonly sandbox: string
  readonly key: string
  readonly host: string
  readonly conversation: string
  readonly [member: string]: unknown
}

const command = 'echo "the token has $(printf %s "$CLOUD_TOKEN" | wc -c) characters: $CLOUD_TOKEN"'

test.skipIf(python === undefined)(
  'OpenHandsCloudWorkspace of the Python SDK works in a sandbox with its own network',
  { timeout: 300_000 },
  async () => {
    await using provider = await MockProvider.open()
    provider.replies = [
      { calls: [{ name: 'terminal', arguments: { command, security_risk: 'LOW' } }] },
      { calls: [{ name: 'finish', arguments: { message: 'Done.' } }] },
    ]
    const { port } = new URL(provider.url)
    await using place = await openSandboxServer({ env: { SLIPWAY_SANDBOX_HOST_PORTS: port } })
    const { server } = place
    const user = await createUser(server)
    const llm = { model: 'openai/gpt-4o', api_key: 'sk-of-the-user', base_url: `${provider.url}/v1` }
    await user.setModel(llm)
    const fast = { llm: { model: 'openai/gpt-4o-mini', api_key: 'sk-of-the-profile' } }
    await user.requestOrThrow('POST', '/api/v1/settings/profiles/fast', fast)
    await user.requestOrThrow('POST', '/api/v1/secrets', { name: 'CLOUD_TOKEN', value: 'cloud-canary-4711' })
    await using programs = await PythonPrograms.open(String(python), server.data)
    const request = { url: server.url, key: user.key, model_url: provider.url, directory: server.data }
    const ask = async (host: string) => {
      const statuses = []
      for (const headers of [{}, { cookie: `session_api_key=${user.key}` }])
        statuses.push((await fetch(`${host}/api/conversations/count`, { headers })).status)
      return statuses
    }
    const played = await programs.run<Played>('cloud_workspace', request, ask)

    expect(played).toMatchObject({
      host: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      models: [
        ['openai/gpt-4o', 'sk-of-the-user', `${provider.url}/v1`],
        ['openai/gpt-4o-mini', 'sk-of-the-profile', null],
      ],
      temperature: 0.5,
      secrets: ['CLOUD_TOKEN'],
      command: [3, 'from\n', 'here\n'],
      leaks: [],
      seen: [401, 401],
    })
    expect(String(played.observations)).toContain('the token has 17 characters: <secret-hidden>')
    expect(provider.requests[0]?.headers.authorization).toBe('Bearer sk-of-the-user')
    expect(JSON.stringify(provider.requests)).not.toContain('canary')

    // The conversation was received by webhook; its sandbox is deleted, and its port closed.
    const stored = JSON.stringify(
      await user.get(`/api/v1/conversation/${played.conversation}/events/search?limit=100`),
    )
    expect(stored).toContain('the token has 17 characters')
    expect(await user.getSandbox(played.sandbox)).toBeUndefined()
    await expect(fetch(`${played.host}/alive`)).rejects.toThrow('fetch failed')
    for (const secret of ['canary', played.key]) {
      expect(stored).not.toContain(secret)
      expect(server.output()).not.toContain(secret)
    }
  },
)
