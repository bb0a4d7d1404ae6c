import type { Skill } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'

/** Longer descriptions are truncated. */
export const maxDescription = 1024
const maxTriggers = 64
const maxTriggerLength = 100

/** An argument of a skill that a user starts by `/name`. */
interface SkillInput {
  readonly name: string
  readonly description: string
}

/** Files of an AgentSkills folder, relative to it. */
export interface SkillResources {
  readonly scripts: readonly string[]
  readonly references: readonly string[]
  readonly assets: readonly string[]
}

/** Where a skill is from. `marketplace`: a marketplace that is loaded for every conversation. */
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

/**
 * A skill of any origin. Its texts are bounded and have no control characters other than tab and line feed.
 */
export interface LoadedSkill {
  readonly name: string
  /** The instructions, without front matter. */
  readonly content: string
  readonly description: string | undefined
  /** Words of a message that activate it. */
  readonly keywords: readonly string[]
  /** Commands that start it, with the slash: `/name`. */
  readonly commands: readonly string[]
  /** Globs of the files that it applies to. */
  readonly paths: readonly string[]
  readonly inputs: readonly SkillInput[]
  readonly allowedTools: readonly string[]
  readonly isAgentSkill: boolean
  /** Whether the model sees it. Users can always start it. */
  readonly isModelInvocable: boolean
  readonly origin: SkillOrigin
  /** For people: a path relative to the workspace or the home directory, or the source in the request. */
  readonly source: string | undefined
  /** Absolute path of its file, if any. */
  readonly file: string | undefined
  readonly resources: SkillResources | undefined
  /** As the front matter says; undefined when it says none. */
  readonly version?: string | undefined
}

/** A skill with defaults: always on, not of the AgentSkills form, without a file. */
export function createSkill(
  members: Pick<LoadedSkill, 'name' | 'content' | 'origin' | 'source'> & Partial<LoadedSkill>,
): LoadedSkill {
  return {
    description: undefined,
    keywords: [],
    commands: [],
    paths: [],
    inputs: [],
    allowedTools: [],
    isAgentSkill: false,
    isModelInvocable: true,
    file: undefined,
    resources: undefined,
    ...members,
  }
}

/** Part of the prompt from the beginning: it has no trigger and is not of the AgentSkills form. */
export function isAlwaysOn(skill: LoadedSkill): boolean {
  const isTriggered = skill.keywords.length + skill.commands.length + skill.paths.length > 0
  return !skill.isAgentSkill && !isTriggered
}

/** A skill of a request. It has no file: its source is a place of the client. */
export function skillFromRequest(skill: Skill): LoadedSkill {
  const { trigger } = skill
  const { description } = skill
  return createSkill({
    name: skill.name,
    content: normalizeText(skill.content),
    description: description === undefined ? undefined : toSingleLine(description, maxDescription),
    ...sortTriggers(
      trigger?.type === 'keyword' ? trigger.keywords : [],
      trigger?.type === 'task' ? trigger.triggers : [],
    ),
    paths: trigger?.type === 'path' ? boundedTriggers(trigger.paths) : [],
    inputs: parseInputs(skill.inputs) ?? [],
    isAgentSkill: skill.is_agentskills_format,
    isModelInvocable: !skill.disable_model_invocation,
    origin: 'request',
    source: skill.source,
  })
}

/** Separates keywords and commands: a keyword with a leading slash is a command. */
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

/** The first 64 triggers, without blank, too long and duplicate ones. */
export function boundedTriggers(triggers: readonly string[]): string[] {
  const trimmed = triggers.map((trigger) => trigger.trim())
  return [...new Set(trimmed)]
    .filter((trigger) => trigger !== '' && trigger.length <= maxTriggerLength)
    .slice(0, maxTriggers)
}

/** Inputs from front matter or a request; undefined when the value is not a list of inputs. */
export function parseInputs(value: unknown): SkillInput[] | undefined {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) return undefined
  const inputs: SkillInput[] = []
  for (const item of value.slice(0, maxTriggers)) {
    const { name, description: text } = isRecord(item) ? item : {}
    const description = text ?? ''
    if (typeof name !== 'string' || typeof description !== 'string') return undefined
    inputs.push({
      name: toSingleLine(name, maxTriggerLength),
      description: toSingleLine(description, maxDescription),
    })
  }
  return inputs
}

const controlCharacters = /[\p{Cc}--[\t\n]]/gv

/** Normalizes line ends to line feeds and removes control characters other than tabs. */
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
