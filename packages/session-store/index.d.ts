/** A `SessionStore` of the Claude Agent SDK (`@anthropic-ai/claude-agent-sdk`) in a Slipway agent server. */
export declare class SlipwaySessionStore {
  constructor(options: {
    /** Of the agent server, such as `http://127.0.0.1:8000`. */
    readonly url: string
    /** Its session key. */
    readonly apiKey?: string | undefined
    readonly fetch?: typeof fetch | undefined
  })
  /** All entries are stored, in their order, or none. One whose `uuid` is stored already is left out. */
  append(key: SessionKey, entries: SessionStoreEntry[]): Promise<void>
  /** Null for a transcript without entries. */
  load(key: SessionKey): Promise<SessionStoreEntry[] | null>
  listSessions(projectKey: string): Promise<{ sessionId: string; mtime: number }[]>
  /** With its sub-agents, unless the key has a `subpath`. */
  delete(key: SessionKey): Promise<void>
  listSubkeys(key: { projectKey: string; sessionId: string }): Promise<string[]>
}

export interface SessionKey {
  projectKey: string
  sessionId: string
  subpath?: string
}

export interface SessionStoreEntry {
  type: string
  uuid?: string
  timestamp?: string
  [member: string]: unknown
}
