import { createServer, type Server as HttpServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'

/** A request to the model as it was on the wire. */
export interface RecordedRequest {
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
  /** Titles, judges and the like, which have no tools or may call none. */
  readonly isSide: boolean
}

/**
 * A provider on loopback that plays a task of shell commands to any agent: to each request with tools it
 * replies with the next command for the shell tool that it finds among them, then with a text. It speaks
 * chat completions, OpenAI Responses and Anthropic's Messages, all streamed. To a question where no tool may
 * be called, the judge's, it says that the goal is reached.
 */
export class ModelRecorder implements AsyncDisposable {
  readonly requests: RecordedRequest[] = []
  readonly #commands: readonly string[]
  readonly #server: HttpServer

  private constructor(commands: readonly string[]) {
    this.#commands = commands
    this.#server = createServer((request, response) => {
      const path = new URL(request.url ?? '/', 'http://localhost').pathname
      if (request.method !== 'POST') {
        response.writeHead(200, { 'content-type': 'application/json' }).end('{"object":"list","data":[]}')
        return
      }
      json(request).then(
        (body) => this.#reply(path, body as RecordedRequest['body'], response),
        () => response.writeHead(400).end(),
      )
    })
  }

  static async open(commands: readonly string[]): Promise<ModelRecorder> {
    const recorder = new ModelRecorder(commands)
    await new Promise<void>((done) => recorder.#server.listen(0, '127.0.0.1', done))
    return recorder
  }

  /** The base address of the interface, with `/v1`. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1` // it listens on a port
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((done) => this.#server.close(done))
  }

  #reply(path: string, body: RecordedRequest['body'], response: ServerResponse): void {
    const shell = shellTool(body)
    this.requests.push({ path, body, isSide: shell === undefined })
    const at = this.requests.filter(({ isSide }) => !isSide).length - 1
    const command = shell === undefined ? undefined : this.#commands[at]
    const call =
      shell === undefined || command === undefined
        ? undefined
        : { name: shell.name, arguments: JSON.stringify(shell.args(command)), id: `call_${at}` }
    const isJudge = body.tool_choice === 'none'
    const text = isJudge ? verdict : shell === undefined ? 'Fix of add' : 'The function add is fixed.'
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    if (path.endsWith('/responses')) endResponses(response, call, text, at)
    else if (path.endsWith('/messages')) endMessages(response, call, text, at)
    else endChat(response, call, text, at)
  }
}

interface ShellTool {
  readonly name: string
  readonly args: (command: string) => object
}

interface Call {
  readonly name: string
  readonly arguments: string
  readonly id: string
}

const verdict = '{"score": 1, "complete": true, "missing": ""}'

/** The tool for commands and its arguments, by its names in the agents that are measured. */
function shellTool({ tools, tool_choice }: RecordedRequest['body']): ShellTool | undefined {
  if (tool_choice === 'none') return undefined
  const all: readonly { name?: string; function?: { name?: string } }[] = Array.isArray(tools) ? tools : []
  const names = new Set(all.map((tool) => tool.function?.name ?? tool.name))
  const known: readonly ShellTool[] = [
    { name: 'terminal', args: (command) => ({ command, ...commonArguments(tools) }) },
    { name: 'bash', args: (command) => ({ command, description: 'Runs a command' }) },
    { name: 'Bash', args: (command) => ({ command, description: 'Runs a command' }) },
    { name: 'exec_command', args: (cmd) => ({ cmd }) },
    { name: 'shell_command', args: (command) => ({ command }) },
    { name: 'shell', args: (command) => ({ command: ['bash', '-lc', command] }) },
  ]
  return known.find(({ name }) => names.has(name))
}

/** Of our calls, where they are asked for. */
function commonArguments(tools: unknown): object {
  const hasRisk = JSON.stringify(tools).includes('"security_risk"')
  return hasRisk ? { security_risk: 'LOW', summary: 'Runs a command' } : {}
}

const usage = { input_tokens: 1000, output_tokens: 20, total_tokens: 1020 }

function endChat(response: ServerResponse, call: Call | undefined, text: string, at: number): void {
  const send = (members: object) => {
    const chunk = { id: `chatcmpl-${at}`, object: 'chat.completion.chunk', created: 1, model: 'bench' }
    response.write(`data: ${JSON.stringify({ ...chunk, ...members })}\n\n`)
  }
  const { id, ...inner } = call ?? { id: '' }
  const delta =
    call === undefined
      ? { role: 'assistant', content: text }
      : { role: 'assistant', tool_calls: [{ index: 0, id, type: 'function', function: inner }] }
  send({ choices: [{ index: 0, delta, finish_reason: null }] })
  send({ choices: [{ index: 0, delta: {}, finish_reason: call === undefined ? 'stop' : 'tool_calls' }] })
  const { input_tokens, output_tokens, total_tokens } = usage
  send({
    choices: [],
    usage: { prompt_tokens: input_tokens, completion_tokens: output_tokens, total_tokens },
  })
  response.end('data: [DONE]\n\n')
}

function endResponses(response: ServerResponse, call: Call | undefined, text: string, at: number): void {
  const id = `resp_${at}`
  const { id: callId, ...inner } = call ?? { id: '' }
  const item =
    call === undefined
      ? {
          ...{ type: 'message', id: `msg_${at}`, role: 'assistant', status: 'completed' },
          content: [{ type: 'output_text', text, annotations: [] }],
        }
      : { type: 'function_call', id: `fc_${at}`, call_id: callId, status: 'completed', ...inner }
  const send = (type: string, members: object) =>
    response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`)
  send('response.created', { response: { id, object: 'response', status: 'in_progress', output: [] } })
  send('response.output_item.added', { output_index: 0, item })
  send('response.output_item.done', { output_index: 0, item })
  const details = {
    input_tokens_details: { cached_tokens: 0 },
    output_tokens_details: { reasoning_tokens: 0 },
  }
  send('response.completed', {
    response: {
      id,
      object: 'response',
      status: 'completed',
      output: [item],
      usage: { ...usage, ...details },
    },
  })
  response.end()
}

function endMessages(response: ServerResponse, call: Call | undefined, text: string, at: number): void {
  const send = (type: string, members: object) =>
    response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`)
  const { input_tokens, output_tokens } = usage
  const message = {
    ...{ id: `msg_${at}`, type: 'message', role: 'assistant', model: 'bench', content: [] },
    ...{ stop_reason: null, stop_sequence: null, usage: { input_tokens, output_tokens: 1 } },
  }
  send('message_start', { message })
  const block =
    call === undefined
      ? { type: 'text', text: '' }
      : { type: 'tool_use', id: call.id, name: call.name, input: {} }
  const delta =
    call === undefined
      ? { type: 'text_delta', text }
      : { type: 'input_json_delta', partial_json: call.arguments }
  send('content_block_start', { index: 0, content_block: block })
  send('content_block_delta', { index: 0, delta })
  send('content_block_stop', { index: 0 })
  const stop_reason = call === undefined ? 'end_turn' : 'tool_use'
  send('message_delta', { delta: { stop_reason, stop_sequence: null }, usage: { output_tokens } })
  send('message_stop', {})
  response.end()
}
