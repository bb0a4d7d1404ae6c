import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import type { AcpAgent, AcpFileSecret } from '@slipway/protocol'
import { parseJsonObject } from '@slipway/shared/json'
import { Secret } from '@slipway/shared/redaction'
import { makeDirectory, readFile, rm, writeFile } from '@slipway/shared/tool-files'
import type { Secrets } from '../secrets/secrets.ts'
import { ProgramFolder } from '../workspace/program-folder.ts'
import type { CredentialSource } from './credentials.ts'
import { AcpError } from './failure.ts'
import { defaultFileSecrets, findProviderOf } from './providers.ts'

/** How long the source of a credential may take to store a new one, in milliseconds. */
const saveMs = 20_000

export interface Launch {
  readonly command: string
  readonly args: readonly string[]
  /** Besides the variables of all tools. */
  readonly env: Readonly<Record<string, string>>
  /** Where it starts: a folder with nothing in it. */
  readonly cwd: string
  /** Folders of the program itself. */
  readonly writable: readonly string[]
  /** Gives credentials that the program has renewed to their sources. Never rejects. */
  saveCredentials(): Promise<void>
  /** Removes the files with secrets. */
  dispose(): Promise<void>
}

/**
 * What starts an external agent: its command, the secrets of the conversation as variables and files, and a
 * folder for its data. `directory` is private to the conversation.
 */
export async function prepareLaunch(
  agent: AcpAgent,
  options: {
    readonly directory: string
    readonly workspace?: string | undefined
    readonly environment: Readonly<Record<string, string>>
    readonly secrets: Pick<Secrets, 'resolveValues' | 'addValuesFrom'>
    readonly findCredential: (name: string) => CredentialSource | undefined
    readonly warn: (text: string) => void
  },
  signal: AbortSignal,
): Promise<Launch> {
  const { directory, workspace, environment, secrets, findCredential, warn } = options
  const words = await preferInstalled([...agent.acp_command, ...agent.acp_args], agent, environment.PATH)
  const [command = '', ...args] = words
  const specs = agent.acp_file_secrets ?? defaultFileSecrets
  const values = { ...(await secrets.resolveValues()) }
  const bound: BoundFile[] = []
  for (const { secret_name: name } of specs) {
    const source = findCredential(name)
    if (source === undefined) continue
    const { value, version } = await source.load(signal)
    secrets.addValuesFrom(parseJsonObject(value.reveal()) ?? {})
    values[name] = value.reveal()
    bound.push({ name, source, version, text: value.reveal(), path: '' })
  }
  const inFiles = specs.filter(({ secret_name }) => values[secret_name] !== undefined)
  const fileNames = new Set(inFiles.map(({ secret_name }) => secret_name))
  const env: Record<string, string> = Object.fromEntries(
    Object.entries(values).filter(([name]) => !fileNames.has(name) && /^[A-Za-z_]\w*$/.test(name)),
  )
  const root = join(directory, 'acp')
  const writable: string[] = []
  const provider = findProviderOf(agent, words)
  const dataDirectory =
    agent.acp_isolate_data_dir && provider !== undefined ? join(root, provider.binary) : undefined
  if (provider !== undefined && dataDirectory !== undefined) {
    await makeDirectory(dataDirectory, 0o700)
    env[provider.dataVariable] = dataDirectory
    writable.push(dataDirectory)
  }
  const folder = await ProgramFolder.create({ env: environment, directory: workspace })
  if (folder.isOwn) writable.push(folder.path)
  const files: string[] = []
  const dispose = async () => {
    await folder[Symbol.asyncDispose]()
    for (const path of files) await rm(path, { force: true }).catch(() => undefined)
  }
  for (const spec of inFiles) {
    const folder = fileFolder(spec, { env, root, dataDirectory })
    const path = join(folder, spec.filename)
    files.push(path)
    for (const file of bound) if (file.name === spec.secret_name) file.path = path
    try {
      await makeDirectory(folder, 0o700)
      await rm(path, { force: true })
      await writeFile(path, values[spec.secret_name] ?? '', { mode: 0o600 })
    } catch {
      await dispose()
      throw new AcpError('ACPInitError', `The file for the secret ${spec.secret_name} could not be written`)
    }
    writable.push(folder)
    env[spec.env_var] = spec.env_points_to === 'dir' ? folder : path
    const unset = spec.warn_if_unset.filter(
      (name) => env[name] === undefined && environment[name] === undefined,
    )
    if (unset.length > 0) warn(`${spec.secret_name} is used without ${unset.join(', ')}`)
  }
  return {
    command,
    args,
    cwd: folder.path,
    env: withCodexAddress(dropConflicts(env), words),
    writable,
    saveCredentials: async () => {
      for (const file of bound) await saveCredential(file, { secrets, warn })
    },
    dispose,
  }
}

