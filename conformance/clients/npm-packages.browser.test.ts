import { cp, readdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join, resolve } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { chromium } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { findChromium } from '../support/browser-user.ts'
import {
  type Installation,
  installPackages,
  runProgram,
  startInstalledServer,
} from '../support/npm-packages.ts'
import { pageOrigins } from '../wire/wire-server.ts'

/**
 * The packages of `npm run release`, installed by npm into an empty folder and run from there.
 * `SLIPWAY_INSTALLED=1` requires that npm can install; without it the tests are skipped with a message where
 * npm reaches no registry. At night the wire suite runs against the installed server, whose sources have it
 * by day, and the examples of the client are type-checked.
 */
const root = resolve(import.meta.dirname, '../..')
const isThorough = process.env.SLIPWAY_INSTALLED === '1'
const browser = await findChromium()
const installation = await installPackages()
if (typeof installation === 'string' && isThorough) throw new Error(installation)
const isNight = process.env.SLIPWAY_NIGHTLY === '1'
const skipReason = typeof installation === 'string' ? installation : undefined
const packageTest = (name: string, run: (there: Installation) => Promise<void>) =>
  test.skipIf(skipReason !== undefined)(
    skipReason === undefined ? name : `${name}: ${skipReason}`,
    { timeout: 600_000 },
    async () => {
      if (typeof installation !== 'string') await run(installation)
    },
  )
const nightTest: typeof packageTest = (name, run) => {
  if (isNight) packageTest(name, run)
}

const sessionKey = 'installed-key-of-this-test'
/** Shows a page that loads the client: its origin is not the server's. */
const pages = createServer(async (request, response) => {
  if (request.url !== '/client.js' || typeof installation === 'string') {
    response.setHeader('content-type', 'text/html').end('<!doctype html><title>client</title>')
    return
  }
  const module = await readFile(join(installation.directory, 'node_modules/@slipway/client/index.js'))
  response.setHeader('content-type', 'text/javascript').end(module)
})
let pageUrl = ''
let server: Awaited<ReturnType<typeof startInstalledServer>> | undefined
beforeAll(async () => {
  await new Promise<void>((done) => pages.listen(0, '127.0.0.1', done))
  const address = pages.address()
  pageUrl = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
  if (typeof installation !== 'string')
    server = await startInstalledServer(installation, sessionKey, [...pageOrigins, pageUrl])
}, 60_000)
afterAll(async () => {
  pages.close()
  await server?.stop()
  if (typeof installation !== 'string') await installation[Symbol.asyncDispose]()
}, 60_000)

packageTest(
  'the command says its version, and its help names the servers',
  async ({ directory, command }) => {
    const { version } = JSON.parse(await readFile(join(root, 'packages/cli/package.json'), 'utf8'))
    const linked = join(directory, 'node_modules/.bin/slipway')
    expect(await runProgram(process.execPath, [linked, '--version'], { cwd: directory })).toEqual({
      code: 0,
      output: `${version}\n`,
    })
    const { output } = await runProgram(process.execPath, [command, '--help'], { cwd: directory })
    for (const name of ['serve', 'sandbox-server', 'run', 'demo']) expect(output).toContain(name)
  },
)

packageTest(
  'the packages hold no TypeScript but declarations, and nothing of tests',
  async ({ directory }) => {
    const { output } = await runProgram(
      'find',
      [
        'node_modules/slipway',
        'node_modules/@slipway',
        '-type',
        'f',
        '-name',
        '*.ts',
        '!',
        '-name',
        '*.d.ts',
      ],
      { cwd: directory },
    )
    expect(output).toBe('')
    const { output: tests } = await runProgram(
      'grep',
      ['-rlE', "from 'vitest'|fast-check", 'node_modules/slipway', '--include=*.js'],
      { cwd: directory },
    )
    expect(tests).toBe('')
  },
)

