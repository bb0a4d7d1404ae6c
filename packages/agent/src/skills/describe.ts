import { extensionName } from '@slipway/protocol'
import { loadSkillFolder } from './directories.ts'

/**
 * Name, version and description of a folder with a `SKILL.md`; an issue when it is invalid or cannot be
 * installed by its name.
 */
export async function describeSkill(
  directory: string,
): Promise<
  | { readonly name: string; readonly version: string; readonly description: string }
  | { readonly issue: string }
> {
  const { skills, issues } = await loadSkillFolder(directory, 'installed')
  const [skill] = skills
  if (skill === undefined) return { issue: `cannot be read: ${issues.join('; ')}` }
  const { name, description = '', version = '1.0.0' } = skill
  if (!extensionName.safeParse(name).success) return { issue: 'has a name that nothing can be installed by' }
  return { name, description, version }
}
