/** What a sign-in to an MCP server leaves: `auth.state` of its settings. */
export interface McpOAuthState {
  readonly tokens?:
    | (Readonly<Record<string, unknown>> & {
        readonly access_token: string
        readonly refresh_token?: string | undefined
      })
    | undefined
  readonly client_info?: (Readonly<Record<string, unknown>> & { readonly client_id: string }) | undefined
  /** Seconds since 1970; unknown: the access token is used until the server refuses it. */
  readonly token_expires_at?: number | undefined
}

/** Keeps renewed tokens, which replace those of the settings and of the conversation. */
export interface McpOAuthStates {
  /**
   * The newest state of a server, after `renew`, which runs alone for a URL and returns its input when there
   * is nothing to do.
   */
  update(
    url: string,
    given: McpOAuthState,
    renew: (state: McpOAuthState) => Promise<McpOAuthState>,
  ): Promise<McpOAuthState>
}
