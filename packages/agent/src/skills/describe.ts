import { extensionName } from '@slipway/protocol'
import { loadSkillFolder } from './directories.ts'
import { parseFrontMatter } from './front-matter.ts'
import { maxDescription, normalizeText, toSingleLine } from './skill.ts'
import { readSmallFile } from './small-file.ts'

const maxFileBytes = 256 * 1024

/** What the `SKILL.md` of a folder says of it. Without a good one, or a name to be installed by, there is a fault. */
export async function describeSkill(
  directory: string,
): Promise<
  | { readonly name: string; readonly version: string; readonly description: string }
  | { readonly issue: string }
> {
  const { skills, issues } = await loadSkillFolder(directory, 'installed')
  const [skill] = skills
  if (skill?.file === undefined) return { issue: `cannot be read: ${issues.join('; ')}` }
  const { name, description = '', file } = skill
  if (!extensionName.safeParse(name).success) return { issue: 'has a name that nothing can be installed by' }
  return { name, description: toSingleLine(description, maxDescription), version: await readVersion(file) }
}

async function readVersion(file: string): Promise<string> {
  const read = await readSmallFile(file, { maxBytes: maxFileBytes })
  const matter =
    read === undefined || 'issue' in read ? undefined : await parseFrontMatter(normalizeText(read.text))
  const { version, metadata } = matter === undefined || 'issue' in matter ? {} : matter.members
  const metadataVersion =
    typeof metadata === 'object' && metadata !== null && 'version' in metadata ? metadata.version : undefined
  const value = version ?? metadataVersion
  return typeof value === 'string' || typeof value === 'number' ? toSingleLine(String(value), 200) : '1.0.0'
}
