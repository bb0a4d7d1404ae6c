import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Browser, Frame, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Applications } from '../map/extensions/application.ts'
import { OwnMapServer } from '../map/map-server.ts'
import { openBrowser } from '../support/shared-browser.ts'

/** Two applications at their own origins in a real browser: each attacks the other and the server. */
const chromiumPath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(
  existsSync,
)

/** Answers every page that asks, so that nothing but its origin protects it. */
const program = `#!${process.execPath}
const http = require('node:http')
const state = { acts: 0, sockets: 0, reads: 0, cookies: [] }
http.createServer((request, response) => {
  const { pathname } = new URL(request.url, 'http://program')
  if (pathname === '/health') return response.end('ok')
  if (request.headers.cookie) state.cookies.push(request.headers.cookie)
  response.setHeader('access-control-allow-origin', request.headers.origin ?? '*')
  response.setHeader('access-control-allow-credentials', 'true')
  response.setHeader('set-cookie', ['of_program=1; Path=/', 'wide=1; Domain=localhost; Path=/'])
  if (pathname === '/state') return response.end(JSON.stringify(state))
  if (request.method === 'POST') state.acts++
  else state.reads++
  if (pathname === '/secret') return response.end('window.stolen = "secret"')
  response.setHeader('content-type', 'text/html')
  response.end('<!doctype html><title>application</title><h1>' + process.argv[3] + '</h1>')
}).on('upgrade', (request, socket) => {
  state.sockets++
  const accept = require('node:crypto').createHash('sha1')
    .update(request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')
  socket.on('error', () => {})
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n' +
    'Sec-WebSocket-Accept: ' + accept + '\\r\\n\\r\\n')
}).listen(process.argv[2])
`

/** What a page of an application tries at another address; each result by name. */
async function attack(target: string): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {}
  const attempt = async (name: string, run: () => unknown) => {
    try {
      found[name] = await run()
    } catch (error) {
      found[name] = error instanceof Error ? error.name : String(error)
    }
  }
  const load = (element: HTMLElement & { src: string }, path: string) =>
    new Promise<string>((done) => {
      element.onload = () => done('loaded')
      element.onerror = () => done('refused')
      element.src = target + path
      document.body.append(element)
    })
  const include = { credentials: 'include' } as const
  await attempt('read', async () => (await fetch(`${target}/secret`, include)).text())
  await attempt('blind', async () => (await fetch(`${target}/secret`, { ...include, mode: 'no-cors' })).type)
  await attempt('post', async () => (await fetch(`${target}/act`, { ...include, method: 'POST' })).status)
  await attempt('json', async () => {
    const headers = { 'content-type': 'application/json' }
    return (await fetch(`${target}/act`, { ...include, method: 'PUT', headers, body: '{}' })).status
  })
  await attempt('script', () => load(document.createElement('script'), '/secret'))
  await attempt('stolen', () => (window as { stolen?: string }).stolen)
  await attempt('socket', () => {
    const socket = new WebSocket(`${target.replace('http', 'ws')}/ws`)
    return new Promise((done) => {
      socket.onopen = () => done('open')
      socket.onerror = () => done('refused')
    })
  })
  await attempt('frame', async () => {
    const frame = document.createElement('iframe')
    await load(frame, '/')
    return frame.contentDocument?.title ?? 'unreadable'
  })
  await attempt('form', async () => {
    const frame = document.createElement('iframe')
    // One for each attack of the page.
    frame.name = `answer-${document.forms.length}`
    document.body.append(frame)
    const form = document.createElement('form')
    Object.assign(form, { action: `${target}/act`, method: 'post', target: frame.name })
    document.body.append(form)
    const loaded = new Promise((done) => {
      frame.onload = done
    })
    form.submit()
    await loaded
    return frame.contentDocument?.title ?? 'unreadable'
  })
  for (const name of ['slipway_origin_00000000', 'planted'])
    Object.assign(document, { cookie: `${name}=1; Domain=localhost; Path=/` })
  found.cookie = document.cookie
  return found
}

