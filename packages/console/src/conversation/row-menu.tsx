import { jsonText, toMarkdown } from '@slipway/protocol/event-text'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { LogEvent } from '../api/log.ts'
import { agentServer, errorText } from '../api/session.ts'
import { showToast } from '../api/toasts.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Icon } from '../ui/icon.tsx'
import { LongText } from '../ui/long-text.tsx'
import { Menu } from '../ui/menu.tsx'

/** What can be done with a row: copy, look at the JSON, and continue from here. */
export function RowMenu(props: {
  readonly events: readonly LogEvent[]
  readonly conversationId: string | undefined
  readonly canSteer: boolean
}) {
  const { events, conversationId, canSteer } = props
  const [isJsonOpen, setJsonOpen] = useState(false)
  const navigate = useNavigate()
  const first = events[0]
  const last = events.at(-1)
  if (first === undefined || last === undefined) return null
  const act = async (text: string, run: () => Promise<unknown>) => {
    try {
      await run()
      showToast({ text })
    } catch (error) {
      showToast({ text: errorText(error), tone: 'error' })
    }
  }
  const id = last.event.id
  const params = { conversation_id: conversationId ?? '' }
  const fork = async () => {
    const copy = await agentServer.call('forkConversation', { params, body: { from_event_id: id ?? null } })
    await navigate({ to: '/c/$id', params: { id: copy.id } })
  }
  const goBack = () => agentServer.call('navigateConversation', { params, body: { event_id: id ?? null } })
  const link = () => {
    const address = new URL(location.href)
    address.hash = String(first.position)
    return navigator.clipboard.writeText(address.href)
  }
  const json = events.map(({ event }) => jsonText(event)).join('\n')
  return (
    <div className="row-menu">
      <Menu
        label={`Actions of event ${first.position}`}
        button={<Icon name="more" />}
        items={[
          { label: 'Copy link', run: () => void act('Link copied', link) },
          {
            label: 'Copy as Markdown',
            run: () => void act('Markdown copied', () => navigator.clipboard.writeText(toMarkdown(events))),
          },
          { label: 'Show JSON', run: () => setJsonOpen(true) },
          ...(canSteer && id !== undefined && conversationId !== undefined
            ? [
                { label: 'Fork from here', run: () => void act('Forked', fork) },
                {
                  label: 'Continue from here',
                  run: () => void act('The next message follows this event', goBack),
                },
              ]
            : []),
        ]}
      />
      {isJsonOpen && (
        <Dialog title={`Event ${first.position}`} onClose={() => setJsonOpen(false)} isWide>
          <button
            type="button"
            onClick={() => void act('JSON copied', () => navigator.clipboard.writeText(json))}
          >
            <Icon name="copy" /> Copy
          </button>
          <LongText text={json} />
        </Dialog>
      )}
    </div>
  )
}
