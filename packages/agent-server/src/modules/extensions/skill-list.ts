import {
  createSkill,
  type ListedSkills,
  type LoadedSkill,
  listSkills,
  loadHooks,
  type SkillOrigin,
} from '@slipway/agent'
import type { ExposedUrl, HookConfig, ListSkillsRequest, LogFunction, SkillInfo } from '@slipway/protocol'
import type { OrgSkills } from './org-skills.ts'
import type { PublicSkills } from './public-skills.ts'
import type { ServerExtensions } from './server-extensions.ts'

type ListedSkill = ListedSkills['skills'][number]

/** Sources as clients name them, with the origins that each has. */
const originsBySource: Readonly<Record<string, readonly SkillOrigin[]>> = {
  sandbox: ['sandbox'],
  registered_marketplaces: ['marketplace'],
  sdk_base: ['public', 'user', 'installed', 'plugin'],
  org: ['organisation'],
  project: ['project'],
}

interface SkillListOptions {
  readonly homeDirectory: string | undefined
  readonly log: LogFunction
  readonly extensions: ServerExtensions
  readonly publicSkills: PublicSkills
  readonly orgSkills: OrgSkills
}

/** The skills and hooks of a user and a project. Invalid files are skipped and logged. */
export class SkillList {
  readonly #options: SkillListOptions

  constructor(options: SkillListOptions) {
    this.#options = options
  }

  /**
   * In order of name. The last source of a name counts: sandbox, marketplaces, public, user, installed,
   * organisation, project. An unreachable source is skipped.
   */
  async list(
    query: ListSkillsRequest & { readonly project: string | undefined },
    signal: AbortSignal,
  ): Promise<{ readonly skills: SkillInfo[]; readonly sources: Record<string, number> }> {
    const homeDirectory = query.load_user ? this.#options.homeDirectory : undefined
    const additions = await this.#loadAdditions(query, signal)
    const { skills, issues } = await listSkills({ project: query.project, homeDirectory, additions }, signal)
    this.#logIssues(issues)
    const counts = Object.entries(originsBySource).map(([source, from]) => [
      source,
      skills.filter(({ origin }) => from.includes(origin)).length,
    ])
    return {
      skills: skills.map(toSkillInfo).sort((a, b) => (a.name < b.name ? -1 : 1)),
      sources: Object.fromEntries(counts),
    }
  }

  async hooks(project: string | undefined): Promise<HookConfig | null> {
    const directories = [project, this.#options.homeDirectory].filter((directory) => directory !== undefined)
    const [first, second] = directories
    if (first === undefined) return null
    const { config, issues } = await loadHooks(first, second)
    this.#logIssues(issues)
    return Object.values(config ?? {}).some((matchers) => matchers.length > 0) ? (config ?? null) : null
  }

  async #loadAdditions(query: ListSkillsRequest, signal: AbortSignal) {
    const { load_org, load_public, load_user, org_config, org_configs, marketplace_path } = query
    const configs = load_org ? (org_configs ?? (org_config === undefined ? [] : [org_config])) : []
    const { extensions, publicSkills } = this.#options
    const orgSkills = await this.#options.orgSkills.load(configs, signal)
    const installed = load_user ? await extensions.loadInstalledSkills() : { skills: [], issues: [] }
    const plugins = load_user ? await extensions.loadInstalledPlugins(signal) : { plugins: [], issues: [] }
    const marketplace = load_public
      ? await extensions.loadMarketplaceExtensions(query.registered_marketplaces, signal)
      : { plugins: [], skills: [], issues: [] }
    const others = load_public ? await publicSkills.load(marketplace_path, signal) : []
    const fromMarket = [...marketplace.skills, ...marketplace.plugins.flatMap(({ skills }) => skills)]
    this.#logIssues([...installed.issues, ...plugins.issues, ...marketplace.issues])
    return {
      plugins: [],
      installed: [...orgSkills, ...installed.skills, ...plugins.plugins.flatMap(({ skills }) => skills)],
      others: [
        ...others,
        ...fromMarket.map((skill) => ({ ...skill, origin: 'marketplace' as const })),
        ...sandboxSkill(query.sandbox_config?.exposed_urls ?? []),
      ],
      hasPublic: true,
    }
  }

  #logIssues(issues: readonly string[]): void {
    for (const fault of issues) this.#options.log('warn', 'a file of the project was skipped', { fault })
  }
}

function toSkillInfo(skill: ListedSkill): SkillInfo {
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

/** A skill that tells the agent under which URLs the servers that it starts are reachable. */
function sandboxSkill(urls: readonly ExposedUrl[]): LoadedSkill[] {
  const workers = urls.filter(({ name }) => name.startsWith('WORKER_'))
  if (workers.length === 0) return []
  const lines = workers.map(({ url, port }) => {
    const at = port === undefined ? '' : ` (port ${port})`
    return `- ${oneLine(url)}${at}`
  })
  return [
    createSkill({
      name: 'work_hosts',
      content: `The user reaches this machine by these addresses. A server that is meant for the user listens on one of their ports:\n${lines.join('\n')}`,
      origin: 'sandbox',
      source: undefined,
    }),
  ]
}

function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\s]+/gu, ' ').trim()
}
