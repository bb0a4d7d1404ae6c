import { existsSync } from 'node:fs'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startAgentServer } from '../support/agent-server.ts'
import { freePort } from '../support/free-port.ts'
import { MockProvider, type ModelReply, type ScriptedReply } from '../support/mock-provider.ts'
import { findPython, type ProgramRequest, PythonPrograms } from '../support/python.ts'

/**
 * The published Python SDK, unmodified, against the server: what the examples for remote servers show, as
 * programs of our own (`python/programs`), with a model on loopback that plays replies.
 */
const python = findPython()
const key = 'python-session-key'
const timeout = 300_000

const call = (name: string, args: object): ModelReply => ({ calls: [{ name, arguments: args }] })
const command = (text: string, more: object = {}) => call('terminal', { command: text, ...more })
const finish = (message = 'Done.') => call('finish', { message })

if (python === undefined) console.warn('SKIPPED: the published Python SDK is not installed; run `.ci/python`')

describe.skipIf(python === undefined)('the Python SDK', { timeout }, () => {
  let root: string
  let programs: PythonPrograms
  let server: Awaited<ReturnType<typeof startAgentServer>>
  let provider: MockProvider
  let directory: string

  beforeAll(async () => {
    root = await realpath(await mkdtemp(join(tmpdir(), 'slipway-python-')))
    programs = await PythonPrograms.open(String(python), root)
    server = await startServer('data')
  }, timeout)
  afterAll(async () => {
    await programs?.[Symbol.asyncDispose]()
    await server?.stop('SIGKILL')
    await rm(root, { recursive: true, force: true })
  })
  beforeEach(async () => {
    provider = await MockProvider.open()
    directory = await mkdtemp(join(root, 'workspace-'))
  })
  afterEach(() => provider[Symbol.asyncDispose]())

  function startServer(data: string, env: Readonly<Record<string, string>> = {}, args: string[] = []) {
    const keys = { SLIPWAY_SESSION_API_KEY: key, SLIPWAY_NO_KEY: '' }
    return startAgentServer(join(root, data), { HOME: root, SLIPWAY_WIRE: 'current', ...keys, ...env }, args)
  }

  function play(...replies: ScriptedReply[]): void {
    provider.replies = replies
  }

  function run<T>(
    program: string,
    more: Partial<ProgramRequest> = {},
    answer?: (question: string) => Promise<unknown>,
  ): Promise<T> {
    const request = { url: server.url, key, model_url: provider.url, directory, ...more }
    return programs.run<T>(program, request, answer)
  }

  test('creates a conversation, runs tools and hooks, and reads events, title and statistics', async () => {
    provider.replyWithoutTools = { text: 'Words of a model' }
    play(
      call('file_editor', { command: 'create', path: join(directory, 'hello.txt'), file_text: 'Hello\n' }),
      call('task_tracker', { command: 'plan', task_list: [{ title: 'Greet', notes: '', status: 'done' }] }),
      finish('Too early.'),
      command('touch mended.txt'),
      finish(),
      // The side question is asked with the tools of the agent.
      { text: 'An aside.' },
    )
    const found = await run<Record<string, unknown>>('converse')
    expect(found).toMatchObject({
      title: 'Words of a model',
      savedTitle: 'A title of Python',
      tags: { made: 'python' },
      answer: 'An aside.',
      blocked: [true, false],
      status: 'finished',
      hasState: true,
    })
    expect(found.files).toEqual(expect.arrayContaining(['hello.txt', 'mended.txt']))
    expect(found.received).toEqual(
      expect.arrayContaining(['ActionEvent', 'HookExecutionEvent', 'MessageEvent', 'ObservationEvent']),
    )
    expect(found.tokens).toBeGreaterThan(0)
  })

  test('receives the tokens of a reply, and the end of a run by the socket', async () => {
    play({ text: 'One reply in two pieces.' })
    expect(await run('streamed')).toMatchObject({
      text: 'One reply in two pieces.',
      status: 'finished',
      byTheSocket: true,
    })
  })

  test('rejects an action and accepts another', async () => {
    play(command('touch first.txt'), command('touch second.txt'), finish())
    expect(await run('confirmed')).toMatchObject({
      waiting: ['waiting_for_confirmation', 'waiting_for_confirmation'],
      rejected: ['Not that one.'],
      before: [],
      after: ['second.txt'],
      policy: 'NeverConfirm',
      analyzer: 'LLMSecurityAnalyzer',
    })
  })

  test('gives secrets to commands and never shows them', async () => {
    const names = ['PLAIN_TOKEN', 'STATIC_TOKEN', 'CALLED_TOKEN', 'STORED_TOKEN']
    play(...names.map((name) => command(`echo "${name} has \${#${name}} characters: $${name}"`)), finish())
    const found = await run<{ observations: string[] }>('secret_values')
    expect(found).toMatchObject({
      names: ['STORED_TOKEN'],
      invalid: [422, 422, 422],
      leaks: [],
      removed: [200, 404],
    })
    const text = found.observations.join('\n')
    expect(text).toContain('PLAIN_TOKEN has 17 characters')
    expect(text).toContain('STATIC_TOKEN has 18 characters')
    expect(text).toContain('CALLED_TOKEN has 18 characters')
    expect(text).toContain('STORED_TOKEN has 18 characters')
  })

  test('saves settings and makes a model of them', async () => {
    play(finish('Four.'))
    expect(await run('saved_settings')).toEqual({
      shown: '**********',
      isSet: true,
      encrypted: 'gAAAAA',
      model: 'openai/gpt-4o',
      key: 'sk-settings-canary',
      temperature: 0.5,
      mcp: {},
      info: ['idle_time', 'uptime', 'version'],
    })
    expect(provider.requests.at(0)?.headers.authorization).toBe('Bearer sk-settings-canary')
  })

  test('forks a conversation and moves its head', async () => {
    play(command('echo from the source'), finish(), command('echo from the fork'), finish())
    expect(await run('forked')).toEqual({
      isNew: true,
      copied: true,
      grown: true,
      sourceUnchanged: true,
      title: 'A fork',
      tags: { purpose: 'a/b', title: 'An experiment' },
      partKinds: ['SystemPromptEvent', 'MessageEvent'],
      head: true,
    })
  })

  test('pauses, resumes and interrupts', async () => {
    play(command('sleep 2; echo one'), command('echo two'), finish(), command('sleep 300'), finish())
    const found = await run<{ paused: string; kinds: string[] }>('paused')
    expect(found.paused).toBe('paused')
    expect(found.kinds).toContain('PauseEvent')
    expect(found.kinds).toContain('InterruptEvent')
  })

  test('moves files, runs commands and reads git', async () => {
    const scratch = await mkdtemp(join(root, 'scratch-'))
    expect(await run('files', { settings: { scratch } })).toEqual({
      missing: false,
      failed: [3, 'out\n', 'err\n'],
      elsewhere: join(directory, 'sub'),
      lines: 20_000,
      late: [-1, true],
      changes: [
        ['ADDED', 'new.txt'],
        ['UPDATED', 'kept.txt'],
      ],
      diff: ['one', 'two'],
      alive: true,
    })
  })

  test('adds its own tools, and joins a conversation by its id', async () => {
    play(call('show_banner', { text: 'Welcome' }), finish())
    expect(await run('client_tools')).toEqual({
      shown: ['Welcome'],
      joined: true,
      again: true,
      named: true,
      deleted: 404,
    })
  })

  test('speaks to an agent as to an OpenAI model', async () => {
    play({ text: 'Hello from an agent.' })
    expect(await run('gateway')).toMatchObject({
      models: expect.arrayContaining(['openhands_python']),
      whole: 'Hello from an agent.',
      streamed: 'Hello from an agent.',
      finish: 'stop',
    })
  })

  test('continues after the server was killed and started again', async () => {
    play(command('sleep 8; echo slept'), finish())
    const args = ['--port', String(await freePort())]
    let own = await startServer('killed', {}, args)
    try {
      const found = await run<{ kinds: string[]; twice: number; status: string }>(
        'reconnected',
        { url: own.url },
        async (question) => {
          if (question === 'kill') await own.stop('SIGKILL')
          else own = await startServer('killed', {}, args)
        },
      )
      expect(found).toMatchObject({ twice: 0, status: 'finished' })
      expect(found.kinds).toContain('AgentErrorEvent')
    } finally {
      await own.stop('SIGKILL')
    }
  })

  test('delivers the settings of a server that waits for them', async () => {
    play(finish())
    const initKey = 'python-init-key'
    const env = { SLIPWAY_SESSION_API_KEY: '', SLIPWAY_DEFERRED_INIT: 'true', SLIPWAY_INIT_API_KEY: initKey }
    const own = await startServer('waiting', env)
    try {
      expect(
        await run('initialized', { url: own.url, key: 'python-delivered-key', settings: { initKey } }),
      ).toMatchObject({
        waiting: 200,
        refused: 503,
        wrong: 401,
        second: 400,
      })
    } finally {
      await own.stop('SIGKILL')
    }
  })

  const hasBrowser = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].some(
    existsSync,
  )
  test.skipIf(!hasBrowser)('opens a page in a browser', async () => {
    const page = await openPage('<title>Harbour</title><h1>Ships of today</h1>')
    try {
      const { port } = page.address() as AddressInfo // it listens on a port
      play(
        call('browser_navigate', { url: `http://127.0.0.1:${port}/` }),
        call('browser_get_content', {}),
        finish(),
      )
      const found = await run<{ observations: string[] }>('browsed')
      expect(found.observations.join('\n')).toContain('Ships of today')
    } finally {
      page.close()
    }
  })
})

async function openPage(html: string): Promise<Server> {
  const page = createServer((_, response) => response.setHeader('content-type', 'text/html').end(html))
  await new Promise<void>((done) => page.listen(0, '127.0.0.1', done))
  return page
}
