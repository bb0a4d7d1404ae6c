import type { CallOutput } from '@slipway/client'
import { Link } from '@tanstack/react-router'
import { formatAgo, formatCost } from '../ui/format.ts'
import { Icon } from '../ui/icon.tsx'
import { Menu } from '../ui/menu.tsx'
import { exportConversation } from './actions.ts'
import { conversationCost, modelName } from './conversation-facts.ts'
import { StatusBadge } from './status-badge.tsx'

type Info = CallOutput<'searchConversations'>['items'][number]

/** One conversation: what it does, what it is called, with which model, what it cost, when it last moved. */
export function ConversationRow(props: {
  readonly info: Info
  readonly onFocus: () => void
  readonly onTag: (tag: string) => void
  readonly onRename: () => void
  readonly onDelete: () => void
}) {
  const { info, onFocus, onTag, onRename, onDelete } = props
  const title = info.title ?? 'Untitled'
  const cost = conversationCost(info)
  return (
    <div className="row">
      <StatusBadge status={info.execution_status} />
      <div className="row-main">
        <Link
          id={`row-${info.id}`}
          to="/c/$id"
          params={{ id: info.id }}
          className="row-title"
          dir="auto"
          onFocus={onFocus}
        >
          {title}
        </Link>
        <span className="row-facts">
          <span className="mono">{info.id.slice(0, 8)}</span>
          {modelName(info) !== undefined && <span>{modelName(info)}</span>}
          {cost > 0 && <span>{formatCost(cost)}</span>}
          {Object.entries(info.tags).map(([name, value]) => (
            <button key={name} type="button" className="chip" onClick={() => onTag(`${name}:${value}`)}>
              {value === '' ? name : `${name}: ${value}`}
            </button>
          ))}
        </span>
      </div>
      <time className="quiet" dateTime={info.updated_at} title={info.updated_at}>
        {formatAgo(Date.parse(info.updated_at))}
      </time>
      <Menu
        label={`Actions of ${title}`}
        button={<Icon name="more" />}
        items={[
          { label: 'Rename', run: onRename },
          { label: 'Export', run: () => void exportConversation(info.id) },
          { label: 'Delete', run: onDelete, isDangerous: true },
        ]}
      />
    </div>
  )
}
