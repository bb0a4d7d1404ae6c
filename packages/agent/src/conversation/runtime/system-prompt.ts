import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type AcpAgent,
  type Agent,
  type AgentContext,
  type AgentDefinition,
  isAcpAgent,
  type SecurityAnalyzer,
  type TextContent,
} from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import { ellipsize, toSingleLine } from '../../skills/skill.ts'
import type { SkillSection, SkillSet, SkillSummary } from '../../skills/skill-set.ts'
import { type Tool, textBlock } from '../../tools/core/tool.ts'
import { type ActiveSandbox, describeSandbox } from '../../workspace/command-sandbox.ts'
import { readsModelRisk } from '../confirm/confirmation.ts'
import type { AgentRuntime } from './agent-runtime.ts'
import { serverInstructionsSection } from './server-instructions.ts'

/** Most characters of the instructions, and of the list of skills. */
const maxInstructions = 200_000
const maxList = 30_000
const maxSecrets = 500

export interface SystemPromptOptions {
  readonly agent: Agent
  readonly tools: readonly Tool[]
  readonly skills: SkillSet
  /** Agents for tasks, if the agent has the task tool. */
  readonly agents?: readonly AgentDefinition[] | undefined
  /** Absolute. */
  readonly workspaceDirectory: string
  readonly secrets: readonly { readonly name: string; readonly description: string | undefined }[]
  readonly now: Date
  /** The suffix that the request adds to the agent's own. */
  readonly launchSuffix?: string | undefined
  readonly analyzer: SecurityAnalyzer | null
  /** What MCP servers say about their use, by name. */
  readonly serverInstructions?: ReadonlyMap<string, string> | undefined
  /** What commands are restricted to. */
  readonly sandbox?: ActiveSandbox | undefined
  /** Machine and workspace, as `describeEnvironment` found them. */
  readonly environment?: string | undefined
}

/**
 * The two texts of a SystemPromptEvent. `system_prompt` is the same for all conversations with the same
 * tools, prompt and kind of analyzer, so that providers can cache it; everything that varies is in
 * `dynamic_context`.
 */
export function systemPrompt(options: SystemPromptOptions) {
  const { agent, tools, analyzer } = options
  return {
    system_prompt: textBlock(
      agent.system_prompt ?? staticPrompt(agent.system_prompt_filename, tools, readsModelRisk(analyzer)),
    ),
    dynamic_context: textBlock(dynamicContext(options)),
  }
}

/** The SystemPromptEvent for the agent as its runtime is now. */
export function systemPromptEvent(
  runtime: AgentRuntime,
  options: Pick<SystemPromptOptions, 'secrets' | 'now' | 'analyzer' | 'environment'>,
): EventDraft {
  // Conversations that earlier versions made have the additions beside the agent.
  const { agent, agent_launch_additions: additions } = runtime.settings
  if (isAcpAgent(agent)) return externalPromptEvent(agent)
  const tools = [...runtime.tools.values()]
  const hasTaskTool = runtime.tools.get('task')?.definition.action_type === 'TaskAction'
  const prompt = systemPrompt({
    ...options,
    agent,
    tools,
    skills: runtime.skills,
    agents: hasTaskTool ? runtime.tasks?.agents : [],
    workspaceDirectory: runtime.workspace.directory,
    launchSuffix: additions?.system_message_suffix_append,
    sandbox: runtime.workspace.sandbox,
    serverInstructions: runtime.serverInstructions,
  })
  return {
    kind: 'SystemPromptEvent',
    source: 'agent',
    system_prompt: prompt.system_prompt,
    tools: tools.map(({ definition }) => definition),
    dynamic_context: prompt.dynamic_context,
  }
}

const externalPrompt =
  'This conversation is run by another program, which has its own instructions and tools. They are not shown here.'

