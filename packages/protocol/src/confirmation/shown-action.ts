import { visibleLines, visibleText } from '../visible-text.ts'
import { lineDiff } from './line-diff.ts'

type Members = Readonly<Record<string, unknown>>

/** A line of an action as a question shows it; its text hides nothing and is safe to print. */
export interface ShownLine {
  readonly kind: 'command' | 'added' | 'removed' | 'context' | 'member'
  readonly text: string
}

/**
 * An action as a question shows it, in a terminal and in a browser: all of it, whatever its length, because
 * the dangerous part may be the last one. A member without a place is shown with its name.
 */
export interface ShownAction {
  readonly tool: string
  /** `LOW`, `MEDIUM`, `HIGH` or `UNKNOWN`. */
  readonly risk: string
  /** Operation and file of an edit; empty otherwise. */
  readonly subject: string
  readonly lines: readonly ShownLine[]
}

/** `event`: an ActionEvent; those of other versions have their own kinds and members. */
export function shownAction(event: Members): ShownAction {
  const action = asMembers(event.action)
  const form = (areTexts(action) ? forms.get(asText(action.kind)) : undefined) ?? allMembers
  const { subject = '', lines } = event.action == null ? { lines: callLines(event) } : form(action)
  return {
    tool: visibleText(asText(event.tool_name)),
    risk: visibleText(asText(event.security_risk) || 'UNKNOWN'),
    subject: visibleText(subject),
    lines: [...lines, ...switchLines(event)],
  }
}

interface Form {
  readonly subject?: string
  readonly lines: readonly ShownLine[]
}

/** Kinds whose members have their own places; anything else shows all its members by name. */
const forms = new Map<string, (action: Members) => Form>([
  [
    'TerminalAction',
    ({ command, ...rest }) => ({
      lines: [...commandLines(command), ...memberLines(rest, (value) => value === false)],
    }),
  ],
  [
    'BackgroundTerminalAction',
    ({ command, ...rest }) => ({ lines: [...commandLines(command), ...memberLines(rest)] }),
  ],
  ['FileEditorAction', editorForm],
  ['PlanningFileEditorAction', editorForm],
  [
    'EditAction',
    ({ file_path, old_string, new_string, ...rest }) => ({
      subject: asText(file_path),
      lines: [...diffLines(old_string, new_string), ...memberLines(rest, (value) => value === 1)],
    }),
  ],
  [
    'WriteFileAction',
    ({ file_path, content, ...rest }) => ({
      subject: asText(file_path),
      lines: [...diffLines('', content), ...memberLines(rest)],
    }),
  ],
  ['ApplyPatchAction', ({ patch, ...rest }) => ({ lines: [...patchLines(patch), ...memberLines(rest)] })],
  // What an argument means is known to its server alone, so null and false are shown too.
  ['MCPToolAction', ({ data, ...rest }) => ({ lines: [...argumentLines(data), ...memberLines(rest)] })],
])

const textMembers = [
  ...['command', 'path', 'old_str', 'new_str', 'file_text'],
  ...['file_path', 'old_string', 'new_string', 'content', 'patch'],
]

/** Whether the members that have places are what their places are for. */
function areTexts(action: Members): boolean {
  return textMembers.every((name) => typeof (action[name] ?? '') === 'string')
}

const allMembers = (action: Members): Form => ({ lines: memberLines(action) })

function editorForm({ command, path, old_str, new_str, file_text, ...rest }: Members): Form {
  const isCreate = command === 'create'
  const [after, unused] = isCreate ? [file_text, { new_str, old_str }] : [new_str, { file_text }]
  return {
    subject: `${asText(command)} ${asText(path)}`,
    lines: [...diffLines(isCreate ? '' : old_str, after), ...memberLines({ ...unused, ...rest })],
  }
}

function commandLines(command: unknown): ShownLine[] {
  const text = asText(command).replace(/\n$/, '')
  return text === '' ? [] : visibleLines(text).map((line) => ({ kind: 'command', text: line }))
}

function diffLines(before: unknown, after: unknown): ShownLine[] {
  return lineDiff(asText(before), asText(after)).map(({ mark, text }) => markedLine(mark, text))
}

/** A patch marks its lines itself. */
function patchLines(patch: unknown): ShownLine[] {
  return asText(patch)
    .split('\n')
    .map((line) => (/^[-+ ]/.test(line) ? markedLine(line.charAt(0), line.slice(1)) : markedLine(' ', line)))
}

const diffKinds: Readonly<Record<string, ShownLine['kind']>> = { '-': 'removed', '+': 'added' }

function markedLine(mark: string, text: string): ShownLine {
  return { kind: diffKinds[mark] ?? 'context', text: `${mark} ${visibleText(text)}` }
}

function argumentLines(value: unknown): ShownLine[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return namedLines('arguments', value)
  return Object.entries(value).flatMap(([name, member]) => namedLines(name, member))
}

/** Without the kind and what is not set. */
function memberLines(members: Members, isDefault = (_: unknown) => false): ShownLine[] {
  return Object.entries(members)
    .filter(([name, value]) => name !== 'kind' && value !== null && value !== undefined && !isDefault(value))
    .flatMap(([name, value]) => namedLines(name, value))
}

/** `name: value`; the lines of a longer value are indented below the name. */
function namedLines(name: string, value: unknown): ShownLine[] {
  const text = typeof value === 'string' ? value : (JSON.stringify(value, undefined, 2) ?? '')
  const lines = visibleLines(text)
  const shown = lines.length === 1 ? [` ${lines[0]}`] : ['', ...lines.map((line) => `\n  ${line}`)]
  return `${visibleText(name)}:${shown.join('')}`.split('\n').map((line) => ({ kind: 'member', text: line }))
}

/** An invalid call has no action: its arguments as the model wrote them. */
function callLines(event: Members): ShownLine[] {
  return namedLines('arguments', asMembers(event.tool_call).arguments)
}

/** What a call asks for that is no member of its action, by the kinds of actions. */
const switches: readonly (readonly [name: string, kinds: RegExp])[] = [
  ['outside_sandbox', /^/],
  ['replace_all', /^(?:FileEditor|Edit)Action$/],
]

function switchLines(event: Members): ShownLine[] {
  const json = asMembers(event.tool_call).arguments
  if (event.action == null || typeof json !== 'string') return []
  const members = parseMembers(json)
  const kind = asText(asMembers(event.action).kind)
  return switches.flatMap(([name, kinds]) =>
    members[name] === true && kinds.test(kind) ? namedLines(name, true) : [],
  )
}

function parseMembers(json: string): Members {
  try {
    return asMembers(JSON.parse(json))
  } catch {
    return {}
  }
}

function asMembers(value: unknown): Members {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
