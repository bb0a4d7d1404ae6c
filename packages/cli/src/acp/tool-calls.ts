import type {
  ToolCall,
  ToolCallContent,
  ToolCallLocation,
  ToolCallUpdate,
  ToolKind,
} from '@agentclientprotocol/sdk/unstable'
import { shownAction } from '@slipway/protocol/confirmation'
import { fence } from '@slipway/protocol/event-text'
import { visibleText } from '@slipway/protocol/visible-text'
import { actionText, asObject, asString, type JsonObject } from '../output/action-text.ts'
import { truncate } from '../output/sanitize.ts'

const maxTitleCharacters = 500
/** Longer outputs are cut: the log has the whole. */
const maxOutputCharacters = 50_000

const kinds: readonly (readonly [RegExp, ToolKind])[] = [
  [/^(Background)?TerminalAction$/, 'execute'],
  [/^(Edit|WriteFile|ApplyPatch)Action$/, 'edit'],
  [/^(ReadFile|ListDirectory)Action$/, 'read'],
  [/^(Glob|Grep)Action$/, 'search'],
  [/^(WebFetch|Browser\w*)Action$/, 'fetch'],
  [/^(Think|TaskTracker)Action$/, 'think'],
]

function toolKind(action: JsonObject): ToolKind {
  const kind = asString(action.kind)
  if (/FileEditorAction$/.test(kind)) return action.command === 'view' ? 'read' : 'edit'
  return kinds.find(([pattern]) => pattern.test(kind))?.[1] ?? 'other'
}

/** What an editor shows of an ActionEvent, before there is a result. */
export function toToolCall(event: JsonObject): ToolCall {
  const action = asObject(event.action)
  const { tool, lines } = shownAction(event)
  const text = visibleText(truncate(actionText(event.action), maxTitleCharacters))
  const diff = editOf(action)
  // Of an edit the difference has its own form; what else the call asks for is shown too.
  const rest = lines.filter(({ kind }) => diff === undefined || kind === 'member').map((line) => line.text)
  const isCommand = toolKind(action) === 'execute' && lines.every(({ kind }) => kind === 'command')
  return {
    toolCallId: asString(event.id),
    title: toolKind(action) === 'execute' ? text : `${tool}: ${text}`,
    name: asString(event.tool_name),
    kind: toolKind(action),
    status: 'pending',
    rawInput: event.action ?? event.tool_call,
    locations: locationsOf(action),
    content: [
      ...(diff === undefined ? [] : [diff]),
      ...(rest.length === 0 || (isCommand && rest.length === 1) ? [] : [textContent(fence(rest.join('\n')))]),
    ],
  }
}

/** The outcome of a call, from its ObservationEvent. */
export function toToolResult(toolCallId: string, observation: JsonObject): ToolCallUpdate {
  const { old_content, new_content, path, content: _, ...rawOutput } = observation
  const isFailed = observation.is_error === true
  const isEdit = typeof path === 'string' && typeof new_content === 'string' && !isFailed
  const output = truncate(contentTexts(observation.content).join('\n'), maxOutputCharacters)
  const isCommand = asString(observation.kind).endsWith('TerminalObservation')
  const texts =
    output.trim() === '' ? [] : [textContent(isCommand ? fence(output.replace(/\n$/, '')) : output)]
  const content: ToolCallContent[] = isEdit
    ? [
        {
          type: 'diff',
          path,
          oldText: typeof old_content === 'string' ? old_content : null,
          newText: new_content,
        },
      ]
    : texts
  return {
    toolCallId,
    status: isFailed ? 'failed' : 'completed',
    ...(content.length === 0 ? {} : { content }),
    rawOutput,
  }
}

export function textContent(text: string): ToolCallContent {
  return { type: 'content', content: { type: 'text', text } }
}

/** The texts of content parts, or of one that is a text alone. */
export function contentTexts(content: unknown): string[] {
  if (!Array.isArray(content)) return [asString(content)]
  return content.map((part) => asString(asObject(part).text)).filter((text) => text !== '')
}

function editOf(action: JsonObject): ToolCallContent | undefined {
  const [path, before, after] = /FileEditorAction$/.test(asString(action.kind))
    ? [
        action.path,
        ...(action.command === 'create' ? [null, action.file_text] : [action.old_str ?? '', action.new_str]),
      ]
    : [action.file_path, action.old_string ?? null, action.new_string ?? action.content]
  if (typeof path !== 'string' || typeof after !== 'string') return undefined
  return { type: 'diff', path, oldText: typeof before === 'string' ? before : null, newText: after }
}

function locationsOf({ path, file_path, dir_path, view_range, insert_line }: JsonObject): ToolCallLocation[] {
  const place = [path, file_path, dir_path].find((one) => typeof one === 'string' && one.startsWith('/'))
  if (typeof place !== 'string') return []
  const line = Array.isArray(view_range) ? view_range[0] : insert_line
  return [{ path: place, ...(typeof line === 'number' && line >= 1 ? { line } : {}) }]
}
