import { canonicalJson } from './canonical-json.ts'
import { sha256 } from './sha256.ts'

/** What the digest has of an ActionEvent: all that says what will be done, and how risky it is. */
export interface DigestedAction {
  readonly id?: unknown
  readonly tool_name?: unknown
  readonly tool_call?: unknown
  /** Null when the call was invalid. */
  readonly action?: unknown
  readonly security_risk?: unknown
}

/**
 * The digest of actions that wait, in the order of the log: `sha256:` and the SHA-256 of an array in
 * canonical JSON (RFC 8785), whose items have the members of `DigestedAction`. An answer that carries it is
 * for exactly what was shown.
 */
export function actionsDigest(actions: readonly DigestedAction[]): string {
  const items = actions.map(({ id, tool_name, tool_call, action, security_risk }) => ({
    ...{ id, tool_name, tool_call },
    action: action ?? null,
    security_risk: security_risk ?? 'UNKNOWN',
  }))
  return `sha256:${sha256(canonicalJson(items))}`
}
