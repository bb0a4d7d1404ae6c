import { hash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { builtFolder } from '../built-folder.ts'
import { freePort } from '../free-port.ts'
import { findPython } from '../python.ts'
import { goTemplates } from './chat-templates.ts'
import { answers, llmAt, type ModelServer, type ModelServerOptions, ProcessGroup } from './model-server.ts'

/** Ollama as `.ci/ollama` has built it. */
export function findOllama(): string | undefined {
  const list = resolve(import.meta.dirname, '../../../.ci/ollama-sources/go.mod')
  const program = join(builtFolder('ollama', list), 'ollama')
  return existsSync(program) && findPython('model') !== undefined ? program : undefined
}

export async function openOllama(options: ModelServerOptions): Promise<ModelServer> {
  const program = findOllama()
  if (program === undefined) throw new Error('.ci/ollama has not run')
  const data = await mkdtemp(join(tmpdir(), 'slipway-ollama-'))
  const server = new OllamaServer(program, { ...options, port: await freePort(), data })
  await server.start()
  await server.createModel()
  return server
}

interface OllamaOptions extends ModelServerOptions {
  readonly port: number
  readonly data: string
}

class OllamaServer implements ModelServer {
  readonly #program: string
  readonly #options: OllamaOptions
  readonly #processes = new ProcessGroup()

  constructor(program: string, options: OllamaOptions) {
    this.#program = program
    this.#options = options
  }

  get llm() {
    return llmAt('ollama', this.#options.port)
  }

  get #url(): string {
    return `http://127.0.0.1:${this.#options.port}`
  }

  async start(): Promise<void> {
    const { data, window } = this.#options
    const env = {
      PATH: process.env.PATH,
      HOME: data,
      OLLAMA_HOST: this.#url,
      OLLAMA_MODELS: join(data, 'models'),
      // As docs/guide/models.md says.
      OLLAMA_CONTEXT_LENGTH: String(window),
      OLLAMA_NUM_PARALLEL: '1',
    }
    await this.#processes.start([this.#program, 'serve'], { env, isReady: () => answers(this.#url) })
  }

  /** From the file of the model; its templates and what ends an answer are parts of the model. */
  async createModel(): Promise<void> {
    const { hasTools = false, stop = [] } = this.#options
    const bytes = await readFile(await modelFile())
    const digest = `sha256:${hash('sha256', bytes)}`
    await this.#post(`/api/blobs/${digest}`, bytes)
    const template = hasTools ? goTemplates.tools : goTemplates.plain
    const parameters = { temperature: 0, num_thread: 1, stop: ['<|im_end|>', ...stop] }
    const files = { 'smollm2.gguf': digest }
    const model = { model: 'smollm2', files, template, parameters, stream: false }
    await this.#post('/api/create', JSON.stringify(model))
  }

  async #post(path: string, body: BodyInit): Promise<void> {
    const response = await fetch(`${this.#url}${path}`, { method: 'POST', body })
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
  }

  async kill(): Promise<void> {
    await this.#processes.kill()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
    await rm(this.#options.data, { recursive: true, force: true })
  }
}

/** In the package of the model, which `.ci/python model` installs. */
async function modelFile(): Promise<string> {
  const library = resolve(findPython('model') ?? '', '../../lib')
  const found = (await readdir(library, { recursive: true })).find((name) => name.endsWith('.gguf'))
  return join(library, String(found))
}
