import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from 'react'

interface MenuItem {
  readonly label: string
  readonly run: () => void
  readonly isDangerous?: boolean
  readonly isDisabled?: boolean
}

/** A button that opens a menu; arrow keys move, Escape closes and gives the focus back. */
export function Menu(props: {
  readonly label: string
  readonly button: ReactNode
  readonly items: readonly MenuItem[]
  readonly className?: string
}) {
  const { label, button, items, className = 'ghost' } = props
  const [isOpen, setOpen] = useState(false)
  const root = useRef<HTMLSpanElement>(null)
  const trigger = useRef<HTMLButtonElement>(null)
  const id = useId()
  useEffect(() => {
    if (!isOpen) return
    root.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus()
    const close = (event: Event) => {
      if (!root.current?.contains(event.target as Node)) setOpen(false)
    }
    document.addEventListener('pointerdown', close)
    return () => document.removeEventListener('pointerdown', close)
  }, [isOpen])
  const move = (event: KeyboardEvent) => {
    const entries = [...(root.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])]
    const at = entries.indexOf(document.activeElement as HTMLElement)
    const steps: Readonly<Record<string, number>> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }
    const next = steps[event.key]
    if (event.key === 'Escape' || event.key === 'Tab') {
      setOpen(false)
      if (event.key === 'Escape') trigger.current?.focus()
    } else if (next !== undefined) {
      event.preventDefault()
      entries.at(next % entries.length)?.focus()
    }
    if (event.key !== 'Tab') event.stopPropagation()
  }
  return (
    <span className="menu-root" ref={root}>
      <button
        type="button"
        ref={trigger}
        className={className}
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-controls={id}
        onClick={() => setOpen(!isOpen)}
      >
        {button}
      </button>
      {isOpen && (
        <span className="menu" role="menu" id={id} aria-label={label} tabIndex={-1} onKeyDown={move}>
          {items.map((item) => (
            <button
              key={item.label}
              type="button"
              role="menuitem"
              tabIndex={-1}
              className={item.isDangerous ? 'danger' : ''}
              disabled={item.isDisabled ?? false}
              onClick={() => {
                setOpen(false)
                trigger.current?.focus()
                item.run()
              }}
            >
              {item.label}
            </button>
          ))}
        </span>
      )}
    </span>
  )
}
