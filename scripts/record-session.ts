import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { MockProvider, type ModelReply } from '../conformance/support/mock-provider.ts'
import { drawFilm, type Frame } from './terminal-film.ts'

/**
 * `npx node scripts/record-session.ts`: drives a session in a terminal of tmux, with a model on loopback that
 * says what stands here, and writes what was seen to `docs/images/session.svg`. Everything else is real: the
 * server, the tools, the files.
 */
const run = promisify(execFile)
const root = resolve(import.meta.dirname, '..')
const target = join(root, 'docs/images/session.svg')
const columns = 84
const rows = 24
const frameMs = 200
/** A frame is shown at most so long, however long this machine has taken for it. */
const maxFrameMs = 1_400

const slug = `export const slugify = (text) => text.toLowerCase().replaceAll(' ', '-')\n`
const better = `const plain = (text) => text.normalize('NFKD').replaceAll(/\\p{M}/gu, '')
export const slugify = (text) => plain(text).toLowerCase().replaceAll(' ', '-')\n`
const slugTest = `import assert from 'node:assert/strict'
import test from 'node:test'
import { slugify } from './slug.js'

test('marks are left out', () => assert.equal(slugify('Über Café'), 'uber-cafe'))\n`

const testScript = `node --test | grep -E '^. (pass|fail)'`

const terminal = (command: string, security_risk: string) => ({
  name: 'terminal',
  arguments: { command, security_risk, summary: command },
})
const edit = (args: object) => ({
  name: 'file_editor',
  arguments: { security_risk: 'LOW', summary: 'edit', ...args },
})

function replies(project: string): ModelReply[] {
  const path = join(project, 'slug.js')
  return [
    { text: 'I look at the code first.', calls: [terminal('cat slug.js', 'LOW')] },
    { calls: [edit({ command: 'str_replace', path, old_str: slug, new_str: better })] },
    { calls: [edit({ command: 'create', path: join(project, 'slug.test.js'), file_text: slugTest })] },
    { calls: [terminal('npm test --silent', 'LOW')] },
    { text: 'The test passes. I push it.', calls: [terminal('git push origin main', 'HIGH')] },
    { text: 'I have not pushed. slugify() now drops marks, and slug.test.js shows it.' },
  ]
}

const home = await mkdtemp(join(tmpdir(), 'slipway-recording-'))
const project = join(home, 'shop')
await mkdir(project)
await writeFile(join(project, 'slug.js'), slug)
await writeFile(
  join(project, 'package.json'),
  `${JSON.stringify({ type: 'module', scripts: { test: testScript } })}\n`,
)
await run('git', ['init', '-q', project])
await using provider = await MockProvider.open()
provider.replies = replies(project)
const tmux = async (...args: string[]) =>
  (await run('tmux', ['-S', join(home, 'tmux'), ...args], { env: environment() })).stdout

function environment(): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(SLIPWAY|LLM|XDG|TMUX|NO_COLOR)/.test(name),
  )
  const model = { LLM_MODEL: 'anthropic/claude-sonnet-4-5', LLM_BASE_URL: provider.url, LLM_API_KEY: 'none' }
  return { ...Object.fromEntries(inherited), HOME: home, ...model, SLIPWAY_LOG_LEVEL: 'error' }
}

const frames: Frame[] = []
let isRecording = true

async function record(): Promise<void> {
  while (isRecording) {
    const screen = (await tmux('capture-pane', '-p', '-e')).replaceAll(home, '/home/me')
    const last = frames.at(-1)
    if (last?.screen === screen)
      frames[frames.length - 1] = { screen, ms: Math.min(maxFrameMs, last.ms + frameMs) }
    else frames.push({ screen, ms: frameMs })
    await sleep(frameMs)
  }
}

async function until(pattern: RegExp): Promise<void> {
  for (let tries = 0; tries < 600; tries++) {
    if (pattern.test(await tmux('capture-pane', '-p'))) return
    await sleep(200)
  }
  throw new Error(`The screen does not show ${pattern}:\n${await tmux('capture-pane', '-p')}`)
}

async function type(text: string): Promise<void> {
  for (const word of text.split(/(?<= )/)) {
    await tmux('send-keys', '-l', word)
    await sleep(frameMs)
  }
  await tmux('send-keys', 'Enter')
}

try {
  const main = join(root, 'packages/cli/src/main.js')
  const command = `PS1='$ ' exec bash --norc --noprofile`
  await tmux(
    '-f',
    '/dev/null',
    'new-session',
    '-d',
    '-x',
    String(columns),
    '-y',
    String(rows),
    '-c',
    project,
    command,
  )
  await tmux('send-keys', '-l', `slipway() { '${process.execPath}' '${main}' "$@"; }; clear`)
  await tmux('send-keys', 'Enter')
  await sleep(1_000)
  const recorded = record()
  await type('slipway')
  await until(/\n› *\n/)
  await type('Make slugify() drop accents, with a test')
  await until(/Allow this\?/)
  await sleep(1_500)
  await tmux('send-keys', '-l', 'n')
  await until(/What should the agent know\?/)
  await type('Not yet: I read it first')
  await until(/· finished/)
  await sleep(3_000)
  isRecording = false
  await recorded
  await tmux('send-keys', 'C-d')
  await until(/Come back with/)
} finally {
  isRecording = false
  await tmux('kill-server').catch(() => {})
  await rm(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
}
const film = drawFilm(frames, { columns, rows, title: 'A session of Slipway in a terminal' })
await writeFile(target, film)
console.log(`${target}: ${frames.length} frames, ${film.length} characters`)
