import { CallError, ConnectionError } from '@slipway/client'
import { Problem } from '@slipway/protocol/client'
import { errorCode } from '@slipway/shared/fs'
import { configDirectory, userDataDirectory } from '@slipway/shared/process'
import type { ServerKind } from '../context/contexts.ts'
import { sanitizeLine, sanitizeLines } from '../output/sanitize.ts'

/** What is known of the server that was asked. */
interface AskedServer {
  readonly kind?: ServerKind | undefined
  /** Where the key that was sent came from; undefined: none was sent. */
  readonly keySource?: string | undefined
  /** Where else to look. */
  readonly notFoundHint?: string | undefined
}

type Env = Readonly<Record<string, string | undefined>>

/** The message for a failure and what to do next, without a final line feed. `env` says where the user's files are. */
export function errorMessage(
  error: unknown,
  { kind, keySource, notFoundHint }: AskedServer = {},
  env: Env = {},
): string {
  const isNotFound =
    (error instanceof CallError && error.status === 404) ||
    (error instanceof Problem && error.code === 'not_found')
  const advice = kind === 'sandbox' ? sandboxKeyAdvice(keySource) : keyAdvice(keySource)
  const message = unwritableHome(error, env) ?? baseMessage(error, { ...serverAdvice, 401: advice })
  const isForeign = error instanceof CallError && error.isForeign
  return isNotFound && !isForeign && notFoundHint !== undefined ? `${message}\n${notFoundHint}` : message
}

function baseMessage(error: unknown, advice: Advice): string {
  if (error instanceof CallError) return withAdvice(error, advice)
  if (!(error instanceof Error)) return sanitizeLine(String(error))
  const isInternal =
    error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError
  if (isInternal) return `${error.stack}`
  if ('syscall' in error && error.syscall === 'uv_cwd')
    return 'The current directory has been removed. Change to another one.'
  return error instanceof ConnectionError || error instanceof Problem
    ? sanitizeLines(error.message).join('\n')
    : sanitizeLine(error.message)
}

/** For a refused write in the home directory, with the variables that name another place. */
function unwritableHome(error: unknown, env: Env): string | undefined {
  const reason = refusals[errorCode(error) ?? '']
  const path = error instanceof Error && 'path' in error ? error.path : undefined
  if (reason === undefined || typeof path !== 'string') return undefined
  const places = [
    ['XDG_DATA_HOME', userDataDirectory(env)] as const,
    ['XDG_CONFIG_HOME', configDirectory(env)] as const,
  ].filter(([, directory]) => `${directory}/`.startsWith(`${path}/`) || path.startsWith(`${directory}/`))
  if (places.length === 0) return undefined
  const names = places.map(([name]) => name)
  const directories = sanitizeLine(places.map(([, directory]) => directory).join(' and '))
  const otherwise = names.includes('XDG_DATA_HOME')
    ? ', or start a server in one with "slipway serve --data DIR"'
    : ''
  return (
    `Cannot write ${directories}: ${reason} (${sanitizeLine(path)}).\n` +
    `Set ${names.join(' and ')} to a directory that you may write${otherwise}.`
  )
}

const refusals: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EPERM: 'not permitted',
  EROFS: 'read-only file system',
  ENOENT: 'no such directory',
  ENOTDIR: 'not a directory',
}

/**
 * A refusal of a sandbox server as a Problem that says what to do next; any other error unchanged. `keySource`
 * is where the key that was sent came from; undefined: none was sent.
 */
export function explainSandboxServerError(error: unknown, keySource: string | undefined): unknown {
  const advice = { ...sandboxServerAdvice, 401: sandboxKeyAdvice(keySource) }
  return error instanceof CallError ? new Problem('bad_request', withAdvice(error, advice)) : error
}

type Advice = Readonly<Record<number, string>>

function withAdvice({ detail, status, isForeign }: CallError, advice: Advice): string {
  const ofServer = advice[status] ?? (status >= 500 ? 'The log of the server has more.' : undefined)
  const next = isForeign ? foreignAnswer : ofServer
  return [sanitizeLine(detail), ...(next === undefined ? [] : [next])].join('\n')
}

/** For a key of a named server, which is usually another person's; undefined for other keys. */
function contextAdvice(keySource: string | undefined): string | undefined {
  const name = /^the context (\S+)$/.exec(keySource ?? '')?.[1]
  if (name === undefined) return undefined
  return (
    `The server does not accept the key of the context ${sanitizeLine(name)}: it is wrong, expired or revoked. Ask the\n` +
    `administrator of the server for another one, then: slipway context add ${sanitizeLine(name)} URL --key-file FILE`
  )
}

function sandboxKeyAdvice(keySource: string | undefined): string {
  return keySource === undefined ? noApiKey : (contextAdvice(keySource) ?? wrongApiKey)
}

function keyAdvice(keySource: string | undefined): string {
  const ofContext = contextAdvice(keySource)
  if (ofContext !== undefined) return ofContext
  const next =
    'Set SLIPWAY_SESSION_API_KEY to the session key of the server. A server on this machine that made its own has it in\n' +
    'the file session.key of its data directory: name the directory with --data ("slipway data" prints the usual one), as its user.'
  const problem =
    keySource === undefined
      ? 'No key was sent.'
      : `The server does not accept the key of ${sanitizeLine(keySource)}.`
  return `${problem} ${next}`
}

const foreignAnswer =
  'This is the answer of a proxy or of another program, not of the server: check the address, and that the server runs.'
const serverAdvice: Advice = {
  404: '"slipway ls" lists what is there.',
  429: 'Try again in a moment.',
  503: 'Try again in a moment.',
}

const sandboxServerLists = '"slipway sandbox ls" and "slipway app ls" show what is there.'
const noApiKey =
  'No key was sent. Set SLIPWAY_API_KEY to an API key of the sandbox server. It prints one at its first start;\n' +
  'started with "slipway sandbox-server --new-key" it makes another one.'
const wrongApiKey =
  'The server does not accept the key of SLIPWAY_API_KEY: it is wrong, expired or revoked. An administrator\n' +
  'makes another one: "slipway keys add --user NAME", or, for the first administrator, "slipway sandbox-server --new-key".'
const sandboxServerAdvice: Advice = {
  404: sandboxServerLists,
  410: sandboxServerLists,
  502: '"slipway sandbox ls" says how its sandbox is.',
  503: '"slipway sandbox ls" says how its sandbox is.',
}
