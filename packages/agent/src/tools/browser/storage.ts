import { type BrowserCommand, failedResult, playwrightErrorText } from './command.ts'

/** Cookies and local storage of all origins that were seen, as JSON. */
export const getStorage: BrowserCommand = async ({ browser }) => ({
  text: JSON.stringify(await browser.context.storageState()),
})

/** Puts what `getStorage` gave in the place of what is there. Pages that are open see it when they are loaded again. */
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
