import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newWatchedPage } from '../console/console-fixture.ts'
import { finishStep, SocketClient, scriptedModel } from '../support/agent-driver.ts'
import { findChromium } from '../support/browser-user.ts'
import { spawnCli } from '../support/cli.ts'
import { openDocumentedProxy, type ProxyProgram, proxyPrograms } from '../support/documented-proxy.ts'
import { freePort } from '../support/free-port.ts'
import { SandboxServer } from '../support/sandbox-server/server.ts'
import { createUser, textModel } from '../support/sandbox-server/user.ts'
import { openBrowser } from '../support/shared-browser.ts'

/** Both servers behind nginx and Caddy, with the blocks of the documentation on another port and path. */

const chromiumPath = await findChromium()
const isReady = chromiumPath !== undefined && proxyPrograms !== undefined
if (!isReady) console.warn('SKIPPED: needs Chromium, and nginx and caddy, which `.ci/proxies` finds')
const programs: readonly ProxyProgram[] = ['nginx', 'caddy']
/** The proxy cuts what is silent this long; streams stay open for more than twice of it. */
const cutSeconds = 10
const quietMs = 25_000

describe.runIf(isReady)('behind the documented proxies', { timeout: 300_000 }, () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await openBrowser(chromiumPath ?? '')
  }, 120_000)
  afterAll(() => browser?.close())

  const signIn = async (url: string, key: string) => {
    const { page, problems, foreignRequests } = await newWatchedPage(browser, new URL(url).origin)
    await page.goto(`${url}/`)
    await page.getByLabel('Key', { exact: true }).fill(key)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('navigation', { name: 'Main' }).waitFor()
    return { page, problems, foreignRequests }
  }

  test.each(programs)('%s before an agent server: the console, sockets and streams', async (program) => {
    const directory = await mkdtemp(join(tmpdir(), 'slipway-behind-'))
    const key = 'key-of-the-server'
    await using started = new AsyncDisposableStack()
    try {
      await using front = await openDocumentedProxy(
        {
          ...{ program, path: '/some/where', cutSeconds },
          page: program === 'nginx' ? 'docs/guide/servers.md' : 'docs/sandboxes.md',
          documentedPath: program === 'nginx' ? '/agent' : '/slipway',
        },
        async (url) => {
          const server = await startCommand(join(directory, 'data'), {
            SLIPWAY_WEB_URL: url,
            SLIPWAY_SESSION_API_KEY: key,
          })
          started.use(server)
          return server.url
        },
      )
      const id = await createConversation(front.url, key, directory)
      await followQuietly(front.url, id, key)
      await exchangeFile(front.url, `${directory}/ä b.bin`, key)
      const { page, problems, foreignRequests } = await signIn(front.url, key)
      await page.getByRole('heading', { name: 'Conversations', exact: true }).waitFor()
      expect([problems, foreignRequests]).toEqual([[], []])
      await page.context().close()
    } finally {
      await started.disposeAsync()
      await rm(directory, { recursive: true, force: true })
    }
  })

  test.each(programs)('%s before a sandbox server: the console, and a sandbox', async (program) => {
    let server: SandboxServer | undefined
    try {
      await using front = await openDocumentedProxy(
        {
          program,
          page: 'docs/sandboxes.md',
          documentedPath: '/slipway',
          path: '/control/plane',
          cutSeconds,
        },
        async (url) => {
          server = await SandboxServer.open({ env: { SLIPWAY_PUBLIC_URL: url, SLIPWAY_EXPOSE: 'relay' } })
          return server.url
        },
      )
      const user = await createUser(server as SandboxServer)
      await user.setModel(textModel)
      const { id, sandbox_id } = await user.createConversation({})
      const sandbox = await user.waitForSandbox(sandbox_id, 'RUNNING')
      const agent = sandbox.exposed_urls?.find(({ name }) => name === 'AGENT_SERVER')?.url ?? ''
      expect(agent.startsWith(front.url)).toBe(true)
      await followQuietly(agent, id, String(sandbox.session_api_key))
      await exchangeFile(agent, `${sandbox.working_dir}/ä b.bin`, String(sandbox.session_api_key))
      const { page, problems, foreignRequests } = await signIn(front.url, user.key)
      await page.getByRole('link', { name: 'Conversations' }).first().click()
      await page.getByRole('heading', { name: 'Conversations', level: 1 }).waitFor()
      expect([problems, foreignRequests]).toEqual([[], []])
      await page.context().close()
    } finally {
      await server?.[Symbol.asyncDispose]()
    }
  })
})

/** The command shows the console; the server alone does not. */
async function startCommand(
  data: string,
  env: Readonly<Record<string, string>>,
): Promise<AsyncDisposable & { readonly url: string }> {
  const port = await freePort()
  const child = spawnCli(['serve', '--port', String(port), '--data', data], env)
  const exit = once(child, 'close')
  let printed = ''
  for await (const chunk of child.stdout) {
    printed += chunk
    if (printed.includes('Ctrl-C stops it.')) break
  }
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      child.kill()
      await exit
    },
  }
}

async function createConversation(url: string, key: string, directory: string): Promise<string> {
  const agent = { kind: 'Agent', llm: scriptedModel([finishStep()]), tools: [] }
  const workspace = { kind: 'LocalWorkspace', working_dir: directory }
  const response = await request(`${url}/api/conversations`, key, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ agent, workspace }),
  })
  expect(response.status).toBe(201)
  const { id } = (await response.json()) as { id: string }
  return id
}

/** A socket and a stream that are quiet for longer than the proxy allows bring what happens afterwards. */
async function followQuietly(url: string, id: string, key: string): Promise<void> {
  const headers = { 'x-session-api-key': key }
  await using socket = new SocketClient(`${url.replace('http', 'ws')}/sockets/events/${id}`, headers)
  await new Promise((resolve) => socket.socket.once('open', resolve))
  const stream = await request(`${url}/api/conversations/${id}/events/stream`, key)
  expect(stream.status).toBe(200)
  await sleep(quietMs)
  const text = `After ${quietMs} ms.`
  const body = JSON.stringify({ role: 'user', content: [{ type: 'text', text }] })
  const sent = await request(`${url}/api/conversations/${id}/events`, key, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  })
  expect(sent.status).toBe(200)
  await Promise.race([
    socket.waitUntil((events) => JSON.stringify(events).includes(text)),
    socket.closed.then(({ code }) => expect(code).toBe('open')),
  ])
  let received = ''
  for await (const chunk of stream.body ?? []) {
    received += Buffer.from(chunk).toString()
    if (received.includes(text)) break
  }
  expect(received).toContain(text)
}

async function exchangeFile(url: string, path: string, key: string): Promise<void> {
  const bytes = randomBytes(3_000_000)
  const body = new FormData()
  body.append('file', new Blob([bytes]), 'file.bin')
  const query = `path=${encodeURIComponent(path)}`
  expect((await request(`${url}/api/file/upload?${query}`, key, { method: 'POST', body })).status).toBe(200)
  const down = await request(`${url}/api/file/download?${query}`, key)
  expect(Buffer.from(await down.arrayBuffer()).equals(bytes)).toBe(true)
}

function request(url: string, key: string, init: RequestInit = {}): Promise<Response> {
  return fetch(url, { ...init, headers: { ...init.headers, 'x-session-api-key': key } })
}
