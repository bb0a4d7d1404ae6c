import { randomUUID } from 'node:crypto'
import { realpath } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { Workspace } from '@slipway/agent'
import type { LogFunction } from '@slipway/protocol'
import { errorText } from '@slipway/shared/text'
import {
  findToolUser,
  makeDirectory,
  readdir,
  rm,
  stat,
  toolUser,
  useToolUser,
  writeFile,
} from '@slipway/shared/tool-files'
import type { Config } from '../config/config.ts'

/** Where the files of a server are. */
export interface Directories {
  /** The data directory, which tools do not see. */
  readonly data: string
  /** The server's files that tools see. */
  readonly files: string
  /** The part of `files` that sandboxed commands do not see: its sockets lead out of the sandbox. */
  readonly hidden: string
}

/** Folders of the data directory with extensions that the server has fetched: tools cannot read them. */
const extensionFolders = [
  'canvas-extensions',
  'collections',
  'fetched-plugins',
  'org-skills',
  'plugins',
  'skills',
]

/**
 * Gives tools the rights of the user of `SLIPWAY_TOOL_USER`. Rejects with a message when that is not
 * possible, also when the user could read the data directory.
 */
export async function startToolUser(setting: string | undefined, dataDirectory: string): Promise<void> {
  if (setting === undefined) return
  try {
    const user = await findToolUser(setting)
    const roots = new Set([dataDirectory, await realpath(dataDirectory)])
    const folders = [...roots].flatMap((root) => extensionFolders.map((name) => join(root, name)))
    await useToolUser(user, folders)
    const probe = join(toolFilesDirectory(dataDirectory, ''), `.probe-${randomUUID()}`)
    await makeDirectory(toolFilesDirectory(dataDirectory, ''), 0o700).catch(() => {
      throw new Error(`its home directory ${user.home} is missing, or it cannot write there`)
    })
    await writeFile(probe, '')
    await rm(probe)
    const reads = [readdir(dataDirectory), stat(`${dataDirectory}/.`)]
    if ((await Promise.allSettled(reads)).some(({ status }) => status === 'fulfilled'))
      throw new Error(`that user can read the data directory ${dataDirectory}; set its mode to 0700`)
  } catch (error) {
    throw new Error(`SLIPWAY_TOOL_USER: ${errorText(error)}`)
  }
}

/**
 * Directories that tools must not touch: file tools refuse them, analyzers name them, programs do not see
 * them.
 */
export async function protectedDirectories(
  { privateDirectories, documentsDirectory }: Pick<Config, 'privateDirectories' | 'documentsDirectory'>,
  { data, hidden }: Pick<Directories, 'data' | 'hidden'>,
): Promise<readonly string[]> {
  const own = [data, await realpath(data), hidden]
  const documents = documentsDirectory === undefined ? [] : [resolve(documentsDirectory)]
  return [...new Set([...own, ...privateDirectories, ...documents])]
}

/** Says in one line when programs of tools can read the keys of the server. */
export async function warnIfKeysAreReadable(
  { hidesKeys, toolEnvironment }: Pick<Config, 'hidesKeys' | 'toolEnvironment'>,
  log: LogFunction,
): Promise<void> {
  if (toolUser() !== undefined) return
  if (hidesKeys && (await Workspace.findBubblewrap(toolEnvironment.PATH)) !== undefined) return
  const change = hidesKeys
    ? 'install bubblewrap and let users make namespaces, or run the server as root with SLIPWAY_TOOL_USER'
    : 'unset SLIPWAY_COMMAND_SANDBOX, or run the server as root with SLIPWAY_TOOL_USER'
  log('warn', `commands of agents can read the keys of this server: to hide them, ${change}`)
}

/**
 * Where files of tools are: outside the data directory when another user writes them. `marker`: of the
 * server.
 */
export function toolFilesDirectory(dataDirectory: string, marker: string): string {
  const user = toolUser()
  return user === undefined ? dataDirectory : join(user.home, '.slipway-tools', marker)
}

/** The environment of tools, with the variables of their user. */
export function withToolUser(
  environment: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> & { readonly HOME?: string } {
  const user = toolUser()
  if (user === undefined) return environment
  const { TMPDIR: _, ...rest } = environment
  return { ...rest, HOME: user.home, USER: user.name, LOGNAME: user.name }
}
