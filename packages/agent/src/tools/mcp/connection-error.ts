/**
 * A server that cannot be reached, because of its `settings`, a time-out (`time`) or a failed `connection`.
 * The message contains no values of settings.
 */
export class McpConnectionError extends Error {
  override readonly name = 'McpConnectionError'
  readonly reason: 'settings' | 'time' | 'connection'

  constructor(message: string, reason: McpConnectionError['reason'] = 'settings') {
    super(message)
    this.reason = reason
  }
}
