import { existsSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { externalUrl } from '../frame.ts'
import { finishReply, OwnMapServer, toolReply } from '../map-server.ts'
import type { PythonPlays } from './python-plays.ts'

const browsers = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']

/** What the examples of the Python SDK for remote servers show: the whole result of each program. */
export function definePythonSdkTests(plays: PythonPlays): void {
  const { needs, run } = plays
  const options = { timeout: needs.timeout, concurrent: true }
  const sdkTest = (title: string, work: () => Promise<void>, isUnavailable = false) =>
    test.skipIf(needs.isUnavailable || externalUrl !== undefined || isUnavailable)(title, options, work)

  sdkTest(
    'creates a conversation, runs tools and hooks, and reads events, title and statistics',
    async () => {
      const found = await plays.converse()
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
    },
  )

  sdkTest('receives the tokens of a reply, and the end of a run by the socket', async () => {
    expect(await plays.streamed()).toMatchObject({
      text: 'One reply in two pieces.',
      status: 'finished',
      byTheSocket: true,
    })
  })

  sdkTest('rejects an action and accepts another', async () => {
    expect(await plays.confirmed()).toMatchObject({
      waiting: ['waiting_for_confirmation', 'waiting_for_confirmation'],
      rejected: ['Not that one.'],
      before: [],
      after: ['second.txt'],
      policy: 'NeverConfirm',
      analyzer: 'LLMSecurityAnalyzer',
    })
  })

  sdkTest('gives secrets to commands and never shows them', async () => {
    const found = await plays.secretValues()
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

  sdkTest('saves settings and makes a model of them', async () => {
    const { result, provider } = await plays.savedSettings()
    expect(result).toEqual({
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

  sdkTest('forks a conversation and moves its head', async () => {
    expect(await plays.forked()).toEqual({
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

  sdkTest('pauses, resumes and interrupts', async () => {
    const found = await plays.paused()
    expect(found.paused).toBe('paused')
    expect(found.kinds).toContain('PauseEvent')
    expect(found.kinds).toContain('InterruptEvent')
  })

  sdkTest('moves files, runs commands and reads git', async () => {
    const { result, directory } = await plays.files()
    expect(result).toEqual({
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

  sdkTest('adds its own tools, and joins a conversation by its id', async () => {
    expect(await plays.clientTools()).toEqual({
      shown: ['Welcome'],
      joined: true,
      again: true,
      named: true,
      deleted: 404,
    })
  })

  sdkTest('speaks to an agent as to an OpenAI model', async () => {
    const { result } = await run('gateway', { replies: [{ text: 'Hello from an agent.' }] })
    expect(result).toMatchObject({
      models: expect.arrayContaining(['openhands_python']),
      whole: 'Hello from an agent.',
      streamed: 'Hello from an agent.',
      finish: 'stop',
    })
  })

  sdkTest('continues after the server was killed and started again', async () => {
    const found = await plays.reconnected()
    expect(found).toMatchObject({ twice: 0, status: 'finished' })
    expect(found.kinds).toContain('AgentErrorEvent')
  })

  sdkTest('delivers the settings of a server that waits for them', async () => {
    const initKey = 'python-init-key'
    await using own = await OwnMapServer.open({
      env: { SLIPWAY_DEFERRED_INIT: 'true', SLIPWAY_INIT_API_KEY: initKey, SLIPWAY_NO_KEY: '' },
    })
    const { result } = await run('initialized', {
      replies: [finishReply()],
      endpoint: { url: own.url, key: 'python-delivered-key' },
      settings: { initKey },
    })
    expect(result).toMatchObject({ waiting: 200, refused: 503, wrong: 401, second: 400 })
  })

  const openBrowser = async () => {
    const page = await openPage('<title>Harbour</title><h1>Ships of today</h1>')
    try {
      const { port } = page.address() as AddressInfo // it listens on a port
      const { result } = await run<{ observations: string[] }>('browsed', {
        replies: [
          toolReply('browser_navigate', { url: `http://127.0.0.1:${port}/` }),
          toolReply('browser_get_content'),
          finishReply(),
        ],
      })
      expect(result.observations.join('\n')).toContain('Ships of today')
    } finally {
      page.close()
    }
  }
  sdkTest('opens a page in a browser', openBrowser, !browsers.some(existsSync))
}

async function openPage(html: string): Promise<Server> {
  const page = createServer((_, response) => response.setHeader('content-type', 'text/html').end(html))
  await new Promise<void>((done) => page.listen(0, '127.0.0.1', done))
  return page
}
