import * as z from 'zod'
import { boundedText, component, jsonObject, nullAsUndefined, withDefault } from '../../core/schemas.ts'
import { condenser, hookConfig, mcpServers } from './agent.ts'

const stringList = withDefault(z.array(z.string()).max(200), [])

/** It appears quoted in prompts, and in ids that clients show. */
const agentName = boundedText(1, 100).regex(
  // biome-ignore lint/suspicious/noControlCharactersInRegex: validators of OpenAPI documents do not know \p{Cc}
  /^[^\s<>"'`\u0000-\u001f\u007f-\u009f](?:[^<>"'`\u0000-\u001f\u007f-\u009f]*[^\s<>"'`\u0000-\u001f\u007f-\u009f])?$/u,
  'A name has no quotes, angle brackets or control characters, and no blanks at its ends',
)

/** Where an agent was found. `programmatic`: the request brought it. */
export const agentLevel = z.enum(['project', 'user', 'builtin', 'plugin', 'programmatic'])
export type AgentLevel = z.infer<typeof agentLevel>

/**
 * An agent that others give tasks to (wire 6.13). `model` is `inherit` or the name of an LLM profile. `tools`
 * are registry names, none but the defaults without them. `skills` are named in addition to those always
 * active. `permission_mode` can only require more confirmation than the parent. The limits are per task:
 * steps and dollars.
 */
export const agentDefinition = component('AgentDefinition', {
  name: agentName,
  description: withDefault(z.string(), ''),
  model: withDefault(z.string().min(1), 'inherit'),
  color: nullAsUndefined(z.string()),
  tools: stringList,
  skills: stringList,
  system_prompt: withDefault(z.string(), ''),
  source: nullAsUndefined(z.string()),
  level: nullAsUndefined(agentLevel),
  when_to_use_examples: stringList,
  hooks: nullAsUndefined(hookConfig),
  permission_mode: nullAsUndefined(z.enum(['always_confirm', 'never_confirm', 'confirm_risky'])),
  max_iteration_per_run: nullAsUndefined(z.int().min(1)),
  max_budget_per_run: nullAsUndefined(z.number().positive()),
  mcp_config: nullAsUndefined(mcpServers),
  profile_store_dir: nullAsUndefined(z.string()),
  condenser: nullAsUndefined(condenser),
  metadata: withDefault(jsonObject, {}),
})
export type AgentDefinition = z.output<typeof agentDefinition>
