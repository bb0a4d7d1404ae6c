import { once } from 'node:events'
import { join } from 'node:path'
import { must } from '@slipway/protocol'
import { type BenchContext, postJson, startAgentServer, startFloor } from '../support/fixtures.ts'
import type { Server } from '../support/processes.ts'
import { atMost, Floor, information, median, percentile, type ResultRow } from '../support/result-table.ts'

/** Delay of the fake provider until its first chunk. */
const delayMs = 20
/** A chunk that takes longer than this never comes. */
const timeoutMs = 60_000

/**
 * From the request that sends a message to the first chunk of the model's reply on the events socket, without
 * the delay of the provider, beside a bare relay: a row of `node:sqlite`, a bare `fetch` and a bare `ws` socket.
 * In between, the message becomes durable. Also measured: a bare `fetch` of the provider's first chunk, the first
 * message of a conversation, and that of a server that has just started.
 */
export async function firstToken(bench: BenchContext): Promise<ResultRow[]> {
  const size = bench.isQuick ? { conversations: 2, messages: 2 } : { conversations: 12, messages: 20 }
  await using model = await startFloor('model', String(delayMs))
  await using server = await startAgentServer(bench, await bench.directory())
  const openConversation = async () => await SocketConversation.open(server, model, await bench.directory())
  const address = `http://127.0.0.1:${model.port}`
  await using relayServer = await startFloor('relay', await bench.directory(), address)
  await using relay = await Relay.open(relayServer)
  const bare: number[] = []
  const relayed: number[] = []
  const first: number[] = []
  const later: number[] = []
  for (let n = 0; n < size.conversations; n++) {
    await using conversation = await openConversation()
    first.push(await conversation.measureFirstToken())
    for (let i = 0; i < size.messages; i++) {
      bare.push(await measureBareFirstToken(model))
      relayed.push(await relay.measureFirstToken())
      later.push(await conversation.measureFirstToken())
    }
  }
  const [cold = Number.NaN, ...warm] = first
  const above = (ms: number) => ms - delayMs
  const floor = (percent: number) => Floor.of('a bare relay', relayed.map(above), percent)
  const fetched = Floor.of('a bare fetch', bare.map(above))
  return [
    atMost('first token: p50 above the model’s delay', 'ms', above(median(later)), floor(50), 3.4),
    information('first token: p99 above the model’s delay', 'ms', above(percentile(later, 99)), floor(99)),
    information('first token: p50 above it beside a bare fetch', 'ms', above(median(later)), fetched),
    information('first message of a conversation: p50 above it', 'ms', above(median(warm)), floor(50)),
    information('first message of a server: above it', 'ms', above(cold), floor(50)),
  ]
}

/** Milliseconds until the first chunk of the provider alone. */
async function measureBareFirstToken(model: Server): Promise<number> {
  const startedAt = performance.now()
  const response = await fetch(`http://127.0.0.1:${model.port}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'bench', stream: true, messages: [{ role: 'user', content: question }] }),
  })
  const reader = must(response.body ?? undefined, 'a body').getReader()
  await reader.read()
  const ms = performance.now() - startedAt
  while (!(await reader.read()).done);
  return ms
}

/** A socket of the bare relay. */
class Relay implements AsyncDisposable {
  readonly #server: Server
  readonly #socket: WebSocket

  private constructor(server: Server, socket: WebSocket) {
    this.#server = server
    this.#socket = socket
  }

  static async open(server: Server): Promise<Relay> {
    const socket = new WebSocket(`ws://127.0.0.1:${server.port}`)
    await once(socket, 'open')
    return new Relay(server, socket)
  }

  /** Milliseconds until the first chunk of the provider, after the last one. */
  async measureFirstToken(): Promise<number> {
    const startedAt = performance.now()
    let firstMs: number | undefined
    const over = new Promise<void>((resolve, reject) => {
      AbortSignal.timeout(timeoutMs).addEventListener('abort', () => reject(new Error('no answer')))
      this.#socket.onmessage = ({ data }) => {
        firstMs ??= performance.now() - startedAt
        if (data === 'end') resolve()
      }
    })
    const messages = [{ role: 'user', content: question }]
    await postJson(this.#server, '/', { model: 'bench', stream: true, messages })
    await over
    return must(firstMs, 'an answer')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#socket, 'close')
    this.#socket.close()
    await closed
  }
}

const question = 'What is the answer?'
const answer = 'The answer is forty-two.'

/** The full state: sent when a socket opens, and after the events of a finished run. */
function isState(frame: string): boolean {
  return frame.includes('"full_state"')
}

/** A conversation with a socket that follows it. */
class SocketConversation implements AsyncDisposable {
  readonly #server: Server
  readonly #id: string
  readonly #socket: WebSocket
  #onFrame: (frame: string) => void = () => {}
  #onFailure: (error: Error) => void = () => {}

  private constructor(server: Server, id: string, socket: WebSocket) {
    this.#server = server
    this.#id = id
    this.#socket = socket
    socket.addEventListener('message', ({ data }) => this.#onFrame(String(data)))
    socket.addEventListener('close', ({ code }) =>
      this.#onFailure(new Error(`the socket was closed: ${code}`)),
    )
  }

  static async open(server: Server, model: Server, directory: string): Promise<SocketConversation> {
    const { id } = await postJson<{ id: string }>(server, '/api/conversations', {
      agent: {
        llm: {
          model: 'openai/bench',
          base_url: `http://127.0.0.1:${model.port}/v1`,
          api_key: 'none',
          stream: true,
        },
        tools: ['terminal', 'file_editor', 'task_tracker'].map((name) => ({ name })),
      },
      workspace: { working_dir: join(directory, 'workspace') },
      autotitle: false,
    })
    const talk = new SocketConversation(
      server,
      id,
      new WebSocket(`ws://127.0.0.1:${server.port}/sockets/events/${id}`),
    )
    await talk.#waitForFrame((frame) => isState(frame))
    return talk
  }

  /** Sends a message; returns milliseconds until the first chunk of the reply, after the end of the run. */
  async measureFirstToken(): Promise<number> {
    const startedAt = performance.now()
    let firstMs: number | undefined
    const over = this.#waitForFrame((frame) => {
      if (firstMs !== undefined) return isState(frame)
      // Without a delta, the whole reply is the first that arrives.
      if (frame.includes('"StreamingDeltaEvent"') || frame.includes(answer))
        firstMs = performance.now() - startedAt
      return false
    })
    const path = `/api/conversations/${this.#id}/events`
    await postJson(this.#server, path, {
      role: 'user',
      content: [{ type: 'text', text: question }],
      run: true,
    })
    const state: { value: { execution_status: string } } = JSON.parse(await over)
    if (state.value.execution_status !== 'finished')
      throw new Error('the run has ended without the status finished')
    return must(firstMs, 'an answer')
  }

  /**
   * The next frame that matches. Each is checked on arrival: several arrive in one turn of the event loop.
   */
  #waitForFrame(isExpected: (frame: string) => boolean): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#onFailure = reject
      AbortSignal.timeout(timeoutMs).addEventListener('abort', () =>
        reject(new Error('an answer is missing')),
      )
      this.#onFrame = (frame) => {
        if (frame.includes('"ConversationErrorEvent"')) reject(new Error(frame))
        else if (isExpected(frame)) resolve(frame)
      }
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#onFailure = () => {}
    const closed = once(this.#socket, 'close')
    this.#socket.close()
    await closed
  }
}
