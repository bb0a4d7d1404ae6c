import { readFileSync } from 'node:fs'
import {
  createTelemetry,
  llm,
  readSettings,
  type SandboxSpec,
  type SettingValues,
  sandboxSpec,
} from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import * as z from 'zod'
import { settings } from './settings.ts'

export type Config = ReturnType<typeof readConfig>

type Values = SettingValues<typeof settings>

const isOneMachine = (backend: string) => backend === 'process' || backend === 'docker'

/** Reads the environment. Throws an Error that names the invalid variable and never shows its value. */
export function readConfig(env: Readonly<Record<string, string | undefined>>) {
  const { specDefaults, maxSandboxes, ...values } = readSettings(settings, env)
  return {
    ...values,
    maxSandboxes: maxSandboxes ?? (isOneMachine(values.backend) ? usualMaxSandboxes : 0),
    /** The default limit never refuses the resume of a sandbox that an earlier version let run. */
    limitsResumes: maxSandboxes !== undefined,
    /** Each has a backend and limits; the first is the default. */
    specs: sandboxSpecs(values, specDefaults),
    model: values.model.model === undefined ? undefined : llm.parse(definedMembers(values.model)),
    telemetry: createTelemetry(values.telemetry),
  }
}

/** Where no limit is set: enough for a person, and few enough for one machine. */
const usualMaxSandboxes = 10

function sandboxSpecs(
  { backend, network, image, specs }: Omit<Values, 'specDefaults' | 'maxSandboxes'>,
  { host_ports, warm, resources }: Values['specDefaults'],
): (SandboxSpec & { readonly backend: string })[] {
  const defaultSpec = backend === 'process' ? { id: 'process' } : { id: image, image }
  const limits = Object.fromEntries(Object.entries(resources).filter(([, limit]) => limit > 0))
  const read = specs === undefined ? [sandboxSpec.parse(defaultSpec)] : parseSpecs(specs)
  return read.map((spec, index) => ({
    ...spec,
    backend: spec.backend ?? backend,
    network: spec.network ?? (network === 'auto' ? 'private' : network),
    host_ports: spec.host_ports.length > 0 ? spec.host_ports : host_ports,
    resources: { ...limits, ...spec.resources },
    warm: index === 0 ? Math.max(spec.warm, warm) : spec.warm,
  }))
}

function parseSpecs(pathOrJson: string): SandboxSpec[] {
  const name = 'SLIPWAY_SANDBOX_SPECS'
  let value: unknown
  try {
    value = JSON.parse(pathOrJson.trimStart().startsWith('[') ? pathOrJson : readFileSync(pathOrJson, 'utf8'))
  } catch (cause) {
    throw new Error(`${name}: it is neither a JSON array nor the path of a file that holds one`, { cause })
  }
  const result = z.array(sandboxSpec).min(1).safeParse(value)
  if (!result.success) {
    const issue = result.error.issues[0]
    throw new Error(`${name}: ${issue?.path.join('.')}: ${issue?.message}`)
  }
  const ids = result.data.map(({ id }) => id)
  const duplicateId = ids.find((id, index) => ids.indexOf(id) !== index)
  if (duplicateId !== undefined) throw new Error(`${name}: the id ${duplicateId} is there twice`)
  return result.data
}
