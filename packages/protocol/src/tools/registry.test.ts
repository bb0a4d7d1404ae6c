import { expect, test } from 'vitest'
import { validationIssues } from '../core/validation-issues.ts'
import { action, observation, toolDefinition, toolDefinitions } from './registry.ts'
import { toolName } from './tool.ts'

const texts = { file_path: 'f', old_string: 'a', new_string: 'b', content: 'c' }
const searchMembers = { pattern: 'p', search_path: '.' }

/** The least that each action needs. */
const actions: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  MCPToolAction: {},
  FinishAction: { message: 'm' },
  ThinkAction: { thought: 't' },
  BrowserAction: {},
  BrowserClickAction: { index: 0 },
  BrowserCloseTabAction: { tab_id: 'abcd' },
  BrowserGetContentAction: {},
  BrowserGetStateAction: {},
  BrowserGetStorageAction: {},
  BrowserGoBackAction: {},
  BrowserListTabsAction: {},
  BrowserNavigateAction: { url: 'u' },
  BrowserScrollAction: {},
  BrowserSetStorageAction: { storage_state: {} },
  BrowserStartRecordingAction: {},
  BrowserStopRecordingAction: {},
  BrowserSwitchTabAction: { tab_id: 'abcd' },
  BrowserTypeAction: { index: 0, text: 't' },
  FileEditorAction: { command: 'view', path: '/f' },
  EditAction: { file_path: texts.file_path, old_string: texts.old_string, new_string: texts.new_string },
  ListDirectoryAction: {},
  ReadFileAction: { file_path: 'f' },
  WriteFileAction: { file_path: 'f', content: 'c' },
  GlobAction: { pattern: 'p' },
  GrepAction: { pattern: 'p' },
  PlanningFileEditorAction: { command: 'create', path: '/f' },
  TaskTrackerAction: {},
  TerminalAction: { command: 'ls' },
}

const observations: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  MCPToolObservation: { tool_name: 't' },
  FinishObservation: {},
  ThinkObservation: {},
  BrowserObservation: {},
  FileEditorObservation: { command: 'insert' },
  EditObservation: {},
  ListDirectoryObservation: {},
  ReadFileObservation: { file_path: 'f' },
  WriteFileObservation: {},
  GlobObservation: { files: [], ...searchMembers },
  GrepObservation: { matches: [], ...searchMembers },
  PlanningFileEditorObservation: { command: 'view' },
  TaskTrackerObservation: { command: 'plan' },
  TerminalObservation: { command: null },
}

const cases = [
  ...Object.entries(actions).map(([kind, least]) => [kind, action, { ...least, kind }] as const),
  ...Object.entries(observations).map(([kind, least]) => [kind, observation, { ...least, kind }] as const),
]

function issues(schema: typeof action | typeof observation | typeof toolDefinition, value: unknown) {
  const result = schema.safeParse(value)
  return result.success ? [] : validationIssues(result.error, [], value)
}

test('there are 28 actions, 14 observations and 28 definitions', () => {
  const kinds = (schema: typeof action | typeof observation | typeof toolDefinition) =>
    schema.options.map((option) => option.shape.kind.value).sort()
  expect(kinds(action)).toEqual(Object.keys(actions).sort())
  expect(kinds(observation)).toEqual(Object.keys(observations).sort())
  expect(new Set(kinds(toolDefinition)).size).toBe(28)
})

test.each(cases)('%s needs its required members and takes no others', (_, schema, value) => {
  expect(issues(schema, value)).toEqual([])
  expect(issues(schema, { ...value, x: 1 })).toMatchObject([{ loc: ['x'], type: 'extra_forbidden' }])
  for (const name of Object.keys(value)) {
    const { [name]: __, ...others } = value as Record<string, unknown>
    expect(issues(schema, others)).toEqual([{ loc: [name], msg: 'Field required', type: 'missing' }])
  }
})

test.each([
  ['BrowserClickAction', { index: -1 }, 'greater_than_equal'],
  ['BrowserClickAction', { index: 0.5 }, 'int_from_float'],
  ['BrowserTypeAction', { index: -1 }, 'greater_than_equal'],
  ['BrowserGetContentAction', { start_from_char: -1 }, 'greater_than_equal'],
  ['BrowserScrollAction', { direction: 'left' }, 'enum'],
  ['BrowserSetStorageAction', { storage_state: [] }, 'dict_type'],
  ['MCPToolAction', { data: 'x' }, 'dict_type'],
  ['FileEditorAction', { command: 'delete' }, 'enum'],
  ['FileEditorAction', { insert_line: -1 }, 'greater_than_equal'],
  ['EditAction', { expected_replacements: -1 }, 'greater_than_equal'],
  ['ReadFileAction', { offset: -1 }, 'greater_than_equal'],
  ['ReadFileAction', { limit: 0 }, 'greater_than_equal'],
  ['TerminalAction', { timeout: -1 }, 'greater_than_equal'],
  ['TaskTrackerAction', { command: 'drop' }, 'enum'],
])('%s with %j is refused', (kind, change, type) => {
  const loc = Object.keys(change)
  expect(issues(action, { ...actions[kind], kind, ...change })).toMatchObject([{ loc, type }])
})

test('members that are not required have the defaults of the specification', () => {
  const parse = (kind: string) => action.parse({ ...actions[kind], kind })
  expect(parse('BrowserClickAction')).toMatchObject({ new_tab: false })
  expect(parse('BrowserGetContentAction')).toMatchObject({ extract_links: false, start_from_char: 0 })
  expect(parse('BrowserGetStateAction')).toMatchObject({ include_screenshot: false })
  expect(parse('BrowserNavigateAction')).toMatchObject({ new_tab: false })
  expect(parse('BrowserScrollAction')).toMatchObject({ direction: 'down' })
})

test('each tool of ours is a definition and names an action and an observation that exist', () => {
  expect(Object.keys(toolDefinitions)).toHaveLength(27)
  for (const [kind, own] of Object.entries(toolDefinitions)) {
    expect(own.kind).toBe(kind)
    expect(issues(toolDefinition, own)).toEqual([])
    expect(Object.keys(actions)).toContain(own.action_type)
    expect(Object.keys(observations)).toContain(own.observation_type)
    expect(own.title).toBe(toolName(kind))
  }
})

test('a definition may have members of other writers', () => {
  expect(issues(toolDefinition, { kind: 'GrepTool', version: 2 })).toEqual([])
  expect(issues(toolDefinition, { kind: 'GrepTool', description: 5 })).toMatchObject([
    { loc: ['description'] },
  ])
})

test.each([
  ['FileEditorTool', 'file_editor'],
  ['BrowserNavigateTool', 'browser_navigate'],
  ['BrowserToolSet', 'browser_tool_set'],
  ['TerminalTool', 'terminal'],
  ['InvokeSkillTool', 'invoke_skill'],
  ['SwitchLLMTool', 'switch_llm'],
])('the name of %s is %s', (kind, name) => {
  expect(toolName(kind)).toBe(name)
})
