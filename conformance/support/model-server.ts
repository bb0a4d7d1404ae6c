import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { findPython, pythonEnv } from './python.ts'

const folder = resolve(import.meta.dirname, '../clients/python')

export interface ModelServerOptions {
  /** The context window, in tokens. */
  readonly window: number
  /** The chat template shows tools to the model; the template of the model itself does not. */
  readonly hasTools?: boolean
  /** What ends an answer, without being part of it, where the request names nothing. */
  readonly stop?: readonly string[]
}

/**
 * A server of the user's own with a small model, which a test can kill and start again at the same address.
 */
export interface ModelServer extends AsyncDisposable {
  /** The settings of a model at this server. */
  readonly llm: { readonly model: string; readonly base_url: string; readonly usage_id: string }
  start(): Promise<void>
  kill(): Promise<void>
}

/** The real servers that the same tests run against. */
export const modelServers = [
  { name: 'llama.cpp', isInstalled: findPython('model') !== undefined, open: openLlama },
] as const

async function openLlama(options: ModelServerOptions): Promise<ModelServer> {
  const python = findPython('model')
  if (python === undefined) throw new Error('.ci/python model has not run')
  const server = new LlamaServer(python, options)
  await server.start()
  return server
}

class LlamaServer implements ModelServer {
  readonly #python: string
  readonly #options: ModelServerOptions
  #child: ChildProcessWithoutNullStreams | undefined
  #port = 0

  constructor(python: string, options: ModelServerOptions) {
    this.#python = python
    this.#options = options
  }

  get llm() {
    return {
      model: 'llama_cpp/smollm2',
      base_url: `http://127.0.0.1:${this.#port}/v1`,
      usage_id: 'agent',
    }
  }

  async start(): Promise<void> {
    const { window, hasTools = false, stop = [] } = this.#options
    const chat_template = hasTools ? toolTemplate : null
    const settings = JSON.stringify({ n_ctx: window, port: this.#port, stop, chat_template })
    const args = [join(folder, 'model_server.py'), settings]
    this.#child = spawn(this.#python, args, { env: pythonEnv(this.#python, folder) })
    let errors = ''
    this.#child.stderr.on('data', (chunk) => {
      errors = (errors + chunk).slice(-20_000)
    })
    const lines = createInterface({ input: this.#child.stdout })
    const [line] = await Promise.race([
      once(lines, 'line'),
      once(this.#child, 'exit').then(() => {
        throw new Error(`The model server has ended: ${errors}`)
      }),
    ])
    this.#port = Number(new URL(JSON.parse(line).address).port)
  }

  async kill(): Promise<void> {
    const child = this.#child
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
  }
}

/** ChatML with tools, as the models of Hermes and Qwen have it. */
const toolTemplate = `{%- if tools %}
{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
{{- '# Tools\\n\\nYou may call one or more functions.\\n\\n<tools>' }}
{%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}
{{- '\\n</tools>\\n\\nFor each call, answer with a JSON object with name and arguments within <tool_call></tool_call>:\\n<tool_call>\\n{"name": <name>, "arguments": <object>}\\n</tool_call><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) + '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}`
