import { type JSONRPCMessage, parseJSONRPCMessage, type Transport } from '@modelcontextprotocol/client'
import { parseJson } from '@slipway/shared/json'
import type { LineProcess } from './line-process.ts'

/** Messages of the protocol over a process. Closing it leaves the process running. */
export class LineTransport implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: (message: JSONRPCMessage) => void
  readonly #process: LineProcess

  constructor(process: LineProcess) {
    this.#process = process
  }

  async start(): Promise<void> {
    this.#process.setListener((line) => {
      const message = parseMessage(line)
      // Other output of the server is no message; it may say why the server fails.
      if (message === undefined) this.#process.addStray(line)
      else this.onmessage?.(message)
    })
    this.#process.ended.then(() => this.onclose?.()).catch(() => {})
  }

  async send(message: JSONRPCMessage): Promise<void> {
    await this.#process.write(JSON.stringify(message))
  }

  async close(): Promise<void> {
    this.#process.setListener(() => {})
    this.onclose?.()
  }
}

function parseMessage(line: string): JSONRPCMessage | undefined {
  try {
    return parseJSONRPCMessage(parseJson(line))
  } catch {
    return undefined
  }
}
