import type { Skill } from '@slipway/protocol'

/** More of a description is cut. */
export const maxDescription = 1024
const maxTriggers = 64
const maxTriggerLength = 100

/** What a `/name` of a user may be followed by. */
export interface SkillInput {
  readonly name: string
  readonly description: string
}

/** Files of an AgentSkills folder, relative to it. */
export interface SkillResources {
  readonly scripts: readonly string[]
  readonly references: readonly string[]
  readonly assets: readonly string[]
}

/** Who brought a skill. `marketplace`: one that is loaded for every conversation. */
export type SkillOrigin =
  | 'request'
  | 'plugin'
  | 'project'
  | 'organisation'
  | 'installed'
  | 'user'
  | 'public'
  | 'marketplace'
  | 'sandbox'

/** A skill from wherever it came. All its texts are bounded and free of control characters other than tab and line feed. */
export interface LoadedSkill {
  readonly name: string
  /** The instructions, without front matter. */
  readonly content: string
  readonly description: string | undefined
  /** Words of a message that call for it. */
  readonly keywords: readonly string[]
  /** What a user writes to start it, each with a slash in front: `/name`. */
  readonly commands: readonly string[]
  /** Globs of files that it is about. */
  readonly paths: readonly string[]
  readonly inputs: readonly SkillInput[]
  readonly allowedTools: readonly string[]
  readonly isAgentSkill: boolean
  /** Whether the model is told of it. Users can always call it. */
  readonly isModelInvocable: boolean
  readonly origin: SkillOrigin
  /** For people: a path relative to the workspace or the home directory, or what the request said. */
  readonly source: string | undefined
  /** Absolute path of its file, when it has one. */
  readonly file: string | undefined
  readonly resources: SkillResources | undefined
}

/** Told from the beginning: it has no trigger and is not in AgentSkills form. */
export function isAlwaysOn(skill: LoadedSkill): boolean {
  const isTriggered = skill.keywords.length + skill.commands.length + skill.paths.length > 0
  return !skill.isAgentSkill && !isTriggered
}

/** A skill that a request brought along. It has no file: what a client calls its source is a place on the client's side. */
export function skillFromRequest(skill: Skill): LoadedSkill {
  const { trigger } = skill
  return {
    name: skill.name,
    content: normalizeText(skill.content),
    description:
      skill.description === undefined ? undefined : toSingleLine(skill.description, maxDescription),
    ...sortTriggers(
      trigger?.type === 'keyword' ? trigger.keywords : [],
      trigger?.type === 'task' ? trigger.triggers : [],
    ),
    paths: trigger?.type === 'path' ? boundedTriggers(trigger.paths) : [],
    inputs: parseInputs(skill.inputs) ?? [],
    allowedTools: [],
    isAgentSkill: skill.is_agentskills_format,
    isModelInvocable: !skill.disable_model_invocation,
    origin: 'request',
    source: skill.source,
    file: undefined,
    resources: undefined,
  }
}

/** Keywords and commands: a keyword with a slash in front is a command. */
export function sortTriggers(
  keywords: readonly string[],
  commands: readonly string[],
): Pick<LoadedSkill, 'keywords' | 'commands'> {
  const words = boundedTriggers(keywords)
  const slashed = boundedTriggers(commands).map((name) => (name.startsWith('/') ? name : `/${name}`))
  return {
    keywords: words.filter((word) => !word.startsWith('/')),
    commands: [...new Set([...words.filter((word) => word.startsWith('/')), ...slashed])],
  }
}

/** Without what is blank or too long, and without repeats; the first 64. */
export function boundedTriggers(triggers: readonly string[]): string[] {
  const trimmed = triggers.map((trigger) => trigger.trim())
  return [...new Set(trimmed)]
    .filter((trigger) => trigger !== '' && trigger.length <= maxTriggerLength)
    .slice(0, maxTriggers)
}

/** Inputs as front matter or a request lists them; undefined when it is no such list. */
export function parseInputs(value: unknown): SkillInput[] | undefined {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) return undefined
  const inputs: SkillInput[] = []
  for (const item of value.slice(0, maxTriggers)) {
    if (typeof item !== 'object' || item === null || !('name' in item)) return undefined
    const { name } = item
    const description = ('description' in item ? item.description : undefined) ?? ''
    if (typeof name !== 'string' || typeof description !== 'string') return undefined
    inputs.push({
      name: toSingleLine(name, maxTriggerLength),
      description: toSingleLine(description, maxDescription),
    })
  }
  return inputs
}

const controlCharacters = /[\p{Cc}--[\t\n]]/gv

/** With line feeds alone between lines, and without other control characters than tabs. */
export function normalizeText(text: string): string {
  return text.replaceAll('\r\n', '\n').replaceAll('\r', '\n').replace(controlCharacters, '')
}

/** On one line, of at most `max` characters; a longer text ends in an ellipsis. */
export function toSingleLine(text: string, max: number): string {
  return ellipsize(normalizeText(text).replace(/\s+/g, ' ').trim(), max)
}

/** At most `max` characters, counted as code points; a longer text ends in an ellipsis. */
export function ellipsize(text: string, max: number): string {
  if (text.length <= max) return text
  const characters = [...text.slice(0, 2 * max)]
  return characters.length <= max && text.length <= 2 * max
    ? text
    : `${characters.slice(0, max - 1).join('')}…`
}
