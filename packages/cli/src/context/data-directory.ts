import { exists } from '@slipway/shared/fs'
import { type DataKind, userDataDirectory, usualDataDirectory } from '@slipway/shared/process'
import type { Secret } from '@slipway/shared/redaction'
import { shellWord } from '@slipway/shared/text'
import { printNote } from '../output/terminal.ts'
import { findSessionKey, isLoopbackUrl } from './session-key.ts'

type Env = Readonly<Record<string, string | undefined>>

/** The named data directory, else the one of servers that are started here without a name. */
export async function findData(
  named: string | undefined,
  env: Env,
  kind: DataKind = 'agent',
): Promise<string> {
  return named ?? (await usualDataDirectory(kind, { env })).path
}

/** As `findData`, for a server that starts: a note says when the directory should be moved. */
export async function findStartData(
  named: string | undefined,
  env: Env,
  kind: DataKind = 'agent',
): Promise<string> {
  if (named !== undefined) return named
  const { path, target } = await usualDataDirectory(kind, { env })
  if (target !== undefined)
    printNote(
      `The data is in the working directory. Move it while no server runs: ${moveCommand(path, target)}`,
    )
  return path
}

/** As `findData`, for work on files: where a working directory has none, those of the private server. */
export async function findUsedData(named: string | undefined, env: Env): Promise<string> {
  const data = await findData(named, env)
  const ofUser = userDataDirectory(env)
  return named === undefined && !(await exists(data)) && (await exists(ofUser)) ? ofUser : data
}

/** The session key for an address of this machine, of the named data directory or the usual one. */
export async function findKeyOfData(
  url: string,
  named: string | undefined,
  env: Env,
): Promise<{ readonly key: Secret | undefined; readonly directory: string | undefined }> {
  if (!isLoopbackUrl(url)) return { key: undefined, directory: undefined }
  const directory = await findData(named, env)
  return { key: await findSessionKey(url, directory), directory }
}

/** For a shell. */
export function moveCommand(path: string, target: string): string {
  return `mv ${shellWord(path)} ${shellWord(target)}`
}
