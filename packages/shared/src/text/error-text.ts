/** The message of an error; anything else that was thrown, as text. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** The same with the message of the cause, where libraries of HTTP and MCP put the reason. */
export function errorTextWithCause(error: unknown): string {
  const text = errorText(error)
  return error instanceof Error && error.cause instanceof Error ? `${text} (${error.cause.message})` : text
}
