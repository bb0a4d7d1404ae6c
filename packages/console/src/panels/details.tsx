import { recordOf } from '@slipway/protocol/event-text'
import { Link } from '@tanstack/react-router'
import { useAnswer } from '../api/queries.ts'
import { agentServer } from '../api/session.ts'
import { formatDateTime, formatNumber } from '../ui/format.ts'
import type { PanelProps } from './panel-props.ts'

const policyNames: Readonly<Record<string, string>> = {
  NeverConfirm: 'never',
  ConfirmRisky: 'when an action is risky',
  AlwaysConfirm: 'always',
}

/** Where the conversation works, with what, and under which rules. Secrets are names alone. */
export function DetailsPanel({ info }: PanelProps) {
  const secrets = Object.keys(recordOf(recordOf(info.secret_registry).secret_sources))
  const hooks = Object.entries(recordOf(info.hook_config)).filter(
    ([, list]) => Array.isArray(list) && list.length > 0,
  )
  const tools = Array.isArray(info.agent.tools)
    ? info.agent.tools.map((tool) => String(recordOf(tool).name ?? tool))
    : []
  const rows: readonly (readonly [string, string])[] = [
    ['Id', info.id],
    ['Workspace', info.workspace.working_dir],
    ['Created', formatDateTime(Date.parse(info.created_at))],
    ['Last activity', formatDateTime(Date.parse(info.updated_at))],
    ['Asks before acting', policyNames[String(info.confirmation_policy.kind)] ?? 'by another policy'],
    ['Most steps of a run', String(info.max_iterations)],
    ['Tools', tools.join(', ')],
    ['Secrets', secrets.join(', ') || 'none'],
    ['Hooks', hooks.map(([name, list]) => `${name} (${(list as unknown[]).length})`).join(', ') || 'none'],
    ['Skills used', [...info.activated_knowledge_skills, ...info.invoked_skills].join(', ') || 'none'],
    [
      'Tags',
      Object.entries(info.tags)
        .map(([name, value]) => `${name}: ${value}`)
        .join(', ') || 'none',
    ],
  ]
  return (
    <>
      <HooksRan id={info.id} />
      <dl className="members">
        {rows.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd className="wrap">{value}</dd>
          </div>
        ))}
      </dl>
    </>
  )
}

/** A link to the hooks that ran, where there were any. */
function HooksRan({ id }: { readonly id: string }) {
  const count = useAnswer(['conversation', id, 'hooks'], (signal) =>
    agentServer.call('countEvents', {
      params: { conversation_id: id },
      query: { kind: 'HookExecutionEvent' },
      signal,
    }),
  )
  if (!count.data) return null
  return (
    <p>
      <Link to="/c/$id" params={{ id }} search={{ kind: 'HookExecutionEvent' }}>
        Hooks that ran: {formatNumber(count.data)}
      </Link>
    </p>
  )
}
