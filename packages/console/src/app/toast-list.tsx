import { useSyncExternalStore } from 'react'
import { toasts } from '../api/toasts.ts'

export function ToastList() {
  const list = useSyncExternalStore(toasts.subscribe, toasts.get)
  return (
    <div className="toasts" role="status" aria-live="polite">
      {list.map(({ id, text, tone, action }) => (
        <div key={id} className={`toast ${tone ?? 'plain'}`}>
          <span className="wrap">{text}</span>
          {action && (
            <button
              type="button"
              onClick={() => {
                toasts.set(toasts.get().filter((one) => one.id !== id))
                action.run()
              }}
            >
              {action.label}
            </button>
          )}
        </div>
      ))}
    </div>
  )
}
