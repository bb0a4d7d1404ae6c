import { randomUUID } from 'node:crypto'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { createApp, listen } from '@slipway/http'
import { agentServerOpenApi, workspaceRoutes } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { Cipher, openStorage } from '@slipway/storage'
import { expect, test } from 'vitest'
import { ConversationInfoReader } from '../../core/conversations/conversation-info.ts'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { workspaceHandlers } from './handlers.ts'
import { WorkspaceTickets } from './tickets.ts'
import { WorkspaceFiles } from './workspace-files.ts'

const keyText = 'session-key-canary-4711'
const files = {
  'a.txt': 'plain',
  '.env': 'PASSWORD=x',
  'data.json': '{}',
  LICENSE: 'free',
  'blob.xyz': '\0\x01',
  'page.html': '<script src="app.js"></script>',
  'app.js': 'let a',
  'ümläut & %2F?.svg': '<svg/>',
  'site/index.html': '<img src="../pic.png">',
  'site/deep/x.html': 'deep',
  'site-other/x.html': 'other',
  'pic.png': 'png',
  'doc.pdf': 'pdf',
}

interface Options {
  readonly keys?: readonly Secret[]
}

/** A server of these routes alone, with two conversations that have a workspace and one that has none. */
async function openServer({ keys = [new Secret(keyText)] }: Options = {}) {
  const directory = temporaryDirectory()
  const data = join(directory.path, 'data')
  const workspace = join(directory.path, 'work')
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(join(workspace, name, '..'), { recursive: true })
    writeFileSync(join(workspace, name), content)
  }
  writeFileSync(join(directory.path, 'outside.txt'), 'outside')
  symlinkSync('../outside.txt', join(workspace, 'out.txt'))
  symlinkSync('..', join(workspace, 'up'))
  symlinkSync('../a.txt', join(workspace, 'site/inner.txt'))
  const storage = await openStorage({ directory: data })
  const ids = { one: randomUUID(), two: randomUUID(), own: randomUUID(), none: randomUUID() }
  const create = (id: string, working_dir: string) =>
    storage.conversations.create({ id, request: JSON.stringify({ workspace: { working_dir } }) })
  await create(ids.one, workspace)
  await create(ids.two, workspace)
  await create(ids.own, directory.path)
  await storage.conversations.create({ id: ids.none })
  const clock = { ms: Date.now() }
  const cipher = await Cipher.open({ directory: data, secretKey: undefined })
  const tickets = new WorkspaceTickets({ key: cipher.deriveKey('x'), sessionKeys: keys, now: () => clock.ms })
  const handlers = workspaceHandlers({
    infoReader: new ConversationInfoReader(storage, data),
    files: new WorkspaceFiles({ directory: data, worktrees: join(data, 'worktrees') }),
    tickets,
  })
  const lines: string[] = []
  const web = createApp(workspaceRoutes, handlers, {
    openapi: agentServerOpenApi,
    log: (...line) => void lines.push(JSON.stringify(line)),
    keys,
    pageCredential: (url, header, peer) => tickets.authenticate(url, header, peer),
  })
  const listening = await listen(web, { host: '127.0.0.1', port: 0 })
  const call = (path: string, headers: Record<string, string> = {}, method = 'GET', body?: object) =>
    new Promise<{ status: number; headers: Record<string, string>; text: string }>((resolve, reject) => {
      const text = body === undefined ? undefined : JSON.stringify(body)
      const sent = {
        ...headers,
        ...(text === undefined ? {} : { 'content-type': 'application/json' }),
      }
      const outgoing = request(
        { host: '127.0.0.1', port: listening.port, path, method, headers: sent, agent: false },
        async (answer) => {
          const chunks = await answer.toArray()
          const headers = Object.fromEntries(
            Object.entries(answer.headers).map(([name, value]) => [name, String(value)]),
          )
          resolve({ status: answer.statusCode ?? 0, headers, text: Buffer.concat(chunks).toString() })
        },
      )
      outgoing.on('error', reject).end(text)
    })
  const key = { 'x-session-api-key': keyText }
  const at = (path: string, id: string = ids.one) => `/api/conversations/${id}/workspace${path}`
  const ticketFor = async (body: object, id: string = ids.one) => {
    const answer = await call(`/api/conversations/${id}/workspace-ticket`, key, 'POST', body)
    expect(answer.status).toBe(200)
    const given: { url: string; expires_at: string } = JSON.parse(answer.text)
    return { ...given, ticket: given.url.slice(given.url.indexOf('=') + 1) }
  }
  const cookie = async (headers: Record<string, string> = {}) => {
    const answer = await call('/api/auth/workspace-session', { ...key, ...headers }, 'POST')
    expect([answer.status, answer.text, answer.headers['content-type']]).toEqual([204, '', undefined])
    return answer.headers['set-cookie'] ?? ''
  }
  const plainCookie = async (headers: Record<string, string> = {}) => ({
    cookie: (await cookie(headers)).split(';')[0] ?? '',
  })
  return {
    ...{
      ids,
      clock,
      call,
      key,
      at,
      ticketFor,
      cookie,
      plainCookie,
      lines,
      tickets,
      directory: data,
      workspace,
      port: listening.port,
    },
    async [Symbol.asyncDispose]() {
      await listening.close()
      await storage[Symbol.asyncDispose]()
      directory[Symbol.dispose]()
    },
  }
}

