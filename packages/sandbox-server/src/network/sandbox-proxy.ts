import type { Relay, RelayRequest } from '@slipway/http'
import { Problem } from '@slipway/protocol'
import type { SandboxRow, Scope } from '@slipway/storage'
import { hashOf } from '../auth/authenticator.ts'
import { relayNames } from './exposed-urls.ts'

type Header = RelayRequest['header']

export interface RelayedSandboxes {
  find(ids: readonly string[]): Promise<(SandboxRow | undefined)[]>
  /** Where it is reached from this machine, by name of the wire. */
  addresses(row: SandboxRow): Readonly<Record<string, string>>
  touch(id: string): void
}

/** Cookies by which this server knows somebody. */
const ownCookie = /^(api_key|keycloak_auth\w*)=/

/**
 * Sandboxes below an address of this server: `/sandboxes/{id}/agent`, `/worker_1`, `/worker_2`. The agent server asks for its own
 * key. What runs at the workers asks for nothing, so here the session key of the sandbox is needed, or a key of its owner. A
 * sandbox that does not run is never resumed by a request. What opens this server is not passed on.
 */
export function sandboxRelay(parts: {
  readonly sandboxes: RelayedSandboxes
  /** Whose key the headers carry; a Problem when there is none that is valid. */
  readonly callerOf: (header: Header) => Promise<Scope>
}): Relay {
  const { sandboxes, callerOf } = parts
  return {
    prefix: '/sandboxes/{sandbox_id}/{name}',
    async target({ params, header }) {
      const name = Object.keys(relayNames).find((known) => relayNames[known] === params.name)
      const [row] = await sandboxes.find([params.sandbox_id ?? ''])
      if (row === undefined || name === undefined) throw new Problem('not_found', 'Not Found')
      if (name !== 'AGENT_SERVER') await mustBeAllowed(row, header, callerOf)
      if (row.status !== 'RUNNING' || row.wanted !== 'running') throw notRunning(row)
      const url = sandboxes.addresses(row)[name]
      if (url === undefined) throw new Problem('not_found', 'The sandbox has no such address')
      sandboxes.touch(row.id)
      return { url, headers: withoutOwn(header, name, row) }
    },
  }
}

async function mustBeAllowed(
  row: SandboxRow,
  header: Header,
  callerOf: (header: Header) => Promise<Scope>,
): Promise<void> {
  const key = header('x-session-api-key')
  if (key !== undefined && isKeyOf(row, key)) return
  const { owner, org } = await callerOf(header)
  if (owner === row.owner && (org === undefined || org === row.org)) return
  throw new Problem('not_found', 'Not Found')
}

/** What runs in a sandbox is not trusted with the keys of its owner, and its own key is not for what the agent has built. */
function withoutOwn(header: Header, name: string, row: SandboxRow): Record<string, string | undefined> {
  const session = header('x-session-api-key')
  const bearer = /^bearer +(\S+)$/i.exec(header('authorization') ?? '')?.[1]
  const cookies = (header('cookie') ?? '').split(/; */).filter((one) => one !== '' && !ownCookie.test(one))
  const isAgent = name === 'AGENT_SERVER'
  const keeps = (key: string | undefined) => isAgent && key !== undefined && isKeyOf(row, key)
  return {
    'x-access-token': undefined,
    'x-org-id': undefined,
    ...(keeps(session) ? {} : { 'x-session-api-key': undefined }),
    ...(bearer === undefined || keeps(bearer) ? {} : { authorization: undefined }),
    cookie: cookies.length === 0 ? undefined : cookies.join('; '),
  }
}

/** The comparison of digests says nothing about the key. */
function isKeyOf(row: SandboxRow, key: string): boolean {
  return row.key_hash !== null && row.key_hash === hashOf(key)
}

function notRunning({ id, status, wanted }: SandboxRow): Problem {
  const words =
    status === 'STARTING'
      ? 'it is on its way; try again in a moment'
      : status === 'MISSING'
        ? 'nothing is left of it; start another one'
        : `resume it with POST /api/v1/sandboxes/${id}/resume`
  const shown = status === 'RUNNING' && wanted === 'paused' ? 'PAUSED' : status
  return new Problem('conflict', `The sandbox does not run (${shown}): ${words}.`, undefined, {
    sandbox_status: shown,
  })
}
