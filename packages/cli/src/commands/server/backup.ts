import {
  backUp,
  listBackup,
  migrate,
  readSecretKey,
  restore,
  verifyBackup,
} from '@slipway/agent-server/maintenance'
import { formatBytes } from '@slipway/shared/text'
import { countText } from '../../output/count-text.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printNote, printResult, table } from '../../output/terminal.ts'

type Env = Readonly<Record<string, string | undefined>>

interface BackupFlags {
  readonly data: string
  readonly withoutSecrets: boolean
  readonly full: boolean
}

/** Adds a step to a backup. */
export async function backupCommand(target: string, flags: BackupFlags, isJson: boolean): Promise<void> {
  const { data, withoutSecrets: isWithoutSecrets, full: isFull } = flags
  const result = await backUp({ data, target, isWithoutSecrets, isFull })
  const { step, kind, conversations, events, files, added_bytes, skipped } = result
  for (const line of skipped) printNote(`not in the backup: ${sanitizeLine(line)}`)
  const lines = [
    `Step ${step} of ${target} is complete: ${kind === 'full' ? 'the whole log' : 'the new events'}, verified.`,
    `  ${counts({ conversation: conversations, event: events, file: files })}, ${formatBytes(added_bytes)} added`,
    ...(isWithoutSecrets ? [] : ['  It has keys and secrets: keep it as safe as the data directory.']),
  ]
  await printResult(isJson, result, lines.join('\n'))
}

/** Lists the steps of a backup. */
export async function listBackupCommand(target: string, isJson: boolean): Promise<void> {
  const steps = await listBackup(target)
  if (isJson) return await print(steps.map((step) => `${JSON.stringify(step)}\n`).join(''))
  const rows = steps.map(({ step, created_at, kind, conversations, added_bytes, without_secrets }) => [
    String(step),
    sanitizeLine(created_at).slice(0, 19).replace('T', ' '),
    kind === 'full' ? 'whole log' : 'new events',
    String(conversations),
    formatBytes(added_bytes),
    without_secrets ? 'without secrets' : '',
  ])
  await print(table(rows, [6, 21, 12, 15, 10], ['STEP', 'TIME (UTC)', 'LOG', 'CONVERSATIONS', 'ADDED', '']))
}

/** `1 step, 2 files`. */
function counts(numbers: Readonly<Record<string, number>>): string {
  return Object.entries(numbers)
    .map(([noun, count]) => countText(count, noun))
    .join(', ')
}

/** Verifies a backup. */
export async function verifyCommand(target: string, isJson: boolean): Promise<void> {
  const result = await verifyBackup(target)
  const { steps, conversations, events, files, bytes } = result
  await printResult(
    isJson,
    result,
    `${target} is complete: ${counts({ step: steps, conversation: conversations, event: events, file: files })}, ${formatBytes(bytes)}`,
  )
}

/** Writes a new data directory. */
export async function restoreCommand(
  source: string,
  { data, step }: { readonly data: string; readonly step?: number | undefined },
  isJson: boolean,
): Promise<void> {
  const result = await restore(source, data, step)
  const { conversations, events, files, created_at } = result
  const lines = [
    `Step ${result.step} of ${source}, from ${created_at}, is in ${result.data}, verified.`,
    `  ${counts({ conversation: conversations, event: events, file: files })}`,
  ]
  await printResult(isJson, result, lines.join('\n'))
}

/** Milliseconds between two notes of the progress. */
const noteMs = 5_000

/** Copies a data directory into a database, or back. */
export async function migrateCommand(
  { env, ...places }: { readonly from: string; readonly to: string; readonly env: Env },
  isJson: boolean,
): Promise<void> {
  let notedMs = performance.now()
  const result = await migrate({
    ...places,
    secretKey: readSecretKey(env),
    onProgress({ conversations, events }) {
      if (performance.now() - notedMs < noteMs) return
      notedMs = performance.now()
      printNote(`${conversations} conversations, ${events} events`)
    },
  })
  const { conversations, events, rows } = result
  const ofControlPlane = rows === undefined ? '' : `, and ${rows} rows of the control plane`
  const text = `${conversations} conversations are the same in both; ${events} events were copied${ofControlPlane}.\n`
  await printResult(isJson, result, text)
}
