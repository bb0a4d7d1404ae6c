import type { Message, MessageToolCall } from '@slipway/protocol'
import { isRecord, parseJsonObject } from '@slipway/shared/json'
import type { ModelTool } from '../model.ts'

type Part = Message['content'][number]

const text = (value: string): Part => ({ type: 'text', text: value, cache_prompt: false })

/** Messages for a model without its own tool calls: tools, calls and results are texts. */
export function toTextMessages(messages: readonly Message[], tools: readonly ModelTool[]): Message[] {
  const names = new Map(
    messages.flatMap(({ tool_calls }) => (tool_calls ?? []).map(({ id, name }) => [id, name])),
  )
  const result: Message[] = []
  const section = text(toolsSection(tools))
  if (!messages.some(({ role }) => role === 'system'))
    result.push({ role: 'system', content: [section], thinking_blocks: [] })
  for (const message of messages) {
    const plain = toTextMessage(message, names)
    const last = result.at(-1)
    if (message.role === 'system' && !result.some(({ role }) => role === 'system')) {
      // The tools come before what varies, so that the beginning of the prompt stays the same.
      const [first, ...rest] = plain.content
      result.push({ ...plain, content: first === undefined ? [section] : [first, section, ...rest] })
    } else if (last?.role === 'user' && plain.role === 'user') {
      result[result.length - 1] = { ...last, content: [...last.content, ...plain.content] }
    } else result.push(plain)
  }
  return result
}

function toTextMessage(message: Message, names: ReadonlyMap<string, string>): Message {
  const { role, content, tool_calls, tool_call_id, name, ...rest } = message
  if (role === 'tool') {
    const tool = name ?? names.get(tool_call_id ?? '') ?? 'tool'
    const parts = [text(`<tool_result name="${tool}">`), ...content, text('</tool_result>')]
    return { role: 'user', content: parts, thinking_blocks: [] }
  }
  const calls = (tool_calls ?? []).map((call) => text(callText(call)))
  return { ...rest, role, content: [...content, ...calls] }
}

/** A call in the stated format. */
export function callText({ name, arguments: json }: MessageToolCall): string {
  const args = parseJsonObject(json)
  if (!isRecord(args)) return `<tool_call name="${name}">\n${json}\n</tool_call>`
  const parameters = Object.entries(args).map(([key, value]) => {
    const shown = typeof value === 'string' ? value : JSON.stringify(value)
    return `<parameter name="${key}">\n${shown}\n</parameter>\n`
  })
  return `<tool_call name="${name}">\n${parameters.join('')}</tool_call>`
}

function toolsSection(tools: readonly ModelTool[]): string {
  const list = tools.map(
    ({ name, description, parameters }) =>
      `## ${name}\n\n${description}\n\nParameters (JSON Schema): ${JSON.stringify(parameters)}`,
  )
  return `# Calling tools

Call a tool by ending your answer with one or more calls in exactly this form, values as they are, without escapes; lists and objects as JSON:

<tool_call name="TOOL">
<parameter name="PARAMETER">
value
</parameter>
</tool_call>

Write nothing after the last call: its result comes with the next message, as <tool_result>. Never write a result yourself.

${list.join('\n\n')}`
}