test('files of a workspace come with the types that their names and contents say', async () => {
  await using server = await openServer()
  const { call, key, at } = server
  const types = {
    '/a.txt': 'text/plain; charset=utf-8',
    '/LICENSE': 'text/plain; charset=utf-8',
    '/blob.xyz': 'application/octet-stream',
    '/app.js': 'text/javascript; charset=utf-8',
    '/data.json': 'application/json',
    '/page.html': 'text/html; charset=utf-8',
    [`/${encodeURIComponent('ümläut & %2F?.svg')}`]: 'image/svg+xml',
    '/site%2Fdeep%2Fx.html': 'text/html; charset=utf-8',
    '/site//deep//x.html': 'text/html; charset=utf-8',
  }
  for (const [path, type] of Object.entries(types)) {
    const answer = await call(at(path), key)
    expect([path, answer.status, answer.headers['content-type']]).toEqual([path, 200, type])
    expect(answer.headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'content-security-policy': expect.stringMatching(/^sandbox allow-scripts(?!.*same-origin)/),
      'referrer-policy': 'no-referrer',
    })
  }
  expect((await call(at('/doc.pdf'), key)).headers['content-security-policy']).toBeUndefined()
  expect((await call(at('/site'), key)).text).toBe(files['site/index.html'])
  expect((await call(at('/site/'), key)).text).toBe(files['site/index.html'])
  const part = await call(at('/a.txt'), { ...key, range: 'bytes=1-2' })
  expect([part.status, part.text]).toEqual([206, 'la'])
})

test('what does not exist is not found, what is outside is refused, also behind links', async () => {
  await using server = await openServer()
  const { call, key, at, ids } = server
  const status = async (path: string, id: string = ids.one) => (await call(at(path, id), key)).status
  expect(await status('/missing')).toBe(404)
  expect(await status('')).toBe(404)
  expect(await status('/site/deep')).toBe(404)
  expect(await status('/a.txt/b')).toBe(404)
  for (const path of ['/../outside.txt', '/%2e%2e/outside.txt', '/site/..%2f..%2foutside.txt', '/out.txt'])
    expect([path, await status(path)]).toEqual([path, 400])
  expect(await status('/up/outside.txt')).toBe(400)
  expect(await status('/up')).toBe(400)
  expect(await status('/a%00.txt')).toBe(400)
  expect(await status('/a.txt', ids.none)).toBe(404)
  expect(await status('/a.txt', randomUUID())).toBe(404)
  expect(await status('/a.txt', 'no-id')).toBe(422)
})

