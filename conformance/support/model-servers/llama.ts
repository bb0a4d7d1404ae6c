import { join, resolve } from 'node:path'
import { findPython, pythonEnv } from '../python.ts'
import { toolTemplate } from './chat-templates.ts'
import { llmAt, type ModelServer, type ModelServerOptions, ProcessGroup } from './model-server.ts'

const folder = resolve(import.meta.dirname, '../../clients/python')

export async function openLlama(options: ModelServerOptions): Promise<ModelServer> {
  const python = findPython('model')
  if (python === undefined) throw new Error('.ci/python model has not run')
  const server = new LlamaServer(python, options)
  await server.start()
  return server
}

class LlamaServer implements ModelServer {
  readonly #python: string
  readonly #options: ModelServerOptions
  readonly #processes = new ProcessGroup()
  #port = 0

  constructor(python: string, options: ModelServerOptions) {
    this.#python = python
    this.#options = options
  }

  get llm() {
    return llmAt('llama_cpp', this.#port)
  }

  async start(): Promise<void> {
    const { window, hasTools = false, stop = [] } = this.#options
    const chat_template = hasTools ? toolTemplate : null
    const settings = JSON.stringify({ n_ctx: window, port: this.#port, stop, chat_template })
    await this.#processes.start([this.#python, join(folder, 'model_server.py'), settings], {
      env: pythonEnv(this.#python, folder),
      isReady: (output) => {
        const address = /"address": "([^"]*)"/.exec(output)?.[1]
        this.#port = address === undefined ? this.#port : Number(new URL(address).port)
        return address !== undefined
      },
    })
  }

  async kill(): Promise<void> {
    await this.#processes.kill()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
  }
}