/** What is known of the instructions of an external agent: those that the conversation adds. */
function externalPromptEvent({ agent_context }: AcpAgent): EventDraft {
  const suffix = agent_context?.system_message_suffix
  return {
    kind: 'SystemPromptEvent',
    source: 'agent',
    system_prompt: textBlock(externalPrompt),
    tools: [],
    ...(suffix === undefined ? {} : { dynamic_context: textBlock(suffix) }),
  }
}

/** The suffix of every user message. */
export function userMessageSuffix(context: AgentContext | undefined): TextContent[] {
  const suffix = context?.user_message_suffix
  return suffix === undefined || suffix.trim() === '' ? [] : [textBlock(suffix)]
}

/** Prompts by the file names in requests; any other name means the first. */
const promptVariants: Readonly<Record<string, readonly string[]>> = {
  'system_prompt.j2': ['system'],
  'system_prompt_interactive.j2': ['system', 'interactive'],
  'system_prompt_planning.j2': ['planning'],
}

function staticPrompt(filename: string, tools: readonly Tool[], readsRisk: boolean): string {
  const kinds = new Set(tools.map(({ definition }) => definition.kind))
  const canChange = tools.some(({ definition }) => definition.annotations?.readOnlyHint !== true)
  const own = Object.hasOwn(promptVariants, filename) ? promptVariants[filename] : undefined
  const prompts: readonly (string | false)[] = [
    ...(own ?? ['system']),
    [...kinds].some((kind) => kind.startsWith('Browser')) && 'browser',
    readsRisk && canChange && 'risk',
    kinds.has('FinishTool') ? 'finish' : 'answer',
  ]
  return prompts.flatMap((prompt) => (prompt === false ? [] : [readPrompt(prompt)])).join('\n\n')
}

const promptCache = new Map<string, string>()

function readPrompt(prompt: string): string {
  const file = join(import.meta.dirname, 'prompts', `${prompt}.md`)
  const text = promptCache.get(prompt) ?? readFileSync(file, 'utf8').trim()
  promptCache.set(prompt, text)
  return text
}

function dynamicContext(options: SystemPromptOptions): string {
  const { agent, skills, secrets, launchSuffix } = options
  const suffixes = [agent.agent_context?.system_message_suffix, launchSuffix]
  const parts = [
    environmentSection(options),
    options.environment ?? '',
    instructionsSection(skills.alwaysOnSections()),
    skillsSection(skills.summaries(), options.tools.some(isSkillTool)),
    agentsSection(options.agents ?? []),
    serverInstructionsSection(options.serverInstructions ?? new Map()),
    secretsSection(secrets),
    ...suffixes.map((suffix) => suffix?.trim() ?? ''),
  ]
  return parts.filter((part) => part !== '').join('\n\n')
}

function environmentSection(options: SystemPromptOptions): string {
  const { agent, workspaceDirectory, now, analyzer, sandbox } = options
  const lines = [
    `- The working directory is ${toSingleLine(workspaceDirectory, 4096)}.`,
    `- The date is ${currentDate(agent.agent_context?.current_datetime, now)}.`,
  ]
  if (sandbox !== undefined)
    lines.push(
      `- Commands run in a sandbox: ${describeSandbox(sandbox)}. When the task needs more, a call with \`outside_sandbox\` asks the user.`,
    )
  if (analyzer !== null)
    lines.push('- A call may have to wait for the user, or be refused: then find another way or ask.')
  return `# This conversation\n\n${lines.join('\n')}`
}

/** The date without the time, so that the prompt can be cached. */
function currentDate(configured: string | undefined, now: Date): string {
  return /^\d{4}-\d{2}-\d{2}(?!\d)/.exec(configured ?? '')?.[0] ?? now.toISOString().slice(0, 10)
}

