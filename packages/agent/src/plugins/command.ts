import { parseFrontMatter } from '../skills/front-matter.ts'
import { type LoadedSkill, maxDescription, toSingleLine } from '../skills/skill.ts'

const validName = /^[\w][\w.-]{0,63}$/

/** A command of a plugin as a skill: told when a user writes `/name`, or `/plugin:name` at the beginning of a message. */
export async function parseCommand(from: {
  readonly text: string
  readonly name: string
  readonly plugin: string
  readonly file: string
}): Promise<{ readonly skill: LoadedSkill } | { readonly issue: string }> {
  const { name, plugin, file } = from
  if (!validName.test(name)) return { issue: 'has a name that no command can have' }
  const matter = await parseFrontMatter(from.text)
  if ('issue' in matter) return matter
  const { description } = matter.members
  const argumentHint = matter.members['argument-hint']
  return {
    skill: {
      name: `${plugin}:${name}`,
      content: matter.body.trim(),
      description: typeof description === 'string' ? toSingleLine(description, maxDescription) : undefined,
      keywords: [],
      commands: [`/${name}`],
      paths: [],
      inputs:
        typeof argumentHint === 'string'
          ? [{ name: 'arguments', description: toSingleLine(argumentHint, maxDescription) }]
          : [],
      allowedTools: [],
      isAgentSkill: false,
      isModelInvocable: false,
      origin: 'plugin',
      source: `${plugin}/commands/${name}.md`,
      file,
      resources: undefined,
    },
  }
}
