import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'
import { listen } from './listen.ts'

/**
 * A provider of chat completions that calls one tool a number of times and then finishes:
 * `node tool-model.ts <calls>`. It counts the results in each request, so it serves any number of
 * conversations. `think` in the first message: the calls are thoughts, otherwise commands. A request that
 * asks for no stream receives one JSON object.
 */
const calls = Number(process.argv[2])
const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }

interface ChatRequest {
  readonly stream?: boolean
  readonly tools?: readonly unknown[]
  readonly messages: readonly { readonly role: string; readonly content?: unknown }[]
}

function nextMessage({ messages, tools }: ChatRequest): object {
  if (tools === undefined) return { role: 'assistant', content: 'A title' }
  const results = messages.filter(({ role }) => role === 'tool').length
  const isThought = messages.some(
    ({ role, content }) => role === 'user' && JSON.stringify(content).includes('think'),
  )
  const [name, args] =
    results >= calls
      ? ['finish', { message: 'Done.' }]
      : isThought
        ? ['think', { thought: `Thought ${results}.` }]
        : ['terminal', { command: `echo line ${results}` }]
  const tool_calls = [
    { id: `call_${results}`, type: 'function', function: { name, arguments: JSON.stringify(args) } },
  ]
  return { role: 'assistant', content: '', tool_calls }
}

await listen(
  createServer(async (request, response) => {
    const body = (await json(request)) as ChatRequest // of the servers under measurement
    const message = nextMessage(body)
    const finish_reason = 'tool_calls' in message ? 'tool_calls' : 'stop'
    const common = { id: 'chatcmpl-bench', created: 1, model: 'bench' }
    if (body.stream !== true) {
      const choices = [{ index: 0, message, finish_reason }]
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ ...common, object: 'chat.completion', choices, usage }))
      return
    }
    const send = (members: object) =>
      response.write(
        `data: ${JSON.stringify({ ...common, object: 'chat.completion.chunk', ...members })}\n\n`,
      )
    const { tool_calls, ...rest } = message as { tool_calls?: readonly object[] }
    const delta = {
      ...rest,
      ...(tool_calls && { tool_calls: tool_calls.map((one, index) => ({ index, ...one })) }),
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    send({ choices: [{ index: 0, delta, finish_reason: null }] })
    send({ choices: [{ index: 0, delta: {}, finish_reason }] })
    send({ choices: [], usage })
    response.end('data: [DONE]\n\n')
  }),
)
