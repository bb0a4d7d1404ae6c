import { chmod, chown, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { agentServerMain } from '@slipway/shared/process/testing'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { canSandboxCommands } from '../../packages/agent/src/tools/testing/can-sandbox-commands.ts'
import { AgentDriver, bashStep, finishStep, toolCall, toolCallsStep } from '../support/agent-driver.ts'
import { startProcess } from '../support/agent-server.ts'
import { AgentServerApi } from '../support/agent-server-api.ts'

vi.setConfig({ testTimeout: 400_000, hookTimeout: 120_000 })

const isRoot = process.getuid?.() === 0
const user = 54_321
const mcpServer = join(import.meta.dirname, '../support/stdio-mcp-server.ts')
const canary = 'a-key-in-the-contexts-of-the-command'
const sessionKey = '.data/session.key'

/** Not below /tmp. The data directory is in the workspace, the worst place for it. */
let home: string
let work: string
let contexts: string
let server: Awaited<ReturnType<typeof startProcess>> | undefined

beforeEach(async () => {
  home = await realpath(await mkdtemp('/var/tmp/sw-hide-'))
  work = join(home, 'work')
  contexts = join(home, '.config/slipway/contexts.json')
  await chmod(home, 0o755)
  await mkdir(work)
  await mkdir(join(home, '.config/slipway'), { recursive: true, mode: 0o700 })
  await writeFile(contexts, JSON.stringify({ key: canary }), { mode: 0o600 })
  await writeFile(join(work, 'attack.sh'), attack)
  // As text of the workspace: what a search may find.
  await writeFile(join(work, 'notes.txt'), 'a-key-in-a-note')
})

afterEach(async () => {
  await server?.stop()
  server = undefined
  await rm(home, { recursive: true, force: true })
})

/** Reads the files in every way that a shell has, and appends what it gets to a file. */
const attack = `out="$1"; shift
cd "$(dirname "$0")"
all() { cat "$1/work/.data/session.key" "$1/work/.data/secret.key" "$1/.config/slipway/contexts.json"; head -c 15 "$1/work/.data/log.db"; }
{
  all "$PWD/.."
  cd .data && cat session.key secret.key log.db; cd ..
  pushd .data/; cat *.key; popd
  find .data .. -name '*.key' -exec cat {} +
  grep -r . .data ../.config
  tar c .data | strings
  ln -s .data link; cat link/*.key
  echo .data/session.key | xargs cat
  ls .data/*.key .data/*.db | xargs cat
  cat /proc/[0-9]*/root"$PWD"/.data/*.key /proc/[0-9]*/cwd/.data/*.key 2>/dev/null
  python3 -c 'import glob; print([open(f, "rb").read(99) for f in glob.glob(".data/*")])'
  umount -l .data; cat .data/session.key
  unshare -Urm sh -c 'umount -l .data; umount -l ../.config/slipway; mkdir m; mount --rbind / m; cat .data/*.key m$PWD/.data/*.key ../.config/slipway/*'
  nsenter -t 1 -m cat "$PWD/.data/session.key"; nsenter -t $PPID -m cat "$PWD/.data/session.key"
  if mknod disk b $(stat -c '%Hd %Ld' . 2>/dev/null); then echo BLOCK DEVICE; fi
  for f in /dev/*; do if [ -b "$f" ] && head -c 1 "$f" > /dev/null; then echo BLOCK DEVICE; fi; done
  for f in /proc/sys/kernel/core_pattern /sys/kernel/uevent_helper; do if [ -w $f ] && cat $f > $f; then echo KERNEL SETTING; fi; done
  mv .data moved; cat moved/session.key
  TMUX_TMPDIR=$PWD timeout 10 tmux -L own new-session -d "cat .data/*.key >> '$out.tmux'"; sleep 1
} >> "$out" 2>&1
cat "$out.tmux" >> "$out" 2>/dev/null
echo END >> "$out"
`

interface Case {
  readonly name: string
  readonly isUser?: boolean
  readonly env?: Readonly<Record<string, string>>
  /** In the request for the conversation. */
  readonly sandbox?: object
}

const cases: readonly Case[] = [
  { name: 'root' },
  { name: 'root, with a sandbox for commands', sandbox: { mode: 'workspace-write', network: false } },
  { name: 'root, with another tool user', env: { SLIPWAY_TOOL_USER: `${user}:${user}:WORK` } },
  { name: 'an ordinary user', isUser: true },
  {
    name: 'an ordinary user, with a sandbox for commands',
    isUser: true,
    sandbox: { mode: 'workspace-write', network: false },
  },
]

async function start({ isUser = false, env = {} }: Pick<Case, 'isUser' | 'env'>) {
  const isTool = env.SLIPWAY_TOOL_USER !== undefined
  if (isUser || isTool)
    for (const path of isTool
      ? [work]
      : [home, join(home, '.config'), join(home, '.config/slipway'), contexts, work])
      await chown(path, user, user)
  const wrapper = isUser && isRoot ? ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups'] : []
  const settings = Object.entries(env).map(([name, value]) => [name, value.replace('WORK', work)])
  server = await startProcess(
    [agentServerMain, '--port', '0', '--data', join(work, '.data')],
    {
      HOME: home,
      XDG_CONFIG_HOME: '',
      XDG_DATA_HOME: '',
      SLIPWAY_LOG_LEVEL: 'warn',
      ...Object.fromEntries(settings),
    },
    wrapper,
  )
  const key = await readFile(join(work, sessionKey), 'utf8')
  const api = new AgentServerApi({ url: server.url, headers: { 'x-session-api-key': key.trim() } })
  return new AgentDriver({ api, directory: work })
}

const out = (name: string) => join(work, `out-${name}`)
const run = (name: string) => `bash ${join(work, 'attack.sh')} ${out(name)}`

async function play(driver: AgentDriver, sandbox: object | undefined) {
  const tools = ['terminal', 'file_editor', 'grep', 'glob', 'apply_patch', 'background_terminal']
  const data = join(work, '.data')
  const files = [sessionKey, '.data/secret.key', '.data/log.db'].map((name) => join(work, name))
  const mcp = `${run('mcp')} & exec ${process.execPath} ${mcpServer}`
  const script = [
    bashStep(run('terminal'), { timeout: 120 }),
    toolCallsStep(
      toolCall('background_terminal', { operation: 'start', command: run('background'), timeout: 120 }),
    ),
    toolCallsStep(
      ...[...files, contexts].map((path) => toolCall('file_editor', { command: 'view', path })),
      toolCall('file_editor', { command: 'view', path: data }),
      toolCall('grep', { pattern: 'a-key-in', path: home }),
      toolCall('grep', { pattern: '.', path: data }),
      toolCall('glob', { pattern: '**/*.{key,db,json}', path: home }),
    ),
    finishStep(),
  ]
  const { id } = await driver.create(
    {
      llm: { model: 'scripted/test', usage_id: 'agent', script },
      tools: tools.map((name) => ({ name })),
      mcp_config: { one: { command: 'bash', args: ['-c', mcp] } },
    },
    {
      initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
      hook_config: { stop: [{ hooks: [{ command: run('hook'), timeout: 120 }] }] },
      ...(sandbox === undefined ? {} : { command_sandbox: sandbox }),
    },
  )
  return JSON.stringify(await driver.waitUntilIdle(id))
}

test.for(cases)(
  'no tool reads keys, the log or contexts: $name',
  async ({ sandbox, ...settings }, { skip }) => {
    if (!canSandboxCommands()) skip('bubblewrap does not work on this host')
    if (!isRoot && settings.isUser !== true) skip('only root can start it')
    const driver = await start(settings)
    const events = await play(driver, sandbox)
    const keys = await Promise.all(
      ['session.key', 'secret.key'].map((name) => readFile(join(work, '.data', name), 'utf8')),
    )
    for (const name of ['terminal', 'background', 'hook', 'mcp']) {
      await expect
        .poll(() => readFile(out(name), 'latin1').catch(() => ''), { timeout: 60_000 })
        .toContain('END')
      const text = await readFile(out(name), 'latin1')
      for (const [what, secret] of [
        ['session.key', keys[0]?.trim()],
        ['secret.key', keys[1]?.trim()],
        ['log.db', 'SQLite format 3'],
        ['contexts', canary],
        ['a disk', 'BLOCK DEVICE'],
        ['a setting of the kernel', 'KERNEL SETTING'],
      ])
        expect(text.includes(secret ?? ''), `${what} by ${name}:\n${text.slice(0, 2_000)}`).toBe(false)
    }
    expect(events).not.toContain(canary)
    expect(events).not.toContain('SQLite format 3')
    expect(events).toContain('which tools must not touch')
    expect(server?.output()).not.toContain('can read the keys')
  },
)

test('the start says when tools can read the keys, and commands that name them are HIGH', async () => {
  const noBubblewrap = (process.env.PATH ?? '')
    .split(delimiter)
    .filter((folder) => !/^\/(?:usr\/)?bin$/.test(folder))
  for (const [env, advice] of [
    [{ PATH: noBubblewrap.join(delimiter) }, 'install bubblewrap'],
    [{ SLIPWAY_COMMAND_SANDBOX: 'off' }, 'unset SLIPWAY_COMMAND_SANDBOX'],
  ] as const) {
    await start({ env })
    await expect.poll(() => server?.output()).toContain('can read the keys of this server')
    expect(server?.output()).toContain(advice)
    expect(server?.output().split('can read the keys')).toHaveLength(2)
    await server?.stop()
  }
})
