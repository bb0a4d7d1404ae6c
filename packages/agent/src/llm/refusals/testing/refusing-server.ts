import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { crc32 } from 'node:zlib'
import type { Json } from '../request-body.ts'

/** Status and body; with 200 it is an error inside of the stream. */
export type Answer = readonly [status: number, body: unknown]

/** A server of every interface that refuses what it is told to, and answers anything else with a word. */
export class RefusingServer implements AsyncDisposable {
  refuse: (body: Json, path: string) => Answer | undefined = () => undefined
  /** Asked first; refuses for what is not in the body. */
  authorize: (path: string, headers: IncomingHttpHeaders, text: string) => Answer | undefined = () =>
    undefined
  /** The text of its answers to chats. */
  reply = 'Yes.'
  /** Told by the list of its models, as vLLM does. */
  maxModelLength: number | undefined
  /** Texts of the requests. */
  requests: string[] = []
  readonly #server: Server

  private constructor() {
    this.#server = createServer((request, response) => {
      text(request).then(
        (body) => {
          const path = request.url ?? ''
          this.#answer(path, body, response, this.authorize(path, request.headers, body))
        },
        () => response.destroy(),
      )
    })
  }

  static async open(): Promise<RefusingServer> {
    const server = new RefusingServer()
    await new Promise<void>((done) => server.#server.listen(0, '127.0.0.1', done))
    return server
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` // it listens on a port
  }

  #answer(path: string, body: string, response: ServerResponse, denied: Answer | undefined): void {
    if (body === '') {
      const isTold = this.maxModelLength !== undefined && path.endsWith('/models')
      response.writeHead(isTold ? 200 : 404, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ data: [{ id: 'm', max_model_len: this.maxModelLength }] }))
      return
    }
    this.requests.push(body)
    const refused = denied ?? this.refuse(JSON.parse(body), path)
    if (refused === undefined) {
      const isBinary = path.endsWith('/converse-stream')
      const contentType = isBinary ? 'application/vnd.amazon.eventstream' : 'text/event-stream'
      response.writeHead(200, { 'content-type': contentType })
      response.end(isBinary ? Buffer.concat(bedrockReply.map(encodeEvent)) : replyTo(path, this.reply))
      return
    }
    const [status, answer] = refused
    const json = JSON.stringify(answer)
    response.writeHead(status, { 'content-type': status === 200 ? 'text/event-stream' : 'application/json' })
    response.end(status === 200 ? `data: ${json}\n\ndata: [DONE]\n\n` : json)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((done) => this.#server.close(done))
  }
}

const events = (list: readonly object[]) =>
  list
    .map((event) => {
      const type = Reflect.get(event, 'type')
      return `${type === undefined ? '' : `event: ${type}\n`}data: ${JSON.stringify(event)}\n\n`
    })
    .join('')

function replyTo(path: string, content: string): string {
  if (path.endsWith('/chat/completions')) {
    const choices = [{ index: 0, delta: { role: 'assistant', content }, finish_reason: 'stop' }]
    return `${events([{ id: 'chatcmpl-1234567890', choices }])}data: [DONE]\n\n`
  }
  if (path.endsWith('/responses')) {
    const response = { id: 'resp_1', created_at: 1, model: 'm', output: [], usage: null }
    const item = { type: 'message', id: 'msg_1', role: 'assistant', content: [] }
    const at = { item_id: 'msg_1', output_index: 0, content_index: 0 }
    return events([
      { type: 'response.created', response },
      { type: 'response.output_item.added', output_index: 0, item },
      { type: 'response.output_text.delta', ...at, delta: 'Yes.' },
      { type: 'response.output_item.done', output_index: 0, item },
      { type: 'response.completed', response: { ...response, usage: { input_tokens: 9, output_tokens: 1 } } },
    ])
  }
  if (path.includes(':streamGenerateContent')) {
    const candidates = [
      { content: { role: 'model', parts: [{ text: 'Yes.' }] }, finishReason: 'STOP', index: 0 },
    ]
    return events([{ candidates }])
  }
  const usage = { input_tokens: 9, output_tokens: 1 }
  return events([
    {
      type: 'message_start',
      message: { id: 'msg_1', type: 'message', role: 'assistant', content: [], usage },
    },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Yes.' } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage },
    { type: 'message_stop' },
  ])
}

const bedrockReply: readonly (readonly [type: string, event: object])[] = [
  ['messageStart', { role: 'assistant' }],
  ['contentBlockDelta', { contentBlockIndex: 0, delta: { text: 'Yes.' } }],
  ['contentBlockStop', { contentBlockIndex: 0 }],
  ['messageStop', { stopReason: 'end_turn' }],
]

/** An event in the binary form of Amazon's streams. */
export function encodeEvent([type, event]: readonly [string, object]): Buffer {
  const header = (name: string, value: string) => {
    const length = Buffer.alloc(2)
    length.writeUInt16BE(value.length)
    return Buffer.concat([
      Buffer.from([name.length]),
      Buffer.from(name),
      Buffer.from([7]),
      length,
      Buffer.from(value),
    ])
  }
  const headers = Buffer.concat([
    header(':message-type', 'event'),
    header(':event-type', type),
    header(':content-type', 'application/json'),
  ])
  const payload = Buffer.from(JSON.stringify(event))
  const start = Buffer.alloc(8)
  start.writeUInt32BE(16 + headers.length + payload.length)
  start.writeUInt32BE(headers.length, 4)
  const sum = (bytes: Buffer) => {
    const four = Buffer.alloc(4)
    four.writeUInt32BE(crc32(bytes))
    return four
  }
  const whole = Buffer.concat([start, sum(start), headers, payload])
  return Buffer.concat([whole, sum(whole)])
}
