import {
  type Agent,
  type AgentContext,
  agentContext,
  agentDefinition,
  hookConfig,
  llm,
  startConversationRequest,
} from '@slipway/protocol'
import { expect, test } from 'vitest'
import type { LoadedSkill } from '../../skills/skill.ts'
import type { ResolvedSettings } from '../state/resolved-settings.ts'
import { agentIssue, type TaskParent, taskSettings } from './settings.ts'

const skill = (name: string, more: Partial<LoadedSkill> = {}): LoadedSkill => ({
  name,
  content: `About ${name}.`,
  description: undefined,
  keywords: [],
  commands: [],
  paths: [],
  inputs: [],
  allowedTools: [],
  isAgentSkill: false,
  isModelInvocable: true,
  origin: 'project',
  source: undefined,
  file: undefined,
  resources: undefined,
  ...more,
})

/** A giver whose places hold these skills, as far as a context asks for them. */
function createParent(
  request: object = {},
  options: Partial<Omit<TaskParent, 'settings' | 'skills'>> & { readonly held?: readonly LoadedSkill[] } = {},
): TaskParent {
  const { agent, ...rest } = startConversationRequest.parse({
    agent: { llm: { model: 'own', stream: true, api_key: 'k' } },
    workspace: { working_dir: '/w' },
    ...request,
  })
  if (agent === undefined) throw new Error('an agent was given')
  const { held = [], ...more } = options
  return {
    id: 'parent',
    settings: { ...rest, agent },
    policy: rest.confirmation_policy ?? { kind: 'NeverConfirm' },
    analyzer: rest.security_analyzer ?? null,
    hooks: undefined,
    findProfile: async (name) =>
      name === 'strong' ? llm.parse({ model: 'strong', stream: true }) : undefined,
    skills: async (context) =>
      held.filter(
        ({ name, origin }) => !context.disabled_skills.includes(name) && isSkillIncluded(context, origin),
      ),
    ...more,
  }
}

function isSkillIncluded(context: AgentContext, origin: LoadedSkill['origin']): boolean {
  if (origin === 'project') return context.load_project_skills
  return origin === 'user' ? context.load_user_skills : true
}

async function settings(from: TaskParent, definition: object, maxTurns?: number): Promise<ResolvedSettings> {
  const result = await taskSettings(from, agentDefinition.parse({ name: 'a', ...definition }), maxTurns)
  if ('issue' in result) throw new Error(result.issue)
  return result.settings
}

test('MCP servers of a repository start in the workspace, others where they say or in an empty folder', async () => {
  const mcp_config = {
    own: { command: 'a' },
    placed: { command: 'a', cwd: '/x' },
    far: { url: 'http://127.0.0.1/' },
  }
  const folders = async (level: string) => {
    const { agent } = await settings(createParent(), { level, mcp_config })
    return Object.values((agent as Agent).mcp_config).map(({ cwd }) => cwd)
  }
  expect(await folders('project')).toEqual(['workspace', '/x', undefined])
  expect(await folders('user')).toEqual([undefined, '/x', undefined])
})

test('a task may use what its parent has left', async () => {
  const left = { cost: 0.5, tokens: undefined, steps: 3, seconds: 20 }
  const made = await settings(createParent({ limits: { run: { cost: 2 } } }, { limits: left }), {})
  expect(made.limits).toEqual({ run: { ...left, steps: undefined }, conversation: undefined })
})

test('a task has the workspace, secrets and limits of its parent, but no settings of the user conversation', async () => {
  const from = createParent({
    agent: {
      llm: { model: 'own' },
      tools: [{ name: 'terminal', params: { no_change_timeout_seconds: 3 } }, { name: 'task_tool_set' }],
      mcp_config: { notes: { command: 'notes' } },
      filter_tools_regex: 'x',
      system_prompt: 'Own.',
      critic: { kind: 'PassCritic' },
      agent_context: { secrets: { A: 'of-context' }, user_message_suffix: 'Please.' },
      tool_concurrency_limit: 3,
    },
    secrets: { B: 'of-request' },
    worktree: true,
    conversation_id: '00000000-0000-4000-8000-000000000001',
    initial_message: { content: [{ type: 'text', text: 'Begin.' }] },
    client_tools: [{ name: 'show', description: 'd', parameters: { type: 'object' } }],
    agent_launch_additions: { system_message_suffix_append: 'More.' },
    tags: { a: 'b' },
    max_iterations: 44,
    stuck_detection: false,
    user_id: 'u',
  })
  const result = await settings(from, { tools: ['TerminalTool', 'grep'], system_prompt: 'You look.' })
  expect(result).toMatchObject({
    workspace: { working_dir: '/w' },
    parent_conversation_id: 'parent',
    conversation_id: undefined,
    initial_message: undefined,
    client_tools: undefined,
    agent_launch_additions: undefined,
    tags: undefined,
    worktree: false,
    autotitle: false,
    max_iterations: 44,
    stuck_detection: false,
    user_id: 'u',
    secrets: { A: { value: 'of-context' }, B: { value: 'of-request' } },
    agent: {
      tools: [
        { name: 'TerminalTool', params: { no_change_timeout_seconds: 3 } },
        { name: 'grep', params: {} },
      ],
      mcp_config: {},
      filter_tools_regex: undefined,
      system_prompt: undefined,
      critic: undefined,
      condenser: { kind: 'LLMSummarizingCondenser' },
      tool_concurrency_limit: 3,
      agent_context: {
        system_message_suffix: 'You look.',
        user_message_suffix: undefined,
        secrets: undefined,
      },
    },
  })
})

