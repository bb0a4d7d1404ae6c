import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { listen } from './listen.ts'

/**
 * A provider of chat completions: `node model.ts <ms>` replies to each POST with server-sent events, the
 * first chunk of the text after this many milliseconds, the others 5 ms apart.
 */
const delayMs = Number(process.argv[2])
const textPieces = ['The', ' answer', ' is', ' forty', '-two', '.']

function chunk(members: object): string {
  const common = { id: 'chatcmpl-bench', object: 'chat.completion.chunk', created: 1, model: 'bench' }
  return `data: ${JSON.stringify({ ...common, ...members })}\n\n`
}

const usage = {
  prompt_tokens: 100,
  completion_tokens: textPieces.length,
  total_tokens: 100 + textPieces.length,
}

await listen(
  createServer(async (request, response) => {
    await json(request)
    await sleep(delayMs)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const content of textPieces) {
      response.write(chunk({ choices: [{ index: 0, delta: { content }, finish_reason: null }] }))
      await sleep(5)
    }
    response.write(chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }))
    response.end(`${chunk({ choices: [], usage })}data: [DONE]\n\n`)
  }),
)
