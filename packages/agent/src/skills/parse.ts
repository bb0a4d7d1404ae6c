import { isRecord } from '@slipway/shared/json'
import { type FrontMatterBudget, parseFrontMatter } from './front-matter.ts'
import {
  boundedTriggers,
  createSkill,
  type LoadedSkill,
  maxDescription,
  normalizeText,
  parseInputs,
  sortTriggers,
  toSingleLine,
} from './skill.ts'

const maxName = 64
const agentSkillName = /^[a-z0-9]+(?:-[a-z0-9]+)*$/
/** Not allowed in names of older forms, which are quoted in texts for the model. */
const badCharacters = /[<>"`\p{Cc}]/u

/** `name`: the default, that of the folder or of the file without its extension. */
type SkillSource = Pick<LoadedSkill, 'name' | 'isAgentSkill' | 'origin' | 'source' | 'file' | 'resources'> & {
  readonly text: string
}

/**
 * Parses the text of a skill file. Never throws; an issue is a sentence that begins with a verb. `warning`:
 * the skill is valid, but does not do what its author expects.
 */
export async function parseSkill(
  from: SkillSource,
  budget: FrontMatterBudget,
): Promise<{ readonly skill: LoadedSkill; readonly warning?: string } | { readonly issue: string }> {
  const matter = await parseFrontMatter(normalizeText(from.text), budget)
  if ('issue' in matter) return matter
  const { members, body } = matter
  const name = members.name ?? from.name
  const issue = nameIssue(name, from.isAgentSkill)
  if (typeof name !== 'string' || issue !== undefined) return { issue: issue ?? '' }
  const fields = readFields(members, name)
  if ('issue' in fields) return fields
  const description = fields.description ?? (from.isAgentSkill ? firstSentence(body) : undefined)
  const { text: _, ...origin } = from
  const skill = createSkill({
    ...origin,
    ...fields,
    name,
    content: body.trim(),
    description: description === undefined ? undefined : toSingleLine(description, maxDescription),
    version: readVersion(members),
  })
  if (!from.isAgentSkill || name === from.name) return { skill }
  return { skill, warning: `is named ${name}, but its folder ${from.name}; it is loaded as ${name}` }
}

function nameIssue(value: unknown, isAgentSkill: boolean): string | undefined {
  if (typeof value !== 'string' || value.trim() === '') return 'has a name that is no text'
  if (value.length > maxName) return `has a name of more than ${maxName} characters`
  if (isAgentSkill && !agentSkillName.test(value))
    return 'has a name that is not lower-case words with single hyphens between them'
  return badCharacters.test(value) ? 'has a name with characters that are not allowed in it' : undefined
}

type FrontMatterFields = Pick<
  LoadedSkill,
  'description' | 'keywords' | 'commands' | 'paths' | 'inputs' | 'allowedTools' | 'isModelInvocable'
>

function readFields(
  members: Readonly<Record<string, unknown>>,
  name: string,
): FrontMatterFields | { readonly issue: string } {
  const { description = null, triggers, paths } = members
  if (description !== null && typeof description !== 'string')
    return { issue: 'has a description that is no text' }
  const words = stringList(triggers)
  if (words === undefined) return { issue: 'has triggers that are no list of texts' }
  const patterns = stringList(paths)
  if (patterns === undefined) return { issue: 'has paths that are no list of texts' }
  const inputs = parseInputs(members.inputs)
  if (inputs === undefined) return { issue: 'has inputs that are no list of names and descriptions' }
  const isInvocationDisabled =
    members['disable-model-invocation'] ?? members.disable_model_invocation ?? false
  if (typeof isInvocationDisabled !== 'boolean')
    return { issue: 'has a disable-model-invocation that is not true or false' }
  return {
    description: description ?? undefined,
    // A skill with inputs is started by a command.
    ...sortTriggers(words, inputs.length > 0 ? [name] : []),
    paths: boundedTriggers(patterns),
    inputs,
    allowedTools: parseAllowedTools(members['allowed-tools'] ?? members.allowed_tools),
    isModelInvocable: !isInvocationDisabled,
  }
}

/** A list of texts, or one text alone; undefined when it is neither. */
function stringList(value: unknown): string[] | undefined {
  if (value === undefined || value === null) return []
  const list: readonly unknown[] = Array.isArray(value) ? value : [value]
  return list.every((item) => typeof item === 'string') ? [...list] : undefined
}

/** `Read Bash(git:*)` or a list. It is advisory, so an invalid value is ignored. */
function parseAllowedTools(value: unknown): string[] {
  const list = typeof value === 'string' ? (value.match(/[^\s,(]+(?:\([^)]*\))?/g) ?? []) : stringList(value)
  return boundedTriggers((list ?? []).map((tool) => toSingleLine(tool, 100)))
}

function readVersion({ version, metadata }: Readonly<Record<string, unknown>>): string | undefined {
  const value = version ?? (isRecord(metadata) ? metadata.version : undefined)
  return typeof value === 'string' || typeof value === 'number' ? toSingleLine(String(value), 200) : undefined
}

function firstSentence(body: string): string | undefined {
  return body
    .split('\n', 50)
    .map((line) => line.trim())
    .find((line) => line !== '' && !line.startsWith('#'))
}