test('what the server keeps for itself is no file of a workspace that happens to hold it', async () => {
  await using server = await openServer()
  const { call, key, at, ids } = server
  expect((await call(at('/outside.txt', ids.own), key)).text).toBe('outside')
  expect((await call(at('/data/secret.key', ids.own), key)).status).toBe(404)
})

test('without the key, a cookie or a ticket nothing is opened', async () => {
  await using server = await openServer()
  const { call, at, ids } = server
  const none = [{}, { 'x-session-api-key': 'wrong' }, { cookie: `oh_workspace_session_key=${keyText}` }]
  for (const headers of none) expect((await call(at('/a.txt'), headers)).status).toBe(401)
  expect((await call('/api/auth/workspace-session', {}, 'POST')).status).toBe(401)
  expect((await call(`/api/conversations/${ids.one}/workspace-ticket`, {}, 'POST', {})).status).toBe(401)
})

test('the cookie opens files and nothing else, is not the key, and ends with its time', async () => {
  await using server = await openServer()
  const { call, at, ids, cookie, plainCookie, clock, lines } = server
  const set = await cookie()
  expect(set).toMatch(/^oh_workspace_session_key=[\w-]+\.[\w-]+; Max-Age=604800; Path=\/api\/conversations; /)
  expect(set).toMatch(/; HttpOnly; SameSite=None; Secure; Partitioned$/)
  expect(set + lines.join()).not.toContain(keyText)
  expect(Buffer.from(set.split(/[=.]/)[1] ?? '', 'base64url').toString()).not.toContain(keyText)
  const shown = await plainCookie()
  expect((await call(at('/a.txt'), shown)).text).toBe('plain')
  expect((await call(at('/a.txt'), { cookie: `a=b; ${shown.cookie}; c=d` })).text).toBe('plain')
  expect((await call(at('/a.txt', ids.two), shown)).text).toBe('plain')
  expect((await call(`/api/conversations/${ids.one}/workspace-ticket`, shown, 'POST', {})).status).toBe(401)
  expect((await call('/api/auth/workspace-session', shown, 'POST')).status).toBe(401)
  const loads = async (dest: string) =>
    (await call(at('/app.js'), { ...shown, 'sec-fetch-dest': dest, 'sec-fetch-site': 'cross-site' })).status
  for (const dest of ['script', 'style', 'worker', 'serviceworker'])
    expect([dest, await loads(dest)]).toEqual([dest, 401])
  for (const dest of ['image', 'empty', 'video', 'iframe'])
    expect([dest, await loads(dest)]).toEqual([dest, 200])
  clock.ms += 7 * 24 * 3_600_000
  expect((await call(at('/a.txt'), shown)).status).toBe(401)
})

test('the cookie is removed on demand, and is as safe as the way that it goes', async () => {
  await using server = await openServer()
  const { call, key, cookie } = server
  const removed = await call('/api/auth/workspace-session', key, 'DELETE')
  expect([removed.status, removed.headers['content-type']]).toEqual([204, undefined])
  expect(removed.headers['set-cookie']).toMatch(
    /^oh_workspace_session_key=; Max-Age=0; Path=\/api\/conversations/,
  )
  expect(await cookie({ host: 'agents.example:8000' })).toMatch(/; SameSite=Lax$/)
  expect(await cookie({ host: 'agents.example', 'x-forwarded-proto': 'https' })).toMatch(
    /; Secure; Partitioned$/,
  )
})

