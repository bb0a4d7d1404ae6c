import { describe, expect, onTestFinished, test } from 'vitest'
import { WebSocket } from 'ws'
import { bashStep as command, scriptedModel } from '../support/agent-driver.ts'
import { defineForEachEngine, type TestEngine } from '../support/sandbox-server/container-engine.ts'
import { fetchInSandbox, readSandboxRows, runInSandbox } from '../support/sandbox-server/crash-rounds.ts'
import { EngineSandboxServer } from '../support/sandbox-server/engine-server.ts'
import {
  expectAgentRestart,
  expectArchive,
  expectFork,
  supervisedSpec,
} from '../support/sandbox-server/lifecycle.ts'
import type { SandboxInfo, SandboxServer } from '../support/sandbox-server/server.ts'
import {
  type AppConversation,
  createUser,
  type ListPage,
  type User,
  waitFor,
} from '../support/sandbox-server/user.ts'

/**
 * Conversations in containers, from outside: on each engine the promises of every backend, and those that
 * only containers have.
 */

const limit = { timeout: 300_000 }

defineForEachEngine((name, engine) => {
  describe(name, () => defineEngineTests(name, engine))
})

function defineEngineTests(name: string, engine: TestEngine): void {
  const openContext = async (env: Readonly<Record<string, string>> = {}): Promise<TestContext> => {
    const engineServer = await EngineSandboxServer.open(engine, env)
    onTestFinished(() => engineServer[Symbol.asyncDispose](), 200_000)
    return { engineServer, server: engineServer.server, user: await createUser(engineServer.server) }
  }
  const timed = async <T>(what: string, work: Promise<T>): Promise<T> => {
    const from = performance.now()
    const done = await work
    console.info(`${name}: ${what} took ${Math.round(performance.now() - from)} ms`)
    return done
  }

  test('a conversation is forked with its files while it works', limit, async () => {
    await expectFork((await openContext()).user)
  })

  test('an archived conversation continues in another container', limit, async () => {
    await expectArchive((await openContext()).user)
  })

  test('an agent server that its container starts again gets its settings again', limit, async () => {
    const specs = [{ ...supervisedSpec, backend: 'docker' }]
    const env = { SLIPWAY_SANDBOX_SPECS: JSON.stringify(specs), SLIPWAY_RECONCILE_SECONDS: '2' }
    await expectAgentRestart((await openContext(env)).user)
  })

  test(
    'a conversation continues over pauses, and over a restart of the server at any time',
    limit,
    async () => {
      const context = await openContext()
      const { engineServer, server, user } = context
      const { id, sandbox_id } = await timed(
        'a start',
        createConversation(context, [tickingCommand, { text: 'It counts.' }, ...textSteps]),
      )
      const sandbox = await user.waitForSandbox(sandbox_id, 'RUNNING')
      expect(sandbox.isolation).toMatchObject({ kind: 'container' })
      await user.waitForMessage(id, 'It counts.')
      const printed = `/api/v1/conversation/${id}/events/search?kind__eq=ObservationEvent`
      expect(JSON.stringify((await user.get<ListPage<unknown>>(printed)).items)).toContain('It has begun')
      await waitUntilIngested(context, id, sandbox)
      const before = await waitForTicks(sandbox, 3)

      // Everything is paused, also after a crash and restart of the server, and the history is readable
      // meanwhile.
      await timed('a pause', user.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox_id}/pause`))
      const from = Date.now()
      expect((await engineServer.container(sandbox_id)).State).toBe('paused')
      expect(await user.getSandbox(sandbox_id)).toMatchObject({ session_api_key: null, exposed_urls: null })
      expect((await user.sendMessage(id, 'Are you there?')).status).toBe(409)
      const log = await exportIngestedLog(context, id)
      await server.stop('SIGKILL')
      await server.start()
      expect(await exportIngestedLog(context, id)).toBe(log)
      expect((await user.getSandbox(sandbox_id))?.status).toBe('PAUSED')
      const to = Date.now()
      await timed('a resume', user.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox_id}/resume`))
      const again = await user.waitForSandbox(sandbox_id, 'RUNNING')
      expect(again).toMatchObject({
        session_api_key: sandbox.session_api_key,
        exposed_urls: sandbox.exposed_urls,
      })
      const after = await waitForTicks(again, before.length + 3)
      expect(after.slice(0, before.length)).toEqual(before)
      expect(after.filter(({ atMs }) => atMs > from && atMs < to)).toEqual([])
      // The same shell: it was not restarted.
      expect(new Set(after.map(({ pid }) => pid)).size).toBe(1)

      // Events that occur without a server are ingested later.
      await server.stop('SIGKILL')
      await postInSandbox(again, `/api/conversations/${id}/events`, {
        content: [{ type: 'text', text: 'Nobody hears this.' }],
        run: true,
      })
      await waitFor('it is answered', async () => {
        const { execution_status } = await getInSandbox<AppConversation>(again, `/api/conversations/${id}`)
        return execution_status === 'idle' || execution_status === 'finished' ? true : undefined
      })
      await server.start()
      await user.waitForMessage(id, 'Nobody hears this.')
      await waitUntilIngested(context, id, again)
      await runInSandbox(again, `echo kept > ${sandbox.working_dir}/kept && sync`)

      // A kill from outside is reported, and nothing is restarted.
      await engineServer.kill(sandbox_id)
      const broken = await user.waitForSandbox(sandbox_id, 'ERROR')
      expect(broken).toMatchObject({ session_api_key: null, exposed_urls: null })
      expect(broken.status_detail).toContain('exit code 137')
      expect(await user.sendMessage(id, 'Are you there?')).toMatchObject({ status: 503 })
      await server.stop('SIGKILL')
      await server.start()
      expect((await user.getSandbox(sandbox_id))?.status).toBe('ERROR')
      expect((await engineServer.container(sandbox_id)).State).toBe('exited')
      await user.requestOrThrow('POST', `/api/v1/sandboxes/${sandbox_id}/resume`)
      const revived = await timed('a resume after a crash', user.waitForSandbox(sandbox_id, 'RUNNING'))
      expect(revived.session_api_key).toBe(sandbox.session_api_key)
      expect(await runInSandbox(revived, `cat ${sandbox.working_dir}/kept`)).toBe('kept\n')
      expect(await waitForTicks(revived, after.length)).not.toHaveLength(0)
      expect(await user.sendMessage(id, 'Do you continue?')).toMatchObject({ status: 200 })
      await user.waitForMessage(id, 'Do you continue?')
      await waitFor('it answers', async () => {
        const { items } = await user.get<ListPage<{ source: string }>>(
          `/api/v1/conversation/${id}/events/search?kind__eq=MessageEvent&sort_order=TIMESTAMP_DESC&limit=1`,
        )
        return items[0]?.source === 'agent' ? true : undefined
      })
      await waitUntilIngested(context, id, revived)

      const whole = await exportIngestedLog(context, id)
      await user.requestOrThrow('DELETE', `/api/v1/sandboxes/${sandbox_id}`)
      await timed('a removal', engineServer.waitUntilGone(sandbox_id))
      expect(await exportIngestedLog(context, id)).toBe(whole)
      expect(await user.getConversation(id)).toMatchObject({ sandbox_status: 'MISSING' })
      expect((await user.sendMessage(id, 'Are you there?')).status).toBe(410)
    },
  )

  test(
    'the relay forwards REST and WebSocket to an agent server, and requires a key for a worker',
    limit,
    async () => {
      const context = await openContext({ SLIPWAY_EXPOSE: 'relay' })
      const { server, user } = context
      const { id, sandbox_id } = await createConversation(context, textSteps)
      const sandbox = await user.waitForSandbox(sandbox_id, 'RUNNING')
      expect(sandbox.exposed_urls?.map(({ name, url }) => [name, url])).toEqual([
        ['AGENT_SERVER', `${server.url}/sandboxes/${sandbox_id}/agent`],
        ['WORKER_1', `${server.url}/sandboxes/${sandbox_id}/worker_1`],
        ['WORKER_2', `${server.url}/sandboxes/${sandbox_id}/worker_2`],
      ])
      const headers = { 'x-session-api-key': String(sandbox.session_api_key) }
      const address = `${server.url}/sandboxes/${sandbox_id}/agent/sockets/events/${id}?after=0`
      const socket = new WebSocket(address.replace(/^http/, 'ws'), { headers })
      onTestFinished(() => socket.terminate())
      const frames: string[] = []
      socket.on('message', (data) => void frames.push(String(data)))
      await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
      await postInSandbox(sandbox, `/api/conversations/${id}/events`, {
        content: [{ type: 'text', text: 'By the relay.' }],
        run: true,
      })
      await waitFor('the socket sends it', async () =>
        frames.some((frame) => frame.includes('By the relay.')) &&
        frames.some((frame) => frame.includes('Answer 0.'))
          ? true
          : undefined,
      )
      await user.waitForMessage(id, 'By the relay.')
      // Without the key of the sandbox every request is refused.
      expect(
        (await fetch(`${server.url}/sandboxes/${sandbox_id}/agent/api/conversations/count`)).status,
      ).toBe(401)
      const stranger = new WebSocket(address.replace(/^http/, 'ws'))
      const heard: string[] = []
      stranger.on('message', (data) => void heard.push(String(data)))
      const code = new Promise((resolve) => stranger.once('close', resolve).once('error', () => {}))
      stranger.once('open', () =>
        stranger.send(JSON.stringify({ type: 'auth', session_api_key: 'sk-wrong' })),
      )
      expect([await code, heard]).toEqual([4001, []])

      const served = `require('node:http').createServer((_, response) => response.end('made by the agent')).listen(8011, '0.0.0.0')`
      await runInSandbox(sandbox, `node -e "${served}" >/dev/null 2>&1 &`)
      const worker = `${server.url}/sandboxes/${sandbox_id}/worker_1/`
      await waitFor('the worker answers', async () => {
        const response = await fetch(worker, { headers })
        return (await response.text()) === 'made by the agent' ? true : undefined
      })
      expect((await fetch(worker)).status).toBe(401)
      const other = await createUser(server)
      expect((await fetch(worker, { headers: { authorization: `Bearer ${other.key}` } })).status).toBe(404)
    },
  )

  test('a conversation claims a sandbox of the warm pool, and another one replaces it', limit, async () => {
    const context = await openContext({ SLIPWAY_WARM_POOL: '1' })
    const { engineServer, user } = context
    const warm = await waitFor('one is warm', async () => {
      const [found] = await engineServer.containers()
      const isReady =
        found !== undefined && readSandboxRows(engineServer.server.data)[0]?.status === 'RUNNING'
      return isReady ? found : undefined
    })
    expect(await user.get<ListPage<unknown>>('/api/v1/sandboxes/search')).toMatchObject({ items: [] })
    const { id, sandbox_id } = await timed(
      'a start from the pool',
      createConversation(context, textSteps, 'From the pool.'),
    )
    expect((await engineServer.container(sandbox_id)).Id).toBe(warm.Id)
    await user.waitForMessage(id, 'Answer 0.')
    await waitUntilIngested(context, id, await user.waitForSandbox(sandbox_id, 'RUNNING'))
    await waitFor('there is another one', async () => {
      const all = await engineServer.containers()
      return all.length === 2 && all.some(({ Id }) => Id === warm.Id) ? true : undefined
    })
  })

  test(
    'event ingest continues after the network of the sandboxes is removed and created again',
    limit,
    async () => {
      const context = await openContext()
      const { engineServer, user } = context
      const first = await createConversation(context, textSteps, 'Before.')
      await user.waitForMessage(first.id, 'Answer 0.')
      await user.requestOrThrow('DELETE', `/api/v1/sandboxes/${first.sandbox_id}`)
      await engineServer.waitUntilGone(first.sandbox_id)
      expect(await engineServer.removeNetworks()).toBe(1)
      const second = await createConversation(context, textSteps, 'After.')
      await user.waitForMessage(second.id, 'Answer 0.')
    },
  )
}

