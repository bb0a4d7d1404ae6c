import { type ListedSkills, type LoadedSkill, listSkills, loadHooks, type SkillOrigin } from '@slipway/agent'
import type { ExposedUrl, HookConfig, ListSkillsRequest, Log, SkillInfo } from '@slipway/protocol'
import type { OrgSkills } from './org-skills.ts'
import type { PublicSkills } from './public-skills.ts'
import type { ServerExtensions } from './server-extensions.ts'

type Loaded = ListedSkills['skills'][number]

/** The sources as clients know them, and who brings what of each. */
const origins: Readonly<Record<string, readonly SkillOrigin[]>> = {
  sandbox: ['sandbox'],
  registered_marketplaces: ['marketplace'],
  sdk_base: ['public', 'user', 'installed', 'plugin'],
  org: ['organisation'],
  project: ['project'],
}

/** What a user and a project have for an agent. Files are what somebody else wrote: bad ones are passed over and logged. */
export class SkillList {
  readonly #home: string | undefined
  readonly #log: Log
  readonly #extensions: ServerExtensions
  readonly #publicSkills: PublicSkills
  readonly #orgSkills: OrgSkills

  constructor(options: {
    readonly home: string | undefined
    readonly log: Log
    readonly extensions: ServerExtensions
    readonly publicSkills: PublicSkills
    readonly orgSkills: OrgSkills
  }) {
    this.#home = options.home
    this.#log = options.log
    this.#extensions = options.extensions
    this.#publicSkills = options.publicSkills
    this.#orgSkills = options.orgSkills
  }

  /**
   * In order of name. Of two of one name that of the later source is listed: sandbox, marketplaces, public, user, installed,
   * organisation, project. A source that cannot be reached brings nothing.
   */
  async skills(
    wanted: ListSkillsRequest & { readonly project: string | undefined },
    signal: AbortSignal,
  ): Promise<{ readonly skills: SkillInfo[]; readonly sources: Record<string, number> }> {
    const home = wanted.load_user ? this.#home : undefined
    const additions = await this.#additions(wanted, signal)
    const { skills, faults } = await listSkills({ project: wanted.project, home, additions }, signal)
    this.#report(faults)
    const counts = Object.entries(origins).map(([source, from]) => [
      source,
      skills.filter(({ origin }) => from.includes(origin)).length,
    ])
    return {
      skills: skills.map(infoOf).sort((a, b) => (a.name < b.name ? -1 : 1)),
      sources: Object.fromEntries(counts),
    }
  }

  async hooks(project: string | undefined): Promise<HookConfig | null> {
    const directories = [project, this.#home].filter((directory) => directory !== undefined)
    const [first, second] = directories
    if (first === undefined) return null
    const { config, faults } = await loadHooks(first, second)
    this.#report(faults)
    return config ?? null
  }

  async #additions(wanted: ListSkillsRequest, signal: AbortSignal) {
    const { load_org, load_public, load_user, org_config, org_configs, marketplace_path } = wanted
    const configs = load_org ? (org_configs ?? (org_config === undefined ? [] : [org_config])) : []
    const org = await this.#orgSkills.skills(configs, signal)
    const installed = load_user ? await this.#extensions.installedSkills() : { skills: [], faults: [] }
    const plugins = load_user ? await this.#extensions.installedPlugins(signal) : { plugins: [], faults: [] }
    const market = await this.#extensions.autoLoaded(wanted.registered_marketplaces, signal)
    const others = load_public ? await this.#publicSkills.skills(marketplace_path, signal) : []
    const fromMarket = [...market.skills, ...market.plugins.flatMap(({ skills }) => skills)]
    this.#report([...installed.faults, ...plugins.faults, ...market.faults])
    return {
      plugins: [],
      installed: [...org, ...installed.skills, ...plugins.plugins.flatMap(({ skills }) => skills)],
      others: [
        ...others,
        ...fromMarket.map((skill) => ({ ...skill, origin: 'marketplace' as const })),
        ...sandboxSkill(wanted.sandbox_config?.exposed_urls ?? []),
      ],
      hasPublic: true,
    }
  }

  #report(faults: readonly string[]): void {
    for (const fault of faults) this.#log('warn', 'a file of the project was passed over', { fault })
  }
}

function infoOf(skill: Loaded): SkillInfo {
  const triggers = [...skill.keywords, ...skill.commands, ...skill.paths]
  const type = skill.isAgentSkill ? 'agentskills' : triggers.length > 0 ? 'knowledge' : 'repo'
  return {
    name: skill.name,
    type,
    content: skill.content,
    triggers,
    source: skill.file ?? skill.source ?? null,
    description: skill.description ?? null,
    is_agentskills_format: skill.isAgentSkill,
    disable_model_invocation: !skill.isModelInvocable,
  }
}

/** What an agent should know of the addresses that its sandbox is reached by. */
function sandboxSkill(urls: readonly ExposedUrl[]): LoadedSkill[] {
  if (urls.length === 0) return []
  const lines = urls.map(({ name, url, port }) => {
    const at = port === undefined ? '' : ` (port ${port} in here)`
    return `- ${oneLine(name)}: ${oneLine(url)}${at}`
  })
  return [
    {
      name: 'sandbox-addresses',
      content: `The user reaches this machine by these addresses. A server that is meant for the user listens on one of their ports:\n${lines.join('\n')}`,
      description: undefined,
      keywords: [],
      commands: [],
      paths: [],
      inputs: [],
      allowedTools: [],
      isAgentSkill: false,
      isModelInvocable: true,
      origin: 'sandbox',
      source: 'sandbox',
      file: undefined,
      resources: undefined,
    },
  ]
}

function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\s]+/gu, ' ').trim()
}
