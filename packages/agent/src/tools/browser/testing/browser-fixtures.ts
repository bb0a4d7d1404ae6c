import { once } from 'node:events'
import { mkdir, mkdtemp, realpath, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { must } from '@slipway/protocol'
import { afterAll, beforeAll, expect, vi } from 'vitest'
import { Secrets } from '../../../secrets/secrets.ts'
import { Workspace } from '../../../workspace/workspace.ts'
import { findBrowser } from '../../core/find-browser.ts'
import type { ToolRunOptions } from '../../core/tool.ts'
import { openBrowser } from '../tools.ts'

export const isInstalled = (await findBrowser({ path: process.env.PATH })) !== undefined

export const waitOptions = { timeout: 20_000, interval: 200 }

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
export let base = ''

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
export class BrowserFixtures implements AsyncDisposable {
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
export async function openShared(): Promise<BrowserFixtures> {
  shared ??= await BrowserFixtures.open()
  const tabs = await shared.callOk('browser_list_tabs')
  for (const [, tab_id = ''] of tabs.matchAll(/"id": ?"([0-9a-f]{4})"/g))
    await shared.callOk('browser_close_tab', { tab_id })
  return shared
}

export interface State {
  url: string
  title: string
  tabs: { id: string; url: string; title: string; is_current: boolean }[]
  scroll: { pixels_above: number; pixels_below: number }
  elements: ({ index: number } & Record<string, unknown>)[]
  elements_left_out?: number
  notes?: string[]
}
