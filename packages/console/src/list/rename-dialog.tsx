import { type FormEvent, useState } from 'react'
import { refresh, useAction } from '../api/queries.ts'
import { agentServer } from '../api/session.ts'
import { Dialog } from '../ui/dialog.tsx'

export function RenameDialog(props: {
  readonly id: string
  readonly title: string
  readonly onClose: () => void
}) {
  const { id, onClose } = props
  const [title, setTitle] = useState(props.title)
  const rename = useAction(
    ['conversation', id],
    () => agentServer.call('patchConversation', { params: { conversation_id: id }, body: { title } }),
    () => {
      onClose()
      void refresh('conversations')
    },
  )
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (title.trim() !== '') rename.mutate()
  }
  return (
    <Dialog title="Rename" onClose={onClose}>
      <form onSubmit={submit} className="stack">
        <label htmlFor="title">Title</label>
        <input
          id="title"
          value={title}
          maxLength={200}
          required
          onChange={(event) => setTitle(event.target.value)}
        />
        <div className="buttons">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="primary" disabled={rename.isPending}>
            Rename
          </button>
        </div>
      </form>
    </Dialog>
  )
}
