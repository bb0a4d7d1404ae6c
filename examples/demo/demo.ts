import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { mkdir, mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { serve } from '@slipway/agent-server'
import {
  type Config,
  commandName,
  isInteractive,
  openBrowser,
  paint,
  print,
  startConsole,
} from '@slipway/cli/toolkit'
import { Client } from '@slipway/client'
import { Problem } from '@slipway/protocol'
import { showAgentRun } from './agent-run.ts'
import { type DemoContext, printCommand, printHeading } from './context.ts'
import { showCrash } from './crash.ts'
import { showEventLog } from './event-log.ts'

/**
 * The whole product in some seconds: a server on a free port with its data in a temporary directory, an agent
 * that works there with real tools, then searches, pages and exports of its log. Uses the model of the
 * environment if it has a key or an address, otherwise a scripted one. Removes everything; rejects when a
 * check fails.
 */
export async function demoCommand(options: {
  readonly isFast: boolean
  /** The user at the terminal confirms pending actions. */
  readonly isAsking: boolean
  /** The server keeps running at the end, with its console, until the signal. */
  readonly isKept: boolean
  readonly config: Pick<Config, 'env' | 'model'>
  readonly signal: AbortSignal
}): Promise<void> {
  if (options.isAsking && !isInteractive())
    throw new Problem('bad_request', 'There is no terminal for confirmation prompts.')
  const root = await realpath(await mkdtemp(join(tmpdir(), 'slipway-demo-')))
  // On exit, because a crash of the server ends this process before any other clean-up.
  process.once('exit', () => rmSync(root, { recursive: true, force: true }))
  const url = await runOnTemporaryServer(options, root)
  await rm(root, { recursive: true, force: true })
  await print(`\n${paint('bold', 'Done')}\n`)
  await print(
    `The API was at ${url}/api, its page at ${url}/docs. The server is stopped and its data removed.\n`,
  )
  await print(`Start your own with "${commandName} serve", then "${commandName} run --help".\n`)
}

/** Runs the demo on its own server, which has stopped afterwards. Returns its address. */
async function runOnTemporaryServer(
  options: Parameters<typeof demoCommand>[0],
  root: string,
): Promise<string> {
  const { isFast, isAsking, config } = options
  const workspace = join(root, 'project')
  for (const name of ['project', 'home', 'tmp']) await mkdir(join(root, name))
  const abort = new AbortController()
  const signal = AbortSignal.any([abort.signal, options.signal])
  // The terminal is closed: stop everything. A stand-alone server would continue.
  process.once('SIGHUP', () => abort.abort(new Error('The terminal is closed.')))
  const ready = Promise.withResolvers<string>()
  const sessionApiKey = randomUUID()
  const env = { ...demoEnvironment(config, root), SLIPWAY_SESSION_API_KEY: sessionApiKey }
  const server = { host: '127.0.0.1', port: 0, data: join(root, 'data'), env }
  const console = options.isKept ? startConsole({ isJson: false, signal }) : undefined
  let consoleUrl: string | undefined
  const serving = serve({
    ...server,
    console: console?.directory,
    signal: abort.signal,
    ready(url, _, address) {
      consoleUrl = address
      console?.begin()
      ready.resolve(url)
    },
  })
  try {
    const url = await Promise.race([
      ready.promise,
      serving.then(() => Promise.reject(new Error('The server stopped.'))),
    ])
    const { name, apiKey, baseUrl } = config.model
    const isReachable = apiKey !== undefined || baseUrl !== undefined
    const model = name === undefined || !isReachable ? undefined : { ...config.model, name }
    const stage = { client: new Client({ url, sessionApiKey }), isFast, isAsking, workspace, model, signal }
    await runDemo(stage, { root, env })
    if (consoleUrl !== undefined) await keepServer(consoleUrl, { root, serving, signal })
    return url
  } finally {
    abort.abort()
    await serving.catch(() => undefined)
  }
}

/** Resolves when the signal aborts. */
async function keepServer(
  url: string,
  {
    root,
    serving,
    signal,
  }: { readonly root: string; readonly serving: Promise<void>; readonly signal: AbortSignal },
): Promise<void> {
  await print(`\nThe console has these conversations: ${paint('bold', url)}\nCtrl-C stops the server.\n`)
  if (process.stdout.isTTY) await openBrowser(url, root)
  if (!signal.aborted) await Promise.race([once(signal, 'abort'), serving])
}

async function runDemo(
  stage: DemoContext,
  own: { readonly root: string; readonly env: Config['env'] },
): Promise<void> {
  const { url } = stage.client
  await printHeading(stage, 'A server, its log in SQLite on disk')
  await printCommand(`${commandName} serve --port 0`)
  await print(`${url}\n`)
  const work = await showAgentRun(stage)
  await showEventLog(stage, work)
  await showCrash(stage, own)
}

/**
 * The environment of tools: without the user's home directory and settings, with the Node of this process.
 */
function demoEnvironment({ env }: Pick<Config, 'env'>, root: string): Config['env'] {
  const own = Object.entries(env).filter(([name]) => !/^(SLIPWAY|LLM)_/.test(name))
  return {
    ...Object.fromEntries(own),
    PATH: [dirname(process.execPath), env.PATH].join(delimiter),
    HOME: join(root, 'home'),
    TMPDIR: join(root, 'tmp'),
    SLIPWAY_LOG_LEVEL: 'error',
  }
}
