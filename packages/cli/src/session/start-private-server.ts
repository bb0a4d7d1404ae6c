import { spawn } from 'node:child_process'
import { chmod, open, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Client } from '@slipway/client'
import { type ConversationInfo, must } from '@slipway/protocol'
import { makeDirectory, writeFileAtomic } from '@slipway/shared/fs'
import { isRecord, parseJson } from '@slipway/shared/json'
import { userDataDirectory } from '../context/contexts.ts'
import { findPrivateServer, type PrivateServer } from '../context/private-server.ts'
import { isAlive, serverFile } from '../context/server-address.ts'
import { countRunning, livingSessions, markSession, sessionsDirectory } from '../context/watch-use.ts'

type Env = Readonly<Record<string, string | undefined>>

const mainPath = fileURLToPath(new URL('../main.js', import.meta.url))
const startTimeoutMs = 60_000

/** The server of this user's sessions: the one that runs, or a new one in the background. */
export async function startPrivateServer(env: Env, signal: AbortSignal): Promise<PrivateServer> {
  const directory = userDataDirectory(env)
  await makeDirectory(join(directory, sessionsDirectory), 0o700)
  // It may be of a version that let other users look into it.
  await chmod(directory, 0o700)
  const deadline = Date.now() + startTimeoutMs
  let failure = ''
  while (Date.now() < deadline) {
    const running = await findPrivateServer(env)
    if (running !== undefined && (await answers(running, signal))) return running
    // Where its predecessor was, so that sessions find it again.
    const port = failure === '' ? await lastPort(directory) : '0'
    failure = await spawnServer(directory, env, port)
    // Another session may have been faster; then the directory is locked until its server says where it is.
    if (failure !== '') await sleep(500, undefined, { signal })
  }
  throw new Error(`The private server did not start: ${failure || 'no answer'}. See ${logPath(directory)}`)
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

/** Stops it; false when none runs. */
export async function stopPrivateServer(env: Env): Promise<boolean> {
  const server = await findPrivateServer(env)
  if (server === undefined || !(await answers(server, AbortSignal.timeout(5_000)))) return false
  process.kill(server.pid, 'SIGTERM')
  while (isAlive(server.pid)) await sleep(50)
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
    if ((await countRunning(client).catch(() => 0)) === 0) await stopPrivateServer(env)
  }
}

async function lastPort(directory: string): Promise<string> {
  const value = parseJson(await readFile(join(directory, serverFile), 'utf8').catch(() => ''))
  const url = isRecord(value) && typeof value.url === 'string' ? URL.parse(value.url) : null
  return url?.port || '0'
}

/** Starts a server and notes where it is; a text when it did not start. */
async function spawnServer(directory: string, env: Env, port: string): Promise<string> {
  await using log = await open(logPath(directory), 'a', 0o600)
  const args = [
    mainPath,
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
    // A server of its own: not at the addresses and keys of another one.
    env: Object.fromEntries(Object.entries(env).filter(([name]) => !isForeign(name))),
    cwd: directory,
    detached: true,
    stdio: ['ignore', 'pipe', log.fd],
  })
  const output = must(child.stdout, 'the output of a server')
  const lines = createInterface({ input: output })
  const line = await new Promise<string>((resolve) => {
    lines.once('line', resolve)
    child.once('error', (error) => resolve(error.message))
    child.once('close', () => resolve(''))
  })
  lines.close()
  output.destroy()
  child.unref()
  const value = parseJson(line)
  if (!isRecord(value) || typeof value.url !== 'string') return 'it ended at once'
  const text = JSON.stringify({ url: value.url, pid: child.pid })
  await writeFileAtomic(join(directory, serverFile), `${text}\n`)
  return ''
}

function isForeign(name: string): boolean {
  return /^(SLIPWAY_(SESSION_API_KEY|API_KEY|URL|SANDBOX_URL|DATA_DIRECTORY|DATABASE_URL|DATABASE_DIRECT_URL|SHARED_DATABASE|DEFERRED_INIT|NO_KEY|WEB|CONTEXT)|LLM_API_KEY)$/.test(
    name,
  )
}

async function answers({ url, key }: PrivateServer, signal: AbortSignal): Promise<boolean> {
  const client = new Client({ url, sessionApiKey: key })
  return await client.call('countConversations', { query: {}, signal }).then(
    () => true,
    () => false,
  )
}

function logPath(directory: string): string {
  return join(directory, 'server.log')
}