interface TestContext {
  readonly engineServer: EngineSandboxServer
  readonly server: SandboxServer
  readonly user: User
}

/** A shell that writes its process id and the time ten times a second. */
const tickingCommand = command(
  `(while :; do echo "$BASHPID $(date +%s%3N)" >> ticks; sleep 0.1; done) >/dev/null 2>&1 & echo It has begun`,
)
const textSteps = Array.from({ length: 9 }, (_, n) => ({ text: `Answer ${n}.` }))

/** Starts a conversation with a scripted model in its own sandbox. */
async function createConversation(
  { user }: TestContext,
  script: readonly object[],
  text?: string,
): Promise<AppConversation> {
  await user.setModel(scriptedModel(script))
  const isSaid = text !== undefined || script !== textSteps
  const request = isSaid ? { initial_message: { content: text ?? 'Begin.' } } : {}
  return await user.createConversation(request)
}

/** The ticks, as soon as there are more than `count`. */
async function waitForTicks(sandbox: SandboxInfo, count: number): Promise<{ pid: number; atMs: number }[]> {
  return await waitFor('it counts', async () => {
    const text = await runInSandbox(sandbox, `cat ${sandbox.working_dir}/ticks`)
    const ticks = [...text.matchAll(/^(\d+) (\d+)$/gm)].map(([, pid, atMs]) => ({
      pid: Number(pid),
      atMs: Number(atMs),
    }))
    return ticks.length >= count ? ticks : undefined
  })
}

async function postInSandbox(sandbox: SandboxInfo, path: string, body: unknown): Promise<void> {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
  const response = await fetchInSandbox(sandbox, path, init)
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`)
  await response.body?.cancel()
}

async function getInSandbox<T>(sandbox: SandboxInfo, path: string): Promise<T> {
  const response = await fetchInSandbox(sandbox, path)
  return (await response.json()) as T // what the wire says
}

/** The log of a conversation as the server has it. */
async function exportIngestedLog({ server, user }: TestContext, id: string): Promise<string> {
  const headers = { authorization: `Bearer ${user.key}` }
  const response = await server.fetch(`/api/v1/conversation/${id}/events/export`, { headers })
  expect(response.status).toBe(200)
  return await response.text()
}

/** Waits until the server has every byte of the log that is in the sandbox. */
async function waitUntilIngested(context: TestContext, id: string, sandbox: SandboxInfo): Promise<void> {
  await waitFor('all events are ingested', async () => {
    const sourceLog = await (await fetchInSandbox(sandbox, `/api/conversations/${id}/export`)).text()
    return sourceLog !== '' && sourceLog === (await exportIngestedLog(context, id)) ? true : undefined
  })
}
