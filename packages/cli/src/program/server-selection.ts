import { join, resolve } from 'node:path'
import { Client, SandboxServerClient } from '@slipway/client'
import { Problem } from '@slipway/protocol/client'
import { exists } from '@slipway/shared/fs'
import { userDataDirectory } from '@slipway/shared/process'
import type { Secret } from '@slipway/shared/redaction'
import type { Command } from 'commander'
import type { CommandContext } from '../context/command-context.ts'
import { type Config, usualUrls } from '../context/config.ts'
import { contextsPath, isLocal, namedServer, readContexts, type ServerKind } from '../context/contexts.ts'
import { findData, findKeyOfData } from '../context/data-directory.ts'
import { findPrivateServer } from '../context/private-server.ts'
import { findServer } from '../context/server-address.ts'
import { detectServerKind } from '../context/server-kind.ts'
import { isOwnAddress } from '../context/session-key.ts'
import { privateServerEnvironment } from '../context/shell-variables.ts'
import { agentSource } from '../conversation/source/agent-source.ts'
import { findConversationId } from '../conversation/source/find-id.ts'
import { sandboxSource } from '../conversation/source/sandbox-source.ts'
import type { ConversationSource } from '../conversation/source/source.ts'
import { sanitizeLine } from '../output/sanitize.ts'

interface SelectedServer {
  readonly kind: ServerKind
  readonly url: string
  readonly key: Secret | undefined
  /** Where the key comes from, for people; undefined without a key. */
  readonly keySource: string | undefined
  /** The private server of the sessions. */
  readonly isPrivate?: true
}

/** The context of a command that works on the conversations of either kind of server. */
export interface SourceContext {
  readonly source: ConversationSource
  readonly isJson: boolean
  readonly isWide: boolean
  readonly signal: AbortSignal
}

/** What commands for conversations get. `outcome.code` becomes the exit code. */
export interface ConversationDeps {
  /** An agent server; a Problem when the context names a sandbox server. */
  context(): CommandContext
  source(): SourceContext
  /** The address of the agent server; a Problem when the context names a sandbox server. */
  agentServer(): Pick<SelectedServer, 'url' | 'key'> & { readonly signal: AbortSignal }
  /** The whole id of what a text names, and the agent server that runs the conversation. */
  conversation(text: string): Promise<{ readonly context: CommandContext; readonly id: string }>
  /** The whole id of what a text names; `titles`: whether a part of a title does. */
  find(
    text: string,
    titles?: 'parts' | 'whole',
  ): Promise<{ readonly context: SourceContext; readonly id: string }>
  readonly outcome: { code: number }
}

/**
 * When the private server is started: `session`, also where `data` exists; `ifNeeded`, unless a server
 * answers at the usual address; `withConversations`, when it has been used before.
 */
type PrivateStart = 'session' | 'ifNeeded' | 'withConversations'

/** Which server a command line means, and its keys. */
export class ServerSelection {
  readonly #slipway: Command
  readonly #config: Config
  readonly #signal: AbortSignal
  #selected: SelectedServer | undefined
  #leave: (() => Promise<void>) | undefined
  #startsNothing = false

  constructor(slipway: Command, config: Config, signal: AbortSignal) {
    this.#slipway = slipway
    this.#config = config
    this.#signal = signal
  }

  /**
   * The flag `--url`, else `--context` or `SLIPWAY_CONTEXT`, else the variable of the address of a server of
   * the kind that the command, or the current context, is about, else the current context, else the server
   * of this machine: the one of `data`, or of this directory, when that exists and is not the directory of
   * the private one, at the address that it has written there; else the private one of the sessions, which
   * is started as `start` says. `kinds`: those that the command can use, the first by default.
   */
  async select(
    data: string | undefined,
    kinds: readonly [ServerKind, ...ServerKind[]],
    start: PrivateStart = 'withConversations',
  ): Promise<SelectedServer> {
    this.#selected = await this.#find(data, kinds, start)
    return this.#selected
  }

  /** As `select` for conversations, without starting anything: a private server that does not run is none. */
  async selectRunning(data: string | undefined): Promise<void> {
    this.#startsNothing = true
    const { url, sandboxUrl } = this.#config.own
    const isSandbox = url === undefined && sandboxUrl !== undefined
    await this.select(data, isSandbox ? ['sandbox', 'agent'] : ['agent', 'sandbox'])
  }

