import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startAgentServer } from '../support/agent-server.ts'
import { openBrowser } from '../support/shared-browser.ts'

/**
 * A page of a workspace in a real browser: what it can load, and what it cannot do with the user's server.
 */
const chromiumPath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(
  existsSync,
)

/** The page's own results, sent to the page that embeds it. */
const probeScript = `
const found = { origin: self.origin, classic: window.classic, module: window.fromModule, image: picture.naturalWidth,
  colour: getComputedStyle(document.body).color }
const attempt = async (name, run) => { try { found[name] = await run() } catch (error) { found[name] = error.name } }
addEventListener('load', async () => {
  found.module = window.fromModule
  found.image = picture.naturalWidth
  const include = { credentials: 'include' }
  await attempt('cookie', () => document.cookie)
  await attempt('storage', () => localStorage.length)
  await attempt('list', async () => (await fetch('/api/conversations/search', include)).status)
  await attempt('text', async () => (await fetch('secret.txt', include)).text())
  await attempt('script', async () => (await fetch('sub/module.js', include)).text())
  await attempt('socket', () => new Promise((resolve, reject) => {
    const socket = new WebSocket('ws://' + location.host + '/sockets/bash-events')
    socket.onopen = () => resolve('open')
    socket.onerror = () => resolve('refused')
  }))
  const command = JSON.stringify({ command: 'touch touched', cwd: DIRECTORY })
  const send = (type) => fetch('/api/bash/execute_bash_command',
    { method: 'POST', mode: 'no-cors', ...include, headers: { 'content-type': type }, body: command })
  await attempt('command', async () => (await send('text/plain')).type)
  await attempt('ended', async () => parent === self || parent.document.title)
  parent.postMessage(found, '*')
  document.title = JSON.stringify(found)
})`

const files = {
  'page.html': `<!doctype html><link rel=stylesheet href=sub/style.css><body><img id=picture src=sub/picture.svg>
    <script src=sub/classic.js></script><script type=module src=sub/module.js></script><script src=attempts.js></script>`,
  'sub/style.css': 'body { color: rgb(1, 2, 3) }',
  'sub/classic.js': 'window.classic = 1',
  'sub/module.js': 'import { x } from "./more.js"; window.fromModule = x',
  'sub/more.js': 'export const x = 7',
  'sub/picture.svg': '<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16"/>',
  'secret.txt': 'a secret text',
}

describe.runIf(chromiumPath !== undefined)('a page of a workspace', { timeout: 120_000 }, () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await openBrowser(chromiumPath ?? '')
  })
  afterAll(() => browser.close())

  const alone = {
    origin: 'null',
    classic: 1,
    module: 7,
    image: 16,
    colour: 'rgb(1, 2, 3)',
    cookie: 'SecurityError',
    storage: 'SecurityError',
    list: 'TypeError',
    text: 'TypeError',
    script: 'TypeError',
    socket: 'refused',
    command: 'opaque',
  }

  for (const key of ['a-key-of-the-test', undefined]) {
    const kind = key === undefined ? 'a server without keys' : 'a server with keys'

    test(`${kind}: in a frame of another origin, by the cookie, it loads its own files and nothing else`, async () => {
      await using stage = await openStage(key)
      const context = await browser.newContext()
      const page = await context.newPage()
      await page.goto(stage.app)
      const { server, path, headers } = stage
      const seen = await page.evaluate(
        async ({ server, path, headers }) => {
          const include = { credentials: 'include' } as const
          const session = await fetch(`${server}/api/auth/workspace-session`, {
            method: 'POST',
            headers,
            ...include,
          })
          const text = await (await fetch(`${server}${path}/secret.txt`, include)).text()
          const frame = document.createElement('iframe')
          frame.src = `${server}${path}/page.html`
          const reported = new Promise((resolve) => {
            addEventListener('message', ({ data }) => resolve(data), { once: true })
          })
          document.body.append(frame)
          return { status: session.status, text, found: await reported }
        },
        { server, path, headers },
      )
      expect(seen).toEqual({
        status: 204,
        text: files['secret.txt'],
        found: { ...alone, ended: 'SecurityError' },
      })
      expect(existsSync(join(stage.workspace, 'touched'))).toBe(false)
      await context.close()
    })

    test(`${kind}: in a window, by a ticket, it loads only what the ticket opens`, async () => {
      await using stage = await openStage(key)
      const context = await browser.newContext()
      const page = await context.newPage()
      const visit = async (path: string, more: string) => {
        const answer = await fetch(`${stage.server}${stage.path}-ticket`, {
          method: 'POST',
          headers: stage.headers,
          body: JSON.stringify({ path }),
        })
        const { url }: { url: string } = await answer.json()
        await page.goto(stage.server + url.replace('?', `${more}?`))
        await page.waitForLoadState('load')
      }
      await visit('', '/page.html')
      await page.waitForFunction(() => document.title !== '')
      expect(JSON.parse(await page.title())).toEqual({ ...alone, ended: true })
      expect(existsSync(join(stage.workspace, 'touched'))).toBe(false)
      await visit('page.html', '')
      const loaded = await page.evaluate(() => ({
        images: [...document.images].map(({ naturalWidth }) => naturalWidth),
        styles: document.styleSheets.length === 0 || getComputedStyle(document.body).color,
        classic: Reflect.has(window, 'classic'),
        title: document.title,
      }))
      expect(loaded).toEqual({ images: [0], styles: 'rgb(0, 0, 0)', classic: false, title: '' })
      await context.close()
    })
  }
})

/** A server, a conversation with a workspace, and an application on another port. */
async function openStage(key: string | undefined) {
  const directory = await mkdtemp(join(tmpdir(), 'slipway-pages-'))
  const workspace = join(directory, 'work')
  const all = { ...files, 'attempts.js': probeScript.replace('DIRECTORY', JSON.stringify(workspace)) }
  for (const [name, content] of Object.entries(all)) {
    await mkdir(dirname(join(workspace, name)), { recursive: true })
    await writeFile(join(workspace, name), content)
  }
  const application = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html').end('<title>app</title><body>')
  })
  await new Promise<void>((resolve) => application.listen(0, '127.0.0.1', resolve))
  const { port } = application.address() as AddressInfo // it listens on a port
  const app = `http://localhost:${port}`
  const env = key === undefined ? { SLIPWAY_ALLOWED_ORIGINS: app } : { SLIPWAY_SESSION_API_KEY: key }
  const started = await startAgentServer(join(directory, 'data'), env)
  const headers = {
    'content-type': 'application/json',
    ...(key === undefined ? {} : { 'x-session-api-key': key }),
  }
  const created = await fetch(`${started.url}/api/conversations`, {
    method: 'POST',
    headers,
    body: JSON.stringify({
      agent: { llm: { model: 'openai/none', api_key: 'none' } },
      workspace: { working_dir: workspace },
    }),
  })
  const { id }: { id: string } = await created.json()
  return {
    workspace,
    headers,
    server: started.url.replace('127.0.0.1', 'localhost'),
    path: `/api/conversations/${id}/workspace`,
    app,
    async [Symbol.asyncDispose]() {
      application.close()
      await started.stop()
      await rm(directory, { recursive: true })
    },
  }
}
