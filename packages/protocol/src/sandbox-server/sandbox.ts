import * as z from 'zod'
import { component, strictComponent, timestamp } from '../core/schemas.ts'

/**
 * - STARTING: its agent server does not answer yet
 * - RUNNING: its agent server answers
 * - PAUSED: stopped on request; it can be resumed
 * - ERROR: the start failed or it ended on its own (`status_detail`); resume restarts it on its files
 * - MISSING: nothing of it exists
 */
export const sandboxStatus = z
  .enum(['STARTING', 'RUNNING', 'PAUSED', 'ERROR', 'MISSING'])
  .meta({ id: 'SandboxStatus' })
export type SandboxStatus = z.infer<typeof sandboxStatus>

/** Server-generated; any other text is an unknown id. */
export const sandboxId = z.string().min(1).max(200)

export const exposedUrl = component('ExposedUrl', {
  name: z.string().meta({ description: 'AGENT_SERVER, WORKER_1 or WORKER_2.' }),
  url: z.string(),
  port: z.int().meta({ description: 'The port of the url.' }),
})

const resources = z.object({
  memory_bytes: z.int().min(16_777_216).optional(),
  max_processes: z.int().min(8).optional(),
  cpus: z.number().gt(0).optional(),
  disk_bytes: z.int().min(8_388_608).optional(),
  max_open_files: z.int().min(64).optional(),
})

/** Isolation of a sandbox from the host and from other sandboxes. */
export const sandboxIsolation = component('SandboxIsolation', {
  kind: z.enum(['none', 'namespaces', 'container']),
  enforced: z.array(z.string()).meta({ description: 'The resources that are really limited.' }),
  notes: z.array(z.string()).meta({ description: 'For people: what is not isolated or limited.' }),
})

/** Why a sandbox does not run, in words of this server: `status_detail` has those of backends and programs. */
export const statusReason = component('SandboxStatusReason', {
  code: z.enum([
    ...['image_missing', 'key_refused', 'disk_full', 'volume_unavailable', 'unschedulable'],
    ...['out_of_memory', 'port_taken', 'not_answering', 'spec_missing', 'archived', 'missing', 'ended'],
    ...['backend_missing', 'backend_unavailable', 'command_missing'],
  ] as const),
  message: z.string(),
  next_command: z.string(),
})

/** A sandbox as its owner sees it (wire: SandboxInfo). Null members are present. */
export const sandboxInfo = component('SandboxInfo', {
  id: sandboxId,
  created_by_user_id: z.string().nullable(),
  sandbox_spec_id: z.string(),
  status: sandboxStatus,
  working_dir: z.string().nullable(),
  session_api_key: z
    .string()
    .nullable()
    .meta({ description: 'Key of its agent server; null unless it runs. It stays the same over pauses.' }),
  exposed_urls: z.array(exposedUrl).nullable().meta({ description: 'Null unless it runs.' }),
  created_at: timestamp,
  status_detail: z.string().nullable(),
  status_reason: statusReason.nullable().meta({ description: 'Null while nothing is wrong.' }),
  isolation: sandboxIsolation,
  resources,
  paused_after_idle_seconds: z.int().nullable(),
  paused_after_seconds: z.int().nullable(),
  deleted_after_paused_seconds: z.int().nullable(),
  deletes_at: timestamp.nullable().meta({
    description: 'When it is deleted with its workspace unless it is used before; null: not announced.',
  }),
  archived: z.boolean().meta({
    description: 'Its files were deleted on request, and the histories of its conversations kept.',
  }),
})
export type SandboxInfo = z.infer<typeof sandboxInfo>

/** A sandbox as administrators see it: without its session key and its addresses. */
export const ownedSandbox = component('OwnedSandbox', {
  id: sandboxId,
  user_id: z.string().nullable(),
  user_name: z.string().nullable().meta({ description: 'The name or the email of the user.' }),
  org_id: z.string().nullable(),
  sandbox_spec_id: z.string(),
  status: sandboxStatus,
  status_detail: z.string().nullable(),
  status_reason: statusReason.nullable().meta({ description: 'Null while nothing is wrong.' }),
  created_at: timestamp,
  used_at: timestamp.meta({ description: 'Its last use.' }),
  cost: z.number().meta({ description: 'What its conversations have cost, in dollars.' }),
  conversations: z.int().meta({ description: 'The number of its conversations.' }),
})
export type OwnedSandbox = z.infer<typeof ownedSandbox>

