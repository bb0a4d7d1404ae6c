import { Problem, type TextContent } from '@slipway/protocol'
import { errorText, firstChars } from '@slipway/shared/text'
import { textBlock } from '../../tools/core/tool.ts'
import { findPromptCommand, type McpPrompt, promptArguments, promptUsage } from '../../tools/mcp/prompts.ts'
import type { AgentRuntime } from './agent-runtime.ts'
import { serverWords } from './server-instructions.ts'

/** Characters of a prompt for the model. */
const maxPrompt = 100_000

/** The prompts of the MCP servers of a conversation, which are connected for it. */
export async function listPrompts(runtime: AgentRuntime, signal: AbortSignal): Promise<McpPrompt[]> {
  if (runtime.repository.isPending)
    throw new Problem('conflict', 'The conversation waits for consent to what its repository brings.')
  await connect(runtime, signal)
  return runtime.prompts.map(({ get: _, ...prompt }) => prompt)
}

/**
 * The text of the prompt with which a message begins (`/server:name ARGUMENTS`); undefined for any other
 * message. A Problem `bad_request` when the server has no such prompt, an argument is missing, or the server
 * does not give it.
 */
export async function promptOfMessage(
  runtime: AgentRuntime,
  { message, redact }: { readonly message: string; readonly redact: (text: string) => string },
  signal: AbortSignal,
): Promise<TextContent | undefined> {
  const command = findPromptCommand(message, Object.keys(runtime.mcpServers))
  if (command === undefined || runtime.repository.isPending) return undefined
  await connect(runtime, signal)
  const { server, name, rest } = command
  const own = runtime.prompts.filter((prompt) => prompt.server === server)
  const prompt = own.find((one) => one.name === name)
  if (prompt === undefined) {
    const names = own.map(promptUsage).join(', ')
    throw new Problem(
      'bad_request',
      `The MCP server ${server} has no prompt ${JSON.stringify(name)}. It has: ${names || 'none'}`,
    )
  }
  const answer = await prompt.get(promptArguments(prompt, rest), signal)
  if ('failure' in answer) throw new Problem('bad_request', answer.failure)
  const text = firstChars(redact(answer.text), maxPrompt)
  const intro = 'The user has started a prompt of an MCP server. Do what it says:'
  return textBlock(`${intro}\n${serverWords('server_prompt', server, text)}`)
}

async function connect(runtime: AgentRuntime, signal: AbortSignal): Promise<void> {
  await runtime.connect(signal).catch((error: unknown) => {
    signal.throwIfAborted()
    throw new Problem('conflict', errorText(error))
  })
}
