import { join } from 'node:path'
import { type CommandRule, commandRules, exceedsMaxDepth, validationIssues } from '@slipway/protocol'
import { isRecord, parseJson } from '@slipway/shared/json'
import { readSmallFile } from '../skills/small-file.ts'

export const commandRulesFile = '.openhands/command_rules.json'
const maxBytes = 256 * 1024

export interface LoadedRules {
  readonly rules: readonly CommandRule[]
  /** A sentence for a file that was skipped. */
  readonly issues: readonly string[]
}

/** The rules for commands of a project: `{"rules": [{"pattern", "decision"}]}`. Never rejects. */
export async function loadCommandRules(directory: string): Promise<LoadedRules> {
  const path = join(directory, commandRulesFile)
  const skipped = (issue: string): LoadedRules => ({ rules: [], issues: [`${path}: ${issue}`] })
  const read = await readSmallFile(path, { maxBytes })
  if (read === undefined) return { rules: [], issues: [] }
  if ('issue' in read) return skipped(read.issue)
  if (read.isTruncated) return skipped('is larger than 256 KiB')
  const value = exceedsMaxDepth(Buffer.from(read.text)) ? undefined : parseJson(read.text)
  if (value === undefined) return skipped('is not JSON')
  const rules = isRecord(value) ? value.rules : undefined
  const result = commandRules.safeParse(rules)
  if (result.success) return { rules: result.data, issues: [] }
  const [issue] = validationIssues(result.error, ['rules'], rules)
  return skipped(`${issue?.loc.join('.')}: ${issue?.msg}`)
}
