import { Store } from './store.ts'

interface Toast {
  readonly text: string
  readonly tone?: 'plain' | 'error'
  /** A button, for example to undo. */
  readonly action?: { readonly label: string; readonly run: () => void }
  /** Milliseconds; 6,000 by default. */
  readonly duration?: number
}

export const toasts = new Store<readonly (Toast & { readonly id: number })[]>([])
let nextId = 1

/** Shows a message for some seconds; returns a function that takes it away. */
export function showToast(toast: Toast): () => void {
  const id = nextId++
  const remove = () => toasts.set(toasts.get().filter((one) => one.id !== id))
  toasts.set([...toasts.get(), { ...toast, id }])
  setTimeout(remove, toast.duration ?? 6_000)
  return remove
}
