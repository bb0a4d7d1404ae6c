import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { delimiter, dirname, join, resolve } from 'node:path'
import {
  checkAgentServerSettings,
  examine,
  examineRepository,
  type Finding,
  repair,
} from '@slipway/agent-server/maintenance'
import { exists } from '@slipway/shared/fs'
import { userDataDirectory } from '@slipway/shared/process'
import { findUnknownSettings } from '../context/check-settings.ts'
import { type Config, serverEnvironment } from '../context/config.ts'
import { findUsedData } from '../context/data-directory.ts'
import { sanitizeLine } from '../output/sanitize.ts'
import { paint, print } from '../output/terminal.ts'
import { examineModel, examinePorts } from './network.ts'
import { examinePrivateServer } from './private-server.ts'
import { findSavedModel } from './saved-model.ts'

interface DoctorFlags {
  /** The flag or a setting names it; otherwise it is what commands use here. */
  readonly data: string | undefined
  readonly deep: boolean
  readonly repair: boolean
}

const programs = [
  ['git', 'worktrees, clones and diffs need it'],
  ['bwrap', 'process sandboxes need it, and it hides keys from tools: install bubblewrap'],
  ['pasta', 'networks of process sandboxes need it: install passt'],
  ['docker', 'only Docker sandboxes need it'],
] as const

/**
 * Examines this machine and a data directory: the named one, else the one of this directory, else
 * that of the private server. Returns the exit code: 1 when something is wrong.
 */
export async function doctorCommand(
  { deep, repair: isRepairing, ...flags }: DoctorFlags,
  config: Pick<Config, 'env' | 'model' | 'file'>,
  isJson: boolean,
): Promise<number> {
  const { env } = config
  const data = await findUsedData(flags.data, env)
  const isNamed = flags.data !== undefined
  const hasData = isNamed || (await exists(data))
  const isPrivate = resolve(data) === userDataDirectory(env)
  const saved = isPrivate && config.model.name === undefined ? await findSavedModel(env) : undefined
  const repaired = isRepairing && hasData ? await repair(data) : []
  const findings = [
    ...(await examineEnvironment(env)),
    ...(await examineSettings(config)),
    ...(await examinePorts()),
    ...(isNamed && !isPrivate ? [] : await examinePrivateServer(env)),
    ...(await examineModel(saved ?? config.model)),
    ...(await examineRepository('.')),
    ...(hasData ? await examine({ data, isDeep: deep || isRepairing }) : [await examineMissingData(env)]),
  ]
  const isHealthy = findings.every(({ level }) => level !== 'error')
  if (isJson) await print(`${JSON.stringify({ healthy: isHealthy, findings, repaired })}\n`)
  else {
    const lines = [...repaired.map((text) => `repaired  ${sanitizeLine(text)}`), ...findings.map(findingLine)]
    await print(`${lines.join('\n')}\n`)
  }
  return isHealthy ? 0 : 1
}

/** Where there is no data directory yet: whether the first run can make one. */
async function examineMissingData(env: Config['env']): Promise<Finding> {
  const directory = userDataDirectory(env)
  let parent = dirname(directory)
  while (!(await exists(parent)) && parent !== dirname(parent)) parent = dirname(parent)
  if (await exists(parent, constants.W_OK))
    return { area: 'data', level: 'ok', message: 'there is none yet: the first "slipway run" makes it' }
  return {
    ...{ area: 'data', level: 'error', message: `${directory} cannot be made: ${parent} cannot be written` },
    next: 'Set XDG_DATA_HOME to a directory that you may write.',
  }
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

/**
 * Variables that look like settings and that nothing reads, and a value that is refused. Values are not
 * shown.
 */
async function examineSettings(config: Pick<Config, 'env' | 'model' | 'file'>): Promise<Finding[]> {
  const area = 'settings'
  const { env, file } = config
  const findings = (await findUnknownSettings(env)).map(
    ({ name, nearest, isTypo, isSimilar }): Finding => ({
      ...{ area, level: isTypo ? 'error' : 'warning', message: `${name} is no setting` },
      next: isSimilar ? `Is it ${nearest}?` : 'Nothing reads it.',
    }),
  )
  if (file.problem !== undefined)
    findings.push({ area, level: 'error', message: file.problem.message, next: 'slipway config edit' })
  const invalid = checkAgentServerSettings(serverEnvironment(config, 'agent_server', env))
  if (invalid === undefined) return findings
  const next = 'Correct it: the agent server does not start with it.'
  return [...findings, { area, level: 'error', message: invalid, next }]
}
