import { type ReactNode, useEffect, useId, useRef } from 'react'
import { Icon } from './icon.tsx'

/** A modal dialog of the browser: it keeps the focus, and Escape closes it. Shown while it is rendered. */
export function Dialog(props: {
  readonly title: string
  readonly onClose: () => void
  readonly children: ReactNode
  readonly isWide?: boolean
}) {
  const { title, onClose, children, isWide = false } = props
  const element = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  useEffect(() => {
    const dialog = element.current
    if (dialog !== null && !dialog.open) dialog.showModal()
    return () => dialog?.close()
  }, [])
  return (
    <dialog
      ref={element}
      className={isWide ? 'dialog wide' : 'dialog'}
      aria-labelledby={titleId}
      onCancel={onClose}
      onClose={onClose}
    >
      <header>
        <h2 id={titleId}>{title}</h2>
        <button type="button" className="ghost" aria-label="Close" onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      <div className="dialog-body">{children}</div>
    </dialog>
  )
}
