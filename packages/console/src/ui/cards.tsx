import type { ReactNode } from 'react'

interface Card {
  /** The name of what the card is for. */
  readonly key: string
  readonly title: ReactNode
  readonly detail: ReactNode
  /** Before the button that deletes. */
  readonly buttons?: ReactNode
}

/** Named things with what can be done with each; all can be deleted. */
export function Cards(props: { readonly cards: readonly Card[]; readonly remove: (key: string) => void }) {
  return (
    <ul className="cards">
      {props.cards.map(({ key, title, detail, buttons }) => (
        <li key={key} className="card">
          <div>
            {title}
            <p className="quiet wrap">{detail}</p>
          </div>
          <div className="buttons">
            {buttons}
            <button
              type="button"
              className="danger"
              aria-label={`Delete ${key}`}
              onClick={() => props.remove(key)}
            >
              Delete
            </button>
          </div>
        </li>
      ))}
    </ul>
  )
}
