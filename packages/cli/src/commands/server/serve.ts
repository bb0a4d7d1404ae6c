import { resolve } from 'node:path'
import { type ServeOptions, serve, settings } from '@slipway/agent-server'
import { readSettings } from '@slipway/protocol/settings'
import { takeEnvironment } from '@slipway/shared/process'
import { startConsole } from '../../console/console-start.ts'
import { openBrowser } from '../../console/open-browser.ts'
import { type Config, serverEnvironment } from '../../context/config.ts'
import { findStartData } from '../../context/data-directory.ts'
import { removeServerAddress, writeServerAddress } from '../../context/server-address.ts'
import { paint, printNote } from '../../output/terminal.ts'

/** Starts the agent server; resolves when the signal has stopped it. */
export async function serveCommand(flags: {
  readonly host: string
  readonly port: number
  readonly socket?: string
  readonly data?: string
  readonly web?: string
  /** URL of a PostgreSQL database. */
  readonly database?: string
  readonly noKey: boolean
  /** Serves the console at `/`. */
  readonly hasConsole: boolean
  /** Opens it in a browser. */
  readonly isOpened: boolean
  /** Ends when no session uses it: for the private server. */
  readonly untilUnused?: true
  /** The secrets of the server are taken from its environment, which is that of this process. */
  readonly config: Config
  readonly isJson: boolean
  readonly signal: AbortSignal
}): Promise<void> {
  const options = { ...flags, data: await findStartData(flags.data, flags.config.env) }
  const { isJson, database, hasConsole, isOpened, untilUnused, config, ...server } = options
  const own = takeEnvironment(config.env)
  const env: Config['env'] = {
    ...serverEnvironment(config, 'agent_server', own),
    // The flag overrides the key of the file.
    ...(options.noKey ? { SLIPWAY_SESSION_API_KEY: config.own.sessionApiKey?.reveal() } : {}),
    ...(database === undefined ? {} : { SLIPWAY_DATABASE_URL: database }),
  }
  const { webDirectory, databaseUrl } = readSettings(settings, env)
  const isNoted = options.socket === undefined
  const hasWeb = (options.web ?? webDirectory) !== undefined
  const console =
    hasConsole && !hasWeb && options.socket === undefined
      ? startConsole({ isJson, signal: options.signal })
      : undefined
  const ready: ServeOptions['ready'] = async (url, sessionKey, consoleUrl) => {
    if (consoleUrl !== undefined) console?.begin()
    if (isNoted) await writeServerAddress(options.data, url, own).catch(noteUnwritten)
    if (untilUnused) void startWatch(url, options, own)
    if (consoleUrl !== undefined && isOpened)
      void openBrowser(consoleUrl, options.data).then((isStarted) => {
        if (!isStarted) printNote('No browser could be started: slipway open prints a link.')
      })
    if (isJson) {
      const key = sessionKey === undefined ? {} : { session_key_file: sessionKey.path }
      process.stdout.write(`${JSON.stringify({ url, ...key })}\n`)
      return
    }
    // Shown once, and to a person: other readers of the output may keep it.
    const isShown = sessionKey?.isNew === true && process.stdout.isTTY
    const lines = [
      `Slipway is ready: ${paint('bold', url)}`,
      ...(consoleUrl === undefined
        ? []
        : [`  console   ${process.stdout.isTTY ? consoleUrl : consoleUrl.replace(/#.*$/, '')}`]),
      ...(hasWeb && options.socket === undefined ? [`  web       ${url}/`] : []),
      ...(options.socket === undefined ? [`  API page  ${url}/docs`] : []),
      `  logs in   ${databaseUrl ? 'the database' : resolve(options.data)}`,
      ...(sessionKey === undefined ? [] : [`  key in    ${sessionKey.path}`]),
      ...(isShown ? [`  key       ${paint('bold', sessionKey.key.reveal())}`] : []),
      'Ctrl-C stops it.',
    ]
    process.stdout.write(`${lines.join('\n')}\n`)
  }
  try {
    await serve({ ...server, console: console?.directory, env, ready })
  } finally {
    // The successor of the private server starts at the same port.
    if (isNoted && !untilUnused) await removeServerAddress(options.data)
  }
}

function noteUnwritten({ message }: Error): void {
  printNote(`Commands have to name the address of the server with --url: ${message}`)
}

async function startWatch(
  url: string,
  { data, signal }: { readonly data: string; readonly signal: AbortSignal },
  env: Config['env'],
) {
  const { watchUse } = await import('../../context/watch-use.ts')
  await watchUse(url, data, { env, signal, end: () => process.kill(process.pid, 'SIGTERM') })
}
