import { asRecord, isRecord } from '@slipway/shared/json'
import { askServer, isOwnServer, type OwnServer } from './own-server.ts'

/**
 * What is known of a model at a server of the user's own. How many tokens it takes: none of its models is in
 * a price list, or it takes fewer than the model could. llama.cpp, vLLM, Ollama and LM Studio tell it, each
 * at its own place. And whether it sees tools: llama.cpp leaves them out of a chat template without one,
 * without a word.
 */

export interface AskedWindow {
  readonly tokens: number
  /** What is loaded takes that many; otherwise it is what the model could take. */
  readonly isLoaded: boolean
}

export interface ServerFacts {
  readonly window?: AskedWindow | undefined
  /** The server leaves tools out of what the model sees. */
  readonly dropsTools?: boolean
}

/** Empty when the server does not tell; hosted providers are not asked. */
export async function askServerFacts(options: OwnServer): Promise<ServerFacts> {
  const { route, llm } = options
  if (!isOwnServer(route)) return {}
  const { baseUrl = '', name } = route
  const listed = await askServer(options, `${baseUrl}/models`)
  if (listed === undefined) return {}
  const model = findModel(listed, name)
  const told = firstNumber(llm.max_input_tokens, model.max_model_len, asRecord(model.meta).n_ctx)
  const isLlama = model.owned_by === 'llamacpp'
  if (told !== undefined && !isLlama) return { window: told }
  const root = baseUrl.replace(/\/v\d+$/, '')
  const props = asRecord(await askServer(options, `${root}/props`))
  const dropsTools = asRecord(props.chat_template_caps).supports_tools === false
  const window = told ?? firstNumber(asRecord(props.default_generation_settings).n_ctx)
  return { dropsTools, window: window ?? (await askLoaded(options, root)) }
}

/** Of Ollama and LM Studio. */
async function askLoaded(options: OwnServer, root: string): Promise<AskedWindow | undefined> {
  const { name } = options.route
  const [loaded, studio] = await Promise.all([
    askServer(options, `${root}/api/ps`),
    askServer(options, `${root}/api/v0/models`),
  ])
  const ofStudio = findModel(studio, name)
  const known = firstNumber(findModel(loaded, name).context_length, ofStudio.loaded_context_length)
  if (known !== undefined || loaded === undefined) return known ?? possible(ofStudio.max_context_length)
  return await askOllama(options, `${root}/api/show`)
}

/** Before the model is loaded: what its file sets, else what it could take. */
async function askOllama(options: OwnServer, url: string): Promise<AskedWindow | undefined> {
  const shown = asRecord(await askServer(options, url, { model: options.route.name }))
  const set = /^num_ctx\s+(\d+)/m.exec(String(shown.parameters))?.[1]
  if (set !== undefined) return firstNumber(Number(set))
  const facts = Object.entries(asRecord(shown.model_info))
  return possible(facts.find(([name]) => name.endsWith('.context_length'))?.[1])
}

/** The entry of a model in a list; Ollama adds a tag to its name. */
function findModel(list: unknown, name: string): Record<string, unknown> {
  const { data, models } = asRecord(list)
  const entries = [data, models].flat().filter(isRecord)
  const isNamed = (value: unknown) => value === name || value === `${name}:latest`
  const named = entries.find(({ id, name: own, model }) => [id, own, model].some(isNamed))
  return named ?? (entries.length === 1 && 'id' in (entries[0] ?? {}) ? (entries[0] ?? {}) : {})
}

function firstNumber(...values: readonly unknown[]): AskedWindow | undefined {
  const tokens = values.find((value) => typeof value === 'number' && value > 0)
  return tokens === undefined ? undefined : { tokens: Number(tokens), isLoaded: true }
}

function possible(tokens: unknown): AskedWindow | undefined {
  return typeof tokens === 'number' && tokens > 0 ? { tokens, isLoaded: false } : undefined
}
