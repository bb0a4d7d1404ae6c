import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { freePort } from '../free-port.ts'
import { findPython, pythonEnv } from '../python.ts'
import { plainTemplate, toolTemplate } from './chat-templates.ts'
import { answers, llmAt, type ModelServer, type ModelServerOptions, ProcessGroup } from './model-server.ts'

const folder = resolve(import.meta.dirname, '../../clients/python')

export async function openVllm(options: ModelServerOptions): Promise<ModelServer> {
  const python = findPython('vllm')
  if (python === undefined) throw new Error('.ci/python vllm has not run')
  const data = await mkdtemp(join(tmpdir(), 'slipway-vllm-'))
  await writeFile(join(data, 'template.jinja'), options.hasTools ? toolTemplate : plainTemplate)
  const server = new VllmServer(python, { ...options, port: await freePort(), data })
  await server.start()
  return server
}

interface VllmOptions extends ModelServerOptions {
  readonly port: number
  readonly data: string
}

class VllmServer implements ModelServer {
  readonly #python: string
  readonly #options: VllmOptions
  readonly #processes = new ProcessGroup()

  constructor(python: string, options: VllmOptions) {
    this.#python = python
    this.#options = options
  }

  get llm() {
    return llmAt('vllm', this.#options.port)
  }

  async start(): Promise<void> {
    const { window, hasTools = false, stop = [], data, port } = this.#options
    const args = [
      ...['--served-model-name', 'smollm2', '--host', '127.0.0.1', '--port', String(port)],
      ...['--max-model-len', String(window), '--max-num-seqs', '2', '--enforce-eager'],
      ...['--chat-template', join(data, 'template.jinja')],
      ...(hasTools ? ['--enable-auto-tool-choice', '--tool-call-parser', 'hermes'] : []),
    ]
    const program = [this.#python, join(folder, 'vllm_server.py'), JSON.stringify({ data, stop }), ...args]
    await this.#processes.start(program, {
      env: pythonEnv(this.#python, data),
      isReady: () => answers(`http://127.0.0.1:${port}/health`),
    })
  }

  async kill(): Promise<void> {
    await this.#processes.kill()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
    await rm(this.#options.data, { recursive: true, force: true })
  }
}