packageTest('each bundled library loads', async ({ directory }) => {
  const libraries = join(directory, 'node_modules/slipway/libraries')
  const files = (await readdir(libraries)).filter((name) => name.endsWith('.js'))
  expect(files).toContain('dockerode.js')
  const script = files.map((name) => `await import(${JSON.stringify(join(libraries, name))})`).join('\n')
  const args = ['--input-type=module', '-e', script]
  expect(await runProgram(process.execPath, args, { cwd: directory })).toEqual({ code: 0, output: '' })
})

// By day installed/first-minutes runs both.
nightTest('the demo runs to its end', async ({ directory, command }) => {
  const { code, output } = await runProgram(process.execPath, [command, 'demo', '--fast'], { cwd: directory })
  expect([code, output]).toEqual([0, expect.stringContaining('Done')])
})

test.skipIf(skipReason !== undefined || !isThorough)(
  'an isolated sandbox runs the installed server',
  { timeout: 300_000 },
  async () => {
    if (typeof installation === 'string') return
    const { code, output } = await runProgram(
      process.execPath,
      [installation.command, 'demo-sandbox', '--fast'],
      {
        cwd: installation.directory,
      },
    )
    expect([code, output]).toEqual([0, expect.stringContaining('Done')])
  },
)

packageTest('the server says of which commit it was built', async () => {
  const headers = { 'x-session-api-key': sessionKey }
  const info = await (await fetch(`${server?.url}/server_info`, { headers })).json()
  const { output } = await runProgram('git', ['rev-parse', 'HEAD'], { cwd: root })
  expect(info).toMatchObject({ build_git_sha: output.trim(), build_git_ref: expect.stringMatching(/./) })
})

