import type { CallOutput } from '@slipway/client'
import { lazyRouteComponent } from '@tanstack/react-router'
import { type ComponentType, useState } from 'react'
import { onDemand } from '../app/on-demand.tsx'
import { Icon } from '../ui/icon.tsx'
import { Loading } from '../ui/states.tsx'
import { ChangesPanel } from './changes.tsx'
import { ContextPanel } from './context.tsx'
import { DetailsPanel } from './details.tsx'
import { FilesPanel } from './files.tsx'
import type { PanelProps } from './panel-props.ts'
import { TasksPanel } from './tasks.tsx'
import { TerminalPanel } from './terminal.tsx'

const UsagePanel = onDemand(lazyRouteComponent(() => import('./usage.tsx'), 'UsagePanel'))

const panels: readonly (readonly [string, ComponentType<PanelProps>])[] = [
  ['Changes', ChangesPanel],
  ['Files', FilesPanel],
  ['Terminal', TerminalPanel],
  ['Tasks', TasksPanel],
  ['Context', ContextPanel],
  ['Usage', UsagePanel],
  ['Details', DetailsPanel],
]

/** What stands beside the log, one at a time. */
export function Panels(props: {
  readonly id: string
  readonly info: CallOutput<'getConversation'> | undefined
  readonly close: () => void
}) {
  const { id, info, close } = props
  const [name, setName] = useState('Changes')
  const Panel = panels.find(([one]) => one === name)?.[1]
  return (
    <aside className="panels" aria-label="Panels">
      <div className="panel-head">
        <div className="tabs" role="tablist" aria-label="Panels">
          {panels.map(([one]) => (
            <button
              key={one}
              type="button"
              role="tab"
              id={`tab-${one}`}
              aria-selected={one === name}
              aria-controls="panel"
              onClick={() => setName(one)}
            >
              {one}
            </button>
          ))}
        </div>
        <button type="button" className="ghost" aria-label="Close the panel" onClick={close}>
          <Icon name="close" />
        </button>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scroller must be reachable by keyboard */}
      <div className="panel" id="panel" role="tabpanel" aria-labelledby={`tab-${name}`} tabIndex={0}>
        {info === undefined || Panel === undefined ? <Loading /> : <Panel id={id} info={info} />}
      </div>
    </aside>
  )
}
