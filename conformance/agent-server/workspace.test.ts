import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { stat } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { scriptedModel } from '../support/agent-driver.ts'
import { OwnAgentServer, openAgentFixture } from '../support/agent-fixture.ts'

/** Commands and files, as clients use them: everything over HTTP, the checks included. */
const { server, api, driver, directory } = await openAgentFixture()

interface Output {
  readonly id: string
  readonly command_id: string
  readonly order: number
  readonly exit_code: number | null
  readonly stdout: string | null
  readonly stderr: string | null
  readonly kind: string
}

async function runCommand(command: string, more: object = {}): Promise<Output & { stdout: string }> {
  const { status, body } = await api.sendJson('POST', '/api/bash/execute_bash_command', { command, ...more })
  if (status !== 200) throw new Error(`the command answered ${status}: ${JSON.stringify(body)}`)
  const output = body as Output
  return { ...output, stdout: output.stdout ?? '' }
}

async function startCommand(command: string, more: object = {}) {
  const { status, body } = await api.sendJson('POST', '/api/bash/start_bash_command', { command, ...more })
  expect(status).toBe(200)
  return body as { readonly id: string; readonly timestamp: string }
}

async function searchBashEvents(query: Readonly<Record<string, string>>) {
  const path = `/api/bash/bash_events/search?${new URLSearchParams(query)}`
  const { status, body } = await api.requestJson<{ items: Output[]; next_page_id: string | null }>(path)
  if (status !== 200) throw new Error(`search answered ${status}: ${JSON.stringify(body)}`)
  return body
}

/** Waits like clients do: polls new events until there is an exit code. */
async function waitForOutput(commandId: string): Promise<Output[]> {
  const outputs: Output[] = []
  for (;;) {
    const query = { kind__eq: 'BashOutput', command_id__eq: commandId, limit: '100' }
    const last = outputs.at(-1)
    const { items } = await searchBashEvents(
      last === undefined ? query : { ...query, order__gt: String(last.order) },
    )
    outputs.push(...items)
    if (outputs.at(-1)?.exit_code != null) return outputs
    await sleep(50)
  }
}

function upload(path: string, content: string | Uint8Array<ArrayBuffer>, name = 'any') {
  const form = new FormData()
  form.append('file', new Blob([content]), name)
  return api.requestJson(`/api/file/upload?${new URLSearchParams({ path })}`, { method: 'POST', body: form })
}

function download(path: string) {
  return api.fetch(`/api/file/download?${new URLSearchParams({ path })}`)
}

