import { expect, test } from 'vitest'
import { ConsoleFixture } from '../console/console-fixture.ts'
import { bashStep, finishStep } from '../support/agent-driver.ts'
import { findChromium } from '../support/browser-user.ts'

const chromiumPath = await findChromium()

test.skipIf(chromiumPath === undefined).each([
  ['a desktop', { width: 1280, height: 800 }],
  ['a phone', { width: 390, height: 844 }],
])('the console shows a run in the browser of %s', { timeout: 120_000 }, async (_, viewport) => {
  await using fixture = await ConsoleFixture.open(chromiumPath ?? '')
  const { id } = await fixture.driver.createScripted([bashStep('echo a result'), finishStep('It is done.')])
  const { page, problems, foreignRequests } = await fixture.newPage({ viewport })
  await page.goto(`${fixture.site.url}/c/${id}`)
  await page.getByText('It is done.').waitFor()
  await page.locator('details.call').first().locator('summary').click()
  await page.locator('.terminal', { hasText: 'a result' }).waitFor()
  expect(problems).toEqual([])
  expect(foreignRequests).toEqual([])
})