nightTest('the server serves existing clients as the one of the working tree does', async () => {
  const vitest = join(root, 'node_modules/vitest/vitest.mjs')
  const args = ['run', 'conformance/wire', '--no-file-parallelism', '--reporter=dot']
  const { code, output } = await runProgram(process.execPath, [vitest, ...args], {
    cwd: root,
    env: { SLIPWAY_URL: String(server?.url), SLIPWAY_SESSION_API_KEY: sessionKey },
  })
  expect(stripVTControlCharacters(output)).toMatch(/Tests +\d+ passed \(/)
  expect(code).toBe(0)
})

const consumer = `
import { Client, follow } from '@slipway/client'
const client = new Client({ url: 'http://127.0.0.1:1', sessionApiKey: 'x' })
const body = { agent: { llm: { model: 'x/y' } }, workspace: { working_dir: '.' } }
const created = await client.call('createConversation', { body: { ...body, initial_message: { content: [{ type: 'text', text: 'Hi' }] } } })
const params = { conversation_id: created.id }
const page = await client.call('searchEvents', { params, query: { kind: 'MessageEvent', limit: 5 } })
const id: string | undefined = page.items[0]?.id
const total: number = await client.call('countConversations')
for await (const { position, event } of follow(client, 'x', { after: 0 })) console.log(position.toFixed(), event.kind, id)
// @ts-expect-error there is no such operation
await client.call('nothingSuch', {})
// @ts-expect-error a request has a model
await client.call('createConversation', { body: { ...body, agent: { llm: {} } } })
// @ts-expect-error an id is no number
const wrong: number = page.items[0]?.id
console.log(wrong, total)
`

packageTest(
  "the client's types pass strict type checking with nothing else installed",
  async ({ directory }) => {
    await writeFile(join(directory, 'consumer.ts'), consumer)
    const common = [
      '--noEmit',
      '--strict',
      '--exactOptionalPropertyTypes',
      '--target',
      'esnext',
      '--types',
      '',
    ]
    const lib = ['--lib', 'esnext,dom,dom.iterable,dom.asynciterable']
    const args = ['--ignoreConfig', ...common, ...lib, '--module', 'nodenext', 'consumer.ts']
    const startedAt = performance.now()
    const { output } = await runProgram(join(root, 'node_modules/.bin/tsc'), args, { cwd: directory })
    expect(output).toBe('')
    console.log(
      `tsc of ${consumer.trim().split('\n').length} lines: ${Math.round(performance.now() - startedAt)} ms`,
    )
    // Hover texts are comments of the declarations.
    const calls = join(directory, 'node_modules/@slipway/client/types/protocol/src/agent-server-calls.d.ts')
    expect(await readFile(calls, 'utf8')).toMatch(
      /\/\*\* Keep only messages whose text contains this, in any case\. \*\/\nreadonly "body"\?: string/,
    )
    const { dependencies } = JSON.parse(
      await readFile(join(directory, 'node_modules/@slipway/client/package.json'), 'utf8'),
    )
    expect(dependencies).toBeUndefined()
  },
)

/**
 * A program of the client for Node and a page: creates a conversation, follows it to its end, returns the
 * kinds.
 */
const clientScript = (url: string, directory: string) => `
const client = new Client({ url: ${JSON.stringify(url)}, sessionApiKey: ${JSON.stringify(sessionKey)} })
const llm = { model: 'scripted/test', script: [{ text: 'From the packaged client.' }] }
const body = { agent: { llm, tools: [] }, workspace: { working_dir: ${JSON.stringify(join(directory, 'work'))} }, autotitle: false, initial_message: { content: [{ type: 'text', text: 'Hi' }] } }
const { id } = await client.call('createConversation', { body })
const kinds = []
for await (const { event } of follow(client, id, { after: 0, until: 'idle' })) kinds.push(event.kind)
const { response } = await client.call('finalResponse', { params: { conversation_id: id } })
`
const expectedKinds = [
  'SystemPromptEvent',
  'MessageEvent',
  'ConversationStateUpdateEvent',
  'MessageEvent',
  'ConversationStateUpdateEvent',
]

nightTest('the examples of the client pass strict type checking with the package', async ({ directory }) => {
  await cp(join(root, 'examples/client'), join(directory, 'examples'), { recursive: true })
  const programs = (await readdir(join(directory, 'examples'))).filter((name) => !name.endsWith('.test.ts'))
  const options = ['--ignoreConfig', '--noEmit', '--strict', '--exactOptionalPropertyTypes', '--skipLibCheck']
  const types = [
    '--target',
    'esnext',
    '--module',
    'nodenext',
    '--lib',
    'esnext,dom,dom.iterable,dom.asynciterable',
  ]
  const node = ['--types', 'node', '--typeRoots', join(root, 'node_modules/@types')]
  const args = [...options, ...types, ...node, ...programs.map((name) => join('examples', name))]
  const { output } = await runProgram(join(root, 'node_modules/.bin/tsc'), args, { cwd: directory })
  expect(output).toBe('')
  expect(programs.length).toBeGreaterThan(4)
})

packageTest('the client works in Node', async ({ directory }) => {
  const script = `import { Client, follow } from '@slipway/client'\n${clientScript(String(server?.url), directory)}\nconsole.log(JSON.stringify({ kinds, response }))`
  const { output } = await runProgram(process.execPath, ['--input-type=module', '-e', script], {
    cwd: directory,
  })
  expect(JSON.parse(output)).toEqual({ kinds: expectedKinds, response: 'From the packaged client.' })
})

packageTest('the client is one file that a browser loads and works with', async ({ directory }) => {
  if (browser === undefined)
    return console.warn('No Chromium is installed: the client was not tried in a browser.')
  const chrome = await chromium.launch({ executablePath: browser, args: ['--no-sandbox'] })
  try {
    const page = await chrome.newPage()
    await page.goto(pageUrl)
    const script = `(async () => { const { Client, follow } = await import('/client.js')\n${clientScript(String(server?.url), directory)}\nreturn { kinds, response } })()`
    expect(await page.evaluate(script)).toEqual({
      kinds: expectedKinds,
      response: 'From the packaged client.',
    })
  } finally {
    await chrome.close()
  }
})
