import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  asObject,
  buildAgent,
  buildConfirmationSettings,
  buildLlm,
  commandName,
  formatPendingAction,
  isInteractive,
  print,
  printRun,
  promptForConfirmation,
  readPendingQuestion,
  usageLine,
} from '@slipway/cli/toolkit'
import type { PositionedEvent } from '@slipway/client'
import { Problem } from '@slipway/protocol'
import { firstChars } from '@slipway/shared/text'
import { type DemoContext, type DemoRun, printCommand, printHeading, verify } from './context.ts'
import { buildScript, finalMessage, task } from './script.ts'

/** Prices of the scripted model, in dollars a token. */
const prices = { input_cost_per_token: 3e-6, output_cost_per_token: 15e-6 }

/** Runs an agent in the workspace, shows each step, and checks the result. */
export async function showAgentRun(stage: DemoContext): Promise<DemoRun> {
  const { client, workspace, model, signal } = stage
  const name = model?.name ?? 'scripted/demo'
  await printHeading(stage, 'An agent at work, live')
  if (model === undefined) {
    await print(
      'The model is scripted; its tools, files and shell are real. LLM_MODEL selects another model.\n',
    )
  }
  await printCommand(
    `${commandName} run "${firstChars(task, 40)}..." --model ${name} --workspace ${workspace}`,
  )
  const build = join(workspace, 'build')
  await mkdir(build)
  await writeFile(join(build, 'old.js'), '// nobody needs this any more\n')
  const llm =
    model === undefined
      ? { model: name, usage_id: 'agent', script: buildScript(workspace, stage.isFast), ...prices }
      : buildLlm(model)
  const info = await client.call('createConversation', {
    body: {
      agent: buildAgent(llm),
      workspace: { working_dir: workspace },
      initial_message: { content: [{ type: 'text', text: task }], run: true },
      ...buildConfirmationSettings(false),
    },
    signal,
  })
  return await followAgentRun(stage, info.id)
}

async function followAgentRun(stage: DemoContext, id: string): Promise<DemoRun> {
  const { client, workspace, signal } = stage
  const context = { client, isJson: false, signal }
  const events: PositionedEvent[] = []
  let pieces = 0
  let isRejected = false
  const onTransientUpdate = ({ kind }: { readonly kind: string }) => {
    if (kind === 'StreamingDeltaEvent') pieces++
  }
  for (;;) {
    for await (const item of printRun(context, id, {
      after: events.length,
      directory: workspace,
      onTransientUpdate,
    })) {
      verify(item.position === events.length + 1, `position ${item.position} follows ${events.length}`)
      events.push(item)
    }
    signal.throwIfAborted()
    const { execution_status } = await client.call('getConversation', {
      params: { conversation_id: id },
      signal,
    })
    if (execution_status === 'waiting_for_confirmation') isRejected = !(await answerConfirmation(stage, id))
    else if (execution_status !== 'running') break
  }
  await print(`${pieces} text deltas arrived before their events; the log has ${events.length} events.\n`)
  if (!isRejected) await verifyRun(stage, { id, events })
  else verify(existsSync(join(workspace, 'build')), 'a rejected action is not executed')
  return { id, events }
}

/** Shows the pending actions and confirms them; returns false when the user rejects them. */
async function answerConfirmation(
  { client, workspace, isAsking, model, signal }: DemoContext,
  id: string,
): Promise<boolean> {
  const { actions, digest } = await readPendingQuestion(client, id, signal)
  verify(actions.length > 0, 'pending actions are listed')
  if (model === undefined)
    verify(existsSync(join(workspace, 'build')), 'no action is executed before the confirmation')
  const shouldPrompt = isAsking || (model !== undefined && isInteractive())
  const answer = shouldPrompt ? await promptForConfirmation(actions, signal) : ({ accept: true } as const)
  const accept = answer?.accept === true
  await printCommand(`${commandName} confirm ${id}${accept ? '' : ' --reject'}`)
  for (const action of actions)
    await print(`${accept ? 'Accepted' : 'Rejected'}: ${formatPendingAction(action)}\n`)
  await client.call('respondToConfirmation', {
    params: { conversation_id: id },
    body: { accept, actions_digest: digest },
    signal,
  })
  return accept
}

async function verifyRun(stage: DemoContext, { id, events }: DemoRun): Promise<void> {
  const { client, workspace, model, signal } = stage
  const params = { conversation_id: id }
  const info = await client.call('getConversation', { params, signal })
  const status = info.execution_status
  if (model !== undefined && status !== 'finished') {
    throw new Problem(
      'bad_request',
      `${model.name} did not finish: ${status}. Without LLM_MODEL the demo uses a scripted model.`,
    )
  }
  verify(status === 'finished', 'the run finishes')
  verify(
    events.some(({ event }) => event.kind === 'ActionEvent'),
    'the agent acts',
  )
  if (model === undefined) await verifyScriptedRun(stage, { id, events })
  const { response } = await client.call('finalResponse', { params, signal })
  verify(model !== undefined || response === finalMessage, 'the final response is the message of the finish')
  const fileText = await readFile(join(workspace, 'duration.mjs'), 'utf8').catch(() => undefined)
  verify(
    model !== undefined || fileText?.includes('Math.floor(seconds / 3600)') === true,
    'the file is edited',
  )
  const note =
    model === undefined ? ' (tokens as estimated, at the prices of the demo: $3 and $15 a million)' : ''
  await print(`${usageLine(info)}${note}\n`)
}

async function verifyScriptedRun({ workspace }: DemoContext, { events }: DemoRun): Promise<void> {
  const results = events.map(({ event }) =>
    event.kind === 'ObservationEvent' ? event.observation : undefined,
  )
  const codes = results.flatMap((result) =>
    result?.kind === 'TerminalObservation' ? [result.exit_code] : [],
  )
  verify(codes.join() === '1,0,0', `the test fails, then passes, then build is removed (exit codes ${codes})`)
  verify(!results.some((result) => result?.is_error === true), 'no tool fails')
  verify(!existsSync(join(workspace, 'build')), 'the directory is removed after the confirmation')
  const states = events.flatMap(({ event }) => {
    const { key, value } = asObject(event)
    return key === 'execution_status' ? [value] : []
  })
  verify(
    states.join() === 'running,waiting_for_confirmation,running,finished',
    `it waits for confirmation exactly once (${states})`,
  )
}
