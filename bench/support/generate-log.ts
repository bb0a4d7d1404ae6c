import { formatInstant, parseInstant } from '@slipway/protocol'
import type { ReceivedEvent } from '@slipway/storage'
import { SeededRandom } from './seeded-random.ts'

export const firstInstant = parseInstant('2026-01-01T00:00:00Z') ?? 0

/** Search texts by how many messages contain them. Texts that are not common words are planted. */
export const needles = {
  absent: 'zqxjkvw',
  rare: 'quokkamilk',
  medium: 'Migration',
  common: 'THE',
  'two words': 'of the',
  Greek: 'ΣΊΣΥΦΟΣ',
  Cyrillic: 'ПРОВЕРКА',
  Chinese: '検索結果',
} as const

/** Each planted word with the share of messages that contain it. */
const plantedWords = [
  ['Quokkamilk', 0.0002],
  ['migration', 0.005],
  ['Σίσυφος', 0.02],
  ['проверка', 0.02],
  ['検索結果', 0.02],
] as const

const frequentWords =
  'the of and to a in is it you that for on with as this was be are or at from by not have but'.split(' ')

/**
 * A typical log, the same for the same options: 15 % messages, 35 % actions, 35 % observations, 13 % state
 * updates, the rest errors and pauses; in order of time, about a second apart. A text has `words` words on
 * average; an event is about 350 bytes plus six for each word.
 */
export function* generateLog(options: {
  readonly count: number
  readonly words: number
  readonly seed?: number
}): Generator<ReceivedEvent> {
  const writer = new LogGenerator(new SeededRandom(options.seed ?? 1), options.words)
  for (let i = 0; i < options.count; i++) yield writer.next()
}

class LogGenerator {
  readonly #random: SeededRandom
  readonly #words: number
  readonly #vocabulary: readonly string[]
  #instant = firstInstant
  #action = { id: '', call: '', command: '' }

  constructor(random: SeededRandom, words: number) {
    this.#random = random
    this.#words = words
    this.#vocabulary = Array.from({ length: 4000 }, (_, i) => frequentWords[i] ?? inventWord(random))
  }

  next(): ReceivedEvent {
    const id = this.#random.uuid()
    this.#instant += 1 + this.#random.below(2_000_000)
    const { kind, source, ...members } = this.#members(id)
    const timestamp = formatInstant(this.#instant)
    const bytes = Buffer.from(JSON.stringify({ id, timestamp, source, ...members, kind }))
    return { bytes, id, instant: this.#instant, kind, source }
  }

  #members(id: string): { kind: string; source: string; [member: string]: unknown } {
    const random = this.#random
    const share = random.next()
    if (share < 0.15) return this.#message()
    if (share < 0.5) {
      this.#action = { id, call: `call_${random.hex(12)}`, command: this.#text(this.#words / 2) }
      return this.#actionEvent()
    }
    if (share < 0.85) return this.#observation()
    if (share < 0.98) {
      const value = random.next() < 0.5 ? 'running' : 'idle'
      return { kind: 'ConversationStateUpdateEvent', source: 'environment', key: 'execution_status', value }
    }
    if (share < 0.99) return { kind: 'PauseEvent', source: 'user' }
    const answered = { tool_name: 'terminal', tool_call_id: this.#action.call }
    return { kind: 'AgentErrorEvent', source: 'agent', ...answered, error: this.#text(this.#words / 2) }
  }

  #message() {
    const source = this.#random.next() < 0.5 ? 'user' : 'agent'
    const text = [this.#text(this.#words)]
    for (const [word, share] of plantedWords) if (this.#random.next() < share) text.push(word)
    const role = source === 'user' ? 'user' : 'assistant'
    return {
      kind: 'MessageEvent',
      source,
      llm_message: { role, content: [{ type: 'text', text: text.join(' ') }] },
    }
  }

  #actionEvent() {
    const { call, command } = this.#action
    return {
      kind: 'ActionEvent',
      source: 'agent',
      thought: [],
      action: { command, kind: 'TerminalAction' },
      tool_name: 'terminal',
      tool_call_id: call,
      tool_call: { id: call, name: 'terminal', arguments: JSON.stringify({ command }), origin: 'completion' },
      llm_response_id: `r-${this.#random.hex(12)}`,
      security_risk: 'LOW',
    }
  }

  #observation() {
    const { id, call, command } = this.#action
    const content = [{ type: 'text', text: this.#text(this.#words) }]
    return {
      kind: 'ObservationEvent',
      source: 'environment',
      tool_name: 'terminal',
      tool_call_id: call,
      observation: { content, command, exit_code: 0, kind: 'TerminalObservation' },
      action_id: id,
    }
  }

  /**
   * Words of which a few are very frequent, as in a natural language; between half and one and a half times
   * `words` of them.
   */
  #text(words: number): string {
    const count = Math.max(1, Math.round(words * (0.5 + this.#random.next())))
    const text: string[] = []
    for (let i = 0; i < count; i++) {
      text.push(this.#vocabulary[Math.floor(this.#random.next() ** 4 * this.#vocabulary.length)] ?? '')
    }
    return text.join(' ')
  }
}

function inventWord(random: SeededRandom): string {
  const syllables = Array.from({ length: 2 + random.below(3) }, () => {
    return `${'bcdfghlmnprstv'[random.below(14)]}${'aeiou'[random.below(5)]}${'lmnrst'[random.below(12)] ?? ''}`
  })
  return syllables.join('')
}
