import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { must } from '@slipway/protocol'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { Secrets } from '../../secrets/secrets.ts'
import { Workspace } from '../../workspace/workspace.ts'
import { findBrowser } from '../core/find-browser.ts'
import type { ToolRunOptions } from '../core/tool.ts'
import { parseAddress } from './page-actions.ts'
import { openBrowser } from './tools.ts'

const isInstalled = (await findBrowser({ path: process.env.PATH })) !== undefined

const waitOptions = { timeout: 20_000, interval: 200 }

type Answer = (request: IncomingMessage, response: ServerResponse) => void

const form = `<title>Form</title><h1>Form</h1>
<form action="/sent"><label>Name <input name=who placeholder=you></label>
<input type=password name=word><input type=checkbox name=yes aria-label=Agree>
<select name=colour><option>red</option><option value=g>green</option></select>
<textarea name=more></textarea><button>Send</button></form>
<button disabled>Never</button><button style="display:none">Hidden</button>
<div onclick="document.title='Clicked'" style="cursor:pointer">Pointer</div>
<div contenteditable aria-label=Editor></div>
<a href="/other">Other page</a> <a href="/other" target="_blank">New window</a>
<input type=file><div id=host></div>
<script>host.attachShadow({mode:'open'}).innerHTML='<button onclick="document.title=\\'Shadow\\'">In the shadow</button>'</script>
<div style="height:5000px"></div><button>Far below</button>`

