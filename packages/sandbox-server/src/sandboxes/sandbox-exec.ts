import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { CallError, type Client } from '@slipway/client'
import type { Secret } from '@slipway/shared/redaction'

/** What commands and files in a sandbox need of it. */
export interface ExecTarget {
  readonly client: Pick<Client, 'call'>
  readonly url: string
  readonly key: Secret
}

/** What became of a command: -1 when its time was over. Of long outputs the end. */
export interface CommandResult {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

const maxOutputCharacters = 256 * 1024
const uploadMs = 30_000
const firstPollMs = 25
const maxPollMs = 1_000
/** What an agent server may take longer than it was told to. */
const timeoutGraceMs = 15_000

/**
 * Runs a command by bash in a sandbox and waits for its end. It is asked for again and again, because a
 * connection that waits for minutes breaks at many a place; so an answer that is lost does no harm. Rejects
 * with what the client does.
 */
export async function execCommand(
  { client }: ExecTarget,
  command: string,
  options: { readonly cwd?: string; readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<CommandResult> {
  const { cwd, timeoutMs, signal } = options
  const timeout = Math.ceil(timeoutMs / 1000)
  const commandSignal = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs + timeoutGraceMs)])
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
      stdout = (stdout + (item.stdout ?? '')).slice(-maxOutputCharacters)
      stderr = (stderr + (item.stderr ?? '')).slice(-maxOutputCharacters)
      if (item.exit_code !== null) return { exitCode: item.exit_code, stdout, stderr }
    }
    if (page.items.length === 0) await sleep(pollMs, undefined, { signal: commandSignal })
  }
}

/** Puts a file into a sandbox; directories on the way are made. */
export async function uploadFile(
  { url, key }: ExecTarget,
  path: string,
  bytes: Buffer,
  options: { readonly fetch: typeof fetch; readonly signal: AbortSignal },
): Promise<void> {
  const boundary = `slipway-${randomBytes(16).toString('hex')}`
  const head = `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="file"\r\ncontent-type: application/octet-stream\r\n\r\n`
  const body = Buffer.concat([Buffer.from(head), bytes, Buffer.from(`\r\n--${boundary}--\r\n`)])
  const response = await options.fetch(`${url}/api/file/upload?path=${encodeURIComponent(path)}`, {
    method: 'POST',
    headers: {
      'content-type': `multipart/form-data; boundary=${boundary}`,
      'x-session-api-key': key.reveal(),
    },
    body: new Uint8Array(body),
    signal: AbortSignal.any([options.signal, AbortSignal.timeout(uploadMs)]),
  })
  // The body may repeat what was sent.
  await response.body?.cancel()
  if (!response.ok) throw new CallError(response.status, 'The file could not be written')
}

/** A text of a file in a sandbox; undefined when there is none or it is larger than that. */
export async function downloadFile(
  { url, key }: ExecTarget,
  path: string,
  options: { readonly fetch: typeof fetch; readonly maxBytes: number; readonly signal: AbortSignal },
): Promise<Buffer | undefined> {
  const response = await options.fetch(`${url}/api/file/download?path=${encodeURIComponent(path)}`, {
    headers: { 'x-session-api-key': key.reveal() },
    signal: options.signal,
  })
  const chunks: Uint8Array[] = []
  let sizeBytes = 0
  for await (const chunk of response.body ?? []) {
    sizeBytes += chunk.length
    if (!response.ok || sizeBytes > options.maxBytes) return undefined
    chunks.push(chunk)
  }
  return response.ok ? Buffer.concat(chunks) : undefined
}

/** A word for bash that means this text and nothing else. */
export function shellQuote(text: string): string {
  return `'${text.replaceAll('\0', '').replaceAll("'", "'\\''")}'`
}
