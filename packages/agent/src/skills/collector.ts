import type { LoadedSkill } from './skill.ts'

const maxSkills = 500
/** Of the contents of all skills together. */
const maxCharacters = 16 * 1024 * 1024
const maxIssues = 100

export interface LoadedSkills {
  readonly skills: readonly LoadedSkill[]
  /** What was skipped and why, a sentence each, for people. */
  readonly issues: readonly string[]
}

/** Collects skills and issues, within bounds. The first skill of a name wins. */
export class SkillCollector {
  readonly #skills = new Map<string, LoadedSkill>()
  readonly #disabled: ReadonlySet<string>
  readonly #issues = new Set<string>()
  #characters = 0
  #omittedCount = 0
  #omittedIssueCount = 0

  constructor(disabled: readonly string[]) {
    this.#disabled = new Set(disabled)
  }

  get isFull(): boolean {
    return this.#omittedCount > 0
  }

  has(name: string): boolean {
    return this.#skills.has(name)
  }

  /** Whether a skill has this very text, as when CLAUDE.md is a copy of or a link to AGENTS.md. */
  hasContent(content: string): boolean {
    return this.#skills.values().some((skill) => skill.content === content)
  }

  add(skill: LoadedSkill): void {
    if (this.#disabled.has(skill.name) || this.#skills.has(skill.name)) return
    if (this.#skills.size >= maxSkills || this.#characters + skill.content.length > maxCharacters) {
      this.#omittedCount++
      return
    }
    this.#characters += skill.content.length
    this.#skills.set(skill.name, skill)
  }

  addIssue(text: string): void {
    if (this.#issues.size < maxIssues) this.#issues.add(text)
    else if (!this.#issues.has(text)) this.#omittedIssueCount++
  }

  result(): LoadedSkills {
    const skills = [...this.#skills.values()]
    const issues = [...this.#issues]
    if (this.#omittedIssueCount > 0) issues.push(`${this.#omittedIssueCount} more issues are not listed`)
    if (this.isFull) issues.push(`There are more skills than fit; the first ${skills.length} were loaded`)
    return { skills, issues }
  }
}
