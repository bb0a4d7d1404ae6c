import { readFrontMatter } from '../skills/front-matter.ts'
import { type LoadedSkill, maxDescription, oneLine } from '../skills/skill.ts'

const goodName = /^[\w][\w.-]{0,63}$/

/** A command of a plugin as a skill: told when a user writes `/name`, or `/plugin:name` at the beginning of a message. */
export async function readCommand(from: {
  readonly text: string
  readonly name: string
  readonly plugin: string
  readonly file: string
}): Promise<{ readonly skill: LoadedSkill } | { readonly fault: string }> {
  const { name, plugin, file } = from
  if (!goodName.test(name)) return { fault: 'has a name that no command can have' }
  const matter = await readFrontMatter(from.text)
  if ('fault' in matter) return matter
  const { description } = matter.members
  const hint = matter.members['argument-hint']
  return {
    skill: {
      name: `${plugin}:${name}`,
      content: matter.body.trim(),
      description: typeof description === 'string' ? oneLine(description, maxDescription) : undefined,
      keywords: [],
      commands: [`/${name}`],
      paths: [],
      inputs:
        typeof hint === 'string' ? [{ name: 'arguments', description: oneLine(hint, maxDescription) }] : [],
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
