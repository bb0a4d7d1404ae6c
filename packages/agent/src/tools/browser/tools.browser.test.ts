import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { must } from '@slipway/protocol'
import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import { findBrowser } from '../core/find-browser.ts'
import { parseAddress } from './page-actions.ts'
import { BrowserFixtures, base, isInstalled, openShared, waitOptions } from './testing/browser-fixtures.ts'

test('without a browser every action says what to install', async () => {
  await using trial = await BrowserFixtures.open({ executable_path: '/nowhere/chromium' })
  for (const name of ['browser_get_state', 'browser_list_tabs']) {
    const { is_error, text } = await trial.call(name)
    expect([is_error, text]).toEqual([true, expect.stringContaining('Install one')])
  }
})

test('there are fourteen tools, each with a description and a schema of its action', async () => {
  await using trial = await BrowserFixtures.open()
  expect(trial.tools.map((tool) => tool.name).sort()).toEqual([
    'browser_click',
    'browser_close_tab',
    'browser_get_content',
    'browser_get_state',
    'browser_get_storage',
    'browser_go_back',
    'browser_list_tabs',
    'browser_navigate',
    'browser_scroll',
    'browser_set_storage',
    'browser_start_recording',
    'browser_stop_recording',
    'browser_switch_tab',
    'browser_type',
  ])
  for (const tool of trial.tools) {
    expect(tool.definition.description?.length).toBeGreaterThan(30)
    expect(tool.parameters.type).toBe('object')
    expect(tool.parse({ nobody: 1 })).toEqual({ error: expect.any(String) })
  }
})

test.for([
  { executable_path: 5 },
  { action_timeout_seconds: 0 },
  { short_timeout_seconds: '5' },
  { navigation_timeout_seconds: 4000 },
])('parameters %o are refused', async (params) => {
  await expect(BrowserFixtures.open(params)).rejects.toMatchObject({ name: 'Problem', code: 'invalid' })
})

test('a browser is found on a path, and a directory of that name is none', async () => {
  const root = await mkdtemp(join(tmpdir(), 'slipway-found-'))
  await mkdir(join(root, 'chromium'))
  expect(await findBrowser({ path: root })).not.toBe(join(root, 'chromium'))
  await writeFile(join(root, 'chrome'), '', { mode: 0o755 })
  expect(await findBrowser({ path: root })).toBe(join(root, 'chrome'))
  expect(await findBrowser({ path: root, isOff: true })).toBe(undefined)
  await rm(root, { recursive: true })
})

test('any input becomes an http or https address or is refused', () => {
  const schemes = [
    'file:',
    'javascript:',
    'data:',
    'chrome:',
    'view-source:',
    'blob:',
    'HTTP:',
    'https:',
    ' about:',
  ]
  const given = fc.tuple(fc.constantFrom('', ...schemes), fc.oneof(fc.string(), fc.webUrl(), fc.domain()))
  fc.assert(
    fc.property(given, ([scheme, rest]) => {
      const address = parseAddress(scheme + rest)
      if ('refused' in address) return
      const { href, protocol } = new URL(address.url)
      expect(href === 'about:blank' || protocol === 'http:' || protocol === 'https:').toBe(true)
    }),
    { numRuns: 2000 },
  )
  expect(parseAddress('example.org/a')).toEqual({ url: 'https://example.org/a' })
  expect(parseAddress('localhost:8000')).toEqual({ url: 'http://localhost:8000/' })
  expect(parseAddress('localhost.example.org')).toEqual({ url: 'https://localhost.example.org/' })
  expect(parseAddress('file:///etc/passwd')).toEqual({ refused: expect.stringContaining('file:') })
})

