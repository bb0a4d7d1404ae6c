import { readFileSync } from 'node:fs'

type Environment = Record<string, string | undefined>

/** Variables whose values are secrets, or hold some. */
const secretName = /KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|HEADERS|WEBHOOKS|MARKETPLACES|SKILLS_SOURCE/i
/** Those that only the server's settings and the command read. */
const ownName = /^(?:SLIPWAY_|OH_|OTEL_|LLM_|SESSION_API_KEY)/
const takenNames = new Set<string>()

/** Removes settings without a value: an empty variable is one that is not set. */
export function dropEmptySettings(environment: Environment): void {
  for (const [name, value] of Object.entries(environment))
    if (value === '' && ownName.test(name)) delete environment[name]
}

/**
 * A copy of the environment of this process without settings that are empty, from which it removes the secrets of its own settings. Secrets
 * that
 * libraries read stay, in memory that `/proc/PID/environ` does not show once `hideFromDebuggers` has run.
 */
export function takeEnvironment(environment: Environment): Environment {
  dropEmptySettings(environment)
  const copy = { ...environment }
  for (const [name, value] of Object.entries(copy)) {
    if (value === undefined || !secretName.test(name)) continue
    takenNames.add(name)
    if (ownName.test(name)) delete environment[name]
    else environment[name] = value
  }
  return copy
}

/**
 * Overwrites the values of taken secrets in the environment that the process was started with. Linux only.
 */
export function eraseTakenSecrets(eraseMemory: (address: number, length: number) => void): void {
  try {
    const stat = readFileSync('/proc/self/stat', 'latin1')
    // env_start and env_end: fields 50 and 51; the name in parentheses may contain anything.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const [start, end] = [Number(fields[47]), Number(fields[48])]
    const bytes = readFileSync('/proc/self/environ')
    if (!(start > 0) || end - start < bytes.length) return
    let at = 0
    for (const entry of bytes.toString('latin1').split('\0')) {
      const separator = entry.indexOf('=')
      if (takenNames.has(entry.slice(0, separator)))
        eraseMemory(start + at + separator + 1, entry.length - separator - 1)
      at += entry.length + 1
    }
  } catch {
    // Without /proc nothing shows it.
  }
}
