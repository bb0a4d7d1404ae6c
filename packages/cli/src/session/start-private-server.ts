import { spawn } from 'node:child_process'
import { chmod, type FileHandle, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Client } from '@slipway/client'
import type { ConversationInfo } from '@slipway/protocol'
import { must, Problem } from '@slipway/protocol/client'
import { makeDirectory } from '@slipway/shared/fs'
import { isRecord, parseJson } from '@slipway/shared/json'
import { userDataDirectory } from '@slipway/shared/process'
import { askServer, findHolder, findPrivateServer, type PrivateServer } from '../context/private-server.ts'
import { readLastAddress } from '../context/server-address.ts'
import { isAlive } from '../context/server-process.ts'
import { countRunning, livingSessions, markSession, sessionsDirectory } from '../context/watch-use.ts'
import { sanitizeLine } from '../output/sanitize.ts'

type Env = Readonly<Record<string, string | undefined>>

const mainPath = fileURLToPath(new URL('../main.js', import.meta.url))
const startTimeoutMs = 60_000
const stopTimeoutMs = 60_000
/** A server whose place is taken, and one whose predecessor was about to end. */
const maxStarts = 3

/**
 * The server of this user's sessions: the one that runs, or a new one in the background, with the environment
 * `serverEnv`. A start that fails is tried again only when its cause has gone: the port of the last server was
 * taken, or the process that used the directory has ended.
 */
export async function startPrivateServer(
  env: Env,
  serverEnv: Record<string, string>,
  signal: AbortSignal,
  /** The program of the server. */
  main = mainPath,
): Promise<PrivateServer> {
  const directory = userDataDirectory(env)
  await prepareDirectory(directory)
  const deadline = Date.now() + startTimeoutMs
  const running = await findAnswering(env, signal, { deadline, isHeld: false })
  if (running !== undefined) return running
  // Where its predecessor was, so that sessions find it again.
  let port = URL.parse((await readLastAddress(directory))?.url ?? '')?.port || '0'
  let failure = ''
  for (let starts = 0; starts < maxStarts; starts++) {
    failure = await spawnServer(directory, { env: serverEnv, main, port, signal })
    const isLocked = failure.includes('in use by another process')
    if (failure !== '' && !isLocked && !(port !== '0' && failure.includes('the port is in use'))) break
    // Another session was faster, or the last server is about to end.
    const found = await findAnswering(env, signal, { deadline, isHeld: isLocked })
    if (found !== undefined) return found
    port = '0'
  }
  throw new Error(`The private server did not start: ${failure || 'no answer'}. See ${logPath(directory)}`)
}

async function prepareDirectory(directory: string): Promise<void> {
  await makeDirectory(join(directory, sessionsDirectory), 0o700)
  // It may be of a version that let other users look into it.
  await chmod(directory, 0o700)
}

/**
 * Waits for the answer of the server that runs; undefined when none does any more. Throws when it is there and
 * cannot be used: another start would end at its lock. `isHeld`: the lock is known to be held, so a server may be
 * there that has not said where it is.
 */
async function findAnswering(
  env: Env,
  signal: AbortSignal,
  { deadline, isHeld }: { readonly deadline: number; readonly isHeld: boolean },
): Promise<PrivateServer | undefined> {
  for (;;) {
    const server = await findPrivateServer(env)
    const answer = server === undefined ? 'none' : await askServer(server, signal)
    if (server !== undefined && answer === 'yes') return server
    if (server !== undefined && answer === 'refused')
      throw new Problem(
        'conflict',
        `The private server (pid ${server.pid}) does not accept the key in ${userDataDirectory(env)}: ` +
          'it was started with another one, or the file has changed since. End it with: slipway stop',
      )
    if (server === undefined && !isHeld) return undefined
    const holder = await findHolder(env)
    if (holder === undefined) return undefined
    const { pid, command, isServer } = holder
    if (!isServer)
      throw new Problem(
        'conflict',
        `The private data directory is in use by pid ${pid}: ${sanitizeLine(command)}`,
      )
    if (Date.now() > deadline)
      throw new Error(`The private server (pid ${pid}) does not answer. End it with: slipway stop`)
    await sleep(100, undefined, { signal })
  }
}

