import * as z from 'zod'
import { jsonObject } from '../core/schemas.ts'
import {
  defineAction,
  defineBuiltInTool,
  defineObservation,
  defineToolSchema,
  type ToolTraits,
} from './tool.ts'

const index = z.int().min(0).meta({ description: 'Number of the element in the state of the page.' })
const tab_id = z.string().meta({ description: '4-character id from the list of tabs.' })
const new_tab = z.boolean().default(false).meta({ description: 'Open it in a new tab.' })

/** The type that browser actions have in common. */
export const browserAction = defineAction('BrowserAction', {})

/** The observation of every browser tool; `screenshot_data` is base64. */
export const browserObservation = defineObservation('BrowserObservation', {
  screenshot_data: z.string().nullish(),
  full_output_save_dir: z.string().nullish(),
})

const observation_type = 'BrowserObservation'
const readsBrowser: ToolTraits = { readOnly: true, idempotent: true }
const readsPage: ToolTraits = { ...readsBrowser, openWorld: true }
const actsOnPage: ToolTraits = { openWorld: true }
const destroys: ToolTraits = { destructive: true }

function defineBrowserTool<N extends `Browser${string}`, A extends z.core.$ZodLooseShape>(
  name: N,
  traits: ToolTraits,
  description: string,
  members: A,
) {
  const action_type = `${name}Action` as const
  const kind = `${name}Tool` as const
  return {
    action: defineAction(action_type, members),
    definition: defineToolSchema(kind, {}),
    listing: defineBuiltInTool(kind, { action_type, observation_type }, traits, description),
  }
}

export const browserTools = [
  defineBrowserTool('BrowserClick', actsOnPage, 'Clicks an element of the page by its number.', {
    index,
    new_tab,
  }),
  defineBrowserTool('BrowserCloseTab', destroys, 'Closes a tab by its id.', { tab_id }),
  defineBrowserTool(
    'BrowserGetContent',
    readsPage,
    'Reads the main text of the page, in parts when it is long, on request with its links.',
    {
      extract_links: z.boolean().default(false).meta({ description: 'With the links of the page.' }),
      start_from_char: z
        .int()
        .min(0)
        .default(0)
        .meta({ description: 'Where the part begins, in characters.' }),
    },
  ),
  defineBrowserTool(
    'BrowserGetState',
    readsPage,
    'Shows address, title, tabs and the numbered elements of the page, on request with a screenshot.',
    {
      include_screenshot: z.boolean().default(false).meta({ description: 'With a picture of the page.' }),
    },
  ),
  defineBrowserTool('BrowserGetStorage', readsBrowser, 'Reads cookies and local storage.', {}),
  defineBrowserTool('BrowserGoBack', actsOnPage, 'Goes back to the page before.', {}),
  defineBrowserTool('BrowserListTabs', readsBrowser, 'Lists the open tabs with their ids.', {}),
  defineBrowserTool('BrowserNavigate', actsOnPage, 'Opens an address, on request in a new tab.', {
    url: z.string().meta({ description: 'The address.' }),
    new_tab,
  }),
  defineBrowserTool('BrowserScroll', actsOnPage, 'Scrolls the page up or down.', {
    direction: z.enum(['up', 'down']).default('down').meta({ description: 'Where to.' }),
  }),
  defineBrowserTool(
    'BrowserSetStorage',
    destroys,
    'Restores cookies and local storage that were read before. What is there now is replaced.',
    {
      storage_state: jsonObject.meta({ description: 'As it was read.' }),
    },
  ),
  defineBrowserTool('BrowserStartRecording', {}, 'Begins to record what happens in the browser.', {}),
  defineBrowserTool('BrowserStopRecording', {}, 'Ends the recording and saves it.', {}),
  defineBrowserTool('BrowserSwitchTab', {}, 'Goes to a tab by its id.', { tab_id }),
] as const

/** All browser tools under one name; it has no separate action. */
export const browserToolSet = {
  definition: defineToolSchema('BrowserToolSet', {}),
  listing: defineBuiltInTool(
    'BrowserToolSet',
    { action_type: 'BrowserAction', observation_type },
    { destructive: true, openWorld: true },
    'All browser tools together: pages, tabs, elements, storage and recordings.',
  ),
}

/** Separate, because the specification lists the tool set before it. */
export const browserTypeTool = defineBrowserTool(
  'BrowserType',
  actsOnPage,
  'Types a text into an input of the page by its number.',
  { index, text: z.string().meta({ description: 'The text to type.' }) },
)