/** What the processes of a sandbox use. */
export const sandboxUse = component('SandboxUse', {
  sandbox_id: sandboxId,
  memory_bytes: z.int(),
  cpu_seconds: z.number().meta({ description: 'Since its processes began; two readings make a rate.' }),
  processes: z.int(),
})
export type SandboxUse = z.infer<typeof sandboxUse>

/** A template that sandboxes are made from. Environment variables whose names speak of a secret are stars. */
export const sandboxSpecInfo = component('SandboxSpecInfo', {
  id: z.string(),
  command: z.array(z.string()).nullable(),
  created_at: timestamp,
  initial_env: z.record(z.string(), z.string()),
  working_dir: z.string(),
  image: z.string().nullable(),
  backend: z.string(),
  resources,
  network: z.enum(['private', 'shared', 'none']),
  is_default: z.boolean(),
})
export type SandboxSpecInfo = z.infer<typeof sandboxSpecInfo>

const label = z.string().max(317)

/** Settings of a spec for the kubernetes backend. The size of the volume is `resources.disk_bytes`. */
const kubernetesSettings = z.strictObject({
  runtime_class: z.string().optional().meta({ description: 'A RuntimeClass, as gVisor or Kata bring one.' }),
  node_selector: z.record(label, z.string()).optional(),
  tolerations: z
    .array(
      z.strictObject({
        key: label.optional(),
        operator: z.enum(['Exists', 'Equal']).optional(),
        value: z.string().optional(),
        effect: z.enum(['NoSchedule', 'PreferNoSchedule', 'NoExecute']).optional(),
        toleration_seconds: z.int().optional(),
      }),
    )
    .optional(),
  image_pull_secrets: z.array(z.string()).optional(),
  image_pull_policy: z.enum(['Always', 'IfNotPresent', 'Never']).optional(),
  storage_class: z.string().optional().meta({ description: 'That of the cluster unless given.' }),
  requests: z
    .strictObject({ cpus: z.number().positive().optional(), memory_bytes: z.int().positive().optional() })
    .optional()
    .meta({ description: 'What a node must have free; the limits unless given.' }),
})

/** Seconds; the setting of the server unless given. */
const lifetime = z.int().min(0).max(2_000_000_000).optional()

/** A spec in a file of specs or in SLIPWAY_SANDBOX_SPECS. */
export const sandboxSpec = strictComponent('SandboxSpec', {
  id: z.string().regex(/^[\w][\w./:@-]{0,199}$/, 'An id is 1 to 200 letters, digits and _ . / : @ -'),
  backend: z.string().optional().meta({ description: 'The first configured backend unless given.' }),
  image: z.string().optional(),
  command: z.array(z.string()).default([]),
  env: z.record(z.string().regex(/^[A-Za-z_]\w*$/), z.string()).default({}),
  working_dir: z.string().default(''),
  resources: z.strictObject(resources.shape).prefault({}),
  network: z
    .enum(['private', 'shared', 'none'])
    .optional()
    .meta({ description: 'SLIPWAY_SANDBOX_NETWORK unless given; of this machine only when shared.' }),
  host_ports: z.array(z.int().min(1).max(65_535)).max(100).default([]).meta({
    description:
      'Loopback ports of this machine that a private network of the process backend reaches; SLIPWAY_SANDBOX_HOST_PORTS unless given.',
  }),
  kubernetes: kubernetesSettings.optional(),
  warm: z
    .int()
    .min(0)
    .max(100)
    .default(0)
    .meta({ description: 'Sandboxes kept ready before they are asked for.' }),
  idle_seconds: lifetime.meta({ description: 'It is paused after so long without use; 0 is never.' }),
  max_session_seconds: lifetime.meta({
    description: 'It is paused after it has run for so long, also while it works; 0 is never.',
  }),
  delete_after_seconds: lifetime.meta({
    description: 'It is deleted with its workspace when it has not run for so long; 0 is never.',
  }),
})
export type SandboxSpec = z.output<typeof sandboxSpec>
