/** JSON members of unknown shape: kept events of other versions have kinds of their own. */
export type Members = Readonly<Record<string, unknown>>

/** What an action does, in words: its command, its file, its text. May have several lines and is not safe to print. */
export function actionText(action: unknown): string {
  const members = membersOf(action)
  return (texts.get(textOf(members.kind)) ?? inputText)(members)
}

const filePath = (action: Members) => textOf(action.file_path)
const edit = (action: Members) => {
  const { command, path, file_text } = action
  const lines = typeof file_text === 'string' ? ` (${file_text.trimEnd().split('\n').length} lines)` : ''
  return `${textOf(command)} ${textOf(path)}${lines}`
}

const texts = tableOf({
  TerminalAction(action) {
    const command = textOf(action.command)
    if (action.reset === true) return `reset ${command}`.trim()
    if (action.is_input === true) return `input ${command}`
    return command || 'wait for more output'
  },
  FileEditorAction: edit,
  PlanningFileEditorAction: edit,
  EditAction: filePath,
  ReadFileAction: filePath,
  WriteFileAction: filePath,
  ListDirectoryAction: (action) => textOf(action.dir_path) || '.',
  GlobAction: searched,
  GrepAction: searched,
  TaskTrackerAction(action) {
    const list = Array.isArray(action.task_list) ? action.task_list.map(membersOf) : []
    const done = list.filter(({ status }) => status === 'done').length
    return action.command === 'plan' ? `plan: ${done} of ${list.length} done` : 'view'
  },
  FinishAction: (action) => textOf(action.message),
  ThinkAction: (action) => textOf(action.thought),
  MCPToolAction: (action) => json(action.data),
})

function searched(action: Members): string {
  const place = textOf(action.path)
  return place === '' ? textOf(action.pattern) : `${textOf(action.pattern)} in ${place}`
}

function inputText(action: Members): string {
  const { kind: _, ...input } = action
  return json(input)
}

/** Words by kind. A kind is any text, so it is not looked up in an object. */
export function tableOf(
  words: Readonly<Record<string, (members: Members) => string>>,
): ReadonlyMap<string, (members: Members) => string> {
  return new Map(Object.entries(words))
}

/** JSON without what is never rendered (spec 2.4). */
export function json(value: unknown): string {
  return JSON.stringify(value, (key, member) => (isHidden(key) ? undefined : member)) ?? ''
}

function isHidden(key: string): boolean {
  return key === 'encrypted_content' || key === 'signature'
}

export function membersOf(value: unknown): Members {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
