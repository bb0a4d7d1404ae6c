import { CallError } from '@slipway/client'
import { Problem } from '@slipway/protocol'
import { sanitizeLine } from '../output/sanitize.ts'

/** Does something with a sandbox server; a refusal of it rejects with a Problem that also says what to do next. */
export async function withAdvice<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof CallError)) throw error
    throw new Problem('bad_request', [sanitizeLine(error.detail), ...advice(error.status)].join('\n'))
  }
}

function advice(status: number): string[] {
  if (status === 401)
    return [
      'Set SLIPWAY_API_KEY to an API key of the sandbox server. It prints one at its first start;',
      'started with "slipway sandbox-server --new-key" it makes another one.',
    ]
  if (status === 404 || status === 410)
    return ['"slipway sandboxes" and "slipway app list" show what is there.']
  if (status === 502 || status === 503) return ['"slipway sandboxes" says how its sandbox is.']
  if (status >= 500) return ['The log of the server says more.']
  return []
}
