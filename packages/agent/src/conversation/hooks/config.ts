import { join } from 'node:path'
import { faultsOf, type HookConfig, hookConfig, isTooDeep } from '@slipway/protocol'
import { readSmallFile } from '../../skills/small-file.ts'

const maxBytes = 256 * 1024
const file = '.openhands/hooks.json'

export interface LoadedHooks {
  readonly config: HookConfig | undefined
  /** What was passed over and why, a sentence each, for people. */
  readonly faults: readonly string[]
}

/**
 * The hooks of a project (`.openhands/hooks.json`), and when it has none those of the home directory. A file that is bad
 * counts as not there and is a fault. Never rejects.
 */
export async function loadHooks(directory: string, home?: string): Promise<LoadedHooks> {
  const faults: string[] = []
  for (const path of [directory, ...(home === undefined ? [] : [home])].map((base) => join(base, file))) {
    const read = await readConfig(path)
    if (read === undefined) continue
    if ('config' in read) return { config: read.config, faults }
    faults.push(`${path}: ${read.fault}`)
  }
  return { config: undefined, faults }
}

async function readConfig(
  path: string,
): Promise<{ readonly config: HookConfig } | { readonly fault: string } | undefined> {
  const read = await readSmallFile(path, { maxBytes })
  if (read === undefined || 'fault' in read) return read
  if (read.isCut) return { fault: 'is larger than 256 KiB' }
  const value = parse(read.text)
  if (value === undefined) return { fault: 'is not JSON' }
  const result = hookConfig.safeParse(value)
  if (result.success) return { config: result.data }
  const faults = faultsOf(result.error, [], value).slice(0, 5)
  return { fault: faults.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; ') }
}

function parse(json: string): unknown {
  if (isTooDeep(Buffer.from(json))) return undefined
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}