test('cookie and tickets die with the session key that they were made with', async () => {
  await using server = await openServer()
  const { tickets, clock, directory } = server
  const cipher = await Cipher.open({ directory, secretKey: undefined })
  const as = (...keys: string[]) =>
    new WorkspaceTickets({
      key: cipher.deriveKey('x'),
      sessionKeys: keys.map((key) => new Secret(key)),
      now: () => clock.ms,
    })
  const ticket = tickets.createTicket(keyText, { conversation: 'c', path: '', seconds: 60 }).text
  const session = {
    cookie: `oh_workspace_session_key=${tickets.createSessionToken(keyText, undefined, 'user:1')}`,
  }
  const sees = (tickets: WorkspaceTickets, peer = () => 'user:1') => [
    tickets.authenticate(`/api/conversations/c/workspace?ticket=${ticket}`, () => undefined, peer),
    tickets.authenticate(
      '/api/conversations/c/workspace',
      (name) => (name === 'cookie' ? session.cookie : undefined),
      peer,
    ),
  ]
  const problem = expect.objectContaining({ code: 'unauthorized' })
  expect(sees(as('other', keyText))).toEqual([{ isInAddress: true }, { isInAddress: false }])
  expect(sees(as(keyText), () => 'user:2')).toEqual([{ isInAddress: true }, undefined])
  expect(sees(as('other'))).toEqual([problem, undefined])
  expect(sees(as())).toEqual([problem, undefined])
})

test('a ticket opens what it names in its conversation until it expires', async () => {
  await using server = await openServer()
  const { call, at, ids, clock, ticketFor } = server
  const whole = await ticketFor({})
  expect(Date.parse(whole.expires_at)).toBe(Math.floor(clock.ms / 1000) * 1000 + 300_000)
  expect(whole.url).toBe(`${at('')}?ticket=${whole.ticket}`)
  const one = await ticketFor({ path: '/ümläut & %2F?.svg', expires_in_seconds: 10 })
  expect((await call(one.url)).text).toBe('<svg/>')
  const status = async (path: string, { ticket }: { ticket: string }, id: string = ids.one) =>
    (await call(`${at(path, id)}?ticket=${ticket}`)).status
  expect(await status('/a.txt', one)).toBe(403)
  expect(await status('/a.txt', whole)).toBe(200)
  expect(await status('/.env', whole)).toBe(200)
  expect(await status('/missing', whole)).toBe(404)
  expect(await status('/../outside.txt', whole)).toBe(400)
  expect(await status('/a.txt', whole, ids.two)).toBe(403)
  const site = await ticketFor({ path: 'site/' })
  expect((await call(site.url)).text).toBe(files['site/index.html'])
  expect(await status('/site/deep/x.html', site)).toBe(200)
  expect(await status('/site-other/x.html', site)).toBe(403)
  expect(await status('/site/../a.txt', site)).toBe(403)
  expect(await status('/site/inner.txt', site)).toBe(403)
  expect(await status('/missing', site)).toBe(403)
  clock.ms += 10_000
  expect((await call(one.url)).status).toBe(401)
  expect(await status('/a.txt', whole)).toBe(200)
})

test('a ticket that was changed, or made up, is refused even with the key', async () => {
  await using server = await openServer()
  const { call, at, key, ticketFor, plainCookie } = server
  const { ticket } = await ticketFor({ path: 'site' })
  const [payload = '', signature = ''] = ticket.split('.')
  const wide = Buffer.from(Buffer.from(payload, 'base64url').toString().replace('"site"', '""')).toString(
    'base64url',
  )
  const session = (await plainCookie()).cookie.split('=')[1] ?? ''
  const bad = [
    `${wide}.${signature}`,
    `${payload}.`,
    payload,
    `${ticket}x`,
    `${payload}.${signature.slice(0, -2)}`,
    `${ticket}.x`,
    'x',
    session,
  ]
  for (const one of bad) {
    const { status, text } = await call(`${at('/a.txt')}?ticket=${encodeURIComponent(one)}`, key)
    expect([one, status, text]).toEqual([one, 401, '{"detail":"The ticket is not valid, or it has expired"}'])
  }
  expect((await call(at('/a.txt'), { cookie: `oh_workspace_session_key=${ticket}` })).status).toBe(401)
})