describe('commands', () => {
  test('starting a command returns at once, and its output is found by polling', async () => {
    const command = 'echo out; echo err >&2; exit 7'
    const started = await startCommand(command, { cwd: '/', timeout: 20 })
    expect(started).toEqual({
      command,
      cwd: '/',
      timeout: 20,
      id: expect.stringMatching(/^[0-9a-f]{32}$/),
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
      kind: 'BashCommand',
    })
    expect(Object.keys(started).at(-1)).toBe('kind')
    const outputs = await waitForOutput(started.id)
    expect(outputs.map(({ order }) => order)).toEqual([...outputs.keys()])
    expect(outputs.map(({ stdout }) => stdout ?? '').join('')).toBe('out\n')
    expect(outputs.map(({ stderr }) => stderr ?? '').join('')).toBe('err\n')
    expect(outputs.at(-1)).toMatchObject({ exit_code: 7, command_id: started.id, kind: 'BashOutput' })
  })

  test('other members have defaults, and null counts as absent', async () => {
    const { command_id } = await runCommand('true', { cwd: null, timeout: null, unknown: 1 })
    const { body } = await api.requestJson(`/api/bash/bash_events/${command_id}`)
    expect(body).toMatchObject({ command: 'true', cwd: null, timeout: 300 })
  })

  test('the output of a long command is returned as one text', async () => {
    const { stdout, exit_code } = await runCommand('seq 1 400000')
    expect(exit_code).toBe(0)
    expect(stdout.length).toBe(2_688_895)
    expect(stdout.startsWith('1\n2\n')).toBe(true)
    expect(stdout.endsWith('\n400000\n')).toBe(true)
  })

  test('a timeout is -1, and no process of the command survives', async () => {
    const file = `${directory}/ticks`
    const output = await runCommand(`(while :; do echo x >> ${file}; sleep 0.05; done) & wait`, {
      timeout: 1,
    })
    expect(output.exit_code).toBe(-1)
    const count = async () => (await runCommand(`wc -l < ${file}`)).stdout
    const before = await count()
    await sleep(300)
    expect(await count()).toBe(before)
  })

  test('no command sees the keys of the server', async () => {
    const { stdout } = await runCommand('env')
    expect(stdout).not.toMatch(/SESSION_API_KEY|SECRET_KEY/)
  })

  test('an event is found by its id in every spelling; a batch has null for a missing one', async () => {
    const { id, command_id } = await runCommand('echo x')
    const dashed = id.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-').toUpperCase()
    expect((await api.requestJson(`/api/bash/bash_events/${dashed}`)).body).toMatchObject({
      id,
      stdout: 'x\n',
    })
    expect((await api.requestJson(`/api/bash/bash_events/${randomUUID()}`)).status).toBe(404)
    expect((await api.requestJson('/api/bash/bash_events/x')).status).toBe(404)
    const many = await api.requestJson(
      `/api/bash/bash_events/?ids=${id}&ids=${randomUUID()}&ids=${command_id}`,
    )
    expect(many.body).toMatchObject([{ id }, null, { id: command_id }])
    expect(
      await getWithBody('/api/bash/bash_events/', JSON.stringify([command_id, 'nothing'])),
    ).toMatchObject([{ id: command_id }, null])
  })

  test('a page id made by a client continues after the event that it names', async () => {
    const { id } = await startCommand('for i in 1 2; do head -c 1100000 /dev/zero | tr "\\0" x; done')
    const outputs = await waitForOutput(id)
    expect(outputs.length).toBeGreaterThanOrEqual(3)
    const { items } = await searchBashEvents({ command_id__eq: id, limit: '2' })
    const seen = items.at(-1) as Output & { readonly timestamp: string }
    const digits = seen.timestamp.replaceAll(/\D/g, '').slice(0, 14)
    const page_id = `${digits}_${seen.kind}_${id}_${seen.id}`
    const next = await searchBashEvents({ command_id__eq: id, page_id })
    expect(items.map((item) => item.id)).toEqual(outputs.slice(0, 2).map((item) => item.id))
    expect(next.items.map((item) => item.id)).toEqual(outputs.slice(2).map((item) => item.id))
    const wrong = await api.requestJson('/api/bash/bash_events/search?page_id=nonsense')
    expect(wrong).toMatchObject({ status: 422, body: { detail: [{ loc: ['query', 'page_id'] }] } })
  })

  test('an invalid command is refused with its location', async () => {
    for (const [body, loc] of [
      [{}, ['body', 'command']],
      [{ command: 5 }, ['body', 'command']],
      [{ command: 'true', timeout: 0 }, ['body', 'timeout']],
      [{ command: 'true', timeout: 1.5 }, ['body', 'timeout']],
    ] as const)
      expect(await api.sendJson('POST', '/api/bash/start_bash_command', body)).toMatchObject({
        status: 422,
        body: { detail: [{ loc }] },
      })
    for (const query of ['limit=101', 'limit=0', 'kind__eq=Other', 'order__gt=x', 'timestamp__lt=x'])
      expect((await api.requestJson(`/api/bash/bash_events/search?${query}`)).status).toBe(422)
  })

  test('a socket starts commands and sends events in order, with resend_mode=all also the earlier ones', async () => {
    await runCommand('echo before')
    await using live = driver.openSocket('/sockets/bash-events')
    await once(live.socket, 'open')
    live.socket.send('{"command":"echo live; echo wrong >&2"}')
    const isOver = (event: { readonly [member: string]: unknown }) =>
      event.kind === 'BashOutput' && event.exit_code !== null
    const events = await live.waitUntil((events) => events.some(isOver))
    expect(events[0]).toMatchObject({ kind: 'BashCommand', command: 'echo live; echo wrong >&2' })
    expect(events.at(-1)).toMatchObject({
      command_id: events[0]?.id,
      stdout: 'live\n',
      stderr: 'wrong\n',
      exit_code: 0,
    })
    live.socket.send('{"nothing":1}')
    live.socket.send('nonsense')
    const answers = await live.waitUntil(
      (events) => events.filter(({ kind }) => kind === 'BashError').length === 2,
    )
    expect(answers.at(-1)).toEqual({
      id: expect.any(String),
      timestamp: expect.any(String),
      code: 'ValidationError',
      detail: 'The frame is not valid JSON',
      kind: 'BashError',
    })
    await using again = driver.openSocket('/sockets/bash-events?resend_mode=all')
    const last = events.at(-1)?.id
    const all = await again.waitUntil((events) => events.some(({ id }) => id === last))
    const outputs = all.map(({ stdout }) => stdout)
    expect(outputs).toContain('before\n')
    expect(outputs.indexOf('before\n')).toBeLessThan(outputs.indexOf('live\n'))
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length)
  })

  test('clear removes finished commands', async () => {
    const { command_id } = await runCommand('true')
    const { body } = await api.requestJson<{ cleared_count: number }>('/api/bash/bash_events', {
      method: 'DELETE',
    })
    expect(body.cleared_count).toBeGreaterThanOrEqual(2)
    expect((await searchBashEvents({ command_id__eq: command_id })).items).toEqual([])
  })
})

