import type { LoadedSkill } from './skill.ts'

const maxSkills = 500
/** Of the contents of all skills together. */
const maxCharacters = 16 * 1024 * 1024
const maxFaults = 100

export interface LoadedSkills {
  readonly skills: readonly LoadedSkill[]
  /** What was passed over and why, a sentence each, for people. */
  readonly faults: readonly string[]
}

/** The skills and faults that were found so far, within bounds. The first skill of a name stays. */
export class Found {
  readonly #skills = new Map<string, LoadedSkill>()
  readonly #disabled: ReadonlySet<string>
  readonly #faults = new Set<string>()
  #characters = 0
  #missed = 0
  #faultsLeftOut = 0

  constructor(disabled: readonly string[]) {
    this.#disabled = new Set(disabled)
  }

  get isFull(): boolean {
    return this.#missed > 0
  }

  has(name: string): boolean {
    return this.#skills.has(name)
  }

  /** Whether the very same text is there already, as when CLAUDE.md is a copy of or a link to AGENTS.md. */
  hasContent(content: string): boolean {
    return this.#skills.values().some((skill) => skill.content === content)
  }

  add(skill: LoadedSkill): void {
    if (this.#disabled.has(skill.name) || this.#skills.has(skill.name)) return
    if (this.#skills.size >= maxSkills || this.#characters + skill.content.length > maxCharacters) {
      this.#missed++
      return
    }
    this.#characters += skill.content.length
    this.#skills.set(skill.name, skill)
  }

  fault(text: string): void {
    if (this.#faults.size < maxFaults) this.#faults.add(text)
    else if (!this.#faults.has(text)) this.#faultsLeftOut++
  }

  all(): LoadedSkills {
    const skills = [...this.#skills.values()]
    const faults = [...this.#faults]
    if (this.#faultsLeftOut > 0) faults.push(`${this.#faultsLeftOut} more faults are not listed`)
    if (this.isFull) faults.push(`There are more skills than fit; the first ${skills.length} were loaded`)
    return { skills, faults }
  }
}
