import { Problem } from '@slipway/protocol'

/** Conversations whose pen an import holds, or the removal of what an import left behind. */
export class Pens {
  readonly #held = new Set<string>()

  take(conversation: string): void {
    this.mustBeFree(conversation)
    this.#held.add(conversation)
  }

  giveBack(conversation: string): void {
    this.#held.delete(conversation)
  }

  /** A Problem `busy` while somebody holds it. */
  mustBeFree(conversation: string): void {
    if (this.#held.has(conversation))
      throw new Problem('busy', 'An import into the conversation is under way')
  }
}