describe.runIf(chromiumPath !== undefined)('applications in a browser', { timeout: 120_000 }, () => {
  const names = ['victim', 'attacker'] as const
  let browser: Browser
  let server: OwnMapServer
  let apps: Applications
  let page: Page
  /** A page of the server's site with both applications in frames: cookies of frames are shared below it. */
  const control = createServer((_, response) =>
    response.setHeader('content-type', 'text/html').end('<h1>Control'),
  )

  beforeAll(async () => {
    server = await OwnMapServer.open({ key: 'key-of-the-browser' })
    apps = new Applications(server)
    for (const name of names)
      await apps.start({ name, program, backend: { argv: ['{artifact_dir}/run.js', '{socket}', name] } })
    browser = await openBrowser(chromiumPath ?? '')
    page = await (await browser.newContext()).newPage()
    await new Promise<void>((done) => control.listen(0, '127.0.0.1', done))
    await page.goto(`http://localhost:${(control.address() as AddressInfo).port}`)
  }, 120_000)
  afterAll(async () => {
    control.close()
    await browser.close()
    await server[Symbol.asyncDispose]()
  })

  const link = async (name: string) => String((await apps.ask(200, 'POST', `installed/${name}/link`)).url)

  async function openFrame(name: string): Promise<Frame> {
    const url = await link(name)
    await page.evaluate((src) => {
      const frame = document.createElement('iframe')
      frame.src = src
      document.body.append(frame)
    }, url)
    const { origin } = new URL(url)
    const isOpen = () => page.frames().some((frame) => frame.url() === `${origin}/`)
    await expect.poll(isOpen, { timeout: 20_000 }).toBe(true)
    const frame = page.frames().find((one) => one.url() === `${origin}/`)
    if (frame === undefined) throw new Error('the frame is gone')
    await frame.waitForSelector('h1')
    return frame
  }

  const state = (frame: Frame) =>
    frame.evaluate(async () => (await fetch('/state')).json()) as Promise<{
      readonly acts: number
      readonly sockets: number
      readonly reads: number
      readonly cookies: readonly string[]
    }>

  test('neither reads, acts in or connects to the other, or the server', async () => {
    const [victim, attacker] = [await openFrame('victim'), await openFrame('attacker')]
    expect(await victim.textContent('h1')).toBe('victim')
    await page.screenshot({ path: process.env.SLIPWAY_SHOT ?? '/dev/null', type: 'png' })
    for (const [from, to] of [
      [attacker, victim],
      [victim, attacker],
    ] as const) {
      const target = new URL(to.url()).origin
      const before = await state(to)
      expect(await from.evaluate(attack, target)).toEqual({
        ...{ read: 'TypeError', blind: 'opaque', post: 'TypeError', json: 'TypeError' },
        ...{
          script: 'refused',
          stolen: undefined,
          socket: 'refused',
          frame: 'unreadable',
          form: 'unreadable',
        },
        cookie: '',
      })
      expect(await state(to)).toEqual(before)
      expect(before.cookies).toEqual([])
    }
    const { port } = new URL(server.url)
    for (const name of ['localhost', '127.0.0.1', new URL(attacker.url()).hostname])
      expect(await attacker.evaluate(attack, `http://${name}:${port}`)).toMatchObject({
        ...{ read: 'TypeError', post: 'TypeError', json: 'TypeError', socket: 'refused', form: 'unreadable' },
      })
  })

  test('its own pages reach their program in a frame and in a tab, a reload included', async () => {
    const url = await link('victim')
    const tab = await page.context().newPage()
    await tab.goto(url)
    await tab.waitForSelector('h1')
    expect(tab.url()).toBe(`${new URL(url).origin}/`)
    await tab.reload()
    const own = async (at: Page | Frame) =>
      await at.evaluate(async () => {
        const post = (await fetch('/act', { method: 'POST' })).status
        const socket = new WebSocket(`ws://${location.host}/ws`)
        const opened = await new Promise((done) => {
          socket.onopen = () => done('open')
          socket.onerror = () => done('refused')
        })
        return [document.querySelector('h1')?.textContent, post, opened]
      })
    expect(await own(tab)).toEqual(['victim', 200, 'open'])
    expect(await own(await openFrame('victim'))).toEqual(['victim', 200, 'open'])
    // The link is used; the address alone opens nothing for another browser.
    expect((await tab.goto(url))?.status()).toBe(403)
    const other = await (await browser.newContext()).newPage()
    expect((await other.goto(new URL(url).origin))?.status()).toBe(401)
  })
})
