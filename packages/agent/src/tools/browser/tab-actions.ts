import { type ActiveBrowser, type BrowserCommand, type BrowserResult, failedResult } from './command.ts'

export const listTabs: BrowserCommand = async ({ tabs }) => {
  const lines = (await tabs.list()).map((tab) => JSON.stringify(tab))
  return { text: lines.length === 0 ? 'No tab is open.' : `[\n${lines.join(',\n')}\n]` }
}

export function switchTab(id: string): BrowserCommand {
  return async (opened) => {
    const page = opened.tabs.get(id)
    if (page === undefined) return tabNotFound(opened, id)
    await opened.tabs.switchTo(page)
    return { text: `The current tab is ${id}: ${page.url().slice(0, 2000)}` }
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
  return failedResult(`There is no tab ${id.slice(0, 20)}. ${known}`)
}
