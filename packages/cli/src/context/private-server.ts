import { stat } from 'node:fs/promises'
import { CallError, Client } from '@slipway/client'
import { findLockHolder, userDataDirectory } from '@slipway/shared/process'
import type { Secret } from '@slipway/shared/redaction'
import { readServerAddress, type ServerAddress } from './server-address.ts'
import { isAlive, processCommand, processStart } from './server-process.ts'
import { findSessionKey } from './session-key.ts'

type Env = Readonly<Record<string, string | undefined>>

/** The server that sessions share. */
export interface PrivateServer extends ServerAddress {
  readonly key: Secret | undefined
}

/** `refused`: a server is there, and it has another key than its data directory says. */
type Answer = 'yes' | 'refused' | 'none'

const answerMs = 5_000

/** The running server of this user's sessions; undefined when none runs. */
export async function findPrivateServer(env: Env): Promise<PrivateServer | undefined> {
  const directory = userDataDirectory(env)
  const address = await readServerAddress(directory)
  return address && { ...address, key: await findSessionKey(address.url, directory) }
}

/** Whether a server answers, and takes the key. */
export async function askServer({ url, key }: PrivateServer, signal?: AbortSignal): Promise<Answer> {
  const client = new Client({ url, sessionApiKey: key })
  const within = AbortSignal.any([AbortSignal.timeout(answerMs), ...(signal === undefined ? [] : [signal])])
  try {
    await client.call('countConversations', { query: {}, signal: within })
    return 'yes'
  } catch (error) {
    if (!(error instanceof CallError)) return 'none'
    return error.status === 401 || error.status === 403 ? 'refused' : 'yes'
  }
}

/** The process that uses the data directory of the private server. */
interface Holder {
  readonly pid: number
  /** Its command line, for people; empty where the system does not show it. */
  readonly command: string
  /** It is a server, which may be stopped: not a repair or a copy that continues. */
  readonly isServer: boolean
}

/**
 * Who holds the private data directory: the process of `server.json` when its start shows that it is the same
 * one, else the one with the lock, whatever files say. A process that merely has the pid is nobody.
 */
export async function findHolder(env: Env): Promise<Holder | undefined> {
  const directory = userDataDirectory(env)
  const address = await readServerAddress(directory)
  if (address?.started !== undefined) return await holder(address.pid, true)
  const { ino } = (await stat(directory).catch(() => undefined)) ?? {}
  const pid = ino === undefined ? undefined : findLockHolder('FLOCK', ino)
  if (pid !== undefined && isAlive(pid)) return await holder(pid, false)
  // Without /proc the answer of its address has to do.
  if (address === undefined || (await processStart(process.pid)) !== undefined) return undefined
  const server = { ...address, key: undefined }
  return (await askServer(server)) === 'none' ? undefined : await holder(address.pid, true)
}

async function holder(pid: number, isServer: boolean): Promise<Holder> {
  const command = await processCommand(pid)
  return { pid, command: command.join(' '), isServer: isServer || command.includes('serve') }
}