describe('files', () => {
  test('uploads and downloads preserve bytes, create directories, and allow any name', async () => {
    const bytes = new Uint8Array(3_000_000).map((_, at) => (at * 7919) >> 3)
    const path = `${directory}/a/b/größe ✓ "quoted".bin`
    expect(await upload(path, bytes, '../../evil')).toEqual({
      status: 200,
      body: { success: true, file_size: 3_000_000 },
    })
    const response = await download(path)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('application/octet-stream')
    expect(response.headers.get('content-length')).toBe('3000000')
    expect(response.headers.get('content-disposition')).toContain(
      "filename*=UTF-8''gr%C3%B6%C3%9Fe%20%E2%9C%93%20%22quoted%22.bin",
    )
    expect(Buffer.from(await response.arrayBuffer()).equals(Buffer.from(bytes))).toBe(true)
    expect((await runCommand(`ls -A '${directory}/a/b' | wc -l`)).stdout.trim()).toBe('1')
  })

  test('the path may be in the URL: encoded, with its slashes, or without the first one', async () => {
    const form = () => {
      const form = new FormData()
      form.append('file', new Blob(['x']))
      return { method: 'POST', body: form }
    }
    const paths = [`${directory}/q1`, `${directory}/q 2`, `${directory}/deep/ü`]
    const spellings = [
      (path: string) => `/${path}`,
      (path: string) => encodeURIComponent(path),
      (path: string) => path.slice(1),
    ]
    for (const [at, path] of paths.entries()) {
      const spelled = spellings[at]?.(path) ?? ''
      const address = at === 1 ? spelled : spelled.split('/').map(encodeURIComponent).join('/')
      expect((await api.requestJson(`/api/file/upload/${address}`, form())).status).toBe(200)
      expect(await (await api.fetch(`/api/file/download/${address}`)).text()).toBe('x')
      expect(await (await download(path)).text()).toBe('x')
    }
  })

  test('an aborted upload leaves no file', async () => {
    const path = `${directory}/broken/half.bin`
    const url = new URL(`${server.url}/api/file/upload?${new URLSearchParams({ path })}`)
    const call = request(url, {
      method: 'POST',
      headers: {
        ...server.headers,
        'content-type': 'multipart/form-data; boundary=b',
        'content-length': 5_000_000,
      },
    })
    call.on('error', () => {})
    call.write('--b\r\ncontent-disposition: form-data; name="file"; filename="x"\r\n\r\n')
    call.write('x'.repeat(1_000_000))
    const isThere = async () =>
      (await runCommand(`ls -A '${directory}/broken' 2>/dev/null | wc -l`)).stdout.trim() === '1'
    while (!(await isThere())) await sleep(20)
    call.destroy()
    const isGone = async () =>
      (await runCommand(`[ -e '${directory}/broken' ] || echo gone`)).stdout === 'gone\n'
    while (!(await isGone())) await sleep(20)
  })

  test('a request without a file form is refused', async () => {
    const path = `/api/file/upload?path=${directory}/no`
    expect((await api.sendJson('POST', path, {})).status).toBe(415)
    const form = new FormData()
    form.append('other', 'x')
    expect(await api.requestJson(path, { method: 'POST', body: form })).toMatchObject({
      status: 422,
      body: { detail: [{ loc: ['body', 'file'], type: 'missing' }] },
    })
    expect((await upload('', 'x')).status).toBe(400)
    expect((await download(`${directory}/no`)).status).toBe(404)
  })

  test.each([
    ['relative', 'a', 400],
    ['of a directory', '/', 400],
    ['of a device', '/dev/zero', 400],
    ['below a file', '/etc/passwd/x', 400],
    ['with a NUL byte', '/tmp/\0', 400],
    ['far too long', `/${'x'.repeat(3_000)}`, 400],
    ['of nothing', '/tmp/nothing-there-at-all', 404],
  ])('a download of a path %s is refused', async (_, path, status) => {
    const response = await download(path)
    expect(response.status).toBe(status)
    expect(await response.json()).toEqual({ detail: expect.any(String) })
  })

  test('a named pipe does not block', async () => {
    await runCommand(`mkfifo '${directory}/pipe'`)
    expect((await download(`${directory}/pipe`)).status).toBe(400)
    expect((await upload(`${directory}/pipe`, 'x')).status).toBe(400)
    expect((await upload('/dev/null', 'x')).status).toBe(400)
  })

  test.each(['/proc/none', '/proc/none/such', '/dev/fd/none/such'])(
    'a directory that the system cannot create is refused, and the server continues: %s',
    async (path) => {
      const { status } = await api.sendJson('POST', '/api/file/create_directory', { path })
      expect([400, 403, 404]).toContain(status)
      const created = await driver.tryCreate({}, { workspace: { working_dir: path } })
      expect(created.status, JSON.stringify(created.body)).toBeLessThan(500)
      expect((await api.fetch('/health')).status).toBe(200)
    },
  )

  test.each(['/api/file/create_directory', '/file/create_directory'])(
    '%s creates a directory, named in the query or in the body, and may be repeated',
    async (route) => {
      const path = `${directory}/made by/${route.length}`
      const query = `${route}?${new URLSearchParams({ path })}`
      for (let n = 0; n < 2; n++)
        expect(await api.requestJson(query, { method: 'POST' })).toEqual({
          status: 200,
          body: { success: true },
        })
      const json = { 'content-type': 'application/json' }
      expect((await api.requestJson(query, { method: 'POST', headers: json })).status).toBe(200)
      expect((await api.sendJson('POST', route, { path: `${path}/b` })).status).toBe(200)
      expect((await runCommand(`ls '${path}'`)).stdout).toBe('b\n')
      await upload(`${path}/file`, 'x')
      expect(await api.sendJson('POST', route, { path: `${path}/file` })).toEqual({
        status: 400,
        body: { detail: 'Path exists and is not a directory' },
      })
      expect(await api.sendJson('POST', route, { path: 'relative' })).toEqual({
        status: 400,
        body: { detail: 'Path must be absolute' },
      })
      expect((await api.requestJson(route, { method: 'POST' })).status).toBe(422)
    },
  )

  test('directories are listed from the home directory on, in pages', async () => {
    const { body: home } = await api.requestJson<{ home: string; locations: { path: string }[] }>(
      '/api/file/home',
    )
    expect(home.home.startsWith('/')).toBe(true)
    expect(home.locations.map(({ path }) => path)).toContain('/')
    for (const name of ['b', 'A', '.c', 'a'])
      await api.sendJson('POST', '/api/file/create_directory', { path: `${directory}/list/${name}` })
    const list = async (more: object) => {
      const query = new URLSearchParams({ path: `${directory}/list`, ...more })
      const { body } = await api.requestJson<{ items: { name: string }[]; next_page_id: string | null }>(
        `/api/file/search_subdirs?${query}`,
      )
      return { names: body.items.map(({ name }) => name), next: body.next_page_id }
    }
    expect((await list({})).names).toEqual(['A', 'a', 'b'])
    expect((await list({ include_hidden: 'true' })).names).toEqual(['.c', 'A', 'a', 'b'])
    const { names, next } = await list({ limit: '2' })
    expect(names).toEqual(['A', 'a'])
    expect(await list({ limit: '2', page_id: next })).toEqual({ names: ['b'], next: null })
    for (const [path, status] of [
      ['relative', 400],
      ['/etc/passwd', 400],
      ['/nothing-there-at-all', 404],
    ] as const)
      expect((await api.requestJson(`/api/file/search_subdirs?path=${path}`)).status).toBe(status)
  })
})

