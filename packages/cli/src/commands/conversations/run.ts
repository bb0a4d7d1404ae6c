import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { CallError } from '@slipway/client'
import type { CommandRule } from '@slipway/protocol'
import { Problem } from '@slipway/protocol/client'
import { isRecord, parseJson } from '@slipway/shared/json'
import type { CommandContext } from '../../context/command-context.ts'
import {
  buildAgent,
  buildConfirmationSettings,
  buildLlm,
  type SelectedModel,
} from '../../conversation/agent-request.ts'
import { readAgentMcpServers } from '../../conversation/mcp-servers.ts'
import { readSavedModel } from '../../conversation/saved-model.ts'
import { asObject } from '../../output/action-text.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printNote } from '../../output/terminal.ts'
import { exitCodes, followRun } from './follow-run.ts'

export interface RunOptions {
  /** The conversation to continue; undefined: a new one. */
  readonly conversation?: string | undefined
  /** The working directory on the server. */
  readonly workspace: string
  readonly model: SelectedModel | undefined
  readonly isYes: boolean
  /**
   * Every action needs confirmation; false: risky ones do. Undefined: as before, in a new
   * conversation false.
   */
  readonly isAsking: boolean | undefined
  readonly maxIterations?: number | undefined
  /** A file with a JSON Schema for the final answer. */
  readonly outputSchema: string | undefined
  /** They replace those that the conversation has; none: they stay. */
  readonly rules: readonly CommandRule[]
  /** Names of stored secrets that the agent may use. */
  readonly secrets?: readonly string[] | undefined
  /** Do not follow the run. */
  readonly isDetached?: boolean
  /** Limits of each run. */
  readonly limits: Readonly<Record<'cost' | 'tokens' | 'seconds', number | undefined>>
}

/** Starts or continues a conversation and follows its run. Returns the exit code. */
export async function runCommand(
  context: CommandContext,
  message: string | undefined,
  options: RunOptions,
): Promise<number> {
  const text = message === '-' ? await readStdin() : message
  if (text?.trim() === '')
    throw new Problem(
      'bad_request',
      `The message is empty${message === '-' ? ': nothing came from standard input' : ''}. Nothing was sent to a model.`,
    )
  const { conversation, isYes } = options
  const run =
    conversation === undefined
      ? await startConversation(context, text ?? '', options)
      : await continueConversation(context, conversation, { ...options, text })
  if (options.isDetached) {
    printNote(`It runs on the server. Follow it with: slipway logs -f ${run.id.slice(0, 8)}`)
    return exitCodes.finished
  }
  return await followRun(context, run.id, { after: run.after, isYes })
}

async function startConversation(context: CommandContext, text: string, options: RunOptions) {
  const { client, signal } = context
  const { workspace, isAsking, maxIterations, secrets = [] } = options
  const patch = patchRequest(options)
  const model = options.model ?? (await readSavedModel(client, signal))
  if (model === undefined) {
    throw new Problem(
      'bad_request',
      'There is no model. Name one with --model anthropic/NAME or LLM_MODEL, or keep one with: slipway',
    )
  }
  const directory = resolve(workspace)
  await assertDirectory(context, directory)
  // The client chooses the id, so that an abort can interrupt the conversation.
  const id = randomUUID()
  const body = {
    conversation_id: id,
    agent: buildAgent(buildLlm(model), await readAgentMcpServers(client, signal)),
    workspace: { working_dir: directory },
    initial_message: { content: [{ type: 'text' as const, text }], run: true },
    ...buildConfirmationSettings(isAsking ?? false),
    max_iterations: maxIterations,
    response_schema: await readSchema(options.outputSchema),
    secrets: await secretReferences(context, secrets),
    ...patch,
  }
  await client.call('createConversation', { body, signal }).catch(async (error) => {
    if (signal.aborted) await interruptConversation(context, id)
    throw error
  })
  await reportConversation(context, id)
  return { id, after: 0 }
}

async function continueConversation(
  context: CommandContext,
  id: string,
  options: RunOptions & { readonly text: string | undefined },
) {
  const { client, signal } = context
  const params = { conversation_id: id }
  const { text, model, isAsking } = options
  const info = await client.call('getConversation', { params, signal })
  if (asObject(info.agent.llm).model === 'none') {
    throw new Problem('conflict', 'This conversation has no agent that could run: it was imported.')
  }
  const after = await client.call('countEvents', { params, signal })
  if (model !== undefined) {
    await client.call('switchLlm', { params, body: { llm: buildLlm(model) }, signal })
  }
  const body = patchRequest(options)
  if (Object.keys(body).length > 0) await client.call('patchConversation', { params, body, signal })
  if (isAsking !== undefined) {
    const { confirmation_policy: policy } = buildConfirmationSettings(isAsking)
    await client.call('setConfirmationPolicy', { params, body: { policy }, signal })
  }
  await reportConversation(context, id)
  if (text === undefined) await client.call('runConversation', { params, signal })
  else
    await client.call('sendMessage', {
      params,
      body: { content: [{ type: 'text', text }], run: true },
      signal,
    })
  return { id, after }
}

/** Stored secrets by reference: their values are read when a command names them. */
async function secretReferences(context: CommandContext, names: readonly string[]) {
  if (names.length === 0) return undefined
  const { client, signal } = context
  const { secrets } = await client.call('listSecrets', { query: {}, signal })
  const missing = names.find((name) => !secrets.some((secret) => secret.name === name))
  if (missing !== undefined)
    throw new Problem(
      'not_found',
      `There is no secret ${sanitizeLine(missing)}. Store it with: slipway secrets set ${sanitizeLine(missing)}`,
    )
  return Object.fromEntries(
    names.map((name) => [name, { kind: 'LookupSecret' as const, url: `/api/settings/secrets/${name}` }]),
  )
}

/** The server would create a missing directory, which is more often a typing error. */
async function assertDirectory({ client, signal }: CommandContext, path: string): Promise<void> {
  try {
    await client.call('searchSubdirectories', { query: { path, limit: '1' }, signal })
  } catch (error) {
    if (!(error instanceof CallError)) throw error
    // A server that does not show its directories decides itself.
    if (error.status !== 400 && error.status !== 404) return
    const advice = `Create it with "mkdir -p ${path}", or name another one with --workspace.`
    throw new Problem(
      'not_found',
      `The workspace ${path} is no directory on the machine of the server. ${advice}`,
    )
  }
}

/** Limits and rules that flags name. */
function patchRequest({ limits, rules }: RunOptions) {
  const hasLimits = Object.values(limits).some((limit) => limit !== undefined)
  return {
    ...(hasLimits ? { limits: { run: limits } } : {}),
    ...(rules.length > 0 ? { command_rules: [...rules] } : {}),
  }
}

async function readSchema(file: string | undefined) {
  if (file === undefined) return undefined
  const value = parseJson(await readFile(file, 'utf8'))
  if (isRecord(value)) return value
  throw new Problem('bad_request', `${file} is not a JSON Schema: it has no JSON object.`)
}

async function reportConversation({ isJson }: CommandContext, id: string): Promise<void> {
  if (isJson) await print(`${JSON.stringify({ conversation_id: id })}\n`)
  else printNote(`Conversation ${id}`)
}

async function interruptConversation({ client }: CommandContext, id: string): Promise<void> {
  const signal = AbortSignal.timeout(5_000)
  const params = { conversation_id: id }
  await client.call('interruptConversation', { params, signal }).catch(() => undefined)
}

async function readStdin(): Promise<string> {
  const chunks = await process.stdin.toArray()
  return Buffer.concat(chunks).toString('utf8')
}
