import { type AcpAgent, type AcpFileSecret, acpFileSecret } from '@slipway/protocol'

/** What is known of an external agent before it starts. */
interface AcpProvider {
  readonly command: readonly [string, ...string[]]
  /** The program that its package installs: preferred where it is on PATH. */
  readonly binary: string
  /** Beginnings of the names of its packages, and parts of the name that it reports. */
  readonly names: readonly string[]
  readonly apiKeySecret: string
  readonly baseUrlSecret: string
  readonly fileSecrets: readonly AcpFileSecret[]
  /** The variable that names the folder of its own data. */
  readonly dataVariable: string
}

/** By `acp_server`. The versions are those that were tried. */
export const acpProviders: Readonly<Record<'claude-code' | 'codex' | 'gemini-cli', AcpProvider>> = {
  'claude-code': {
    command: ['npx', '-y', '@agentclientprotocol/claude-agent-acp@0.63.0'],
    binary: 'claude-agent-acp',
    names: ['claude-agent'],
    apiKeySecret: 'ANTHROPIC_API_KEY',
    baseUrlSecret: 'ANTHROPIC_BASE_URL',
    fileSecrets: [],
    dataVariable: 'CLAUDE_CONFIG_DIR',
  },
  codex: {
    command: ['npx', '-y', '@agentclientprotocol/codex-acp@1.1.7'],
    binary: 'codex-acp',
    names: ['codex-acp'],
    apiKeySecret: 'OPENAI_API_KEY',
    baseUrlSecret: 'OPENAI_BASE_URL',
    fileSecrets: [
      acpFileSecret.parse({
        secret_name: 'CODEX_AUTH_JSON',
        filename: 'auth.json',
        env_var: 'CODEX_HOME',
        subdir: 'codex',
        env_points_to: 'dir',
      }),
    ],
    dataVariable: 'CODEX_HOME',
  },
  'gemini-cli': {
    command: ['npx', '-y', '@google/gemini-cli@0.61.0', '--acp'],
    binary: 'gemini',
    names: ['gemini-cli'],
    apiKeySecret: 'GEMINI_API_KEY',
    baseUrlSecret: 'GEMINI_BASE_URL',
    fileSecrets: [
      acpFileSecret.parse({
        secret_name: 'GOOGLE_APPLICATION_CREDENTIALS_JSON',
        filename: 'gcloud-credentials.json',
        env_var: 'GOOGLE_APPLICATION_CREDENTIALS',
        subdir: 'gemini-cli',
        warn_if_unset: ['GOOGLE_CLOUD_PROJECT', 'GOOGLE_CLOUD_LOCATION'],
      }),
    ],
    dataVariable: 'HOME',
  },
}

/** The provider of a key; undefined for `custom` and others. */
export function findAcpProvider(key: string | undefined): AcpProvider | undefined {
  return key !== undefined && Object.hasOwn(acpProviders, key)
    ? acpProviders[key as keyof typeof acpProviders] // checked above
    : undefined
}

/** The provider of an agent: the one that it names, or whose package or program its command names. */
export function findProviderOf(
  { acp_server }: Pick<AcpAgent, 'acp_server'>,
  command: readonly string[],
): AcpProvider | undefined {
  return findAcpProvider(acp_server) ?? findProviderOfCommand(command)
}

function findProviderOfCommand(command: readonly string[]): AcpProvider | undefined {
  const names = command.map((word) => (word.split('/').at(-1) ?? '').toLowerCase())
  return Object.values(acpProviders).find((provider) =>
    provider.names.some((name) => names.some((word) => word.startsWith(name))),
  )
}

/** The files of all providers, for agents that name none. */
export const defaultFileSecrets: readonly AcpFileSecret[] = Object.values(acpProviders).flatMap(
  ({ fileSecrets }) => fileSecrets,
)
