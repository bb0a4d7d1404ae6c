import { asRecord, isRecord, parseJson, parseJsonObject } from '@slipway/shared/json'

/**
 * Answers of OpenAI-like servers in the form that the library reads. Real servers send arguments as objects,
 * ids as numbers, names of tools in pieces, a use of tokens without `choices`, no reason for the end, an
 * answer that is not a stream, and keep a stream open after its end; each of these failed for ever.
 */
export function fitCompatibleAnswer(response: Response): Response {
  const type = response.headers.get('content-type') ?? ''
  if (!response.ok || response.body === null) return response
  const isWhole = type.includes('application/json')
  if (!isWhole && !type.includes('text/event-stream')) return type.includes('text/html') ? page() : response
  const fit = isWhole ? wholeAnswer() : streamedAnswer()
  const body = response.body.pipeThrough(new TextDecoderStream()).pipeThrough(fit)
  const headers = { 'content-type': 'text/event-stream' }
  return new Response(body.pipeThrough(new TextEncoderStream()), { status: response.status, headers })
}

/** No interface of a model answers with a page. */
function page(): Response {
  const message = 'The server answered with a web page: check base_url, which usually ends in /v1.'
  return Response.json({ error: { message } }, { status: 404 })
}

const maxLine = 32 * 1024 * 1024
const done = 'data: [DONE]\n\n'

function streamedAnswer(): TransformStream<string, string> {
  let held = ''
  const chunks = new ChunkReader()
  return new TransformStream({
    transform(text, controller) {
      held += text
      const lines = held.split(/\r?\n/)
      held = lines.pop() ?? ''
      if (held.length > maxLine) throw new Error('a line of the answer is too long')
      for (const line of lines) {
        if (/^data:\s*\[DONE\]/.test(line)) {
          controller.enqueue(`${chunks.ending()}${done}`)
          // Some servers leave the connection open.
          controller.terminate()
          return
        }
        controller.enqueue(`${line.startsWith('data:') ? chunks.fit(line) : line}\n`)
      }
    },
    flush(controller) {
      if (held !== '') controller.enqueue(`${held}\n`)
    },
  })
}

/** An answer that is not a stream, as one chunk of a stream. */
function wholeAnswer(): TransformStream<string, string> {
  let text = ''
  return new TransformStream({
    transform(piece) {
      text += piece
    },
    flush(controller) {
      const answer = parseJsonObject(text) ?? {}
      const choices = (Array.isArray(answer.choices) ? answer.choices : []).map((one: unknown) => {
        const { message, ...choice } = asRecord(one)
        return { ...choice, delta: withIndexes(asRecord(message)) }
      })
      const chunk = choices.length === 0 ? answer : { ...answer, object: 'chat.completion.chunk', choices }
      const chunks = new ChunkReader()
      controller.enqueue(`${chunks.fit(`data: ${JSON.stringify(chunk)}`)}\n\n${chunks.ending()}${done}`)
    },
  })
}

function withIndexes({ tool_calls, ...message }: Record<string, unknown>): Record<string, unknown> {
  if (!Array.isArray(tool_calls)) return message
  return { ...message, tool_calls: tool_calls.map((call, index) => ({ index, ...asRecord(call) })) }
}

/** MiniMax says with 200 why it does not answer. */
const errorTypes: Readonly<Record<number, string>> = {
  ...{ 1002: 'rate_limit_error', 1039: 'rate_limit_error', 1041: 'rate_limit_error' },
  ...{ 1004: 'authentication_error', 2049: 'authentication_error', 1008: 'insufficient_balance_error' },
  ...{ 1026: 'content_filter', 1027: 'content_filter', 2013: 'invalid_request_error' },
}

function errorOf(chunk: Record<string, unknown>): object | undefined {
  const { base_resp, choices, message, object, code: named } = chunk
  // Mistral, SGLang and DashScope name no `error` in a stream that has begun.
  const isError = object === 'error' || named !== undefined
  if (choices === undefined && typeof message === 'string' && isError) return chunk
  const { status_code: code, status_msg } = asRecord(base_resp)
  const isAnswered = Array.isArray(choices) && choices.length > 0
  if (typeof code !== 'number' || code === 0 || isAnswered) return undefined
  const said = typeof status_msg === 'string' ? `${status_msg} (${code})` : `Error ${code}`
  return { message: said, type: errorTypes[code] ?? 'server_error' }
}

