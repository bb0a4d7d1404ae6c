import type { Client } from '@slipway/client'
import { Problem } from '@slipway/protocol/client'
import { Secret } from '@slipway/shared/redaction'
import { buildLlm, type SelectedModel } from '../conversation/agent-request.ts'
import { isInteractive } from '../conversation/confirmation-prompt.ts'
import { readSavedModel, savedModelProfile } from '../conversation/saved-model.ts'
import { sanitizeLine } from '../output/sanitize.ts'
import { printNote } from '../output/terminal.ts'

const providers = [
  { value: 'anthropic', label: 'Anthropic', example: 'claude-sonnet-4-5' },
  { value: 'openai', label: 'OpenAI', example: 'gpt-5' },
  { value: 'gemini', label: 'Google Gemini', example: 'gemini-2.5-pro' },
  { value: 'openrouter', label: 'OpenRouter', example: 'anthropic/claude-sonnet-4.5' },
  {
    value: 'openai-compatible',
    label: 'A local or other server (Ollama, vLLM, LM Studio …)',
    example: 'qwen3',
  },
] as const

/**
 * The settings of the model of a new conversation: the named one, else the saved one, else the one that the
 * user chooses, which is tested before it is saved. A Problem where there is no terminal to ask at.
 */
export async function chooseModel(
  client: Client,
  named: SelectedModel | undefined,
  signal: AbortSignal,
): Promise<SelectedModel> {
  if (named !== undefined) return named
  const saved = await readSavedModel(client, signal)
  if (saved !== undefined) return saved
  if (!isInteractive()) {
    throw new Problem(
      'bad_request',
      'There is no model yet. Name one with LLM_MODEL and LLM_API_KEY, or run: slipway',
    )
  }
  return await askModel(client, signal)
}

/** Asks for a model until one answers, and saves it. */
export async function askModel(client: Client, signal: AbortSignal): Promise<SelectedModel> {
  const prompts = await import('@clack/prompts')
  const output = process.stderr
  const check = (answer: string | symbol): string => {
    if (typeof answer === 'symbol') throw new Problem('bad_request', 'No model was chosen.')
    return answer
  }
  printNote('Slipway needs a model. It is tested, then kept here with its key sealed.')
  for (;;) {
    const provider = check(
      await prompts.select({
        message: 'Which provider?',
        options: providers.map((one) => ({ ...one })),
        output,
        signal,
      }),
    )
    const isOwn = provider === 'openai-compatible'
    const { example = '' } = providers.find(({ value }) => value === provider) ?? {}
    const address = isOwn
      ? check(
          await prompts.text({
            message: 'The address of its API',
            placeholder: 'http://127.0.0.1:11434/v1',
            defaultValue: 'http://127.0.0.1:11434/v1',
            output,
            signal,
          }),
        )
      : undefined
    const name = check(
      await prompts.text({
        message: 'The name of the model',
        placeholder: example,
        defaultValue: example,
        output,
        signal,
      }),
    )
    const key = check(
      await prompts.password({
        message: isOwn ? 'Its API key (may be empty)' : 'Its API key',
        output,
        signal,
      }),
    )
    const model = {
      name: name.startsWith(`${provider}/`) ? name : `${provider}/${name}`,
      baseUrl: address,
      apiKey: key ? new Secret(key) : undefined,
    }
    const refusal = await testModel(client, model, signal)
    if (refusal === undefined) {
      const body = { llm: buildLlm(model), include_secrets: true }
      await client.call('saveProfile', { params: { name: savedModelProfile }, body, signal })
      return model
    }
    printNote(`The model does not answer: ${refusal}`)
  }
}

/** Why it does not answer; undefined when it does. */
async function testModel(
  client: Client,
  model: SelectedModel,
  signal: AbortSignal,
): Promise<string | undefined> {
  printNote(`Asking ${sanitizeLine(model.name)} …`)
  const params = { name: savedModelProfile }
  const llm = buildLlm(model)
  const { valid, error } = await client.call('validateProfile', { params, body: { llm }, signal })
  const reason = sanitizeLine(`${error?.type ?? 'error'}: ${error?.message ?? ''}`)
  if (!valid) return reason
  if (error !== null) printNote(`The model did not answer, and is saved all the same: ${reason}`)
  return undefined
}
