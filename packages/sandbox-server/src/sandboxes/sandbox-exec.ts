import { CallError } from '@slipway/client'
import { readLimited } from '@slipway/shared/async'
import { lastChars } from '@slipway/shared/text'
import type { Clock } from '@slipway/shared/time'
import type { AgentTarget } from '../network/agent-target.ts'

/** `exitCode` is -1 after the timeout. Long outputs lose their beginning. */
export interface CommandResult {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

const maxOutputCharacters = 256 * 1024
const uploadMs = 30_000
const firstPollMs = 25
const maxPollMs = 1_000
/** Added to the timeout of the agent server. */
const timeoutGraceMs = 15_000

/** Runs a command by bash. Polls for its end: long connections break, and a lost answer does no harm. */
export async function execCommand(
  { client }: AgentTarget,
  command: string,
  options: {
    readonly cwd?: string
    readonly timeoutMs: number
    readonly clock: Clock
    readonly signal: AbortSignal
  },
): Promise<CommandResult> {
  const { cwd, timeoutMs, clock, signal } = options
  const timeout = Math.ceil(timeoutMs / 1000)
  const commandSignal = AbortSignal.any([signal, clock.timeout(timeoutMs + timeoutGraceMs)])
  const started = await client.call('startBashCommand', {
    body: { command, timeout, ...(cwd === undefined ? {} : { cwd }) },
    signal: commandSignal,
  })
  let stdout = ''
  let stderr = ''
  let order = -1
  for (let pollMs = firstPollMs; ; pollMs = Math.min(pollMs * 1.5, maxPollMs)) {
    const page = await client.call('searchBashEvents', {
      query: { kind__eq: 'BashOutput', command_id__eq: started.id, order__gt: String(order) },
      signal: commandSignal,
    })
    for (const item of page.items) {
      if (item.kind !== 'BashOutput') continue
      order = item.order
      stdout = lastChars(stdout + (item.stdout ?? ''), maxOutputCharacters)
      stderr = lastChars(stderr + (item.stderr ?? ''), maxOutputCharacters)
      if (item.exit_code !== null) return { exitCode: item.exit_code, stdout, stderr }
    }
    if (page.items.length === 0) await clock.sleep(pollMs, { signal: commandSignal })
  }
}

/** Writes a file in a sandbox and creates its directories. */
export async function uploadFile(
  { url, key }: AgentTarget,
  path: string,
  bytes: Buffer,
  options: { readonly fetch: typeof fetch; readonly clock: Clock; readonly signal: AbortSignal },
): Promise<void> {
  const form = new FormData()
  form.append('file', new Blob([new Uint8Array(bytes)], { type: 'application/octet-stream' }), 'file')
  const encoded = new Response(form)
  const response = await options.fetch(`${url}/api/file/upload?path=${encodeURIComponent(path)}`, {
    method: 'POST',
    headers: {
      'content-type': encoded.headers.get('content-type') ?? '',
      'x-session-api-key': key.reveal(),
    },
    // With a known length.
    body: await encoded.bytes(),
    signal: AbortSignal.any([options.signal, options.clock.timeout(uploadMs)]),
  })
  // The body may contain the file.
  await response.body?.cancel()
  if (!response.ok) throw new CallError(response.status, 'The file could not be written')
}

/** A file in a sandbox; undefined when it is missing or too large. */
export async function downloadFile(
  { url, key }: AgentTarget,
  path: string,
  options: { readonly fetch: typeof fetch; readonly maxBytes: number; readonly signal: AbortSignal },
): Promise<Buffer | undefined> {
  const response = await options.fetch(`${url}/api/file/download?path=${encodeURIComponent(path)}`, {
    headers: { 'x-session-api-key': key.reveal() },
    signal: options.signal,
  })
  if (response.ok) return await readLimited(response, options.maxBytes)
  await response.body?.cancel()
  return undefined
}
