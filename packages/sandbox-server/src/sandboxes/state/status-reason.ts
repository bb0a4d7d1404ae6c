import type { SandboxInfo } from '@slipway/protocol'

export type StatusReason = NonNullable<SandboxInfo['status_reason']>

interface StuckSandbox {
  readonly id: string
  readonly status: SandboxInfo['status']
  /** Redacted. */
  readonly detail: string | null
  /** `process`, `docker`, `kubernetes` or `agent-sandbox`. */
  readonly backend: string
  /** Undefined: the spec is gone. */
  readonly spec: { readonly image?: string | undefined } | undefined
}

interface Cause {
  readonly code: StatusReason['code']
  /** In the details of backends, engines, kernels and agent servers. */
  readonly pattern: RegExp
  readonly words: string
  /** The next command; by backend where that differs. */
  readonly next: string | Readonly<Record<string, string>>
}

const resume = 'slipway sandbox resume {id}'
const logs = 'slipway sandbox logs {id}'
const describePod = 'kubectl describe pods -l slipway.dev/sandbox={id}'

/**
 * Why a sandbox does not run: cause, words, next command. The first row whose pattern its detail has counts,
 * so special causes stand before general ones.
 */
const causes: readonly Cause[] = [
  {
    code: 'archived',
    pattern: /^It was archived/,
    words: 'It was archived: its files are deleted, and its conversations continue in other sandboxes.',
    next: 'slipway app ls',
  },
  {
    code: 'image_missing',
    pattern:
      /^The image .* (is missing|cannot be used)|^Its image .* cannot be pulled|^Failed to pull image|^The name of its image is invalid|^Its container cannot be started: .*(pull image|ImagePull)/,
    words: 'The image of its spec is missing or cannot be pulled.',
    next: { docker: 'docker pull {image}', kubernetes: describePod },
  },
  {
    code: 'key_refused',
    pattern: /does not accept its session key|sealed with a key that this server does not have/,
    words:
      'Its agent server and this server have different keys: SLIPWAY_SECRET_KEY was changed, or another program answers.',
    next: resume,
  },
  {
    code: 'disk_full',
    pattern: /no space left on device|ENOSPC|disk quota exceeded|EDQUOT/i,
    words:
      'Its disk, or the disk of the host, is full: free space, or raise disk_bytes of the spec for new sandboxes.',
    next: { process: 'df -h', docker: 'docker system df', kubernetes: describePod },
  },
  {
    code: 'volume_unavailable',
    pattern:
      /^Its volume |^Its disk cannot be|^The volume .* does not belong|unbound immediate PersistentVolumeClaims|persistentvolumeclaim .* not found/m,
    words: 'Its volume cannot be made, attached or mounted.',
    next: {
      process: 'slipway doctor',
      docker: 'docker volume ls',
      kubernetes: 'kubectl describe pvc -l slipway.dev/sandbox={id}',
    },
  },
  {
    code: 'unschedulable',
    pattern: /^No node of the cluster takes it|^Its node evicted it|quota of the namespace is used up/m,
    words: 'No node of the cluster has the memory, the processors or the labels that its spec asks for.',
    next: describePod,
  },
  {
    code: 'out_of_memory',
    pattern:
      /used up its memory|because it used more memory than it is allowed|cannot allocate memory|ENOMEM|heap out of memory/i,
    words:
      'It needs more memory than its spec or the host allows: raise memory_bytes of the spec, or SLIPWAY_SANDBOX_MEMORY_MB.',
    next: resume,
  },
  {
    code: 'port_taken',
    pattern: /EADDRINUSE|address already in use|port is already allocated/i,
    words: 'Another program has the port that it listens on.',
    next: { process: resume, docker: 'docker ps', kubernetes: describePod },
  },
  {
    code: 'command_missing',
    pattern:
      /^It ended with exit code 12[67]\b|executable file not found|exec[^\n]*: no such file or directory/,
    words:
      'The command of its spec is missing in it or cannot be run: correct the spec, and start another sandbox.',
    next: 'slipway sandbox rm {id}',
  },
  {
    code: 'not_answering',
    pattern: /^The agent server was not ready after/,
    words:
      'Its program runs, and its agent server does not answer in the time of SLIPWAY_SANDBOX_START_SECONDS.',
    next: logs,
  },
  {
    code: 'backend_missing',
    pattern: /^It cannot continue and is tried again: the backend \S+ is not configured/,
    words:
      'Its backend is no longer configured: set SLIPWAY_BACKEND, or the spec that it was made from, as before.',
    next: 'slipway sandbox rm {id}',
  },
  {
    code: 'backend_unavailable',
    pattern:
      /^It cannot continue and is tried again: [\s\S]*(No container engine was found|container engine at \S+ (did not answer|refuses)|ECONNREFUSED|ECONNRESET|ENOTFOUND|EHOSTUNREACH|ETIMEDOUT|EACCES|Unauthorized|Forbidden)/,
    words: 'What runs it, the container engine or the cluster, does not answer this server or refuses it.',
    next: { process: 'slipway doctor', docker: 'docker info', kubernetes: 'kubectl cluster-info' },
  },
]

/** Of one that runs and misses its checks. */
export const notAnsweringDetail = 'Its agent server does not answer.'

const silent: Omit<Cause, 'pattern'> = {
  code: 'not_answering',
  words: 'Its agent server has not answered for minutes: it hangs, or has no memory or processor left.',
  next: 'slipway sandbox restart {id}',
}

/**
 * Why it does not run, or does not answer, and the next command. Null for one that runs, is paused or starts
 * without a fault.
 */
export function findStatusReason({ id, status, detail, backend, spec }: StuckSandbox): StatusReason | null {
  if (status === 'RUNNING') return detail === notAnsweringDetail ? toReason(silent, id, backend, spec) : null
  const cause = causes.find(({ pattern }) => pattern.test(detail ?? '')) ?? generalCause(status, spec)
  return cause === undefined ? null : toReason(cause, id, backend, spec)
}

/** Whether it failed because its agent server does not have the key of its row. */
export function isKeyRefused(detail: string | null): boolean {
  return causes.find(({ pattern }) => pattern.test(detail ?? ''))?.code === 'key_refused'
}

function toReason(
  cause: Omit<Cause, 'pattern'>,
  id: string,
  backend: string,
  spec: StuckSandbox['spec'],
): StatusReason {
  const group = backend === 'agent-sandbox' ? 'kubernetes' : backend
  const next = typeof cause.next === 'string' ? cause.next : (cause.next[group] ?? resume)
  const command = next.replaceAll('{id}', id).replaceAll('{image}', spec?.image ?? 'IMAGE')
  return { code: cause.code, message: cause.words, next_command: command }
}

function generalCause(
  status: StuckSandbox['status'],
  spec: StuckSandbox['spec'],
): Omit<Cause, 'pattern'> | undefined {
  if (status !== 'ERROR' && status !== 'MISSING') return undefined
  if (spec === undefined)
    return {
      code: 'spec_missing',
      words: 'Its spec is no longer configured: it resumes as it was made; new ones need another spec.',
      next: status === 'ERROR' ? resume : 'slipway sandbox rm {id}',
    }
  if (status === 'MISSING')
    return { code: 'missing', words: 'Nothing is left of it.', next: 'slipway sandbox rm {id}' }
  return { code: 'ended', words: 'Its program has ended or cannot be started.', next: resume }
}
