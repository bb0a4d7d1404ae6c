import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { CallError, Client, SandboxServerClient } from '@slipway/client'
import { Problem } from '@slipway/protocol/client'
import { Secret } from '@slipway/shared/redaction'
import {
  contextsPath,
  isLocal,
  localContext,
  namedServer,
  readContexts,
  type ServerKind,
  writeContexts,
} from '../../context/contexts.ts'
import { findKeyOfData } from '../../context/data-directory.ts'
import { detectServerKind } from '../../context/server-kind.ts'
import { isInteractive } from '../../conversation/confirmation-prompt.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { paint, print, printResult, table } from '../../output/terminal.ts'

interface ContextsContext {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Of the agent server of this machine, where a setting names it: commands find its session key there. */
  readonly dataDirectory: string | undefined
  readonly isJson: boolean
  readonly signal: AbortSignal
}

/** What `context ls` says about it; its address is looked up at each use. */
const localServer = { url: 'this machine', kind: 'agent' } as const

/** Lists the contexts; the current one is marked. Keys are not shown. */
export async function listContextsCommand({ env, isJson }: ContextsContext): Promise<void> {
  const { current, servers } = await readContexts(contextsPath(env))
  const rows = [...servers].map(([name, { url, kind, key }]) => ({
    name,
    url,
    kind,
    has_key: key !== undefined,
    is_current: name === current,
  }))
  if (!servers.has(localContext)) {
    const { url, kind } = localServer
    rows.push({ name: localContext, url, kind, has_key: false, is_current: current === undefined })
  }
  if (isJson) return await print(rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
  const width = Math.max(...rows.map(({ name }) => name.length)) + 2
  await print(
    table(
      rows.map(({ name, url, kind, is_current }) => [is_current ? '*' : '', name, kind, sanitizeLine(url)]),
      [2, Math.max(8, width), 9],
      ['', 'NAME', 'KIND', 'URL'],
    ),
  )
}

/**
 * Adds or replaces a context, and makes it the current one when `isUsed`; the server and the key are tested
 * first.
 */
export async function addContextCommand(
  { env, dataDirectory, isJson, signal }: ContextsContext,
  name: string,
  url: string,
  options: {
    readonly keyFile?: string | undefined
    readonly hasKey: boolean
    readonly isUsed: boolean
  },
): Promise<void> {
  if (!/^[\w.-]{1,64}$/.test(name)) {
    throw new Problem('bad_request', 'A name of a context has letters, digits, ".", "_" and "-", at most 64.')
  }
  if (name === localContext)
    throw new Problem('bad_request', 'The context local is built in: it is the server of this machine.')
  const kind = await detectServerKind(url, signal)
  if (kind === undefined)
    throw new Problem('bad_request', `No Slipway server answers at ${sanitizeLine(url)}.`)
  const key = await readKey(options, kind)
  const sentKey = key ?? (kind === 'agent' ? (await findKeyOfData(url, dataDirectory, env)).key : undefined)
  const test =
    kind === 'agent'
      ? new Client({ url, sessionApiKey: sentKey }).call('countConversations', { signal })
      : new SandboxServerClient({ url, apiKey: sentKey }).call('me', { signal })
  await test.catch((error: unknown) => {
    if (!(error instanceof CallError) || error.status !== 401) throw error
    throw new Problem('bad_request', explainRefusedKey(options, sentKey !== undefined))
  })
  const path = contextsPath(env)
  const { servers, current } = await readContexts(path)
  const is_current = options.isUsed || current === name
  await writeContexts(path, {
    current: is_current ? name : current,
    servers: new Map([...servers, [name, { url, kind, key }]]),
  })
  const lines = is_current
    ? [
        `${paint('bold', name)} is the current context: ${kind} server at ${url}`,
        'Back to the server of this machine: slipway context use local',
      ]
    : [
        `${paint('bold', name)}: ${kind} server at ${url}`,
        `For one command: slipway --context ${name} …; for all: slipway context use ${name}`,
      ]
  await printResult(isJson, { name, url, kind, is_current }, lines.join('\n'))
}

function explainRefusedKey(options: { readonly keyFile?: string | undefined }, isSent: boolean): string {
  if (!isSent)
    return 'The server needs a key: name the file of its key with --key-file FILE (- is standard input).'
  const source = options.keyFile === undefined || options.keyFile === '-' ? '' : ` of ${options.keyFile}`
  return `The server does not accept the key${sanitizeLine(source)}.`
}

/** Makes a context the current one. */
export async function useContextCommand({ env, isJson }: ContextsContext, name: string): Promise<void> {
  const path = contextsPath(env)
  const contexts = await readContexts(path)
  const local = isLocal(contexts, name)
  const { url, kind } = local ? localServer : namedServer(contexts, name)
  await writeContexts(path, { ...contexts, current: local ? undefined : name })
  if (local)
    return await printResult(
      isJson,
      { name, url, kind, is_current: true },
      'local: the server of this machine',
    )
  await printResult(isJson, { name, url, kind, is_current: true }, `${name}: ${kind} server at ${url}`)
}

/** Forgets a context and its key; without a current one the server of this machine is used. */
export async function removeContextCommand({ env, isJson }: ContextsContext, name: string): Promise<void> {
  const path = contextsPath(env)
  const contexts = await readContexts(path)
  if (isLocal(contexts, name)) throw new Problem('bad_request', 'The context local is built in.')
  namedServer(contexts, name)
  const servers = new Map([...contexts.servers].filter(([other]) => other !== name))
  await writeContexts(path, { current: contexts.current === name ? undefined : contexts.current, servers })
  await printResult(isJson, { name, status: 'removed' }, 'removed')
}

async function readKey(
  { keyFile, hasKey }: { readonly keyFile?: string | undefined; readonly hasKey: boolean },
  kind: ServerKind,
): Promise<Secret | undefined> {
  if (!hasKey) return undefined
  if (keyFile !== undefined) {
    const read = keyFile === '-' ? await text(process.stdin) : await readFile(keyFile, 'utf8')
    if (read.trim() === '') throw new Problem('bad_request', `${keyFile} holds no key.`)
    return new Secret(read.trim())
  }
  const word = kind === 'agent' ? 'session key' : 'API key'
  if (!isInteractive()) {
    throw new Problem(
      'bad_request',
      `Name the file of its ${word} with --key-file FILE (- is standard input), or say --no-key.`,
    )
  }
  const { isCancel, password } = await import('@clack/prompts')
  const answer = await password({ message: `The ${word} of the server`, output: process.stderr })
  if (isCancel(answer)) throw new Problem('bad_request', 'Nothing was changed.')
  return answer ? new Secret(answer) : undefined
}
