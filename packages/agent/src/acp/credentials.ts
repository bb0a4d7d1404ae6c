import type { Secret } from '@slipway/shared/redaction'

/**
 * Where a credential of an external agent lives, which the agent may renew: `replace` returns the version of
 * the new value, and rejects when the source has another one than was expected.
 */
export interface CredentialSource {
  load(signal: AbortSignal): Promise<{ readonly value: Secret; readonly version: string }>
  replace(expectedVersion: string, value: Secret, signal: AbortSignal): Promise<string>
}
