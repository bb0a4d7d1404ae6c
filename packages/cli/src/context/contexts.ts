import { dirname, join } from 'node:path'
import { Problem } from '@slipway/protocol/client'
import { exists, makeDirectory, readPrivateFile, writeFileAtomic } from '@slipway/shared/fs'
import { isRecord, parseJson } from '@slipway/shared/json'
import { configDirectory } from '@slipway/shared/process'
import { Secret } from '@slipway/shared/redaction'

export type ServerKind = 'agent' | 'sandbox'

/** A server with a name. */
interface NamedServer {
  readonly url: string
  readonly kind: ServerKind
  readonly key: Secret | undefined
}

/** The server of this machine; built in, unless a file of an earlier version has one of that name. */
export const localContext = 'local'

/** Whether a name means the server of this machine. */
export function isLocal({ servers }: Contexts, name: string): boolean {
  return name === localContext && !servers.has(name)
}

/** The servers that a user named, and the one that is used. */
interface Contexts {
  readonly current: string | undefined
  readonly servers: ReadonlyMap<string, NamedServer>
}

type Env = Readonly<Record<string, string | undefined>>

/** The file of the contexts; it holds keys, so it is private. */
export function contextsPath(env: Env): string {
  return join(configDirectory(env), 'contexts.json')
}

/** None when there is no file. A Problem when others may read it, or when it is not of this form. */
export async function readContexts(path: string): Promise<Contexts> {
  const text = await readPrivateFile(path)
  if (text === undefined) {
    if (!(await exists(path))) return { current: undefined, servers: new Map() }
    throw new Problem('bad_request', `${path} holds keys and others may read it. Run: chmod 600 ${path}`)
  }
  const value = parseJson(text)
  if (!isRecord(value) || !isRecord(value.contexts)) {
    throw new Problem('bad_request', `${path} is no file of contexts. Move it away and add them again.`)
  }
  const servers = new Map<string, NamedServer>()
  for (const [name, server] of Object.entries(value.contexts)) {
    if (!isRecord(server) || typeof server.url !== 'string') continue
    const key = typeof server.key === 'string' ? new Secret(server.key) : undefined
    servers.set(name, { url: server.url, kind: server.kind === 'sandbox' ? 'sandbox' : 'agent', key })
  }
  return { current: typeof value.current === 'string' ? value.current : undefined, servers }
}

/** Replaces the file, mode 0600. */
export async function writeContexts(path: string, { current, servers }: Contexts): Promise<void> {
  const contexts = Object.fromEntries(
    [...servers].map(([name, { url, kind, key }]) => [name, { url, kind, key: key?.reveal() }]),
  )
  await makeDirectory(dirname(path), 0o700)
  await writeFileAtomic(path, `${JSON.stringify({ current, contexts }, undefined, 2)}\n`)
}

/** A Problem that names the others when there is no such context. */
export function namedServer({ servers }: Contexts, name: string): NamedServer {
  const server = servers.get(name)
  if (server !== undefined) return server
  const names = [...servers.keys(), localContext].join(', ')
  throw new Problem('bad_request', `There is no context ${JSON.stringify(name)}. There are: ${names}`)
}
