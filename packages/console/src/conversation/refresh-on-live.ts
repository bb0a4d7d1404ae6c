import { useCallback, useEffect, useRef } from 'react'
import type { LogEvent } from '../api/log.ts'
import { refresh } from '../api/queries.ts'

/**
 * For `LogView`: what is known of the conversation is read again when events arrive; many make one request.
 */
export function useRefreshOnLive(name: string, id: string): (events: readonly LogEvent[]) => void {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => () => clearTimeout(timer.current), [])
  return useCallback(
    (events) => {
      if (events.length === 0 || timer.current !== undefined) return
      timer.current = setTimeout(() => {
        timer.current = undefined
        void refresh(name, id)
      }, 300)
    },
    [name, id],
  )
}
