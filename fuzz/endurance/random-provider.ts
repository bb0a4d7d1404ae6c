import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { isRecord } from '@slipway/shared/json'
import { refusalsOf } from '../../packages/agent/src/llm/testing/validators/rule.ts'
import { validators } from '../../packages/agent/src/llm/testing/validators/validators.ts'
import { countsOf, type Fault, faults, faultyReply, statuses, withOddFrames } from './faults.ts'
import { Random } from './random.ts'
import { answerTexts, type Reply, randomReply } from './reply.ts'
import { contentType, framesOf, type Wire, wireOf } from './streams.ts'

/** The models whose requests are validated. */
export const models = Object.keys(validators)

/** What a provider did in all conversations. */
export interface ProviderCounts {
  readonly requests: number
  readonly faults: Readonly<Partial<Record<Fault, number>>>
  /** Requests that were refused, by rule, with the conversation of the first; each is a fault of ours. */
  readonly refusals: Readonly<Record<string, { readonly times: number; readonly first: string }>>
}

interface Script {
  readonly number: number
  readonly seed: number
  requests: number
  /** Replies that call tools, until one ends the run. */
  steps: number
  isClosing: boolean
  /** Texts of which an answer of a run may be made. */
  readonly answers: Set<string>
}

const faultRate = 0.3

/**
 * A model provider of every interface on loopback. Each conversation has its address, its random replies and
 * faults, and each request is judged by the strict validator of its model. The last message of a conversation
 * is answered without faults.
 */
export class RandomProvider implements AsyncDisposable {
  readonly #server: Server
  readonly #seed: number
  readonly #scripts = new Map<number, Script>()
  readonly #faults: Partial<Record<Fault, number>> = {}
  readonly #refusals: Record<string, { times: number; readonly first: string }> = {}
  #requests = 0

