/** JSON members of unknown shape: stored events of other versions have their own kinds. */
export type JsonObject = Readonly<Record<string, unknown>>

/** Describes an action: its command, file or text. May have several lines; not safe to print. */
export function actionText(action: unknown): string {
  const members = asObject(action)
  return (actionFormatters.get(asString(members.kind)) ?? inputText)(members)
}

const filePath = (action: JsonObject) => asString(action.file_path)
const editText = (action: JsonObject) => {
  const { command, path, file_text } = action
  const lines = typeof file_text === 'string' ? ` (${file_text.trimEnd().split('\n').length} lines)` : ''
  return `${asString(command)} ${asString(path)}${lines}`
}

const actionFormatters = formatterMap({
  TerminalAction(action) {
    const command = asString(action.command)
    if (action.reset === true) return `reset ${command}`.trim()
    if (action.is_input === true) return `input ${command}`
    return command || 'wait for more output'
  },
  FileEditorAction: editText,
  PlanningFileEditorAction: editText,
  EditAction: filePath,
  ReadFileAction: filePath,
  WriteFileAction: filePath,
  ListDirectoryAction: (action) => asString(action.dir_path) || '.',
  GlobAction: searchText,
  GrepAction: searchText,
  TaskTrackerAction(action) {
    const list = Array.isArray(action.task_list) ? action.task_list.map(asObject) : []
    const done = list.filter(({ status }) => status === 'done').length
    return action.command === 'plan' ? `plan: ${done} of ${list.length} done` : 'view'
  },
  FinishAction: (action) => asString(action.message),
  ThinkAction: (action) => asString(action.thought),
  MCPToolAction: (action) => toDisplayJson(action.data),
})

function searchText(action: JsonObject): string {
  const directory = asString(action.path)
  return directory === '' ? asString(action.pattern) : `${asString(action.pattern)} in ${directory}`
}

function inputText(action: JsonObject): string {
  const { kind: _, ...input } = action
  return toDisplayJson(input)
}

/** Formatters by kind, as a Map because a kind is any text. */
export function formatterMap(
  formatters: Readonly<Record<string, (members: JsonObject) => string>>,
): ReadonlyMap<string, (members: JsonObject) => string> {
  return new Map(Object.entries(formatters))
}

const hiddenKeys = ['encrypted_content', 'signature']

/** JSON without members that are never rendered (spec 2.4). */
export function toDisplayJson(value: unknown): string {
  return JSON.stringify(value, (key, member) => (hiddenKeys.includes(key) ? undefined : member)) ?? ''
}

/** ` [HIGH]` or ` [MEDIUM]`; empty for less. */
export function riskMark(risk: string): string {
  return risk === 'HIGH' || risk === 'MEDIUM' ? ` [${risk}]` : ''
}

export function asObject(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}

export function asString(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** A text whose last line ends as the others do has no empty line after it. */
export function withoutLastLineFeed(text: string): string {
  return text.replace(/\r?\n$/, '')
}
