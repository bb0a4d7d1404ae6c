import { statusLabels } from './list-search.ts'

/** A dot and a word: the colour is never the only sign. */
export function StatusBadge({ status }: { readonly status: string }) {
  return (
    <span className={`status ${status.toLowerCase()}`}>{statusLabels[status.toLowerCase()] ?? status}</span>
  )
}
