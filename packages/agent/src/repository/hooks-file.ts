import { join } from 'node:path'
import { exceedsMaxDepth, type HookConfig, hookConfig, validationIssues } from '@slipway/protocol'
import { parseJson } from '@slipway/shared/json'
import { readSmallFile } from '../skills/small-file.ts'

const maxBytes = 256 * 1024
const file = '.openhands/hooks.json'

export interface LoadedHooks {
  readonly config: HookConfig | undefined
  /** A sentence for each file that was skipped. */
  readonly issues: readonly string[]
}

/**
 * The hooks of a project, else those of the home directory. Skips and reports invalid files. Never rejects.
 */
export async function loadHooks(directory: string, homeDirectory?: string): Promise<LoadedHooks> {
  const issues: string[] = []
  for (const base of [directory, homeDirectory]) {
    if (base === undefined) continue
    const path = join(base, file)
    const read = await readConfig(path)
    if (read === undefined) continue
    if ('config' in read) return { config: read.config, issues }
    issues.push(`${path}: ${read.issue}`)
  }
  return { config: undefined, issues }
}

async function readConfig(
  path: string,
): Promise<{ readonly config: HookConfig } | { readonly issue: string } | undefined> {
  const read = await readSmallFile(path, { maxBytes })
  if (read === undefined || 'issue' in read) return read
  if (read.isTruncated) return { issue: 'is larger than 256 KiB' }
  const value = exceedsMaxDepth(Buffer.from(read.text)) ? undefined : parseJson(read.text)
  if (value === undefined) return { issue: 'is not JSON' }
  const result = hookConfig.safeParse(value)
  if (result.success) {
    const hooks = Object.values(result.data).flatMap((matchers) => matchers.flatMap(({ hooks }) => hooks))
    const isEmpty = hooks.some(({ type, command }) => type === 'command' && command.trim() === '')
    return isEmpty ? { issue: 'has a command hook without a command' } : { config: result.data }
  }
  const issues = validationIssues(result.error, [], value).slice(0, 5)
  return { issue: issues.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; ') }
}
