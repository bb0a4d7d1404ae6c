import type { Client, PositionedEvent, TransientUpdate } from '@slipway/client'
import type { RepositoryConsent, RepositoryConsents, RepositoryDecision, Resync } from '@slipway/protocol'
import type { ExportFormatName } from '@slipway/protocol/client'

/** A conversation of either kind of server. */
export interface ConversationSummary {
  readonly id: string
  readonly title: string
  /** Of its sandbox when the agent server does not answer. */
  readonly status: string
  readonly createdAt: string
  readonly updatedAt: string
  /** The answer of the server. */
  readonly info: Readonly<Record<string, unknown>>
}

export interface EventQuery {
  readonly kind?: string | undefined
  readonly source?: string | undefined
  readonly body?: string | undefined
  readonly timestamp__gte?: string | undefined
  readonly timestamp__lt?: string | undefined
}

export interface EventPageQuery extends EventQuery {
  readonly limit?: string | undefined
  readonly page_id?: string | undefined
  readonly sort_order?: 'TIMESTAMP' | 'TIMESTAMP_DESC' | undefined
}

/** The conversations of a server: what commands ask of an agent server and of a sandbox server alike. */
export interface ConversationSource {
  /** The command that lists them, for advice. */
  readonly kind: 'agent' | 'sandbox'
  /** One page, the newest first. */
  list(query: {
    readonly limit: number
    readonly page_id?: string | undefined
    readonly status?: string | undefined
  }): Promise<{ items: ConversationSummary[]; nextPageId: string | undefined }>
  get(id: string): Promise<ConversationSummary>
  rename(id: string, title: string): Promise<void>
  remove(id: string): Promise<void>
  /** The agent server that runs it. A Problem when its sandbox does not run. */
  agent(id: string): Promise<Client>
  send(id: string, text: string): Promise<void>
  /** Decisions about what repositories bring: hooks and agents, or the scripts that starts run. */
  readonly consents: {
    list(): Promise<RepositoryConsents>
    decide(id: string, decision: RepositoryDecision): Promise<RepositoryConsent>
    revoke(id: string): Promise<RepositoryConsent>
  }
  openEvents(id: string, query: EventPageQuery): Promise<Response>
  countEvents(id: string, query: EventQuery): Promise<number>
  exportEvents(
    id: string,
    options: { readonly format: ExportFormatName; readonly meta: boolean; readonly gzip: boolean },
  ): Promise<ReadableStream<Uint8Array>>
  follow(
    id: string,
    options: {
      readonly after: string
      readonly until?: 'idle' | undefined
      readonly onResync: (resync: Resync) => void
      readonly onDisconnect?: () => void
      readonly onConnect?: () => void
      /** Updates beside the log; only agent servers send them. */
      readonly onTransientUpdate?: (update: TransientUpdate) => void
    },
  ): AsyncIterable<PositionedEvent>
}
