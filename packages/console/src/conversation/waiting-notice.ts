import type { CallOutput } from '@slipway/client'
import { useEffect, useRef } from 'react'

/** Shows in the title of the page what the conversation does, and notifies when it waits unseen. */
export function useWaitingNotice(info: CallOutput<'getConversation'> | undefined): void {
  const isWaiting = info?.execution_status === 'waiting_for_confirmation'
  const isRunning = info?.execution_status === 'running'
  const name = info?.title ?? 'Conversation'
  const lastId = useRef<string>(undefined)
  useEffect(() => {
    document.title = `${isWaiting ? '(!) ' : isRunning ? '▸ ' : ''}${name} · Slipway`
    return () => {
      document.title = 'Slipway'
    }
  }, [isWaiting, isRunning, name])
  useEffect(() => {
    const key = isWaiting ? info?.updated_at : undefined
    if (key === undefined || key === lastId.current) return
    lastId.current = key
    if (!document.hidden || !('Notification' in window) || Notification.permission !== 'granted') return
    const notice = new Notification('The agent asks before it acts', { body: name, tag: info?.id ?? '' })
    notice.onclick = () => window.focus()
  }, [isWaiting, info?.updated_at, info?.id, name])
}
