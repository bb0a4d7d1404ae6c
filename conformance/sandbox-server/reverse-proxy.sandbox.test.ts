import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { SocketClient } from '../support/agent-driver.ts'
import { openReverseProxy } from '../support/reverse-proxy.ts'
import type { SandboxInfo } from '../support/sandbox-server/server.ts'
import { createUser, openSandboxServer, textModel } from '../support/sandbox-server/user.ts'

/** A sandbox server below a path of a reverse proxy, and its sandboxes through it. */

const longTimeout = { timeout: 120_000 }

test.each([
  ['takes it off', true],
  ['leaves it on', false],
])(
  'behind a proxy that adds a path and %s, everything of a sandbox is reachable through one address',
  longTimeout,
  async (_, strips) => {
    await using front = await openReverseProxy('/some/where', { strips })
    await using place = await openSandboxServer({
      env: { SLIPWAY_PUBLIC_URL: front.url, SLIPWAY_EXPOSE: 'relay' },
    })
    front.target = place.server.url
    const user = await createUser(place.server)
    await user.setModel(textModel)
    const outer = async (path: string, init: RequestInit = {}) =>
      await fetch(`${front.url}${path}`, {
        ...init,
        headers: { authorization: `Bearer ${user.key}`, ...init.headers },
      })
    expect((await outer('/api/v1/users/me')).status).toBe(200)
    expect((await outer('/openapi.json')).status).toBe(200)
    const made = (await (await outer('/api/v1/sandboxes', { method: 'POST' })).json()) as SandboxInfo
    const sandbox = await user.waitForSandbox(made.id, 'RUNNING')
    const agent = sandbox.exposed_urls?.find(({ name }) => name === 'AGENT_SERVER')
    expect(agent).toEqual({
      name: 'AGENT_SERVER',
      url: `${front.url}/sandboxes/${sandbox.id}/agent`,
      port: Number(new URL(front.url).port),
    })
    const url = String(agent?.url)
    const key = { 'x-session-api-key': String(sandbox.session_api_key) }

    // Requests with the key of the sandbox only, unchanged in both directions.
    expect(await (await fetch(`${url}/api/conversations/count`, { headers: key })).json()).toBe(0)
    for (const headers of [{}, { authorization: `Bearer ${user.key}` }, { 'x-session-api-key': 'x' }])
      expect((await fetch(`${url}/api/conversations/count`, { headers })).status).toBe(401)
    const bytes = randomBytes(3_000_000)
    const form = new FormData()
    form.append('file', new Blob([bytes]), 'ä b.bin')
    const path = `${sandbox.working_dir}/%2e b?&#.bin`
    const up = await fetch(`${url}/api/file/upload?path=${encodeURIComponent(path)}`, {
      method: 'POST',
      headers: key,
      body: form,
    })
    expect(up.status).toBe(200)
    const down = await fetch(`${url}/api/file/download?path=${encodeURIComponent(path)}`, { headers: key })
    expect(Buffer.from(await down.arrayBuffer()).equals(bytes)).toBe(true)
    expect((await fetch(`${front.url}/sandboxes/${sandbox.id}/nothing/x`, { headers: key })).status).toBe(404)
    expect((await fetch(`${front.url}/sandboxes/sb-nobody/agent/alive`, { headers: key })).status).toBe(404)

    // A conversation of the published client, and its WebSocket.
    const conversation = await user.createConversation({ sandbox_id: sandbox.id })
    expect(conversation.conversation_url).toBe(`${url}/api/conversations/${conversation.id}`)
    const socketUrl = `${url.replace('http', 'ws')}/sockets/events/${conversation.id}`
    await using socket = new SocketClient(socketUrl, key)
    await new Promise((resolve) => socket.socket.once('open', resolve))
    expect((await user.sendMessage(conversation.id, 'Through the proxy.')).status).toBe(200)
    const events = await socket.waitUntil((all) =>
      all.some(({ kind, source }) => kind === 'MessageEvent' && source === 'agent'),
    )
    expect(JSON.stringify(events)).toContain('Through the proxy.')
    await using refused = new SocketClient(socketUrl, { 'x-session-api-key': 'x' })
    // A refused socket is closed at once, or after its opening without a frame.
    await new Promise((resolve) => refused.socket.once('close', resolve))
    expect(refused.frames).toEqual([])

    // A request never resumes a paused sandbox, and its socket ends or stays silent.
    await user.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox.id}/pause`)
    const paused = await fetch(`${url}/alive`, { headers: key })
    expect(paused.status).toBe(409)
    expect(await paused.text()).toContain('slipway sandbox resume ')
    expect((await user.getSandbox(sandbox.id))?.status).toBe('PAUSED')
    await user.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox.id}/resume`)
    await user.waitForSandbox(sandbox.id, 'RUNNING')
    expect((await fetch(`${url}/alive`, { headers: key })).status).toBe(200)

    // Requests as the sandbox receives them: without keys of this server's users.
    const ran = await fetch(`${url}/api/bash/execute_bash_command`, {
      method: 'POST',
      headers: { ...key, 'content-type': 'application/json' },
      body: JSON.stringify({ command: 'cat /proc/self/environ /data/*.log 2>/dev/null | tr "\\0" "\\n"' }),
    })
    const reported = await ran.text()
    for (const secret of [user.key, place.server.key]) expect(reported).not.toContain(secret)
    await user.requestOrThrow('DELETE', `/api/v1/sandboxes/${sandbox.id}`)
    expect((await fetch(`${url}/alive`, { headers: key })).status).toBe(404)
    expect(front.requests.every((line) => line.includes(' /some/where/'))).toBe(true)
  },
)
