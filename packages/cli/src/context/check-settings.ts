import { Problem } from '@slipway/protocol/client'
import { settingRows } from '@slipway/protocol/settings'
import { nearestWord } from './nearest-word.ts'
import { commandSettings } from './settings.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** Variables that programs of an agent server and of a session have in their environment. */
const programVariables = ['SESSION', 'SERVER', 'COMMAND', 'TERMINAL'].map((name) => `SLIPWAY_${name}`)
const ownSettings = [...settingRows(commandSettings).map(({ name }) => name), ...programVariables]
/** Variables of the project's own tests and benchmarks; CONTRIBUTING.md lists them. */
const developmentSettings =
  /^SLIPWAY_(TEST|MAP|CI|CLUSTER|PYTHON|REFERENCE)_|^SLIPWAY_(DATA|INSTALLED|NIGHTLY|WEB_CLIENT|SCREENSHOTS|CANARY)$|_(ROUNDS|RUNS|REQUESTS|SEED|FAULTS|STEPS|CASES|EVENTS|HISTORIES)$/
/** Kubernetes adds these to containers beside a Service whose name begins with `slipway`. */
const serviceVariables = /^SLIPWAY_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)$/

/** A variable that looks like a setting and that nothing reads. */
interface UnknownSetting {
  readonly name: string
  /** The setting with the most similar name. */
  readonly nearest: string
  /** The names resemble each other. */
  readonly isSimilar: boolean
  /** One letter is wrong, and the setting itself is not set: commands are refused. */
  readonly isTypo: boolean
}

/** Variables `SLIPWAY_*` that neither a command nor a server reads. Loads the schemas only when it has to. */
export async function findUnknownSettings(env: Environment): Promise<UnknownSetting[]> {
  const names = Object.keys(env).filter(
    (name) =>
      name.startsWith('SLIPWAY_') &&
      env[name] !== '' &&
      !ownSettings.includes(name) &&
      !developmentSettings.test(name) &&
      !serviceVariables.test(name),
  )
  if (names.length === 0) return []
  const [{ agentServerSettings }, { sandboxServerSettings }] = await Promise.all([
    import('@slipway/agent-server/maintenance'),
    import('@slipway/sandbox-server/settings'),
  ])
  const known = [...new Set([...agentServerSettings, ...sandboxServerSettings, ...ownSettings])]
  return names
    .filter((name) => !known.includes(name))
    .map((name) => {
      const { word, distance } = nearestWord(name, known)
      const isSimilar = distance <= Math.max(2, (name.length - 'SLIPWAY_'.length) / 4)
      return { name, nearest: word, isSimilar, isTypo: distance === 1 && !env[word] }
    })
}

/**
 * Throws a Problem for a misspelt setting. `warn` is called for a name that resembles one; any other name is
 * only a finding of `slipway doctor`.
 */
export async function assertSettingsKnown(env: Environment, warn: (text: string) => void): Promise<void> {
  const similar = (await findUnknownSettings(env)).filter(({ isSimilar }) => isSimilar)
  const line = ({ name, nearest }: UnknownSetting) => `${name} is no setting. Is it ${nearest}?`
  const typos = similar.filter(({ isTypo }) => isTypo)
  for (const setting of similar) if (!setting.isTypo) warn(`Warning: ${line(setting)} Its value is not used.`)
  if (typos.length === 0) return
  throw new Problem(
    'bad_request',
    `${typos.map(line).join('\n')}\nCorrect or unset it; its value is not used.`,
  )
}
