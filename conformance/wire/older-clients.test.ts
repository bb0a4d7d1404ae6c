import { expect } from 'vitest'
import {
  bashStep,
  type ConversationInfo,
  finishStep,
  SocketClient,
  scriptedModel,
} from '../support/agent-driver.ts'
import type { ApiEvent } from '../support/agent-server-api.ts'
import { makeRepositoryCommand, openWireServer, sessionKey, wireCase } from './wire-server.ts'

/** Older clients: a third-party one, the web client and the app server of 2025, automation. */
const wire = openWireServer()
const path = (id: string, rest = '') => `/api/conversations/${id}${rest}`
const openSocket = (id: string, query: string, headers: Record<string, string> = {}) =>
  new SocketClient(`${wire.url.replace(/^http/, 'ws')}/sockets/events/${id}?${query}`, headers)
const appendKey = (query: string) =>
  sessionKey === undefined ? query : `${query}&session_api_key=${sessionKey}`
const isEventShaped = ({ id, timestamp, source }: ApiEvent) =>
  typeof id === 'string' &&
  typeof timestamp === 'string' &&
  ['agent', 'user', 'environment'].includes(String(source))

wireCase(
  'ALL A.3 third-party client',
  'creates with an analyzer inside the agent, and talks over the socket',
  async () => {
    const made = await wire.request<ConversationInfo>('POST', '/api/conversations', {
      body: {
        agent: {
          kind: 'Agent',
          llm: scriptedModel([finishStep('Heard.')]),
          tools: [{ name: 'terminal' }],
          security_analyzer: { kind: 'LLMSecurityAnalyzer' },
        },
        workspace: { working_dir: wire.directory },
        secrets: { TOKEN: { kind: 'StaticSecret', value: 'old-canary' } },
        max_iterations: 500,
      },
    })
    expect(made.status).toBeLessThan(300)
    const { id } = made.body
    await using client = openSocket(id, 'resend_all=true', wire.headers)
    await client.waitUntil((events) => events.length > 0)
    const content = [{ type: 'text', text: 'hello' }]
    client.socket.send(
      JSON.stringify({ role: 'user', content, extended_content: [{ type: 'text', text: 'context' }] }),
    )
    await client.waitUntil((events) => events.some(({ value }) => value === 'finished'))
    expect(client.events().filter((event) => !isEventShaped(event))).toEqual([])
    const { items } = await wire.requestOrThrow<{ items: ApiEvent[] }>('GET', path(id, '/events/search'), {
      query: { limit: '100' },
    })
    expect(items.find(({ kind }) => kind === 'MessageEvent')).toMatchObject({ llm_message: { content } })
    for (const [verb, body] of [
      ['secrets', { secrets: { B: { kind: 'StaticSecret', value: 'old-canary' } } }],
      ['confirmation_policy', { policy: { kind: 'NeverConfirm' } }],
      ['security_analyzer', { security_analyzer: null }],
      ['ask_agent', { question: 'x' }],
      ['generate_title', { max_length: 50, llm: null }],
      ['pause', {}],
      ['run', {}],
    ] as const)
      expect([verb, await wire.requestStatus('POST', path(id, `/${verb}`), { body })]).toEqual([verb, 200])
    await wire.request('POST', path(id, '/interrupt'))
  },
)

wireCase(
  'ALL A.3 third-party client',
  'puts paths behind the routes of files, with a double slash',
  async () => {
    const file = `${wire.directory}/third.txt`
    const body = new FormData()
    body.append('file', new Blob(['third']), 'third.txt')
    expect(await wire.requestStatus('POST', `/api/file/upload/${file}`, { body })).toBe(200)
    const response = await fetch(`${wire.url}/api/file/download/${file}`, { headers: wire.headers })
    expect([response.status, await response.text()]).toEqual([200, 'third'])
  },
)

