import type { AppConversation } from '@slipway/protocol'
import type { SandboxServerContext } from '../../context/command-context.ts'
import { getAppConversation, remoteEvents } from '../../conversation/remote-events.ts'
import { listPages } from '../../output/list-pages.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printResult, table } from '../../output/terminal.ts'
import { readWithProgress, writeFileAtomic } from '../conversations/export.ts'
import { positionedLine, tailLine } from '../conversations/tail.ts'

/** Lists the conversations of the caller, the newest first. */
export async function listAppsCommand(
  { client, isJson, signal }: SandboxServerContext,
  options: { readonly limit: string; readonly all: boolean },
): Promise<void> {
  await listPages({
    open: (page_id) =>
      client.open('searchAppConversations', { query: { limit: options.limit, page_id }, signal }),
    table: appTable,
    isJson,
    all: options.all,
    nothing: 'There is no conversation yet. "slipway app start MESSAGE" starts one.',
  })
}

function appTable(items: readonly string[], hasHead: boolean): string {
  const rows = items.map((item) => {
    const { id, sandbox_id, sandbox_status, execution_status, title }: AppConversation = JSON.parse(item)
    return [id, execution_status ?? '-', sandbox_status, sanitizeLine(sandbox_id), sanitizeLine(title ?? '')]
  })
  const head = ['ID', 'STATUS', 'SANDBOX', '', 'TITLE']
  return table(rows, [34, 25, 10, 29], hasHead ? head : undefined)
}

/** Prints the events of a conversation as the sandbox server stores them; its sandbox need not run. */
export async function tailAppCommand(
  context: SandboxServerContext,
  id: string,
  options: { readonly untilIdle: boolean },
): Promise<void> {
  const { client, isJson, signal } = context
  await getAppConversation(client, id, signal)
  const until = options.untilIdle ? 'idle' : undefined
  for await (const item of remoteEvents(client, id, { signal, until })) {
    await print(isJson ? positionedLine(item) : tailLine(item))
  }
}

/** Writes a conversation as a zip file, whole or not at all; its sandbox need not run. */
export async function downloadAppCommand(
  { client, isJson, signal }: SandboxServerContext,
  id: string,
  options: { readonly output?: string | undefined },
): Promise<void> {
  const response = await client.open('downloadAppConversation', { params: { conversation_id: id }, signal })
  const stream = response.body ?? new Blob([]).stream()
  const output = options.output ?? `conversation_${id.replaceAll('-', '')}.zip`
  const size_bytes = await writeFileAtomic(output, readWithProgress(stream, signal))
  await printResult(isJson, { output, size_bytes }, `${size_bytes} bytes in ${sanitizeLine(output)}`)
}

/** Deletes a conversation and its history, and its sandbox unless others use it. */
export async function removeAppCommand(
  { client, isJson, signal }: SandboxServerContext,
  id: string,
): Promise<void> {
  await client.call('deleteAppConversation', { params: { conversation_id: id }, signal })
  await printResult(isJson, { conversation_id: id, status: 'removed' }, 'removed')
}
