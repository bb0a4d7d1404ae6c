import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { LLMock } from '@copilotkit/aimock'
import { llm } from '@slipway/protocol'
import type { ModelTool, OpenModel } from '../model.ts'

export const question = 'What is the weather?'
export const content = 'I look at Kiel and at Osló first; it is grey there — so far.'
export const finalContent = 'It is grey in both towns.'
const reasoning = 'The user wants two towns. I call the tool twice.'

export const wires = ['chat', 'responses', 'compatible', 'anthropic', 'google', 'azure', 'bedrock'] as const
export type Wire = (typeof wires)[number]

/** Settings of a model of an interface at an address. */
export function wireSettings(wire: Wire, url: string): Record<string, unknown> {
  switch (wire) {
    case 'chat':
      return { model: 'openai/gpt-4o', base_url: `${url}/v1` }
    case 'responses':
      return { model: 'openai/gpt-5', base_url: `${url}/v1`, api_mode: 'responses' }
    case 'compatible':
      return { model: 'openai-compatible/qwen', base_url: `${url}/v1` }
    case 'anthropic':
      return { model: 'anthropic/claude-sonnet-4-5', base_url: url }
    case 'google':
      return { model: 'gemini/gemini-2.5-pro', base_url: url }
    case 'azure':
      return { model: 'azure/gpt-4o', base_url: url }
    case 'bedrock':
      return { model: 'bedrock/anthropic.claude-sonnet-4-5', base_url: url }
  }
}

interface Recording {
  readonly contentType: string
  readonly bytes: Buffer
}

export const faultKinds = ['close', 'reset', 'silence', 'error'] as const

export interface StreamFault {
  /** Bytes of the stream before it. */
  readonly at: number
  readonly kind: (typeof faultKinds)[number]
}

/** The tool that the recorded reply calls twice. */
export const thinkTool: ModelTool = {
  name: 'think',
  description: 'Thinks about a town',
  parameters: { type: 'object', properties: { thought: { type: 'string' } } },
}

/** Requests with results of tools, by interface. */
const resultMarks = /"(?:role":\s?"tool"|function_call_output"|tool_result"|toolResult"|functionResponse")/

/**
 * A provider of every interface that plays recorded streams: the reply with reasoning, a text and two calls,
 * and a text once the request has their results. The first streams break as planned.
 */
export class BrokenProvider implements AsyncDisposable {
  faults: StreamFault[] = []
  wire: Wire = 'chat'
  readonly #mock: LLMock
  readonly #server: Server
  readonly #silent = new Set<ServerResponse>()
  readonly #recordings = new Map<string, Recording>()

  private constructor(mock: LLMock) {
    this.#mock = mock
    this.#server = createServer((request, response) => {
      text(request).then(
        (body) => this.#play(response, resultMarks.test(body)),
        () => response.destroy(),
      )
    })
  }

  static async open(openModel: OpenModel): Promise<BrokenProvider> {
    const mock = new LLMock({ port: 0, host: '127.0.0.1', latency: 0 })
    await mock.start()
    const call = (thought: string, id: string) => ({
      name: thinkTool.name,
      arguments: JSON.stringify({ thought }),
      id,
    })
    mock.onMessage(question, {
      content,
      reasoning,
      toolCalls: [call('Kiel', 'call_one_1234'), call('Osló', 'call_two_1234')],
    })
    mock.onMessage('And then?', { content: finalContent })
    const provider = new BrokenProvider(mock)
    for (const wire of wires)
      for (const [name, asked] of [
        ['calls', question],
        ['final', 'And then?'],
      ] as const)
        provider.#recordings.set(
          `${wire} ${name}`,
          await record(openModel, wireSettings(wire, mock.url), asked),
        )
    await new Promise<void>((done) => provider.#server.listen(0, '127.0.0.1', done))
    return provider
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` // it listens on a port
  }

  /** The stream of the reply with calls, or of the final one. */
  recording(name: 'calls' | 'final' = 'calls'): Recording {
    const recording = this.#recordings.get(`${this.wire} ${name}`)
    if (recording === undefined) throw new Error('not recorded')
    return recording
  }

  /** Begins again with the first stream. */
  restart(wire: Wire, faults: readonly StreamFault[]): void {
    this.wire = wire
    this.faults = [...faults]
  }

  /** Ends the streams that are silent. */
  endSilent(): void {
    for (const response of this.#silent) response.destroy()
    this.#silent.clear()
  }

  #play(response: ServerResponse, hasResults: boolean): void {
    const { bytes, contentType } = this.recording(hasResults ? 'final' : 'calls')
    const fault = this.faults.shift()
    response.writeHead(200, { 'content-type': contentType })
    response.flushHeaders()
    if (fault === undefined) {
      response.end(bytes)
      return
    }
    const part = bytes.subarray(0, Math.min(fault.at, bytes.length - 1))
    if (part.length > 0) response.write(part)
    switch (fault.kind) {
      case 'close':
        response.end()
        break
      case 'reset':
        setImmediate(() => response.destroy())
        break
      case 'silence':
        this.#silent.add(response)
        break
      case 'error':
        response.end(errorEvent(this.wire))
        break
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.endSilent()
    this.#server.closeAllConnections()
    await new Promise((done) => this.#server.close(done))
    await this.#mock.stop()
  }
}

async function record(
  openModel: OpenModel,
  settings: Record<string, unknown>,
  asked: string,
): Promise<Recording> {
  let recorded: Recording | undefined
  const model = openModel(llm.parse({ ...settings, api_key: 'sk-secret-key' }), {
    fetch: async (input, init) => {
      const response = await fetch(input, init)
      const bytes = Buffer.from(await response.arrayBuffer())
      recorded = { bytes, contentType: response.headers.get('content-type') ?? '' }
      return new Response(bytes, response)
    },
  })
  const content = [{ type: 'text' as const, text: asked, cache_prompt: false }]
  const messages = [{ role: 'user' as const, content, thinking_blocks: [] }]
  const result = await model.generate({ messages, tools: [thinkTool] }, new AbortController().signal)
  if (result.kind !== 'reply' || recorded === undefined) throw new Error('nothing was recorded')
  return recorded
}

/** An overload inside the stream, where the interface has a form for it; else the connection closes. */
function errorEvent(wire: Wire): string {
  const error = { code: 'overloaded_error', message: 'Overloaded' }
  if (wire === 'bedrock') return ''
  const event = wire === 'anthropic' || wire === 'responses' ? 'event: error\n' : ''
  const data =
    wire === 'responses'
      ? { type: 'error', sequence_number: 1, ...error }
      : { type: 'error', error: { ...error, type: 'overloaded_error' } }
  return `\n\n${event}data: ${JSON.stringify(wire === 'anthropic' || wire === 'responses' ? data : { error })}\n\n`
}
