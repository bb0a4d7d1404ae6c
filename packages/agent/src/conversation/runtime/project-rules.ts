import type { Action, TextContent } from '@slipway/protocol'
import type { NestedInstructions } from '../../skills/nested-instructions.ts'
import type { SkillSet } from '../../skills/skill-set.ts'

/** The rules of a project for files, each shown once, with the first result of an action on such a file. */
export class ProjectRules {
  readonly #skills: () => SkillSet
  readonly #nested: NestedInstructions | undefined
  readonly #shown = new Set<string>()

  constructor(skills: () => SkillSet, nested: NestedInstructions | undefined) {
    this.#skills = skills
    this.#nested = nested
  }

  /** The rules for the file of an action that were not shown yet. */
  async forAction(action: Action): Promise<readonly TextContent[]> {
    const path = 'file_path' in action ? action.file_path : 'path' in action ? action.path : undefined
    if (path === undefined || path === null) return []
    const { names, content } = this.#skills().activateForPath(path, this.#shown)
    for (const name of names) this.#shown.add(name)
    return [...content, ...((await this.#nested?.forPath(path)) ?? [])]
  }

  /** Shows all rules again: another branch of the conversation may lack them. */
  reset(): void {
    this.#shown.clear()
    this.#nested?.reset()
  }
}