describe('after a crash', () => {
  test('a command that was running ends with -1 and a message, and none of its processes survives', async () => {
    await using own = await OwnAgentServer.open()
    const file = join(own.directory, 'ticks')
    const command = `echo begun; (while :; do echo x >> ${file}; sleep 0.05; done) & wait`
    const { body } = await own.api.sendJson('POST', '/api/bash/start_bash_command', { command })
    const { id } = body as { id: string }
    const fileSize = async () => (await stat(file).catch(() => undefined))?.size ?? 0
    while ((await fileSize()) === 0) await sleep(20)
    const searchEvents = async (query: string) => {
      const page = await own.api.requestJson<{ items: Output[] }>(`/api/bash/bash_events/search?${query}`)
      return page.body.items
    }
    while ((await searchEvents('kind__eq=BashOutput')).length === 0) await sleep(50)
    await own.restart('SIGKILL')
    const items = await searchEvents(`command_id__eq=${id}`)
    expect(items.map(({ kind }) => kind)).toEqual(['BashOutput', 'BashOutput'])
    expect(items[0]).toMatchObject({ stdout: 'begun\n', exit_code: null })
    expect(items[1]).toMatchObject({ exit_code: -1, stderr: expect.stringContaining('ended') })
    for (let before = -1; before !== (await fileSize()); await sleep(300)) before = await fileSize()
  })
})

