import { parseFrontMatter } from '../skills/front-matter.ts'
import { createSkill, type LoadedSkill, maxDescription, toSingleLine } from '../skills/skill.ts'

const validName = /^[\w][\w.-]{0,63}$/

/**
 * A command of a plugin as a skill that a user starts by `/name`, or by `/plugin:name` at the start of a
 * message.
 */
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
    skill: createSkill({
      name: `${plugin}:${name}`,
      content: matter.body.trim(),
      description: typeof description === 'string' ? toSingleLine(description, maxDescription) : undefined,
      commands: [`/${name}`],
      inputs:
        typeof argumentHint === 'string'
          ? [{ name: 'arguments', description: toSingleLine(argumentHint, maxDescription) }]
          : [],
      isModelInvocable: false,
      origin: 'plugin',
      source: `${plugin}/commands/${name}.md`,
      file,
    }),
  }
}
