import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import type { AgentServerApi } from '../support/agent-server-api.ts'

/**
 * Writes messages to a server that may die, refuse or stand still, and verifies that what was acknowledged is
 * stored.
 */
export class MessageLedger {
  readonly conversations: readonly string[]
  /** By conversation: the acknowledged texts. */
  readonly #acknowledged = new Map<string, Set<string>>()
  refused = 0

  private constructor(conversations: readonly string[]) {
    this.conversations = conversations
    for (const id of conversations) this.#acknowledged.set(id, new Set())
  }

  /** Creates the conversations. */
  static async open(api: AgentServerApi, count = 3): Promise<MessageLedger> {
    return new MessageLedger(await Promise.all(Array.from({ length: count }, () => api.import(''))))
  }

  get acknowledged(): number {
    return [...this.#acknowledged.values()].reduce((sum, texts) => sum + texts.size, 0)
  }

  /**
   * Several writers send numbered messages, each to all conversations in turn, until the signal aborts. A
   * request
   * that gets no answer ends its writer; a refusal does not.
   */
  async write(
    api: Pick<AgentServerApi, 'sendJson'>,
    options: {
      readonly label: string
      readonly signal?: AbortSignal
      readonly writers?: number
      readonly bytes?: number
    },
  ): Promise<void> {
    const { label, signal, writers = 6, bytes = 0 } = options
    const write = async (writer: number) => {
      for (let n = 0; signal?.aborted !== true; n++) {
        const id = this.conversations[(n + writer) % this.conversations.length] ?? ''
        const text = `${label} writer ${writer} message ${n} ${'x'.repeat(bytes)}`
        try {
          const { status } = await api.sendJson('POST', `/api/conversations/${id}/events`, {
            content: [{ type: 'text', text }],
          })
          if (status === 200) this.#acknowledged.get(id)?.add(text)
          else {
            this.refused++
            expect([503, 507]).toContain(status)
            await new Promise((resolve) => setTimeout(resolve, 20))
          }
        } catch (error) {
          // The connection was cut, so this message was not acknowledged.
          if (error instanceof TypeError) return
          throw error
        }
      }
    }
    await Promise.all(Array.from({ length: writers }, (_, writer) => write(writer)))
  }

  /**
   * Every acknowledged message is stored once, in the order in which its writer sent them; positions have no
   * gap,
   * and streams, pages and counts agree.
   */
  async verify(api: AgentServerApi): Promise<void> {
    for (const id of this.conversations) {
      const { positions, events } = await readStream(api, id)
      expect(positions).toEqual(positions.map((_, index) => index + 1))
      expect(new Set(events.map((event) => event.id)).size).toBe(events.length)
      expect(await api.count(id)).toBe(events.length)
      const texts = events.map((event) => event.llm_message.content[0].text as string)
      const stored = new Set(texts)
      expect(stored.size).toBe(texts.length)
      expect([...(this.#acknowledged.get(id) ?? [])].filter((text) => !stored.has(text))).toEqual([])
      expectInOrder(texts)
    }
  }
}

/** Each writer waits for an answer before its next message, so its numbers rise. */
function expectInOrder(texts: readonly string[]): void {
  const newest = new Map<string, number>()
  for (const text of texts) {
    const [, writer = '', number = ''] = /^(.* writer \d+) message (\d+) /.exec(text) ?? []
    expect(Number(number)).toBeGreaterThan(newest.get(writer) ?? -1)
    newest.set(writer, Number(number))
  }
}

// biome-ignore lint/suspicious/noExplicitAny: events of the wire; each reader checks the members that it reads
type WireEvent = any

/** The stored events of a stream that ends at the head. */
export async function readStream(
  api: AgentServerApi,
  id: string,
  tries = 40,
): Promise<{ positions: readonly number[]; events: readonly WireEvent[] }> {
  const response = await api.fetch(`/api/conversations/${id}/events/stream?until=idle`)
  const text = await response.text()
  // Refused for the moment: a client asks again.
  if (response.status === 503 && tries > 1) {
    await sleep(500)
    return await readStream(api, id, tries - 1)
  }
  if (response.status !== 200) throw new Error(`the stream answered ${response.status}: ${text}`)
  const found = [...text.matchAll(/^id: (\d+).*\ndata: (.*)$/gm)]
  return {
    positions: found.map(([, position]) => Number(position)),
    events: found.map(([, , data]) => JSON.parse(String(data))),
  }
}
