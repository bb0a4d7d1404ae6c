import {
  type Action,
  actionParameters,
  Problem,
  parseAction,
  type ToolDefinition,
  toolDefinitions,
  toolName,
} from '@slipway/protocol'
import type { Tool, ToolAction, ToolFactory } from '../core/tool.ts'
import type { BrowserCommand } from './command.ts'
import { readContent } from './content.ts'
import { click, goBack, navigate, scroll, type } from './page-actions.ts'
import { readState } from './page-state.ts'
import { startRecording, stopRecording } from './recording-actions.ts'
import { BrowserSession } from './session.ts'
import { getStorage, setStorage } from './storage.ts'
import { closeTab, listTabs, switchTab } from './tab-actions.ts'

type BrowserAction = Extract<Action, { kind: `Browser${string}Action` }>
type BrowserActionKind = Exclude<BrowserAction['kind'], 'BrowserAction'>

/** A tool: its description for the model, and its command. */
interface BrowserToolSpec<K extends BrowserActionKind> {
  readonly description: string
  readonly createCommand: (action: ToolAction<K>, session: BrowserSession) => BrowserCommand
}

const toolSpecs: { readonly [K in BrowserActionKind]: BrowserToolSpec<K> } = {
  BrowserNavigateAction: {
    description:
      'Opens an http or https address in the current tab of the browser, or in a new tab with new_tab. Answers when the page is there, with its address and title; read it with browser_get_state or browser_get_content.',
    createCommand: ({ url, new_tab }) => navigate(url, new_tab),
  },
  BrowserClickAction: {
    description:
      'Clicks an element by its index in the last answer of browser_get_state. With new_tab a link opens in a new tab, which becomes the current one. When the page changed since, read its state again.',
    createCommand: ({ index, new_tab }) => click(index, new_tab),
  },
  BrowserTypeAction: {
    description:
      'Puts a text into an input by its index in the last answer of browser_get_state; what stood there is replaced. In a one-line input a line break at the end of the text presses Enter. In a select it chooses the option with that label or value.',
    createCommand: ({ index, text }) => type(index, text),
  },
  BrowserScrollAction: {
    description:
      'Scrolls the page of the current tab up or down by nearly one screen. The state of the page then lists what has come into view.',
    createCommand: ({ direction }) => scroll(direction),
  },
  BrowserGetStateAction: {
    description:
      'Shows the current tab as JSON: address, title, the tabs with their ids, what is above and below the view, and the elements that can be clicked or typed into, each with its index. The indexes are good until the next call of this tool or until the page changes. include_screenshot adds a picture of what is in view.',
    createCommand: ({ include_screenshot }) => readState(include_screenshot),
  },
  BrowserGetContentAction: {
    description:
      'Reads the text of the current page as Markdown. Long pages come in parts of 30000 characters: go on with start_from_char as the end of each part says. extract_links keeps the addresses of links.',
    createCommand: ({ start_from_char, extract_links }, session) =>
      readContent(session, start_from_char, extract_links),
  },
  BrowserGoBackAction: {
    description: 'Goes back to the page before in the history of the current tab.',
    createCommand: () => goBack,
  },
  BrowserListTabsAction: {
    description: 'Lists the open tabs: id of 4 characters, address, title, and which one is current.',
    createCommand: () => listTabs,
  },
  BrowserSwitchTabAction: {
    description: 'Makes another tab the current one, by its id of 4 characters.',
    createCommand: ({ tab_id }) => switchTab(tab_id),
  },
  BrowserCloseTabAction: {
    description: 'Closes a tab by its id of 4 characters.',
    createCommand: ({ tab_id }) => closeTab(tab_id),
  },
  BrowserGetStorageAction: {
    description:
      'Reads the cookies and the local storage of the browser as JSON, in the form that browser_set_storage takes.',
    createCommand: () => getStorage,
  },
  BrowserSetStorageAction: {
    description:
      'Replaces all cookies and local storage of the browser by storage_state: an object with the lists cookies and origins, as browser_get_storage gives it.',
    createCommand: ({ storage_state }) => setStorage(storage_state),
  },
  BrowserStartRecordingAction: {
    description:
      'Begins to record what happens in the browser (actions, pages, tabs, dialogs, errors of pages) into JSON files.',
    createCommand: (_, session) => startRecording(session),
  },
  BrowserStopRecordingAction: {
    description: 'Ends the recording and says where its files are.',
    createCommand: (_, session) => stopRecording(session),
  },
}

/**
 * The browser tools, which share one browser, started by the first action. Parameters: `executable_path` (the
 * browser to start), `action_timeout_seconds` (300), `short_timeout_seconds` (30, after two time-outs in a
 * row) and `navigation_timeout_seconds` (60, until a page begins to answer). Throws a Problem for an invalid
 * one.
 */
export const openBrowser: ToolFactory = (context, params) => {
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
  const kinds = Object.keys(toolSpecs) as BrowserActionKind[]
  return kinds.map((kind) => createBrowserTool(kind, session))
}

function readTimeoutMs(
  params: Readonly<Record<string, unknown>>,
  name: string,
  defaultSeconds: number,
): number {
  const seconds = params[name] ?? defaultSeconds
  if (typeof seconds === 'number' && seconds > 0 && seconds <= 3600) return seconds * 1000
  throw new Problem('invalid', `The parameter ${name} of the browser tools should be 0 to 3600 seconds`)
}

function createBrowserTool<K extends BrowserActionKind>(kind: K, session: BrowserSession): Tool {
  const spec: BrowserToolSpec<K> = toolSpecs[kind]
  // The kinds of a tool and of its action differ in their last word.
  const definition = toolDefinitions[kind.replace(/Action$/, 'Tool') as BrowserToolKind]
  const name = toolName(definition.kind)
  const tool: Tool<ToolAction<K>> = {
    name,
    definition: { ...definition, description: spec.description },
    parameters: actionParameters(kind),
    parse: (args) => parseAction(kind, args),
    resources: () => ['browser'],
    run: (action, signal) =>
      session.run(recordedAction(name, action), spec.createCommand(action, session), signal),
    close: () => session.close(),
  }
  return tool
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