const title = isInstalled ? 'with a browser' : 'SKIPPED because no Chromium or Chrome is installed'
describe.skipIf(!isInstalled)(title, { timeout: 120_000 }, () => {
  test('the state lists what can be acted on, by index and in the order of the page', async () => {
    const trial = await openShared()
    expect(await trial.navigate('/')).toContain(`The page is ${base}/ ("Form")`)
    const state = await trial.state()
    expect(state).toMatchObject({ url: `${base}/`, title: 'Form', scroll: { pixels_above: 0 } })
    expect(state.tabs).toEqual([
      { id: expect.stringMatching(/^[0-9a-f]{4}$/), url: `${base}/`, title: 'Form', is_current: true },
    ])
    expect(state.elements.map(({ index }) => index)).toEqual([...state.elements.keys()])
    const known = state.elements.map(({ text, label, name, type }) => text ?? label ?? name ?? type)
    const expected = ['Name', 'word', 'Agree', 'colour', 'more', 'Send', 'Never', 'Pointer', 'Editor']
    expect(known).toEqual([...expected, 'Other page', 'New window', 'file', 'In the shadow', 'Far below'])
    const [name, , , colour] = state.elements
    expect(name).toMatchObject({ tag: 'input', placeholder: 'you', editable: true })
    expect(colour).toMatchObject({ tag: 'select', value: 'red', options: ['red', 'green'] })
    expect(state.elements.find(({ text }) => text === 'Never')).toMatchObject({ disabled: true })
    expect(state.elements.at(-1)).toMatchObject({ out_of_view: true })
  })

  test('a form is filled and sent', async () => {
    const trial = await openShared()
    await trial.navigate('/')
    await trial.callOk('browser_type', { index: await trial.index('Name'), text: 'Ada & Bob' })
    await trial.callOk('browser_type', { index: await trial.index('word'), text: 'psst' })
    await trial.callOk('browser_type', { index: await trial.index('colour'), text: 'green' })
    await trial.callOk('browser_type', { index: await trial.index('more'), text: 'two\nlines' })
    await trial.click('Agree')
    const { elements } = await trial.state()
    expect(elements.find(({ name }) => name === 'word')).toMatchObject({ value: '***' })
    expect(elements.find(({ name }) => name === 'who')).toMatchObject({ value: 'Ada & Bob' })
    expect(elements.find(({ name }) => name === 'yes')).toMatchObject({ checked: true })
    expect(await trial.click('Send')).toContain(`The page is now ${base}/sent?`)
    const content = await trial.callOk('browser_get_content')
    expect(content).toContain('/sent?who=Ada+%26+Bob&word=psst&yes=on&colour=g&more=two%0D%0Alines')
    await trial.callOk('browser_go_back')
    expect((await trial.state()).title).toBe('Form')
  })

  test('a line break at the end of a one-line text presses Enter', async () => {
    await using trial = await BrowserFixtures.open()
    await trial.navigate('/enter')
    expect(await trial.callOk('browser_type', { index: 0, text: 'x' }).catch(String)).toContain(
      'not been read',
    )
    expect(
      await trial.callOk('browser_type', { index: await trial.index('q'), text: 'find me\n' }),
    ).toContain(`/sent?q=find+me`)
  })

  test('files of the workspace are chosen in an input for files, and others are not', async () => {
    const trial = await openShared()
    await writeFile(join(trial.workspace, 'a b.csv'), 'x,y')
    await writeFile(join(trial.workspace, 'notes.unknown'), 'hello')
    await trial.navigate('/upload')
    const choose = async (name: string, text: string) =>
      await trial.call('browser_type', { index: await trial.index(name), text })
    expect((await choose('One', 'a b.csv')).text).toContain('Chose a b.csv for')
    expect((await trial.state()).title).toBe('a b.csv text/csv x,y')
    const many = `${join(trial.workspace, 'notes.unknown')}\na b.csv\n`
    expect((await choose('One', many)).is_error).toBe(true)
    expect((await choose('Many', many)).is_error).toBe(false)
    expect((await trial.state()).title).toBe(
      'notes.unknown application/octet-stream hello; a b.csv text/csv x,y',
    )
    expect((await choose('Many', '')).text).toContain('Chose no file')
    for (const [path, said] of [
      ['missing.txt', 'There is no file'],
      ['.', 'is a directory'],
      ['/etc/passwd', 'is outside the workspace'],
    ] as const) {
      const { is_error, text } = await choose('One', path)
      expect([is_error, text]).toEqual([true, expect.stringContaining(said)])
    }
  })

  test('what cannot be typed into says so', async () => {
    const trial = await openShared()
    await trial.navigate('/')
    for (const [name, said] of [
      ['file', 'There is no file'],
      ['Agree', 'click it'],
      ['Never', 'disabled'],
    ] as const) {
      const { is_error, text } = await trial.call('browser_type', {
        index: await trial.index(name),
        text: 'x',
      })
      expect([is_error, text]).toEqual([true, expect.stringContaining(said)])
    }
    await trial.callOk('browser_type', { index: await trial.index('Editor'), text: 'edited' })
    expect(await trial.index('edited')).toBeGreaterThan(0)
    const wrong = await trial.call('browser_type', { index: await trial.index('colour'), text: 'blue' })
    expect([wrong.is_error, wrong.text]).toEqual([true, expect.stringContaining('["red","green"]')])
  })

  test('clicks reach elements with a listener, in shadow roots and in frames of other sites', async () => {
    const trial = await openShared()
    await trial.navigate('/')
    await trial.click('Pointer')
    expect((await trial.state()).title).toBe('Clicked')
    await trial.click('In the shadow')
    expect((await trial.state()).title).toBe('Shadow')
    await trial.navigate('/frames')
    for (const times of [1, 2]) {
      await trial.click('Inside')
      const { elements } = await trial.state()
      expect(elements.filter(({ text }) => text === 'pressed')).toHaveLength(times)
    }
    const content = await trial.callOk('browser_get_content')
    expect(content).toContain('outer text')
    expect(content.match(/inner text/g)).toHaveLength(2)
  })

  test('an element that is gone, an index that never was and a state of another page are refused', async () => {
    await using trial = await BrowserFixtures.open()
    await trial.navigate('/changing')
    const index = await trial.index('Go away')
    await trial.callOk('browser_click', { index })
    const gone = await trial.call('browser_click', { index })
    expect([gone.is_error, gone.text]).toEqual([true, expect.stringContaining('no longer on the page')])
    const never = await trial.call('browser_click', { index: 99 })
    expect([never.is_error, never.text]).toEqual([
      true,
      expect.stringContaining('no element with the index 99'),
    ])
    await trial.navigate('/other')
    const old = await trial.call('browser_click', { index: 1 })
    expect([old.is_error, old.text]).toEqual([true, expect.stringContaining('browser_get_state')])
  })

  test('tabs are opened, listed, switched and closed by their ids', async () => {
    await using trial = await BrowserFixtures.open()
    await trial.navigate('/')
    const [first] = (await trial.state()).tabs
    await trial.openTab('New window')
    expect((await trial.state()).url).toBe(`${base}/`)
    expect(await trial.click('Other page', true)).toContain(`${base}/other`)
    const { tabs, url } = await trial.state()
    expect([tabs.length, url]).toEqual([3, `${base}/other`])
    expect(JSON.parse(await trial.callOk('browser_list_tabs'))).toEqual(tabs)
    await trial.callOk('browser_switch_tab', { tab_id: must(first, 'a tab').id })
    expect((await trial.state()).url).toBe(`${base}/`)
    for (const { id } of tabs) await trial.callOk('browser_close_tab', { tab_id: id })
    expect(await trial.callOk('browser_list_tabs')).toBe('No tab is open.')
    for (const name of ['browser_switch_tab', 'browser_close_tab']) {
      const { is_error, text } = await trial.call(name, { tab_id: must(first, 'a tab').id })
      expect([is_error, text]).toEqual([true, expect.stringContaining('There is no tab')])
    }
    expect((await trial.state()).url).toBe('about:blank')
  })

  test('the page scrolls, also where only a part of it does', async () => {
    const trial = await openShared()
    await trial.navigate('/')
    await trial.callOk('browser_scroll', { direction: 'down' })
    const { scroll } = await trial.state()
    expect(scroll.pixels_above).toBe(810)
    await trial.callOk('browser_scroll', { direction: 'up' })
    expect((await trial.state()).scroll.pixels_above).toBe(0)
    await trial.navigate('/inner-scroll')
    expect(await trial.callOk('browser_scroll')).toContain('810 pixels of the page are above')
  })

  test('long content comes in parts that join into the whole', async () => {
    const trial = await openShared()
    await trial.navigate('/long')
    const parts: string[] = []
    for (let start: number | undefined = 0; start !== undefined; ) {
      const text: string = await trial.callOk('browser_get_content', { start_from_char: start })
      const end = must(
        /\n\n\[Characters (\d+) to (\d+) of (\d+)(?:; read on with start_from_char (\d+))?/.exec(text),
        'a note at the end',
      )
      expect(Number(end[1])).toBe(start)
      parts.push(text.slice(0, end.index))
      expect(parts.at(-1)?.length).toBe(Number(end[2]) - Number(end[1]))
      start = end[4] === undefined ? undefined : Number(end[4])
    }
    const whole = parts.join('')
    expect(parts.length).toBeGreaterThan(3)
    expect(whole.isWellFormed() && parts.every((part) => part.isWellFormed())).toBe(true)
    expect(whole.match(/word 😀 tail/gu)).toHaveLength(8000)
    const beyond = await trial.call('browser_get_content', { start_from_char: 10_000_000 })
    expect([beyond.is_error, beyond.text]).toEqual([true, expect.stringContaining(String(whole.length))])
  })

  test('content is Markdown, with links on request', async () => {
    const trial = await openShared()
    await trial.navigate('/rich')
    const text = await trial.callOk('browser_get_content')
    expect(text).toBe(
      '# Title\n\nmenu\n\nA bold link.\n\n- one\n- two\n\n```\na\n  b\n```\n\n| x | y |\n| 1 | 2 |\n![A cat]',
    )
    const linked = await trial.callOk('browser_get_content', { extract_links: true })
    expect(linked).toContain(`A bold [link](${base}/other).`)
  })

  test('cookies and local storage go out and come back, and replace what is there', async () => {
    await using trial = await BrowserFixtures.open()
    await trial.navigate('/storage')
    const state = JSON.parse(await trial.callOk('browser_get_storage'))
    expect(state.origins).toEqual([
      expect.objectContaining({ origin: base, localStorage: [{ name: 'k', value: 'v1' }] }),
    ])
    await trial.callOk('browser_set_storage', { storage_state: { cookies: [], origins: [] } })
    await trial.navigate('/stored')
    expect(await trial.callOk('browser_get_content')).toBe('null')
    await trial.callOk('browser_set_storage', { storage_state: state })
    await trial.navigate('/stored')
    expect(await trial.callOk('browser_get_content')).toBe('v1 c=1')
    for (const storage_state of [{ cookies: 5 }, { cookies: [{ name: 1 }] }, { origins: ['x'] }]) {
      expect((await trial.call('browser_set_storage', { storage_state })).is_error).toBe(true)
    }
  })

  test('a screenshot is a JPEG that fits into an event, also of noise', async () => {
    const trial = await openShared()
    await trial.navigate('/noise')
    const { screenshot_data } = await trial.call('browser_get_state', { include_screenshot: true })
    const bytes = Buffer.from(must(screenshot_data, 'screenshot'), 'base64')
    expect(bytes.subarray(0, 3).toString('hex')).toBe('ffd8ff')
    expect(must(screenshot_data, 'screenshot').length).toBeLessThan(700_000)
    expect((await trial.call('browser_get_state')).screenshot_data).toBeUndefined()
  })

  test('the state of a page is read when it shows a text, also in a frame, or after a time', async () => {
    await using trial = await BrowserFixtures.open({ short_timeout_seconds: 2 })
    const read = async (wait_for: string) => {
      const options = { awaitedText: wait_for }
      const signal = new AbortController().signal
      return JSON.parse((await trial.call('browser_get_state', { wait_for }, signal, options)).text)
    }
    await trial.navigate('/later')
    expect(await read('It is ready')).not.toHaveProperty('wait_for')
    expect(await trial.callOk('browser_get_content')).toContain('It is ready')
    expect(await read('Never shown')).toMatchObject({
      title: 'Later',
      wait_for: 'The text did not come within 2 s.',
    })
    await expect(trial.call('browser_get_state', { wait_for: 7 })).rejects.toThrow('has to be a text')
    const waiting = trial.call('browser_get_state', { wait_for: 'x' }, AbortSignal.timeout(300), {
      awaitedText: 'never there',
    })
    await expect(waiting).rejects.toThrow()
  })

  test('what happens is recorded in files, without what was typed', async () => {
    await using trial = await BrowserFixtures.open()
    expect((await trial.call('browser_stop_recording')).is_error).toBe(true)
    const started = await trial.call('browser_start_recording')
    expect(started.full_output_save_dir).toBe(join(trial.directory, 'recordings', '1'))
    expect((await trial.call('browser_start_recording')).is_error).toBe(true)
    await trial.navigate('/secret')
    await trial.navigate('/')
    await trial.callOk('browser_type', { index: await trial.index('word'), text: 'topsecretword' })
    await trial.click('Other page')
    const stopped = await trial.call('browser_stop_recording')
    const directory = must(stopped.full_output_save_dir, 'directory')
    const files = (await readdir(directory)).sort((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10))
    const texts = await Promise.all(files.map((file) => readFile(join(directory, file), 'utf8')))
    const events = texts.flatMap((text) => JSON.parse(text))
    expect(events.filter(({ type }) => type === 'action').map(({ tool }) => tool)).toContain('browser_type')
    expect(events.filter(({ type }) => type === 'navigated').map(({ url }) => url)).toEqual(
      expect.arrayContaining([`${base}/`, `${base}/other`]),
    )
    expect(events.every(({ at }) => !Number.isNaN(Date.parse(at)))).toBe(true)
    expect(texts.join('')).not.toContain('topsecretword')
    await trial.callOk('browser_start_recording')
    expect(await trial.callOk('browser_stop_recording')).toContain(join('recordings', '2'))
  })

  test('only http and https addresses are opened', async () => {
    await using trial = await BrowserFixtures.open()
    const script = 'javascript:alert(1)'
    const files = [
      'file:///etc/passwd',
      'FILE:/etc/passwd',
      'view-source:file:///etc/passwd',
      'chrome://version',
    ]
    for (const url of [
      ...files,
      script,
      'data:text/html,x',
      'ftp://127.0.0.1/x',
      'http://',
      '',
      'no address',
    ]) {
      const { is_error, text } = await trial.call('browser_navigate', { url })
      expect(is_error, `${url}: ${text}`).toBe(true)
    }
    expect((await trial.state()).url).toBe('about:blank')
    await trial.callOk('browser_navigate', { url: 'about:blank' })
    expect(await trial.callOk('browser_navigate', { url: base.replace('http://', '') })).toContain('Form')
  })

  test('pages lead to no file', async () => {
    await using trial = await BrowserFixtures.open()
    const redirected = await trial.call('browser_navigate', { url: `${base}/file` })
    expect(redirected.is_error).toBe(true)
    expect(await trial.callOk('browser_get_content')).not.toContain('root:')
    await trial.navigate('/file-link')
    await trial.click('passwd')
    const opened = await trial.call('browser_click', { index: await trial.index('passwd'), new_tab: true })
    expect(opened.is_error).toBe(true)
    expect((await trial.state()).tabs.every(({ url }) => !url.startsWith('file:'))).toBe(true)
  })

  test('an error status, a closed port and an endless page are reported', async () => {
    await using trial = await BrowserFixtures.open({ navigation_timeout_seconds: 2 })
    expect(await trial.navigate('/missing')).toContain('status 404')
    const closed = await trial.call('browser_navigate', { url: 'http://127.0.0.1:1/' })
    expect(closed.is_error).toBe(true)
    const never = await trial.call('browser_navigate', { url: `${base}/never` })
    expect([never.is_error, never.text]).toEqual([true, expect.stringContaining('within 2 seconds')])
    expect(await trial.navigate('/slow')).toContain('still loading')
    expect(await trial.callOk('browser_get_content')).toContain('first part')
  })

  test('dialogs are dismissed and reported', async () => {
    await using trial = await BrowserFixtures.open()
    await trial.navigate('/alert')
    expect(await trial.click('Ask')).toContain('dialog (confirm), which was dismissed: Really?')
    expect((await trial.state()).title).toBe('false')
    await trial.navigate('/leave')
    await trial.click('i').catch(() => {})
    await trial.navigate('/other')
  })

  test('a page that changed its JavaScript cannot disturb what is read of it', async () => {
    const trial = await openShared()
    await trial.navigate('/evil')
    expect(await trial.index('Still here')).toBe(0)
    expect(await trial.callOk('browser_get_content')).toContain('words')
    await trial.click('Still here')
  })

  test('a page that closes itself leaves the other tabs', async () => {
    await using trial = await BrowserFixtures.open()
    await trial.navigate('/opener')
    const id = await trial.openTab('Open')
    await trial.callOk('browser_switch_tab', { tab_id: id })
    // The tab is there before its page is.
    await vi.waitFor(() => trial.index('Close me'), waitOptions)
    await trial.click('Close me')
    await vi.waitFor(async () => expect((await trial.state()).title).toBe('Opener'), waitOptions)
  })

  test('a download is refused and reported', async () => {
    await using trial = await BrowserFixtures.open()
    await trial.navigate('/download-link')
    expect(await trial.click('Get it')).toContain('download of')
    const direct = await trial.call('browser_navigate', { url: `${base}/download` })
    expect([direct.is_error, direct.text]).toEqual([true, expect.stringContaining('was refused')])
  })

  test('secrets do not come out of a page', async () => {
    const trial = await openShared()
    await trial.navigate('/secret')
    expect(await trial.callOk('browser_get_content')).toBe('key is <secret-hidden>')
  })

  test('an abort is answered at once, and the browser continues', async () => {
    await using trial = await BrowserFixtures.open()
    await trial.navigate('/')
    const stop = new AbortController()
    const begun = Date.now()
    const navigating = trial.call('browser_navigate', { url: `${base}/never` }, stop.signal)
    setTimeout(() => stop.abort(), 300)
    await expect(navigating).rejects.toThrow()
    expect(Date.now() - begun).toBeLessThan(5000)
    expect(await trial.navigate('/other')).toContain('Other')
    await expect(trial.call('browser_get_state', {}, AbortSignal.abort())).rejects.toThrow()
  })

  test('a killed browser is restarted, and none is left after closing the tools', async () => {
    const trial = await BrowserFixtures.open()
    const before = await browserPids()
    await trial.navigate('/other')
    const own = (await browserPids()).filter((pid) => !before.includes(pid))
    expect(own.length).toBeGreaterThan(0)
    for (const pid of own) process.kill(pid, 'SIGKILL')
    await delay(300)
    const killed = await trial.call('browser_get_state')
    expect([killed.is_error, killed.text]).toEqual([true, expect.stringContaining('ended unexpectedly')])
    await trial.navigate('/other')
    const second = (await browserPids()).filter((pid) => !before.includes(pid))
    for (const pid of second) process.kill(pid, 'SIGSTOP')
    await trial[Symbol.asyncDispose]()
    expect((await browserPids()).filter((pid) => own.includes(pid) || second.includes(pid))).toEqual([])
    const after = await trial.call('browser_list_tabs')
    expect([after.is_error, after.text]).toEqual([true, 'The browser is closed.'])
  })
})

/** Processes that this one started and that are browsers. */
async function browserPids(): Promise<number[]> {
  const found: number[] = []
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '')
    const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    if (Number(parent) === process.pid && state !== 'Z' && /chrom/.test(stat)) found.push(Number(name))
  }
  return found
}
