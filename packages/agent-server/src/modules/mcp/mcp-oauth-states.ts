import type { McpOAuthState, McpOAuthStates } from '@slipway/agent'
import { agentSettings, type McpServer } from '@slipway/protocol'
import { KeyedMutex } from '@slipway/shared/async'
import { LruMap } from '@slipway/shared/collections'
import { isRecord } from '@slipway/shared/json'
import type { ServerSettings } from '../settings/module.ts'

interface SavedMcpOAuthStatesOptions {
  readonly settings: ServerSettings
  /** Tells receivers the tokens of a server that the settings do not have. */
  readonly announce: (state: { readonly server_url: string; readonly oauth_state: McpOAuthState }) => void
}

/**
 * Tokens of MCP servers, renewed one at a time for a URL: a provider may accept a refresh token only once.
 * They are stored in the servers of the settings that have the URL; those of other servers are kept in
 * memory.
 */
export class SavedMcpOAuthStates implements McpOAuthStates {
  readonly #options: SavedMcpOAuthStatesOptions
  readonly #mutex = new KeyedMutex()
  readonly #renewed = new LruMap<string, McpOAuthState>({ max: 500 })

  constructor(options: SavedMcpOAuthStatesOptions) {
    this.#options = options
  }

  async update(
    url: string,
    given: McpOAuthState,
    renew: (state: McpOAuthState) => Promise<McpOAuthState>,
  ): Promise<McpOAuthState> {
    return await this.#mutex.runExclusive(url, async () => {
      const { settings, announce } = this.#options
      const { mcp_config } = await settings.getAgentSettings()
      const stored = Object.values(mcp_config)
        .map((server) => readState(server, url))
        .find((state) => isSameClient(state, given))
      const key = JSON.stringify([url, given.client_info?.client_id, given.tokens?.refresh_token])
      const current = stored ?? this.#renewed.get(key) ?? given
      const renewed = await renew(current)
      if (renewed === current) return current
      if (stored === undefined) {
        this.#renewed.set(key, renewed)
        announce({ server_url: url, oauth_state: renewed })
      } else await this.#store(url, renewed)
      return renewed
    })
  }

  async #store(url: string, state: McpOAuthState): Promise<void> {
    await this.#options.settings.modify((current) => {
      const { mcp_config } = agentSettings.parse(current.agent_settings)
      const servers = Object.entries(mcp_config).map(([name, server]) =>
        isSameClient(readState(server, url), state)
          ? [name, { ...server, auth: { ...Object(server.auth), state } }]
          : [name, server],
      )
      const agent = { ...current.agent_settings, mcp_config: Object.fromEntries(servers) }
      return { ...current, agent_settings: agent }
    })
  }
}

/** The state of a server with this URL. */
function readState({ url, auth }: McpServer, wanted: string): McpOAuthState | undefined {
  const isIt = url !== undefined && URL.parse(url)?.href === wanted
  return isIt && isRecord(auth) && auth.strategy === 'oauth2' && isRecord(auth.state) ? auth.state : undefined
}

function isSameClient(one: McpOAuthState | undefined, other: McpOAuthState): boolean {
  return one !== undefined && one.client_info?.client_id === other.client_info?.client_id
}
