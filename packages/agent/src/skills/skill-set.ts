import { dirname, isAbsolute, relative } from 'node:path'
import type { TextContent } from '@slipway/protocol'
import { firstChars } from '@slipway/shared/text'
import { textBlock } from '../tools/core/tool.ts'
import { commandPattern, Glob, keywordPattern, type TextMatcher } from './patterns.ts'
import { ellipsize, isAlwaysOn, type LoadedSkill } from './skill.ts'

/** Length of the part of a message that is searched for triggers. */
const maxMessage = 50_000
/** Characters activated by one message or file; a skill that does not fit is not activated. */
const maxActivatedChars = 200_000
const maxTriggers = 2_000
const maxAlternatives = 500
/** Of the names in an error. */
const maxNamesChars = 4_000

/** An always-on skill for the prompt. */
export interface SkillSection {
  readonly name: string
  /** Its origin, for the model. */
  readonly source: string
  readonly text: string
}

/** A skill that the model knows by name. */
export type SkillSummary = Pick<LoadedSkill, 'name' | 'description' | 'file'>

interface Activation {
  /** In order of `content`. */
  readonly names: readonly string[]
  readonly content: readonly TextContent[]
}

interface Trigger {
  readonly skill: LoadedSkill
  readonly pattern: TextMatcher
  /** Why the skill applies, for the model. */
  readonly reason: string
  /** Started by a user: each time, also when it is active. */
  readonly isCommand: boolean
}

/** The skills of one conversation, and which of them a message or a file activates. Pure. */
export class SkillSet {
  readonly #skills: readonly LoadedSkill[]
  readonly #directory: string
  readonly #triggers: readonly Trigger[]
  readonly #globs: readonly { readonly skill: LoadedSkill; readonly glob: Glob }[]

  /** The first skill of a name wins. `directory`: the workspace, absolute. */
  constructor(skills: readonly LoadedSkill[], directory: string) {
    const byName = new Map<string, LoadedSkill>()
    for (const skill of skills) if (!byName.has(skill.name)) byName.set(skill.name, skill)
    this.#directory = directory
    this.#skills = [...byName.values()]
    this.#triggers = this.#skills.flatMap(createTriggers).slice(0, maxTriggers)
    this.#globs = collectGlobs(this.#skills)
  }

