import * as z from 'zod'
import { component, nullAsUndefined, nullByDefault, withDefault } from '../../core/schemas.ts'
import { secretInput } from '../llm/llm.ts'

/** A secret that a program reads from a file: which one, the file, and the variable that names it. */
export const acpFileSecret = component('ACPFileSecretSpec', {
  secret_name: z.string().min(1).max(200),
  filename: z
    .string()
    .min(1)
    .max(200)
    .regex(/^(?!\.\.?$)[^/\\\0]*$/, 'It is a name without a folder'),
  env_var: z.string().regex(/^[A-Za-z_]\w{0,199}$/, 'It is the name of a variable'),
  subdir: z.string().regex(/^[\w-][\w.-]{0,99}$/, 'It is the name of a folder'),
  env_points_to: withDefault(z.enum(['dir', 'file']), 'file'),
  warn_if_unset: withDefault(z.array(z.string()), []),
})
export type AcpFileSecret = z.output<typeof acpFileSecret>

/** The usage of an external agent, which asks models on its own. */
export const acpUsageId = 'acp-managed'
export const acpSeconds = z.number().positive().max(1_000_000)
/** The command of an external agent: a program and its arguments. */
export const acpCommand = z.array(z.string().min(1).max(10_000)).max(1_000)

/** The members that only an external agent has. Times are seconds. */
export const acpAgentMembers = {
  acp_command: acpCommand.min(1),
  acp_args: withDefault(acpCommand, []),
  acp_server: nullAsUndefined(z.string().max(200)),
  acp_model: nullAsUndefined(z.string().max(1_000)),
  acp_effort: nullAsUndefined(z.string().max(200)).meta({
    description: 'How much the external agent reasons: a value of its session option for that.',
  }),
  acp_session_mode: nullAsUndefined(z.string().max(200)),
  acp_prompt_timeout: withDefault(acpSeconds, 1800).meta({ description: 'Seconds without an update.' }),
  acp_startup_timeout: withDefault(acpSeconds, 90),
  acp_resume_session_id: secretInput,
  acp_file_secrets: nullAsUndefined(z.array(acpFileSecret).max(50)),
  acp_isolate_data_dir: withDefault(z.boolean(), false),
}

/** A model that an external agent offers. */
export const acpModelInfo = component('ACPModelInfo', {
  model_id: z.string(),
  name: nullByDefault(z.string()),
  description: nullByDefault(z.string()),
})
export type AcpModelInfo = z.output<typeof acpModelInfo>

/** What a conversation knows of the session of its external agent. */
export const acpState = z.object({
  acp_agent_name: z.string().optional(),
  acp_agent_version: z.string().optional(),
  acp_session_id: z.string().optional(),
  acp_session_cwd: z.string().optional(),
  acp_current_model_id: z.string().optional(),
  acp_available_models: z.array(acpModelInfo).optional(),
  acp_supports_runtime_model_switch: z.boolean().optional(),
  /** The last message that the session was sent. */
  acp_prompted_message_id: z.string().optional(),
})
export type AcpState = z.output<typeof acpState>
