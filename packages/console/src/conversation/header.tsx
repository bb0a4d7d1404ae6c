import type { CallOutput } from '@slipway/client'
import { useMutation, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { conversationQuery, profilesQuery, useAction } from '../api/queries.ts'
import { agentServer } from '../api/session.ts'
import { showToast } from '../api/toasts.ts'
import { exportConversation } from '../list/actions.ts'
import { conversationCost, modelName } from '../list/conversation-facts.ts'
import { RenameDialog } from '../list/rename-dialog.tsx'
import { StatusBadge } from '../list/status-badge.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { formatCost } from '../ui/format.ts'
import { Icon } from '../ui/icon.tsx'
import { Menu } from '../ui/menu.tsx'
import { RichText } from '../ui/rich-text.tsx'
import { setPlanMode } from './plan-bar.tsx'

type Info = CallOutput<'getConversation'>
type OpenDialog = 'rename' | 'ask' | 'model' | undefined

/** Title, state and cost of the conversation, and what can be done with the whole of it. */
export function ConversationHeader(props: {
  readonly id: string
  readonly info: Info | undefined
  readonly isPanelOpen: boolean
  readonly togglePanel: () => void
}) {
  const { id, info, isPanelOpen, togglePanel } = props
  const [open, setOpen] = useState<OpenDialog>()
  const close = () => setOpen(undefined)
  const condense = useMutation({
    mutationFn: () => agentServer.call('condenseConversation', { params: { conversation_id: id } }),
    onSuccess: () => showToast({ text: 'Condensed: the model sees a summary of the earlier events' }),
  })
  const plan = useAction(['conversation', id], (_: undefined) => setPlanMode(id, true))
  const cost = info === undefined ? 0 : conversationCost(info)
  return (
    <div className="conversation-head">
      <h1 dir="auto" className="title">
        {info?.title ?? (info === undefined ? 'Conversation' : 'Untitled')}
      </h1>
      {info !== undefined && <StatusBadge status={info.execution_status} />}
      {info?.forked_from_conversation_id && (
        <Link className="chip" to="/c/$id" params={{ id: info.forked_from_conversation_id }}>
          <Icon name="fork" /> forked
        </Link>
      )}
      <span className="spacer" />
      {info !== undefined && (
        <span className="quiet facts">
          {modelName(info)} {cost > 0 && formatCost(cost)}
        </span>
      )}
      <button
        type="button"
        className="ghost"
        aria-pressed={isPanelOpen}
        aria-label="Panel"
        onClick={togglePanel}
      >
        <Icon name="panel" />
      </button>
      <Menu
        label="Actions of the conversation"
        button={<Icon name="more" />}
        items={[
          { label: 'Rename', run: () => setOpen('rename') },
          { label: 'Ask aside', run: () => setOpen('ask') },
          { label: 'Switch model', run: () => setOpen('model') },
          { label: 'Condense now', run: () => condense.mutate() },
          ...(info?.plan_mode === true ? [] : [{ label: 'Plan first', run: () => plan.mutate(undefined) }]),
          { label: 'Export', run: () => void exportConversation(id) },
        ]}
      />
      {open === 'rename' && <RenameDialog id={id} title={info?.title ?? ''} onClose={close} />}
      {open === 'ask' && <AskDialog id={id} onClose={close} />}
      {open === 'model' && <ModelDialog id={id} onClose={close} />}
    </div>
  )
}

/** A question that the model answers from the conversation, and that leaves the log as it is. */
function AskDialog({ id, onClose }: { readonly id: string; readonly onClose: () => void }) {
  const ask = useMutation({
    mutationFn: (question: string) =>
      agentServer.call('askAgent', { params: { conversation_id: id }, body: { question } }),
  })
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    ask.mutate(String(new FormData(event.currentTarget).get('question')))
  }
  return (
    <Dialog title="Ask aside" onClose={onClose} isWide>
      <form className="stack" onSubmit={submit}>
        <label htmlFor="question">
          The model answers from what it sees; the conversation stays as it is.
        </label>
        <textarea id="question" name="question" rows={3} required />
        <div className="buttons">
          <button type="submit" className="primary" disabled={ask.isPending}>
            {ask.isPending ? 'Asking …' : 'Ask'}
          </button>
        </div>
      </form>
      {ask.data && <RichText text={ask.data.response} />}
    </Dialog>
  )
}

function ModelDialog({ id, onClose }: { readonly id: string; readonly onClose: () => void }) {
  const profiles = useQuery(profilesQuery)
  const change = useAction(
    conversationQuery(id).queryKey,
    (name: string) =>
      agentServer.call('switchProfile', { params: { conversation_id: id }, body: { profile_name: name } }),
    (_, name) => {
      showToast({ text: `Continues with ${name}` })
      onClose()
    },
  )
  return (
    <Dialog title="Switch model" onClose={onClose}>
      {profiles.data?.profiles.length === 0 && (
        <p>
          There are no profiles of models yet. <Link to="/settings">Add one in the settings.</Link>
        </p>
      )}
      <ul className="choices">
        {profiles.data?.profiles.map(({ name, model }) => (
          <li key={name}>
            <button type="button" onClick={() => change.mutate(name)} disabled={change.isPending}>
              <strong>{name}</strong> <span className="quiet">{model}</span>
            </button>
          </li>
        ))}
      </ul>
    </Dialog>
  )
}
