import {
  type Action,
  actionParameters,
  Problem,
  parseAction,
  type ToolDefinition,
  toolDefinitions,
  toolName,
} from '@slipway/protocol'
import { withCallMember } from '../core/call-member.ts'
import { toolDescription } from '../core/define-tool.ts'
import type { Tool, ToolAction, ToolFactory, ToolRunOptions } from '../core/tool.ts'
import {
  closeTab,
  getStorage,
  listTabs,
  setStorage,
  startRecording,
  stopRecording,
  switchTab,
} from './actions.ts'
import { readAwaitedState } from './awaited-text.ts'
import type { BrowserCommand } from './command.ts'
import { readContent } from './content.ts'
import { click, goBack, navigate, scroll, type } from './page-actions.ts'
import { readState } from './page-state.ts'
import { BrowserSession } from './session.ts'
import { waitFor } from './wait-for.ts'

type BrowserAction = Extract<Action, { kind: `Browser${string}Action` }>
type BrowserActionKind = Exclude<BrowserAction['kind'], 'BrowserAction'>

type CreateCommand<K extends BrowserActionKind> = (
  action: ToolAction<K>,
  session: BrowserSession,
  options: ToolRunOptions,
) => BrowserCommand

const commands: { readonly [K in BrowserActionKind]: CreateCommand<K> } = {
  BrowserNavigateAction: ({ url, new_tab }) => navigate(url, new_tab),
  BrowserClickAction: ({ index, new_tab }) => click(index, new_tab),
  BrowserTypeAction: ({ index, text }, session) => type(index, text, (path) => session.readFile(path)),
  BrowserScrollAction: ({ direction }) => scroll(direction),
  BrowserGetStateAction: ({ include_screenshot }, _, { awaitedText }) =>
    awaitedText === undefined
      ? readState(include_screenshot)
      : readAwaitedState(awaitedText, include_screenshot),
  BrowserGetContentAction: ({ start_from_char, extract_links }, session) =>
    readContent(session, start_from_char, extract_links),
  BrowserGoBackAction: () => goBack,
  BrowserListTabsAction: () => listTabs,
  BrowserSwitchTabAction: ({ tab_id }) => switchTab(tab_id),
  BrowserCloseTabAction: ({ tab_id }) => closeTab(tab_id),
  BrowserGetStorageAction: () => getStorage,
  BrowserSetStorageAction: ({ storage_state }) => setStorage(storage_state),
  BrowserStartRecordingAction: (_, session) => startRecording(session),
  BrowserStopRecordingAction: (_, session) => stopRecording(session),
}

/**
 * The browser tools, which share one browser, started by the first action. Parameters: `executable_path` (the
 * browser to start), `action_timeout_seconds` (300), `short_timeout_seconds` (30, after two time-outs in a
 * row) and `navigation_timeout_seconds` (60, until a page begins to answer). Throws a Problem for an invalid
 * one.
 */
export function openBrowser(...[context, params]: Parameters<ToolFactory>): readonly Tool[] {
  const limits = {
    actionMs: readTimeoutMs(params, 'action_timeout_seconds', 300),
    shortMs: readTimeoutMs(params, 'short_timeout_seconds', 30),
    navigationMs: readTimeoutMs(params, 'navigation_timeout_seconds', 60),
  }
  const executable = params.executable_path ?? undefined
  if (executable !== undefined && typeof executable !== 'string')
    throw new Problem('invalid', 'The parameter executable_path of the browser tools should be a path')
  const session = new BrowserSession(context, limits, executable)
  // The keys of the table are its kinds.
  const kinds = Object.keys(commands) as BrowserActionKind[]
  return kinds.map((kind) => createBrowserTool(kind, session))
}

function readTimeoutMs(params: Parameters<ToolFactory>[1], name: string, defaultSeconds: number): number {
  const seconds = params[name] ?? defaultSeconds
  if (typeof seconds === 'number' && seconds > 0 && seconds <= 3600) return seconds * 1000
  throw new Problem('invalid', `The parameter ${name} of the browser tools should be 0 to 3600 seconds`)
}

function createBrowserTool<K extends BrowserActionKind>(kind: K, session: BrowserSession): Tool {
  const createCommand: CreateCommand<K> = commands[kind]
  // The kinds of a tool and of its action differ in their last word.
  const definition = toolDefinitions[kind.replace(/Action$/, 'Tool') as BrowserToolKind]
  const name = toolName(definition.kind)
  const tool: Tool<ToolAction<K>> = {
    name,
    definition: { ...definition, description: toolDescription(name) },
    parameters: actionParameters(kind),
    parse: (args) => parseAction(kind, args),
    resources: () => ['browser'],
    run: (action, signal, options = {}) =>
      session.run(recordedAction(name, action), createCommand(action, session, options), signal),
    close: () => session.close(),
  }
  return kind === 'BrowserGetStateAction' ? withCallMember(tool, waitFor) : tool
}

type BrowserToolKind = Extract<ToolDefinition['kind'], `Browser${string}Tool`>

/** An action for a recording, without typed text, which may be a password. */
function recordedAction(name: string, action: Action): Record<string, unknown> {
  const { kind: _, ...members } = action
  if ('storage_state' in members) return { tool: name }
  if (action.kind === 'BrowserTypeAction')
    return { tool: name, index: action.index, characters: action.text.length }
  return { tool: name, ...members }
}
