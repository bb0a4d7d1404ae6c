import { expect } from 'vitest'
import { bash, Client, finish, type Info, scripted } from '../support/agent-driver.ts'
import type { Event } from '../support/agent-server-api.ts'
import { key, openWire, prove, repositoryIn } from './wire-server.ts'

/** Clients of other ages: a third-party one, the page and the app server of 2025, automation. */
const wire = openWire()
const path = (id: string, rest = '') => `/api/conversations/${id}${rest}`
const socket = (id: string, query: string, headers: Record<string, string> = {}) =>
  new Client(`${wire.url.replace(/^http/, 'ws')}/sockets/events/${id}?${query}`, headers)
const withKey = (query: string) => (key === undefined ? query : `${query}&session_api_key=${key}`)
const looksLikeOne = ({ id, timestamp, source }: Event) =>
  typeof id === 'string' &&
  typeof timestamp === 'string' &&
  ['agent', 'user', 'environment'].includes(String(source))

prove(
  'ALL A.3 third-party client',
  'creates with an analyzer inside the agent, and talks over the socket',
  async () => {
    const made = await wire.ask<Info>('POST', '/api/conversations', {
      body: {
        agent: {
          kind: 'Agent',
          llm: scripted([finish('Heard.')]),
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
    await using client = socket(id, 'resend_all=true', wire.headers)
    await client.until((events) => events.length > 0)
    const content = [{ type: 'text', text: 'hello' }]
    client.socket.send(
      JSON.stringify({ role: 'user', content, extended_content: [{ type: 'text', text: 'context' }] }),
    )
    await client.until((events) => events.some(({ value }) => value === 'finished'))
    expect(client.events().filter((event) => !looksLikeOne(event))).toEqual([])
    const { items } = await wire.must<{ items: Event[] }>('GET', path(id, '/events/search'), {
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
      expect([verb, await wire.status('POST', path(id, `/${verb}`), { body })]).toEqual([verb, 200])
    await wire.ask('POST', path(id, '/interrupt'))
  },
)

prove(
  'ALL A.3 third-party client',
  'puts paths behind the routes of files, with a double slash',
  async () => {
    const file = `${wire.directory}/third.txt`
    const body = new FormData()
    body.append('file', new Blob(['third']), 'third.txt')
    expect(await wire.status('POST', `/api/file/upload/${file}`, { body })).toBe(200)
    const response = await fetch(`${wire.url}/api/file/download/${file}`, { headers: wire.headers })
    expect([response.status, await response.text()]).toEqual([200, 'third'])
  },
)

prove('ALL A.3 third-party client', 'asks for commands from a page id that it makes up', async () => {
  const output = await wire.must<{ id: string; command_id: string; timestamp: string }>(
    'POST',
    '/api/bash/execute_bash_command',
    { body: { command: 'echo made-up', timeout: 20 } },
  )
  const hex = (id: string) => id.replaceAll('-', '')
  const moment = output.timestamp.replaceAll(/\D/g, '').slice(0, 14)
  const page_id = `${moment}_BashOutput_${hex(output.command_id)}_${hex(output.id)}`
  const query = { command_id__eq: output.command_id, kind__eq: 'BashOutput', page_id }
  const { items } = await wire.must<{ items: { id: string }[] }>('GET', '/api/bash/bash_events/search', {
    query,
  })
  // From there or after it, never from the start of everything.
  expect(items.every(({ id }) => id === output.id)).toBe(true)
})

prove('ALL A.4 old GUI and app server', 'reads the whole history over a socket with resend_all', async () => {
  const { id } = await wire.played([bash('true'), finish()])
  const history = await wire.drive.events(id)
  await using client = socket(id, withKey('resend_all=true'))
  const events = await client.until(({ length }) => length > history.length)
  expect(events.filter((event) => !looksLikeOne(event))).toEqual([])
  const statuses = events.flatMap(({ key, value }) => {
    if (key === 'full_state') return [(value as Info).execution_status]
    return key === 'execution_status' ? [value] : []
  })
  expect(statuses).toContain('finished')
})

prove('ALL A.4 old GUI and app server', 'uploads, changes and differences by encoded path', async () => {
  const repository = `${wire.directory}/old`
  await wire.bash(`${repositoryIn(repository)} && echo two >> '${repository}/tracked.txt'`)
  const body = new FormData()
  body.append('file', new Blob(['x']), 'any')
  expect(
    await wire.status('POST', `/api/file/upload/${encodeURIComponent(`${repository}/new.txt`)}`, { body }),
  ).toBe(200)
  expect(await wire.must('GET', `/api/git/changes/${encodeURIComponent(repository)}`)).toEqual([
    { status: 'ADDED', path: 'new.txt' },
    { status: 'UPDATED', path: 'tracked.txt' },
  ])
  const diff = await wire.must('GET', `/api/git/diff/${encodeURIComponent(`${repository}/tracked.txt`)}`)
  expect(diff).toEqual({ modified: 'one\ntwo\n', original: 'one\n' })
})

prove('ALL A.4 old GUI and app server', 'creates, lists by id, names, titles and deletes', async () => {
  const { id } = await wire.idle()
  expect(await wire.must('GET', '/api/conversations', { query: { ids: id } })).toMatchObject([{ id }])
  expect(await wire.status('PATCH', path(id), { body: { title: 'Old' } })).toBe(200)
  expect(await wire.must('POST', path(id, '/generate_title'), { body: { max_length: 50 } })).toHaveProperty(
    'title',
  )
  expect(await wire.status('GET', '/alive', { isAnonymous: true })).toBe(200)
  expect(await wire.status('DELETE', path(id))).toBe(200)
})

prove('ALL A.5 automation', 'starts work by REST alone and reads what came of it', async () => {
  for (const probe of ['/server_info', '/ready', '/health']) expect(await wire.status('GET', probe)).toBe(200)
  await wire.upload(`${wire.directory}/task.txt`, 'do it')
  const { id } = await wire.played([bash('cat task.txt'), finish('Read.')])
  expect(await wire.must('GET', path(id, '/agent_final_response'))).toEqual({ response: 'Read.' })
  const count = await wire.must<number>('GET', path(id, '/events/count'))
  const { items } = await wire.must<{ items: Event[] }>('GET', path(id, '/events/search'))
  expect(items).toHaveLength(count)
  expect(JSON.stringify(items)).toContain('do it')
})
