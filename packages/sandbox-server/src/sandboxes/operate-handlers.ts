import type { Handlers } from '@slipway/http'
import { formatInstant, Problem, type sandboxServerRoutes } from '@slipway/protocol'
import type { Clock } from '@slipway/shared/time'
import {
  actorOf,
  type ControlPlaneStore,
  currentAuditTrail,
  ownedBy,
  type SandboxEventRow,
} from '@slipway/storage/control-plane'
import type { LookupSecrets } from '../accounts/lookup-secrets.ts'
import { isWithinReach } from '../auth/admin-reach.ts'
import { type Caller, getCaller } from '../auth/authenticator.ts'
import { callAgent } from '../network/call-agent.ts'
import { execCommand } from './sandbox-exec.ts'
import type { Sandboxes } from './sandboxes.ts'
import { isPresent, shownStatus } from './state/sandbox-repository.ts'
import { redactDetail, redactOutput } from './state/status-detail.ts'

interface OperateDeps {
  readonly sandboxes: Pick<Sandboxes, 'restart' | 'readLog' | 'getConnection'>
  readonly controlPlane: Pick<ControlPlaneStore, 'sandboxes' | 'sandboxEvents'>
  readonly lookupSecrets: Pick<LookupSecrets, 'listTexts'>
  readonly clock: Clock
}

type Request = { readonly caller: unknown; readonly params: { readonly sandbox_id: string } }
type OwnedSandbox = Pick<SandboxEventRow, 'owner' | 'org'>

/** Added to the timeout of a command, for its answer. */
const answerMs = 15_000

/**
 * Looking into a sandbox: its log, its events, a command, a restart. Owners need the scope `write`; others
 * the scope `operate`, and what they do is an event that the owner sees, written before it is done.
 */
export function operateHandlers({ sandboxes, controlPlane, lookupSecrets, clock }: OperateDeps) {
  const { sandboxEvents } = controlPlane
  const findRow = async (id: string) => {
    const [row] = await controlPlane.sandboxes.get([id])
    return isPresent(row) ? row : undefined
  }
  /** Of one that was deleted: by what is left of it. */
  const findPast = async (id: string): Promise<OwnedSandbox | undefined> =>
    (await sandboxEvents.getLog(id)) ?? (await sandboxEvents.list(id)).at(-1)
  const findLiving = async (request: Request) => {
    const row = await findRow(request.params.sandbox_id)
    const isForeign = requireAccess(getCaller(request), row)
    if (row === undefined) throw missingProblem()
    return { row, isForeign }
  }
  const note = async (request: Request, of: OwnedSandbox, kind: string, detail: string | null) => {
    const { owner: actor } = getCaller(request)
    const created_at = clock.now() * 1000
    const { owner, org } = of
    const sandbox = request.params.sandbox_id
    await sandboxEvents.add({ sandbox, owner, org, kind, actor: actorOf(actor), detail, created_at })
  }
  return {
    async getSandboxLog(request) {
      const { sandbox_id } = request.params
      const row = await findRow(sandbox_id)
      const known = row ?? (await findPast(sandbox_id))
      const isForeign = requireAccess(getCaller(request), known)
      if (isForeign && known !== undefined) await note(request, known, 'logs', null)
      const text = row === undefined ? undefined : await sandboxes.readLog(row)
      // Also of one that is archived or missing.
      const saved = text === undefined || text === '' ? await sandboxEvents.getLog(sandbox_id) : undefined
      const time = formatInstant(saved?.created_at ?? clock.now() * 1000)
      return { json: { sandbox_id, text: saved?.text ?? text ?? '', is_live: saved === undefined, time } }
    },
    async listSandboxEvents(request) {
      const { sandbox_id } = request.params
      const known = (await findRow(sandbox_id)) ?? (await findPast(sandbox_id))
      requireAccess(getCaller(request), known)
      const items = (await sandboxEvents.list(sandbox_id)).map(({ created_at, kind, actor, detail }) => ({
        time: formatInstant(created_at),
        kind,
        actor,
        detail,
      }))
      return { json: { items } }
    },
    async execInSandbox(request) {
      const { row } = await findLiving(request)
      const { command, cwd, timeout_seconds } = request.body
      const connection = sandboxes.getConnection(row)
      if (connection === undefined)
        throw new Problem(
          'conflict',
          `The sandbox is ${shownStatus(row)}: commands run in one that is RUNNING`,
        )
      const values = [...connection.secrets(), ...(await lookupSecrets.listTexts(row.owner))]
      await note(request, row, 'exec', redactDetail(command, values))
      const timeoutMs = timeout_seconds * 1000
      const { exitCode, stdout, stderr } = await callAgent(clock.timeout(timeoutMs + answerMs), (signal) =>
        execCommand(connection, command, {
          ...(cwd === undefined ? {} : { cwd }),
          ...{ timeoutMs, clock, signal },
        }),
      )
      const result = { stdout: redactOutput(stdout, values), stderr: redactOutput(stderr, values) }
      return { json: { exit_code: exitCode, ...result } }
    },
    async restartSandbox(request) {
      const { row } = await findLiving(request)
      await sandboxes.restart(row, { actor: actorOf(getCaller(request).owner) })
      return { json: { success: true } }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

/**
 * Whether it is of somebody else. The same Problem `not_found` for one that is unknown and one out of reach.
 */
function requireAccess(caller: Caller, row: OwnedSandbox | undefined): boolean {
  if (row === undefined) throw missingProblem()
  const { scopes } = caller
  if (ownedBy(caller).includes(row)) {
    if (scopes.includes('write')) return false
    throw new Problem('forbidden', 'This key may not do that: it needs the scope write.')
  }
  if (!scopes.includes('operate') || !isWithinReach(caller, row)) throw missingProblem()
  const trail = currentAuditTrail()
  if (trail?.allowedBy) trail.allowedBy = { ...trail.allowedBy, scope: 'operate' }
  return true
}

function missingProblem(): Problem {
  return new Problem('not_found', 'There is no such sandbox')
}