function instructionsSection(sections: readonly SkillSection[]): string {
  let room = maxInstructions
  const parts: string[] = []
  for (const section of sections) {
    if (section.text === '') continue
    const isCut = section.text.length > room
    const included = isCut ? ellipsize(section.text, room) : section.text
    room = Math.max(0, room - included.length)
    const rest = isCut ? '\n[The rest does not fit here; read the file when you need it.]' : ''
    parts.push(
      `<instructions source="${toSingleLine(section.source, 200)}">\n${included}${rest}\n</instructions>`,
    )
  }
  if (parts.length === 0) return ''
  const intro =
    'These instructions come with the project or from the user. Follow them where they apply; what the user says in a message goes before them, and so do your rules about secrets and safety.'
  return `# Instructions\n\n${intro}\n\n${parts.join('\n\n')}`
}

/** Whether skills are called by this tool. */
function isSkillTool({ definition }: Tool): boolean {
  return definition.action_type === 'InvokeSkillAction'
}

function skillsSection(listed: readonly SkillSummary[], hasTool: boolean): string {
  if (listed.length === 0) return ''
  if (hasTool) {
    const intro =
      'A skill is instructions for one kind of work. When one of these fits what you are about to do, call `invoke_skill` with its name first and follow what it says.'
    const withoutFiles = listed.map((skill) => ({ ...skill, file: undefined }))
    return `# Skills\n\n${intro}\n\n${fitSkillLines(withoutFiles)}`
  }
  const intro =
    'A skill is instructions for one kind of work. When one of these fits what you are about to do, read its file first and follow it. The text of one without a file comes when it is called: by a trigger of it, by its name without one, or by the user writing `/` and its name at the beginning of a message.'
  return `# Skills\n\n${intro}\n\n${fitSkillLines(listed)}`
}

/** The list with descriptions that fit; at worst only the first names. */
function fitSkillLines(listed: readonly SkillSummary[]): string {
  for (const max of [1024, 250, 80]) {
    const lines = listed.map((skill) => skillLine(skill, max))
    const whole = lines.join('\n')
    if (whole.length <= maxList) return whole
  }
  const names = listed.map(({ name }) => name).join(', ')
  return `They are too many to describe here: ${ellipsize(names, maxList)}`
}

function skillLine({ name, description, file }: SkillSummary, max: number): string {
  const about = description === undefined ? '' : `: ${toSingleLine(description, max)}`
  return `- ${name}${about}${file === undefined ? '' : ` (file: ${file})`}`
}

/** With examples if they fit. */
function agentsSection(agents: SystemPromptOptions['agents'] = []): string {
  if (agents.length === 0) return ''
  const intro = 'These agents can be given tasks with the tool `task`, by their names:'
  for (const [max, examples] of [
    [1024, 3],
    [1024, 0],
    [200, 0],
  ] as const) {
    const lines = agents.map((agent) => agentLine(agent, max, examples)).join('\n')
    if (lines.length <= maxList) return `# Agents\n\n${intro}\n\n${lines}`
  }
  return `# Agents\n\n${intro} ${ellipsize(agents.map(({ name }) => name).join(', '), maxList)}`
}

function agentLine(agent: AgentDefinition, max: number, examples: number): string {
  const about = agent.description.trim() === '' ? '' : `: ${toSingleLine(agent.description, max)}`
  const lines = agent.when_to_use_examples
    .slice(0, examples)
    .map((one) => `\n  - For example: ${toSingleLine(one, 300)}`)
  return `- ${agent.name}${about}${lines.join('')}`
}

function secretsSection(secrets: SystemPromptOptions['secrets']): string {
  if (secrets.length === 0) return ''
  const lines = secrets.slice(0, maxSecrets).map(({ name, description }) => {
    const about = description === undefined ? '' : `: ${toSingleLine(description, 500)}`
    return `- $${toSingleLine(name, 200)}${about}`
  })
  const intro =
    'These secrets exist. Use one by naming it in a terminal command as `$NAME`; it is then in the environment of that command and nowhere else. Do not print a value, write it into a file, or ask the user for it.'
  return `# Secrets\n\n${intro}\n\n${lines.join('\n')}`
}
