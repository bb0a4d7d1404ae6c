import type { SandboxServerContext } from '../../context/command-context.ts'
import { findUserId } from '../../context/find-user.ts'
import { relativeTime } from '../../output/relative-time.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printResult, table } from '../../output/terminal.ts'
import { readWithProgress, writeFileAtomic } from '../conversations/export.ts'

export interface AuditFlags {
  readonly user?: string
  readonly action?: string
  readonly target?: string
  readonly from?: string
  readonly to?: string
  readonly refused: boolean
}

/** Lists who changed what, the newest first; administrators may. */
export async function listAuditCommand(
  context: SandboxServerContext,
  { limit, ...flags }: AuditFlags & { readonly limit: string },
): Promise<void> {
  const { client, isJson, signal } = context
  const { items } = await client.call('listAudit', {
    query: { ...(await toQuery(context, flags)), limit },
    signal,
  })
  if (isJson) return await print(items.map((item) => `${JSON.stringify(item)}\n`).join(''))
  const rows = items.map(({ time, caller, action, target, status }) => [
    relativeTime(String(time)),
    status === null ? '-' : String(status),
    sanitizeLine(action),
    sanitizeLine(caller ?? 'nobody'),
    sanitizeLine(target.id === null ? target.type : `${target.type} ${target.id}`),
  ])
  await print(table(rows, [14, 6, 24, 42], ['TIME', '', 'ACTION', 'WHO', 'ABOUT']))
}

/** Writes all lines that match, as JSON lines or CSV, to a file or the standard output. */
export async function exportAuditCommand(
  context: SandboxServerContext,
  { format, output, ...flags }: AuditFlags & { readonly format: 'jsonl' | 'csv'; readonly output?: string },
): Promise<void> {
  const { client, isJson, signal } = context
  const query = { ...(await toQuery(context, flags)), format }
  const response = await client.open('exportAudit', { query, signal })
  const stream = response.body ?? new Blob([]).stream()
  if (output !== undefined) {
    const size_bytes = await writeFileAtomic(output, readWithProgress(stream, signal))
    return await printResult(isJson, { output, size_bytes }, `${size_bytes} bytes in ${sanitizeLine(output)}`)
  }
  const decoder = new TextDecoder()
  for await (const chunk of stream) await print(decoder.decode(chunk, { stream: true }))
}

async function toQuery(
  context: SandboxServerContext,
  { user, action, target, from, to, refused }: AuditFlags,
): Promise<Record<string, string>> {
  const caller = user === undefined ? undefined : `user:${await findUserId(context, user)}`
  const members = { caller, action, target, from, to, refused: refused ? 'true' : undefined }
  return Object.fromEntries(
    Object.entries(members).filter((entry): entry is [string, string] => entry[1] !== undefined),
  )
}