/** A credential from a source, in the file that the program reads and renews. */
interface BoundFile {
  readonly name: string
  readonly source: CredentialSource
  version: string
  /** What the source has. */
  text: string
  path: string
}

async function saveCredential(
  file: BoundFile,
  {
    secrets,
    warn,
  }: { readonly secrets: Pick<Secrets, 'addValuesFrom'>; readonly warn: (text: string) => void },
): Promise<void> {
  const text = await readFile(file.path).then(String, () => file.text)
  const credential = parseJsonObject(text)
  // The program may be writing it.
  if (text === file.text || credential === undefined) return
  secrets.addValuesFrom(credential)
  try {
    file.version = await file.source.replace(file.version, new Secret(text), AbortSignal.timeout(saveMs))
    file.text = text
  } catch (error) {
    warn(
      `${file.name} was renewed, and its source does not take it: ${error instanceof Error ? error.message : ''}`,
    )
  }
}

/** The folder of a file: that of the program's data where it is made here, never one of the user. */
function fileFolder(
  { subdir, env_var, env_points_to }: AcpFileSecret,
  options: {
    readonly env: Readonly<Record<string, string>>
    readonly root: string
    readonly dataDirectory: string | undefined
  },
): string {
  const { env, root, dataDirectory } = options
  const isOfData = env_points_to === 'dir' && dataDirectory !== undefined && env[env_var] === dataDirectory
  return isOfData ? dataDirectory : join(root, subdir)
}

/** A subscription counts only where no key of an account is beside it. */
function dropConflicts(env: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  if (env.CLAUDE_CODE_OAUTH_TOKEN === undefined) return env
  const { ANTHROPIC_API_KEY: _, ANTHROPIC_BASE_URL: __, ...rest } = env
  return rest
}

/** Codex reads the address of its models from its configuration alone. */
function withCodexAddress(
  env: Readonly<Record<string, string>>,
  words: readonly string[],
): Readonly<Record<string, string>> {
  const { OPENAI_BASE_URL: address, CODEX_CONFIG: text = '{}' } = env
  const config = parseJsonObject(text)
  if (address === undefined || config === undefined || !words.some((word) => word.includes('codex-acp')))
    return env
  if ('openai_base_url' in config || 'model_provider' in config || env.MODEL_PROVIDER !== undefined)
    return env
  return { ...env, CODEX_CONFIG: JSON.stringify({ ...config, openai_base_url: address }) }
}

/** The program itself instead of `npx` and its package, where it is installed. */
async function preferInstalled(
  words: readonly string[],
  agent: AcpAgent,
  path: string | undefined,
): Promise<readonly string[]> {
  const provider = findProviderOf(agent, words)
  const [first, ...rest] = words
  const at = rest.findIndex((word) => !word.startsWith('-'))
  const name = (word: string | undefined) => word?.replace(/(?!^)@[^/]*$/, '')
  if (provider === undefined || first !== 'npx' || name(rest[at]) !== name(provider.command[2])) return words
  return (await isInstalled(provider.binary, path)) ? [provider.binary, ...rest.slice(at + 1)] : words
}

async function isInstalled(binary: string, path = ''): Promise<boolean> {
  for (const directory of path.split(delimiter).filter(Boolean)) {
    const isHere = await access(join(directory, binary), constants.X_OK).then(
      () => true,
      () => false,
    )
    if (isHere) return true
  }
  return false
}
