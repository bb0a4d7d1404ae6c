import { formatBytes } from '@slipway/shared/text'
import { type ReactNode, useState } from 'react'

const usualFirstPart = 4_000
const growth = 8

/** Shows the first part of a text, and more of it on request: a huge text costs no more than a small one. */
export function LongText(props: {
  readonly text: string
  /** Renders the part; a plain block by default. */
  readonly render?: (part: string) => ReactNode
  /** Length of the first part, in characters. */
  readonly firstPart?: number
}) {
  const { text, render = (part) => <pre className="output">{part}</pre>, firstPart = usualFirstPart } = props
  const [shown, setShown] = useState(firstPart)
  const isCut = text.length > shown * 1.25
  return (
    <>
      {render(isCut ? cutText(text, shown) : text)}
      {isCut && (
        <button type="button" className="link" onClick={() => setShown(shown * growth)}>
          Show more ({formatBytes(text.length - shown)} hidden)
        </button>
      )}
    </>
  )
}

/** The first characters of a text, without half a character at the end. */
function cutText(text: string, length: number): string {
  const part = text.slice(0, length)
  return /[\uD800-\uDBFF]$/.test(part) ? part.slice(0, -1) : part
}
