import type { ReactNode } from 'react'
import { errorText } from '../api/session.ts'
import { Icon, type IconName } from './icon.tsx'

/** A page or a list that has nothing to show, and what to do about it. */
export function EmptyState(props: {
  readonly icon: IconName
  readonly title: string
  readonly children?: ReactNode
}) {
  return (
    <div className="state">
      <Icon name={props.icon} />
      <h2>{props.title}</h2>
      {props.children}
    </div>
  )
}

export function Loading({ label = 'Loading' }: { readonly label?: string }) {
  return (
    <div className="state quiet" role="status">
      <span className="spinner" aria-hidden="true" />
      <span>{label} …</span>
    </div>
  )
}

export function ErrorState({ error, retry }: { readonly error: unknown; readonly retry?: () => void }) {
  return (
    <div className="state" role="alert">
      <Icon name="warn" />
      <h2>That did not work</h2>
      <p className="wrap">{errorText(error)}</p>
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  )
}
