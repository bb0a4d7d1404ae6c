import { basename, dirname, join, resolve } from 'node:path'
import { readSettings } from '@slipway/protocol/settings'
import { type ServeOptions, serveSandboxes, settings } from '@slipway/sandbox-server'
import { makeDirectory, writeFileAtomic } from '@slipway/shared/fs'
import { startConsole } from '../../console/console-start.ts'
import { openBrowser } from '../../console/open-browser.ts'
import { type Config, readEnvironment, serverEnvironment } from '../../context/config.ts'
import { findStartData } from '../../context/data-directory.ts'
import { paint, printNote } from '../../output/terminal.ts'

/** Starts the sandbox server; resolves when the signal has stopped it. */
export async function sandboxServerCommand(flags: {
  readonly host: string
  readonly port: number
  readonly data?: string
  /** URL of a PostgreSQL database. */
  readonly database?: string
  readonly isKeyWanted: boolean
  /** Serves the console at `/`. */
  readonly hasConsole: boolean
  /** Opens it in a browser. */
  readonly isOpened: boolean
  readonly config: Config
  readonly isJson: boolean
  readonly signal: AbortSignal
}): Promise<void> {
  const options = { ...flags, data: await findStartData(flags.data, flags.config.env, 'sandbox') }
  const { isJson, hasConsole, isOpened, database, config, ...server } = options
  const env: Config['env'] = {
    ...serverEnvironment(config, 'sandbox_server', config.env),
    ...(database === undefined ? {} : { SLIPWAY_DATABASE_URL: database }),
  }
  const { databaseUrl } = readSettings(settings, env)
  const console = hasConsole ? startConsole({ isJson, signal: options.signal }) : undefined
  const ready: ServeOptions['ready'] = async ({ url, key, consoleUrl, notes }) => {
    if (consoleUrl !== undefined) console?.begin()
    if (consoleUrl !== undefined && isOpened)
      void openBrowser(consoleUrl, options.data).then((isStarted) => {
        if (!isStarted) printNote('No browser could be started: open the address yourself.')
      })
    if (isJson) {
      process.stdout.write(`${JSON.stringify({ url, ...(key === undefined ? {} : { key }) })}\n`)
      return
    }
    const lines = [
      `Slipway's sandbox server is ready: ${paint('bold', url)}`,
      ...(consoleUrl === undefined
        ? []
        : [`  console   ${process.stdout.isTTY ? consoleUrl : consoleUrl.replace(/#.*$/, '')}`]),
      `  API page  ${url}/docs`,
      `  data in   ${databaseUrl ? 'the database' : resolve(options.data)}`,
      ...(key === undefined ? [] : [await keyLine(key, options.data)]),
      ...notes.map((note) => `  note      ${note}`),
      'Ctrl-C stops it; its sandboxes stay as they are.',
    ]
    process.stdout.write(`${lines.join('\n')}\n`)
  }
  await serveSandboxes({ ...server, env, console: console?.directory, agent: agentServerCommand(), ready })
}

/** The journal of systemd, which many may read and which stays, has the path of a private file instead. */
async function keyLine(key: string, data: string): Promise<string> {
  if (readEnvironment().JOURNAL_STREAM === undefined)
    return `  API key   ${paint('bold', key)}  (shown this once: keep it)`
  const path = join(resolve(data), 'admin.key')
  await makeDirectory(resolve(data), 0o700)
  await writeFileAtomic(path, `${key}\n`)
  return `  API key   in ${path}: keep it, then delete the file`
}

/** The agent server that sandboxes run: this very program, and what it has to read. */
export function agentServerCommand(): { command: string[]; readable: string[] } {
  const main = resolve(import.meta.dirname, '../../main.js')
  const root = resolve(import.meta.dirname, '../../../../..')
  // Installed, the libraries lie beside this package; in a clone, below its root.
  const isInstalled = basename(dirname(root)) === 'node_modules'
  const libraries = isInstalled ? dirname(root) : resolve(root, 'node_modules')
  return {
    command: [process.execPath, main, '--no-config', 'serve'],
    readable: [process.execPath, resolve(root, 'packages'), libraries],
  }
}
