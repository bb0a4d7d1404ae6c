import { firstChars } from '@slipway/shared/text'
import {
  type ActiveBrowser,
  type BrowserCommand,
  type BrowserResult,
  failedResult,
  playwrightErrorText,
} from './command.ts'
import type { BrowserSession } from './session.ts'

export const listTabs: BrowserCommand = async ({ tabs }) => {
  const lines = (await tabs.list()).map((tab) => JSON.stringify(tab))
  return { text: lines.length === 0 ? 'No tab is open.' : `[\n${lines.join(',\n')}\n]` }
}

export function switchTab(id: string): BrowserCommand {
  return async (opened) => {
    const page = opened.tabs.get(id)
    if (page === undefined) return tabNotFound(opened, id)
    await opened.tabs.switchTo(page)
    return { text: `The current tab is ${id}: ${firstChars(page.url(), 2000)}` }
  }
}

export function closeTab(id: string): BrowserCommand {
  return async (opened) => {
    const page = opened.tabs.get(id)
    if (page === undefined) return tabNotFound(opened, id)
    await opened.tabs.close(page)
    const current = (await opened.tabs.list()).find((tab) => tab.is_current)
    const now = current === undefined ? 'No tab is left.' : `The current tab is ${current.id}: ${current.url}`
    return { text: `The tab ${id} is closed. ${now}` }
  }
}

async function tabNotFound({ tabs }: ActiveBrowser, id: string): Promise<BrowserResult> {
  const ids = (await tabs.list()).map((tab) => tab.id)
  const known = ids.length === 0 ? 'No tab is open.' : `Open are: ${ids.join(', ')}.`
  return failedResult(`There is no tab ${firstChars(id, 20)}. ${known}`)
}

/** Cookies and local storage of all visited origins, as JSON. */
export const getStorage: BrowserCommand = async ({ browser }) => ({
  text: JSON.stringify(await browser.context.storageState()),
})

/** Replaces cookies and local storage by the output of `getStorage`. Open pages see it after a reload. */
export function setStorage(state: Readonly<Record<string, unknown>>): BrowserCommand {
  return async ({ browser }) => {
    const { cookies = [], origins = [] } = state
    if (!Array.isArray(cookies) || !Array.isArray(origins))
      return failedResult(
        'storage_state needs the lists cookies and origins, as browser_get_storage gives them.',
      )
    try {
      await browser.context.setStorageState({ cookies, origins })
    } catch (error) {
      return failedResult(`The storage was not set: ${playwrightErrorText(error)}`)
    }
    return {
      text: `Set ${cookies.length} cookies and the local storage of ${origins.length} origins. Load a page again for it to see them.`,
    }
  }
}

export function startRecording(session: BrowserSession): BrowserCommand {
  return async () => {
    const recording = await session.startRecording()
    if (recording === undefined) return failedResult('A recording is in progress already.')
    return { text: `Recording into ${recording.directory}.`, saved: recording.directory }
  }
}

export function stopRecording(session: BrowserSession): BrowserCommand {
  return async () => {
    const recording = session.detachRecording()
    if (recording === undefined) return failedResult('No recording is in progress.')
    const { recordedCount, dropped, files, failure } = await recording.stop()
    if (failure !== undefined) return failedResult(`The recording could not be written: ${failure}`)
    const lost = dropped === 0 ? '' : ` ${dropped} more were left out.`
    return {
      text: `Recorded ${recordedCount} events in ${files} files (1.json and so on) in ${recording.directory}.${lost}`,
      saved: recording.directory,
    }
  }
}