test('the time and the path of a ticket are checked when it is asked for', async () => {
  await using server = await openServer()
  const { call, key, ids } = server
  const ask = async (body: object, id: string = ids.one) =>
    await call(`/api/conversations/${id}/workspace-ticket`, key, 'POST', body)
  for (const expires_in_seconds of [0, 3_601, 1.5, '60'])
    expect((await ask({ expires_in_seconds })).status).toBe(422)
  expect((await ask({ path: null, expires_in_seconds: null })).status).toBe(200)
  expect((await ask({ path: '../x' })).status).toBe(400)
  expect((await ask({ path: 'a\0b' })).status).toBe(400)
  // A text that is in no encoding of file names, nor of addresses.
  expect((await ask({ path: 'a\ud800' })).status).toBe(422)
  expect((await ask({}, randomUUID())).status).toBe(404)
})

test('a page that a browser opens goes to an address with which it loads what belongs to it, and no texts', async () => {
  await using server = await openServer()
  const { call, at, plainCookie, clock, ids } = server
  const shown = { ...(await plainCookie()), 'sec-fetch-dest': 'iframe' }
  const follow = async (path: string) => {
    const answer = await call(path, shown)
    expect([path, answer.status, answer.text]).toEqual([path, 307, ''])
    return new URL(answer.headers.location ?? '', `http://x${path}`).pathname
  }
  const page = await follow(at('/page.html'))
  const framed = { 'sec-fetch-dest': 'iframe', 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }
  expect((await call(page, framed)).text).toBe(files['page.html'])
  const beside = (name: string) => new URL(name, `http://x${page}`).pathname
  const embedded = { 'sec-fetch-dest': 'script', 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }
  expect((await call(beside('app.js'), embedded)).text).toBe('let a')
  expect((await call(beside('pic.png'))).text).toBe('png')
  for (const name of ['.env', 'a.txt', 'data.json', 'LICENSE', 'site/.hidden.png'])
    expect([name, (await call(beside(name))).status]).toEqual([name, 403])
  expect((await call(page.replace(ids.one, ids.two))).status).toBe(403)
  for (const path of ['/site', '/site/', '/site/index.html', '/site//', '/site%2Findex.html']) {
    const index = await follow(at(path))
    expect(index).toMatch(/\/workspace\/~[\w.-]+\/site\/index\.html$/)
    const status = async (name: string) => (await call(new URL(name, `http://x${index}`).pathname)).status
    expect((await call(index, framed)).text).toBe(files['site/index.html'])
    // The ticket of a page opens its folder.
    expect([await status('deep/x.html'), await status('../pic.png'), await status('../page.html')]).toEqual([
      200, 403, 403,
    ])
  }
  writeFileSync(join(server.workspace, 'index.html'), 'the whole')
  for (const path of ['', '/', '?x=/a/b', '/?x'])
    expect([path, await follow(at(path))]).toEqual([path, page.replace('page.html', 'index.html')])
  clock.ms += 2 * 3_600_000
  expect((await call(page)).status).toBe(401)
})

test('a page that was opened by a ticket loads with the same ticket', async () => {
  await using server = await openServer()
  const { call, ticketFor, at } = server
  const { url, ticket } = await ticketFor({ path: 'site' })
  const answer = await call(url, { 'sec-fetch-dest': 'document' })
  const address = new URL(answer.headers.location ?? '', `http://x${url}`).pathname
  expect(address).toBe(at(`/~${ticket}/site/index.html`))
  expect((await call(address, { 'sec-fetch-dest': 'document' })).status).toBe(200)
  expect((await call(new URL('../pic.png', `http://x${address}`).pathname)).status).toBe(403)
})

