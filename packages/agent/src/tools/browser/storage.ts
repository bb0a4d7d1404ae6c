import { type BrowserCommand, failedResult, playwrightErrorText } from './command.ts'

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
