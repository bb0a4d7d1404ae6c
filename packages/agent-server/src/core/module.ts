import type { Handlers, ProxyRoute, ScopedKey, SocketRoute } from '@slipway/http'
import type { LogFunction, RouteTable } from '@slipway/protocol'
import type { Metric } from '@slipway/shared/metrics'
import type { Clock } from '@slipway/shared/time'
import type { Cipher, ServerStorage } from '@slipway/storage'
import type { Config } from './config/config.ts'
import type { ConversationInfoReader } from './conversations/conversation-info.ts'
import type { CreateConversationDeps } from './conversations/lifecycle/create.ts'
import type { ConversationPart, ConversationParts } from './conversations/parts.ts'
import type { ConversationRegistry } from './conversations/registry.ts'
import type { ServerDocuments } from './documents/configured-documents.ts'
import type { PageTokens } from './peers/page-tokens.ts'
import type { ServerSecrets } from './secrets/server-secrets.ts'
import type { Activity } from './server/activity.ts'
import type { CallRoute } from './server/call-route.ts'
import type { Ingress } from './server/ingress.ts'
import type { SocketPath } from './server/lazy-handlers.ts'
import type { Directories } from './server/tool-user.ts'
import type { Webhooks } from './webhooks/webhooks.ts'

/** What programs of tools get. */
export interface ProgramSettings {
  readonly environment: Config['toolEnvironment']
  /** The server's own keys, which no output shows. */
  readonly redactedValues: readonly string[]
  /** Resolves when nothing runs any more that the last process on this directory has left. */
  readonly leftoversKilled: Promise<void>
}

/** The process that the server runs in. */
export interface Host {
  readonly clock: Clock
  readonly log: LogFunction
  readonly activity: Activity
  readonly ingress: Ingress
  /** Its port, once it listens on one. */
  readonly port: () => number | undefined
}

/** What every module gets. */
export interface Core {
  readonly config: Config
  readonly directories: Directories
  readonly host: Host
  readonly storage: ServerStorage
  /** Settings, profiles, secrets and decisions: of the storage, or set by files. */
  readonly documents: ServerDocuments
  readonly cipher: Cipher
  readonly secrets: ServerSecrets
  readonly registry: ConversationRegistry
  readonly creation: CreateConversationDeps
  readonly infoReader: ConversationInfoReader
  readonly webhooks: Webhooks
  readonly parts: ConversationParts
  readonly programs: ProgramSettings
  /** Calls routes of all modules, once they are open. */
  readonly call: CallRoute
}

/** What an opened module adds to the server. It is disposed of when the server closes. */
export interface OpenedModule<R extends RouteTable, Offer> {
  /** One for each of its routes. */
  readonly handlers?: Handlers<R>
  /** By path: each of its sockets. */
  readonly sockets?: Readonly<Record<string, SocketRoute>>
  /** By prefix: each of its proxies. */
  readonly proxies?: Readonly<Record<string, ProxyRoute>>
  readonly conversations?: ConversationPart
  readonly metrics?: readonly Metric[]
  /** Further members of `/server_info`. */
  readonly serverInfo?: () => Readonly<Record<string, unknown>>
  /** Admits pages that have no session key. */
  readonly pageTokens?: PageTokens
  /** The key with scopes that a text is; undefined when it is none, or has ended. */
  readonly findScopedKey?: (key: string) => Promise<ScopedKey | undefined>
  /** What modules that need this one get. */
  readonly offer?: Offer
  readonly close?: AsyncDisposable | Disposable
}

type OpenModule<R extends RouteTable, Offer> = (
  core: Core,
  use: UseModule,
) => OpenedModule<R, Offer> | Promise<OpenedModule<R, Offer>>

/** What a module offers that is among the `needs` of the one that asks. */
export type UseModule = <O>(module: Module<O>) => O

/** A capability of the server: one folder with its handlers and tests. */
export interface Module<Offer = unknown> {
  readonly name: string
  readonly routes: RouteTable
  readonly sockets: readonly SocketPath[]
  /** Prefixes of paths that it passes on. */
  readonly proxies: readonly string[]
  /** What `/server_info` names among its capabilities. */
  readonly capabilities: readonly string[]
  /** Opened before it. */
  readonly needs: readonly Module[]
  readonly open: OpenModule<RouteTable, Offer>
  /** Home directories of programs, which the last process on this data directory may have left running. */
  readonly programHomes?: ((dataDirectory: string) => string) | undefined
}

/** A module whose handlers are checked against its routes. */
export function defineModule<R extends RouteTable, Offer = undefined>(
  definition: { readonly name: string; readonly routes: R; readonly open: OpenModule<R, Offer> } & Partial<
    Omit<Module<Offer>, 'name' | 'routes' | 'open'>
  >,
): Module<Offer> {
  const { open, ...members } = definition
  // Handlers are called with requests of their own routes alone.
  return {
    sockets: [],
    proxies: [],
    capabilities: [],
    needs: [],
    ...members,
    open: open as unknown as OpenModule<RouteTable, Offer>,
  }
}