test('pages of any origin may get a cookie with the key; only they may read with it', async () => {
  await using server = await openServer()
  const { call, at, plainCookie, key } = server
  const allowed = (answer: { headers: Record<string, string> }) =>
    answer.headers['access-control-allow-origin']
  const app = { origin: 'https://App.example' }
  const shown = await plainCookie(app)
  const preflight = await call(
    '/api/auth/workspace-session',
    { ...app, 'access-control-request-method': 'POST' },
    'OPTIONS',
  )
  expect([preflight.status, allowed(preflight)]).toEqual([204, app.origin])
  const own = await call(at('/a.txt'), { ...shown, ...app })
  expect([own.text, allowed(own), own.headers['access-control-allow-credentials']]).toEqual([
    'plain',
    app.origin,
    'true',
  ])
  for (const origin of ['https://evil.example', 'null', 'http://127.0.0.1:9']) {
    const other = await call(at('/a.txt'), { ...shown, origin })
    expect([origin, other.status, allowed(other)]).toEqual([origin, 403, undefined])
  }
  expect(allowed(await call(at('/a.txt'), { ...key, origin: 'https://evil.example' }))).toBe(
    'https://evil.example',
  )
  expect(allowed(await call(at('/a.txt'), { ...key, origin: 'null' }))).toBeUndefined()
  const session = (origin: string) => call('/api/auth/workspace-session', { ...key, origin }, 'POST')
  expect((await session('null')).status).toBe(403)
  expect((await session('file://')).status).toBe(403)
})

test('a page in a sandbox may run scripts of its own ticket from other files, and read none', async () => {
  await using server = await openServer()
  const { call, ticketFor, at } = server
  const { ticket } = await ticketFor({})
  const ask = async (dest: string) => {
    const headers = { origin: 'null', 'sec-fetch-dest': dest, 'sec-fetch-site': 'cross-site' }
    return (await call(at(`/~${ticket}/app.js`), headers)).headers['access-control-allow-origin']
  }
  expect(await ask('script')).toBe('null')
  expect(await ask('font')).toBe('null')
  for (const dest of ['empty', 'image', 'iframe', 'object']) expect(await ask(dest)).toBeUndefined()
})

test('a server without keys is open to this machine alone; a ticket opens for other pages too', async () => {
  await using server = await openServer({ keys: [] })
  const { call, at, ids } = server
  const foreign = { origin: 'https://evil.example' }
  const embedded = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }
  expect((await call(at('/a.txt'))).text).toBe('plain')
  expect((await call(at('/a.txt'), foreign)).status).toBe(403)
  expect((await call(at('/a.txt'), embedded)).status).toBe(403)
  for (const [path, method] of [
    ['/api/auth/workspace-session', 'POST'],
    ['/api/auth/workspace-session', 'DELETE'],
    [`/api/conversations/${ids.one}/workspace-ticket`, 'POST'],
  ] as const) {
    const refused = await call(path, { ...foreign }, method)
    expect([
      refused.status,
      refused.headers['set-cookie'],
      refused.headers['access-control-allow-origin'],
    ]).toEqual([403, undefined, undefined])
  }
  const local = { origin: `http://localhost:${server.port}` }
  const set = await call('/api/auth/workspace-session', local, 'POST')
  const shown = { cookie: set.headers['set-cookie']?.split(';')[0] ?? '' }
  expect((await call(at('/a.txt'), { ...shown, ...foreign })).status).toBe(403)
  expect((await call(at('/a.txt'), { ...shown, ...embedded })).status).toBe(403)
  expect((await call(at('/a.txt'), { ...shown, ...local })).headers['access-control-allow-origin']).toBe(
    local.origin,
  )
  const { text } = await call(`/api/conversations/${ids.one}/workspace-ticket`, {}, 'POST', {})
  const url = JSON.parse(text).url.replace('/workspace?', '/workspace/a.txt?')
  expect((await call(url, embedded)).text).toBe('plain')
  expect((await call(url, foreign)).headers['access-control-allow-origin']).toBe(foreign.origin)
  expect((await call(url, { host: 'rebound.example' })).status).toBe(403)
  expect((await call(url.replace(/=.*/, '=x'))).status).toBe(401)
})
