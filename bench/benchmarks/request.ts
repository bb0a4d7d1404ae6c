import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { buildAgent, buildConfirmationSettings } from '../../packages/cli/src/conversation/agent-request.ts'
import { type BenchContext, getJson, postJson, startAgentServer } from '../support/fixtures.ts'
import { ModelRecorder, type RecordedRequest } from '../support/model-recorder.ts'
import { installPackages, loadTokenizer, peerAgents, runPeer } from '../support/peer-agents.ts'
import { atMost, Floor, information, type ResultRow, withinBudget } from '../support/result-table.ts'

/** Nine commands and a final text: ten steps. */
const commands = [
  'ls -la',
  'cat README.md',
  'cat src/add.js',
  'grep -rn "add" src',
  'cat test/add.test.js',
  'node test/add.test.js; true',
  `sed -i 's/a - b/a + b/' src/add.js`,
  'node test/add.test.js',
  'git diff --stat 2>/dev/null; tail -n 3 src/add.js',
]
/** Of the task with risks and the judge. */
const taskBudget = 30_000
const task = 'The test of the function add fails. Find out why, fix it, and check that the test passes.'

const files: Readonly<Record<string, string>> = {
  'README.md': '# Sums\n\nA library that adds numbers.\n',
  'src/add.js': 'exports.add = (a, b) => a - b\n',
  'src/index.js': "exports.add = require('./add.js').add\n",
  'test/add.test.js':
    "const { add } = require('../src/index.js')\nif (add(2, 3) !== 5) throw new Error('add(2, 3) is ' + add(2, 3))\nconsole.log('ok')\n",
}

/**
 * Tokens (o200k, of the raw bodies) of one task in ten steps: ours beside other agents, each with the
 * settings that it comes with, against the same recorder. Ours are at most 1.2 times the smallest, and below
 * every other. The others are installed from npm into a directory of this run. As `slipway run` sends it,
 * with the risk of each call, and as a goal with its judge, the task has a budget.
 */
export async function request(bench: BenchContext): Promise<ResultRow[]> {
  const packages = await bench.directory()
  await installPackages(packages)
  const countTokens = await loadTokenizer(packages)
  const measured: Measured[] = [measure('ours', await recordOurs(bench, plain), countTokens)]
  const asCommand = [
    measure('slipway run', await recordOurs(bench, command), countTokens),
    measure('a goal with its judge', await recordOurs(bench, { ...command, isGoal: true }), countTokens),
  ]
  for (const agent of bench.isQuick ? peerAgents.slice(0, 1) : peerAgents) {
    await using recorder = await ModelRecorder.open(commands)
    const options = { packages, home: await bench.directory(), url: recorder.url, task }
    await runPeer(agent, options, await createWorkspace(bench))
    measured.push(measure(agent.name, recorder.requests, countTokens))
  }
  const [ours, ...others] = measured
  if (ours === undefined) return []
  const smallest = Math.min(...others.map(({ sum }) => sum))
  const rest = others.filter(({ sum }) => sum > smallest)
  return [
    atMost(
      ...(['the task: ours beside the smallest other', 'tokens', ours.sum] as const),
      Floor.of('the smallest other', [smallest]),
      1.2,
    ),
    ...rest.map(({ name, sum }) =>
      atMost(`the task: ours beside ${name}`, 'tokens', ours.sum, Floor.of(name, [sum]), 1),
    ),
    ...asCommand.map(({ name, sum }) =>
      withinBudget(`the task: ${name}`, 'tokens of a task', sum, taskBudget),
    ),
    ...[...measured, ...asCommand].flatMap((one) => [
      information(`${one.name}: all requests (${one.requests})`, 'tokens', one.sum),
      information(`${one.name}: first request, system`, 'tokens', one.system),
      information(`${one.name}: first request, tools`, 'tokens', one.tools),
    ]),
  ]
}

interface Measured {
  readonly name: string
  readonly requests: number
  readonly sum: number
  readonly system: number
  readonly tools: number
}

function measure(
  name: string,
  requests: readonly RecordedRequest[],
  countTokens: (text: string) => number,
): Measured {
  const steps = requests.filter(({ isSide }) => !isSide)
  if (steps.length !== commands.length + 1)
    throw new Error(`${name} has sent ${steps.length} requests with tools, not ${commands.length + 1}`)
  const [first] = steps
  const { tools, instructions: ofResponses, system: ofMessages, messages, input } = first?.body ?? {}
  const instructions = ofResponses ?? ofMessages
  const items = [messages, input].find(Array.isArray) ?? []
  const system = items.filter(({ role }: { role?: string }) => role === 'system' || role === 'developer')
  const size = (value: unknown) => (value === undefined ? 0 : countTokens(JSON.stringify(value)))
  return {
    name,
    requests: requests.length,
    sum: requests.reduce((sum, { body }) => sum + size(body), 0),
    system: size(instructions) + size(system),
    tools: size(tools),
  }
}

async function createWorkspace(bench: BenchContext): Promise<string> {
  const directory = await bench.directory()
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(directory, name, '..'), { recursive: true })
    await writeFile(join(directory, name), text)
  }
  // As projects are, so that `ls` says the same to all.
  await promisify(execFile)('git', ['init', '--quiet', directory])
  return directory
}

/** Ours: the agent of a request, and whether the task is a goal instead of a message. */
interface Variant {
  readonly isGoal?: boolean
  readonly request: (llm: { model: string; base_url: string; api_key: string }) => object
}

const plain: Variant = {
  request: (llm) => ({
    agent: { llm, tools: ['terminal', 'file_editor', 'task_tracker'].map((name) => ({ name })) },
  }),
}

/** What the command sends. */
const command: Variant = {
  request: (llm) => ({ agent: buildAgent(llm), ...buildConfirmationSettings(false) }),
}

async function recordOurs(
  bench: BenchContext,
  { request, isGoal = false }: Variant,
): Promise<readonly RecordedRequest[]> {
  await using recorder = await ModelRecorder.open(commands)
  await using server = await startAgentServer(bench, await bench.directory())
  const { id } = await postJson<{ id: string }>(server, '/api/conversations', {
    ...request({ model: 'openai-compatible/bench', base_url: recorder.url, api_key: 'none' }),
    workspace: { working_dir: await createWorkspace(bench) },
    ...(!isGoal && { initial_message: { role: 'user', content: [{ type: 'text', text: task }], run: true } }),
  })
  if (isGoal) await postJson(server, `/api/conversations/${id}/goal`, { objective: task })
  for (let tries = 0; ; tries++) {
    const { execution_status } = await getJson<{ execution_status: string }>(
      server,
      `/api/conversations/${id}`,
    )
    const isJudged = recorder.requests.some(({ body }) => body.tool_choice === 'none')
    if (execution_status === 'finished' && isJudged === isGoal) return [...recorder.requests]
    if (execution_status === 'error' || tries > 600) throw new Error(`the run is ${execution_status}`)
    await sleep(200)
  }
}
