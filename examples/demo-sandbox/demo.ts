import { rmSync } from 'node:fs'
import { mkdir, mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { agentServerCommand, commandName, paint, print, printNote } from '@slipway/cli/toolkit'
import { SandboxServerClient } from '@slipway/client'
import { serveSandboxes } from '@slipway/sandbox-server'
import { removeSandboxes } from './cleanup.ts'
import type { SandboxDemoContext } from './context.ts'
import { runSandboxDemo } from './play.ts'

export interface SandboxDemoOptions {
  readonly isFast: boolean
  /** Only `SLIPWAY_ISOLATION` is read. */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly signal: AbortSignal
}

type TemporaryServerOptions = Pick<SandboxDemoContext, 'root' | 'isFast' | 'signal'> &
  Pick<SandboxDemoOptions, 'env'>

/**
 * The life of a sandbox in some seconds: a sandbox server on a free port with its data in a temporary
 * directory, a conversation in a sandbox, a pause that freezes its processes, a resume, the removal. The
 * model is scripted and calls no provider. Removes everything, also when it is stopped; rejects when a check
 * fails.
 */
export async function sandboxDemoCommand(options: SandboxDemoOptions): Promise<void> {
  const root = await realpath(await mkdtemp(join(tmpdir(), 'slipway-demo-')))
  // On exit, because a crash of the server ends this process before any other clean-up.
  process.once('exit', () => rmSync(root, { recursive: true, force: true }))
  const signal = AbortSignal.any([options.signal, hangUpSignal()])
  await runOnTemporaryServer({ ...options, root, signal })
  await rm(root, { recursive: true, force: true })
  await print(`\n${paint('bold', 'Done')}\n`)
  await print(
    `The server is stopped and its data removed. Start your own with "${commandName} sandbox-server",\n`,
  )
  await print(`then "${commandName} app --help" and "${commandName} sandbox --help".\n`)
}

/**
 * Sandboxes outlive the process that started them, so nothing may end this process before they are gone:
 * neither a second Ctrl-C nor a closed pipe. Aborts when the terminal or the reader is gone.
 */
function hangUpSignal(): AbortSignal {
  const hangUp = new AbortController()
  process.on('SIGHUP', () => hangUp.abort(new Error('The terminal is closed.')))
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => undefined)
  process.stdout.removeAllListeners('error')
  process.stdout.on('error', () => hangUp.abort(new Error('The output is closed.')))
  return hangUp.signal
}

/** Runs the demo on its own server; afterwards the server has stopped and its sandboxes are gone. */
async function runOnTemporaryServer({ env, ...options }: TemporaryServerOptions): Promise<void> {
  const { root } = options
  const data = join(root, 'data')
  await mkdir(join(root, 'outside'))
  const abort = new AbortController()
  const signal = AbortSignal.any([abort.signal, options.signal])
  const ready = Promise.withResolvers<{ url: string; key: string | undefined }>()
  const serving = serveSandboxes({
    ...{ host: '127.0.0.1', port: 0, data, agent: agentServerCommand(), isKeyWanted: false },
    env: { SLIPWAY_LOG_LEVEL: 'error', SLIPWAY_ISOLATION: env.SLIPWAY_ISOLATION },
    isIsolationOptional: true,
    signal: abort.signal,
    ready: ready.resolve,
  })
  try {
    const { url, key } = await Promise.race([
      ready.promise,
      serving.then(() => Promise.reject(new Error('The server stopped.'))),
    ])
    const client = new SandboxServerClient({ url, apiKey: key })
    try {
      // A write to a closed pipe never ends.
      await Promise.race([runSandboxDemo({ ...options, client, data, signal }), rejectOnAbort(signal)])
    } finally {
      if (options.signal.aborted) printNote('Ending the sandbox ...')
      await removeSandboxes({ client, root, data })
    }
  } finally {
    abort.abort()
    await serving.catch(() => undefined)
  }
}

/** Rejects with the reason of the signal. */
function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const stop = () => reject(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
  })
}