/** Some clients send a body with GET, which `fetch` refuses to do. */
async function getWithBody(path: string, body: string): Promise<unknown> {
  const headers = { ...server.headers, 'content-type': 'application/json', 'content-length': body.length }
  const call = request(new URL(server.url + path), { method: 'GET', headers })
  call.end(body)
  const [response] = await once(call, 'response')
  let text = ''
  for await (const chunk of response) text += chunk
  return JSON.parse(text)
}

test('a worktree goes with the last conversation that works in it', async () => {
  const project = join(directory, 'worktree-project')
  const commit = 'git -c user.name=x -c user.email=x@example.com commit -q --allow-empty -m first'
  expect((await runCommand(`git init -q '${project}' && cd '${project}' && ${commit}`)).exit_code).toBe(0)
  const agent = { llm: scriptedModel([]) }
  const first = await driver.create(agent, { workspace: { working_dir: project }, worktree: true })
  const { working_dir } = first.workspace
  const forked = await driver.post(first.id, 'fork')
  expect(forked.status).toBe(201)
  const { id: copy } = forked.body as { readonly id: string }
  const isThere = async () => (await runCommand(`test -d '${working_dir}'`)).exit_code === 0
  const remove = (id: string) => api.fetch(`/api/conversations/${id}`, { method: 'DELETE' })
  expect((await remove(first.id)).status).toBe(200)
  expect(await isThere()).toBe(true)
  expect((await remove(copy)).status).toBe(200)
  expect(await isThere()).toBe(false)
  expect((await runCommand(`git -C '${project}' worktree list | wc -l`)).stdout.trim()).toBe('1')
})
