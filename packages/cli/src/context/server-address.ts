import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { readPrivateFile, writeFileAtomic } from '@slipway/shared/fs'
import { isRecord, parseJson } from '@slipway/shared/json'
import { isAlive, processStart } from './server-process.ts'
import { isOwnAddress } from './session-key.ts'
import { shownShellVariables } from './shell-variables.ts'

/** The file of a data directory in which its server says where it is. */
const serverFile = 'server.json'

export interface ServerAddress {
  readonly url: string
  readonly pid: number
  /** When its process was started: another one may have the pid by now. Undefined where that is not known. */
  readonly started?: string | undefined
  /** What it has of the shell that started it. */
  readonly environment?: Readonly<Record<string, string>> | undefined
}

const answerMs = 2_000

/** Notes where the server of this process is, for commands that name its data directory. */
export async function writeServerAddress(
  directory: string,
  url: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  const { pid } = process
  const text = JSON.stringify({
    ...{ url: reachableUrl(url), pid, started: await processStart(pid) },
    environment: shownShellVariables(env),
  } satisfies ServerAddress)
  await writeFileAtomic(join(directory, serverFile), `${text}\n`)
}

/** Removes the note of this process; that of another one stays. */
export async function removeServerAddress(directory: string): Promise<void> {
  if ((await readServerAddress(directory))?.pid === process.pid)
    await rm(join(directory, serverFile), { force: true })
}

/** What the file says, if its process lives. */
export async function readServerAddress(directory: string): Promise<ServerAddress | undefined> {
  const address = await readLastAddress(directory)
  if (address === undefined || !isAlive(address.pid)) return undefined
  const { started } = address
  return started === undefined || started === (await processStart(address.pid)) ? address : undefined
}

/** What the file says. A repository may bring a file of this name: its mode is another one. */
export async function readLastAddress(directory: string): Promise<ServerAddress | undefined> {
  const text = await readPrivateFile(join(directory, serverFile)).catch(() => undefined)
  const value = parseJson(text ?? '')
  if (!isRecord(value) || typeof value.url !== 'string' || typeof value.pid !== 'number') return undefined
  if (URL.parse(value.url) === null) return undefined
  const { url, pid, started, environment } = value
  return {
    ...{ url, pid, started: typeof started === 'string' ? started : undefined },
    environment: isRecord(environment) ? mapTexts(environment) : undefined,
  }
}

function mapTexts(record: Readonly<Record<string, unknown>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(record).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])),
  )
}

/**
 * The address of the server of a data directory, if its process lives and it answers: only one of this user
 * on this machine, because the directory may be one that somebody else has made.
 */
export async function findServer(directory: string, signal: AbortSignal): Promise<string | undefined> {
  const address = await readServerAddress(directory)
  if (address === undefined || !(await isOwnAddress(address.url))) return undefined
  const within = AbortSignal.any([signal, AbortSignal.timeout(answerMs)])
  const answers = await fetch(new URL('/alive', address.url), { signal: within }).then(
    ({ ok }) => ok,
    () => false,
  )
  return answers ? address.url : undefined
}

/** A server that listens at every address is reached at this machine's own. */
function reachableUrl(url: string): string {
  return url.replace(/^(https?:\/\/)(?:0\.0\.0\.0|\[::\])(?=[:/]|$)/, '$1127.0.0.1')
}
