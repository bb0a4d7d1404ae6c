/**
 * Forks a conversation together with the files of its workspace.
 *
 * Problem: the first conversation may work meanwhile, so its files and its log never stand still together.
 * Idea: its sandbox is frozen while its files are copied, and the backend says when that was. The log of the
 * fork ends at that moment: an event that is younger was written by something that the copy has not seen.
 *
 * Invariants:
 * - A result in the log of the fork belongs to work that its files have seen, as tools end before their
 *   result is stamped; an action whose effects may be in the files is in its log, as it is stamped before it
 *   begins.
 * - What was there before the copy began is in the log, whatever its timestamps say: those of imported
 *   events are of other clocks.
 * - The fork has its own sandbox, which nothing else uses. A fork that fails or is interrupted at any step
 *   loses it with all that is in it (`discardFork`), so there is a whole fork or none. Nothing of the first
 *   one is changed.
 * - The files are those of the workspace and the home directory: session keys are in neither.
 */

import { randomUUID } from 'node:crypto'
import { posix } from 'node:path'
import { formatInstant, type Instant, parseInstant } from '@slipway/protocol'
import { isWithin } from '@slipway/shared/fs'
import { isRecord, parseJson } from '@slipway/shared/json'
import type { AppConversationRow, StartTaskRow } from '@slipway/storage/control-plane'
import { FilesError } from '../backends/backend.ts'
import type { ConversationContext } from '../conversations/records/conversation-context.ts'
import { toHexId } from '../conversations/records/conversation-ids.ts'
import { parseMetadata } from '../conversations/records/conversation-info.ts'
import type { SandboxConnection } from '../sandboxes/sandboxes.ts'
import { StartError } from './failures.ts'
import type { SandboxChoice, StartSandboxes } from './select-sandbox.ts'

const lineBreak = 10
const countTimeoutMs = 10_000

interface ForkDeps
  extends Pick<ConversationContext, 'controlPlane' | 'storage' | 'removedConversations' | 'clock'> {
  readonly sandboxes: StartSandboxes
}

export interface ForkedWorkspace {
  readonly workingDir: string
  /** The log, an event a line; the same in each call. */
  log(signal: AbortSignal): AsyncGenerator<Buffer>
}

/** Copies the files into the sandbox of the job. */
export async function forkWorkspace(
  { sandboxes, clock }: Pick<ForkDeps, 'sandboxes' | 'clock'>,
  { choice, signal }: { readonly choice: SandboxChoice; readonly signal: AbortSignal },
  source: AppConversationRow,
  to: SandboxConnection,
): Promise<ForkedWorkspace> {
  const [sandbox] = await sandboxes.find([source.sandbox])
  const from = sandbox && sandboxes.getConnection(sandbox)
  if (sandbox === undefined || from === undefined)
    throw new StartError('The sandbox of the conversation no longer runs.')
  const count = await from.client.call('countEvents', {
    params: { conversation_id: source.id },
    query: {},
    signal: AbortSignal.any([signal, clock.timeout(countTimeoutMs)]),
  })
  const { takenAt } = await sandboxes.copyFiles(sandbox, choice.row, signal).catch((error: unknown) => {
    throw error instanceof FilesError ? new StartError(error.message) : error
  })
  sandboxes.touch(sandbox.id)
  const noteId = randomUUID()
  return {
    workingDir: movePath(parseMetadata(source).projectDir ?? from.workingDir, from, to),
    async *log(within) {
      const bytes = await from.client.exportEvents(toHexId(source.id), { signal: within })
      const last = yield* logUntil(bytes, count, takenAt)
      yield toLine(forkNote(noteId, source, last, takenAt))
    },
  }
}

/** Sandboxes without walls have their folders at different places of the machine. */
function movePath(path: string, from: SandboxConnection, to: SandboxConnection): string {
  if (!isWithin(from.workingDir, path)) return path
  return posix.join(to.workingDir, path.slice(from.workingDir.length))
}

/** The first `count` events, and those up to a moment. Returns the id of the last one. */
async function* logUntil(
  bytes: AsyncIterable<Uint8Array>,
  count: number,
  until: Instant,
): AsyncGenerator<Buffer, string | undefined> {
  let last: string | undefined
  let position = 0
  for await (const line of splitLines(bytes)) {
    const event = parseJson(line.toString())
    if (!isRecord(event)) throw new StartError('The agent server of the conversation sends no events.')
    const { id, timestamp } = event
    position++
    const at = typeof timestamp === 'string' ? parseInstant(timestamp) : undefined
    if (position > count && (at === undefined || at > until)) return last
    last = typeof id === 'string' ? id : last
    yield line
  }
  return last
}

async function* splitLines(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let parts: Buffer[] = []
  for await (const chunk of bytes) {
    const buffer = Buffer.from(chunk)
    let start = 0
    for (let end = buffer.indexOf(lineBreak); end >= 0; end = buffer.indexOf(lineBreak, start)) {
      yield Buffer.concat([...parts, buffer.subarray(start, end + 1)])
      parts = []
      start = end + 1
    }
    if (start < buffer.length) parts.push(buffer.subarray(start))
  }
}

function forkNote(id: string, source: AppConversationRow, last: string | undefined, takenAt: Instant) {
  return {
    id,
    timestamp: formatInstant(takenAt),
    source: 'environment',
    kind: 'ConversationStateUpdateEvent',
    key: 'forked_from',
    value: { conversation_id: toHexId(source.id), event_id: last ?? null },
  }
}

const toLine = (value: unknown) => Buffer.from(`${JSON.stringify(value)}\n`)

/** What a task says of the conversation that it forks. */
export function forkMembers(source: AppConversationRow | undefined) {
  return source === undefined ? {} : { forked_from_conversation_id: toHexId(source.id) }
}

/** Removes all of a fork that did not become READY, except its task. May be repeated. */
export async function discardFork(
  deps: ForkDeps,
  { conversation, sandbox: id }: StartTaskRow,
): Promise<void> {
  const { sandboxes, controlPlane, storage, removedConversations } = deps
  if (conversation === null || id === null) return
  const [row] = await controlPlane.conversations.get([conversation])
  // Another start with its id may have made it meanwhile.
  const isOwn = row === undefined || row.sandbox === id
  // First, because its agent server may still send events, which would make its row again.
  if (isOwn) await removedConversations.add(conversation, id, { isDurable: false })
  const [sandbox] = await sandboxes.find([id])
  if (sandbox !== undefined) await sandboxes.remove(sandbox)
  if (!isOwn) return
  await storage.conversations.remove(conversation)
  await controlPlane.conversations.remove(conversation)
}