  private constructor(seed: number) {
    this.#seed = seed
    this.#server = createServer((request, response) => {
      text(request)
        .then((body) => this.#answer(request.url ?? '', body, response))
        .catch(() => response.destroy())
    })
    this.#server.on('clientError', (_, socket) => socket.destroy())
  }

  static async open(seed: number): Promise<RandomProvider> {
    const provider = new RandomProvider(seed)
    await new Promise<void>((done) => provider.#server.listen(0, '127.0.0.1', done))
    return provider
  }

  get counts(): ProviderCounts {
    return { requests: this.#requests, faults: this.#faults, refusals: this.#refusals }
  }

  /** The settings of a model of a conversation. */
  llm(conversation: number, model: string, random: Random): object {
    const { port } = this.#server.address() as AddressInfo // it listens on a port
    const hasPath = /^(anthropic|gemini|bedrock)/.test(model)
    const path = `/c/${conversation}/${models.indexOf(model)}${hasPath ? '' : '/v1'}`
    const isClaude = /claude/.test(model)
    return {
      ...{ model, base_url: `http://127.0.0.1:${port}${path}`, api_key: 'sk-test', usage_id: 'agent' },
      ...{ num_retries: 3, retry_multiplier: 0.01, retry_min_wait: 0, retry_max_wait: 1 },
      ...(model === 'openai/gpt-5' && { api_mode: 'responses' }),
      ...(isClaude && random.isTrue(0.7) && { extended_thinking_budget: 4096 }),
    }
  }

  /** From now on each request of the conversation is answered at once, with this text. */
  close(conversation: number): string {
    this.#script(conversation).isClosing = true
    return closingText(conversation)
  }

  /** Whether an answer of a run is made of what its models have said, and not blank. */
  hasSaid(conversation: number, answer: string): boolean {
    const texts = this.#script(conversation).answers
    const rest = [...texts].reduce((left, text) => left.replace(text, ''), answer)
    return answer.trim() !== '' && rest.trim() === ''
  }

  #script(conversation: number): Script {
    const known = this.#scripts.get(conversation)
    if (known !== undefined) return known
    const script = {
      ...{ number: conversation, seed: this.#seed, requests: 0, steps: 0, isClosing: false },
      answers: new Set<string>(),
    }
    this.#scripts.set(conversation, script)
    return script
  }

  async #answer(path: string, text: string, response: ServerResponse): Promise<void> {
    const [, , conversation, model] = path.split('/')
    const body: unknown = text === '' ? undefined : JSON.parse(text)
    if (!isRecord(body)) return void response.writeHead(404).end('{}')
    this.#requests++
    const script = this.#script(Number(conversation))
    const wire = wireOf(path)
    const name = models[Number(model)] ?? ''
    const validator = validators[name]
    const [refusal] = validator === undefined ? [] : refusalsOf(validator, body)
    if (refusal !== undefined) {
      const rule = `${name}: ${refusal.rule}`
      const first = `number ${script.number}: ${refusal.at} ${refusal.what}`
      this.#refusals[rule] ??= { times: 0, first }
      this.#refusals[rule].times++
      return sendError(response, { status: 400, wire, message: refusal.message })
    }
    const random = new Random(script.seed, script.number, script.requests++)
    const hasTools = body.tools !== undefined || body.toolConfig !== undefined
    const fault = script.isClosing || !random.isTrue(faultRate) ? undefined : random.pick(faults)
    if (fault !== undefined) this.#faults[fault] = (this.#faults[fault] ?? 0) + 1
    const reply = this.#reply(script, hasTools, random)
    await send(response, { wire, fault, reply: faultyReply(reply, fault), random, id: this.#id(script) })
  }

  #reply(script: Script, hasTools: boolean, random: Random): Reply {
    const tag = `${script.number}.${script.requests}`
    if (!hasTools) return { parts: [{ kind: 'text', text: `Aside ${tag}.` }], end: 'stop' }
    if (script.isClosing) return { parts: [{ kind: 'text', text: closingText(script.number) }], end: 'stop' }
    const isLast = script.steps > 0 && random.isTrue(0.3 + script.steps / 10)
    script.steps = isLast ? 0 : script.steps + 1
    const reply = randomReply(random, { isLast, tag })
    for (const answer of answerTexts(reply)) script.answers.add(answer)
    return reply
  }

  #id({ number, requests }: Script): string {
    return `${number.toString(36).padStart(4, '0')}${requests.toString(36).padStart(4, '0')}`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((done) => this.#server.close(done))
  }
}

const closingText = (conversation: number) => `The end of ${conversation}.`

interface Sending {
  readonly wire: Wire
  readonly fault: Fault | undefined
  readonly reply: Reply
  readonly random: Random
  readonly id: string
}

async function send(response: ServerResponse, { wire, fault, reply, random, id }: Sending): Promise<void> {
  if (fault === 'status') {
    const [status, message] = random.pick(statuses)
    return sendError(response, { status, wire, message })
  }
  const made = framesOf(wire, reply, { id, counts: countsOf(fault, random) })
  const frames = fault === 'odd' ? withOddFrames(made, wire, random) : made
  const isCut = fault === 'cut' || fault === 'reset' || fault === 'garbage'
  const kept = isCut ? frames.slice(0, random.below(frames.length)) : frames
  response.writeHead(200, { 'content-type': contentType(wire) })
  response.flushHeaders()
  for (const frame of kept) {
    response.write(frame)
    if (fault === 'slow') await sleep(random.below(4))
  }
  if (fault === 'garbage') response.write(wire === 'bedrock' ? Buffer.alloc(64, 7) : 'data: {"broken": \n\n')
  if (fault === 'reset') response.destroy()
  else response.end()
}

function sendError(
  response: ServerResponse,
  { status, wire, message }: { readonly status: number; readonly wire: Wire; readonly message: string },
): void {
  const isPlain = message.startsWith('<')
  const error = { message, type: 'server_error', code: status }
  const json = wire === 'bedrock' ? { message } : { type: 'error', error }
  response.writeHead(status, { 'content-type': isPlain ? 'text/html' : 'application/json' })
  response.end(isPlain ? message : JSON.stringify(json))
}
