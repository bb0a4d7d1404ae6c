import { memo, useEffect, useState } from 'react'
import type { ThemedToken } from 'shiki/core'

/** Longest text that is coloured, in characters; what is longer is shown plain. */
const maxLength = 60_000

/**
 * Source text, coloured when its language is known. The plain text is there at once; the grammar is loaded
 * and the colours follow.
 */
export const Code = memo(function Code(props: {
  readonly text: string
  /** As a grammar is named; undefined: plain. */
  readonly language: string | undefined
  readonly hasLineNumbers?: boolean
}) {
  const { text, language, hasLineNumbers = false } = props
  const lines = useHighlight(text, language)
  const className = hasLineNumbers ? 'output code numbered' : 'output code'
  if (lines === undefined && !hasLineNumbers) return <pre className={className}>{text}</pre>
  const shown: readonly (readonly ThemedToken[])[] =
    lines ?? text.split('\n').map((content) => [{ content, offset: 0 }])
  return (
    <pre className={className}>
      {shown.map((tokens, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines of one fixed text
        <span key={at} className="code-line">
          {tokens.map((token, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the parts of one fixed line
            <span key={index} style={token.color === undefined ? undefined : { color: token.color }}>
              {token.content}
            </span>
          ))}
          {'\n'}
        </span>
      ))}
    </pre>
  )
})

function useHighlight(
  text: string,
  language: string | undefined,
): readonly (readonly ThemedToken[])[] | undefined {
  const [found, setFound] = useState<{ text: string; lines: readonly ThemedToken[][] }>()
  useEffect(() => {
    if (language === undefined || text.length > maxLength) return
    let isCurrent = true
    const run = async () => {
      const { highlight, isLanguage } = await import('./highlight.ts')
      if (!isLanguage(language) || !isCurrent) return
      const lines = await highlight(text, language)
      if (isCurrent) setFound({ text, lines })
    }
    // Without its grammar a text stays plain.
    run().catch(() => {})
    return () => {
      isCurrent = false
    }
  }, [text, language])
  return found?.text === text && language !== undefined ? found.lines : undefined
}
