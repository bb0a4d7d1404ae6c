import { expect } from 'vitest'
import { bashStep, scriptedModel } from '../agent-driver.ts'
import { runInSandbox } from './crash-rounds.ts'
import { type StartTask, type User, waitFor } from './user.ts'

/** What happens to conversations and their sandboxes in the same way on every backend. */

interface StoredEvent {
  readonly id: string
  readonly kind: string
  readonly key?: string
  readonly value?: unknown
}

const text = (answer: string) => ({ text: answer })

const parseLog = (log: string): StoredEvent[] =>
  log
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))

async function waitForTask(user: User, id: string): Promise<StartTask> {
  return await waitFor('the task ends', async () => {
    const [task] = await user.get<(StartTask | null)[]>(`/api/v1/app-conversations/start-tasks?ids=${id}`)
    return task?.status === 'READY' || task?.status === 'ERROR' ? task : undefined
  })
}

/** A conversation whose command writes to an open file is forked with its files, and both continue. */
export async function expectFork(user: User): Promise<void> {
  const write =
    'n=0; until [ -e stop ]; do n=$((n + 1)); echo $n; sleep 0.05; done > ticks; echo It is written'
  await user.setModel(scriptedModel([bashStep(write), text('It counted.'), text('Next.'), text('Last.')]))
  const { id, sandbox_id } = await user.createConversation({ initial_message: { content: 'Count.' } })
  const first = await user.waitForSandbox(sandbox_id, 'RUNNING')
  const ticksOf = async (sandbox: typeof first) =>
    (await runInSandbox(sandbox, `cat ${sandbox.working_dir}/ticks 2>/dev/null`))
      .trim()
      .split('\n')
      .map(Number)
  await waitFor('it counts', async () => ((await ticksOf(first)).length > 5 ? true : undefined))
  const made = `cd ${first.working_dir} && mkdir -p .git/info && echo ignored > .git/info/exclude && echo kept > ignored && ln -s nowhere link && chmod 000 ignored`
  await runInSandbox(first, made)
  const { id: taskId } = await user.requestOrThrow<StartTask>(
    'POST',
    `/api/v1/app-conversations/${id}/fork`,
    {},
  )
  const task = await waitForTask(user, taskId)
  expect(task).toMatchObject({ status: 'READY', detail: null })
  const { app_conversation_id, sandbox_id: forkSandboxId } = task
  const fork = String(app_conversation_id)
  const second = await user.waitForSandbox(String(forkSandboxId), 'RUNNING')
  const ticks = await ticksOf(second)
  expect(ticks).toEqual(ticks.map((_, index) => index + 1))
  const listed = `cd ${second.working_dir} && stat -c '%n %a %F' ignored link && chmod 400 ignored && cat ignored`
  expect(await runInSandbox(second, listed)).toBe('ignored 0 regular file\nlink 777 symbolic link\nkept\n')
  const search = `grep -rlF ${first.session_api_key} ${second.working_dir} $HOME 2>/dev/null`
  expect(await runInSandbox(second, `${search}; echo searched`)).toBe('searched\n')

  expect(await user.exportLog(id)).not.toContain('"ObservationEvent"')
  await runInSandbox(first, `touch ${first.working_dir}/stop`)
  await user.waitForMessage(id, 'It counted.')
  expect((await ticksOf(first)).length).toBeGreaterThan(ticks.length)
  const log = await waitFor('the log of the fork', async () => {
    const found = await user.exportLog(fork)
    return found.includes('"forked_from"') ? parseLog(found) : undefined
  })
  const at = log.findIndex(({ key }) => key === 'forked_from')
  const before = parseLog(await user.exportLog(id)).slice(0, at)
  expect(log.slice(0, at)).toEqual(before)
  expect(log[at]?.value).toEqual({ conversation_id: id, event_id: before.at(-1)?.id })
  expect(before.map(({ kind }) => kind)).toContain('ActionEvent')
  expect(before.map(({ kind }) => kind)).not.toContain('ObservationEvent')
  expect(await user.sendMessage(fork, 'Continue.')).toMatchObject({ status: 200 })
  await waitFor('the fork continues', async () => {
    const own = parseLog(await user.exportLog(fork)).slice(at + 1)
    return own.some((event) => event.kind === 'MessageEvent' && JSON.stringify(event).includes('"assistant"'))
      ? true
      : undefined
  })
  expect(await ticksOf(second)).toEqual(ticks)
}