const pages: Record<string, string | Answer> = {
  '/': form,
  '/other': '<title>Other</title><p>The other page.</p>',
  '/sent': (request, response) => response.end(`<title>Sent</title><pre>${request.url}</pre>`),
  '/enter': '<form action="/sent"><input name=q></form>',
  '/frames': (request, response) => {
    const { port } = request.socket.localAddress ? (request.socket.address() as AddressInfo) : { port: 0 }
    response.end(
      `<title>Frames</title><p>outer text</p><iframe src="/frame"></iframe><iframe src="http://localhost:${port}/frame?far"></iframe>`,
    )
  },
  '/upload': `<title>Upload</title><input type=file aria-label=One onchange="show(this)"><input type=file multiple aria-label=Many onchange="show(this)"><script>
async function show({files}){document.title=(await Promise.all([...files].map(async f=>[f.name,f.type,await f.text()].join(' ')))).join('; ')||'none'}</script>`,
  '/frame': `<p>inner text</p><button onclick="this.textContent='pressed'">Inside</button>`,
  '/evil':
    '<title>Evil</title><script>JSON.stringify=()=>"{}";Array.prototype.push=()=>{throw 1};Array.prototype.toJSON=()=>1;Document.prototype.createTreeWalker=()=>{throw 2};Element.prototype.getClientRects=()=>[];Object.prototype.toJSON=()=>3</script><button>Still here</button><p>words</p>',
  '/huge': `<title>Huge</title><body>${Array.from({ length: 25_000 }, (_, at) => `<div><a href="/x${at}">link ${at}</a></div>`).join('')}`,
  '/covered': `<title>0</title><button onclick="document.title=Number(document.title)+1">Under</button><div style="position:fixed;inset:0" id=over></div>`,
  '/later': `<title>Later</title><p>Loading</p><iframe srcdoc="<p>inside</p><script>setTimeout(()=>document.querySelector('p').textContent='It is ready',700)</script>"></iframe><p style="display:none">Never shown</p>`,
  '/sluggish': `<title>0</title><button onclick="document.title=Number(document.title)+1;const t=Date.now();while(Date.now()-t<7000);">Slow</button>`,
  '/changing': `<title>Changing</title><button id=b onclick="setTimeout(()=>this.remove(),0)">Go away</button><button>Stay</button>`,
  '/alerts': `<title>Alerts</title><script>setTimeout(()=>{for(;;)alert('again')},50)</script>`,
  '/alert': `<title>Alert</title><button onclick="document.title=String(confirm('Really?'))">Ask</button>`,
  '/closing': `<title>Closing</title><button onclick="window.close()">Close me</button>`,
  '/opener': `<title>Opener</title><a href="/closing" target="_blank" rel="opener">Open</a>`,
  '/leave': `<title>Leave</title><input id=i><script>addEventListener('beforeunload',e=>e.preventDefault())</script>`,
  '/popups': `<title>Popups</title><button onclick="for(let n=0;n<100;n++)window.open('/other')">Many</button>`,
  '/hanging': `<title>Hanging</title><script>setTimeout(() => { for (;;); }, 200)</script>`,
  '/busy': `<title>Busy</title><button onclick="for(;;);">Hang</button>`,
  '/never': () => {},
  '/slow': (_, response) => {
    response.write('<title>Slow</title><p>first part</p>')
  },
  '/file': (_, response) => {
    response.writeHead(302, { location: 'file:///etc/passwd' }).end()
  },
  '/file-link': `<title>Link</title><a href="file:///etc/passwd">passwd</a><a href="javascript:document.title='ran'">script</a>`,
  '/download': (_, response) => {
    response.writeHead(200, {
      'content-type': 'application/octet-stream',
      'content-disposition': 'attachment; filename="x.bin"',
    })
    response.end(Buffer.alloc(1000))
  },
  '/download-link': `<title>Download</title><a href="/download">Get it</a>`,
  '/storage': `<title>Storage</title><script>localStorage.setItem('k','v1');document.cookie='c=1;path=/'</script>`,
  '/stored':
    '<title>Stored</title><p id=p></p><script>p.textContent=localStorage.getItem("k")+" "+document.cookie</script>',
  '/long': `<title>Long</title><main><h2>Begin</h2>${'<p>word &#128512; tail</p>'.repeat(8000)}</main>`,
  '/rich': `<h1>Title</h1><nav>menu</nav><p>A <b>bold</b> <a href="/other">link</a>.</p><ul><li>one<li>two</ul><pre>a
  b</pre><table><tr><th>x<th>y<tr><td>1<td>2</table><script>no</script><p style="display:none">unseen</p><img alt="A cat" src="data:,">`,
  '/secret': '<title>Secret</title><p>key is hunter2hunter2</p>',
  '/missing': (_, response) => {
    response.writeHead(404, { 'content-type': 'text/html' }).end('<title>No</title>none')
  },
  '/inner-scroll':
    '<body style="margin:0;overflow:hidden;height:100vh"><div style="height:100vh;overflow:auto"><div style="height:9000px">tall</div><button>End</button></div>',
  '/noise': `<title>Noise</title><body style="margin:0"><canvas id=c width=1280 height=900></canvas><script>
    const x=c.getContext('2d'),d=x.createImageData(1280,900);for(let i=0;i<d.data.length;i++)d.data[i]=i%4==3?255:Math.random()*256;x.putImageData(d,0,0)</script>`,
}

function servePage(request: IncomingMessage, response: ServerResponse): void {
  const page = pages[must(request.url, 'address').split('?')[0] ?? '']
  response.setHeader('content-type', 'text/html; charset=utf-8')
  if (typeof page === 'function') page(request, response)
  else if (page === undefined) response.writeHead(404).end('none')
  else response.end(page)
}

const server = createServer(servePage)
let base = ''

beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})

afterAll(() => {
  server.closeAllConnections()
  server.close()
})

/** A set of the tools with everything around it. */
class BrowserFixtures implements AsyncDisposable {
  readonly directory: string
  readonly #root: string
  readonly #workspace: Workspace
  readonly #tools: Awaited<ReturnType<typeof openBrowser>>

  private constructor(root: string, workspace: Workspace, tools: Awaited<ReturnType<typeof openBrowser>>) {
    this.#root = root
    this.directory = join(root, 'own')
    this.#workspace = workspace
    this.#tools = tools
  }

  static async open(params: Record<string, unknown> = {}): Promise<BrowserFixtures> {
    const root = await realpath(await mkdtemp(join(tmpdir(), 'slipway-browser-')))
    await mkdir(join(root, 'own'))
    const workspace = await Workspace.open({ directory: root, env: { PATH: process.env.PATH ?? '' } })
    const secrets = new Secrets({
      KEY: { kind: 'StaticSecret', value: 'hunter2hunter2', description: undefined },
    })
    try {
      const tools = await openBrowser({ workspace, secrets, directory: join(root, 'own') }, params)
      return new BrowserFixtures(root, workspace, tools)
    } catch (error) {
      await rm(root, { recursive: true })
      throw error
    }
  }

