import { type ReactNode, useEffect, useState } from 'react'

/** A part that opens and closes; what it holds exists only while it is open. */
export function Fold(props: {
  readonly summary: ReactNode
  readonly isOpen: boolean
  readonly className?: string
  readonly children: ReactNode
}) {
  const { summary, isOpen, className = 'fold', children } = props
  const [isShown, setShown] = useState(isOpen)
  useEffect(() => setShown(isOpen), [isOpen])
  return (
    <details className={className} open={isShown} onToggle={(event) => setShown(event.currentTarget.open)}>
      <summary>{summary}</summary>
      {isShown && children}
    </details>
  )
}
