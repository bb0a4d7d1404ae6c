import { CallError } from '@slipway/client'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { refresh } from '../api/queries.ts'
import { agentServer, errorText } from '../api/session.ts'
import { showToast } from '../api/toasts.ts'

const undoMs = 6_000

/** Delete with some seconds to undo it, and import. `hidden`: what is about to be deleted. */
export function useConversationActions() {
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set())
  const navigate = useNavigate()

  const remove = (id: string, title: string | null) => {
    setHidden((old) => new Set(old).add(id))
    const show = () => setHidden((old) => new Set([...old].filter((one) => one !== id)))
    const timer = setTimeout(() => void finish(), undoMs)
    const finish = async () => {
      try {
        await agentServer.call('deleteConversation', { params: { conversation_id: id } })
      } catch (error) {
        show()
        showToast({ text: `Not deleted: ${errorText(error)}`, tone: 'error' })
      }
      await refresh('conversations')
    }
    const undo = () => {
      clearTimeout(timer)
      show()
    }
    showToast({
      text: `Deleted: ${title ?? 'Untitled'}`,
      action: { label: 'Undo', run: undo },
      duration: undoMs,
    })
  }

  const importFiles = async (files: readonly File[]) => {
    for (const file of files) {
      try {
        const { conversation_id, imported } = await importFile(file)
        const open = () => void navigate({ to: '/c/$id', params: { id: conversation_id } })
        showToast({ text: `${file.name}: ${imported} events imported`, action: { label: 'Open', run: open } })
      } catch (error) {
        showToast({ text: `${file.name}: ${errorText(error)}`, tone: 'error', duration: 15_000 })
      }
    }
    await refresh('conversations')
  }

  return { hidden, remove, importFiles }
}

async function importFile(file: File): Promise<{ conversation_id: string; imported: number }> {
  try {
    return await agentServer.importEvents(file)
  } catch (error) {
    // Logs of other versions have their own kinds and members.
    if (!(error instanceof CallError && error.status === 422)) throw error
    return await agentServer.importEvents(file, { unknown: 'keep' })
  }
}

/** Saves the log of a conversation as a file, one event a line. */
export async function exportConversation(id: string): Promise<void> {
  try {
    const response = await agentServer.open('exportConversation', {
      params: { conversation_id: id },
      query: { meta: 'true' },
    })
    saveFile(await response.blob(), `${id}.jsonl`)
  } catch (error) {
    showToast({ text: `Not exported: ${errorText(error)}`, tone: 'error' })
  }
}

/** Gives a file to the browser's downloads. */
export function saveFile(blob: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}
