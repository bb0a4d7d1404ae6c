import { must } from '@slipway/protocol'
import { describe, expect, test, vi } from 'vitest'
import {
  BrowserFixtures,
  base,
  isInstalled,
  openShared,
  type State,
  waitOptions,
} from './testing/browser-fixtures.ts'

// Pages that keep a processor busy: minutes of CPU time.
const title = isInstalled ? 'with a browser' : 'SKIPPED because no Chromium or Chrome is installed'
describe.skipIf(!isInstalled)(title, { timeout: 120_000 }, () => {
  test('a click is made once, however long the page takes over it', async () => {
    await using trial = await BrowserFixtures.open()
    await trial.navigate('/sluggish')
    expect(await trial.click('Slow')).not.toContain('not ready')
    expect((await trial.state()).title).toBe('1')
    await trial.navigate('/covered')
    expect(await trial.click('Under')).toContain('not ready')
    expect((await trial.state()).title).toBe('0')
  })

  test('a page of endless dialogs is closed, and the browser continues', async () => {
    await using trial = await BrowserFixtures.open({ action_timeout_seconds: 20 })
    await trial.call('browser_navigate', { url: `${base}/alerts` })
    let text = ''
    await vi.waitFor(async () => {
      text += await trial.callOk('browser_list_tabs')
      expect(text).toContain('dialogs without end')
    }, waitOptions)
    expect(await trial.navigate('/other')).toContain('Other')
  })

  test('a huge page gives a state that fits, what is in view first', async () => {
    const trial = await openShared()
    await trial.navigate('/huge')
    const text = await trial.callOk('browser_get_state')
    expect(text.length).toBeLessThan(50_000)
    const state: State = JSON.parse(text)
    expect(state.elements.length + must(state.elements_left_out, 'count')).toBe(25_000)
    for (let time = 0; time < 5; time++) await trial.callOk('browser_scroll', { direction: 'down' })
    const below = (await trial.state()).elements.filter(({ out_of_view }) => out_of_view === undefined)
    expect(must(below[0], 'element').text).not.toBe('link 0')
    await trial.callOk('browser_click', { index: must(below[3], 'element').index })
    expect((await trial.state()).url).toBe(must(below[3], 'element').href)
  })

  test('windows without end are closed above a limit', async () => {
    await using trial = await BrowserFixtures.open()
    await trial.navigate('/popups')
    let text = await trial.click('Many')
    await vi.waitFor(async () => {
      text += await trial.callOk('browser_list_tabs')
      expect(text).toContain('there are 30 already')
    }, waitOptions)
    expect((await trial.state()).tabs.length).toBeLessThanOrEqual(30)
  })

  test('after three actions that took too long the session is reset', async () => {
    await using trial = await BrowserFixtures.open({ action_timeout_seconds: 10, short_timeout_seconds: 2 })
    await trial.navigate('/storage')
    // Whether this one ends before the page hangs, the third that does not is given the short time.
    const texts = [(await trial.call('browser_navigate', { url: `${base}/hanging` })).text]
    while (!texts.some((text) => text.includes('reset')) && texts.length < 30) {
      texts.push((await trial.call('browser_get_state')).text)
    }
    expect(texts.at(-1)).toContain('longer than 2 seconds')
    expect(texts.at(-1)).toContain('reset')
    await trial.navigate('/stored')
    expect(await trial.callOk('browser_get_content')).toBe('null')
  })

  test('a tab that hangs can be listed and closed', async () => {
    await using trial = await BrowserFixtures.open({ action_timeout_seconds: 6 })
    await trial.navigate('/busy')
    const [tab] = (await trial.state()).tabs
    await trial.call('browser_click', { index: await trial.index('Hang') })
    expect(await trial.callOk('browser_list_tabs')).toContain('/busy')
    await trial.callOk('browser_close_tab', { tab_id: must(tab, 'tab').id })
    expect(await trial.navigate('/other')).toContain('Other')
  })
})