/** An archived sandbox leaves nothing but its log, which continues in another one. */
export async function expectArchive(user: User): Promise<void> {
  await user.setModel(scriptedModel([text('Answer one.'), text('Answer two.'), text('Answer three.')]))
  const { id, sandbox_id } = await user.createConversation({ initial_message: { content: 'Begin.' } })
  await user.waitForMessage(id, 'Answer one.')
  await waitFor('its events are here and nothing runs', async () => {
    const { status } = await user.requestJson('POST', `/api/v1/sandboxes/${sandbox_id}/archive`)
    return status === 200 ? true : undefined
  })
  await user.waitForSandbox(sandbox_id, 'MISSING')
  const before = await user.exportLog(id)
  const tasks = await user.startConversation({
    conversation_id: id,
    initial_message: { content: 'Continue there.' },
  })
  const last = tasks.at(-1)
  expect(last).toMatchObject({ status: 'READY', app_conversation_id: id })
  expect(last?.sandbox_id).not.toBe(sandbox_id)
  await waitFor('it is answered', async () => {
    const found = await user.exportLog(id)
    return found.startsWith(before) && found.slice(before.length).includes('"assistant"') ? true : undefined
  })
  expect((await user.exportLog(id)).split('Continue there.')).toHaveLength(2)
}

/** A spec of an image of ours whose program is started again whenever it ends. */
export const supervisedSpec = {
  id: 'supervised',
  command: [
    ...['sh', '-c', 'while :; do node /opt/slipway/packages/agent-server/src/main.js "$@"; done', 'sh'],
  ],
}

const killAgentServer =
  'for each in /proc/[0-9]*; do tr "\\0" " " < $each/cmdline | grep -q "^node .*main.js" && kill -9 $(basename $each); done'

/**
 * An agent server that something in the sandbox starts again gets its settings again. For `supervisedSpec`.
 */
export async function expectAgentRestart(user: User): Promise<void> {
  const identify = (git_user_name: string) =>
    user.requestOrThrow('POST', '/api/v1/settings', { git_user_name, git_user_email: 'a@example.org' })
  await user.setModel(scriptedModel([text('Answer one.'), text('Answer two.'), text('Answer three.')]))
  await identify('Ann')
  const { id, sandbox_id } = await user.createConversation({ initial_message: { content: 'Begin.' } })
  await user.waitForMessage(id, 'Answer one.')
  const sandbox = await user.waitForSandbox(sandbox_id, 'RUNNING')
  const nameInside = async () =>
    (await runInSandbox(sandbox, 'git config --global user.name').catch(() => '')).trim()
  expect(await nameInside()).toBe('Ann')
  await identify('Bea')
  // It ends before it can answer.
  await runInSandbox(sandbox, killAgentServer).catch(() => undefined)
  await waitFor('it has the new name', async () => ((await nameInside()) === 'Bea' ? true : undefined))
  const again = await user.waitForSandbox(sandbox_id, 'RUNNING')
  expect(again).toMatchObject({ session_api_key: sandbox.session_api_key, status_detail: null })
  expect(await user.sendMessage(id, 'Do you continue?')).toMatchObject({ status: 200 })
  await waitFor('it is answered', async () => {
    const log = await user.exportLog(id)
    return log.split('Do you continue?')[1]?.includes('"assistant"') ? true : undefined
  })
}