/** The conversations that run on it, of which a stop pauses the runs; none when it does not run. */
export async function listPrivateRuns(env: Env): Promise<readonly ConversationInfo[]> {
  const server = await findPrivateServer(env)
  if (server === undefined) return []
  const client = new Client({ url: server.url, sessionApiKey: server.key })
  const query = { status: 'running', limit: '100' }
  const page = await client.call('searchConversations', { query, signal: AbortSignal.timeout(5_000) })
  return page.items
}

/**
 * Stops it by a signal, which needs neither its key nor its address; false when none runs. A process that only
 * has its pid, or that is no server, is left alone.
 */
export async function stopPrivateServer(env: Env): Promise<boolean> {
  const holder = await findHolder(env)
  if (holder === undefined) return false
  const { pid, command, isServer } = holder
  if (!isServer)
    throw new Problem(
      'conflict',
      `The private data directory is in use by pid ${pid}, which is no server and was not stopped: ${sanitizeLine(command)}`,
    )
  process.kill(pid, 'SIGTERM')
  const deadline = Date.now() + stopTimeoutMs
  while (isAlive(pid)) {
    if (Date.now() > deadline)
      throw new Error(`The private server (pid ${pid}) has not ended in ${stopTimeoutMs / 1_000} seconds.`)
    await sleep(50)
  }
  return true
}

/**
 * Marks this process as a session; the returned function ends it, and the server when nothing needs
 * it.
 */
export async function joinPrivateServer(env: Env, server: PrivateServer): Promise<() => Promise<void>> {
  const directory = userDataDirectory(env)
  const file = await markSession(directory)
  return async () => {
    await rm(file, { force: true })
    if ((await livingSessions(directory)).length > 0) return
    const client = new Client({ url: server.url, sessionApiKey: server.key })
    // What runs ends the server when it is over: the server watches that itself.
    const isIdle = await countRunning(client).then(
      (count) => count === 0,
      () => false,
    )
    if (isIdle) await stopPrivateServer(env)
  }
}

/** Starts a server; a text that says why when it did not start. */
async function spawnServer(
  directory: string,
  options: {
    readonly env: Record<string, string>
    readonly main: string
    readonly port: string
    readonly signal: AbortSignal
  },
): Promise<string> {
  const { env, main, port, signal } = options
  await using log = await open(logPath(directory), 'a+', 0o600)
  const { size } = await log.stat()
  const args = [
    main,
    '--no-config',
    'serve',
    '--port',
    port,
    '--data',
    directory,
    '--json',
    '--no-console',
    '--until-unused',
  ]
  const child = spawn(process.execPath, args, {
    env,
    cwd: directory,
    detached: true,
    stdio: ['ignore', 'pipe', log.fd],
  })
  const output = must(child.stdout, 'the output of a server')
  const lines = createInterface({ input: output })
  let error = ''
  let line: string | undefined
  line = await new Promise<string>((resolve) => {
    lines.once('line', resolve)
    child.once('error', ({ message }) => {
      error = message
      resolve('')
    })
    child.once('close', () => resolve(''))
    // A server that has not even said where it is would be left behind.
    AbortSignal.any([signal, AbortSignal.timeout(startTimeoutMs)]).addEventListener('abort', () => {
      if (line === undefined && child.kill('SIGKILL')) error = 'it did not say where it is'
    })
  })
  lines.close()
  output.destroy()
  child.unref()
  const value = parseJson(line)
  if (isRecord(value) && typeof value.url === 'string') return ''
  return error || (await lastError(log, size)) || 'it ended at once'
}

/** What the server has written last since this start. */
async function lastError(log: FileHandle, size: number): Promise<string> {
  const { buffer, bytesRead } = await log.read({ buffer: Buffer.alloc(16_384), position: size })
  const lines = buffer.subarray(0, bytesRead).toString().trim().split('\n')
  const said = lines.findLast((line) => line.startsWith('slipway: ')) ?? lines.at(-1) ?? ''
  return sanitizeLine(said.replace(/^slipway: /, '').replace(/\.$/, ''))
}

function logPath(directory: string): string {
  return join(directory, 'server.log')
}