  get tools() {
    return this.#tools
  }

  /** The directory of the workspace. */
  get workspace(): string {
    return this.#root
  }

  async call(
    name: string,
    args: Record<string, unknown> = {},
    signal = new AbortController().signal,
    options: ToolRunOptions = {},
  ) {
    const tool = must(
      this.#tools.find((tool) => tool.name === name),
      name,
    )
    const parsed = tool.parse(args)
    if ('error' in parsed) throw new Error(parsed.error)
    const observation = await tool.run(parsed.action, signal, options)
    if (observation.kind !== 'BrowserObservation') throw new Error(observation.kind)
    const [first] = observation.content
    if (first?.type !== 'text') throw new Error('no text')
    return { ...observation, text: first.text }
  }

  async callOk(name: string, args: Record<string, unknown> = {}): Promise<string> {
    const { text, is_error } = await this.call(name, args)
    expect(is_error, text).toBe(false)
    return text
  }

  async navigate(path: string): Promise<string> {
    return await this.callOk('browser_navigate', { url: base + path })
  }

  async state(): Promise<State> {
    return JSON.parse(await this.callOk('browser_get_state'))
  }

  /** The index of the element of a name in the state of now. */
  async index(name: string): Promise<number> {
    const { elements } = await this.state()
    const found = elements.find((element) => Object.values(element).includes(name))
    return must(found, `no ${name} in ${JSON.stringify(elements)}`).index
  }

  async click(name: string, new_tab = false): Promise<string> {
    return await this.callOk('browser_click', { index: await this.index(name), new_tab })
  }

  /** A click that opens a tab, of which it or a later call tells. Returns the tab's id. */
  async openTab(name: string): Promise<string> {
    let told = await this.click(name)
    const idOf = () => /A page opened the tab ([0-9a-f]{4})\./.exec(told)?.[1]
    await vi.waitFor(async () => {
      if (idOf() === undefined) told += await this.callOk('browser_list_tabs')
      expect(idOf()).toBeDefined()
    }, waitOptions)
    return must(idOf(), 'a tab')
  }

  async [Symbol.asyncDispose]() {
    await Promise.all(this.#tools.map((tool) => tool.close?.()))
    await this.#workspace[Symbol.asyncDispose]()
    await rm(this.#root, { recursive: true, force: true })
  }
}

let shared: BrowserFixtures | undefined
afterAll(async () => await shared?.[Symbol.asyncDispose]())

/** One browser, without a tab, for the tests that read pages and act on them: a start takes seconds. */
async function openShared(): Promise<BrowserFixtures> {
  shared ??= await BrowserFixtures.open()
  const tabs = await shared.callOk('browser_list_tabs')
  for (const [, tab_id = ''] of tabs.matchAll(/"id": ?"([0-9a-f]{4})"/g))
    await shared.callOk('browser_close_tab', { tab_id })
  return shared
}

interface State {
  url: string
  title: string
  tabs: { id: string; url: string; title: string; is_current: boolean }[]
  scroll: { pixels_above: number; pixels_below: number }
  elements: ({ index: number } & Record<string, unknown>)[]
  elements_left_out?: number
  notes?: string[]
}

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

  test('a click is made once, however long the page takes over it', async () => {
    await using trial = await BrowserFixtures.open()
    await trial.navigate('/sluggish')
    expect(await trial.click('Slow')).not.toContain('not ready')
    expect((await trial.state()).title).toBe('1')
    await trial.navigate('/covered')
    expect(await trial.click('Under')).toContain('not ready')
    expect((await trial.state()).title).toBe('0')
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

  test('a page that changed its JavaScript cannot disturb what is read of it', async () => {
    const trial = await openShared()
    await trial.navigate('/evil')
    expect(await trial.index('Still here')).toBe(0)
    expect(await trial.callOk('browser_get_content')).toContain('words')
    await trial.click('Still here')
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
