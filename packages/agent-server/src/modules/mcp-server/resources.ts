import { resolve } from 'node:path'
import { Problem } from '@slipway/protocol'
import { isRecord, parseJson } from '@slipway/shared/json'
import type { StoredEvent } from '@slipway/storage'
import { readStoredRequest } from '../../core/conversations/stored-request.ts'
import { cutTexts, fitItems } from './bounded-json.ts'
import type { Door } from './door.ts'

/** What MCP clients read by address: a log, a file of a workspace, its changes. */

interface Contents {
  readonly mimeType: string
  readonly text?: string
  /** Base64. */
  readonly blob?: string
}

export interface ResourceKind {
  readonly name: string
  readonly template: string
  readonly description: string
  read(door: Door, variables: Readonly<Record<string, string>>, signal: AbortSignal): Promise<Contents>
}

const scheme = 'slipway://conversations'
const maxLogEvents = 200
const maxLogBytes = 8 * 1024 ** 2
const maxFileBytes = 512 * 1024
const maxDiffs = 20
const maxSideLength = 8_000

export const resourceKinds: readonly ResourceKind[] = [
  {
    name: 'log',
    template: `${scheme}/{conversation_id}/log`,
    description: `The newest events of a conversation, at most ${maxLogEvents}, one a line with its position.`,
    read: readLog,
  },
  {
    name: 'file',
    template: `${scheme}/{conversation_id}/files/{+path}`,
    description: 'A file of the workspace of a conversation, at most 512 KiB.',
    read: readWorkspaceFile,
  },
  {
    name: 'diff',
    template: `${scheme}/{conversation_id}/diff`,
    description: `The changed files of the git repository in a workspace, the first ${maxDiffs} with both sides.`,
    read: readDiff,
  },
]

export function logUri(conversation: string): string {
  return `${scheme}/${conversation}/log`
}

async function readLog(
  door: Door,
  { conversation_id = '' }: Readonly<Record<string, string>>,
): Promise<Contents> {
  const { id, head } = await door.getRecord(conversation_id)
  let events: readonly StoredEvent[] = []
  // Fewer when they are large: the newest have to be among them.
  for (const count of [maxLogEvents, 20, 1]) {
    events = await door.storage.log.read(id, Math.max(0, head - count), count, maxLogBytes)
    if (events.at(-1)?.position === head) break
  }
  const newest = events.map(({ position, bytes }) => ({ position, event: parseJson(bytes.toString()) }))
  const lines = fitItems(newest.reverse()).items.map((one) => `${JSON.stringify(one)}\n`)
  return { mimeType: 'application/x-ndjson', text: lines.reverse().join('') }
}

async function readWorkspaceFile(
  door: Door,
  { conversation_id = '', path = '' }: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Contents> {
  const { bytes, contentType, isCut } = await door.call('workspaceFile', {
    params: { conversation_id, path },
    signal,
  })
  if (isCut || bytes.length > maxFileBytes)
    throw new Problem('too_large', `The file has more than ${maxFileBytes} bytes`)
  const text = bytes.toString()
  const mimeType = contentType.split(';')[0] ?? contentType
  if (!text.includes('\u0000') && Buffer.from(text).equals(bytes)) return { mimeType, text }
  return { mimeType, blob: bytes.toString('base64') }
}

async function readDiff(
  door: Door,
  { conversation_id = '' }: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Contents> {
  const record = await door.getRecord(conversation_id)
  const directory = readStoredRequest(record).workspace?.working_dir
  if (!directory) throw new Problem('not_found', 'The conversation has no workspace')
  const { json } = await door.callTrusted('gitChanges', { query: { path: directory }, signal })
  const changes = Array.isArray(json) ? json : []
  const files: unknown[] = []
  for (const change of changes.slice(0, maxDiffs)) {
    const path = resolve(directory, String(isRecord(change) ? change.path : ''))
    const diff = await door
      .callTrusted('gitDiff', { query: { path }, signal })
      .then(({ json: sides }) => (isRecord(sides) ? sides : {}))
      .catch((error: unknown) => ({ error: error instanceof Problem ? error.message : 'It cannot be read' }))
    files.push({ ...Object(change), ...Object(cutTexts(diff, maxSideLength)) })
  }
  const rest = changes.slice(maxDiffs, 500)
  return {
    mimeType: 'application/json',
    text: JSON.stringify({
      total: changes.length,
      files: fitItems(files).items,
      more: fitItems(rest).items,
    }),
  }
}
