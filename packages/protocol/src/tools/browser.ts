import * as z from 'zod'
import {
  type BuiltInTool,
  defineAction,
  defineBuiltInTool,
  defineObservation,
  defineToolSchema,
} from './tool.ts'

const index = z.int().min(0).meta({ description: 'Number of the element in the state of the page.' })
const tab_id = z.string().meta({ description: '4-character id from the list of tabs.' })
const new_tab = z.boolean().default(false)

/** The type that browser actions have in common. */
export const browserAction = defineAction('BrowserAction', {})
export const browserClickAction = defineAction('BrowserClickAction', { index, new_tab })
export const browserCloseTabAction = defineAction('BrowserCloseTabAction', { tab_id })
export const browserGetContentAction = defineAction('BrowserGetContentAction', {
  extract_links: z.boolean().default(false),
  start_from_char: z.int().min(0).default(0),
})
export const browserGetStateAction = defineAction('BrowserGetStateAction', {
  include_screenshot: z.boolean().default(false),
})
export const browserGetStorageAction = defineAction('BrowserGetStorageAction', {})
export const browserGoBackAction = defineAction('BrowserGoBackAction', {})
export const browserListTabsAction = defineAction('BrowserListTabsAction', {})
export const browserNavigateAction = defineAction('BrowserNavigateAction', { url: z.string(), new_tab })
export const browserScrollAction = defineAction('BrowserScrollAction', {
  direction: z.enum(['up', 'down']).default('down'),
})
export const browserSetStorageAction = defineAction('BrowserSetStorageAction', {
  storage_state: z.record(z.string(), z.unknown()),
})
export const browserStartRecordingAction = defineAction('BrowserStartRecordingAction', {})
export const browserStopRecordingAction = defineAction('BrowserStopRecordingAction', {})
export const browserSwitchTabAction = defineAction('BrowserSwitchTabAction', { tab_id })
export const browserTypeAction = defineAction('BrowserTypeAction', { index, text: z.string() })

/** What every browser tool answers; `screenshot_data` is base64. */
export const browserObservation = defineObservation('BrowserObservation', {
  screenshot_data: z.string().nullish(),
  full_output_save_dir: z.string().nullish(),
})

export const browserClickTool = defineToolSchema('BrowserClickTool', {})
export const browserCloseTabTool = defineToolSchema('BrowserCloseTabTool', {})
export const browserGetContentTool = defineToolSchema('BrowserGetContentTool', {})
export const browserGetStateTool = defineToolSchema('BrowserGetStateTool', {})
export const browserGetStorageTool = defineToolSchema('BrowserGetStorageTool', {})
export const browserGoBackTool = defineToolSchema('BrowserGoBackTool', {})
export const browserListTabsTool = defineToolSchema('BrowserListTabsTool', {})
export const browserNavigateTool = defineToolSchema('BrowserNavigateTool', {})
export const browserScrollTool = defineToolSchema('BrowserScrollTool', {})
export const browserSetStorageTool = defineToolSchema('BrowserSetStorageTool', {})
export const browserStartRecordingTool = defineToolSchema('BrowserStartRecordingTool', {})
export const browserStopRecordingTool = defineToolSchema('BrowserStopRecordingTool', {})
export const browserSwitchTabTool = defineToolSchema('BrowserSwitchTabTool', {})
export const browserToolSet = defineToolSchema('BrowserToolSet', {})
export const browserTypeTool = defineToolSchema('BrowserTypeTool', {})

type Traits = Parameters<typeof defineBuiltInTool>[2]
const readsBrowser: Traits = { readOnly: true, idempotent: true }
const readsPage: Traits = { ...readsBrowser, openWorld: true }
const actsOnPage: Traits = { openWorld: true }
const destroys: Traits = { destructive: true }

function defineBrowserTool<K extends `Browser${string}`>(
  kind: K,
  traits: Traits,
  description: string,
): BuiltInTool<K> {
  const action_type = kind.replace(/Tool(Set)?$/, 'Action')
  return defineBuiltInTool(kind, { action_type, observation_type: 'BrowserObservation' }, traits, description)
}

export const browserTools = {
  BrowserClickTool: defineBrowserTool(
    'BrowserClickTool',
    actsOnPage,
    'Clicks an element of the page by its number.',
  ),
  BrowserCloseTabTool: defineBrowserTool('BrowserCloseTabTool', destroys, 'Closes a tab by its id.'),
  BrowserGetContentTool: defineBrowserTool(
    'BrowserGetContentTool',
    readsPage,
    'Reads the main text of the page, in parts when it is long, on request with its links.',
  ),
  BrowserGetStateTool: defineBrowserTool(
    'BrowserGetStateTool',
    readsPage,
    'Shows address, title, tabs and the numbered elements of the page, on request with a screenshot.',
  ),
  BrowserGetStorageTool: defineBrowserTool(
    'BrowserGetStorageTool',
    readsBrowser,
    'Reads cookies and local storage.',
  ),
  BrowserGoBackTool: defineBrowserTool('BrowserGoBackTool', actsOnPage, 'Goes back to the page before.'),
  BrowserListTabsTool: defineBrowserTool(
    'BrowserListTabsTool',
    readsBrowser,
    'Lists the open tabs with their ids.',
  ),
  BrowserNavigateTool: defineBrowserTool(
    'BrowserNavigateTool',
    actsOnPage,
    'Opens an address, on request in a new tab.',
  ),
  BrowserScrollTool: defineBrowserTool('BrowserScrollTool', actsOnPage, 'Scrolls the page up or down.'),
  BrowserSetStorageTool: defineBrowserTool(
    'BrowserSetStorageTool',
    destroys,
    'Restores cookies and local storage that were read before. What is there now is replaced.',
  ),
  BrowserStartRecordingTool: defineBrowserTool(
    'BrowserStartRecordingTool',
    {},
    'Begins to record what happens in the browser.',
  ),
  BrowserStopRecordingTool: defineBrowserTool(
    'BrowserStopRecordingTool',
    {},
    'Ends the recording and saves it.',
  ),
  BrowserSwitchTabTool: defineBrowserTool('BrowserSwitchTabTool', {}, 'Goes to a tab by its id.'),
  BrowserToolSet: defineBrowserTool(
    'BrowserToolSet',
    { destructive: true, openWorld: true },
    'All browser tools together: pages, tabs, elements, storage and recordings.',
  ),
  BrowserTypeTool: defineBrowserTool(
    'BrowserTypeTool',
    actsOnPage,
    'Types a text into an input of the page by its number.',
  ),
}
