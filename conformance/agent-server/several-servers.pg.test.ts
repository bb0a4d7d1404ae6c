import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { bashStep, eventLabel, findLogIssues, finishStep, scriptedModel } from '../support/agent-driver.ts'
import { messageLine, toJsonLines } from '../support/agent-server-api.ts'
import { ServerGroup } from '../support/server-group.ts'

vi.setConfig({ testTimeout: 300_000, hookTimeout: 180_000 })
const patience = { timeout: 150_000, interval: 100 }
const isPostgres = process.env.SLIPWAY_TEST_DATABASE_URL !== undefined
if (!isPostgres)
  console.warn('SKIPPED: SLIPWAY_TEST_DATABASE_URL is not set; run the tests by `.ci/postgres <command>`')

describe.skipIf(!isPostgres)('several agent servers on one database', () => {
  let group: ServerGroup
  beforeAll(async () => {
    group = await ServerGroup.open(2)
  })
  afterAll(async () => {
    await group[Symbol.asyncDispose]()
  })

  test('a conversation that one server runs is read, streamed and commanded through another', async () => {
    const [a, b] = [group.member(0), group.member(1)]
    const { id } = await a.driver.create({ llm: scriptedModel([bashStep('echo one'), finishStep('Well.')]) })
    await using socket = b.driver.openSocket(`/sockets/events/${id}?after=0`)
    // Commands and messages reach the owner through the other server.
    expect(await b.driver.sendMessage(id, [{ type: 'text', text: 'Begin.' }])).toMatchObject({ status: 200 })
    const events = await b.driver.waitUntilIdle(id)
    expect(events.map(eventLabel)).toContain('result:terminal')
    expect(findLogIssues(events)).toEqual([])
    expect((await group.ownerOf(id))?.name).toBe(a.name)
    const frames = await socket.waitUntil((all) => all.filter(isStored).length === events.length)
    expect(frames.filter(isStored).map(({ event }) => (event as { id: string }).id)).toEqual(
      events.map((event) => event.id),
    )
    expect(await b.api.searchAll(id)).toEqual(await a.api.searchAll(id))
    expect((await b.driver.getInfo(id)).execution_status).toBe('finished')
    const renamed = await b.api.sendJson('PATCH', `/api/conversations/${id}`, { title: 'Renamed' })
    expect(renamed.status).toBe(200)
    expect((await a.driver.getInfo(id)).title).toBe('Renamed')
    // A refusal of the owner is passed on as it is.
    expect(await b.driver.post(id, 'navigate', { event_id: 'none' })).toEqual(
      await a.driver.post(id, 'navigate', { event_id: 'none' }),
    )
    const forked = await b.api.sendJson('POST', `/api/conversations/${id}/fork`, {})
    expect(forked.status).toBe(201)
    expect((await b.api.fetch(`/api/conversations/${id}`, { method: 'DELETE' })).status).toBe(200)
    expect((await a.api.fetch(`/api/conversations/${id}`)).status).toBe(404)
  })

  test('settings, secrets and profiles are those of all servers, whose changes are all kept', async () => {
    const [a, b] = [group.member(0), group.member(1)]
    const settings = { misc_settings_diff: { theme: 'dark' } }
    expect((await a.api.sendJson('PATCH', '/api/settings', settings)).status).toBe(200)
    expect(await (await b.api.fetch('/api/settings')).json()).toMatchObject({
      misc_settings: { theme: 'dark' },
    })
    const names = Array.from({ length: 10 }, (_, n) => `SHARED_${n}`)
    const saved = names.map((name, n) =>
      group.member(n).api.sendJson('PUT', '/api/settings/secrets', { name, value: `value of ${name}` }),
    )
    expect(new Set((await Promise.all(saved)).map(({ status }) => status))).toEqual(new Set([200]))
    for (const { api } of [a, b])
      for (const name of names)
        expect(await (await api.fetch(`/api/settings/secrets/${name}`)).text()).toBe(`value of ${name}`)
    const llm = { model: 'openai/shared', api_key: 'sk-shared' }
    expect((await a.api.sendJson('POST', '/api/profiles/shared', { llm })).status).toBe(201)
    expect(await (await b.api.fetch('/api/profiles')).json()).toMatchObject({
      profiles: [expect.objectContaining({ name: 'shared', api_key_set: true })],
    })
    expect((await b.api.fetch('/api/profiles/shared', { method: 'DELETE' })).status).toBe(200)
    expect((await a.api.fetch('/api/profiles/shared')).status).toBe(404)
  })

  test('a server with another key refuses to start, with the next step', async () => {
    await expect(
      group.startOther('other-key', { SLIPWAY_SECRET_KEY: 'the secret key of another server' }),
    ).rejects.toThrow(
      /was sealed with another key: start every server with the same SLIPWAY_SECRET_KEY, or with the secret\.key of the first one/,
    )
  })

  test('commands and files of a conversation are those of its owner, through any server', async () => {
    const [a, b] = [group.member(0), group.member(1)]
    const { id } = await a.driver.create({ llm: scriptedModel([finishStep()]) })
    const below = `/api/conversations/${id}`
    const started = await b.api.sendJson('POST', `${below}/bash/start_bash_command`, { command: 'sleep 300' })
    expect(started.status).toBe(200)
    const { id: command } = started.body as { id: string }
    const executed = await b.api.sendJson('POST', `${below}/bash/execute_bash_command`, {
      command: 'pwd; echo $PPID > owner; echo kept > page.html',
    })
    const directory = (executed.body as { stdout: string }).stdout.trim()
    expect(directory).toMatch(/^\//)
    for (const { api } of [a, b]) {
      const search = await api.fetch(`${below}/bash/bash_events/search?kind__eq=BashCommand`)
      const { items } = (await search.json()) as { items: { id: string }[] }
      expect(items.map((one) => one.id)).toContain(command)
    }
    const parent = Number(await readFile(`${directory}/owner`, 'utf8'))
    expect(await isDescendant(parent, a.process.pid ?? 0)).toBe(true)
    expect(
      (await b.api.fetch(`${below}/bash/bash_commands/${command}/stop`, { method: 'POST' })).status,
    ).toBe(200)

    // More than what is buffered on the way, in both directions.
    const bytes = randomBytes(3_000_000)
    const form = new FormData()
    form.set('file', new Blob([bytes]), 'any "name"')
    const path = encodeURIComponent(`${directory}/big`)
    const uploaded = await b.api.fetch(`${below}/file/upload?path=${path}`, { method: 'POST', body: form })
    expect(await uploaded.json()).toEqual({ success: true, file_size: bytes.length })
    const download = await b.api.fetch(`${below}/file/download?path=${path}`)
    expect(download.headers.get('content-disposition')).toContain('big')
    expect(bytes.equals(Buffer.from(await download.arrayBuffer()))).toBe(true)
    const noFile = await b.api.fetch(`${below}/file/upload?path=${path}`, { method: 'POST' })
    expect(noFile.status).toBe(422)
    const part = await b.api.fetch(`${below}/workspace/page.html`, { headers: { range: 'bytes=1-3' } })
    expect([part.status, part.headers.get('content-range'), await part.text()]).toEqual([
      206,
      'bytes 1-3/5',
      'ept',
    ])
    const outside = await b.api.fetch(`${below}/file/download?path=/etc/passwd`)
    expect([outside.status, await outside.text()]).toEqual(
      await a.api
        .fetch(`${below}/file/download?path=/etc/passwd`)
        .then(async (own) => [own.status, await own.text()]),
    )
    expect((await group.ownerOf(id))?.name).toBe(a.name)
  })

  test('a ticket opens through another server what it opens at the owner, and nothing else', async () => {
    const [a, b] = [group.member(0), group.member(1)]
    const { id } = await a.driver.create({ llm: scriptedModel([finishStep()]) })
    const below = `/api/conversations/${id}`
    const command = { command: 'mkdir site; echo page > site/a.txt; echo other > b.txt' }
    await a.api.sendJson('POST', `${below}/bash/execute_bash_command`, command)
    const { body } = await b.api.sendJson('POST', `${below}/workspace-ticket`, { path: 'site' })
    const query = new URL((body as { url: string }).url, b.process.url).search
    for (const { process: server } of [a, b]) {
      const get = async (path: string) => {
        const [response] = (await once(
          request(server.url, { path: `${below}${path}` }).end(),
          'response',
        )) as [IncomingMessage]
        return [response.statusCode, await text(response)]
      }
      expect(await get(`/workspace/site/a.txt${query}`)).toEqual([200, 'page\n'])
      expect((await get(`/workspace/b.txt${query}`))[0]).toBe(403)
      for (const up of ['..', '%2e%2e']) {
        const path = `/workspace/${up}/${up}/${up}/file/download${query}&path=/etc/passwd`
        expect((await get(path))[0]).toBe(400)
      }
    }
    expect((await group.ownerOf(id))?.name).toBe(a.name)
  })

  test('a message through a socket of another server is run by the owner', async () => {
    const [a, b] = [group.member(0), group.member(1)]
    const { id } = await a.driver.create({ llm: scriptedModel([finishStep('Heard.')]) })
    await using socket = b.driver.openSocket(`/sockets/events/${id}`)
    await socket.waitUntil((all) => all.length > 0)
    socket.socket.send(JSON.stringify({ role: 'user', content: [{ type: 'text', text: 'Hello' }] }))
    await socket.waitUntil((all) => all.some((event) => eventLabel(event) === 'execution_status=finished'))
    expect((await group.ownerOf(id))?.name).toBe(a.name)
  })

  test('messages with one idempotency key through all servers are one message', async () => {
    const id = await group.member(0).api.import(toJsonLines(messageLine('a', '2026-01-01T00:00:00', 'first')))
    const send = (n: number) =>
      group.member(n).api.fetch(`/api/conversations/${id}/events`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': 'one' },
        body: JSON.stringify({ content: [{ type: 'text', text: 'only once' }] }),
      })
    const responses = await Promise.all(Array.from({ length: 8 }, (_, n) => send(n)))
    expect(responses.map(({ status }) => status)).toEqual(responses.map(() => 200))
    expect(await group.member(1).api.count(id)).toBe(2)
  })

  test('a request that claims to come from a server is not passed on, and its key is asked for', async () => {
    const [a, b] = [group.member(0), group.member(1)]
    const { id } = await a.driver.create({ llm: scriptedModel([finishStep()]) })
    const path = `/api/conversations/${id}/run`
    const claimed = await b.api.fetch(path, { method: 'POST', headers: { 'x-slipway-peer': '1' } })
    expect(claimed.status).toBe(503)
    expect(claimed.headers.get('retry-after')).toBe('1')
    const headers = { 'x-slipway-peer': '1', 'x-session-api-key': 'wrong' }
    expect((await b.api.fetch(path, { method: 'POST', headers })).status).toBe(401)
  })

  test('a server that stops gives its runs to another, which continues with them', async () => {
    await using own = await ServerGroup.open(2)
    const [a, b] = [own.member(0), own.member(1)]
    const script = [...Array.from({ length: 15 }, (_, n) => bashStep(`echo ${n}`)), finishStep()]
    const { id } = await a.driver.create(
      { llm: scriptedModel(script) },
      { stuck_detection: false, initial_message: { content: [{ type: 'text', text: 'Begin.' }] } },
    )
    await b.driver.waitForEvent(id, ({ kind }) => kind === 'ObservationEvent')
    await a.process.stop()
    await expect.poll(async () => (await b.driver.getInfo(id)).execution_status, patience).toBe('finished')
    const events = await b.driver.getEvents(id)
    expect(findLogIssues(events)).toEqual([])
    expect((await own.ownerOf(id))?.name).toBe(b.name)
  })

  test('while the database is away calls are refused as retryable, and afterwards the runs continue', async () => {
    await using own = await ServerGroup.open(2)
    const [a, b] = [own.member(0), own.member(1)]
    const script = [...Array.from({ length: 15 }, (_, n) => bashStep(`echo ${n}`)), finishStep()]
    const { id } = await a.driver.create(
      { llm: scriptedModel(script) },
      { stuck_detection: false, initial_message: { content: [{ type: 'text', text: 'Begin.' }] } },
    )
    await b.driver.waitForEvent(id, ({ kind }) => kind === 'ObservationEvent')
    await own.cutDatabase()
    for (const { api } of own.members)
      await expect
        .poll(async () => {
          const response = await api.fetch(`/api/conversations/${id}`)
          return response.status === 503 && response.headers.has('retry-after')
        }, patience)
        .toBe(true)
    await own.restoreDatabase()
    const status = async () => (await b.driver.getInfo(id).catch(() => undefined))?.execution_status
    await expect.poll(status, patience).toBe('finished')
    expect(findLogIssues(await b.driver.getEvents(id))).toEqual([])
  })
})

function isStored(frame: object): boolean {
  return 'position' in frame
}

async function isDescendant(pid: number, ancestor: number): Promise<boolean> {
  for (let at = pid; at > 1; ) {
    if (at === ancestor) return true
    const status = await readFile(`/proc/${at}/stat`, 'utf8')
    at = Number(status.slice(status.lastIndexOf(')') + 2).split(' ')[1])
  }
  return false
}