class ChunkReader {
  #hasCalls = false
  #hasChoices = false
  #isFinished = false
  /** Calls of which only the name has come, which may come in pieces, by index. */
  readonly #held = new Map<unknown, Call>()

  /** A line of a stream, unchanged where the library reads it. */
  fit(line: string): string {
    const chunk = parseJson(line.slice('data:'.length))
    if (!isRecord(chunk) || chunk.error !== undefined) return line
    const error = errorOf(chunk)
    if (error !== undefined) return `data: ${JSON.stringify({ error })}`
    const choices = Array.isArray(chunk.choices) ? chunk.choices : []
    const fitted = choices.map((choice: unknown) => this.#choice(asRecord(choice)))
    const isSame = Array.isArray(chunk.choices) && fitted.every((one, at) => one === choices[at])
    return isSame ? line : `data: ${JSON.stringify({ ...chunk, choices: fitted })}`
  }

  /** The reason for the end, where the server gave none. */
  ending(): string {
    if (this.#isFinished || !this.#hasChoices) return ''
    const finish_reason = this.#hasCalls ? 'tool_calls' : 'stop'
    const delta = this.#held.size === 0 ? {} : { tool_calls: this.#release() }
    return `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`
  }

  #choice(choice: Record<string, unknown>): Record<string, unknown> {
    this.#hasChoices = true
    const isEnd = typeof choice.finish_reason === 'string'
    this.#isFinished ||= isEnd
    const { delta } = choice
    const given: unknown = isRecord(delta) ? delta.tool_calls : undefined
    const list: readonly unknown[] = Array.isArray(given) ? given : []
    if (list.length === 0 && !(isEnd && this.#held.size > 0)) return choice
    this.#hasCalls = true
    const calls = list.flatMap((call) => this.#whole(fitCall(asRecord(call))))
    if (isEnd) calls.push(...this.#release())
    if (calls.length === list.length && calls.every((call, at) => call === list[at])) return choice
    return { ...choice, delta: { ...asRecord(delta), tool_calls: calls.length === 0 ? undefined : calls } }
  }

  /** The calls that are to be sent: a call whose arguments have begun, and those before it. */
  #whole(call: Call): readonly Call[] {
    const { index } = call
    if (typeof index !== 'number') return [call]
    const { name, arguments: args } = asRecord(call.function)
    const held = this.#held.get(index)
    const isBegun = typeof args === 'string' && args !== ''
    if (held === undefined) {
      if (isBegun || typeof name !== 'string' || name === '') return [call]
      const others = this.#release()
      this.#held.set(index, call)
      return others
    }
    const joined = joinNames(asRecord(held.function).name, name)
    const next = {
      ...call,
      ...held,
      function: { ...asRecord(held.function), name: joined, arguments: args ?? '' },
    }
    this.#held.set(index, next)
    return isBegun ? this.#release() : []
  }

  #release(): Call[] {
    const calls = [...this.#held.values()]
    this.#held.clear()
    return calls
  }
}

type Call = Record<string, unknown>

/** Other servers send the whole name again, or all that has come of it. */
function joinNames(known: unknown, next: unknown): string {
  const name = String(known)
  if (typeof next !== 'string' || next === name) return name
  return next.startsWith(name) ? next : name + next
}

function fitCall(call: Record<string, unknown>): Record<string, unknown> {
  const { id, function: called } = call
  const { arguments: given } = asRecord(called)
  const isLoose = typeof given === 'object' && given !== null
  if (typeof id !== 'number' && !isLoose) return call
  return {
    ...call,
    ...(typeof id === 'number' && { id: String(id) }),
    ...(isLoose && { function: { ...asRecord(called), arguments: JSON.stringify(given) } }),
  }
}
