import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import {
  agentServerSettings,
  checkAgentServerSettings,
  examine,
  type Finding,
  repair,
} from '@slipway/agent-server/maintenance'
import { sandboxServerSettings } from '@slipway/sandbox-server/settings'
import type { Config } from '../context/config.ts'
import { sanitizeLine } from '../output/sanitize.ts'
import { paint, print } from '../output/terminal.ts'

interface DoctorFlags {
  readonly data: string
  readonly deep: boolean
  readonly repair: boolean
}

/** Variables of the command itself. */
const ownSettings = ['SLIPWAY_URL', 'SLIPWAY_SANDBOX_URL', 'SLIPWAY_DATA_DIRECTORY', 'SLIPWAY_SERVER']

const programs = [
  ['git', 'worktrees, clones and diffs need it'],
  ['bwrap', 'process sandboxes need it: install bubblewrap'],
  ['pasta', 'networks of process sandboxes need it: install passt'],
  ['docker', 'only Docker sandboxes need it'],
] as const

/** Examines this machine and a data directory. Returns the exit code: 1 when something is wrong. */
export async function doctorCommand(
  { data, deep, repair: isRepairing }: DoctorFlags,
  env: Config['env'],
  isJson: boolean,
): Promise<number> {
  const repaired = isRepairing ? await repair(data) : []
  const findings = [
    ...(await examineEnvironment(env)),
    ...examineSettings(env),
    ...(await examine({ data, isDeep: deep || isRepairing })),
  ]
  const isHealthy = findings.every(({ level }) => level !== 'error')
  if (isJson) await print(`${JSON.stringify({ healthy: isHealthy, findings, repaired })}\n`)
  else {
    const lines = [...repaired.map((text) => `repaired  ${sanitizeLine(text)}`), ...findings.map(findingLine)]
    await print(`${lines.join('\n')}\n`)
  }
  return isHealthy ? 0 : 1
}

const marks = { ok: ['green', 'ok     '], warning: ['yellow', 'warning'], error: ['red', 'error  '] } as const

function findingLine({ area, level, message, next }: Finding): string {
  const [style, mark] = marks[level]
  const advice = next === undefined ? '' : `\n           ${sanitizeLine(next)}`
  return `${paint(style, mark)}  ${area.padEnd(11)} ${sanitizeLine(message)}${advice}`
}

async function examineEnvironment(env: Config['env']): Promise<Finding[]> {
  const area = 'environment'
  const findings: Finding[] = [{ area, level: 'ok', message: `Node ${process.version}` }]
  for (const [name, use] of programs) {
    const path = await findProgram(name, env.PATH ?? '')
    findings.push(
      path === undefined
        ? { area, level: 'warning', message: `${name} was not found`, next: use }
        : { area, level: 'ok', message: path },
    )
  }
  return findings
}

async function findProgram(name: string, path: string): Promise<string | undefined> {
  for (const directory of path.split(delimiter).filter((part) => part !== '')) {
    const file = join(directory, name)
    const isThere = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    )
    if (isThere) return file
  }
  return undefined
}

/** Variables that look like settings and that nothing reads. Their values are not shown. */
function examineSettings(env: Config['env']): Finding[] {
  const known = [...new Set([...agentServerSettings, ...sandboxServerSettings, ...ownSettings])]
  const unknown = Object.keys(env).filter((name) => name.startsWith('SLIPWAY_') && !known.includes(name))
  const invalid = checkAgentServerSettings(env)
  const findings = unknown.map((name): Finding => {
    const nearest = known.toSorted((a, b) => editDistance(name, a) - editDistance(name, b))[0] ?? ''
    return { area: 'settings', level: 'warning', message: `${name} is no setting`, next: `Is it ${nearest}?` }
  })
  if (invalid === undefined) return findings
  const next = 'Correct it: the agent server does not start with it.'
  return [...findings, { area: 'settings', level: 'error', message: invalid, next }]
}

/** Levenshtein distance. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}
