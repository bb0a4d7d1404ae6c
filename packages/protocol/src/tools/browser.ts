import * as z from 'zod'
import { action, type OwnTool, observation, ownTool, tool } from './tool.ts'

const index = z.int().min(0).meta({ description: 'Number of the element in the state of the page.' })
const tab_id = z.string().meta({ description: '4-character id from the list of tabs.' })
const new_tab = z.boolean().default(false)

/** The type that browser actions have in common. */
export const browserAction = action('BrowserAction', {})
export const browserClickAction = action('BrowserClickAction', { index, new_tab })
export const browserCloseTabAction = action('BrowserCloseTabAction', { tab_id })
export const browserGetContentAction = action('BrowserGetContentAction', {
  extract_links: z.boolean().default(false),
  start_from_char: z.int().min(0).default(0),
})
export const browserGetStateAction = action('BrowserGetStateAction', {
  include_screenshot: z.boolean().default(false),
})
export const browserGetStorageAction = action('BrowserGetStorageAction', {})
export const browserGoBackAction = action('BrowserGoBackAction', {})
export const browserListTabsAction = action('BrowserListTabsAction', {})
export const browserNavigateAction = action('BrowserNavigateAction', { url: z.string(), new_tab })
export const browserScrollAction = action('BrowserScrollAction', {
  direction: z.enum(['up', 'down']).default('down'),
})
export const browserSetStorageAction = action('BrowserSetStorageAction', {
  storage_state: z.record(z.string(), z.unknown()),
})
export const browserStartRecordingAction = action('BrowserStartRecordingAction', {})
export const browserStopRecordingAction = action('BrowserStopRecordingAction', {})
export const browserSwitchTabAction = action('BrowserSwitchTabAction', { tab_id })
export const browserTypeAction = action('BrowserTypeAction', { index, text: z.string() })

/** What every browser tool answers; `screenshot_data` is base64. */
export const browserObservation = observation('BrowserObservation', {
  screenshot_data: z.string().nullish(),
  full_output_save_dir: z.string().nullish(),
})

export const browserClickTool = tool('BrowserClickTool', {})
export const browserCloseTabTool = tool('BrowserCloseTabTool', {})
export const browserGetContentTool = tool('BrowserGetContentTool', {})
export const browserGetStateTool = tool('BrowserGetStateTool', {})
export const browserGetStorageTool = tool('BrowserGetStorageTool', {})
export const browserGoBackTool = tool('BrowserGoBackTool', {})
export const browserListTabsTool = tool('BrowserListTabsTool', {})
export const browserNavigateTool = tool('BrowserNavigateTool', {})
export const browserScrollTool = tool('BrowserScrollTool', {})
export const browserSetStorageTool = tool('BrowserSetStorageTool', {})
export const browserStartRecordingTool = tool('BrowserStartRecordingTool', {})
export const browserStopRecordingTool = tool('BrowserStopRecordingTool', {})
export const browserSwitchTabTool = tool('BrowserSwitchTabTool', {})
export const browserToolSet = tool('BrowserToolSet', {})
export const browserTypeTool = tool('BrowserTypeTool', {})

type Traits = Parameters<typeof ownTool>[2]
const looks: Traits = { readOnly: true, idempotent: true }
const looksOutside: Traits = { ...looks, openWorld: true }
const actsOutside: Traits = { openWorld: true }
const removes: Traits = { destructive: true }

function browserTool<K extends `Browser${string}`>(kind: K, traits: Traits, description: string): OwnTool<K> {
  const action_type = kind.replace(/Tool(Set)?$/, 'Action')
  return ownTool(kind, { action_type, observation_type: 'BrowserObservation' }, traits, description)
}

export const browserTools = {
  BrowserClickTool: browserTool(
    'BrowserClickTool',
    actsOutside,
    'Clicks an element of the page by its number.',
  ),
  BrowserCloseTabTool: browserTool('BrowserCloseTabTool', removes, 'Closes a tab by its id.'),
  BrowserGetContentTool: browserTool(
    'BrowserGetContentTool',
    looksOutside,
    'Reads the main text of the page, in parts when it is long, on request with its links.',
  ),
  BrowserGetStateTool: browserTool(
    'BrowserGetStateTool',
    looksOutside,
    'Shows address, title, tabs and the numbered elements of the page, on request with a screenshot.',
  ),
  BrowserGetStorageTool: browserTool('BrowserGetStorageTool', looks, 'Reads cookies and local storage.'),
  BrowserGoBackTool: browserTool('BrowserGoBackTool', actsOutside, 'Goes back to the page before.'),
  BrowserListTabsTool: browserTool('BrowserListTabsTool', looks, 'Lists the open tabs with their ids.'),
  BrowserNavigateTool: browserTool(
    'BrowserNavigateTool',
    actsOutside,
    'Opens an address, on request in a new tab.',
  ),
  BrowserScrollTool: browserTool('BrowserScrollTool', actsOutside, 'Scrolls the page up or down.'),
  BrowserSetStorageTool: browserTool(
    'BrowserSetStorageTool',
    removes,
    'Restores cookies and local storage that were read before. What is there now is replaced.',
  ),
  BrowserStartRecordingTool: browserTool(
    'BrowserStartRecordingTool',
    {},
    'Begins to record what happens in the browser.',
  ),
  BrowserStopRecordingTool: browserTool('BrowserStopRecordingTool', {}, 'Ends the recording and saves it.'),
  BrowserSwitchTabTool: browserTool('BrowserSwitchTabTool', {}, 'Goes to a tab by its id.'),
  BrowserToolSet: browserTool(
    'BrowserToolSet',
    { destructive: true, openWorld: true },
    'All browser tools together: pages, tabs, elements, storage and recordings.',
  ),
  BrowserTypeTool: browserTool(
    'BrowserTypeTool',
    actsOutside,
    'Types a text into an input of the page by its number.',
  ),
}
