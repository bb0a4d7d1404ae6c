import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ModelView, modelViewQuery } from '../log/model-view.ts'
import { Fold } from '../ui/fold.tsx'
import { formatCompact, formatNumber } from '../ui/format.ts'
import { EmptyState, ErrorState, Loading } from '../ui/states.tsx'
import { Facts } from './facts.tsx'
import type { PanelProps } from './panel-props.ts'

/** Links of one list that are shown; a long log without condensations has few. */
const maxLinks = 200

/** What the model sees: which events, what is shortened, and the summaries of the others. */
export function ContextPanel({ id, info }: PanelProps) {
  const view = useQuery(modelViewQuery(id, info.updated_at))
  if (view.isPending) return <Loading />
  if (view.isError) return <ErrorState error={view.error} />
  const { message_count, estimated_tokens, ranges, shortened_positions, summaries } = view.data
  if (message_count === 0) return <EmptyState icon="spark" title="The model sees nothing yet" />
  const facts: readonly (readonly [string, string])[] = [
    ['Messages', formatNumber(message_count)],
    ['Tokens, about', formatCompact(estimated_tokens)],
    ['Events', formatNumber(countEvents(ranges))],
  ]
  return (
    <>
      <Facts facts={facts} />
      {summaries.map(({ position, text }) => (
        <Fold key={position} summary={`Summary of earlier events, at #${formatNumber(position)}`} isOpen>
          <p className="wrap" dir="auto">
            {text}
          </p>
        </Fold>
      ))}
      <PositionLinks id={id} title="The model sees" ranges={ranges} />
      <PositionLinks
        id={id}
        title="Shortened"
        ranges={shortened_positions.map((position) => ({ first: position, last: position }))}
      />
    </>
  )
}

function countEvents(ranges: ModelView['ranges']): number {
  return ranges.reduce((sum, { first, last }) => sum + last - first + 1, 0)
}

function PositionLinks(props: {
  readonly id: string
  readonly title: string
  readonly ranges: ModelView['ranges']
}) {
  const { id, title, ranges } = props
  if (ranges.length === 0) return null
  return (
    <section>
      <h2>{title}</h2>
      <ul className="position-links">
        {ranges.slice(-maxLinks).map(({ first, last }) => (
          <li key={first}>
            <Link to="/c/$id" params={{ id }} search={true} hash={String(first)}>
              #{formatNumber(first)}
              {last > first && ` to #${formatNumber(last)}`}
            </Link>
          </li>
        ))}
      </ul>
      {ranges.length > maxLinks && (
        <p className="quiet">and {formatNumber(ranges.length - maxLinks)} parts before these</p>
      )}
    </section>
  )
}
