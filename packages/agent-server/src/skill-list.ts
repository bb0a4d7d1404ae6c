import { type ListedSkills, listSkills, loadHooks } from '@slipway/agent'
import type { HookConfig, Log, SkillInfo } from '@slipway/protocol'

type Loaded = ListedSkills['skills'][number]

/** Sources of skills as clients know them. Those that this server does not have bring in nothing. */
const noSources = { sandbox: 0, registered_marketplaces: 0, sdk_base: 0, org: 0, project: 0 }

/** What a user and a project have for an agent. Files are what somebody else wrote: bad ones are passed over and logged. */
export class SkillList {
  readonly #home: string | undefined
  readonly #log: Log

  constructor(options: { readonly home: string | undefined; readonly log: Log }) {
    this.#home = options.home
    this.#log = options.log
  }

  /** In order of name; those of the project go before those of the user. */
  async skills(
    wanted: { readonly isUser: boolean; readonly project: string | undefined },
    signal: AbortSignal,
  ): Promise<{ readonly skills: SkillInfo[]; readonly sources: Record<string, number> }> {
    const home = wanted.isUser ? this.#home : undefined
    const { skills, faults } = await listSkills({ project: wanted.project, home }, signal)
    this.#report(faults)
    const from = (origin: Loaded['origin']) => skills.filter((skill) => skill.origin === origin).length
    return {
      skills: skills.map(infoOf).sort((a, b) => (a.name < b.name ? -1 : 1)),
      sources: { ...noSources, sdk_base: from('user'), project: from('project') },
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