  /** The address of the selected server and a call for a token of its console. */
  consoleServer() {
    const { url, kind, key } = this.#server()
    const signal = this.#signal
    const agent = new Client({ url, sessionApiKey: key })
    const sandbox = new SandboxServerClient({ url, apiKey: key })
    const createToken = () =>
      kind === 'agent'
        ? agent.call('createConsoleToken', { signal })
        : sandbox.call('createConsoleToken', { signal })
    return { url: agent.url, createToken, isJson: this.#output().isJson }
  }

  /** Starts the private server again when it has died; nothing for another server. */
  async revive(): Promise<void> {
    if (this.#leave === undefined) return
    const { startPrivateServer } = await import('../session/start-private-server.ts')
    await startPrivateServer(this.#config.env, privateServerEnvironment(this.#config), this.#signal)
  }

  /** Ends the private server unless somebody else needs it. */
  async close(): Promise<void> {
    await this.#leave?.()
  }

  /** Whether the private server of the sessions was selected. */
  get isPrivate(): boolean {
    return this.#selected?.isPrivate === true
  }

  /** What to do when a conversation is not found: it may be one of the sandbox server. */
  get notFoundHint(): string | undefined {
    const { sandboxUrl: url } = this.#config.own
    if (!url || this.#selected?.kind !== 'agent') return undefined
    return `Conversations of the sandbox server: slipway context add NAME ${sanitizeLine(url)}`
  }

  get kind(): ServerKind | undefined {
    return this.#selected?.kind
  }

  get keySource(): string | undefined {
    return this.#selected?.keySource
  }

  deps(outcome: { code: number }): ConversationDeps {
    const source = () => this.#source()
    return {
      outcome,
      context: () => this.#agentContext(),
      agentServer: () => ({ ...this.#agentServer(), signal: this.#signal }),
      source,
      conversation: async (text) => {
        const context = source()
        const id = await findConversationId(context.source, text)
        const client = await context.source.agent(id)
        return { context: { client, isJson: context.isJson, signal: context.signal }, id }
      },
      find: async (text, titles) => {
        const context = source()
        return { context, id: await findConversationId(context.source, text, titles) }
      },
    }
  }

  async #find(
    data: string | undefined,
    kinds: readonly [ServerKind, ...ServerKind[]],
    start: PrivateStart,
  ): Promise<SelectedServer> {
    const config = this.#config
    const hasUrlFlag = this.#slipway.getOptionValueSource('url') === 'cli'
    const flags = this.#slipway.opts<{ url: string; context?: string }>()
    const kind = hasUrlFlag ? await this.#kindAt(flags.url, kinds) : kinds[0]
    const keys = { agent: config.sessionApiKey, sandbox: config.apiKey }
    const variable = kind === 'agent' ? 'SLIPWAY_SESSION_API_KEY' : 'SLIPWAY_API_KEY'
    const withFileKey = async (url: string) => {
      const own = config.fileKeys[kind]
      if (own !== undefined && (await isOwnAddress(url))) return { key: own, keySource: config.file.path }
      if (kind !== 'agent') return { key: undefined, keySource: undefined }
      const { key, directory = '' } = await findKeyOfData(url, data, config.env)
      return { key, keySource: key && join(resolve(directory), 'session.key') }
    }
    const withKey = async (url: string, key = keys[kind]): Promise<SelectedServer> => ({
      kind,
      url,
      ...(key === undefined ? await withFileKey(url) : { key, keySource: variable }),
    })
    if (hasUrlFlag) return await withKey(flags.url)
    const name = flags.context ?? config.own.context
    const ownUrl = kind === 'agent' ? config.own.url : config.own.sandboxUrl
    if (!name && ownUrl !== undefined) return await withKey(ownUrl)
    if (!name && (await this.#isOverridden(kinds))) return await this.#find(data, ['sandbox'], start)
    const defaultUrl = kind === 'agent' ? config.url : config.sandboxUrl
    const contexts = await readContexts(contextsPath(config.env))
    const local = name !== undefined && isLocal(contexts, name)
    // A directory that is named means its server.
    const isNamed = !name && kind === 'agent' && data !== config.dataDirectory
    const named = isNamed && data !== undefined ? await findServer(data, this.#signal) : undefined
    if (named !== undefined) return await withKey(named)
    const chosen = local ? undefined : name || contexts.current
    const server = chosen === undefined ? undefined : namedServer(contexts, chosen)
    if (server !== undefined && kinds.includes(server.kind)) {
      return server.key === undefined && server.kind === 'agent'
        ? { ...server, ...(await withFileKey(server.url)) }
        : { ...server, key: server.key, keySource: server.key && `the context ${chosen}` }
    }
    if (name && server !== undefined) {
      throw new Problem(
        'bad_request',
        `The context ${name} is ${article[server.kind]}; this needs ${article[kind]}.`,
      )
    }
    const isPrivate = data !== undefined && resolve(data) === userDataDirectory(config.env)
    const here = () => findData(data, config.env)
    if (kind === 'agent' && (start === 'session' || isPrivate || !(await exists(await here())))) {
      const own = await this.#startPrivate(start, local ? usualUrls.agent : defaultUrl)
      if (own !== undefined)
        return { kind, url: own.url, key: own.key, keySource: 'the private server', isPrivate: true }
    }
    const found = kind === 'agent' ? await findServer(await here(), this.#signal) : undefined
    return await withKey(found ?? (local ? usualUrls[kind] : defaultUrl))
  }

  /** Whether the variable of an address overrides the current context, which the command would use. */
  async #isOverridden(kinds: readonly ServerKind[]): Promise<boolean> {
    if (kinds[0] === 'sandbox' || !kinds.includes('sandbox')) return false
    if (this.#config.own.sandboxUrl === undefined) return false
    const contexts = await readContexts(contextsPath(this.#config.env))
    return contexts.current !== undefined && contexts.servers.get(contexts.current)?.kind === 'sandbox'
  }

  /** The kind of a named server; the usual one of the command where no Slipway server answers. */
  async #kindAt(url: string, kinds: readonly [ServerKind, ...ServerKind[]]): Promise<ServerKind> {
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(2_000)])
    const kind = (await detectServerKind(url, signal).catch(() => undefined)) ?? kinds[0]
    if (kinds.includes(kind)) return kind
    throw new Problem(
      'bad_request',
      `${sanitizeLine(url)} is ${article[kind]}; this needs ${article[kinds[0]]}.`,
    )
  }

  async #startPrivate(start: PrivateStart, usualUrl: string) {
    const { env } = this.#config
    if (this.#startsNothing) return await findPrivateServer(env)
    if (start !== 'session' && !(await exists(join(userDataDirectory(env), 'log.db')))) {
      if (start === 'withConversations' || (await this.#answers(usualUrl))) return undefined
    }
    const { joinPrivateServer, startPrivateServer } = await import('../session/start-private-server.ts')
    const own = await startPrivateServer(env, privateServerEnvironment(this.#config), this.#signal)
    this.#leave = await joinPrivateServer(env, own)
    return own
  }

  async #answers(url: string): Promise<boolean> {
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(2_000)])
    return await fetch(new URL('/alive', url), { signal }).then(
      () => true,
      () => false,
    )
  }

  #agentServer(): SelectedServer {
    const server = this.#server()
    if (server.kind === 'agent') return server
    throw new Problem('bad_request', 'The current context is a sandbox server; this needs an agent server.')
  }

  #agentContext(): CommandContext {
    const { url, key } = this.#agentServer()
    const { isJson } = this.#output()
    return { client: new Client({ url, sessionApiKey: key }), isJson, signal: this.#signal }
  }

  #source(): SourceContext {
    const { url, kind, key } = this.#server()
    const source =
      kind === 'agent'
        ? agentSource(new Client({ url, sessionApiKey: key }), this.#signal)
        : sandboxSource(new SandboxServerClient({ url, apiKey: key }), this.#signal)
    return { source, ...this.#output(), signal: this.#signal }
  }

  #server(): SelectedServer {
    const { url, sessionApiKey } = this.#config
    return this.#selected ?? { kind: 'agent', url, key: sessionApiKey, keySource: undefined }
  }

  #output() {
    const { json, outputFormat } = this.#slipway.opts<{ json: boolean; outputFormat?: string }>()
    return { isJson: json, isWide: outputFormat === 'wide' }
  }
}

const article = { agent: 'an agent server', sandbox: 'a sandbox server' } as const
