import { Dialog } from '../ui/dialog.tsx'

const groups: readonly (readonly [string, readonly (readonly [string, string])[]])[] = [
  [
    'Everywhere',
    [
      ['?', 'This sheet'],
      ['g c', 'Conversations'],
      ['g s', 'Settings'],
      ['n', 'New conversation'],
    ],
  ],
  [
    'Conversations',
    [
      ['/', 'Search'],
      ['j, k', 'Next and previous'],
      ['Enter', 'Open'],
      ['e', 'Rename'],
      ['#', 'Delete; can be undone for some seconds'],
    ],
  ],
  [
    'One conversation',
    [
      ['j, k', 'Next and previous step'],
      ['g g, G', 'First and last event'],
      ['x', 'Expand or collapse all'],
      ['f', 'Failed steps only'],
      ['/', 'Search'],
      ['m', 'Write a message'],
      ['p', 'Panel beside the log'],
      ['Ctrl Enter', 'Send the message'],
    ],
  ],
]

/** The keyboard shortcuts of all pages. */
export function ShortcutSheet({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose} isWide>
      <div className="columns">
        {groups.map(([title, keys]) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl className="keys">
              {keys.map(([key, meaning]) => (
                <div key={key}>
                  <dt>
                    <kbd>{key}</kbd>
                  </dt>
                  <dd>{meaning}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  )
}

/** Whether a key press belongs to a field or a dialog, and is no shortcut. */
export function isTyping(target: EventTarget | null): boolean {
  const element = target instanceof HTMLElement ? target : undefined
  return element?.closest('input, textarea, select, dialog, [contenteditable]') != null
}
