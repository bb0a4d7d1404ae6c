import { CallError, ConnectionError } from '@slipway/client'
import { Problem } from '@slipway/protocol'

/** A refusal or a missing answer of an agent server becomes a Problem. */
export async function callAgent<T>(
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  try {
    return await work(signal)
  } catch (error) {
    if (error instanceof CallError) {
      if (error.status === 400) throw new Problem('bad_request', error.detail)
      if (error.status === 504) throw new Problem('timeout', error.detail)
      throw new Problem('bad_gateway', `The agent server refused with ${error.status}: ${error.detail}`)
    }
    if (error instanceof ConnectionError || (error instanceof Error && error.name === 'TimeoutError'))
      throw new Problem('bad_gateway', 'The agent server did not answer')
    throw error
  }
}
