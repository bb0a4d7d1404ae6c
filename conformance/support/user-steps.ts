import { expect, test } from 'vitest'
import { type BrowserUser, findChromium } from './browser-user.ts'
import type { MockProvider } from './mock-provider.ts'
import { findWebClient, webPackage } from './web-client-package.ts'

/** The published web client, Chromium, and why tests with them are skipped, if they are. */
export async function findWebClientTools() {
  const webClient = await findWebClient()
  const browser = await findChromium()
  const skipReasons = [
    ...('reason' in webClient ? [webClient.reason] : []),
    ...(browser === undefined ? ['Chromium is not installed'] : []),
  ]
  const directory = 'reason' in webClient ? undefined : webClient.directory
  return { directory, browser, skipReasons }
}

/** Tests that are steps of one user in the web client: after a failure the others are skipped. */
export function userSteps(skipReasons: readonly string[], getUser: () => BrowserUser) {
  const skipSuffix = skipReasons.length === 0 ? '' : ` (skipped: ${skipReasons.join('; ')})`
  let failedStep: string | undefined
  return (promise: string, work: () => Promise<void>) =>
    test.skipIf(skipReasons.length > 0)(
      `${webPackage.name} ${webPackage.version}: ${promise}${skipSuffix}`,
      { timeout: 180_000 },
      async (context) => {
        context.skip(failedStep !== undefined && failedStep !== promise, `after: ${failedStep}`)
        failedStep = promise
        const user = getUser()
        try {
          await work()
        } catch (error) {
          await user.screenshot('failed')
          const shown = await user.page.locator('body').innerText()
          const problems = [...user.errorResponses, ...user.errors].join(', ')
          throw new Error(`Refused by the server, and errors: ${problems}; shown: ${shown}`, { cause: error })
        }
        failedStep = undefined
      },
    )
}

/** Fills in the form of a model. It is rendered again, in its basic view, when the settings arrive. */
export async function fillInModel(
  user: BrowserUser,
  llm: { readonly model: string; readonly base_url: string; readonly api_key: string },
): Promise<void> {
  const isAdvanced = async () => {
    await user.byTestId('sdk-section-advanced-toggle').click()
    return await user.byTestId('llm-custom-model-input').isVisible()
  }
  await expect.poll(isAdvanced, { timeout: 60_000, interval: 1_000 }).toBe(true)
  await user.byTestId('llm-custom-model-input').fill(llm.model)
  await user.byTestId('base-url-input').fill(llm.base_url)
  await user.byTestId('llm-api-key-input').fill(llm.api_key)
}

/** Sends the message that the first page offers, and waits for what it is answered and for the title. */
export async function sendFirstMessage(user: BrowserUser, answers: readonly string[]): Promise<void> {
  await user.byTestId('onboarding-hello-input-form').locator('button').first().click()
  for (const text of [...answers, 'A title of the model']) await user.waitForText(text)
}

/** Loads the page again, which shows the history, and sends another message. */
export async function continueAfterReload(
  user: BrowserUser,
  mockProvider: MockProvider,
  shown: string,
): Promise<void> {
  await user.page.reload()
  await user.waitForText(shown)
  mockProvider.replies = [{ text: 'And here is more.' }]
  await user.sendMessage('Continue')
  await user.waitForText('And here is more.')
}

/** Opens a file in the panel. */
export async function openFile(user: BrowserUser, file: string, content: string): Promise<void> {
  await user.byTestId('right-panel-toggle').click()
  await user.byTestId(`file-tree-file-${file}`).click()
  await user.waitForText(content)
}

/** Opens the list of commits and what is not committed. */
export async function openChanges(user: BrowserUser, texts: readonly string[]): Promise<void> {
  await user.byTestId('conversation-tab-commits').click()
  await user.byTestId('uncommitted-changes-row-toggle').click()
  for (const text of texts) await user.waitForText(text)
}