test('the settings of a task can be stored and read again', async () => {
  const result = await settings(createParent(), {
    tools: ['grep'],
    mcp_config: { notes: { command: 'notes' } },
  })
  const again = startConversationRequest.safeParse(JSON.parse(JSON.stringify(result)))
  expect(again.error?.issues ?? []).toEqual([
    expect.objectContaining({ path: ['parent_conversation_id'] }), // the id of this test is no UUID
  ])
})

test('the model of a task is that of its parent or of a profile, without streaming', async () => {
  expect((await settings(createParent(), {})).agent.llm).toMatchObject({
    model: 'own',
    stream: false,
    api_key: 'k',
  })
  expect((await settings(createParent(), { model: 'strong' })).agent.llm).toMatchObject({
    model: 'strong',
    stream: false,
  })
  const lost = agentDefinition.parse({ name: 'a', model: 'gone' })
  expect(await taskSettings(createParent(), lost, undefined)).toHaveProperty('issue')
})

test('of all limits of steps the smallest counts, the definition before the giver', async () => {
  const from = createParent({ max_iterations: 30 })
  expect((await settings(from, {})).max_iterations).toBe(30)
  expect((await settings(from, { max_iteration_per_run: 60 })).max_iterations).toBe(60)
  expect((await settings(from, { max_iteration_per_run: 60 }, 5)).max_iterations).toBe(5)
  expect((await settings(from, { max_iteration_per_run: 4 }, 5)).max_iterations).toBe(4)
})

test('unknown tools are an issue that names them', async () => {
  const definition = agentDefinition.parse({ name: 'a', tools: ['grep', 'Bash', 'Read'] })
  expect(agentIssue(definition)).toBe('The agent a names tools that this server does not have: Bash, Read')
  expect(await taskSettings(createParent(), definition, undefined)).toEqual({ issue: agentIssue(definition) })
})

test('tool hooks come from parent and definition, other hooks from the definition alone', async () => {
  const hook = (command: string) => [{ matcher: '*', hooks: [{ command }] }]
  const hooks = hookConfig.parse({
    pre_tool_use: hook('given'),
    post_tool_use: hook('given'),
    stop: hook('given'),
    user_prompt_submit: hook('given'),
  })
  const result = await settings(createParent({}, { hooks }), {
    hooks: { pre_tool_use: hook('own'), stop: hook('own') },
  })
  const commands = Object.entries(result.hook_config ?? {}).map(([event, matchers]) => [
    event,
    matchers.flatMap((one) => one.hooks.map(({ command }) => command)).join(),
  ])
  expect(Object.fromEntries(commands)).toEqual({
    pre_tool_use: 'given,own',
    post_tool_use: 'given',
    user_prompt_submit: '',
    session_start: '',
    session_end: '',
    stop: 'own',
  })
  // Never undefined: that would mean those of the project, once more.
  expect((await settings(createParent(), {})).hook_config).toEqual(hookConfig.parse({}))
})

test('a task gets the always-on skills of its parent and the skills that its definition names', async () => {
  const held = [
    skill('always'),
    skill('style', { keywords: ['style'] }),
    skill('other', { keywords: ['other'] }),
    skill('mine', { origin: 'user', isAgentSkill: true }),
    skill('always-mine', { origin: 'user' }),
    skill('asked', { origin: 'request' }),
    skill('barred', { origin: 'request' }),
    skill('plugged', { origin: 'plugin', isAgentSkill: true }),
  ]
  const context = { load_project_skills: true, disabled_skills: ['barred'] }
  const from = createParent({ agent: { llm: { model: 'own' }, agent_context: context } }, { held })
  const toldTo = async (giver: TaskParent, skills: readonly string[]) => {
    const result = await settings(giver, { skills })
    const childContext = agentContext.parse(result.agent.agent_context)
    const skillNames = childContext.skills.map(({ name }) => name)
    return [...(await giver.skills(childContext)).map(({ name }) => name), ...skillNames].sort()
  }
  expect(await toldTo(from, [])).toEqual(['always', 'asked'])
  expect(await toldTo(from, ['style', 'mine'])).toEqual(['always', 'asked', 'mine', 'style'])
  expect(await toldTo(from, ['plugged'])).toEqual(['always', 'asked', 'plugged', 'plugged'])
  // A giver who is told nothing of the project has agents who are told nothing of it but what they name.
  expect(await toldTo(createParent({}, { held }), ['other'])).toEqual(['asked', 'barred', 'other'])
})