wireCase('ALL A.3 third-party client', 'asks for commands from a page id that it makes up', async () => {
  const output = await wire.requestOrThrow<{ id: string; command_id: string; timestamp: string }>(
    'POST',
    '/api/bash/execute_bash_command',
    { body: { command: 'echo made-up', timeout: 20 } },
  )
  const hex = (id: string) => id.replaceAll('-', '')
  const moment = output.timestamp.replaceAll(/\D/g, '').slice(0, 14)
  const page_id = `${moment}_BashOutput_${hex(output.command_id)}_${hex(output.id)}`
  const query = { command_id__eq: output.command_id, kind__eq: 'BashOutput', page_id }
  const { items } = await wire.requestOrThrow<{ items: { id: string }[] }>(
    'GET',
    '/api/bash/bash_events/search',
    {
      query,
    },
  )
  // From that position or after it, never from the beginning.
  expect(items.every(({ id }) => id === output.id)).toBe(true)
})

wireCase(
  'ALL A.4 old GUI and app server',
  'reads the whole history over a socket with resend_all',
  async () => {
    const { id } = await wire.createFinished([bashStep('true'), finishStep()])
    const history = await wire.driver.getEvents(id)
    await using client = openSocket(id, appendKey('resend_all=true'))
    const events = await client.waitUntil(({ length }) => length > history.length)
    expect(events.filter((event) => !isEventShaped(event))).toEqual([])
    const statuses = events.flatMap(({ key, value }) => {
      if (key === 'full_state') return [(value as ConversationInfo).execution_status]
      return key === 'execution_status' ? [value] : []
    })
    expect(statuses).toContain('finished')
  },
)

wireCase('ALL A.4 old GUI and app server', 'uploads, changes and differences by encoded path', async () => {
  const repository = `${wire.directory}/old`
  await wire.runCommand(`${makeRepositoryCommand(repository)} && echo two >> '${repository}/tracked.txt'`)
  const body = new FormData()
  body.append('file', new Blob(['x']), 'any')
  expect(
    await wire.requestStatus('POST', `/api/file/upload/${encodeURIComponent(`${repository}/new.txt`)}`, {
      body,
    }),
  ).toBe(200)
  expect(await wire.requestOrThrow('GET', `/api/git/changes/${encodeURIComponent(repository)}`)).toEqual([
    { status: 'ADDED', path: 'new.txt' },
    { status: 'UPDATED', path: 'tracked.txt' },
  ])
  const diff = await wire.requestOrThrow(
    'GET',
    `/api/git/diff/${encodeURIComponent(`${repository}/tracked.txt`)}`,
  )
  expect(diff).toEqual({ modified: 'one\ntwo', original: 'one' })
})

wireCase('ALL A.4 old GUI and app server', 'creates, lists by id, names, titles and deletes', async () => {
  const { id } = await wire.createIdle()
  expect(await wire.requestOrThrow('GET', '/api/conversations', { query: { ids: id } })).toMatchObject([
    { id },
  ])
  expect(await wire.requestStatus('PATCH', path(id), { body: { title: 'Old' } })).toBe(200)
  expect(
    await wire.requestOrThrow('POST', path(id, '/generate_title'), { body: { max_length: 50 } }),
  ).toHaveProperty('title')
  expect(await wire.requestStatus('GET', '/alive', { isAnonymous: true })).toBe(200)
  expect(await wire.requestStatus('DELETE', path(id))).toBe(200)
})

wireCase('ALL A.5 automation', 'starts work by REST alone and reads what came of it', async () => {
  for (const probe of ['/server_info', '/ready', '/health'])
    expect(await wire.requestStatus('GET', probe)).toBe(200)
  await wire.upload(`${wire.directory}/task.txt`, 'do it')
  const { id } = await wire.createFinished([bashStep('cat task.txt'), finishStep('Read.')])
  expect(await wire.requestOrThrow('GET', path(id, '/agent_final_response'))).toEqual({ response: 'Read.' })
  const count = await wire.requestOrThrow<number>('GET', path(id, '/events/count'))
  const { items } = await wire.requestOrThrow<{ items: ApiEvent[] }>('GET', path(id, '/events/search'))
  expect(items).toHaveLength(count)
  expect(JSON.stringify(items)).toContain('do it')
})