  /** Paths that the agent must be able to read: folders of AgentSkills, files of the others. */
  get readablePaths(): readonly string[] {
    return this.#skills.flatMap(({ isAgentSkill, file }) =>
      file && isAgentSkill ? dirname(file) : (file ?? []),
    )
  }

  alwaysOnSections(): readonly SkillSection[] {
    return this.#skills
      .filter(isAlwaysOn)
      .map(({ name, source, content }) => ({ name, source: source ?? name, text: content }))
  }

  /** The other skills, without those that only users may start. */
  summaries(): readonly SkillSummary[] {
    return this.#skills
      .filter((skill) => !isAlwaysOn(skill) && skill.isModelInvocable)
      .map(({ name, description, file }) => ({ name, description, file }))
  }

  /**
   * The skills that a message activates: by a keyword as a whole word, ignoring case (not those in
   * `activeNames`), by a command as a separate word, or by `/name` at the start. The name of a skill without
   * triggers and without a file, which the model cannot read, is a keyword too.
   */
  activate(message: string, activeNames: ReadonlySet<string>): Activation {
    const searched = firstChars(message, maxMessage)
    const reasons = new Map<LoadedSkill, string>()
    for (const { skill, pattern, reason, isCommand } of this.#triggers) {
      if (reasons.has(skill) || (!isCommand && activeNames.has(skill.name))) continue
      if (pattern(searched)) reasons.set(skill, reason)
    }
    return createActivation(reasons)
  }

  /** The text of a skill that the model asks for, or why there is none. */
  read(name: string): { readonly text: string } | { readonly issue: string } {
    const skill = this.#skills.find((one) => one.name === name)
    if (skill?.isModelInvocable) return { text: skillText(skill).join('\n\n') }
    const names = ellipsize(
      this.summaries()
        .map((one) => one.name)
        .join(', '),
      maxNamesChars,
    )
    return {
      issue:
        skill === undefined
          ? `There is no skill ${JSON.stringify(name)}. Skills: ${names === '' ? 'none' : names}.`
          : `Only the user starts the skill "${name}", by writing /${name} at the beginning of a message.`,
    }
  }

  /**
   * The skills for a file, by its path (absolute, or relative to the workspace), that are not in
   * `activeNames`.
   */
  activateForPath(path: string, activeNames: ReadonlySet<string>): Activation {
    const inside = isAbsolute(path) ? relative(this.#directory, path) : path.replace(/^\.\//, '')
    const reasons = new Map<LoadedSkill, string>()
    if (inside !== '' && !/^\.\.(?:\/|$)/.test(inside)) {
      for (const { skill, glob } of this.#globs)
        if (!activeNames.has(skill.name) && !reasons.has(skill) && glob.matches(inside))
          reasons.set(skill, `it is about files such as ${inside}`)
    }
    return createActivation(reasons)
  }
}

/** Bounded, so that matching is fast. */
function collectGlobs(skills: readonly LoadedSkill[]): { skill: LoadedSkill; glob: Glob }[] {
  const globs: { skill: LoadedSkill; glob: Glob }[] = []
  let alternatives = 0
  for (const skill of skills) {
    for (const path of skill.paths) {
      const glob = new Glob(path)
      alternatives += glob.alternatives
      if (alternatives > maxAlternatives) return globs
      globs.push({ skill, glob })
    }
  }
  return globs
}

function createTriggers(skill: LoadedSkill): Trigger[] {
  if (isAlwaysOn(skill)) return []
  const { name, keywords, commands, paths, file, isModelInvocable } = skill
  const isUnreadable = file === undefined && isModelInvocable
  const matchesName = isUnreadable && keywords.length + commands.length + paths.length === 0
  return [
    ...commands.map((command) => commandTrigger(skill, command)),
    { ...commandTrigger(skill, `/${name}`), pattern: commandPattern(`/${name}`, 'start') },
    ...[...keywords, ...(matchesName ? [name] : [])].map((word) => ({
      skill,
      pattern: keywordPattern(word),
      reason: `the message mentions "${word}"`,
      isCommand: false,
    })),
  ]
}

function commandTrigger(skill: LoadedSkill, command: string): Trigger {
  return { skill, pattern: commandPattern(command), reason: `the user wrote ${command}`, isCommand: true }
}

function createActivation(reasons: ReadonlyMap<LoadedSkill, string>): Activation {
  const names: string[] = []
  const content: TextContent[] = []
  let remainingChars = maxActivatedChars
  for (const [skill, reason] of reasons) {
    if (content.length > 0 && skill.content.length > remainingChars) continue
    names.push(skill.name)
    content.push(textBlock(activationText(skill, reason)))
    remainingChars -= skill.content.length
  }
  return { names, content }
}

function activationText(skill: LoadedSkill, reason: string): string {
  const intro = `The skill "${skill.name}" applies here, because ${reason}. Follow it as far as it fits what the user wants.`
  return [intro, ...skillText(skill)].join('\n\n')
}

/** The paragraphs of a skill for the model: its text, and what belongs to it. */
function skillText(skill: LoadedSkill): string[] {
  const { name, content, inputs, file, isAgentSkill, allowedTools } = skill
  const paragraphs = [`<skill name="${name}">\n${ellipsize(content, maxActivatedChars)}\n</skill>`]
  const list = inputs.map((input) => `- ${input.name}: ${input.description}`).join('\n')
  if (list !== '')
    paragraphs.push(`It needs the following; ask the user for what the message does not say:\n${list}`)
  if (allowedTools.length > 0)
    paragraphs.push(`It is meant to be followed with these tools: ${allowedTools.join(', ')}`)
  if (isAgentSkill && file !== undefined) paragraphs.push(folderText(skill, dirname(file)))
  return paragraphs
}

function folderText({ resources }: LoadedSkill, folder: string): string {
  const files = resources ? [...resources.scripts, ...resources.references, ...resources.assets] : []
  const list = files.length === 0 ? '' : ` It holds:\n${files.map((file) => `- ${file}`).join('\n')}`
  return `Relative paths in it start at its folder ${folder}.${list}`
}
